#!/bin/sh
# The SEAL-NCE step and prediction here, in JAX and in PyTorch, one after the other on the same machine with two threads; without
# arguments also Hessian products in JAX and here (hvp.sh) and single operators in PyTorch and here (ops.sh).
#   run.sh [SHAPE...]     bibtex, delicious, eurlexev; all three without arguments
# Packages go into build/venv on the first run; PYTHON names another interpreter that has jax and optax.
set -eu
cd "$(dirname "$0")/../.."
for shape in "$@"; do
    case $shape in
    bibtex | delicious | eurlexev) ;;
    *) echo "unknown shape '$shape': bibtex, delicious or eurlexev" >&2 && exit 2 ;;
    esac
done

if [ -z "${PYTHON:-}" ]; then
    PYTHON=build/venv/bin/python
    [ -x build/venv/bin/python ] || python3 -m venv build/venv ||
        { echo "no virtual environment; type: apt-get install python3-venv" >&2 && exit 1; }
    "$PYTHON" -c 'import jax, optax' 2>/dev/null || "$PYTHON" -m pip install -q --disable-pip-version-check numpy jax optax
    "$PYTHON" -c 'import torch' 2>/dev/null ||
        "$PYTHON" -m pip install -q --disable-pip-version-check torch --index-url https://download.pytorch.org/whl/cpu ||
        "$PYTHON" -m pip install -q --disable-pip-version-check torch || true
fi

export OMP_NUM_THREADS=2 JAX_PLATFORMS=cpu
# XLA sizes its thread pool by the processors that the process may use.
two=""
if command -v taskset >/dev/null 2>&1 && [ "$(nproc)" -gt 2 ]; then
    two="taskset -c 0,1"
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
: >"$out/jax.json"
: >"$out/torch.json"

echo "JAX ..." >&2
$two "$PYTHON" benchmarks/peers/jax_step.py "$@" >"$out/jax.json" || echo "JAX is left out: it cannot run here" >&2
if "$PYTHON" -c 'import torch' 2>/dev/null; then
    echo "PyTorch ..." >&2
    $two "$PYTHON" benchmarks/peers/torch_step.py "$@" >"$out/torch.json" || echo "PyTorch is left out: it cannot run here" >&2
else
    echo "PyTorch is left out: it is not installed and pip could not install it" >&2
fi

echo "sealgraph ..." >&2
only=""
[ $# -ne 1 ] || only="--shape $1"
# shellcheck disable=SC2086
for what in step predict; do
    $two build/sealgraph bench $what $only --threads 2 --json >"$out/$what.json"
done
"$PYTHON" benchmarks/peers/compare.py "$out/step.json" "$out/predict.json" jax="$out/jax.json" torch="$out/torch.json"
if [ $# -eq 0 ] && [ -s "$out/jax.json" ]; then
    PYTHON="$PYTHON" sh benchmarks/peers/hvp.sh
fi
if [ $# -eq 0 ] && [ -s "$out/torch.json" ]; then
    PYTHON="$PYTHON" sh benchmarks/peers/ops.sh
fi
