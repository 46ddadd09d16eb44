#!/bin/sh
# Fails on an #include that goes against the arrows of docs/architecture.md:
#   graph <- ops <- autodiff <- models <- benchmarks <- cli;  runtime, serialize use graph and ops
# An internal header (*_internal.h) may be used in its own folder and in the folders above it; devices (the folders inside
# runtime/) do not see each other; examples see public headers alone; only runtime/ sees oneDNN and CUDA. Every header compiles
# alone, but for lists and templates, which have no include guard: their macros come from the file that includes them.
set -eu
cd "$(dirname "$0")/.."
folders="graph ops autodiff runtime serialize models benchmarks cli"
status=0

fail() {
    echo "$*"
    status=1
}

allowed() {
    case $1 in
    graph) echo graph ;;
    ops) echo "graph ops" ;;
    autodiff) echo "graph ops autodiff" ;;
    runtime) echo "graph ops runtime" ;;
    serialize) echo "graph ops serialize" ;;
    models) echo "graph ops autodiff runtime serialize models" ;;
    benchmarks) echo "graph ops autodiff runtime serialize models benchmarks" ;;
    cli) echo "graph ops autodiff runtime serialize models benchmarks cli" ;;
    examples) echo "graph ops autodiff runtime serialize models" ;;
    esac
}

# Lines FILE:NUMBER:HEADER, one for each #include "HEADER" under the folders given.
includes() {
    grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.c' --include='*.h' --include='*.inc' "$@" |
        sed -E 's/^([^:]*:[0-9]*):[^"]*"([^"]*)".*/\1:\2/' || true
}

for folder in $folders examples; do
    may=$(allowed $folder)
    for line in $(includes $folder); do
        file=${line%%:*} header=${line##*:}
        top=${header%%/*}
        case $header in
        *.pb-c.h) [ $folder = serialize ] || fail "${line%:*}: only serialize/ may include $header" && continue ;;
        */*) ;;
        *) fail "${line%:*}: write \"FOLDER/$header\", not \"$header\"" && continue ;;
        esac
        case " $may " in
        *" $top "*) ;;
        *) fail "${line%:*}: $folder must not include $header" && continue ;;
        esac
        case $folder:$header in
        examples:*_internal.h) fail "${line%:*}: an example uses public headers, not $header" ;;
        runtime:runtime/*/*)
            case ${file%/*} in
            runtime | "${header%/*}") ;;
            *) fail "${line%:*}: a device must not include another's $header" ;;
            esac
            ;;
        esac
    done
done

for folder in $folders; do
    if [ $folder != runtime ] && grep -rnE '#[[:space:]]*include [<"](oneapi|dnnl|cuda|cublas|cudnn|nccl)' $folder; then
        fail "only runtime/ may include oneDNN or CUDA"
    fi
    public=$(ls $folder/*.h 2>/dev/null | grep -cvE '(_internal|location|op_list|option_list)\.h$' || true)
    [ $folder = cli ] || [ "$public" -eq 1 ] || fail "$folder has $public public headers, not one"
done

generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
for proto in serialize/*.proto; do
    [ ! -e "$proto" ] || protoc-c --proto_path=serialize --c_out="$generated" "$proto"
done
for header in $(find $folders -name '*.h' ! -name location.h | sort); do
    if ! grep -q '^#ifndef SG_[A-Z0-9_]*_H$' "$header"; then
        case $header in
        *_internal.h) fail "$header has no include guard" ;;
        esac
        continue
    fi
    "${CC:-cc}" -std=gnu11 -D_GNU_SOURCE -DSG_VERSION='""' -I. -I"$generated" -Ibuild/deps/onednn/include -Wall -Wextra -Werror \
        -fsyntax-only -x c "$header" || fail "$header does not compile alone"
done
exit $status
