/* csr.c - products with a sparse matrix X [rows, columns] of fixed capacity (struct sg_csr).
 *
 *     csr_matmul     Y = X W          y[i] = sum over non-zeros e of row i of v_e w[column e]
 *     csr_t_matmul   Z = X' G         z[c] = sum over non-zeros e of column c of v_e g[row e]
 *     csr_sddmm      s_e = <g[row e], w[column e]>        0 past the true count
 *
 * The family is closed. All three come from one trilinear form in (v, g, w),
 *     t(v, g, w) = sum_e v_e <g[row e], w[column e]> = <g, X W> = <X' G, w> = <v, s>,
 * so the derivative of each with respect to one operand is the product that leaves this operand out:
 *     csr_matmul(v, w), cotangent g:     dw = csr_t_matmul(v, g),   dv = csr_sddmm(g, w)
 *     csr_t_matmul(v, g), cotangent w:   dg = csr_matmul(v, w),     dv = csr_sddmm(g, w)
 *     csr_sddmm(g, w), cotangent v:      dg = csr_matmul(v, w),     dw = csr_t_matmul(v, g)
 * The transpose that stands beside X makes csr_t_matmul a sum in a fixed order. Index arrays that point outside are
 * errors in backends; the reference rules give NaN where they are read. */
#include "ops/axis_internal.h"

#include <math.h>

enum { VALUES, COLUMNS, INDPTR, T_ROWS, T_ORDER, T_INDPTR, N_ARRAYS };

static sg_status check_matrix(const sg_infer_args *a, int32_t input, int32_t pointers, const char *what)
{
    const sg_shape *s = &a->in_shape[input];
    SG_TRY(sg_require_same_dtype(a, VALUES, input));
    if (s->rank == 2 && s->dim[0] == a->in_shape[pointers].dim[0] - 1)
        return SG_OK;
    char text[SG_SHAPE_TEXT];
    return sg_infer_fail(a, SG_E_SHAPE, "the dense operand has shape %s and must have [%s = %lld, N]",
                         sg_shape_format(s, text, sizeof text), what, (long long)a->in_shape[pointers].dim[0] - 1);
}

static sg_status check_arrays(const sg_infer_args *a)
{
    SG_TRY(sg_require_real(a, VALUES));
    for (int32_t k = 0; k < N_ARRAYS; k++) {
        const sg_shape *s = &a->in_shape[k];
        if (k != VALUES)
            SG_TRY(sg_require_dtype(a, k, SG_I32));
        bool pointers = k == INDPTR || k == T_INDPTR;
        if (s->rank != 1 || (pointers ? s->dim[0] < 1 : s->dim[0] != a->in_shape[VALUES].dim[0]))
            return sg_infer_fail(a, SG_E_SHAPE, "array %d of the sparse matrix must be a vector of %s", k,
                                 pointers ? "at least one pointer" : "the capacity");
    }
    return SG_OK;
}

static sg_status infer_product(const sg_infer_args *a, int32_t from, int32_t to, const char *what)
{
    SG_TRY(check_arrays(a));
    SG_TRY(check_matrix(a, N_ARRAYS, from, what));
    sg_shape out = {.rank = 2};
    out.dim[0] = a->in_shape[to].dim[0] - 1;
    sg_shape_put(&out, 1, &a->in_shape[N_ARRAYS], 1);
    a->out_shape[0] = out;
    a->out_dtype[0] = a->in_dtype[VALUES];
    return SG_OK;
}

static sg_status infer_matmul(const sg_infer_args *a) { return infer_product(a, T_INDPTR, INDPTR, "columns"); }

static sg_status infer_t_matmul(const sg_infer_args *a) { return infer_product(a, INDPTR, T_INDPTR, "rows"); }

static sg_status infer_sddmm(const sg_infer_args *a)
{
    SG_TRY(check_arrays(a));
    SG_TRY(check_matrix(a, N_ARRAYS, INDPTR, "rows"));
    SG_TRY(check_matrix(a, N_ARRAYS + 1, T_INDPTR, "columns"));
    int64_t n = a->in_shape[N_ARRAYS].dim[1], m = a->in_shape[N_ARRAYS + 1].dim[1];
    if (n != m)
        return sg_infer_fail(a, SG_E_SHAPE, "the dense operands have rows of %lld and %lld", (long long)n,
                             (long long)m);
    a->out_shape[0] = a->in_shape[VALUES];
    a->out_dtype[0] = a->in_dtype[VALUES];
    return SG_OK;
}

