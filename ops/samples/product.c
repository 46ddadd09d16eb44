/* product.c - samples: matrix products, dense and sparse. */
#include <string.h>

#include "ops/samples/table_internal.h"

BUILD(matmul, sg_matmul(in[0], in[1]))
BUILD(matmul_nt, sg_matmul_nt(in[0], in[1]))
BUILD(matmul_tn, sg_matmul_tn(in[0], in[1]))
BUILD(matmul_self, sg_matmul_nt(in[0], in[0]))

/* Views as operands: rows that are not next to each other, or that begin anywhere. */
BUILD(matmul_columns, sg_matmul(sg_slice(in[0], 1, 3, -2), sg_slice(in[1], 1, 1, -1)))
BUILD(matmul_columns_nt, sg_matmul_nt(sg_slice(in[0], 1, 3, -2), sg_slice(in[1], 1, 1, -4)))
BUILD(matmul_columns_tn, sg_matmul_tn(sg_slice(in[0], 1, 1, -1), sg_slice(in[1], 1, 2, -1)))
BUILD(matmul_rows, sg_matmul(sg_slice(in[0], 0, 1, -1), sg_slice(in[1], 0, 3, -2)))
BUILD(matmul_turned, sg_matmul(sg_transpose(in[0], SG_AXES(1, 0)), sg_transpose(in[1], SG_AXES(1, 0))))
BUILD(matmul_heads, sg_matmul_nt(sg_transpose(in[0], SG_AXES(0, 2, 1, 3)), sg_transpose(in[1], SG_AXES(0, 2, 1, 3))))

/* What follows a product: a layer; a layer whose sum others read too; the residual of a layer. */
BUILD(dense, sg_gelu(sg_add(sg_matmul(in[0], in[1]), in[2])))
BUILD(dense_residual, sg_add(sg_tanh(sg_add(sg_matmul_nt(in[0], in[1]), in[2])), in[3]))

static void dense_twice(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    out[0] = sg_add(sg_matmul(in[0], in[1]), in[2]);
    out[1] = sg_softplus(out[0]);
}

/* More steps than are done for several elements at once, with a tensor of the product's shape for each of six. */
static void many_steps(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    sg_value y = sg_matmul(in[0], in[1]);
    for (int32_t k = 2; k < 8; k++)
        y = sg_add(sg_tanh(sg_mul(y, in[k])), sg_mul_scalar(in[k], 0.5));
    out[0] = y;
}

/* Sums of products into one place, as the gradient of a layer that is used three times. */
BUILD(matmul_thrice, sg_add(sg_add(sg_matmul_tn(in[0], in[1]), sg_matmul_tn(in[2], in[3])), sg_matmul_tn(in[4], in[5])))

/* ---- sparse rows of every length: none, single ones, around the widths of warps and blocks, thousands; and columns likewise. */
enum { LONG_ROWS = 13, LONG_COLUMNS = 3001, LONG_CAPACITY = 5000 };
typedef struct long_matrix {
    double columns[LONG_CAPACITY], indptr[LONG_ROWS + 1];
    double t_rows[LONG_CAPACITY], t_order[LONG_CAPACITY], t_indptr[LONG_COLUMNS + 1];
} long_matrix;

/* Row r has every `apart[r]`-th column from `first[r]` on, `length[r]` of them. */
static void make_rows(long_matrix *m)
{
    static const int32_t length[LONG_ROWS] = {0, 1, 15, 16, 17, 0, 3001, 31, 33, 255, 257, 1025, 0};
    static const int32_t first[LONG_ROWS] = {0, 3000, 7, 0, 1, 0, 0, 2, 2, 0, 5, 0, 0};
    static const int32_t apart[LONG_ROWS] = {1, 1, 9, 16, 100, 1, 1, 1, 2, 11, 3, 2, 1};
    int32_t n = 0;
    for (int32_t r = 0; r < LONG_ROWS; r++) {
        m->indptr[r] = n;
        for (int32_t j = 0; j < length[r]; j++)
            m->columns[n++] = first[r] + j * apart[r];
    }
    m->indptr[LONG_ROWS] = n;
    memset(m->columns + n, 0, sizeof *m->columns * (size_t)(LONG_CAPACITY - n));
}

