/* conv.c - convolutions and their gradients by oneDNN, tile by tile.
 *
 * A tile is a chunk of images and a block of channels (or of groups) of the result. Where images and chunks suffice, blocks are
 * not cut: each block copies the operand that it shares into oneDNN's layout again. The weight gradient adds up over images:
 * each chunk has a gradient of its own, and these are added in their order, so that the sum does not depend on threads. */
#include "runtime/cpu/conv_internal.h"
#include "runtime/cpu/cpu_kernels.h"

#include "ops/window_internal.h"

#include <string.h>

/* Images of a chunk, so that a chunk's operands stay in the second-level cache between the copies and the primitive. */
#define CHUNK_BYTES (1 << 20)
/* As many tiles as keep some threads busy. */
#define TILES 8
/* Blocks of fewer channels leave oneDNN's register tiles empty. */
#define BLOCK_CHANNELS 32
/* Weight gradients above this size are cut by channels first, as a copy for each chunk would cost more. */
#define LARGE_WEIGHTS (1 << 18)
/* Below this many multiply-adds a second thread costs more than it saves. */
#define SERIAL_WORK 250000.0
/* A result with fewer channels leaves most of a blocked layout empty. */
#define FEW_CHANNELS 8

typedef struct conv {
    sg_conv_shape given, whole; /* whole: but for channels or groups, which are those of a block */
    int64_t chunk, chunks, blocks;
    int64_t x_block, w_block, y_block; /* elements between blocks */
    sg_onednn_conv *tile[2];           /* of all chunks, and of the last if it is smaller */
    size_t packed[2];                  /* bytes of one block's weights in the layouts of the two */
    size_t scratch;                    /* of one thread */
    int64_t x_count, w_count, y_count; /* elements of all */
    bool serial;
} conv;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t taps_of(const sg_conv_shape *s) { return s->axis[0].kernel * s->axis[1].kernel; }

/* ---------------------------------------------------------------------------------------------------------- cutting */

/* The most blocks, at most `limit`, that have equal size and whole vectors of channels. */
static int64_t equal_blocks(int64_t channels, int64_t limit)
{
    for (int64_t n = limit; n > 1; n--)
        if (channels % n == 0 && channels / n % 16 == 0 && channels / n >= BLOCK_CHANNELS)
            return n;
    return 1;
}

static int64_t equal_groups(int64_t groups, int64_t limit)
{
    for (int64_t n = limit; n > 1; n--)
        if (groups % n == 0)
            return n;
    return 1;
}

static void choose_blocks(conv *c, int64_t limit)
{
    sg_conv_shape *s = &c->whole;
    int64_t plane_x = s->axis[0].size * s->axis[1].size, plane_y = s->axis[0].places * s->axis[1].places;
    if (s->groups > 1) {
        c->blocks = equal_groups(s->groups, limit);
        s->groups /= c->blocks;
        c->x_block = s->groups * s->in * plane_x;
        c->y_block = s->groups * s->out * plane_y;
        c->w_block = s->groups * s->out * s->w_out;
    } else if (s->result == SG_CONV_X) {
        c->blocks = equal_blocks(s->in, limit);
        s->in /= c->blocks;
        c->x_block = s->in * plane_x;
        c->w_block = s->in * taps_of(s);
    } else {
        c->blocks = equal_blocks(s->out, limit);
        s->out /= c->blocks;
        c->y_block = s->out * plane_y;
        c->w_block = s->out * s->w_out;
    }
}

static void choose_tiles(conv *c)
{
    sg_conv_shape *s = &c->whole;
    int64_t images = s->images, weights = c->w_count * (int64_t)sizeof(float);
    c->blocks = 1;
    if (s->result == SG_CONV_W) {
        if (weights >= LARGE_WEIGHTS || images < TILES)
            choose_blocks(c, TILES);
        c->chunk = ceil_div(images, ceil_div(TILES, c->blocks));
    } else {
        int64_t image = (s->x_image + s->y_image) * (int64_t)sizeof(float);
        c->chunk = CHUNK_BYTES / image;
        c->chunk = c->chunk < 1 ? 1 : c->chunk > images ? images : c->chunk;
        if (ceil_div(images, c->chunk) < TILES && !c->serial)
            c->chunk = ceil_div(images, TILES);
        if (ceil_div(images, c->chunk) < TILES && !c->serial)
            choose_blocks(c, TILES / ceil_div(images, c->chunk));
    }
    c->chunks = ceil_div(images, c->chunk);
}

/* ---------------------------------------------------------------------------------------------------------- running */

typedef struct job {
    const conv *c;
    float *x, *w, *y;
    char *packed, *scratch;
    float *partial; /* weight gradients of all chunks but the first */
    int failed;     /* set by any thread */
} job;

/* The weights of block b in the layout of primitive `which`. */
static float *packed_at(const job *j, int which, int64_t b)
{
    const conv *c = j->c;
    if (!c->packed[which])
        return j->w + b * c->w_block;
    size_t at = (which ? (size_t)c->blocks * c->packed[0] : 0) + (size_t)b * c->packed[which];
    return (float *)(j->packed + at);
}