static sg_csr arrays(const sg_value *in, sg_value values)
{
    return (sg_csr){values, in[COLUMNS], in[INDPTR], in[T_ROWS], in[T_ORDER], in[T_INDPTR]};
}

static void vjp_matmul(const sg_vjp_args *a)
{
    sg_csr x = arrays(a->in, a->in[VALUES]);
    if (a->need[VALUES])
        a->gin[VALUES] = sg_csr_sddmm(x, a->gout[0], a->in[N_ARRAYS]);
    if (a->need[N_ARRAYS])
        a->gin[N_ARRAYS] = sg_csr_t_matmul(x, a->gout[0]);
}

static void vjp_t_matmul(const sg_vjp_args *a)
{
    sg_csr x = arrays(a->in, a->in[VALUES]);
    if (a->need[VALUES])
        a->gin[VALUES] = sg_csr_sddmm(x, a->in[N_ARRAYS], a->gout[0]);
    if (a->need[N_ARRAYS])
        a->gin[N_ARRAYS] = sg_csr_matmul(x, a->gout[0]);
}

static void vjp_sddmm(const sg_vjp_args *a)
{
    sg_csr v = arrays(a->in, a->gout[0]);
    if (a->need[N_ARRAYS])
        a->gin[N_ARRAYS] = sg_csr_matmul(v, a->in[N_ARRAYS + 1]);
    if (a->need[N_ARRAYS + 1])
        a->gin[N_ARRAYS + 1] = sg_csr_t_matmul(v, a->in[N_ARRAYS]);
}

/* The half-open range of non-zeros that belongs to line i, cut to the capacity. */
static void line_range(const sg_eval_args *a, int32_t pointers, int64_t i, int64_t *begin, int64_t *end)
{
    int64_t capacity = a->in[VALUES].shape->dim[0];
    const double *p = a->in[pointers].data;
    *begin = p[i] >= 0 ? (int64_t)p[i] : 0;
    *end = p[i + 1] <= (double)capacity ? (int64_t)p[i + 1] : capacity;
}

static double element(const double *data, int64_t count, double row, int64_t width, int64_t j)
{
    return row >= 0 && row < (double)count ? data[(int64_t)row * width + j] : NAN;
}

/* y[i] = sum over the line's non-zeros of value * dense[other]; order[e] is the place of non-zero e in values. */
static void eval_product(const sg_eval_args *a, int32_t pointers, int32_t other, const double *order)
{
    const sg_tensor64 *dense = &a->in[N_ARRAYS];
    int64_t width = dense->shape->dim[1], capacity = a->in[VALUES].shape->dim[0];
    for (int64_t i = 0; i < a->out[0].shape->dim[0]; i++) {
        double *row = a->out[0].data + i * width;
        int64_t begin, end;
        line_range(a, pointers, i, &begin, &end);
        for (int64_t j = 0; j < width; j++)
            row[j] = 0;
        for (int64_t e = begin; e < end; e++) {
            double value = element(a->in[VALUES].data, capacity, order ? order[e] : (double)e, 1, 0);
            for (int64_t j = 0; j < width; j++)
                row[j] += value * element(dense->data, dense->shape->dim[0], a->in[other].data[e], width, j);
        }
    }
}

static void eval_matmul(const sg_eval_args *a) { eval_product(a, INDPTR, COLUMNS, NULL); }

static void eval_t_matmul(const sg_eval_args *a) { eval_product(a, T_INDPTR, T_ROWS, a->in[T_ORDER].data); }

static void eval_sddmm(const sg_eval_args *a)
{
    const sg_tensor64 *g = &a->in[N_ARRAYS], *w = &a->in[N_ARRAYS + 1];
    int64_t width = g->shape->dim[1];
    for (int64_t e = 0; e < a->out[0].shape->dim[0]; e++)
        a->out[0].data[e] = 0;
    for (int64_t i = 0; i < g->shape->dim[0]; i++) {
        int64_t begin, end;
        line_range(a, INDPTR, i, &begin, &end);
        for (int64_t e = begin; e < end; e++)
            for (int64_t j = 0; j < width; j++)
                a->out[0].data[e] +=
                    g->data[i * width + j] * element(w->data, w->shape->dim[0], a->in[COLUMNS].data[e], width, j);
    }
}

