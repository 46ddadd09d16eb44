/* adam.c - the ops adam, adam_group, sparse_adam and those that they become; see adam.cu. */
#include <math.h>

#include "ops/ops_internal.h"
#include "runtime/cuda/adam_group_internal.h"
#include "runtime/cuda/adam_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/updates_internal.h"

enum { P, G, M, V, LR, T };
enum { BETA1, BETA2, EPS, WEIGHT_DECAY, DECOUPLED };
enum { EACH = SG_ADAM_GROUP_EACH, EACH_OUT = SG_ADAM_GROUP_EACH_OUT };

typedef struct steps {
    sg_cuda_adam adam;
    sg_cuda_csr csr; /* sparse_adam, with how far its idle rows are spread */
    int32_t spread;
    int32_t members;
    int32_t factor; /* the operand by which gradients are multiplied; 0: none */
    int64_t from;   /* the gradient's first element */
    int64_t *count;
    int32_t *alias;
} steps;

static void release(void *state)
{
    steps *s = state;
    sg_free(s->count);
    sg_free(s->alias);
    sg_free(s);
}

static sg_cuda_adam_member member(const void *const *in, void *const *out, int64_t count)
{
    return (sg_cuda_adam_member){.p = in[P],
                                 .g = in[G],
                                 .m = in[M],
                                 .v = in[V],
                                 .p_out = out[0],
                                 .m_out = out[1],
                                 .v_out = out[2],
                                 .count = count};
}

