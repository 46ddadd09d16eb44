#!/bin/sh
# Gradients and Hessian products here and in JAX, in turn on the same machine with two threads: three rounds, so that a busy
# minute shows. PYTHON names an interpreter that has jax; SEALGRAPH another program than build/sealgraph.
set -eu
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-build/venv/bin/python}
export OMP_NUM_THREADS=2 JAX_PLATFORMS=cpu
two=""
if command -v taskset >/dev/null 2>&1 && [ "$(nproc)" -gt 2 ]; then
    two="taskset -c 0,1"
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for round in 1 2 3; do
    echo "Hessian products, round $round" >&2
    $two "$PYTHON" benchmarks/peers/jax_hvp.py >"$out/jax.json"
    $two "${SEALGRAPH:-build/sealgraph}" bench hvp --threads 2 --json >"$out/hvp.json"
    "$PYTHON" benchmarks/peers/compare.py "$out/hvp.json" jax="$out/jax.json"
done