static void pack_blocks(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    job *j = arg;
    const conv *c = j->c;
    for (int64_t t = begin; t < end; t++) {
        int which = t >= c->blocks;
        int64_t b = t % c->blocks;
        if (c->packed[which] && !sg_onednn_conv_pack(c->tile[which], thread, j->w + b * c->w_block,
                                                     packed_at(j, which, b), j->scratch + (size_t)thread * c->scratch))
            __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
    }
}

static void run_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    job *j = arg;
    const conv *c = j->c;
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t t = begin; t < end; t++) {
        int64_t i = t / c->blocks, b = t % c->blocks;
        int which = i == c->chunks - 1 && c->tile[1];
        float *x = j->x + i * c->chunk * c->whole.x_image + b * c->x_block;
        float *y = j->y + i * c->chunk * c->whole.y_image + b * c->y_block;
        float *w;
        if (c->whole.result == SG_CONV_W)
            w = (i == 0 ? j->w : j->partial + (i - 1) * c->w_count) + b * c->w_block;
        else
            w = packed_at(j, which, b);
        if (!sg_onednn_conv_run(c->tile[which], thread, x, w, y, j->scratch + (size_t)thread * c->scratch))
            __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
    }
    sg_cpu_restore_subnormals(mode);
}

enum { ADD_BLOCK = 4096 };

/* The chunks' weight gradients, in the order of the chunks. */
static void add_partials(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    int64_t count = j->c->w_count, last = end * ADD_BLOCK < count ? end * ADD_BLOCK : count;
    for (int64_t at = begin * ADD_BLOCK; at < last; at += ADD_BLOCK) {
        int64_t n = last - at < ADD_BLOCK ? last - at : ADD_BLOCK;
        float *restrict w = j->w + at;
        for (int64_t i = 0; i < j->c->chunks - 1; i++) {
            const float *restrict p = j->partial + i * count + at;
            for (int64_t k = 0; k < n; k++)
                w[k] += p[k];
        }
    }
}

static int64_t result_count(const conv *c)
{
    return c->given.result == SG_CONV_X ? c->x_count : c->given.result == SG_CONV_Y ? c->y_count : c->w_count;
}

static bool run_blocks(const sg_launch *l, float *x, float *w, float *y, int32_t threads, sg_error *err)
{
    const conv *c = l->state;
    char *scratch = (char *)l->workspace + (size_t)c->blocks * (c->packed[0] + c->packed[1]);
    float *partial = (float *)(scratch + (size_t)l->threads * c->scratch);
    job j = {c, x, w, y, l->workspace, scratch, partial, 0};
    if (c->packed[0] || c->packed[1])
        sg_cpu_parallel(threads, c->blocks * (c->tile[1] ? 2 : 1), pack_blocks, &j);
    sg_cpu_parallel(threads, c->chunks * c->blocks, run_tiles, &j);
    if (c->whole.result == SG_CONV_W && c->chunks > 1)
        sg_cpu_parallel(threads, ceil_div(c->w_count, ADD_BLOCK), add_partials, &j);
    if (j.failed)
        sg_fail(err, SG_E_DEVICE, "oneDNN failed in a convolution");
    return !j.failed;
}

/* What meets the padding must be finite for oneDNN. It is the weights, which are looked at first; or y, in the gradient of the weights,
 * which is as large as all images. There the gradient is looked at instead: every product with y is in it, so if 0 * y is NaN for a tap
 * on the padding, it has that NaN. */
static bool run(const sg_launch *l, float *x, float *w, float *y, sg_error *err)
{
    const conv *c = l->state;
    int32_t threads = c->serial ? 1 : l->threads;
    bool padded = sg_conv_padded(&c->given), of_w = c->given.result == SG_CONV_W;
    bool direct = padded && !of_w && !sg_conv_finite(threads, w, c->w_count);
    if (!direct && !run_blocks(l, x, w, y, threads, err))
        return false;
    if (padded && of_w)
        direct = !sg_conv_finite(threads, w, c->w_count) && !sg_conv_finite(threads, y, c->y_count);
    if (direct)
        sg_conv_direct(&c->given, x, w, y, result_count(c));
    return true;
}

/* oneDNN's handles are not const, but sources are only read. */
static float *source(const sg_launch *l, int32_t k) { return (void *)(uintptr_t)l->in[k]; }

static bool launch_y(const sg_launch *l, sg_error *err) { return run(l, source(l, 0), source(l, 1), l->out[0], err); }

static bool launch_x(const sg_launch *l, sg_error *err) { return run(l, l->out[0], source(l, 1), source(l, 0), err); }

static bool launch_w(const sg_launch *l, sg_error *err) { return run(l, source(l, 0), l->out[0], source(l, 1), err); }

/* An empty sum is zero. */
static bool launch_empty(const sg_launch *l, sg_error *err)
{
    (void)err;
    memset(l->out[0], 0, (size_t)result_count(l->state) * sizeof(float));
    return true;
}

/* -------------------------------------------------------------------------------------------------------- preparing */

