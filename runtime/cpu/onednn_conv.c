/* onednn_conv.c - convolutions by oneDNN (version 3 C API), one primitive with the copies into and out of its layouts.
 *
 * As in onednn.c, primitives are created and executed under an OpenMP limit of one: everything runs on the calling thread,
 * and scratch memory is the plan's. Only the direct algorithm is used: Winograd's rounds much worse. */
#include "runtime/cpu/onednn_internal.h"

#include <dnnl.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        dnnl_status_t check_status_ = (call);                                                                          \
        if (check_status_ != dnnl_success)                                                                             \
            return check_status_;                                                                                      \
    } while (0)

enum { X, W, Y, OPERANDS };

/* What a thread binds its pointers to. */
typedef struct slot {
    dnnl_stream_t stream;
    dnnl_memory_t plain[OPERANDS], packed[OPERANDS], scratch;
} slot;

struct sg_onednn_conv {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
    dnnl_memory_desc_t plain[OPERANDS], wanted[OPERANDS];
    dnnl_primitive_desc_t hint, desc; /* hint: of the forward primitive, which gradients ask for */
    const_dnnl_memory_desc_t packed[OPERANDS];
    dnnl_primitive_desc_t reorder_desc[OPERANDS];
    dnnl_primitive_t primitive, reorder[OPERANDS]; /* reorder: NULL where the layouts are the same */
    int result;                                    /* X, W or Y */
    size_t offset[OPERANDS], own, scratch;         /* places in a thread's scratch; `own` is oneDNN's */
    int32_t threads;
    slot *slot;
};

