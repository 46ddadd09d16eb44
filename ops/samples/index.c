/* index.c - samples of selection and indexing: argmin, top_k, elements and rows by index, segments; and einsum. */
#include "ops/samples/table_internal.h"

BUILD(scatter_add, sg_scatter_add(in[0], in[1], in[2]))
BUILD(take_middle, sg_take(in[0], in[1], 1))
BUILD(gather_elements_first, sg_gather_elements(in[0], in[1], 0))
BUILD(gather_elements_last, sg_gather_elements(in[0], in[1], -1))
BUILD(scatter_elements_first, sg_scatter_elements(in[0], in[1], in[2], 0))
BUILD(scatter_elements_last, sg_scatter_elements(in[0], in[1], in[2], -1))
BUILD(scatter_add_elements, sg_scatter_add_elements(in[0], in[1], in[2], 1))
BUILD(segment_sum, sg_segment_sum(in[0], in[1], 4))
BUILD(segment_mean, sg_segment_mean(in[0], in[1], 4))
BUILD(segment_max, sg_segment_max(in[0], in[1], 4))
BUILD(segment_max_none, sg_segment_max(in[0], in[1], 0))
BUILD(top_1, sg_top_k(in[0], 1, 1, NULL))
BUILD(top_3_last, sg_top_k(in[0], 3, -1, NULL))
BUILD(top_2_first, sg_top_k(in[0], 2, 0, NULL))
BUILD(top_100_last, sg_top_k(in[0], 100, -1, NULL))
BUILD(sorted_last, sg_top_k(in[0], sg_dim_of(in[0], 1), -1, NULL))
BUILD(top_none, sg_top_k(in[0], 0, 1, NULL))
BUILD(einsum_scores, sg_einsum("bqhd,bkhd->bhqk", in, 2))
BUILD(einsum_merged, sg_einsum("abij,ijcd->cadb", in, 2))
BUILD(einsum_bilinear, sg_einsum("bi,ij,bj->b", in, 3))
BUILD(einsum_outer, sg_einsum("ax,b->ba", in, 2))
BUILD(einsum_row, sg_einsum("i,ij->j", in, 2))
BUILD(argmin_last, sg_argmin(in[0], -1))
BUILD(argmin_first, sg_argmin(in[0], 0))
BUILD(pad_with, sg_pad_with(in[0], 1, 2, 1, -1.5))

static void top_places(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    sg_top_k(in[0], 3, -1, out);
}

