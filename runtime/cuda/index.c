/* index.c - gather, scatter_rows, segment_max, one_hot, gather_elements, scatter_elements, and the state of random numbers. */
#include "ops/ops_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/index_internal.h"

typedef struct rows {
    sg_cuda_index s;
    size_t part, room; /* bytes of each of the two arrays of sorted places, and of the sort */
} rows;

static sg_status prepare_rows(sg_device *device, const sg_kernel_spec *spec, sg_cuda_index shape, sg_launch_fn launch,
                              sg_kernel *out, sg_error *err)
{
    rows *r = sg_calloc(1, sizeof *r);
    if (!r)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    r->s = shape;
    r->s.fault = device->fault_at;
    r->s.site = sg_cuda_site_of(device, spec);
    *out = (sg_kernel){.name = spec->node->op->name, .launch = launch, .state = r, .release = sg_free};
    return SG_OK;
}

static sg_cuda_index rows_of(const sg_shape *table, const sg_shape *index, sg_dtype dtype)
{
    sg_axis_split s = sg_split_at(table, 0);
    return (sg_cuda_index){.count = sg_shape_count(index),
                           .rows = s.size,
                           .width = s.inner,
                           .row_bytes = s.inner * (int64_t)sg_dtype_size(dtype)};
}

/* For results without elements: wrong indices are reported all the same. */
static bool only_check(const sg_launch *l, const sg_cuda_index *s, int32_t operand, sg_error *err)
{
    if (s->count == 0)
        return true;
    sg_cuda_check_indices(s, l->in[operand], l->stream);
    return sg_cuda_launched(err);
}

/* ------------------------------------------------------------------------------------------------------- gather */

