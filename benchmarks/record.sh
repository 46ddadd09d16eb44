#!/bin/sh
# Measure this machine and keep the results: benchmarks/results/CARD-DATE.json (every document of `sealgraph bench`, with the
# card's name, driver, date and commit), .md (the tables) and .svg (the roofline of the operators).
#   record.sh [PART...]      ops, step, predict, hvp, bert; all five without arguments
# DEVICES (cpu,cuda), DTYPES of the operators (f32,bf16), MILLISECONDS a row (100), THREADS of the cpu, SEALGRAPH the program, OUT
# another folder. Files come to their place at the end, whole, and none do if nothing was measured or DEVICES has cuda and this
# machine has not. FROM names a folder of documents measured elsewhere (ops.json, step.json, ..) to keep in place of measuring, with
# CARD, DRIVER and DATE; PEERS one with ratios.txt, what benchmarks/peers/run_gpu.sh printed, which then is part of the page.
set -eu
cd "$(dirname "$0")/.."
SEALGRAPH=${SEALGRAPH:-build/sealgraph}
DEVICES=${DEVICES:-cpu,cuda}
OUT=${OUT:-benchmarks/results}
[ $# -gt 0 ] || set -- ops step predict hvp bert

card=${CARD:-$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -1)} || card=""
[ -n "$card" ] || card=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1)
driver=${DRIVER:-$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -1)} || driver=""
commit=${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}
date=${DATE:-$(date -u +%Y-%m-%d)}
name=$(printf '%s' "$card" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/^-*//; s/-*$//')
base=$OUT/$name-$date
work=$(mktemp -d)
trap 'rm -rf "$work" "$base.tmp$$"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for part in "$@"; do
    case $part in
    ops | step | predict | hvp | bert) ;;
    *) echo "unknown part '$part': ops, step, predict, hvp or bert" >&2 && exit 2 ;;
    esac
done
case ${FROM:+measured}$DEVICES in
measured*) ;;
*cuda*)
    found=$("$SEALGRAPH" version --json)
    case $found in
    *'"usable": true'*) ;;
    *) printf '%s\n' "$found" | sed -n 's/.*"reason": "\(.*\)",*$/no GPU: \1 (DEVICES=cpu measures the processor)/p' >&2 && exit 1 ;;
    esac
    ;;
esac

# One run of each part: the page is written from its JSON.
for part in "$@"; do
    dtypes=f32 devices=$DEVICES plot=""
    case $part in
    ops) dtypes=${DTYPES:-f32,bf16} plot="--plot $work/page.svg" ;;
    step | predict) dtypes=f32,tf32 ;;
    hvp) ;;
    bert) dtypes=bf16 devices=cuda ;;
    esac
    if [ -n "${FROM:-}" ]; then
        [ ! -s "$FROM/$part.json" ] || cp "$FROM/$part.json" "$work/"
        continue
    fi
    echo "$part ..." >&2
    # shellcheck disable=SC2086
    "$SEALGRAPH" bench "$part" --device "$devices" --dtype $dtypes --time "${MILLISECONDS:-100}" --threads "${THREADS:-0}" $plot --json \
        >"$work/$part.json" || { echo "$part: left out" >&2 && rm -f "$work/$part.json"; }
done
set -- "$work"/*.json
[ -e "$1" ] || { echo "nothing was measured" >&2 && exit 1; }
python3 benchmarks/record.py "$work/page" "$card" "$driver" "$date" "$commit" "$work" "${PEERS:-}"
mkdir -p "$OUT"
for end in json md svg; do
    [ -s "$work/page.$end" ] || continue
    cp "$work/page.$end" "$base.tmp$$"
    mv "$base.tmp$$" "$base.$end"
    echo "$base.$end"
done