/* 2 N flops a non-zero, counted at the capacity; every operand moves once and each non-zero touches a dense row. */
static sg_cost cost(const sg_cost_args *a)
{
    double capacity = (double)a->in_shape[VALUES].dim[0], width = (double)a->in_shape[N_ARRAYS].dim[1];
    double dense = (double)sg_shape_count(&a->out_shape[0]);
    for (int32_t k = N_ARRAYS; k < a->n_in; k++)
        dense += (double)sg_shape_count(&a->in_shape[k]);
    return (sg_cost){2 * capacity * width, dense * (double)sg_dtype_size(a->out_dtype[0]) + 8 * capacity};
}

const sg_op sg_op_csr_matmul = {
    .name = "csr_matmul",
    .summary = "Y = X W with X sparse",
    .n_in = N_ARRAYS + 1,
    .n_out = 1,
    .flags = SG_OP_FULL,
    .linear = 1u << VALUES | 1u << N_ARRAYS,
    .infer = infer_matmul,
    .vjp = vjp_matmul,
    .eval = eval_matmul,
    .cost = cost,
};

const sg_op sg_op_csr_t_matmul = {
    .name = "csr_t_matmul",
    .summary = "Z = X' G with X sparse",
    .n_in = N_ARRAYS + 1,
    .n_out = 1,
    .flags = SG_OP_FULL,
    .linear = 1u << VALUES | 1u << N_ARRAYS,
    .infer = infer_t_matmul,
    .vjp = vjp_t_matmul,
    .eval = eval_t_matmul,
    .cost = cost,
};

const sg_op sg_op_csr_sddmm = {
    .name = "csr_sddmm",
    .summary = "s_e = <g[row e], w[column e]> at the non-zeros of X",
    .n_in = N_ARRAYS + 2,
    .n_out = 1,
    .flags = SG_OP_FULL,
    .linear = 1u << N_ARRAYS | 1u << (N_ARRAYS + 1),
    .shape_only = 1u << VALUES,
    .infer = infer_sddmm,
    .vjp = vjp_sddmm,
    .eval = eval_sddmm,
    .cost = cost,
};

sg_value sg_csr_matmul(sg_csr x, sg_value w)
{
    sg_value in[] = {x.values, x.columns, x.indptr, x.t_rows, x.t_order, x.t_indptr, w};
    return sg_build_op(&sg_op_csr_matmul, in, 7, NULL);
}

sg_value sg_csr_t_matmul(sg_csr x, sg_value g)
{
    sg_value in[] = {x.values, x.columns, x.indptr, x.t_rows, x.t_order, x.t_indptr, g};
    return sg_build_op(&sg_op_csr_t_matmul, in, 7, NULL);
}

sg_value sg_csr_sddmm(sg_csr x, sg_value g, sg_value w)
{
    sg_value in[] = {x.values, x.columns, x.indptr, x.t_rows, x.t_order, x.t_indptr, g, w};
    return sg_build_op(&sg_op_csr_sddmm, in, 8, NULL);
}

static sg_value array_input(sg_graph *graph, const char *name, const char *part, sg_dtype dtype, int64_t size)
{
    char full[256];
    int length = snprintf(full, sizeof full, "%s.%s", name, part);
    if (length < 0 || (size_t)length >= sizeof full)
        return sg_graph_fail(graph, SG_E_NAME, SG_NONE, "the name of the sparse input is too long: %.64s...", name);
    return sg_input(graph, full, dtype, SG_SHAPE(size));
}

sg_csr sg_csr_input(sg_graph *graph, const char *name, int64_t rows, int64_t columns, int64_t capacity)
{
    if (rows < 0 || columns < 0 || capacity < 0 || rows == INT64_MAX || columns == INT64_MAX) {
        sg_graph_fail(graph, SG_E_SHAPE, SG_NONE, "sparse input %s: %lld rows, %lld columns, capacity %lld", name,
                      (long long)rows, (long long)columns, (long long)capacity);
        return (sg_csr){SG_NONE, SG_NONE, SG_NONE, SG_NONE, SG_NONE, SG_NONE};
    }
    return (sg_csr){
        array_input(graph, name, "values", SG_F32, capacity),
        array_input(graph, name, "columns", SG_I32, capacity),
        array_input(graph, name, "indptr", SG_I32, rows + 1),
        array_input(graph, name, "t_rows", SG_I32, capacity),
        array_input(graph, name, "t_order", SG_I32, capacity),
        array_input(graph, name, "t_indptr", SG_I32, columns + 1),
    };
}
