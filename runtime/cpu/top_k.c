/* top_k.c - places of the k largest elements of each row, by a heap of k candidates whose worst is on top. */
#include "runtime/cpu/cpu_kernels.h"

#include "ops/ops_internal.h"

#include <math.h>
#include <string.h>

/* Below this many elements a second thread costs more than it saves. */
#define SERIAL_WORK 8192

typedef struct top_k {
    int64_t outer, size, inner, k;
    size_t scratch; /* of one thread: a heap of places */
} top_k;

/* Elements of one row, a stride apart. */
typedef struct row {
    const float *x;
    int64_t stride;
} row;

/* Does place a rank before place b? Larger values first, NaN before all, then the lower place. */
static bool before(row r, int32_t a, int32_t b)
{
    float x = r.x[a * r.stride], y = r.x[b * r.stride];
    if (isnan(x) || isnan(y))
        return isnan(x) && (!isnan(y) || a < b);
    return x > y || (x == y && a < b);
}

/* Restore the heap order below position i: no child ranks behind its parent. */
static void sift_down(row r, int32_t *heap, int64_t n, int64_t i)
{
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(r, heap[child], heap[child + 1]))
            child++;
        if (before(r, heap[child], heap[i]))
            return;
        int32_t swap = heap[i];
        heap[i] = heap[child];
        heap[child] = swap;
    }
}

/* The first k places make a heap; every later one that ranks before the worst replaces it. Taking the worst away again and
 * again leaves the places in order. */
static void select_row(row r, int64_t size, int64_t k, int32_t *heap)
{
    for (int64_t i = 0; i < k; i++)
        heap[i] = (int32_t)i;
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sift_down(r, heap, k, i);
    for (int64_t i = k; i < size; i++)
        if (before(r, (int32_t)i, heap[0])) {
            heap[0] = (int32_t)i;
            sift_down(r, heap, k, 0);
        }
    for (int64_t n = k - 1; n > 0; n--) {
        int32_t worst = heap[0];
        heap[0] = heap[n];
        heap[n] = worst;
        sift_down(r, heap, n, 0);
    }
}

typedef struct job {
    const top_k *t;
    const float *in;
    int32_t *out;
    char *scratch;
} job;

static void run_rows(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const top_k *t = j->t;
    int32_t *heap = (int32_t *)(j->scratch + (size_t)thread * t->scratch);
    for (int64_t i = begin; i < end; i++) {
        int64_t o = i / t->inner, column = i % t->inner;
        row r = {j->in + o * t->size * t->inner + column, t->inner};
        select_row(r, t->size, t->k, heap);
        int32_t *out = j->out + o * t->k * t->inner + column;
        for (int64_t n = 0; n < t->k; n++)
            out[n * t->inner] = heap[n];
    }
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const top_k *t = l->state;
    job j = {t, l->in[0], l->out[0], l->workspace};
    int32_t threads = t->outer * t->size * t->inner < SERIAL_WORK ? 1 : l->threads;
    if (t->k > 0)
        sg_cpu_parallel(threads, t->outer * t->inner, run_rows, &j);
    return true;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    sg_axis_split x = sg_split_at(&spec->in_shape[0], spec->attr[0].i);
    if (x.size > INT32_MAX)
        return sg_fail(err, SG_E_UNSUPPORTED, "top_k takes rows of at most 2^31 - 1 elements");
    top_k *t = sg_calloc(1, sizeof *t);
    if (!t)
        return sg_fail(err, SG_E_MEMORY, "out of memory for top_k");
    *t = (top_k){.outer = x.outer, .size = x.size, .inner = x.inner, .k = spec->attr[1].i};
    t->scratch = sg_cpu_line((size_t)t->k * sizeof(int32_t));
    *out = (sg_kernel){.name = "top_k", .launch = launch, .state = t, .release = sg_free};
    out->workspace = t->scratch * (size_t)spec->threads;
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

const sg_cpu_kernel sg_cpu_top_k_kernels[] = {{&sg_op_top_k, supports, prepare}, {0}};
