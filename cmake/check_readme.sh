#!/bin/sh
# The C in README.md stands in examples/mlp.c, line for line and in order, and every file that README.md links to exists.
set -eu
cd "$(dirname "$0")/.."
status=0

shown=$(sed -n '/^```c$/,/^```$/{/^```/d;p;}' README.md)
[ -n "$shown" ] || { echo "README.md shows no C" && exit 1; }
case "$(cat examples/mlp.c)" in
*"$shown"*) ;;
*) echo "the C in README.md is not a part of examples/mlp.c" && status=1 ;;
esac

for file in README.md docs/*.md; do
    for link in $(grep -oE '\]\([^)#:]+[)#]' "$file" | sed -E 's/^\]\((.*).$/\1/'); do
        [ -e "$(dirname "$file")/$link" ] || { echo "$file: $link does not exist" && status=1; }
    done
done
exit $status
