/* shape.c - samples: moving elements without arithmetic: shapes, slices, rows by index. */
#include "ops/samples/table_internal.h"

BUILD(reshape_infer, sg_reshape(in[0], SG_SHAPE(3, -1)))
BUILD(reshape_keep, sg_reshape(in[0], SG_SHAPE(0, 2, -1)))
BUILD(reshape_flat, sg_reshape(in[0], SG_SHAPE(-1)))
BUILD(transpose_2d, sg_transpose(in[0], SG_AXES(1, 0)))
BUILD(transpose_3d, sg_transpose(in[0], SG_AXES(2, 0, 1)))
BUILD(transpose_4d, sg_transpose(in[0], SG_AXES(0, 2, 1, 3)))
BUILD(broadcast_like, sg_broadcast_like(in[0], in[1]))
BUILD(sum_like, sg_sum_like(in[0], in[1]))
BUILD(reshape_like, sg_reshape_like(in[0], in[1]))
BUILD(tile_first, sg_tile_axis(in[0], 0, 3))
BUILD(tile_last, sg_tile_axis(in[0], -1, 4))
BUILD(tile_many, sg_tile_axis(in[0], 1, 1027))
BUILD(tile_none, sg_tile_axis(in[0], 1, 0))
BUILD(concat_three, sg_concat(in, 3, 1))
BUILD(concat_first, sg_concat(in, 2, -2))
BUILD(concat_many, sg_concat((sg_value[]){in[0], in[1], in[2], in[1], in[0], in[2], in[2], in[0], in[1], in[0], in[1],
                                          in[2], in[1], in[0], in[2], in[2], in[0], in[1]},
                             18, 1))
BUILD(slice_last, sg_slice(in[0], -1, 1, 3))
BUILD(slice_negative, sg_slice(in[0], 0, -3, -1))
BUILD(slice_middle, sg_slice(in[0], 1, 1, 2))
BUILD(slice_empty, sg_slice(in[0], 0, 1, 1))
BUILD(pad_last, sg_pad(in[0], -1, 2, 1))
BUILD(pad_first, sg_pad(in[0], 0, 0, 3))
BUILD(fill_like, sg_fill_like(in[0], 1.25))
BUILD(gather, sg_gather(in[0], in[1]))
BUILD(scatter_rows, sg_scatter_rows(in[0], in[1], in[2]))
BUILD(one_hot, sg_one_hot(in[0], 5))

