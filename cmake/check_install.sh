#!/bin/sh
# What `cmake --install` leaves under a prefix that is relative: programs of one's own are told absolute paths.
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
exit $status