static long_matrix *make_matrix(void)
{
    static long_matrix m;
    static bool made;
    if (made)
        return &m;
    make_rows(&m);
    int32_t at = 0;
    for (int32_t c = 0; c < LONG_COLUMNS; c++) {
        m.t_indptr[c] = at;
        for (int32_t r = 0; r < LONG_ROWS; r++)
            for (int32_t e = (int32_t)m.indptr[r]; e < (int32_t)m.indptr[r + 1]; e++)
                if ((int32_t)m.columns[e] == c) {
                    m.t_rows[at] = r;
                    m.t_order[at++] = e;
                }
    }
    m.t_indptr[LONG_COLUMNS] = at;
    made = true;
    return &m;
}

#define ARRAY(name)                                                                                                    \
    static void long_##name(double *out, int64_t n) { memcpy(out, make_matrix()->name, (size_t)n * sizeof *out); }
ARRAY(columns)
ARRAY(indptr)
ARRAY(t_rows)
ARRAY(t_order)
ARRAY(t_indptr)

static sg_csr csr_of(const sg_value *in) { return (sg_csr){in[0], in[1], in[2], in[3], in[4], in[5]}; }

BUILD(csr_matmul, sg_csr_matmul(csr_of(in), in[6]))
BUILD(csr_t_matmul, sg_csr_t_matmul(csr_of(in), in[6]))
BUILD(csr_sddmm, sg_csr_sddmm(csr_of(in), in[6], in[7]))

/* clang-format off */
/* The matrix of the CSR samples, 4 x 5 with 6 non-zeros in a capacity of 8 and an empty row:
 *     row 0: columns 1, 3;  row 1: none;  row 2: columns 0, 1, 4;  row 3: column 3. */
#define CSR_INPUTS                                                                                                     \
    REAL(S1(8), -1, 1), GIVEN_I32(S1(8), 1, 3, 0, 1, 4, 3, 0, 0), GIVEN_I32(S1(5), 0, 2, 2, 5, 6),                     \
        GIVEN_I32(S1(8), 2, 0, 2, 0, 3, 2, 0, 0), GIVEN_I32(S1(8), 2, 0, 3, 1, 5, 4, 0, 0),                            \
        GIVEN_I32(S1(6), 0, 1, 3, 3, 5, 6)
#define CSR_EMPTY                                                                                                      \
    REAL(S1(2), -1, 1), GIVEN_I32(S1(2), 0, 0), GIVEN_I32(S1(4), 0, 0, 0, 0), GIVEN_I32(S1(2), 0, 0),                  \
        GIVEN_I32(S1(2), 0, 0), GIVEN_I32(S1(6), 0, 0, 0, 0, 0, 0)

#define CSR_LONG                                                                                                       \
    REAL(S1(LONG_CAPACITY), -1, 1), MADE(SG_I32, S1(LONG_CAPACITY), long_columns),                                     \
        MADE(SG_I32, S1(LONG_ROWS + 1), long_indptr), MADE(SG_I32, S1(LONG_CAPACITY), long_t_rows),                    \
        MADE(SG_I32, S1(LONG_CAPACITY), long_t_order), MADE(SG_I32, S1(LONG_COLUMNS + 1), long_t_indptr)

/* Products with long sums or odd places, [m, k] x [k, n]. */
#define TWO(m, k, n) {REAL(S2(m, k), -1, 1), REAL(S2(k, n), -1, 1)}
#define TWO_NT(m, k, n) {REAL(S2(m, k), -1, 1), REAL(S2(n, k), -1, 1)}
#define TWO_TN(m, k, n) {REAL(S2(k, m), -1, 1), REAL(S2(k, n), -1, 1)}