/* clang-format off */
static const sg_sample rows[] = {
    {"reshape", "", "[3, 4]", 1, 1, {REAL(S2(2, 6), -1, 1)}, .build = reshape_infer},
    {"reshape", "", "[3, 2, 2]", 1, 1, {REAL(S2(3, 4), -1, 1)}, .build = reshape_keep},
    {"reshape", "", "[0]", 1, 1, {REAL(S2(0, 3), -1, 1)}, .build = reshape_flat},
    {"reshape", "", "[1]", 1, 1, {REAL(S0, -1, 1)}, .build = reshape_flat},
    {"transpose", "", "[33, 3]", 1, 1, {REAL(S2(3, 33), -1, 1)}, .build = transpose_2d},
    {"transpose", "", "[4, 2, 3]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = transpose_3d},
    {"transpose", "", "[2, 4, 3, 5]", 1, 1, {REAL(S4(2, 3, 4, 5), -1, 1)}, .build = transpose_4d},
    {"transpose", "", "[3, 0]", 1, 1, {REAL(S2(0, 3), -1, 1)}, .build = transpose_2d},
    {"broadcast_like", "", "[3, 5]", 2, 1, {REAL(S1(5), -1, 1), MODEL(S2(3, 5))}, .build = broadcast_like},
    {"broadcast_like", "", "[2, 3, 4]", 2, 1, {REAL(S2(3, 1), -1, 1), MODEL(S3(2, 3, 4))}, .build = broadcast_like},
    {"broadcast_like", "", "[33]", 2, 1, {REAL(S0, -1, 1), MODEL(S1(33))}, .build = broadcast_like},
    {"broadcast_like", "", "[0, 3]", 2, 1, {REAL(S1(3), -1, 1), MODEL(S2(0, 3))}, .build = broadcast_like},
    {"sum_like", "", "[5]", 2, 1, {REAL(S2(3, 5), -1, 1), MODEL(S1(5))}, .build = sum_like},
    {"sum_like", "", "[3, 1]", 2, 1, {REAL(S3(2, 3, 4), -1, 1), MODEL(S2(3, 1))}, .build = sum_like},
    {"sum_like", "", "[]", 2, 1, {REAL(S2(3, 33), -1, 1), MODEL(S0)}, .build = sum_like},
    {"sum_like", "", "[3]", 2, 1, {REAL(S2(0, 3), -1, 1), MODEL(S1(3))}, .build = sum_like},
    {"reshape_like", "", "[3, 4]", 2, 1, {REAL(S2(2, 6), -1, 1), MODEL(S2(3, 4))}, .build = reshape_like},
    {"reshape_like", "", "[3, 0]", 2, 1, {REAL(S2(0, 2), -1, 1), MODEL(S2(3, 0))}, .build = reshape_like},
    {"tile_axis", "first", "[3, 2, 5]", 1, 1, {REAL(S2(2, 5), -1, 1)}, .build = tile_first},
    {"tile_axis", "last", "[3, 4]", 1, 1, {REAL(S1(3), -1, 1)}, .build = tile_last},
    {"tile_axis", "", "[3]", 1, 1, {REAL(S0, -1, 1)}, .build = tile_first},
    {"tile_axis", "no copy", "[3, 0]", 1, 1, {REAL(S1(3), -1, 1)}, .build = tile_none},
    {"concat", "", "[2, 6]", 3, 1, {REAL(S2(2, 1), -1, 1), REAL(S2(2, 3), -1, 1), REAL(S2(2, 2), -1, 1)}, .build = concat_three},
    {"concat", "one empty", "[3, 2]", 2, 1, {REAL(S2(3, 2), -1, 1), REAL(S2(0, 2), -1, 1)}, .build = concat_first},
    {"slice", "", "[3, 2]", 1, 1, {REAL(S2(3, 5), -1, 1)}, .build = slice_last},
    {"slice", "", "[2, 3]", 1, 1, {REAL(S2(5, 3), -1, 1)}, .build = slice_negative},
    {"slice", "", "[2, 1, 4]", 1, 1, {REAL(S3(2, 3, 4), -1, 1)}, .build = slice_middle},
    {"slice", "", "[0, 3]", 1, 1, {REAL(S2(2, 3), -1, 1)}, .build = slice_empty},
    {"pad", "", "[3, 6]", 1, 1, {REAL(S2(3, 3), -1, 1)}, .build = pad_last},
    {"pad", "", "[5, 3]", 1, 1, {REAL(S2(2, 3), -1, 1)}, .build = pad_first},
    {"pad", "", "[3, 3]", 1, 1, {REAL(S2(0, 3), -1, 1)}, .build = pad_first},
    {"fill_like", "", "[2, 3]", 1, 1, {MODEL(S2(2, 3))}, .build = fill_like},
    {"fill_like", "", "[0]", 1, 1, {MODEL(S1(0))}, .build = fill_like},
    {"gather", "repeated", "[4, 3]", 2, 1, {REAL(S2(5, 3), -1, 1), GIVEN_I32(S1(4), 3, 0, 3, 4)}, .build = gather},
    {"gather", "2d index", "[2, 3]", 2, 1, {REAL(S1(33), -1, 1), INDEX(S2(2, 3), 0, 33)}, .build = gather},
    {"gather", "no index", "[0, 3]", 2, 1, {REAL(S2(5, 3), -1, 1), INDEX(S1(0), 0, 5)}, .build = gather},
    {"gather", "", "[3]", 2, 1, {REAL(S2(5, 3), -1, 1), INDEX(S0, 0, 5)}, .build = gather},
    {"scatter_rows", "", "[5, 3]", 3, 1, {REAL(S2(4, 3), -1, 1), GIVEN_I32(S1(4), 3, 0, 3, 4), MODEL(S2(5, 3))}, .build = scatter_rows},
    {"scatter_rows", "", "[33]", 3, 1, {REAL(S2(2, 3), -1, 1), INDEX(S2(2, 3), 0, 33), MODEL(S1(33))}, .build = scatter_rows},
    {"scatter_rows", "", "[5, 3]", 3, 1, {REAL(S2(0, 3), -1, 1), INDEX(S1(0), 0, 5), MODEL(S2(5, 3))}, .build = scatter_rows},
    {"one_hot", "", "[3, 5]", 1, 1, {INDEX(S1(3), 0, 5)}, .build = one_hot, .flat = true},
    {"one_hot", "", "[0, 5]", 1, 1, {INDEX(S1(0), 0, 5)}, .build = one_hot, .flat = true},
    {"gather", "large", "[3001, 33]", 2, 1, {REAL(S2(101, 33), -0.2, 0.2), INDEX(S1(3001), 0, 101)}, .build = gather, .large = true},
    {"scatter_rows", "large", "[101, 33]", 3, 1,
     {REAL(S2(3001, 33), -0.2, 0.2), INDEX(S1(3001), 0, 101), MODEL(S2(101, 33))}, .build = scatter_rows, .large = true},
    {"scatter_rows", "large, two rows", "[2, 64]", 3, 1,
     {REAL(S2(1001, 64), -0.2, 0.2), INDEX(S1(1001), 0, 2), MODEL(S2(2, 64))}, .build = scatter_rows, .large = true},
    {"gather", "long, wide table", "[5, 1027]", 2, 1, {REAL(S2(3, 1027), -1, 1), INDEX(S1(5), 0, 3)}, .build = gather, .large = true},
    {"gather", "long, narrow table", "[9001, 1]", 2, 1, {REAL(S2(1027, 1), -0.2, 0.2), INDEX(S1(9001), 0, 1027)}, .build = gather, .large = true},
    {"scatter_rows", "long, one row", "[1, 3]", 3, 1, {REAL(S2(8501, 3), -0.2, 0.2), INDEX(S1(8501), 0, 1), MODEL(S2(1, 3))}, .build = scatter_rows, .large = true},
    {"scatter_rows", "long, narrow", "[33, 1]", 3, 1, {REAL(S2(2051, 1), -0.2, 0.2), INDEX(S1(2051), 0, 33), MODEL(S2(33, 1))}, .build = scatter_rows, .large = true},
    {"scatter_rows", "wide rows", "[3, 1027]", 3, 1, {REAL(S2(35, 1027), -0.2, 0.2), INDEX(S1(35), 0, 3), MODEL(S2(3, 1027))}, .build = scatter_rows, .large = true},
    {"scatter_rows", "into many", "[8501, 3]", 3, 1, {REAL(S2(31, 3), -1, 1), INDEX(S1(31), 0, 8501), MODEL(S2(8501, 3))}, .build = scatter_rows, .large = true},
    {"one_hot", "many", "[2051, 5]", 1, 1, {INDEX(S1(2051), 0, 5)}, .build = one_hot, .flat = true, .large = true},
    {"sum_like", "long", "[3, 1]", 2, 1, {REAL(S3(515, 3, 7), -1, 1), MODEL(S2(3, 1))}, .build = sum_like, .large = true},
    {"sum_like", "long", "[]", 2, 1, {REAL(S2(3, 2051), -1, 1), MODEL(S0)}, .build = sum_like, .large = true},
    {"broadcast_like", "long", "[2051, 3]", 2, 1, {REAL(S2(2051, 1), -1, 1), MODEL(S2(2051, 3))}, .build = broadcast_like, .large = true},
    {"broadcast_like", "long", "[2051, 3]", 2, 1, {REAL(S1(3), -1, 1), MODEL(S2(2051, 3))}, .build = broadcast_like, .large = true},
    {"tile_axis", "many copies", "[3, 1027, 5]", 1, 1, {REAL(S2(3, 5), -1, 1)}, .build = tile_many, .large = true},
    {"concat", "many pieces", "[3, 222]", 3, 1, {REAL(S2(3, 1), -1, 1), REAL(S2(3, 33), -1, 1), REAL(S2(3, 3), -1, 1)}, .build = concat_many, .large = true},
    {"concat", "long", "[2052, 3]", 2, 1, {REAL(S2(2051, 3), -1, 1), REAL(S2(1, 3), -1, 1)}, .build = concat_first, .large = true},
    {"slice", "long", "[2051, 2]", 1, 1, {REAL(S2(2051, 5), -1, 1)}, .build = slice_last, .large = true},
    {"pad", "long", "[3, 4102]", 1, 1, {REAL(S2(3, 4099), -1, 1)}, .build = pad_last, .large = true},
    {"transpose", "narrow", "[3, 2051]", 1, 1, {REAL(S2(2051, 3), -1, 1)}, .build = transpose_2d, .large = true},
    {"transpose", "borders of tiles", "[65, 3, 33]", 1, 1, {REAL(S3(3, 33, 65), -1, 1)}, .build = transpose_3d, .large = true},
    {"transpose", "heads", "[2, 33, 65, 5]", 1, 1, {REAL(S4(2, 65, 33, 5), -1, 1)}, .build = transpose_4d, .large = true},
    {"transpose", "large", "[257, 301]", 1, 1, {REAL(S2(301, 257), -1, 1)}, .build = transpose_2d, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_shape = TABLE(rows);
