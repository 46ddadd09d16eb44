#!/bin/sh
# Each piece of C in README.md stands in one of examples/, line for line and in order, every example that it names is there, and every
# file that it links to exists.
set -eu
cd "$(dirname "$0")/.."
status=0

pieces=$(grep -c '^```c$' README.md || true)
[ "$pieces" -gt 0 ] || { echo "README.md shows no C" && exit 1; }
for piece in $(seq "$pieces"); do
    shown=$(awk -v piece="$piece" '/^```c$/ { n++; inside = 1; next } /^```$/ { inside = 0 } inside && n == piece' README.md)
    [ -n "$shown" ] || { echo "piece $piece of the C in README.md is empty" && status=1; }
    case "$(cat examples/*.c)" in
    *"$shown"*) ;;
    *) echo "piece $piece of the C in README.md is not a part of any of examples/" && status=1 ;;
    esac
done

for example in $(grep -oE '\bexample_[a-z_]+' README.md); do
    [ -e "examples/${example#example_}.c" ] || { echo "README.md: there is no $example" && status=1; }
done

for file in README.md docs/*.md; do
    for link in $(grep -oE '\]\([^)#:]+[)#]' "$file" | sed -E 's/^\]\((.*).$/\1/'); do
        [ -e "$(dirname "$file")/$link" ] || { echo "$file: $link does not exist" && status=1; }
    done
done
exit $status
