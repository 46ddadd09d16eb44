/* ops_internal.h - what the files of ops/ share: building nodes, shape rules, and index walks of reference kernels. */
#ifndef SG_OPS_INTERNAL_H
#define SG_OPS_INTERNAL_H

#ifndef SG_NO_LOCATION
#define SG_NO_LOCATION
#endif
#include "ops/ops.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

/* ------------------------------------------------------------------------------------------------------- building */

/* The innermost graph among those of the values (a loop body lies inside its parent), NULL if one of them is
 * SG_NONE: an error of the graph that the others are of, if none was before. */
sg_graph *sg_common_graph(const sg_value *in, int32_t n_in);
/* sg_build in the common graph of the inputs; SG_NONE if one of them is. */
sg_value sg_build_op(const sg_op *op, const sg_value *in, int32_t n_in, const sg_attr *attr);
sg_value sg_build_unary(const sg_op *op, sg_value x);
sg_value sg_build_binary(const sg_op *op, sg_value a, sg_value b);

/* A rank-0 constant in the graph and of the dtype of `like`: numbers in rules must not mix dtypes. */
sg_value sg_number(sg_value like, double value);

/* --------------------------------------------------------------------------------------------------- shape rules */

sg_status sg_infer_unary(const sg_infer_args *args);         /* one real input; same shape and dtype */
sg_status sg_infer_same(const sg_infer_args *args);          /* one input of any dtype; same shape and dtype */
sg_status sg_infer_binary(const sg_infer_args *args);        /* two inputs of one real dtype; broadcast */
sg_status sg_infer_binary_number(const sg_infer_args *args); /* the same, or both I32 */
sg_status sg_infer_compare(const sg_infer_args *args);       /* two inputs of one real dtype or I32; BOOL */
sg_status sg_infer_logical(const sg_infer_args *args);       /* BOOL inputs, broadcast; BOOL */

/* Parts of shape rules. Each refuses with a message that names input, dtype or shape. */
sg_status sg_require_real(const sg_infer_args *args, int32_t input);
sg_status sg_require_dtype(const sg_infer_args *args, int32_t input, sg_dtype dtype);
sg_status sg_require_same_dtype(const sg_infer_args *args, int32_t a, int32_t b);
sg_status sg_require_same_shape(const sg_infer_args *args, int32_t a, int32_t b);
sg_status sg_require_scalar(const sg_infer_args *args, int32_t input); /* rank 0 */
/* A real attribute, which is finite: in [0, 1); from 0 on. */
sg_status sg_require_fraction(const sg_infer_args *args, int32_t attr);
sg_status sg_require_not_negative(const sg_infer_args *args, int32_t attr);
/* For a builder that makes no operator of its own: if a setting is not `good`, the graph of `at` fails, telling what it must be. */
bool sg_require_setting(sg_value at, bool good, const char *builder, const char *name, double value, const char *must);
/* The same for a value that must have this shape and dtype, where broadcasting would let others pass. A missing one is told where it is
 * used. */
bool sg_require_form(sg_value x, const sg_shape *shape, sg_dtype dtype, const char *builder, const char *name);
sg_status sg_broadcast_inputs(const sg_infer_args *args, sg_shape *out); /* of all inputs */
/* Normalise an axis that may count from the end; refuses axes outside [-rank, rank). */
sg_status sg_require_axis(const sg_infer_args *args, int32_t rank, int64_t axis, int32_t *out);
/* The same for ops whose builders store axes counted from the front, which kernels and passes rely on. */
sg_status sg_require_front_axis(const sg_infer_args *args, int32_t rank, int64_t axis, int32_t *out);

/* -------------------------------------------------------------------------------------------- reference kernels */

/* Elements around an axis: index = (outer * size + i) * inner + j. `axis` may count from the end. */
typedef struct sg_axis_split {
    int64_t outer, size, inner;
} sg_axis_split;
sg_axis_split sg_split_at(const sg_shape *shape, int64_t axis);

/* Walks the elements of `out` in row-major order and keeps, for each input, the offset of the element that broadcasting
 * puts there. offset[k] starts at 0; call sg_walk_next after each element. */
