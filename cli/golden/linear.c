/* linear.c - golden cases: products of dense and sparse matrices. */
#include "cli/golden/golden_internal.h"

static void matmul(sg_golden *g)
{
    bool trans_a = sg_golden_flag(g, "transpose_a"), trans_b = sg_golden_flag(g, "transpose_b");
    sg_value a = sg_golden_in(g, "a"), b = sg_golden_in(g, "b"), y;
    if (trans_a && trans_b) /* a'b' = (ba)' */
        y = sg_swap_axes(sg_matmul(b, a), -1, -2);
    else if (trans_a)
        y = sg_matmul_tn(a, b);
    else
        y = trans_b ? sg_matmul_nt(a, b) : sg_matmul(a, b);
    sg_golden_out(g, "out", y);
}

static void affine(sg_golden *g)
{
    sg_value product = sg_matmul_nt(sg_golden_in(g, "x"), sg_golden_in(g, "w"));
    sg_golden_out(g, "out", sg_add(product, sg_golden_in(g, "b")));
}

static void einsum(sg_golden *g)
{
    enum { MOST = 8 };
    sg_value operand[MOST];
    const char *equation = json_string_value(sg_golden_attr(g, "equation"));
    int32_t n = sg_golden_inputs(g);
    if (!equation || n > MOST) {
        sg_golden_refuse(g, equation ? "more than 8 operands" : "the case has no attrs.equation");
        return;
    }
    for (int32_t i = 0; i < n; i++)
        operand[i] = sg_golden_in_at(g, i);
    sg_golden_out(g, "out", sg_einsum(equation, operand, n));
}

static void tanh_layer(sg_golden *g)
{
    sg_value hidden = sg_tanh(sg_matmul(sg_golden_in(g, "x"), sg_golden_in(g, "w")));
    sg_golden_out(g, "out", sg_matmul(hidden, sg_golden_in(g, "u")));
}

/* ---- sparse rows */

/* Counting sort of the non-zeros by column; each column keeps the order of the rows. Writes rows and positions in column order
 * and the pointers of the columns. False if the arrays are no CSR matrix of that size. */
static bool transpose(const double *indptr, const double *columns, int64_t count, int64_t rows, int64_t n_columns,
                      double *t_rows, double *t_order, double *t_indptr)
{
    for (int64_t e = 0; e < count; e++) {
        if (columns[e] < 0 || columns[e] >= (double)n_columns)
            return false;
        t_indptr[(int64_t)columns[e] + 1]++;
    }
    for (int64_t c = 0; c < n_columns; c++)
        t_indptr[c + 1] += t_indptr[c];
    if (indptr[0] != 0 || indptr[rows] != (double)count)
        return false;
    for (int64_t i = rows - 1; i >= 0; i--) {
        if (indptr[i] > indptr[i + 1] || indptr[i] < 0)
            return false;
        for (int64_t e = (int64_t)indptr[i + 1] - 1; e >= (int64_t)indptr[i]; e--) {
            /* The last free place of the column, counted down: its pointer is that place while this runs. */
            int64_t at = (int64_t)--t_indptr[(int64_t)columns[e] + 1];
            t_rows[at] = (double)i;
            t_order[at] = (double)e;
        }
    }
    /* Every pointer has come down to the begin of its column, one place to the right of where it belongs. */
    for (int64_t c = 0; c < n_columns; c++)
        t_indptr[c] = t_indptr[c + 1];
    t_indptr[n_columns] = (double)count;
    return true;
}

static sg_csr csr(sg_golden *g)
{
    int64_t rows = sg_golden_int(g, "rows"), n_columns = sg_golden_int(g, "cols"), count = 0, pointers = 0, given = 0;
    const double *columns = sg_golden_elements(g, "indices", &count);
    const double *indptr = sg_golden_elements(g, "indptr", &pointers);
    sg_golden_elements(g, "values", &given);
    sg_csr x = {SG_NONE, SG_NONE, SG_NONE, SG_NONE, SG_NONE, SG_NONE};
    if (!columns || !indptr || n_columns < 0 || pointers != rows + 1 || given != count) {
        sg_golden_refuse(g, "indptr, indices and values are no CSR matrix of %lld rows", (long long)rows);
        return x;
    }
    double *work = sg_calloc(2 * count + n_columns + 1, sizeof *work);
    if (!work || !transpose(indptr, columns, count, rows, n_columns, work, work + count, work + 2 * count)) {
        sg_golden_refuse(g, "indptr and indices are no CSR matrix of %lld rows and %lld columns", (long long)rows,
                         (long long)n_columns);
    } else {
        sg_graph *graph = sg_golden_graph(g);
        x = (sg_csr){sg_golden_in(g, "values"),
                     sg_golden_in(g, "indices"),
                     sg_golden_in(g, "indptr"),
                     sg_constant(graph, SG_I32, SG_SHAPE(count), work, count),
                     sg_constant(graph, SG_I32, SG_SHAPE(count), work + count, count),
                     sg_constant(graph, SG_I32, SG_SHAPE(n_columns + 1), work + 2 * count, n_columns + 1)};
    }
    sg_free(work);
    return x;
}

static void csr_matmul(sg_golden *g) { sg_golden_out(g, "out", sg_csr_matmul(csr(g), sg_golden_in(g, "dense"))); }

static void csr_softplus(sg_golden *g)
{
    sg_value product = sg_csr_matmul(csr(g), sg_golden_in(g, "dense"));
    sg_golden_out(g, "out", sg_softplus(sg_add(product, sg_golden_in(g, "b"))));
}

static const sg_golden_row rows[] = {
    {"matmul", NULL, matmul, 0},
    {"affine", NULL, affine, 0},
    {"einsum", NULL, einsum, 0},
    {"csr_matmul", NULL, csr_matmul, 0},
    {"expression", "tanh(x w) u", tanh_layer, 0},
    {"expression", "softplus(csr dense + b)", csr_softplus, 0},
};

SG_GOLDEN_TABLE(linear, rows);
