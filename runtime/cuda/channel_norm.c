/* channel_norm.c - batch_norm, group_norm and their derivatives: which operands a node has, and how its channels are cut. Left to the
 * decomposition are channels whose elements lie apart, as in [N, C], whose sums chains make column by column, and what layer_norm.c
 * leaves to it. */
#include "ops/derivative_internal.h"
#include "runtime/cuda/channel_norm_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/norm_places_internal.h"

enum {
    WARP = 32,
    BLOCK = 256,
    LEAST_TOGETHER = 8,  /* neighbours of a channel */
    WANTED_CELLS = 1024, /* of blocks: some for each processor of a large card */
    MOST_CHUNKS = 64,
    CHUNK = 2048,          /* elements that keep a block busy; chunks are multiples of it */
    MOST_OF_A_WARP = 2048, /* elements of a cell */
};

enum { X, GAMMA, BETA }; /* inputs */

typedef struct channel_norm {
    sg_cuda_channel_norm s;
    sg_norm_places p;
    int32_t alias[3];
} channel_norm;

static const void *input(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->in[place]; }
static void *output(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->out[place]; }

static bool launch(const sg_launch *l, sg_error *err)
{
    const channel_norm *norm = l->state;
    const sg_norm_places *p = &norm->p;
    sg_cuda_channel_norm s = norm->s;
    s.x = l->in[X];
    s.gamma = l->in[GAMMA];
    s.beta = l->in[BETA];
    s.mean = input(l, p->mean);
    s.spread = input(l, p->spread);
    s.g = input(l, p->g);
    s.tx = input(l, p->tx);
    s.tgamma = input(l, p->tgamma);
    s.tbeta = input(l, p->tbeta);
    s.tg = input(l, p->tg);
    s.out = p->out_mean >= 0 ? l->out[0] : output(l, p->gx);
    s.out_mean = output(l, p->out_mean);
    s.out_spread = output(l, p->out_spread);
    s.ggamma = output(l, p->ggamma);
    s.gbeta = output(l, p->gbeta);
    s.sums = l->workspace;
    s.means = s.sums + SG_CUDA_CHANNEL_SUMS * s.channels * s.chunks;
    sg_cuda_channel_run(&s, l->stream);
    return sg_cuda_launched(err);
}

static void find_channels(sg_cuda_channel_norm *s, const sg_kernel_spec *spec)
{
    const sg_shape *x = &spec->in_shape[X];
    const sg_op *op = spec->node->op;
    while (op->parent)
        op = op->parent;
    s->images = x->dim[0];
    s->channels = s->affine = x->dim[1];
    s->size = s->together = 1;
    for (int32_t i = 2; i < x->rank; i++)
        s->size *= x->dim[i];
    s->bf16 = spec->in_dtype[X] == SG_BF16;
    s->affine_bf16 = spec->in_dtype[GAMMA] == SG_BF16;
    if (op != &sg_op_group_norm)
        return;
    s->together = s->channels / spec->attr[0].i;
    s->channels *= s->images;
    s->images = 1;
    s->spread_is_rstd = true;
}

static bool is_f32(const sg_kernel_spec *spec, int32_t k) { return k < 0 || spec->in_dtype[k] == SG_F32; }

static bool supports(const sg_kernel_spec *spec)
{
    sg_norm_places p;
    sg_cuda_channel_norm s = {0};
    if (!sg_norm_find(spec, &p) || spec->in_shape[X].rank < 3 || sg_shape_count(&spec->in_shape[X]) == 0)
        return false;
    find_channels(&s, spec);
    return s.size >= LEAST_TOGETHER && spec->in_dtype[GAMMA] == spec->in_dtype[BETA] &&
           (s.bf16 || spec->in_dtype[X] == SG_F32) && is_f32(spec, p.mean) && is_f32(spec, p.spread);
}

static void cut_channels(sg_cuda_channel_norm *s)
{
    int64_t n = s->images * s->size, wanted = WANTED_CELLS / s->channels;
    wanted = wanted < 1 ? 1 : wanted > MOST_CHUNKS ? MOST_CHUNKS : wanted;
    s->chunk = (n + wanted - 1) / wanted;
    s->chunk = (s->chunk + CHUNK - 1) / CHUNK * CHUNK;
    s->chunks = (n + s->chunk - 1) / s->chunk;
    s->team = n <= MOST_OF_A_WARP ? WARP : BLOCK;
}

static sg_cuda_channel_kind kind_of(const sg_op *op)
{
    return !op->parent           ? SG_CUDA_CHANNEL
           : sg_is_vjp(op)       ? SG_CUDA_CHANNEL_VJP
           : !op->parent->parent ? SG_CUDA_CHANNEL_JVP
                                 : SG_CUDA_CHANNEL_VJP_JVP;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    const sg_op *op = spec->node->op;
    channel_norm *norm = sg_calloc(1, sizeof *norm);
    if (!norm)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    sg_cuda_channel_norm *s = &norm->s;
    sg_norm_find(spec, &norm->p);
    find_channels(s, spec);
    cut_channels(s);
    s->kind = kind_of(op);
    s->eps = (float)norm->p.eps;
    for (int32_t k = 0; k < 3; k++)
        norm->alias[k] = -1;
    if (s->kind == SG_CUDA_CHANNEL)
        norm->alias[0] = X; /* elements are made from those in their places, after all sums */
    if (s->kind == SG_CUDA_CHANNEL_VJP && norm->p.gx >= 0)
        norm->alias[norm->p.gx] = norm->p.g;
    *out = (sg_kernel){.name = op->name, .launch = launch, .state = norm, .release = sg_free, .alias = norm->alias};
    out->workspace = (size_t)(SG_CUDA_CHANNEL_SUMS * s->channels * s->chunks + 2 * s->channels) * sizeof(float);
    return SG_OK;
}

const sg_cuda_kernel sg_cuda_channel_norm_kernels[] = {{&sg_op_batch_norm, supports, prepare},
                                                       {&sg_op_batch_norm_vjp, supports, prepare},
                                                       {&sg_op_batch_norm_jvp, supports, prepare},
                                                       {&sg_op_batch_norm_vjp_jvp, supports, prepare},
                                                       {&sg_op_group_norm, supports, prepare},
                                                       {&sg_op_group_norm_vjp, supports, prepare},
                                                       {&sg_op_group_norm_jvp, supports, prepare},
                                                       {&sg_op_group_norm_vjp_jvp, supports, prepare},
                                                       {0}};
