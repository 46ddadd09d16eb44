#!/bin/sh
# The CUDA kernels under NVIDIA's compute-sanitizer: a part of the tests of every operator on a GPU, once under each tool.
#
#   sh cmake/sanitize_cuda.sh [BUILD [TOOL...]]    BUILD holds tests/test_runtime_cuda; TOOL: memcheck racecheck initcheck synccheck
#
# The part is of kernels that share memory among threads. TESTS names another one, patterns with | between them, and SG_SHARD=i/n
# takes each n-th test from the i-th. What a tool says lands in BUILD/sanitize/TOOL.txt. Skipped, with the reason and exit code 77,
# where there is no GPU or no compute-sanitizer.
set -u
build=${1:-build}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- memcheck racecheck initcheck synccheck
program=$build/tests/test_runtime_cuda
tests="*second order: attention*heads inside|*second order: attention*all options|*second order: layer_norm*plain"
tests="$tests|*second order: rms_norm*one|*second order: batch_norm*large, images|cuda values: matmul*"
tests="${TESTS:-$tests|cuda second order: softmax_cross_entropy*}"

skip() {
    echo "skipped: $1"
    exit 77
}

command -v compute-sanitizer >/dev/null || skip "compute-sanitizer, a part of the CUDA Toolkit, is not in PATH"
[ -x "$program" ] || skip "$program is not built"
said=$("$program" 'no such test')
[ $? -ne 77 ] || skip "${said#skipped: }"
mkdir -p "$build/sanitize"

# The tools share the GPU; each is a process of its own and waits mostly for itself.
for tool; do
    log=$build/sanitize/$tool.txt
    (
        IFS='|'
        set -f
        # shellcheck disable=SC2086
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$program" $tests >"$log" 2>&1
        echo $? >"$log.status"
    ) &
done
wait

# racecheck does not follow what blocks of a cluster send each other (st.async, counted where it comes: runtime/cuda/product.cuh), and warns
# of each such product, a kernel `chain`. Races between warps are errors to it, never warnings.
only_sent() {
    [ "$1" = racecheck ] && grep -q 'RACECHECK SUMMARY: .*(0 errors' "$2" && ! grep -q '^\[  FAILED' "$2" &&
        ! grep 'Race reported' "$2" | grep -qv 'Warning: .* at chain+'
}

failed=0
for tool; do
    log=$build/sanitize/$tool.txt
    status=$(cat "$log.status")
    rm -f "$log.status"
    [ "$status" = 0 ] || only_sent "$tool" "$log" || failed=1
    echo "$tool: $(grep -c '^\[       OK' "$log") tests, $(grep 'SUMMARY' "$log" | tail -1 | sed 's/^=* //') (exit code $status)"
    [ "$status" = 0 ] || grep '^========= \(Error\|Invalid\|Uninit\|Race\|Barrier\|Potential\)' "$log" | sort | uniq -c | sort -rn | head -8
done
exit $failed