/* clang-format off */
static const sg_sample rows[] = {
    {"argmin", "last", "[3]", 1, 1, {DISTINCT(S2(3, 33))}, .build = argmin_last, .flat = true},
    {"argmin", "first", "[4]", 1, 1, {DISTINCT(S2(3, 4))}, .build = argmin_first, .flat = true},
    {"argmin", "other axis empty", "[0]", 1, 1, {DISTINCT(S2(0, 4))}, .build = argmin_last, .flat = true},
    {"top_k", "places", "[3, 3]", 1, 1, {DISTINCT(S2(3, 33))}, .build = top_places, .flat = true},
    {"top_k", "values, last", "[2, 3]", 1, 1, {DISTINCT(S2(2, 5))}, .build = top_3_last},
    {"top_k", "values, first", "[2, 3]", 1, 1, {DISTINCT(S2(4, 3))}, .build = top_2_first},
    {"top_k", "all of them", "[3]", 1, 1, {DISTINCT(S1(3))}, .build = top_3_last},
    {"top_k", "one", "[2, 1, 4]", 1, 1, {DISTINCT(S3(2, 3, 4))}, .build = top_1},
    {"top_k", "none", "[2, 0]", 1, 1, {DISTINCT(S2(2, 3))}, .build = top_none},
    {"pad", "with a number", "[2, 6]", 1, 1, {REAL(S2(2, 3), -1, 1)}, .build = pad_with},
    {"add", "scatter_add", "[5, 3]", 3, 1, {REAL(S2(5, 3), -1, 1), GIVEN_I32(S1(4), 3, 0, 3, 4), REAL(S2(4, 3), -1, 1)}, .build = scatter_add},
    {"gather", "middle axis", "[2, 2, 2, 3]", 2, 1, {REAL(S3(2, 4, 3), -1, 1), INDEX(S2(2, 2), 0, 4)}, .build = take_middle},
    {"gather_elements", "first", "[4, 3]", 2, 1, {REAL(S2(5, 3), -1, 1), INDEX(S2(4, 3), 0, 5)}, .build = gather_elements_first},
    {"gather_elements", "last", "[3, 7]", 2, 1, {REAL(S2(3, 5), -1, 1), INDEX(S2(3, 7), 0, 5)}, .build = gather_elements_last},
    {"gather_elements", "no index", "[3, 0]", 2, 1, {REAL(S2(3, 5), -1, 1), INDEX(S2(3, 0), 0, 5)}, .build = gather_elements_last},
    {"scatter_elements", "first", "[5, 3]", 3, 1, {REAL(S2(4, 3), -1, 1), INDEX(S2(4, 3), 0, 5), MODEL(S2(5, 3))}, .build = scatter_elements_first},
    {"scatter_elements", "last", "[3, 5]", 3, 1, {REAL(S2(3, 7), -1, 1), INDEX(S2(3, 7), 0, 5), MODEL(S2(3, 5))}, .build = scatter_elements_last},
    {"scatter_elements", "no index", "[3, 5]", 3, 1, {REAL(S2(3, 0), -1, 1), INDEX(S2(3, 0), 0, 5), MODEL(S2(3, 5))}, .build = scatter_elements_last},
    {"add", "scatter_add_elements", "[2, 4, 3]", 3, 1, {REAL(S3(2, 4, 3), -1, 1), INDEX(S3(2, 2, 3), 0, 4), REAL(S3(2, 2, 3), -1, 1)},
     .build = scatter_add_elements},
    {"scatter_rows", "segment sum", "[4, 2]", 2, 1, {REAL(S2(5, 2), -1, 1), GIVEN_I32(S1(5), 2, 0, 2, 0, 3)}, .build = segment_sum},
    {"scatter_rows", "segment mean", "[4, 2]", 2, 1, {REAL(S2(5, 2), -1, 1), GIVEN_I32(S1(5), 2, 0, 2, 0, 3)}, .build = segment_mean},
    {"segment_max", "", "[4, 2]", 2, 1, {DISTINCT(S2(7, 2)), GIVEN_I32(S1(7), 2, 0, 2, 1, 3, 0, 1)}, .build = segment_max},
    {"segment_max", "2d ids", "[4]", 2, 1, {DISTINCT(S2(2, 3)), GIVEN_I32(S2(2, 3), 2, 0, 2, 1, 3, 0)}, .build = segment_max},
    {"segment_max", "no segment", "[0, 3]", 2, 1, {DISTINCT(S2(0, 3)), INDEX(S1(0), 0, 1)}, .build = segment_max_none},
    {"matmul", "einsum", "[2, 2, 2, 4]", 2, 1, {REAL(S4(2, 2, 2, 3), -1, 1), REAL(S4(2, 4, 2, 3), -1, 1)}, .build = einsum_scores},
    {"matmul", "einsum", "[2, 2, 3, 2]", 2, 1, {REAL(S4(2, 2, 3, 2), -1, 1), REAL(S4(3, 2, 2, 3), -1, 1)}, .build = einsum_merged},
    {"matmul", "einsum", "[3]", 3, 1, {REAL(S2(3, 2), -1, 1), REAL(S2(2, 4), -1, 1), REAL(S2(3, 4), -1, 1)}, .build = einsum_bilinear},
    {"mul", "einsum", "[3, 2]", 2, 1, {REAL(S2(2, 5), -1, 1), REAL(S1(3), -1, 1)}, .build = einsum_outer},
    {"matmul", "einsum", "[4]", 2, 1, {REAL(S1(3), -1, 1), REAL(S2(3, 4), -1, 1)}, .build = einsum_row},
    {"gather_elements", "large", "[301, 33]", 2, 1, {REAL(S2(301, 101), -1, 1), INDEX(S2(301, 33), 0, 101)},
     .build = gather_elements_last, .large = true},
    {"scatter_elements", "large", "[301, 33]", 3, 1,
     {REAL(S2(301, 101), -0.2, 0.2), INDEX(S2(301, 101), 0, 33), MODEL(S2(301, 33))}, .build = scatter_elements_last, .large = true},
    {"segment_max", "large", "[4, 33]", 2, 1, {REAL(S2(3001, 33), -1, 1), INDEX(S1(3001), 0, 4)}, .build = segment_max, .large = true},
    {"top_k", "large", "[301, 3]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = top_3_last, .large = true},
    {"argmin", "long", "[2]", 1, 1, {REAL(S2(2, 17001), -1, 1)}, .build = argmin_last, .flat = true, .large = true},
    {"argmin", "long, first", "[3]", 1, 1, {REAL(S2(5003, 3), -1, 1)}, .build = argmin_first, .flat = true, .large = true},
    {"top_k", "long", "[2, 3]", 1, 1, {REAL(S2(2, 5003), -1, 1)}, .build = top_3_last, .large = true},
    {"top_k", "long, first", "[2, 3]", 1, 1, {REAL(S2(2051, 3), -1, 1)}, .build = top_2_first, .large = true},
    {"top_k", "long, a hundred", "[3, 100]", 1, 1, {REAL(S2(3, 1025), -1, 1)}, .build = top_100_last, .large = true},
    {"top_k", "long, all of them", "[2, 1025]", 1, 1, {REAL(S2(2, 1025), -1, 1)}, .build = sorted_last, .large = true},
    {"top_k", "long, places", "[2, 3]", 1, 1, {REAL(S2(2, 4099), -1, 1)}, .build = top_places, .flat = true, .large = true},
    {"top_k", "short, many", "[2051, 3]", 1, 1, {REAL(S2(2051, 3), -1, 1)}, .build = top_3_last, .large = true},
    {"gather", "long, middle axis", "[2, 515, 3]", 2, 1, {REAL(S3(2, 1027, 3), -1, 1), INDEX(S1(515), 0, 1027)}, .build = take_middle, .large = true},
    {"gather_elements", "long, last", "[3, 2051]", 2, 1, {REAL(S2(3, 1027), -1, 1), INDEX(S2(3, 2051), 0, 1027)}, .build = gather_elements_last, .large = true},
    {"gather_elements", "long, first", "[2051, 3]", 2, 1, {REAL(S2(1027, 3), -1, 1), INDEX(S2(2051, 3), 0, 1027)}, .build = gather_elements_first, .large = true},
    {"gather_elements", "long, one result", "[2, 1]", 2, 1, {REAL(S2(2, 4099), -1, 1), INDEX(S2(2, 1), 0, 4099)}, .build = gather_elements_last, .large = true},
    {"scatter_elements", "long, into few", "[3, 2]", 3, 1, {REAL(S2(3, 4099), -0.2, 0.2), INDEX(S2(3, 4099), 0, 2), MODEL(S2(3, 2))}, .build = scatter_elements_last, .large = true},
    {"scatter_elements", "long, first", "[5, 3]", 3, 1, {REAL(S2(2051, 3), -0.2, 0.2), INDEX(S2(2051, 3), 0, 5), MODEL(S2(5, 3))}, .build = scatter_elements_first, .large = true},
    {"scatter_elements", "few into long", "[2, 4099]", 3, 1, {REAL(S2(2, 65), -1, 1), INDEX(S2(2, 65), 0, 4099), MODEL(S2(2, 4099))}, .build = scatter_elements_last, .large = true},
    {"segment_max", "long, one column", "[4, 1]", 2, 1, {REAL(S2(8501, 1), -1, 1), INDEX(S1(8501), 0, 3)}, .build = segment_max, .large = true},
    {"scatter_rows", "long, segment mean", "[4, 3]", 2, 1, {REAL(S2(2051, 3), -1, 1), INDEX(S1(2051), 0, 3)}, .build = segment_mean, .large = true},
    {"matmul", "einsum, long", "[3]", 3, 1, {REAL(S2(3, 515), -0.2, 0.2), REAL(S2(515, 7), -1, 1), REAL(S2(3, 7), -1, 1)}, .build = einsum_bilinear, .large = true},
    {"matmul", "einsum, long rows", "[1, 2, 33, 35]", 2, 1, {REAL(S4(1, 33, 2, 65), -1, 1), REAL(S4(1, 35, 2, 65), -1, 1)}, .build = einsum_scores, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_index = TABLE(rows);