static bool launch_gather(const sg_launch *l, sg_error *err)
{
    const rows *r = l->state;
    if (r->s.count == 0 || r->s.row_bytes == 0)
        return only_check(l, &r->s, 1, err);
    sg_cuda_gather(&r->s, l->in[1], l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static sg_status prepare_gather(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    sg_cuda_index s = rows_of(&spec->in_shape[0], &spec->in_shape[1], spec->in_dtype[0]);
    return prepare_rows(device, spec, s, launch_gather, out, err);
}

static bool launch_one_hot(const sg_launch *l, sg_error *err)
{
    const rows *r = l->state;
    if (r->s.count == 0 || r->s.rows == 0)
        return only_check(l, &r->s, 0, err);
    sg_cuda_one_hot(&r->s, l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static sg_status prepare_one_hot(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    sg_cuda_index s = {.count = sg_shape_count(&spec->in_shape[0]), .rows = spec->attr[0].i};
    return prepare_rows(device, spec, s, launch_one_hot, out, err);
}

/* ------------------------------------------------------------------------------------- scatter_rows, segment_max */

static bool scatter(const sg_launch *l, bool max, sg_error *err)
{
    const rows *r = l->state;
    if (r->s.rows == 0 || r->s.width == 0)
        return only_check(l, &r->s, 1, err);
    char *places = l->workspace, *room = places + 2 * r->part;
    int32_t *key = (int32_t *)places, *order = (int32_t *)(places + r->part);
    if (r->s.count > 0)
        sg_cuda_sort(&r->s, l->in[1], key, order, room, r->room, l->stream);
    sg_cuda_scatter_rows(&r->s, max, key, order, l->in[0], l->out[0], (float *)room, l->stream);
    return sg_cuda_launched(err);
}

static bool launch_scatter(const sg_launch *l, sg_error *err) { return scatter(l, false, err); }

static bool launch_segment_max(const sg_launch *l, sg_error *err) { return scatter(l, true, err); }

static sg_status prepare_scatter(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    sg_cuda_index s = rows_of(&spec->out_shape[0], &spec->in_shape[1], spec->out_dtype[0]);
    if (s.count >= INT32_MAX || s.rows >= INT32_MAX)
        return sg_fail(err, SG_E_UNSUPPORTED, "%s takes fewer than 2^31 - 1 indices and rows", spec->node->op->name);
    bool sum = spec->node->op == &sg_op_scatter_rows;
    SG_TRY(prepare_rows(device, spec, s, sum ? launch_scatter : launch_segment_max, out, err));
    rows *r = out->state;
    r->part = ((size_t)s.count * sizeof(int32_t) + 255) / 256 * 256;
    r->s.bf16 = spec->in_dtype[0] == SG_BF16;
    r->room = sg_cuda_sort_bytes(s.count, s.rows);
    size_t parts = sg_cuda_scatter_bytes(s.count, s.width); /* made when the sort is done */
    out->workspace = 2 * r->part + (parts > r->room ? parts : r->room);
    return SG_OK;
}

/* ----------------------------------------------------------------------------------------------------- elements */

static bool nothing_there(const sg_cuda_elements *e, bool gather)
{
    return e->outer == 0 || e->inner == 0 || (gather ? e->picks == 0 : e->size == 0);
}

static bool check_elements(const sg_launch *l, const sg_cuda_elements *e, sg_error *err)
{
    sg_cuda_index all = {.count = e->outer * e->picks * e->inner, .rows = e->size, .fault = e->fault, .site = e->site};
    return only_check(l, &all, 1, err);
}

static bool launch_gather_elements(const sg_launch *l, sg_error *err)
{
    const sg_cuda_elements *e = l->state;
    if (nothing_there(e, true))
        return true;
    sg_cuda_gather_elements(e, l->in[1], l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static bool launch_scatter_elements(const sg_launch *l, sg_error *err)
{
    const sg_cuda_elements *e = l->state;
    if (nothing_there(e, false))
        return check_elements(l, e, err);
    sg_cuda_scatter_elements(e, l->in[1], l->in[0], l->out[0], l->stream);
    return sg_cuda_launched(err);
}

static sg_status prepare_elements(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    bool gather = spec->node->op == &sg_op_gather_elements;
    sg_cuda_elements *e = sg_calloc(1, sizeof *e);
    if (!e)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    sg_axis_split s = sg_split_at(gather ? &spec->in_shape[0] : &spec->out_shape[0], spec->attr[0].i);
    *e = (sg_cuda_elements){.outer = s.outer,
                            .size = s.size,
                            .inner = s.inner,
                            .picks = spec->in_shape[1].dim[spec->attr[0].i],
                            .element = (int32_t)sg_dtype_size(spec->in_dtype[0]),
                            .fault = device->fault_at,
                            .site = sg_cuda_site_of(device, spec)};
    *out = (sg_kernel){.name = spec->node->op->name,
                       .launch = gather ? launch_gather_elements : launch_scatter_elements,
                       .state = e,
                       .release = sg_free};
    return SG_OK;
}

/* ----------------------------------------------------------------------------------------------- random numbers */

static bool launch_rng_advance(const sg_launch *l, sg_error *err)
{
    sg_cuda_rng_advance(l->in[0], l->out[0], sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

static sg_status prepare_rng_advance(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device, (void)err;
    static const int32_t in_place[] = {0};
    *out =
        (sg_kernel){.name = spec->node->op->name, .launch = launch_rng_advance, .alias = in_place, .replicates = true};
    return SG_OK;
}

static bool launch_draw_key(const sg_launch *l, sg_error *err)
{
    const uint64_t *stream_of_draw = l->state;
    sg_cuda_draw_key(*stream_of_draw, l->run.repeat, l->in[0], l->out[0], sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

static sg_status prepare_draw_key(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    uint64_t *stream_of_draw = sg_alloc(sizeof *stream_of_draw);
    if (!stream_of_draw)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    *stream_of_draw = (uint64_t)spec->attr[0].i;
    *out = (sg_kernel){.name = spec->node->op->name,
                       .launch = launch_draw_key,
                       .state = stream_of_draw,
                       .release = sg_free,
                       .replicates = true};
    return SG_OK;
}

static bool supports_f32(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

static bool supports_sums(const sg_kernel_spec *spec)
{
    return spec->in_dtype[0] == SG_F32 || spec->in_dtype[0] == SG_BF16;
}

/* What only moves looks at the size of elements. */
static bool supports_words(const sg_kernel_spec *spec) { return sg_dtype_size(spec->in_dtype[0]) <= 4; }

const sg_cuda_kernel sg_cuda_index_kernels[] = {{&sg_op_gather, supports_words, prepare_gather},
                                                {&sg_op_scatter_rows, supports_sums, prepare_scatter},
                                                {&sg_op_segment_max, supports_f32, prepare_scatter},
                                                {&sg_op_one_hot, NULL, prepare_one_hot},
                                                {&sg_op_gather_elements, supports_words, prepare_elements},
                                                {&sg_op_scatter_elements, supports_f32, prepare_elements},
                                                {&sg_op_rng_advance, NULL, prepare_rng_advance},
                                                {&sg_op_draw_key, NULL, prepare_draw_key},
                                                {0}};