#define SG_WALK_INPUTS 3
typedef struct sg_walk {
    int32_t rank, n_in;
    int64_t dim[SG_MAX_RANK], at[SG_MAX_RANK];
    int64_t stride[SG_WALK_INPUTS][SG_MAX_RANK];
    int64_t offset[SG_WALK_INPUTS];
} sg_walk;
void sg_walk_begin(sg_walk *walk, const sg_shape *out, const sg_tensor64 *in, int32_t n_in);
void sg_walk_next(sg_walk *walk);

/* Define a kernel by a formula: `x` is the input's element, `attr` the attributes. */
#define SG_EVAL_UNARY(NAME, ...)                                                                                       \
    static void NAME(const sg_eval_args *args)                                                                         \
    {                                                                                                                  \
        const sg_attr *attr = args->attr;                                                                              \
        (void)attr;                                                                                                    \
        int64_t n = sg_shape_count(args->out[0].shape);                                                                \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double x = args->in[0].data[i];                                                                            \
            args->out[0].data[i] = (__VA_ARGS__);                                                                      \
        }                                                                                                              \
    }

/* The same with broadcasting: `a` and `b` are the elements of the two inputs. */
#define SG_EVAL_BINARY(NAME, ...)                                                                                      \
    static void NAME(const sg_eval_args *args)                                                                         \
    {                                                                                                                  \
        int64_t n = sg_shape_count(args->out[0].shape);                                                                \
        sg_walk walk;                                                                                                  \
        sg_walk_begin(&walk, args->out[0].shape, args->in, 2);                                                         \
        for (int64_t i = 0; i < n; i++, sg_walk_next(&walk)) {                                                         \
            double a = args->in[0].data[walk.offset[0]];                                                               \
            double b = args->in[1].data[walk.offset[1]];                                                               \
            args->out[0].data[i] = (__VA_ARGS__);                                                                      \
        }                                                                                                              \
    }

/* The descriptor and builder of an elementwise op with one real input. FLAGS are added to SG_OP_ELEMENTWISE. */
#define SG_UNARY_OP(NAME, SUMMARY, FLAGS, LINEAR, EVAL, VJP)                                                           \
    const sg_op sg_op_##NAME = {                                                                                       \
        .name = #NAME,                                                                                                 \
        .summary = SUMMARY,                                                                                            \
        .n_in = 1,                                                                                                     \
        .n_out = 1,                                                                                                    \
        .flags = SG_OP_ELEMENTWISE | (FLAGS),                                                                          \
        .linear = LINEAR,                                                                                              \
        .infer = sg_infer_unary,                                                                                       \
        .vjp = VJP,                                                                                                    \
        .eval = EVAL,                                                                                                  \
    };                                                                                                                 \
    sg_value sg_##NAME(sg_value x) { return sg_build_unary(&sg_op_##NAME, x); }

/* The same with two inputs and shape rule INFER. `linear` has a bit for each input the op is linear in. */
#define SG_BINARY_OP(NAME, SUMMARY, FLAGS, LINEAR, INFER, EVAL, VJP)                                                   \
    const sg_op sg_op_##NAME = {                                                                                       \
        .name = #NAME,                                                                                                 \
        .summary = SUMMARY,                                                                                            \
        .n_in = 2,                                                                                                     \
        .n_out = 1,                                                                                                    \
        .flags = SG_OP_ELEMENTWISE | (FLAGS),                                                                          \
        .linear = LINEAR,                                                                                              \
        .infer = INFER,                                                                                                \
        .vjp = VJP,                                                                                                    \
        .eval = EVAL,                                                                                                  \
    };                                                                                                                 \
    sg_value sg_##NAME(sg_value a, sg_value b) { return sg_build_binary(&sg_op_##NAME, a, b); }

/* Stable scalar forms used by several kernels. */
double sg_sigmoid64(double x);  /* 1 / (1 + e^-x) without overflow, relative precision in both tails */
double sg_softplus64(double x); /* log(1 + e^x), the same */

#endif
