/* loss.c - samples: softmax and the losses made of it. */
#include "ops/samples/table_internal.h"

BUILD(softmax_last, sg_softmax(in[0], -1))
BUILD(softmax_first, sg_softmax(in[0], 0))
BUILD(softmax_middle, sg_softmax(in[0], 1))
BUILD(masked_softmax_last, sg_masked_softmax(in[0], in[1], -1))
BUILD(masked_softmax_middle, sg_masked_softmax(in[0], in[1], 1))
/* Probabilities of long rows by the length of the row, so that they are of a size that limits tell something of. */
static sg_value by_length(sg_value p, int32_t axis) { return sg_mul_scalar(p, (double)sg_dim_of(p, axis)); }
BUILD(long_last, by_length(sg_softmax(in[0], -1), 1))
BUILD(long_first, by_length(sg_softmax(in[0], 0), 0))
BUILD(long_middle, by_length(sg_softmax(in[0], 1), 1))
BUILD(long_masked_last, by_length(sg_masked_softmax(in[0], in[1], -1), 1))
BUILD(long_masked_middle, by_length(sg_masked_softmax(in[0], in[1], 1), 1))

BUILD(log_softmax_last, sg_log_softmax(in[0], -1))
BUILD(log_softmax_middle, sg_log_softmax(in[0], 1))
BUILD(cross_entropy, sg_softmax_cross_entropy(in[0], in[1]))

/* clang-format off */
static const sg_sample rows[] = {
    {"softmax", "last", "[3, 5]", 1, 1, {REAL(S2(3, 5), -2, 2)}, .build = softmax_last},
    {"softmax", "last", "[3, 33]", 1, 1, {REAL(S2(3, 33), -2, 2)}, .build = softmax_last},
    {"softmax", "first", "[3, 4]", 1, 1, {REAL(S2(3, 4), -2, 2)}, .build = softmax_first},
    {"softmax", "middle", "[2, 3, 4]", 1, 1, {REAL(S3(2, 3, 4), -2, 2)}, .build = softmax_middle},
    {"softmax", "one", "[3, 1]", 1, 1, {REAL(S2(3, 1), -2, 2)}, .build = softmax_last},
    {"softmax", "empty", "[0, 3]", 1, 1, {REAL(S2(0, 3), -2, 2)}, .build = softmax_last},
    {"masked_softmax", "", "[4, 5]", 2, 1, {REAL(S2(4, 5), -2, 2), GIVEN_BOOL(S2(4, 5), 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 0)}, .build = masked_softmax_last},
    {"masked_softmax", "", "[3, 33]", 2, 1, {REAL(S2(3, 33), -2, 2), FLAG(S2(3, 33))}, .build = masked_softmax_last},
    {"masked_softmax", "middle, broadcast", "[2, 4, 3]", 2, 1, {REAL(S3(2, 4, 3), -2, 2), FLAG(S3(2, 4, 1))}, .build = masked_softmax_middle},
    {"masked_softmax", "by row", "[3, 5]", 2, 1, {REAL(S2(3, 5), -2, 2), GIVEN_BOOL(S2(3, 1), 1, 0, 1)}, .build = masked_softmax_last},
    {"masked_softmax", "empty", "[0, 3]", 2, 1, {REAL(S2(0, 3), -2, 2), FLAG(S1(3))}, .build = masked_softmax_last},
    {"log_softmax", "last", "[3, 33]", 1, 1, {REAL(S2(3, 33), -2, 2)}, .build = log_softmax_last},
    {"log_softmax", "middle", "[2, 3, 4]", 1, 1, {REAL(S3(2, 3, 4), -2, 2)}, .build = log_softmax_middle},
    {"log_softmax", "empty", "[0, 3]", 1, 1, {REAL(S2(0, 3), -2, 2)}, .build = log_softmax_last},
    {"softmax_cross_entropy", "", "[4]", 2, 1, {REAL(S2(4, 5), -2, 2), GIVEN_I32(S1(4), 2, 0, -1, 4)}, .build = cross_entropy},
    {"softmax_cross_entropy", "", "[2, 3]", 2, 1, {REAL(S3(2, 3, 33), -2, 2), INDEX(S2(2, 3), 0, 33)}, .build = cross_entropy},
    {"softmax_cross_entropy", "empty", "[0]", 2, 1, {REAL(S2(0, 3), -2, 2), INDEX(S1(0), 0, 3)}, .build = cross_entropy},
    {"softmax", "large", "[301, 257]", 1, 1, {REAL(S2(301, 257), -2, 2)}, .build = softmax_last, .large = true},
    {"softmax_cross_entropy", "large", "[301]", 2, 1, {REAL(S2(301, 257), -2, 2), INDEX(S1(301), 0, 257)},
     .build = cross_entropy, .large = true},
    {"softmax_cross_entropy", "large, long rows", "[3]", 2, 1, {REAL(S2(3, 9001), -2, 2), INDEX(S1(3), 0, 9001)},
     .build = cross_entropy, .large = true},
    {"softmax", "long, last", "[2, 33001]", 1, 1, {REAL(S2(2, 33001), -2, 2)}, .build = long_last, .large = true},
    {"softmax", "long, last", "[3, 1025]", 1, 1, {REAL(S2(3, 1025), -2, 2)}, .build = long_last, .large = true},
    {"softmax", "short, last of many", "[2051, 2]", 1, 1, {REAL(S2(2051, 2), -2, 2)}, .build = softmax_last, .large = true},
    {"softmax", "long, first", "[1030, 3]", 1, 1, {REAL(S2(1030, 3), -2, 2)}, .build = long_first, .large = true},
    {"softmax", "long, middle", "[2, 515, 5]", 1, 1, {REAL(S3(2, 515, 5), -2, 2)}, .build = long_middle, .large = true},
    {"masked_softmax", "long", "[3, 5003]", 2, 1, {REAL(S2(3, 5003), -2, 2), FLAG(S2(3, 5003))}, .build = long_masked_last, .large = true},
    {"masked_softmax", "long, by row", "[3, 1025]", 2, 1, {REAL(S2(3, 1025), -2, 2), GIVEN_BOOL(S2(3, 1), 1, 0, 1)}, .build = long_masked_last, .large = true},
    {"masked_softmax", "long, middle, broadcast", "[2, 515, 3]", 2, 1, {REAL(S3(2, 515, 3), -2, 2), FLAG(S3(2, 515, 1))}, .build = long_masked_middle, .large = true},
    {"log_softmax", "long, last", "[2, 5003]", 1, 1, {REAL(S2(2, 5003), -2, 2)}, .build = log_softmax_last, .large = true},
    {"log_softmax", "long, middle", "[2, 515, 3]", 1, 1, {REAL(S3(2, 515, 3), -2, 2)}, .build = log_softmax_middle, .large = true},
    {"softmax_cross_entropy", "long rows", "[1]", 2, 1, {REAL(S2(1, 33001), -2, 2), INDEX(S1(1), 0, 33001)}, .build = cross_entropy, .large = true},
    {"softmax_cross_entropy", "long rows", "[3]", 2, 1, {REAL(S2(3, 1025), -2, 2), GIVEN_I32(S1(3), 1024, -1, 0)}, .build = cross_entropy, .large = true},
    {"softmax_cross_entropy", "short rows, many", "[2051]", 2, 1, {REAL(S2(2051, 2), -2, 2), INDEX(S1(2051), -1, 2)}, .build = cross_entropy, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_loss = TABLE(rows);
