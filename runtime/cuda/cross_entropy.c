/* cross_entropy.c - softmax_cross_entropy and its derivatives: which operands a node has. Reverse derivatives that are not asked for
 * a result or have no cotangent, and rows too long for the registers of a block, are left to the decomposition. */
#include "ops/derivative_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/softmax_internal.h"

enum { Z, TARGET };

typedef struct cross_entropy {
    sg_cuda_softmax_rows s;
    int32_t g, t, tg; /* inputs that hold cotangents and tangents; -1: none */
    int32_t alias[1];
} cross_entropy;

static const void *input(const sg_launch *l, int32_t place) { return place < 0 ? NULL : l->in[place]; }

static bool launch(const sg_launch *l, sg_error *err)
{
    const cross_entropy *c = l->state;
    sg_cuda_softmax_rows s = c->s;
    if (s.rows == 0)
        return true;
    s.z = l->in[Z];
    s.target = l->in[TARGET];
    s.g = input(l, c->g);
    s.t = input(l, c->t);
    s.tg = input(l, c->tg);
    s.out = l->out[0];
    sg_cuda_softmax_run(&s, sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

static void find_places(cross_entropy *c, const sg_kernel_spec *spec)
{
    const sg_op *op = spec->node->op;
    c->g = c->t = c->tg = -1;
    if (op == &sg_op_softmax_cross_entropy)
        return;
    sg_derivative_parts parts = sg_derivative_split(op, spec->attr, spec->n_in);
    if (op == &sg_op_softmax_cross_entropy_vjp) {
        c->g = sg_derivative_with(&parts, 0);
        return;
    }
    c->t = sg_derivative_with(&parts, Z);
    if (op == &sg_op_softmax_cross_entropy_jvp)
        return;
    sg_derivative_parts reverse = sg_derivative_split(&sg_op_softmax_cross_entropy_vjp, spec->attr, parts.n_x);
    c->g = sg_derivative_with(&reverse, 0);
    c->tg = sg_derivative_with(&parts, c->g);
}

static sg_cuda_softmax_kind kind_of(const sg_op *op)
{
    return op == &sg_op_softmax_cross_entropy       ? SG_CUDA_CROSS_ENTROPY
           : op == &sg_op_softmax_cross_entropy_vjp ? SG_CUDA_CROSS_ENTROPY_VJP
           : op == &sg_op_softmax_cross_entropy_jvp ? SG_CUDA_CROSS_ENTROPY_JVP
                                                    : SG_CUDA_CROSS_ENTROPY_VJP_JVP;
}

static int64_t classes_of(const sg_kernel_spec *spec) { return spec->in_shape[Z].dim[spec->in_shape[Z].rank - 1]; }

/* The node has one real type of rows, and one of the numbers by row (those of the results of the loss). */
static bool fits_types(const cross_entropy *c, const sg_kernel_spec *spec)
{
    const sg_op *op = spec->node->op;
    bool rows = op == &sg_op_softmax_cross_entropy || op == &sg_op_softmax_cross_entropy_jvp;
    sg_dtype z = spec->in_dtype[Z], number = rows ? spec->out_dtype[0] : spec->in_dtype[c->g];
    return (z == SG_F32 || z == SG_BF16) && (number == SG_F32 || number == z);
}

static bool supports(const sg_kernel_spec *spec)
{
    cross_entropy c;
    find_places(&c, spec);
    const sg_op *op = spec->node->op;
    bool reverse = op == &sg_op_softmax_cross_entropy_vjp || op == &sg_op_softmax_cross_entropy_vjp_jvp;
    return (!reverse || (c.g >= 0 && spec->n_out == 1)) && (op != &sg_op_softmax_cross_entropy_jvp || c.t >= 0) &&
           fits_types(&c, spec) && sg_cuda_softmax_team(classes_of(spec), spec->in_dtype[Z] == SG_BF16) > 0;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    const sg_op *op = spec->node->op;
    cross_entropy *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", op->name);
    find_places(c, spec);
    bool bf16 = spec->in_dtype[Z] == SG_BF16, wide = c->g >= 0;
    c->s = (sg_cuda_softmax_rows){.kind = kind_of(op),
                                  .rows = sg_shape_count(&spec->in_shape[TARGET]),
                                  .n = classes_of(spec),
                                  .team = sg_cuda_softmax_team(classes_of(spec), bf16),
                                  .bf16 = bf16,
                                  .number_bf16 = (wide ? spec->in_dtype[c->g] : spec->out_dtype[0]) == SG_BF16,
                                  .fault = device->fault_at,
                                  .site = sg_cuda_site_of(device, spec)};
    /* A row of z is read before it is written; the next begins within a piece of it where rows are no whole pieces, and is then
     * perhaps read by another team, but never beyond its own elements. */
    c->alias[0] = wide ? Z : -1;
    *out = (sg_kernel){
        .name = op->name, .launch = launch, .state = c, .release = sg_free, .alias = c->alias, .replicates = true};
    return SG_OK;
}

const sg_cuda_kernel sg_cuda_cross_entropy_kernels[] = {{&sg_op_softmax_cross_entropy, supports, prepare},
                                                        {&sg_op_softmax_cross_entropy_vjp, supports, prepare},
                                                        {&sg_op_softmax_cross_entropy_jvp, supports, prepare},
                                                        {&sg_op_softmax_cross_entropy_vjp_jvp, supports, prepare},
                                                        {0}};
