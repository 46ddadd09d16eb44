/* Reductions, shape operators, indexing and products against shared/golden, to third order. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "tests/support/golden_case.h"

static const json_t *attr_of(const json_t *test, const char *name)
{
    return json_object_get(json_object_get(test, "attrs"), name);
}

/* Integers of a JSON list (NULL: 0, 1, ... rank - 1). */
static int32_t list_of(const json_t *list, int32_t rank, int32_t *out)
{
    bool all = !list || json_is_null(list);
    int32_t n = all ? rank : (int32_t)json_array_size(list);
    for (int32_t i = 0; i < n; i++)
        out[i] = all ? i : (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

static sg_shape shape_attr(const json_t *test)
{
    int32_t size[SG_MAX_RANK];
    int64_t dim[SG_MAX_RANK];
    int32_t n = list_of(attr_of(test, "shape"), 0, size);
    for (int32_t i = 0; i < n; i++)
        dim[i] = size[i];
    return sg_shape_make(n, dim);
}

static sg_value zeros(sg_graph *graph, sg_shape shape) { return sg_constant(graph, SG_F64, shape, &(double){0}, 1); }

/* ---- reductions */

typedef sg_value (*reduction)(sg_value x, int32_t axis, bool keep);

/* One axis after the other, kept until the end: the same as all at once where no two elements are equal. */
static sg_value reduce(const json_t *test, sg_value x, reduction build)
{
    int32_t axes[SG_MAX_RANK], rank = sg_rank_of(x), n = list_of(attr_of(test, "axes"), rank, axes);
    bool keep = json_is_true(attr_of(test, "keepdims"));
    for (int32_t i = 0; i < n; i++) {
        axes[i] = axes[i] < 0 ? axes[i] + rank : axes[i];
        x = build(x, axes[i], true);
    }
    for (int32_t i = n - 1; i >= 0 && !keep; i--)
        x = sg_squeeze(x, axes[i]);
    return x;
}

static sg_value mean(const json_t *test, sg_value x)
{
    int32_t axes[SG_MAX_RANK], rank = sg_rank_of(x), n = list_of(attr_of(test, "axes"), rank, axes);
    if (n == rank)
        return sg_mean_all(x);
    sg_value y = x;
    for (int32_t i = n - 1; i >= 0; i--)
        y = sg_mean(y, axes[i]);
    for (int32_t i = 0; i < n && json_is_true(attr_of(test, "keepdims")); i++)
        y = sg_expand_dims(y, axes[i]);
    return y;
}

static sg_value reductions(const json_t *test, const char *op, sg_value x)
{
    int32_t axes[SG_MAX_RANK];
    if (strcmp(op, "sum") == 0)
        return sg_sum_axes(x, list_of(attr_of(test, "axes"), sg_rank_of(x), axes), axes,
                           json_is_true(attr_of(test, "keepdims")));
    if (strcmp(op, "mean") == 0)
        return mean(test, x);
    if (strcmp(op, "max") == 0)
        return reduce(test, x, sg_max);
    if (strcmp(op, "min") == 0)
        return reduce(test, x, sg_min);
    if (strcmp(op, "prod") == 0)
        return reduce(test, x, sg_prod);
    if (strcmp(op, "logsumexp") == 0)
        return reduce(test, x, sg_logsumexp);
    if (strcmp(op, "argmax") == 0)
        return sg_argmax(x, (int32_t)golden_attr_real(test, "axis"));
    if (strcmp(op, "argmin") == 0)
        return sg_argmax(sg_neg(x), (int32_t)golden_attr_real(test, "axis"));
    if (strcmp(op, "cumsum") == 0)
        return sg_cumsum(x, (int32_t)golden_attr_real(test, "axis"));
    return SG_NONE;
}

/* ---- shape and indexing */

static sg_value pad(const json_t *test, sg_value x)
{
    const json_t *amounts = attr_of(test, "before_after");
    double value = golden_attr_real(test, "value");
    sg_value y = sg_add_scalar(x, -value);
    for (int32_t axis = 0; axis < (int32_t)json_array_size(amounts); axis++) {
        int32_t pair[SG_MAX_RANK];
        list_of(json_array_get(amounts, (size_t)axis), 0, pair);
        y = sg_pad(y, axis, pair[0], pair[1]);
    }
    return sg_add_scalar(y, value);
}

/* Steps other than 1 are a gather of rows. */
static sg_value slice_step(sg_value x, int32_t axis, const int32_t *range)
{
    int64_t size = sg_dim_of(x, axis);
    int64_t begin = range[0] < 0 ? range[0] + size : range[0], end = range[1] < 0 ? range[1] + size : range[1];
    if (range[2] == 1)
        return sg_slice(x, axis, begin, end);
    double index[16];
    int64_t n = 0;
    for (int64_t i = begin; i < end && n < 16; i += range[2])
        index[n++] = (double)i;
    sg_value rows = sg_constant(x.graph, SG_I32, SG_SHAPE(n), index, n);
    return sg_swap_axes(sg_gather(sg_swap_axes(x, 0, axis), rows), 0, axis);
}

static sg_value slice(const json_t *test, sg_value x)
{
    const json_t *ranges = attr_of(test, "start_stop_step");
    for (int32_t axis = 0; axis < (int32_t)json_array_size(ranges); axis++) {
        int32_t range[SG_MAX_RANK];
        list_of(json_array_get(ranges, (size_t)axis), 0, range);
        x = slice_step(x, axis, range);
    }
    return x;
}

static sg_value gather(const json_t *test, const sg_value *in)
{
    if (golden_attr_is(test, "expression", "sum(tanh(gather(x, index)), axis 0)"))
        return sg_sum(sg_tanh(sg_gather(in[0], in[1])), 0);
    if (golden_attr_real(test, "axis") == 0)
        return sg_gather(in[0], in[1]);
    return sg_transpose(sg_gather(sg_swap_axes(in[0], 0, 1), in[1]), SG_AXES(2, 0, 1));
}

static sg_value shapes(const json_t *test, const char *op, const sg_value *in, int32_t n_in)
{
    int32_t order[SG_MAX_RANK];
    if (strcmp(op, "concat") == 0)
        return sg_concat(in, n_in, (int32_t)golden_attr_real(test, "axis"));
    if (strcmp(op, "slice") == 0)
        return slice(test, in[0]);
    if (strcmp(op, "pad") == 0)
        return pad(test, in[0]);
    if (strcmp(op, "transpose") == 0)
        return sg_transpose(in[0], list_of(attr_of(test, "perm"), 0, order), order);
    if (strcmp(op, "reshape") == 0)
        return sg_reshape(in[0], shape_attr(test));
    if (strcmp(op, "broadcast_to") == 0)
        return sg_broadcast_like(in[0], zeros(in[0].graph, shape_attr(test)));
    if (strcmp(op, "gather") == 0)
        return gather(test, in);
    if (strcmp(op, "scatter_add") == 0)
        return sg_add(in[0], sg_scatter_rows(in[2], in[1], in[0]));
    if (strcmp(op, "segment_sum") == 0)
        return sg_scatter_rows(
            in[0], in[1],
            zeros(in[0].graph, SG_SHAPE((int64_t)golden_attr_real(test, "segments"), sg_dim_of(in[0], 1))));
    if (strcmp(op, "one_hot") == 0)
        return sg_one_hot(in[0], (int64_t)golden_attr_real(test, "depth"));
    return SG_NONE;
}

static sg_value build_reductions_shape(const json_t *test, const sg_value *in, int32_t n_in)
{
    const char *op = json_string_value(json_object_get(test, "op"));
    if (golden_attr_is(test, "expression", "sqrt(sum(x*x, axis -1))"))
        return sg_sqrt(sg_sum(sg_square(in[0]), -1));
    sg_value y = reductions(test, op, in[0]);
    return sg_is_none(y) ? shapes(test, op, in, n_in) : y;
}

/* ---- products */

/* The six arrays of a case's matrix; its transpose is found by walking the columns. */
static sg_csr csr_of(const json_t *test, const sg_value *in)
{
    const json_t *inputs = json_object_get(test, "inputs");
    double *pointers = golden_data(json_object_get(inputs, "indptr"));
    double *columns = golden_data(json_object_get(inputs, "indices"));
    int64_t rows = (int64_t)golden_attr_real(test, "rows"), n_columns = (int64_t)golden_attr_real(test, "cols");
    int64_t count = (int64_t)pointers[rows], n = 0;
    double *t_rows = calloc((size_t)count + 1, sizeof *t_rows), *t_order = calloc((size_t)count + 1, sizeof *t_order);
    double *t_indptr = calloc((size_t)n_columns + 1, sizeof *t_indptr);
    assert_true(t_rows && t_order && t_indptr);
    for (int64_t c = 0; c < n_columns; c++) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t e = (int64_t)pointers[i]; e < (int64_t)pointers[i + 1]; e++)
                if ((int64_t)columns[e] == c) {
                    t_rows[n] = (double)i;
                    t_order[n++] = (double)e;
                }
        t_indptr[c + 1] = (double)n;
    }
    sg_graph *graph = in[0].graph;
    sg_csr x = {in[2],
                in[1],
                in[0],
                sg_constant(graph, SG_I32, SG_SHAPE(count), t_rows, count),
                sg_constant(graph, SG_I32, SG_SHAPE(count), t_order, count),
                sg_constant(graph, SG_I32, SG_SHAPE(n_columns + 1), t_indptr, n_columns + 1)};
    free(pointers);
    free(columns);
    free(t_rows);
    free(t_order);
    free(t_indptr);
    return x;
}

