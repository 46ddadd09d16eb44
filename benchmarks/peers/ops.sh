#!/bin/sh
# Single operators in PyTorch and here, with two threads: one after the other for each operator, so that both see the machine in
# the same state.
#   ops.sh [WORD...]     operators whose name holds a word; all without arguments
# PYTHON names an interpreter that has torch (run.sh installs one), SEALGRAPH the program.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-build/venv/bin/python}
SEALGRAPH=${SEALGRAPH:-build/sealgraph}
export OMP_NUM_THREADS=2
two=""
if command -v taskset >/dev/null 2>&1 && [ "$(nproc)" -gt 2 ]; then
    two="taskset -c 0,1"
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

n=0
set -- $("$PYTHON" benchmarks/peers/torch_ops.py --names "$@")
[ $# -gt 0 ] || { echo "no operator has such a name" >&2 && exit 2; }
files=""
for op in "$@"; do
    n=$((n + 1))
    echo "$op ..." >&2
    $two "$PYTHON" benchmarks/peers/torch_ops.py "$op" >"$out/torch$n.json"
    $two "$SEALGRAPH" bench ops --only "$op" --threads 2 --json >"$out/ours$n.json"
    files="$files $out/ours$n.json torch=$out/torch$n.json"
done
# shellcheck disable=SC2086
"$PYTHON" benchmarks/peers/compare.py $files