static sg_cuda_adam with_rate(const steps *s, const sg_launch *l, int32_t lr, int32_t t)
{
    sg_cuda_adam a = s->adam;
    a.lr = l->in[lr];
    a.t = l->in[t];
    a.factor = s->factor ? l->in[s->factor] : NULL;
    return a;
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const steps *s = l->state;
    sg_cuda_adam a = with_rate(s, l, LR, T);
    sg_cuda_adam_members all = {1, {member(l->in, l->out, s->count[0])}};
    all.at[0].g += s->from;
    if (s->count[0] > 0)
        sg_cuda_adam_steps(&a, &all, sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

static bool launch_group(const sg_launch *l, sg_error *err)
{
    const steps *s = l->state;
    sg_cuda_adam a = with_rate(s, l, SG_ADAM_GROUP_LR, SG_ADAM_GROUP_T);
    sg_cuda_adam_members all = {0};
    for (int32_t i = 0; i < s->members; i++) {
        if (s->count[i] > 0)
            all.at[all.count++] = member(l->in + SG_ADAM_GROUP_FIRST + i * EACH, l->out + i * EACH_OUT, s->count[i]);
        if (all.count == SG_CUDA_ADAM_MEMBERS || (all.count > 0 && i == s->members - 1)) {
            sg_cuda_adam_steps(&a, &all, sg_cuda_where_of(l));
            all.count = 0;
        }
    }
    return sg_cuda_launched(err);
}

static bool launch_sparse(const sg_launch *l, sg_error *err)
{
    const steps *s = l->state;
    sg_cuda_adam a = with_rate(s, l, SG_SPARSE_ADAM_LR, SG_SPARSE_ADAM_T);
    sg_cuda_adam_member one = member(l->in, l->out, s->count[0]);
    one.g = NULL;
    if (one.count > 0)
        sg_cuda_adam_sparse(&a, &one, &s->csr, s->spread, (int32_t)(l->run.repeat % (uint64_t)s->spread),
                            l->in[SG_SPARSE_ADAM_VALUES], l->in[SG_SPARSE_ADAM_T_INDPTR], l->in[SG_SPARSE_ADAM_T_ROWS],
                            l->in[SG_SPARSE_ADAM_T_ORDER], l->in[SG_SPARSE_ADAM_DENSE], sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

static sg_cuda_adam settings(const sg_attr *attr)
{
    return (sg_cuda_adam){.beta1 = (float)attr[BETA1].f,
                          .one_beta1 = (float)(1 - attr[BETA1].f),
                          .beta2 = (float)attr[BETA2].f,
                          .one_beta2 = (float)(1 - attr[BETA2].f),
                          .log_beta1 = log(attr[BETA1].f),
                          .log_beta2 = log(attr[BETA2].f),
                          .eps = (float)attr[EPS].f,
                          .decay = attr[WEIGHT_DECAY].f,
                          .decoupled = attr[DECOUPLED].i != 0};
}

/* Members whose operands begin at `first`, `each` apart. */
static steps *new_steps(const sg_kernel_spec *spec, int32_t first, int32_t each, sg_kernel *out, sg_error *err)
{
    static const int32_t like[EACH_OUT] = {P, M, V};
    int32_t members = spec->n_out / EACH_OUT;
    steps *s = sg_calloc(1, sizeof *s);
    if (s) {
        s->count = sg_calloc(members, sizeof *s->count);
        s->alias = sg_calloc(spec->n_out, sizeof *s->alias);
    }
    if (!s || !s->count || !s->alias) {
        if (s)
            release(s);
        sg_fail(err, SG_E_MEMORY, "out of memory for an Adam step");
        return NULL;
    }
    s->adam = settings(spec->attr);
    s->members = members;
    for (int32_t j = 0; j < spec->n_out; j++)
        s->alias[j] = first + j / EACH_OUT * each + like[j % EACH_OUT];
    for (int32_t i = 0; i < members; i++)
        s->count[i] = sg_shape_count(&spec->out_shape[i * EACH_OUT]);
    *out = (sg_kernel){
        .name = spec->node->op->name, .state = s, .release = release, .alias = s->alias, .replicates = true};
    return s;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    steps *s = new_steps(spec, 0, 0, out, err);
    if (!s)
        return SG_E_MEMORY;
    s->factor = spec->node->op == &sg_op_scaled_adam ? SG_SCALED_ADAM_FACTOR : 0;
    s->from = spec->node->op == &sg_op_rows_adam ? spec->attr[SG_ROWS_ADAM_FROM].i : 0;
    out->launch = launch;
    return SG_OK;
}

static sg_status prepare_group(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    steps *s = new_steps(spec, SG_ADAM_GROUP_FIRST, EACH, out, err);
    if (!s)
        return SG_E_MEMORY;
    s->factor = (spec->n_in - SG_ADAM_GROUP_FIRST) % EACH ? spec->n_in - 1 : 0;
    out->launch = launch_group;
    return SG_OK;
}

static sg_status prepare_sparse(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    steps *s = new_steps(spec, 0, 0, out, err);
    if (!s)
        return SG_E_MEMORY;
    s->csr = (sg_cuda_csr){.capacity = spec->in_shape[SG_SPARSE_ADAM_VALUES].dim[0],
                           .lines = spec->in_shape[P].dim[0],
                           .width = spec->in_shape[P].dim[1],
                           .others = spec->in_shape[SG_SPARSE_ADAM_DENSE].dim[0],
                           .fault = device->fault_at,
                           .site = sg_cuda_site_of(device, spec)};
    sg_cuda_site_arrays(device, s->csr.site, "t_indptr", "t_rows");
    s->spread = spec->node->op == &sg_op_spread_adam ? (int32_t)spec->attr[SG_SPREAD_ADAM_SPREAD].i : 1;
    s->factor = spec->n_in > SG_SPARSE_ADAM_INPUTS ? SG_SPARSE_ADAM_INPUTS : 0;
    out->launch = launch_sparse;
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[P] == SG_F32; }

const sg_cuda_kernel sg_cuda_adam_kernels[] = {{&sg_op_adam, supports, prepare},
                                               {&sg_op_scaled_adam, supports, prepare},
                                               {&sg_op_rows_adam, supports, prepare},
                                               {&sg_op_adam_group, supports, prepare_group},
                                               {&sg_op_sparse_adam, supports, prepare_sparse},
                                               {&sg_op_spread_adam, supports, prepare_sparse},
                                               {0}};