static sg_value matmul(const json_t *test, const sg_value *in)
{
    bool trans_a = json_is_true(attr_of(test, "transpose_a")), trans_b = json_is_true(attr_of(test, "transpose_b"));
    if (trans_a && trans_b)
        return sg_swap_axes(sg_matmul(in[1], in[0]), 0, 1);
    if (trans_a)
        return sg_matmul_tn(in[0], in[1]);
    return trans_b ? sg_matmul_nt(in[0], in[1]) : sg_matmul(in[0], in[1]);
}

static sg_value einsum(const json_t *test, const sg_value *in)
{
    if (golden_attr_is(test, "equation", "bik,bjk->bij"))
        return sg_matmul_nt(in[0], in[1]);
    if (golden_attr_is(test, "equation", "bqhd,bkhd->bhqk"))
        return sg_matmul_nt(sg_swap_axes(in[0], 1, 2), sg_swap_axes(in[1], 1, 2));
    return sg_sum(sg_mul(sg_matmul(in[0], in[1]), in[2]), -1);
}

static sg_value build_linear(const json_t *test, const sg_value *in, int32_t n_in)
{
    (void)n_in;
    const char *op = json_string_value(json_object_get(test, "op"));
    if (strcmp(op, "matmul") == 0)
        return matmul(test, in);
    if (strcmp(op, "affine") == 0)
        return sg_add(sg_matmul_nt(in[0], in[1]), in[2]);
    if (strcmp(op, "einsum") == 0)
        return einsum(test, in);
    if (strcmp(op, "csr_matmul") == 0)
        return sg_csr_matmul(csr_of(test, in), in[3]);
    if (golden_attr_is(test, "expression", "softplus(csr dense + b)"))
        return sg_softplus(sg_add(sg_csr_matmul(csr_of(test, in), in[3]), in[4]));
    if (golden_attr_is(test, "expression", "tanh(x w) u"))
        return sg_matmul(sg_tanh(sg_matmul(in[0], in[1])), in[2]);
    return SG_NONE;
}

/* All but top_k, gather_elements and scatter_add_elements, which are not operators here. */
static void reductions_shape(void **state)
{
    (void)state;
    golden_run_family("reductions_shape", 72, build_reductions_shape);
}

static void linear(void **state)
{
    (void)state;
    golden_run_family("linear", 21, build_linear);
}

int main(void)
{
    if (!golden_exists("reductions_shape")) {
        print_message("skipped: no golden/reductions_shape.json under $SG_SHARED or beside the source tree\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(reductions_shape), cmocka_unit_test(linear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
