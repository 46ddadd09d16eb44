/* transpose.c - permuted axes: either rows copied whole, or, where the last axis of x is not the last of y, square blocks between the
 * two last axes, so that both sides move in cache lines. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/transpose_problem_internal.h"

#include <string.h>

#define BLOCK 32
/* Below this many elements a second thread costs more than it saves. */
#define SERIAL_WORK 16384

typedef struct transpose {
    sg_transpose_problem p;
    size_t element;
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
    for (int32_t i = t->p.rank - 2; i >= 0; i--) {
        if (i == t->p.fast)
            continue;
        *from += at % t->p.dim[i] * t->p.from[i];
        *to += at % t->p.dim[i] * t->p.to[i];
        at /= t->p.dim[i];
    }
}

static void copy_rows(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const transpose *t = j->t;
    size_t bytes = (size_t)t->p.dim[t->p.rank - 1] * t->element;
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
    int32_t last = t->p.rank - 1;
    int64_t n_fast = t->p.dim[t->p.fast], n_last = t->p.dim[last], across = blocks(n_last), down = blocks(n_fast);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t l = tile % across * BLOCK, f = tile / across % down * BLOCK, from, to;
        offsets(t, tile / across / down, &from, &to);
        const char *in = j->in + (size_t)(from + l * t->p.from[last] + f) * t->element;
        char *out = j->out + (size_t)(to + f * t->p.to[t->p.fast] + l) * t->element;
        int64_t nf = n_fast - f < BLOCK ? n_fast - f : BLOCK, nl = n_last - l < BLOCK ? n_last - l : BLOCK;
        if (t->element == 4)
            copy_block(4, in, t->p.from[last], out, t->p.to[t->p.fast], nf, nl);
        else
            copy_block(1, in, t->p.from[last], out, t->p.to[t->p.fast], nf, nl);
    }
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const transpose *t = l->state;
    job j = {t, l->in[0], l->out[0]};
    int32_t last = t->p.rank - 1;
    int64_t count = t->p.outer * t->p.dim[last] * (t->p.fast == last ? 1 : t->p.dim[t->p.fast]);
    int32_t threads = count < SERIAL_WORK ? 1 : l->threads;
    if (count == 0)
        return true;
    if (t->p.fast == last)
        sg_cpu_parallel(threads, t->p.outer, copy_rows, &j);
    else
        sg_cpu_parallel(threads, t->p.outer * blocks(t->p.dim[last]) * blocks(t->p.dim[t->p.fast]), copy_blocks, &j);
    return true;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    transpose *t = sg_calloc(1, sizeof *t);
    if (!t)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a transpose");
    t->element = sg_dtype_size(spec->out_dtype[0]);
    t->p = sg_transpose_describe(spec);
    *out = (sg_kernel){.name = "transpose", .launch = launch, .state = t, .release = sg_free};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    size_t element = sg_dtype_size(spec->in_dtype[0]);
    return element == 4 || element == 1;
}

const sg_cpu_kernel sg_cpu_transpose_kernels[] = {{&sg_op_transpose, supports, prepare}, {0}};
