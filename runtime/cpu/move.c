/* move.c - concat, slice and pad: pieces of memory copied, or set to zero, into a larger or smaller frame. */
#include "runtime/cpu/cpu_kernels.h"

#include "ops/axis_internal.h"
#include "ops/ops_internal.h"

#include <string.h>

/* `outer` runs of `run` bytes; from input `in`, or zeros if that is -1. */
typedef struct piece {
    int32_t in;
    size_t outer, run, from, from_step, to, to_step;
} piece;

typedef struct move {
    int64_t count;
    piece piece[];
} move;

/* Bytes of a run that one tile copies. */
#define TILE_BYTES 65536

typedef struct job {
    const piece *p;
    const char *in;
    char *out;
} job;

static size_t run_tiles(const piece *p) { return (p->run + TILE_BYTES - 1) / TILE_BYTES; }

static void copy_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const piece *p = j->p;
    size_t each = run_tiles(p);
    for (size_t t = (size_t)begin; t < (size_t)end; t++) {
        size_t o = t / each, first = t % each * TILE_BYTES;
        size_t bytes = p->run - first < TILE_BYTES ? p->run - first : TILE_BYTES;
        char *to = j->out + p->to + o * p->to_step + first;
        if (j->in)
            memcpy(to, j->in + p->from + o * p->from_step + first, bytes);
        else
            memset(to, 0, bytes);
    }
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const move *m = l->state;
    for (int64_t i = 0; i < m->count; i++) {
        const piece *p = &m->piece[i];
        if (p->run == 0)
            continue;
        job j = {p, p->in < 0 ? NULL : l->in[p->in], l->out[0]};
        int32_t threads = p->outer * p->run < TILE_BYTES ? 1 : l->threads;
        sg_cpu_parallel(threads, (int64_t)(p->outer * run_tiles(p)), copy_tiles, &j);
    }
    return true;
}

static move *new_move(int64_t count, sg_error *err)
{
    move *m = sg_calloc(1, sizeof *m + (size_t)count * sizeof m->piece[0]);
    if (m)
        m->count = count;
    else
        sg_fail(err, SG_E_MEMORY, "out of memory for copying");
    return m;
}

static sg_kernel finish(const sg_kernel_spec *spec, move *m)
{
    return (sg_kernel){.name = spec->node->op->name, .launch = launch, .state = m, .release = sg_free};
}

static sg_axis_split split(const sg_kernel_spec *spec, const sg_shape *shape)
{
    return sg_split_at(shape, spec->attr[0].i);
}

static sg_status prepare_concat(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    move *m = new_move(spec->n_in, err);
    if (!m)
        return SG_E_MEMORY;
    size_t element = sg_dtype_size(spec->out_dtype[0]), to = 0;
    sg_axis_split y = split(spec, &spec->out_shape[0]);
    for (int32_t k = 0; k < spec->n_in; k++) {
        sg_axis_split x = split(spec, &spec->in_shape[k]);
        size_t run = (size_t)(x.size * x.inner) * element;
        m->piece[k] = (piece){k, (size_t)x.outer, run, 0, run, to, (size_t)(y.size * y.inner) * element};
        to += run;
    }
    *out = finish(spec, m);
    return SG_OK;
}

static sg_status prepare_slice(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    move *m = new_move(1, err);
    if (!m)
        return SG_E_MEMORY;
    sg_axis_split x = split(spec, &spec->in_shape[0]), y = split(spec, &spec->out_shape[0]);
    size_t row = (size_t)x.inner * sg_dtype_size(spec->out_dtype[0]), run = (size_t)y.size * row;
    size_t from = (size_t)sg_slice_place(spec->attr[1].i, x.size) * row;
    m->piece[0] = (piece){0, (size_t)y.outer, run, from, (size_t)x.size * row, 0, run};
    *out = finish(spec, m);
    return SG_OK;
}

static sg_status prepare_pad(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    move *m = new_move(3, err);
    if (!m)
        return SG_E_MEMORY;
    sg_axis_split x = split(spec, &spec->in_shape[0]), y = split(spec, &spec->out_shape[0]);
    size_t row = (size_t)y.inner * sg_dtype_size(spec->out_dtype[0]), frame = (size_t)y.size * row;
    size_t before = (size_t)sg_pad_before(spec->attr, &spec->out_shape[0]) * row, run = (size_t)x.size * row;
    size_t outer = (size_t)y.outer;
    m->piece[0] = (piece){-1, outer, before, 0, 0, 0, frame};
    m->piece[1] = (piece){0, outer, run, 0, run, before, frame};
    m->piece[2] = (piece){-1, outer, frame - before - run, 0, 0, before + run, frame};
    *out = finish(spec, m);
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_move_kernels[] = {
    {&sg_op_concat, NULL, prepare_concat}, {&sg_op_slice, NULL, prepare_slice}, {&sg_op_pad, NULL, prepare_pad}, {0}};
