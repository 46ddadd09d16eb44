/* one_hot.c - y[i, c] = 1 if index[i] = c, else 0; F32. Backends report an index outside [0, classes) as an error; the
 * reference rule, which cannot fail, gives a NaN row. */
#include "ops/ops_internal.h"

#include <math.h>

static const sg_attr_spec attrs[] = {{"classes", SG_ATTR_INT}};

static sg_status infer(const sg_infer_args *a)
{
    SG_TRY(sg_require_dtype(a, 0, SG_I32));
    if (a->attr[0].i < 0)
        return sg_infer_fail(a, SG_E_ARGUMENT, "%lld classes", (long long)a->attr[0].i);
    sg_shape out = a->in_shape[0];
    if (out.rank == SG_MAX_RANK)
        return sg_infer_fail(a, SG_E_SHAPE, "a shape has at most %d axes", SG_MAX_RANK);
    out.dim[out.rank] = a->attr[0].i;
    out.name[out.rank++] = NULL;
    a->out_shape[0] = out;
    a->out_dtype[0] = SG_F32;
    return SG_OK;
}

static void eval(const sg_eval_args *a)
{
    int64_t classes = a->attr[0].i;
    for (int64_t i = 0, n = sg_shape_count(a->in[0].shape); i < n; i++) {
        double index = a->in[0].data[i];
        bool valid = index >= 0 && index < (double)classes;
        for (int64_t c = 0; c < classes; c++)
            a->out[0].data[i * classes + c] = valid ? (double)c == index : NAN;
    }
}

const sg_op sg_op_one_hot = {
    .name = "one_hot",
    .summary = "y[i, c] = 1 if index[i] = c else 0",
    .n_in = 1,
    .n_out = 1,
    .flags = SG_OP_ZERO_GRAD | SG_OP_FULL,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .eval = eval,
};

sg_value sg_one_hot(sg_value index, int64_t classes)
{
    sg_attr attr = sg_attr_int(classes);
    return sg_build_op(&sg_op_one_hot, &index, 1, &attr);
}
