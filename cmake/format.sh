#!/bin/sh
# clang-format over every source file; the arguments go to clang-format, -i (in place) if there are none. Headers that are tables keep their own layout by
# `clang-format off` inside them.
set -eu
cd "$(dirname "$0")/.."
tool=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$tool" ]; then
    echo "clang-format is missing; type: apt-get install clang-format" >&2
    exit 1
fi
if [ $# -eq 0 ]; then
    set -- -i
fi
git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.inc' | xargs "$tool" "$@"
