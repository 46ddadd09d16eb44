#!/bin/sh
# What `cmake --install` leaves under a prefix that is relative: programs of one's own are told absolute paths, and the program
# finds its recipes, also from a configuration that extends one.
# check_install.sh BUILD
set -eu
build=$(cd "$1" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cmake --install "$build" --prefix "a prefix" >install.log || { cat install.log && exit 1; }
status=0

flags=$(PKG_CONFIG_PATH="$(echo "a prefix"/lib*/pkgconfig)" pkg-config --libs sealgraph)
case "$flags" in
*"-rpath,$folder/"*) ;;
*) echo "the path of oneDNN is not absolute: $flags" && status=1 ;;
esac

for recipe in bibtex/cross-entropy.yml mine.yml; do
    echo "extends: bibtex/cross-entropy.yml" >mine.yml
    "a prefix/bin/sealgraph" config show -c $recipe >shown.yml || status=1
    grep -q "labels_xml: bibtex.xml" shown.yml || { echo "$recipe is not the installed recipe" && status=1; }
done
"a prefix/bin/sealgraph" train --help | grep -q "$folder/a prefix/share/sealgraph/recipes" ||
    { echo "help does not tell where recipes are" && status=1; }
"a prefix/bin/sealgraph" config recipes -q | grep -q "^bibtex/cross-entropy.yml " ||
    { echo "the installed recipes are not listed" && status=1; }
exit $status
