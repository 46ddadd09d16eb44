/* sum_problem.c - from shapes and axes to steps. */
#include "runtime/sum_problem_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

/* sum names its axes. In sum_like these are the ones that x has more, and those that are 1 in the result only. */
static void find_summed(const sg_kernel_spec *spec, bool *summed)
{
    const sg_shape *x = &spec->in_shape[0], *y = &spec->out_shape[0];
    if (spec->node->op == &sg_op_sum) {
        for (int64_t i = 0; i < spec->attr[0].count; i++)
            summed[spec->attr[0].ints[i]] = true;
        return;
    }
    for (int32_t i = 0; i < x->rank; i++) {
        int32_t k = i - (x->rank - y->rank);
        summed[i] = k < 0 || y->dim[k] != x->dim[i];
    }
}

sg_sum_problem sg_sum_describe(const sg_kernel_spec *spec)
{
    sg_sum_problem p = {0};
    const sg_shape *x = &spec->in_shape[0];
    int64_t size[SG_MAX_RANK], inner = 1;
    bool summed[SG_MAX_RANK] = {false}, sum[SG_MAX_RANK];
    int32_t groups = 0;
    find_summed(spec, summed);
    for (int32_t i = 0; i < x->rank; i++) {
        if (x->dim[i] == 1)
            continue;
        if (groups > 0 && sum[groups - 1] == summed[i]) {
            size[groups - 1] *= x->dim[i];
            continue;
        }
        size[groups] = x->dim[i];
        sum[groups++] = summed[i];
    }
    for (int32_t g = groups - 1; g >= 0; g--) {
        if (!sum[g]) {
            inner *= size[g];
            continue;
        }
        int64_t outer = 1;
        for (int32_t k = 0; k < g; k++)
            outer *= size[k];
        p.step[p.count++] = (sg_sum_step){outer, size[g], inner};
    }
    return p;
}