static const sg_sample rows[] = {
    {"matmul", "", "[2, 4]", 2, 1, {REAL(S2(2, 3), -1, 1), REAL(S2(3, 4), -1, 1)}, .build = matmul},
    {"matmul", "", "[33, 17]", 2, 1, {REAL(S2(33, 65), -1, 1), REAL(S2(65, 17), -1, 1)}, .build = matmul},
    {"matmul", "", "[1, 1]", 2, 1, {REAL(S2(1, 1), -1, 1), REAL(S2(1, 1), -1, 1)}, .build = matmul},
    {"matmul", "nt", "[3, 5]", 2, 1, {REAL(S2(3, 33), -1, 1), REAL(S2(5, 33), -1, 1)}, .build = matmul_nt},
    {"matmul", "tn", "[3, 5]", 2, 1, {REAL(S2(33, 3), -1, 1), REAL(S2(33, 5), -1, 1)}, .build = matmul_tn},
    {"matmul", "twice the same", "[3, 3]", 1, 1, {REAL(S2(3, 4), -1, 1)}, .build = matmul_self},
    {"matmul", "batch", "[2, 3, 2]", 2, 1, {REAL(S3(2, 3, 4), -1, 1), REAL(S3(2, 4, 2), -1, 1)}, .build = matmul},
    {"matmul", "batch nt", "[2, 3, 2]", 2, 1, {REAL(S3(2, 3, 4), -1, 1), REAL(S3(2, 2, 4), -1, 1)}, .build = matmul_nt},
    {"matmul", "batch tn", "[2, 3, 2]", 2, 1, {REAL(S3(2, 4, 3), -1, 1), REAL(S3(2, 4, 2), -1, 1)}, .build = matmul_tn},
    {"matmul", "batch of b", "[2, 3, 3]", 2, 1, {REAL(S2(3, 2), -1, 1), REAL(S3(2, 2, 3), -1, 1)}, .build = matmul},
    {"matmul", "batch of a", "[5, 3, 4]", 2, 1, {REAL(S3(5, 3, 2), -1, 1), REAL(S2(2, 4), -1, 1)}, .build = matmul},
    {"matmul", "batch of a nt", "[5, 3, 4]", 2, 1, {REAL(S3(5, 3, 2), -1, 1), REAL(S2(4, 2), -1, 1)}, .build = matmul_nt},
    {"matmul", "batch axes", "[2, 3, 3, 2]", 2, 1, {REAL(S4(2, 1, 3, 2), -1, 1), REAL(S3(3, 2, 2), -1, 1)}, .build = matmul},
    {"matmul", "vector", "[3]", 2, 1, {REAL(S2(3, 4), -1, 1), REAL(S1(4), -1, 1)}, .build = matmul},
    {"matmul", "vector", "[2]", 2, 1, {REAL(S1(3), -1, 1), REAL(S2(3, 2), -1, 1)}, .build = matmul},
    {"matmul", "dot", "[]", 2, 1, {REAL(S1(4), -1, 1), REAL(S1(4), -1, 1)}, .build = matmul},
    {"matmul", "batch vector", "[2, 3]", 2, 1, {REAL(S3(2, 3, 4), -1, 1), REAL(S1(4), -1, 1)}, .build = matmul},
    {"matmul", "no terms", "[2, 3]", 2, 1, {REAL(S2(2, 0), -1, 1), REAL(S2(0, 3), -1, 1)}, .build = matmul},
    {"matmul", "no rows", "[0, 3]", 2, 1, {REAL(S2(0, 2), -1, 1), REAL(S2(2, 3), -1, 1)}, .build = matmul},
    {"csr_matmul", "", "[4, 3]", 7, 1, {CSR_INPUTS, REAL(S2(5, 3), -1, 1)}, .build = csr_matmul},
    {"csr_matmul", "", "[4, 33]", 7, 1, {CSR_INPUTS, REAL(S2(5, 33), -1, 1)}, .build = csr_matmul},
    {"csr_matmul", "no entries", "[3, 3]", 7, 1, {CSR_EMPTY, REAL(S2(5, 3), -1, 1)}, .build = csr_matmul},
    {"csr_t_matmul", "", "[5, 3]", 7, 1, {CSR_INPUTS, REAL(S2(4, 3), -1, 1)}, .build = csr_t_matmul},
    {"csr_t_matmul", "no entries", "[5, 3]", 7, 1, {CSR_EMPTY, REAL(S2(3, 3), -1, 1)}, .build = csr_t_matmul},
    {"csr_sddmm", "", "[8]", 8, 1, {CSR_INPUTS, REAL(S2(4, 3), -1, 1), REAL(S2(5, 3), -1, 1)}, .build = csr_sddmm},
    {"csr_sddmm", "no entries", "[2]", 8, 1, {CSR_EMPTY, REAL(S2(3, 3), -1, 1), REAL(S2(5, 3), -1, 1)}, .build = csr_sddmm},
    {"matmul", "large", "[301, 131]", 2, 1, {REAL(S2(301, 257), -0.2, 0.2), REAL(S2(257, 131), -0.2, 0.2)},
     .build = matmul, .large = true},
    {"matmul", "large, nt", "[301, 131]", 2, 1, {REAL(S2(301, 257), -0.2, 0.2), REAL(S2(131, 257), -0.2, 0.2)},
     .build = matmul_nt, .large = true},
    {"matmul", "long sum", "[1, 1]", 2, 1, TWO(1, 4099, 1), .build = matmul, .large = true},
    {"matmul", "long sum", "[1, 3]", 2, 1, TWO(1, 4099, 3), .build = matmul, .large = true},
    {"matmul", "long sum", "[1, 17]", 2, 1, TWO(1, 1024, 17), .build = matmul, .large = true},
    {"matmul", "long sum", "[2, 1]", 2, 1, TWO(2, 4099, 1), .build = matmul, .large = true},
    {"matmul", "long sum", "[2, 3]", 2, 1, TWO(2, 5000, 3), .build = matmul, .large = true},
    {"matmul", "long sum", "[16, 1]", 2, 1, TWO(16, 2050, 1), .build = matmul, .large = true},
    {"matmul", "long sum", "[16, 17]", 2, 1, TWO(16, 3077, 17), .build = matmul, .large = true},
    {"matmul", "long sum, nt", "[1, 17]", 2, 1, TWO_NT(1, 4099, 17), .build = matmul_nt, .large = true},
    {"matmul", "long sum, nt", "[2, 3]", 2, 1, TWO_NT(2, 4096, 3), .build = matmul_nt, .large = true},
    {"matmul", "long sum, nt", "[17, 2]", 2, 1, TWO_NT(17, 1023, 2), .build = matmul_nt, .large = true},
    {"matmul", "long sum, tn", "[1, 3]", 2, 1, TWO_TN(1, 4099, 3), .build = matmul_tn, .large = true},
    {"matmul", "long sum, tn", "[3, 17]", 2, 1, TWO_TN(3, 2049, 17), .build = matmul_tn, .large = true},
    {"matmul", "long sum, tn", "[16, 1]", 2, 1, TWO_TN(16, 4099, 1), .build = matmul_tn, .large = true},
    {"matmul", "tall", "[1025, 3]", 2, 1, TWO(1025, 7, 3), .build = matmul, .large = true},
    {"matmul", "tall", "[4099, 1]", 2, 1, TWO(4099, 5, 1), .build = matmul, .large = true},
    {"matmul", "wide", "[3, 2051]", 2, 1, TWO(3, 5, 2051), .build = matmul, .large = true},
    {"matmul", "wide, nt", "[1, 4099]", 2, 1, TWO_NT(1, 33, 4099), .build = matmul_nt, .large = true},
    {"matmul", "few rows, tensor cores", "[33, 134]", 2, 1, TWO(33, 260, 134), .build = matmul, .large = true},
    {"matmul", "few rows, long sum", "[40, 70]", 2, 1, TWO_NT(40, 3080, 70), .build = matmul_nt, .large = true},
    {"matmul", "short sum, tensor cores", "[130, 200]", 2, 1, TWO_TN(130, 41, 200), .build = matmul_tn, .large = true},
    {"matmul", "batch of long sums", "[3, 2, 3]", 2, 1, {REAL(S3(3, 2, 1030), -1, 1), REAL(S3(3, 1030, 3), -1, 1)}, .build = matmul, .large = true},
    {"matmul", "batch of a, long sums", "[3, 1, 17]", 2, 1, {REAL(S3(3, 1, 1030), -1, 1), REAL(S2(1030, 17), -1, 1)}, .build = matmul, .large = true},
    {"matmul", "batch of b, long sums", "[3, 2, 1]", 2, 1, {REAL(S2(2, 1030), -1, 1), REAL(S3(3, 1030, 1), -1, 1)}, .build = matmul, .large = true},
    {"matmul", "batch axes, long sums, nt", "[2, 3, 2, 5]", 2, 1, {REAL(S4(2, 1, 2, 515), -1, 1), REAL(S3(3, 5, 515), -1, 1)}, .build = matmul_nt, .large = true},
    {"matmul", "batch axes, long sums, tn", "[2, 3, 3, 2]", 2, 1, {REAL(S3(3, 515, 3), -1, 1), REAL(S4(2, 1, 515, 2), -1, 1)}, .build = matmul_tn, .large = true},
    {"matmul", "heads", "[2, 3, 33, 35]", 2, 1, {REAL(S4(2, 33, 3, 17), -1, 1), REAL(S4(2, 35, 3, 17), -1, 1)}, .build = matmul_heads, .large = true},
    {"matmul", "of columns", "[3, 5]", 2, 1, {REAL(S2(3, 1035), -1, 1), REAL(S2(1030, 7), -1, 1)}, .build = matmul_columns, .large = true},
    {"matmul", "of columns", "[65, 33]", 2, 1, {REAL(S2(65, 70), -1, 1), REAL(S2(65, 35), -1, 1)}, .build = matmul_columns, .large = true},
    {"matmul", "of columns, nt", "[2, 17]", 2, 1, {REAL(S2(2, 1035), -1, 1), REAL(S2(17, 1035), -1, 1)}, .build = matmul_columns_nt, .large = true},
    {"matmul", "of columns, tn", "[2, 17]", 2, 1, {REAL(S2(2047, 4), -1, 1), REAL(S2(2047, 20), -1, 1)}, .build = matmul_columns_tn, .large = true},
    {"matmul", "of rows", "[1, 3]", 2, 1, {REAL(S2(3, 1021), -1, 1), REAL(S2(1026, 3), -1, 1)}, .build = matmul_rows, .large = true},
    {"matmul", "of rows", "[17, 19]", 2, 1, {REAL(S2(19, 301), -1, 1), REAL(S2(306, 19), -1, 1)}, .build = matmul_rows, .large = true},
    {"matmul", "turned", "[3, 17]", 2, 1, {REAL(S2(1030, 3), -1, 1), REAL(S2(17, 1030), -1, 1)}, .build = matmul_turned, .large = true},
    {"matmul", "bias, gelu", "[2, 17]", 3, 1, {REAL(S2(2, 1030), -0.1, 0.1), REAL(S2(1030, 17), -1, 1), REAL(S1(17), -1, 1)}, .build = dense, .large = true},
    {"matmul", "bias, gelu", "[16, 1]", 3, 1, {REAL(S2(16, 4099), -0.1, 0.1), REAL(S2(4099, 1), -1, 1), REAL(S1(1), -1, 1)}, .build = dense, .large = true},
    {"matmul", "bias, gelu", "[65, 131]", 3, 1, {REAL(S2(65, 33), -0.1, 0.1), REAL(S2(33, 131), -1, 1), REAL(S1(131), -1, 1)}, .build = dense, .large = true},
    {"matmul", "bias, tanh, residual", "[1, 3]", 4, 1,
     {REAL(S2(1, 4099), -0.1, 0.1), REAL(S2(3, 4099), -1, 1), REAL(S1(3), -1, 1), REAL(S2(1, 3), -1, 1)}, .build = dense_residual, .large = true},
    {"matmul", "bias, tanh, residual", "[33, 18]", 4, 1,
     {REAL(S2(33, 1030), -0.1, 0.1), REAL(S2(18, 1030), -1, 1), REAL(S1(18), -1, 1), REAL(S2(33, 18), -1, 1)}, .build = dense_residual, .large = true},
    {"matmul", "bias, softplus, both read", "[17, 3]", 3, 2,
     {REAL(S2(17, 1030), -0.1, 0.1), REAL(S2(1030, 3), -1, 1), REAL(S1(3), -1, 1)}, .build = dense_twice, .large = true},
#define STEPS(m, k, n)                                                                                                 \
    {REAL(S2(m, k), -0.1, 0.1), REAL(S2(k, n), -1, 1), REAL(S2(m, n), -1, 1), REAL(S2(m, n), -1, 1),                   \
     REAL(S2(m, n), -1, 1), REAL(S2(m, n), -1, 1), REAL(S2(m, n), -1, 1), REAL(S2(m, n), -1, 1)}
    {"matmul", "many steps", "[1, 3]", 8, 1, STEPS(1, 4099, 3), .build = many_steps, .large = true},
    {"matmul", "many steps", "[2, 17]", 8, 1, STEPS(2, 3077, 17), .build = many_steps, .large = true},
    {"matmul", "many steps", "[16, 4]", 8, 1, STEPS(16, 1030, 4), .build = many_steps, .large = true},
    {"matmul", "many steps", "[67, 36]", 8, 1, STEPS(67, 65, 36), .build = many_steps, .large = true},
    {"matmul", "sum of three", "[17, 3]", 6, 1,
     {REAL(S2(1030, 17), -1, 1), REAL(S2(1030, 3), -1, 1), REAL(S2(259, 17), -1, 1), REAL(S2(259, 3), -1, 1),
      REAL(S2(1, 17), -1, 1), REAL(S2(1, 3), -1, 1)}, .build = matmul_thrice, .large = true},
    {"csr_matmul", "rows of all lengths", "[13, 1]", 7, 1, {CSR_LONG, REAL(S2(LONG_COLUMNS, 1), -1, 1)}, .build = csr_matmul, .large = true},
    {"csr_matmul", "rows of all lengths", "[13, 3]", 7, 1, {CSR_LONG, REAL(S2(LONG_COLUMNS, 3), -1, 1)}, .build = csr_matmul, .large = true},
    {"csr_matmul", "rows of all lengths", "[13, 36]", 7, 1, {CSR_LONG, REAL(S2(LONG_COLUMNS, 36), -0.2, 0.2)}, .build = csr_matmul, .large = true},
    {"csr_t_matmul", "rows of all lengths", "[3001, 1]", 7, 1, {CSR_LONG, REAL(S2(LONG_ROWS, 1), -1, 1)}, .build = csr_t_matmul, .large = true},
    {"csr_t_matmul", "rows of all lengths", "[3001, 17]", 7, 1, {CSR_LONG, REAL(S2(LONG_ROWS, 17), -1, 1)}, .build = csr_t_matmul, .large = true},
    {"csr_sddmm", "rows of all lengths", "[5000]", 8, 1, {CSR_LONG, REAL(S2(LONG_ROWS, 5), -1, 1), REAL(S2(LONG_COLUMNS, 5), -1, 1)}, .build = csr_sddmm, .large = true},
    {"csr_sddmm", "long sums", "[8]", 8, 1, {CSR_INPUTS, REAL(S2(4, 517), -1, 1), REAL(S2(5, 517), -1, 1)}, .build = csr_sddmm, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_product = TABLE(rows);
