#!/bin/sh
# BERT and the SEAL-NCE step here, in JAX and in PyTorch, one after the other on the same GPU, as one table of medians.
#   run_gpu.sh PROGRAM [PART...]
# PROGRAM: sealgraph, or the build folder that holds it. PARTS, all without arguments: bert step predict, and jax, torch,
# compile (PyTorch's compiler) for the peers. PYTHON names an interpreter that has jax, optax and torch for the GPU. Each
# measurement has a time limit of its own, LIMIT seconds (120): what takes longer is left out. With KEEP, a folder, the JSON stays.
set -eu
program=${1:?usage: run_gpu.sh PROGRAM [bert|step|predict|jax|torch|compile ...]}
shift
[ ! -d "$program" ] || program=$program/sealgraph
parts=${*:-bert step predict jax torch compile}
here=$(dirname "$0")
PYTHON=${PYTHON:-python3} LIMIT=${LIMIT:-120}
export XLA_PYTHON_CLIENT_PREALLOCATE=false
out=${KEEP:-$(mktemp -d)}
[ -n "${KEEP:-}" ] || trap 'rm -rf "$out"' EXIT
mkdir -p "$out"

wants() { case " $parts " in *" $1 "*) true ;; *) false ;; esac; }
# run NAME COMMAND...: standard output to $out/NAME.json, or nothing if it fails or takes too long.
run() {
    name=$1 started=$(date +%s)
    shift
    timeout -k 2 "$LIMIT" "$@" >"$out/$name.json" || { echo "$name: left out, exit $?" >&2 && : >"$out/$name.json"; }
    echo "$name: $(($(date +%s) - started)) s" >&2
}

ours="" peers=""
for what in bert step predict; do
    wants $what || continue
    dtypes=f32,tf32
    [ $what != bert ] || dtypes=bf16
    run $what "$program" bench $what --device cuda --dtype $dtypes --time "${MS:-300}" --json
    [ ! -s "$out/$what.json" ] || ours="$ours $out/$what.json"
done
if wants jax; then
    "$PYTHON" "$here/jax_products.py" 2>/dev/null || echo "JAX cannot run here"
    ! wants bert || run jax_bert "$PYTHON" "$here/jax_bert.py"
    ! wants step || run jax_step "$PYTHON" "$here/jax_step.py"
    peers="jax=$out/jax_bert.json jax=$out/jax_step.json"
fi
if wants torch; then
    for form in eager graph; do
        ! wants bert || run torch_bert_$form "$PYTHON" "$here/torch_bert.py" $form
        flag=$([ $form = eager ] || echo --graph)
        # shellcheck disable=SC2086
        ! wants step || run torch_step_$form "$PYTHON" "$here/torch_step.py" $flag
        peers="$peers torch=$out/torch_bert_$form.json torch=$out/torch_step_$form.json"
    done
fi
if wants compile && wants bert; then
    run torch_bert_compile "$PYTHON" "$here/torch_bert.py" compile train/B32T128 train/B32T256 train/B32T512
    peers="$peers torch=$out/torch_bert_compile.json"
fi
[ -n "$ours" ] || { echo "nothing of sealgraph was measured" >&2 && exit 1; }
# shellcheck disable=SC2086
"$PYTHON" "$here/compare.py" $ours $peers