static size_t lines(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

/* ------------------------------------------------------------------------------------------------------ descriptors */

static dnnl_status_t describe_images(sg_onednn_conv *c, int operand, const sg_conv_shape *s)
{
    static const dnnl_format_tag_t tags[] = {dnnl_nchw, dnnl_format_tag_any, dnnl_nhwc};
    int64_t channels = s->groups * (operand == X ? s->in : s->out);
    int64_t rows = operand == X ? s->axis[0].size : s->axis[0].places;
    int64_t cols = operand == X ? s->axis[1].size : s->axis[1].places;
    const dnnl_dims_t dims = {s->images, channels, rows, cols};
    const dnnl_dims_t strides = {operand == X ? s->x_image : s->y_image, rows * cols, cols, 1};
    CHECK(dnnl_memory_desc_create_with_strides(&c->plain[operand], 4, dims, dnnl_f32, strides));
    return dnnl_memory_desc_create_with_tag(&c->wanted[operand], 4, dims, dnnl_f32, tags[s->layout]);
}

/* Weights have a groups axis in front where there are groups. */
static dnnl_status_t describe_weights(sg_onednn_conv *c, const sg_conv_shape *s)
{
    const dnnl_dims_t dims = {s->groups, s->out, s->in, s->axis[0].kernel, s->axis[1].kernel};
    int64_t taps = dims[3] * dims[4];
    const dnnl_dims_t strides = {s->out * s->w_out, s->w_out, taps, s->axis[1].kernel, 1};
    int first = s->groups == 1 ? 1 : 0;
    CHECK(dnnl_memory_desc_create_with_strides(&c->plain[W], 5 - first, dims + first, dnnl_f32, strides + first));
    return dnnl_memory_desc_create_with_tag(&c->wanted[W], 5 - first, dims + first, dnnl_f32, dnnl_format_tag_any);
}

static dnnl_status_t describe_primitive(sg_onednn_conv *c, const sg_conv_shape *s)
{
    const sg_conv_axis *h = &s->axis[0], *v = &s->axis[1];
    const dnnl_dims_t stride = {h->stride, v->stride}, dilation = {h->dilation - 1, v->dilation - 1};
    const dnnl_dims_t before = {h->before, v->before}, after = {h->after, v->after};
    CHECK(dnnl_convolution_forward_primitive_desc_create(&c->hint, c->engine, dnnl_forward_training,
                                                         dnnl_convolution_direct, c->wanted[X], c->wanted[W], NULL,
                                                         c->wanted[Y], stride, dilation, before, after, c->attr));
    if (s->result == SG_CONV_X)
        return dnnl_convolution_backward_data_primitive_desc_create(&c->desc, c->engine, dnnl_convolution_direct,
                                                                    c->wanted[X], c->wanted[W], c->wanted[Y], stride,
                                                                    dilation, before, after, c->hint, c->attr);
    if (s->result == SG_CONV_W)
        return dnnl_convolution_backward_weights_primitive_desc_create(
            &c->desc, c->engine, dnnl_convolution_direct, c->wanted[X], c->wanted[W], NULL, c->wanted[Y], stride,
            dilation, before, after, c->hint, c->attr);
    return dnnl_primitive_desc_clone(&c->desc, c->hint);
}

/* The layouts that the primitive chose. */
static void query_layouts(sg_onednn_conv *c)
{
    c->packed[X] =
        dnnl_primitive_desc_query_md(c->desc, c->result == X ? dnnl_query_diff_src_md : dnnl_query_src_md, 0);
    c->packed[W] =
        dnnl_primitive_desc_query_md(c->desc, c->result == W ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    c->packed[Y] =
        dnnl_primitive_desc_query_md(c->desc, c->result == Y ? dnnl_query_dst_md : dnnl_query_diff_dst_md, 0);
}

/* --------------------------------------------------------------------------------------------------------- creation */

static size_t scratch_of(const_dnnl_primitive_desc_t desc)
{
    const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    return md ? lines(dnnl_memory_desc_get_size(md)) : 0;
}

static dnnl_status_t make_reorder(sg_onednn_conv *c, int operand)
{
    if (dnnl_memory_desc_equal(c->plain[operand], c->packed[operand]))
        return dnnl_success;
    bool out = operand == c->result;
    const_dnnl_memory_desc_t from = out ? c->packed[operand] : c->plain[operand];
    const_dnnl_memory_desc_t to = out ? c->plain[operand] : c->packed[operand];
    CHECK(dnnl_reorder_primitive_desc_create(&c->reorder_desc[operand], from, c->engine, to, c->engine, c->attr));
    return dnnl_primitive_create(&c->reorder[operand], c->reorder_desc[operand]);
}

/* A thread's scratch: its packed operands (but for weights, which threads share), then what oneDNN asks for. */
static void lay_out_scratch(sg_onednn_conv *c)
{
    size_t own = scratch_of(c->desc);
    for (int k = 0; k < OPERANDS; k++) {
        if (!c->reorder[k])
            continue;
        size_t theirs = scratch_of(c->reorder_desc[k]);
        own = theirs > own ? theirs : own;
        c->offset[k] = c->scratch;
        if (k != W || c->result == W)
            c->scratch += lines(dnnl_memory_desc_get_size(c->packed[k]));
    }
    c->own = c->scratch;
    c->scratch += own;
}

static dnnl_status_t make_slot(sg_onednn_conv *c, slot *s)
{
    CHECK(dnnl_stream_create(&s->stream, c->engine, dnnl_stream_default_flags));
    for (int k = 0; k < OPERANDS; k++) {
        CHECK(dnnl_memory_create(&s->plain[k], c->plain[k], c->engine, DNNL_MEMORY_NONE));
        CHECK(dnnl_memory_create(&s->packed[k], c->packed[k], c->engine, DNNL_MEMORY_NONE));
    }
    const dnnl_dims_t bytes = {(int64_t)(c->scratch - c->own)};
    dnnl_memory_desc_t md = NULL;
    CHECK(dnnl_memory_desc_create_with_tag(&md, 1, bytes, dnnl_u8, dnnl_a));
    dnnl_status_t status = dnnl_memory_create(&s->scratch, md, c->engine, DNNL_MEMORY_NONE);
    dnnl_memory_desc_destroy(md);
    return status;
}

static dnnl_status_t make(sg_onednn_conv *c, const sg_conv_shape *s)
{
    CHECK(dnnl_engine_create(&c->engine, dnnl_cpu, 0));
    CHECK(dnnl_primitive_attr_create(&c->attr));
    CHECK(dnnl_primitive_attr_set_fpmath_mode(c->attr, dnnl_fpmath_mode_strict));
    CHECK(dnnl_primitive_attr_set_scratchpad_mode(c->attr, dnnl_scratchpad_mode_user));
    CHECK(describe_images(c, X, s));
    CHECK(describe_images(c, Y, s));
    CHECK(describe_weights(c, s));
    CHECK(describe_primitive(c, s));
    query_layouts(c);
    CHECK(dnnl_primitive_create(&c->primitive, c->desc));
    for (int k = 0; k < OPERANDS; k++)
        CHECK(make_reorder(c, k));
    lay_out_scratch(c);
    for (int32_t t = 0; t < c->threads; t++)
        CHECK(make_slot(c, &c->slot[t]));
    return dnnl_success;
}

sg_status sg_onednn_conv_new(sg_onednn_conv **out, const sg_conv_shape *shape, int32_t threads, sg_error *err)
{
    *out = NULL;
    sg_onednn_conv *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a convolution");
    c->threads = threads;
    c->result = shape->result == SG_CONV_X ? X : shape->result == SG_CONV_W ? W : Y;
    c->slot = sg_calloc(threads, sizeof *c->slot);
    int before = sg_onednn_begin();
    dnnl_status_t status = c->slot ? make(c, shape) : dnnl_out_of_memory;
    sg_onednn_end(before);
    if (status == dnnl_success) {
        *out = c;
        return SG_OK;
    }
    sg_onednn_conv_free(c);
    return sg_fail(err, status == dnnl_out_of_memory ? SG_E_MEMORY : SG_E_DEVICE,
                   "oneDNN refuses a convolution of %lld x %lld channels (status %d)",
                   (long long)(shape->groups * shape->in), (long long)(shape->groups * shape->out), (int)status);
}

void sg_onednn_conv_free(sg_onednn_conv *c)
{
    if (!c)
        return;
    for (int32_t t = 0; t < c->threads && c->slot; t++) {
        for (int k = 0; k < OPERANDS; k++) {
            dnnl_memory_destroy(c->slot[t].plain[k]);
            dnnl_memory_destroy(c->slot[t].packed[k]);
        }
        dnnl_memory_destroy(c->slot[t].scratch);
        dnnl_stream_destroy(c->slot[t].stream);
    }
    for (int k = 0; k < OPERANDS; k++) {
        dnnl_primitive_destroy(c->reorder[k]);
        dnnl_primitive_desc_destroy(c->reorder_desc[k]);
        dnnl_memory_desc_destroy(c->plain[k]);
        dnnl_memory_desc_destroy(c->wanted[k]);
    }
    dnnl_primitive_destroy(c->primitive);
    dnnl_primitive_desc_destroy(c->desc);
    dnnl_primitive_desc_destroy(c->hint);
    dnnl_primitive_attr_destroy(c->attr);
    dnnl_engine_destroy(c->engine);
    sg_free(c->slot);
    sg_free(c);
}

/* ---------------------------------------------------------------------------------------------------------- running */

size_t sg_onednn_conv_packed(const sg_onednn_conv *c)
{
    return c->result != W && c->reorder[W] ? lines(dnnl_memory_desc_get_size(c->packed[W])) : 0;
}

size_t sg_onednn_conv_scratch(const sg_onednn_conv *c) { return c->scratch; }

static dnnl_status_t copy(sg_onednn_conv *c, slot *s, int operand)
{
    bool out = operand == c->result;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, out ? s->packed[operand] : s->plain[operand]},
                                    {DNNL_ARG_TO, out ? s->plain[operand] : s->packed[operand]},
                                    {DNNL_ARG_SCRATCHPAD, s->scratch}};
    return dnnl_primitive_execute(c->reorder[operand], s->stream, 3, args);
}

