/* product.c - samples: matrix products, dense and sparse. */
#include "ops/samples/table_internal.h"

BUILD(matmul, sg_matmul(in[0], in[1]))
BUILD(matmul_nt, sg_matmul_nt(in[0], in[1]))
BUILD(matmul_tn, sg_matmul_tn(in[0], in[1]))
BUILD(matmul_self, sg_matmul_nt(in[0], in[0]))

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
};
/* clang-format on */

const sg_sample_table sg_samples_product = TABLE(rows);
