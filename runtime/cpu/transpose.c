/* transpose.c - permuted axes. Axes that stay neighbours are merged; what is left is either rows copied whole, or, where the
 * last axis of x is not the last of y, square blocks between the two last axes, so that both sides move in cache lines. */
#include "runtime/cpu/cpu_kernels.h"

#include <string.h>

#define BLOCK 32
/* Below this many elements a second thread costs more than it saves. */
#define SERIAL_WORK 16384

typedef struct transpose {
    size_t element;
    int32_t rank;                                                 /* of y after merging */
    int64_t dim[SG_MAX_RANK], from[SG_MAX_RANK], to[SG_MAX_RANK]; /* sizes of y; strides in x and in y */
    int32_t fast;                                                 /* axis of y that is contiguous in x */
    int64_t outer;                                                /* positions of all axes but `fast` and the last */
} transpose;

typedef struct job {
    const transpose *t;
    const char *in;
    char *out;
} job;

/* Offsets of position `at` of the axes other than `fast` and the last. */
static void offsets(const transpose *t, int64_t at, int64_t *from, int64_t *to)
{
    *from = *to = 0;
    for (int32_t i = t->rank - 2; i >= 0; i--) {
        if (i == t->fast)
            continue;
        *from += at % t->dim[i] * t->from[i];
        *to += at % t->dim[i] * t->to[i];
        at /= t->dim[i];
    }
}

static void copy_rows(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const transpose *t = j->t;
    size_t bytes = (size_t)t->dim[t->rank - 1] * t->element;
    for (int64_t at = begin; at < end; at++) {
        int64_t from, to;
        offsets(t, at, &from, &to);
        memcpy(j->out + (size_t)to * t->element, j->in + (size_t)from * t->element, bytes);
    }
}

/* One block: y[f, l] = x[l, f] for `n_fast` f and `n_last` l. */
static inline __attribute__((always_inline)) void copy_block(size_t element, const char *in, int64_t from_last,
                                                             char *out, int64_t to_fast, int64_t n_fast, int64_t n_last)
{
    for (int64_t f = 0; f < n_fast; f++)
        for (int64_t l = 0; l < n_last; l++)
            memcpy(out + (size_t)(f * to_fast + l) * element, in + (size_t)(l * from_last + f) * element, element);
}

static int64_t blocks(int64_t n) { return (n + BLOCK - 1) / BLOCK; }

static void copy_blocks(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const transpose *t = j->t;
    int32_t last = t->rank - 1;
    int64_t n_fast = t->dim[t->fast], n_last = t->dim[last], across = blocks(n_last), down = blocks(n_fast);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t l = tile % across * BLOCK, f = tile / across % down * BLOCK, from, to;
        offsets(t, tile / across / down, &from, &to);
        const char *in = j->in + (size_t)(from + l * t->from[last] + f) * t->element;
        char *out = j->out + (size_t)(to + f * t->to[t->fast] + l) * t->element;
        int64_t nf = n_fast - f < BLOCK ? n_fast - f : BLOCK, nl = n_last - l < BLOCK ? n_last - l : BLOCK;
        if (t->element == 4)
            copy_block(4, in, t->from[last], out, t->to[t->fast], nf, nl);
        else
            copy_block(1, in, t->from[last], out, t->to[t->fast], nf, nl);
    }
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const transpose *t = l->state;
    job j = {t, l->in[0], l->out[0]};
    int32_t last = t->rank - 1;
    int64_t count = t->outer * t->dim[last] * (t->fast == last ? 1 : t->dim[t->fast]);
    int32_t threads = count < SERIAL_WORK ? 1 : l->threads;
    if (count == 0)
        return true;
    if (t->fast == last)
        sg_cpu_parallel(threads, t->outer, copy_rows, &j);
    else
        sg_cpu_parallel(threads, t->outer * blocks(t->dim[last]) * blocks(t->dim[t->fast]), copy_blocks, &j);
    return true;
}

/* Sizes and strides of y's axes, without those of size 1 and with neighbours that move together merged. */
static void merge_axes(transpose *t, const sg_shape *x, const int64_t *order)
{
    int64_t stride[SG_MAX_RANK], step = 1;
    for (int32_t i = x->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= x->dim[i];
    }
    for (int32_t i = 0; i < x->rank; i++) {
        int64_t dim = x->dim[order[i]], from = stride[order[i]];
        if (dim == 1)
            continue;
        if (t->rank > 0 && t->from[t->rank - 1] == dim * from) {
            t->dim[t->rank - 1] *= dim;
            t->from[t->rank - 1] = from;
        } else {
            t->dim[t->rank] = dim;
            t->from[t->rank++] = from;
        }
    }
    if (t->rank == 0) {
        t->dim[0] = t->from[0] = 1;
        t->rank = 1;
    }
    step = 1;
    for (int32_t i = t->rank - 1; i >= 0; i--) {
        t->to[i] = step;
        step *= t->dim[i];
    }
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    transpose *t = sg_calloc(1, sizeof *t);
    if (!t)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a transpose");
    t->element = sg_dtype_size(spec->out_dtype[0]);
    merge_axes(t, &spec->in_shape[0], spec->attr[0].ints);
    t->outer = 1;
    for (int32_t i = 0; i < t->rank; i++)
        if (t->from[i] == 1)
            t->fast = i;
    for (int32_t i = 0; i < t->rank - 1; i++)
        t->outer *= i == t->fast ? 1 : t->dim[i];
    *out = (sg_kernel){.name = "transpose", .launch = launch, .state = t, .release = sg_free};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    size_t element = sg_dtype_size(spec->in_dtype[0]);
    return element == 4 || element == 1;
}

const sg_cpu_kernel sg_cpu_transpose_kernels[] = {{&sg_op_transpose, supports, prepare}, {0}};