static dnnl_status_t pack(sg_onednn_conv *c, slot *s, const float *w, float *packed, char *scratch)
{
    CHECK(dnnl_memory_set_data_handle(s->plain[W], (void *)(uintptr_t)w));
    CHECK(dnnl_memory_set_data_handle(s->packed[W], packed));
    CHECK(dnnl_memory_set_data_handle(s->scratch, scratch + c->own));
    return copy(c, s, W);
}

static dnnl_status_t execute(sg_onednn_conv *c, slot *s, float *const *operand, char *scratch)
{
    static const int as_input[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
    static const int as_result[] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DST};
    dnnl_exec_arg_t args[OPERANDS + 1];
    CHECK(dnnl_memory_set_data_handle(s->scratch, scratch + c->own));
    for (int k = 0; k < OPERANDS; k++) {
        bool shared = k == W && c->result != W; /* packed already, or taken as it is */
        bool copied = c->reorder[k] && !shared;
        CHECK(dnnl_memory_set_data_handle(s->plain[k], operand[k]));
        CHECK(dnnl_memory_set_data_handle(s->packed[k], copied ? (void *)(scratch + c->offset[k]) : operand[k]));
        if (copied && k != c->result)
            CHECK(copy(c, s, k));
        args[k] = (dnnl_exec_arg_t){k == c->result ? as_result[k] : as_input[k], s->packed[k]};
    }
    args[OPERANDS] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, s->scratch};
    CHECK(dnnl_primitive_execute(c->primitive, s->stream, OPERANDS + 1, args));
    return c->reorder[c->result] ? copy(c, s, c->result) : dnnl_success;
}

bool sg_onednn_conv_pack(sg_onednn_conv *c, int32_t thread, const float *w, float *packed, void *scratch)
{
    int before = sg_onednn_begin();
    bool ok = pack(c, &c->slot[thread], w, packed, scratch) == dnnl_success;
    sg_onednn_end(before);
    return ok;
}

bool sg_onednn_conv_run(sg_onednn_conv *c, int32_t thread, float *x, float *w, float *y, void *scratch)
{
    float *const operand[] = {x, w, y};
    int before = sg_onednn_begin();
    bool ok = execute(c, &c->slot[thread], operand, scratch) == dnnl_success;
    sg_onednn_end(before);
    return ok;
}