static sg_conv_axis axis_of(const sg_attr *attr, int32_t axis, const sg_shape *x, const sg_shape *w, const sg_shape *y)
{
    sg_window_axis v = sg_window_of(attr, axis, x->dim[2 + axis], w->dim[2 + axis], y->dim[2 + axis]);
    return (sg_conv_axis){v.size, v.kernel, v.places, v.stride, v.dilation, v.before, v.after};
}

/* By measurement. A 1x1 convolution is a product of matrices as the images lie. A result with few channels leaves most of a
 * block empty. The forward kernel that oneDNN has for channels last on AVX-512 takes a fifth less time than the blocked one, if
 * there are channels enough to fill vectors. */
static sg_conv_layout choose_layout(const sg_conv_shape *s, sg_isa isa)
{
    bool padded = sg_conv_padded(s);
    bool strided = s->axis[0].stride > 1 || s->axis[1].stride > 1;
    if (s->groups > 1)
        return SG_CONV_BLOCKED;
    if (taps_of(s) == 1 && !padded && !strided)
        return SG_CONV_PLAIN;
    if (s->result == SG_CONV_X && s->in < FEW_CHANNELS)
        return SG_CONV_PLAIN;
    bool wide = s->in >= 16 && s->out >= 16;
    return s->result == SG_CONV_Y && wide && isa == SG_ISA_AVX512 ? SG_CONV_CHANNELS_LAST : SG_CONV_BLOCKED;
}

static void describe(conv *c, const sg_kernel_spec *spec, sg_isa isa)
{
    const sg_shape *in = spec->in_shape, *out = spec->out_shape, *x, *w, *y;
    sg_conv_shape *s = &c->whole;
    s->result = spec->node->op == &sg_op_conv2d             ? SG_CONV_Y
                : spec->node->op == &sg_op_conv_transpose2d ? SG_CONV_X
                                                            : SG_CONV_W;
    x = s->result == SG_CONV_X ? &out[0] : &in[0];
    w = s->result == SG_CONV_W ? &out[0] : &in[1];
    y = s->result == SG_CONV_X ? &in[0] : s->result == SG_CONV_Y ? &out[0] : &in[1];
    s->images = x->dim[0];
    s->groups = spec->attr[SG_WINDOW_ATTRS].i;
    s->in = w->dim[1];
    s->out = w->dim[0] / s->groups;
    s->axis[0] = axis_of(spec->attr, 0, x, w, y);
    s->axis[1] = axis_of(spec->attr, 1, x, w, y);
    s->x_image = x->dim[1] * x->dim[2] * x->dim[3];
    s->y_image = y->dim[1] * y->dim[2] * y->dim[3];
    s->w_out = w->dim[1] * taps_of(s);
    s->layout = choose_layout(s, isa);
    c->given = *s;
    c->x_count = sg_shape_count(x);
    c->w_count = sg_shape_count(w);
    c->y_count = sg_shape_count(y);
    c->serial = (double)c->y_count * (double)s->w_out < SERIAL_WORK;
}

static void release(void *state)
{
    conv *c = state;
    if (!c)
        return;
    sg_onednn_conv_free(c->tile[0]);
    sg_onednn_conv_free(c->tile[1]);
    sg_free(c);
}

static sg_status make_tiles(conv *c, int32_t threads, sg_error *err)
{
    int64_t rest = c->whole.images - (c->chunks - 1) * c->chunk;
    for (int which = 0; which < (rest < c->chunk ? 2 : 1); which++) {
        sg_conv_shape s = c->whole;
        s.images = which ? rest : c->chunk;
        SG_TRY(sg_onednn_conv_new(&c->tile[which], &s, threads, err));
        c->packed[which] = sg_onednn_conv_packed(c->tile[which]);
        size_t scratch = sg_onednn_conv_scratch(c->tile[which]);
        c->scratch = scratch > c->scratch ? scratch : c->scratch;
    }
    return SG_OK;
}

static size_t workspace_of(const conv *c, int32_t threads)
{
    size_t bytes = (size_t)c->blocks * (c->packed[0] + c->packed[1]) + (size_t)threads * c->scratch;
    if (c->whole.result == SG_CONV_W)
        bytes += (size_t)(c->chunks - 1) * (size_t)c->w_count * sizeof(float);
    return bytes;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    conv *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a convolution");
    describe(c, spec, device->isa);
    *out = (sg_kernel){.name = "onednn convolution", .launch = launch_empty, .state = c, .release = release};
    if (c->x_count == 0 || c->w_count == 0 || c->y_count == 0)
        return SG_OK;
    choose_tiles(c);
    sg_status status = make_tiles(c, spec->threads, err);
    if (status != SG_OK) {
        release(c);
        memset(out, 0, sizeof *out);
        return status;
    }
    out->launch = c->whole.result == SG_CONV_Y ? launch_y : c->whole.result == SG_CONV_X ? launch_x : launch_w;
    out->workspace = workspace_of(c, spec->threads);
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

const sg_cpu_kernel sg_cpu_conv_kernels[] = {{&sg_op_conv2d, supports, prepare},
                                             {&sg_op_conv_transpose2d, supports, prepare},
                                             {&sg_op_conv2d_weight_grad, supports, prepare},
                                             {0}};
