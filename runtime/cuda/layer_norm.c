/* layer_norm.c - layer_norm, rms_norm and their derivatives: which operands a node has, and how its rows are cut. Those that ask for
 * derivatives of mean and 1 / sqrt(..), and rows too long for the registers of a block, are left to the decomposition. */
#include "ops/derivative_internal.h"
#include "runtime/cuda/column_sums_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/layer_norm_internal.h"
#include "runtime/norm_places_internal.h"

enum {
    BLOCKS =
        256, /* that leave sums over rows: two for each processor of a large card, and few rows to add up in the end */
    LEAST_ROWS = 2 /* of each team where sums are left */
};

enum { X, GAMMA }; /* inputs */
enum { Y };        /* output */

typedef struct layer_norm {
    sg_cuda_norm s;
    sg_norm_places p;
    int32_t gsum; /* output, or -1 */
    int32_t alias[4];
} layer_norm;

/* ---------------------------------------------------------------------------------------------------------- launch */

static const void *input(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->in[place]; }
static void *output(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->out[place]; }

static bool launch(const sg_launch *l, sg_error *err)
{
    const layer_norm *norm = l->state;
    const sg_norm_places *p = &norm->p;
    sg_cuda_norm s = norm->s;
    bool reverse = s.kind == SG_CUDA_NORM_VJP || s.kind == SG_CUDA_NORM_VJP_JVP;
    s.x = l->in[X];
    s.gamma = l->in[GAMMA];
    s.beta = input(l, p->beta);
    s.mean = input(l, p->mean);
    s.rstd = input(l, p->spread);
    s.g = input(l, p->g);
    s.tx = input(l, p->tx);
    s.tgamma = input(l, p->tgamma);
    s.tbeta = input(l, p->tbeta);
    s.tg = input(l, p->tg);
    s.out = reverse ? output(l, p->gx) : l->out[Y];
    s.out_mean = output(l, p->out_mean);
    s.out_rstd = output(l, p->out_spread);
    s.ggamma = output(l, p->ggamma);
    s.gbeta = output(l, p->gbeta);
    s.gsum = output(l, norm->gsum);
    s.sums = l->workspace;
    sg_cuda_norm_run(&s, l->stream);
    return sg_cuda_launched(err);
}

/* --------------------------------------------------------------------------------------------------------- prepare */

static bool is_number(const sg_kernel_spec *spec, int32_t k) { return k >= 0 && spec->in_shape[k].rank == 0; }

static void find_rows(sg_cuda_norm *s, const sg_kernel_spec *spec, const sg_norm_places *p)
{
    const sg_shape *x = &spec->in_shape[X];
    int32_t axes = p->centred ? (int32_t)spec->attr[0].i : spec->in_shape[GAMMA].rank;
    s->rows = s->n = 1;
    for (int32_t i = 0; i < x->rank; i++)
        *(i < x->rank - axes ? &s->rows : &s->n) *= x->dim[i];
    s->bf16 = spec->in_dtype[X] == SG_BF16;
    s->affine_bf16 = spec->in_dtype[GAMMA] == SG_BF16;
    s->team = sg_cuda_norm_team(s->n, s->bf16);
}

static bool is_f32(const sg_kernel_spec *spec, int32_t k) { return k < 0 || spec->in_dtype[k] == SG_F32; }

/* Gamma and beta have the type of the rows or f32, by the shape rule, and here the same one; statistics are f32. */
static bool fits_types(const sg_kernel_spec *spec, const sg_norm_places *p)
{
    return (spec->in_dtype[X] == SG_F32 || spec->in_dtype[X] == SG_BF16) &&
           (p->beta < 0 || spec->in_dtype[p->beta] == spec->in_dtype[GAMMA]) && is_f32(spec, p->mean) &&
           is_f32(spec, p->spread) && (p->out_spread < 0 || spec->out_dtype[p->out_spread] == SG_F32);
}

static bool supports(const sg_kernel_spec *spec)
{
    sg_norm_places p;
    sg_cuda_norm s = {0};
    if (!sg_norm_find(spec, &p) || !fits_types(spec, &p))
        return false;
    find_rows(&s, spec, &p);
    bool number_sums = (p.ggamma >= 0 && is_number(spec, GAMMA)) || (p.gbeta >= 0 && is_number(spec, p.beta));
    return s.team > 0 && !number_sums;
}

