/* batch_norm.c - batch_norm and its derivatives: which operands a node has, and how its channels are cut. Left to the decomposition
 * are channels whose elements lie apart, as in [N, C], whose sums chains make column by column, and what layer_norm.c leaves to it. */
#include "ops/derivative_internal.h"
#include "runtime/cuda/batch_norm_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/norm_places_internal.h"

enum {
    LEAST_TOGETHER = 8, /* neighbours of a channel */
    BLOCKS = 1024,      /* wanted: some for each processor of a large card */
    MOST_CHUNKS = 64,
    CHUNK = 2048, /* elements that keep a block busy; chunks are multiples of it */
};

enum { X, GAMMA, BETA }; /* inputs */

typedef struct batch_norm {
    sg_cuda_batch s;
    sg_norm_places p;
    int32_t alias[3];
} batch_norm;

static const void *input(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->in[place]; }
static void *output(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->out[place]; }

static bool launch(const sg_launch *l, sg_error *err)
{
    const batch_norm *norm = l->state;
    const sg_norm_places *p = &norm->p;
    sg_cuda_batch s = norm->s;
    s.x = l->in[X];
    s.gamma = l->in[GAMMA];
    s.beta = l->in[BETA];
    s.mean = input(l, p->mean);
    s.variance = input(l, p->spread);
    s.g = input(l, p->g);
    s.tx = input(l, p->tx);
    s.tgamma = input(l, p->tgamma);
    s.tbeta = input(l, p->tbeta);
    s.tg = input(l, p->tg);
    s.out = p->out_mean >= 0 ? l->out[0] : output(l, p->gx);
    s.out_mean = output(l, p->out_mean);
    s.out_variance = output(l, p->out_spread);
    s.ggamma = output(l, p->ggamma);
    s.gbeta = output(l, p->gbeta);
    s.sums = l->workspace;
    sg_cuda_batch_run(&s, l->stream);
    return sg_cuda_launched(err);
}

static void find_channels(sg_cuda_batch *s, const sg_kernel_spec *spec)
{
    const sg_shape *x = &spec->in_shape[X];
    s->images = x->dim[0];
    s->channels = x->dim[1];
    s->size = 1;
    for (int32_t i = 2; i < x->rank; i++)
        s->size *= x->dim[i];
    s->bf16 = spec->in_dtype[X] == SG_BF16;
}

static bool is_f32(const sg_kernel_spec *spec, int32_t k) { return k < 0 || spec->in_dtype[k] == SG_F32; }

static bool supports(const sg_kernel_spec *spec)
{
    sg_norm_places p;
    sg_cuda_batch s = {0};
    if (!sg_norm_find(spec, &p))
        return false;
    find_channels(&s, spec);
    return s.size >= LEAST_TOGETHER && s.images > 0 && s.channels > 0 && (s.bf16 || spec->in_dtype[X] == SG_F32) &&
           is_f32(spec, p.mean) && is_f32(spec, p.spread);
}

static void cut_channels(sg_cuda_batch *s)
{
    int64_t n = s->images * s->size, wanted = BLOCKS / s->channels;
    wanted = wanted < 1 ? 1 : wanted > MOST_CHUNKS ? MOST_CHUNKS : wanted;
    s->chunk = (n + wanted - 1) / wanted;
    s->chunk = (s->chunk + CHUNK - 1) / CHUNK * CHUNK;
    s->chunks = (n + s->chunk - 1) / s->chunk;
}

static sg_cuda_batch_kind kind_of(const sg_op *op)
{
    return op == &sg_op_batch_norm       ? SG_CUDA_BATCH
           : op == &sg_op_batch_norm_vjp ? SG_CUDA_BATCH_VJP
           : op == &sg_op_batch_norm_jvp ? SG_CUDA_BATCH_JVP
                                         : SG_CUDA_BATCH_VJP_JVP;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    const sg_op *op = spec->node->op;
    batch_norm *norm = sg_calloc(1, sizeof *norm);
    if (!norm)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    sg_norm_find(spec, &norm->p);
    find_channels(&norm->s, spec);
    cut_channels(&norm->s);
    norm->s.kind = kind_of(op);
    norm->s.eps = (float)norm->p.eps;
    for (int32_t k = 0; k < 3; k++)
        norm->alias[k] = -1;
    if (norm->s.kind == SG_CUDA_BATCH)
        norm->alias[0] = X; /* elements are made from those in their places, after all sums */
    if (norm->s.kind == SG_CUDA_BATCH_VJP && norm->p.gx >= 0)
        norm->alias[norm->p.gx] = norm->p.g;
    *out = (sg_kernel){.name = op->name, .launch = launch, .state = norm, .release = sg_free, .alias = norm->alias};
    out->workspace = (size_t)(SG_CUDA_BATCH_SUMS * norm->s.channels * norm->s.chunks) * sizeof(float);
    return SG_OK;
}

const sg_cuda_kernel sg_cuda_batch_norm_kernels[] = {{&sg_op_batch_norm, supports, prepare},
                                                     {&sg_op_batch_norm_vjp, supports, prepare},
                                                     {&sg_op_batch_norm_jvp, supports, prepare},
                                                     {&sg_op_batch_norm_vjp_jvp, supports, prepare},
                                                     {0}};
