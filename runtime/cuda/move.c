/* move.c - concat, slice and pad as pieces of memory copied, or set to zero, into a larger or smaller frame. */
#include "ops/axis_internal.h"
#include "ops/ops_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/move_internal.h"

typedef struct move {
    int32_t count;
    struct {
        int32_t in; /* operand, or -1: zeros */
        sg_cuda_piece piece;
    } part[];
} move;

static bool launch(const sg_launch *l, sg_error *err)
{
    const move *m = l->state;
    for (int32_t first = 0; first < m->count; first += SG_CUDA_MOST_PIECES) {
        sg_cuda_pieces all = {0};
        for (int32_t i = first; i < m->count && all.count < SG_CUDA_MOST_PIECES; i++) {
            sg_cuda_piece *p = &all.piece[all.count++];
            *p = m->part[i].piece;
            p->in = m->part[i].in < 0 ? NULL : l->in[m->part[i].in];
        }
        sg_cuda_move(&all, l->out[0], sg_cuda_where_of(l));
    }
    return sg_cuda_launched(err);
}

static move *new_move(const sg_kernel_spec *spec, int32_t most, sg_kernel *out, sg_error *err)
{
    move *m = sg_calloc(1, sizeof *m + (size_t)most * sizeof m->part[0]);
    if (m)
        *out = (sg_kernel){
            .name = spec->node->op->name, .launch = launch, .state = m, .release = sg_free, .replicates = true};
    else
        sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    return m;
}

/* Pieces without bytes are left out. */
static void add_piece(move *m, int32_t in, sg_cuda_piece piece)
{
    if (piece.outer == 0 || piece.run == 0)
        return;
    m->part[m->count].in = in;
    m->part[m->count++].piece = piece;
}

static sg_axis_split split(const sg_kernel_spec *spec, const sg_shape *shape)
{
    return sg_split_at(shape, spec->attr[0].i);
}

static sg_status prepare_concat(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    move *m = new_move(spec, spec->n_in, out, err);
    if (!m)
        return SG_E_MEMORY;
    int64_t element = (int64_t)sg_dtype_size(spec->out_dtype[0]), to = 0;
    sg_axis_split y = split(spec, &spec->out_shape[0]);
    for (int32_t k = 0; k < spec->n_in; k++) {
        sg_axis_split x = split(spec, &spec->in_shape[k]);
        int64_t run = x.size * x.inner * element;
        add_piece(m, k, (sg_cuda_piece){NULL, x.outer, run, 0, run, to, y.size * y.inner * element});
        to += run;
    }
    return SG_OK;
}

static sg_status prepare_slice(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    move *m = new_move(spec, 1, out, err);
    if (!m)
        return SG_E_MEMORY;
    sg_axis_split x = split(spec, &spec->in_shape[0]), y = split(spec, &spec->out_shape[0]);
    int64_t row = x.inner * (int64_t)sg_dtype_size(spec->out_dtype[0]), run = y.size * row;
    int64_t from = sg_slice_place(spec->attr[1].i, x.size) * row;
    add_piece(m, 0, (sg_cuda_piece){NULL, y.outer, run, from, x.size * row, 0, run});
    return SG_OK;
}

static sg_status prepare_pad(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    move *m = new_move(spec, 3, out, err);
    if (!m)
        return SG_E_MEMORY;
    sg_axis_split x = split(spec, &spec->in_shape[0]), y = split(spec, &spec->out_shape[0]);
    int64_t row = y.inner * (int64_t)sg_dtype_size(spec->out_dtype[0]), frame = y.size * row, run = x.size * row;
    int64_t before = sg_pad_before(spec->attr, &spec->out_shape[0]) * row;
    add_piece(m, -1, (sg_cuda_piece){NULL, y.outer, before, 0, 0, 0, frame});
    add_piece(m, 0, (sg_cuda_piece){NULL, y.outer, run, 0, run, before, frame});
    add_piece(m, -1, (sg_cuda_piece){NULL, y.outer, frame - before - run, 0, 0, before + run, frame});
    return SG_OK;
}

/* Bytes are moved, whatever they stand for. */
static bool supports(const sg_kernel_spec *spec)
{
    (void)spec;
    return true;
}

const sg_cuda_kernel sg_cuda_move_kernels[] = {{&sg_op_concat, supports, prepare_concat},
                                               {&sg_op_slice, supports, prepare_slice},
                                               {&sg_op_pad, supports, prepare_pad},
                                               {0}};