static sg_cuda_norm_kind kind_of(const sg_op *op)
{
    return !op->parent           ? SG_CUDA_NORM
           : sg_is_vjp(op)       ? SG_CUDA_NORM_VJP
           : !op->parent->parent ? SG_CUDA_NORM_JVP
                                 : SG_CUDA_NORM_VJP_JVP;
}

/* Of the usual kernel one block fills a processor. */
static void cut_rows(sg_cuda_norm *s, bool sums)
{
    bool usual = sg_cuda_norm_is_usual_reverse(s);
    int64_t each = usual ? SG_CUDA_NORM_GROUPS * SG_CUDA_NORM_ROWS : sg_cuda_norm_rows(s->team);
    int64_t least = sums && !usual ? LEAST_ROWS * each : each, blocks = usual ? BLOCKS / 2 : BLOCKS;
    s->chunk = sums || usual ? (s->rows + blocks - 1) / blocks : each;
    s->chunk = (s->chunk < least ? least : s->chunk + each - 1) / each * each;
    s->chunks = (s->rows + s->chunk - 1) / s->chunk;
}

static sg_status prepare_node(const sg_kernel_spec *spec, bool gsum, sg_kernel *out, sg_error *err)
{
    const sg_op *op = spec->node->op;
    layer_norm *norm = sg_calloc(1, sizeof *norm);
    if (!norm)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    sg_norm_find(spec, &norm->p);
    find_rows(&norm->s, spec, &norm->p);
    norm->s.kind = kind_of(op);
    norm->s.centred = norm->p.centred;
    norm->s.eps = (float)norm->p.eps;
    norm->s.gamma_number = is_number(spec, GAMMA);
    norm->s.beta_number = is_number(spec, norm->p.beta);
    norm->gsum = gsum ? spec->n_out : -1;
    bool sums = norm->p.ggamma >= 0 || norm->p.gbeta >= 0 || gsum;
    cut_rows(&norm->s, sums);
    for (int32_t k = 0; k < 4; k++)
        norm->alias[k] = -1;
    if (norm->s.kind == SG_CUDA_NORM)
        norm->alias[Y] = X; /* a row is read before it is written */
    if (norm->s.kind == SG_CUDA_NORM_VJP && norm->p.gx >= 0)
        norm->alias[norm->p.gx] = norm->p.g;
    *out = (sg_kernel){.name = op->name, .launch = launch, .state = norm, .release = sg_free, .alias = norm->alias};
    out->workspace = sums ? (size_t)((gsum ? 3 : 2) * norm->s.chunks * norm->s.n) * sizeof(float) : 0;
    return SG_OK;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    return prepare_node(spec, false, out, err);
}

/* A reverse derivative with the sum of gx (column_sums.c): the node of the body has the same operands. */
static bool inner_spec(const sg_kernel_spec *spec, sg_kernel_spec *inner)
{
    const sg_node *node = sg_cuda_summed_spec(spec, inner);
    return node && node->op == &sg_op_layer_norm_vjp;
}

static bool supports_summed(const sg_kernel_spec *spec)
{
    sg_kernel_spec inner;
    return inner_spec(spec, &inner) && supports(&inner);
}

static sg_status prepare_summed(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    sg_kernel_spec inner;
    inner_spec(spec, &inner);
    SG_TRY(prepare_node(&inner, true, out, err));
    out->name = "layer_norm_vjp + sum";
    return SG_OK;
}

const sg_cuda_kernel sg_cuda_layer_norm_kernels[] = {
    {&sg_op_fused, supports_summed, prepare_summed}, {&sg_op_layer_norm, supports, prepare},
    {&sg_op_layer_norm_vjp, supports, prepare},      {&sg_op_layer_norm_jvp, supports, prepare},
    {&sg_op_layer_norm_vjp_jvp, supports, prepare},  {&sg_op_rms_norm, supports, prepare},
    {&sg_op_rms_norm_vjp, supports, prepare},        {&sg_op_rms_norm_jvp, supports, prepare},
    {&sg_op_rms_norm_vjp_jvp, supports, prepare},    {0}};
