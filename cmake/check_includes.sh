#!/bin/sh
# Fails on an #include that goes against the arrows of docs/architecture.md, on an internal header used from a folder below
# its own, on oneDNN or CUDA outside runtime/, and on a header that does not compile alone.
#   graph <- ops <- autodiff <- models <- cli;  runtime, serialize use graph and ops
set -eu
cd "$(dirname "$0")/.."

allowed() {
    case $1 in
    graph) echo graph ;;
    ops) echo "graph ops" ;;
    autodiff) echo "graph ops autodiff" ;;
    runtime) echo "graph ops runtime" ;;
    serialize) echo "graph ops serialize" ;;
    models) echo "graph ops autodiff runtime serialize models" ;;
    cli) echo "graph ops autodiff runtime serialize models cli" ;;
    esac
}

status=0
for folder in graph ops autodiff runtime serialize models cli; do
    may=$(allowed $folder)
    for line in $(grep -rnoE '#include "(graph|ops|autodiff|runtime|serialize|models|cli|tests|benchmarks)/' \
        --include='*.c' --include='*.h' --include='*.inc' $folder | tr -d ' "' || true); do
        target=${line##*#include}
        case " $may " in
        *" ${target%/} "*) ;;
        *) echo "${line%%:#*}: $folder must not include $target" && status=1 ;;
        esac
    done
    if [ $folder != runtime ] && grep -rnE '#include [<"](oneapi|dnnl|cuda|cublas|cudnn|nccl)' $folder; then
        echo "only runtime/ may include oneDNN or CUDA" && status=1
    fi
    public=$(ls $folder/*.h 2>/dev/null | grep -cvE '(_internal|location|op_list|kernels)\.h$' || true)
    [ "$folder" = cli ] || [ "$public" -eq 1 ] || { echo "$folder has $public public headers, not one" && status=1; }
done

for header in $(find graph ops autodiff runtime serialize models cli -name '*.h' ! -name op_list.h ! -name location.h); do
    cc -std=gnu11 -D_GNU_SOURCE -DSG_VERSION='""' -I. -Ibuild/deps/onednn/include -Wall -Wextra -Werror \
        -fsyntax-only -x c "$header" || { echo "$header does not compile alone" && status=1; }
done
exit $status
