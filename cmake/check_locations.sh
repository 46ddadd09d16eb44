#!/bin/sh
# Every function of a public header that returns a value of a graph, or takes a scope to build in, is a macro of its folder's
# location.h, so that errors name the line of whoever calls it.
set -eu
cd "$(dirname "$0")/.."
status=0

# What these return exists already, or has the place of the function that calls them.
without=" sg_value_at sg_result_value sg_rewrite_leaf sg_build sg_scope_in "

for folder in graph ops autodiff models; do
    for name in $(sed -nE 's/^(static inline )?(sg_value (sg_[a-z0-9_]+)\(|[a-z0-9_]+ \**(sg_[a-z0-9_]+)\(sg_scope ).*/\3\4/p' $folder/$folder.h); do
        case $without in
        *" $name "*) continue ;;
        esac
        grep -q "^#define $name(\.\.\.) SG_AT" $folder/location.h || { echo "$folder/location.h: $name is missing" && status=1; }
    done
done
exit $status
