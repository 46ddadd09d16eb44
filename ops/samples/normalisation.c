/* normalisation.c - samples: layer, batch and group normalisation. */
#include "ops/samples/table_internal.h"

BUILD(layer_norm_plain, sg_layer_norm(in[0], SG_NONE, SG_NONE, 1e-3))
BUILD(layer_norm_scaled, sg_layer_norm(in[0], in[1], SG_NONE, 1e-3))
BUILD(layer_norm_shifted, sg_layer_norm(in[0], SG_NONE, in[1], 1e-3))

static void layer_norm(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)scope;
    out[0] = sg_layer_norm(in[0], in[1], in[2], 1e-3);
    for (int32_t k = 1; k < s->n_out; k++)
        out[k] = sg_output_of(out[0], k);
}

static void rms_norm(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    out[0] = sg_rms_norm(in[0], in[1], 1e-3);
    out[1] = sg_output_of(out[0], 1);
}

/* Without eps: rows behind the last that a kernel takes along, as rows of zeros, would have a deviation of 1 / 0. */
BUILD(group_norm_bare, sg_group_norm(in[0], 2, in[1], in[2], 0))
BUILD(batch_norm_bare, sg_batch_norm(in[0], in[1], in[2], in[3], in[4], 0.1, 0).y)

static void layer_norm_bare(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)scope;
    out[0] = sg_layer_norm(in[0], in[1], in[2], 0);
    for (int32_t k = 1; k < s->n_out; k++)
        out[k] = sg_output_of(out[0], k);
}

static void rms_norm_bare(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)scope;
    out[0] = sg_rms_norm(in[0], in[1], 0);
    for (int32_t k = 1; k < s->n_out; k++)
        out[k] = sg_output_of(out[0], k);
}

BUILD(layer_norm_bare_plain, sg_layer_norm(in[0], SG_NONE, SG_NONE, 0))

/* A layer as in a net: the sum over rows of the cotangent of h is the gradient of the bias before the normalisation. */
BUILD(layer_norm_of_sum, sg_layer_norm(sg_add(in[0], in[3]), in[1], in[2], 0))

BUILD(group_norm_one, sg_group_norm(in[0], 1, in[1], in[2], 1e-3))
BUILD(group_norm_two, sg_group_norm(in[0], 2, in[1], in[2], 1e-3))
BUILD(batch_norm_inference, sg_batch_norm_inference(in[0], in[1], in[2], in[3], in[4], 1e-3))

static void group_norm_statistics(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    out[0] = sg_group_norm(in[0], 2, in[1], in[2], 1e-3);
    out[1] = sg_output_of(out[0], 1);
    out[2] = sg_output_of(out[0], 2);
}

static void batch_norm_statistics(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    out[0] = sg_batch_norm(in[0], in[1], in[2], in[3], in[4], 0.1, 1e-3).y;
    out[1] = sg_output_of(out[0], 1);
    out[2] = sg_output_of(out[0], 2);
}

static void batch_norm(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)scope;
    sg_batch_norm_result r = sg_batch_norm(in[0], in[1], in[2], in[3], in[4], 0.1, 1e-3);
    const sg_value all[] = {r.y, r.running_mean, r.running_variance};
    for (int32_t k = 0; k < s->n_out; k++)
        out[k] = all[k];
}

/* clang-format off */
/* gamma and beta, and running mean and variance, of C channels. */
#define AFFINE(C) REAL(S1(C), 0.5, 2), REAL(S1(C), -1, 1)
#define FIXED(shape_, low_, high_) {.dtype = SG_F32, .shape = shape_, .fill = SG_FILL_UNIFORM, .low = low_, .high = high_, .constant = true}
#define RUNNING(C) FIXED(S1(C), -1, 1), FIXED(S1(C), 0.5, 2)
/* Three rows whose middle one is constant, with a mean that is exact however it is made: 1 / deviation is infinite. */
#define WITH_ROW_OF(v)                                                                                                 \
    GIVEN_F32(S2(3, 8), 0.5, -1, 2, 0.25, -0.5, 1, -2, 0.125, v, v, v, v, v, v, v, v, 1, 0, -2, 0.75, 0.5, -1, 1.5, 0.25)

static const sg_sample rows[] = {
    {"layer_norm", "", "[3, 5]", 3, 3, {REAL(S2(3, 5), -2, 2), REAL(S1(5), 0.5, 2), REAL(S1(5), -1, 1)}, .build = layer_norm},
    {"layer_norm", "", "[2, 3, 33]", 3, 1, {REAL(S3(2, 3, 33), 1, 3), REAL(S1(33), 0.5, 2), REAL(S1(33), -1, 1)}, .build = layer_norm},
    {"layer_norm", "two axes", "[2, 3, 4]", 3, 3, {REAL(S3(2, 3, 4), -2, 2), REAL(S2(3, 4), 0.5, 2), REAL(S2(3, 4), -1, 1)}, .build = layer_norm},
    {"layer_norm", "beta a number", "[3, 5]", 3, 3, {REAL(S2(3, 5), -2, 2), REAL(S1(5), 0.5, 2), REAL(S0, -1, 1)}, .build = layer_norm},
    {"layer_norm", "plain", "[3, 5]", 1, 1, {REAL(S2(3, 5), -2, 2)}, .build = layer_norm_plain},
    {"layer_norm", "scaled", "[3, 5]", 2, 1, {REAL(S2(3, 5), -2, 2), REAL(S1(5), 0.5, 2)}, .build = layer_norm_scaled},
    {"layer_norm", "shifted", "[3, 5]", 2, 1, {REAL(S2(3, 5), -2, 2), REAL(S1(5), -1, 1)}, .build = layer_norm_shifted},
    {"layer_norm", "one", "[3, 1]", 3, 3, {REAL(S2(3, 1), -2, 2), REAL(S1(1), 0.5, 2), REAL(S1(1), -1, 1)}, .build = layer_norm},
    {"layer_norm", "vector", "[4]", 3, 1, {REAL(S1(4), -2, 2), REAL(S1(4), 0.5, 2), REAL(S1(4), -1, 1)}, .build = layer_norm},
    {"layer_norm", "empty", "[0, 3]", 3, 3, {REAL(S2(0, 3), -2, 2), REAL(S1(3), 0.5, 2), REAL(S1(3), -1, 1)}, .build = layer_norm},
    {"layer_norm", "empty rows", "[3, 0]", 3, 1, {REAL(S2(3, 0), -2, 2), REAL(S1(0), 0.5, 2), REAL(S1(0), -1, 1)}, .build = layer_norm},
    {"rms_norm", "", "[3, 5]", 2, 2, {REAL(S2(3, 5), -2, 2), REAL(S1(5), 0.5, 2)}, .build = rms_norm},
    {"rms_norm", "two axes", "[2, 3, 33]", 2, 1, {REAL(S3(2, 3, 33), -2, 2), REAL(S2(3, 33), 0.5, 2)}, .build = rms_norm},
    {"rms_norm", "one", "[3, 1]", 2, 2, {REAL(S2(3, 1), -2, 2), REAL(S1(1), 0.5, 2)}, .build = rms_norm},
    {"rms_norm", "large", "[301, 257]", 2, 2, {REAL(S2(301, 257), -2, 2), REAL(S1(257), 0.5, 2)}, .build = rms_norm, .large = true},
    {"rms_norm", "large, 768", "[37, 768]", 2, 1, {REAL(S2(37, 768), 1, 3), REAL(S1(768), 0.5, 2)}, .build = rms_norm, .large = true},
    {"rms_norm", "empty rows", "[3, 0]", 2, 1, {REAL(S2(3, 0), -2, 2), REAL(S1(0), 0.5, 2)}, .build = rms_norm},
    {"rms_norm", "empty", "[0, 3]", 2, 2, {REAL(S2(0, 3), -2, 2), REAL(S1(3), 0.5, 2)}, .build = rms_norm},
    {"group_norm", "", "[2, 4, 3]", 3, 1, {REAL(S3(2, 4, 3), -2, 2), AFFINE(4)}, .build = group_norm_two},
    {"group_norm", "images", "[2, 4, 2, 3]", 3, 1, {REAL(S4(2, 4, 2, 3), -2, 2), AFFINE(4)}, .build = group_norm_two},
    {"group_norm", "large", "[3, 8, 24, 24]", 3, 1, {REAL(S4(3, 8, 24, 24), 1, 3), AFFINE(8)}, .build = group_norm_two, .large = true},
    {"group_norm", "statistics", "[2, 4, 8]", 3, 3, {REAL(S3(2, 4, 8), -2, 2), AFFINE(4)}, .build = group_norm_statistics},
    {"group_norm", "one group", "[3, 5]", 3, 1, {REAL(S2(3, 5), -2, 2), AFFINE(5)}, .build = group_norm_one},
    {"group_norm", "empty", "[0, 4, 3]", 3, 1, {REAL(S3(0, 4, 3), -2, 2), AFFINE(4)}, .build = group_norm_two},
    {"batch_norm", "", "[4, 3]", 5, 1, {REAL(S2(4, 3), -2, 2), AFFINE(3), RUNNING(3)}, .build = batch_norm},
    {"batch_norm", "images", "[3, 2, 2, 5]", 5, 1, {REAL(S4(3, 2, 2, 5), -2, 2), AFFINE(2), RUNNING(2)}, .build = batch_norm},
    {"batch_norm", "large, images", "[5, 7, 9, 11]", 5, 3, {REAL(S4(5, 7, 9, 11), 1, 3), AFFINE(7), RUNNING(7)}, .build = batch_norm, .large = true},
    {"batch_norm", "large, long", "[17, 3, 32, 32]", 5, 1, {REAL(S4(17, 3, 32, 32), -2, 2), AFFINE(3), RUNNING(3)}, .build = batch_norm, .large = true},
    {"batch_norm", "statistics", "[2, 3, 8]", 5, 3, {REAL(S3(2, 3, 8), -2, 2), AFFINE(3), RUNNING(3)}, .build = batch_norm_statistics},
    {"batch_norm", "one element", "[1, 2]", 5, 1, {REAL(S2(1, 2), -2, 2), AFFINE(2), RUNNING(2)}, .build = batch_norm},
    {"batch_norm", "no channel", "[3, 0]", 5, 1, {REAL(S2(3, 0), -2, 2), AFFINE(0), RUNNING(0)}, .build = batch_norm},
    {"batch_norm", "running statistics", "[3, 2, 4]", 5, 3, {REAL(S3(3, 2, 4), -2, 2), AFFINE(2), RUNNING(2)}, .build = batch_norm, .flat = true},
    {"batch_norm_inference", "", "[4, 3]", 5, 1, {REAL(S2(4, 3), -2, 2), AFFINE(3), REAL(S1(3), -1, 1), REAL(S1(3), 0.5, 2)}, .build = batch_norm_inference},
    {"batch_norm_inference", "images", "[3, 2, 2, 5]", 5, 1, {REAL(S4(3, 2, 2, 5), -2, 2), AFFINE(2), REAL(S1(2), -1, 1), REAL(S1(2), 0.5, 2)}, .build = batch_norm_inference},
    {"batch_norm_inference", "empty", "[0, 3]", 5, 1, {REAL(S2(0, 3), -2, 2), AFFINE(3), REAL(S1(3), -1, 1), REAL(S1(3), 0.5, 2)}, .build = batch_norm_inference},
    {"layer_norm", "large", "[301, 257]", 3, 3, {REAL(S2(301, 257), -2, 2), REAL(S1(257), 0.5, 2), REAL(S1(257), -1, 1)},
     .build = layer_norm, .large = true},
    {"layer_norm", "large, 768", "[37, 768]", 3, 3, {REAL(S2(37, 768), -2, 2), REAL(S1(768), 0.5, 2), REAL(S1(768), -1, 1)},
     .build = layer_norm, .large = true},
    {"layer_norm", "large, long rows", "[5, 1100]", 3, 1, {REAL(S2(5, 1100), -2, 2), REAL(S1(1100), 0.5, 2), REAL(S1(1100), -1, 1)},
     .build = layer_norm, .large = true},
    {"layer_norm", "eps 0", "[3, 5]", 3, 3, {REAL(S2(3, 5), -2, 2), AFFINE(5)}, .build = layer_norm_bare},
    {"layer_norm", "eps 0", "[2, 3, 33]", 3, 1, {REAL(S3(2, 3, 33), -2, 2), AFFINE(33)}, .build = layer_norm_bare},
    {"layer_norm", "eps 0, a constant row", "[3, 8]", 3, 3, {WITH_ROW_OF(1.5), AFFINE(8)}, .build = layer_norm_bare, .large = true},
    {"layer_norm", "eps 0, a constant row, plain", "[3, 8]", 1, 1, {WITH_ROW_OF(1.5)}, .build = layer_norm_bare_plain, .large = true},
    {"layer_norm", "eps 0, one element", "[3, 1]", 3, 3, {REAL(S2(3, 1), -2, 2), AFFINE(1)}, .build = layer_norm_bare, .large = true},
    {"layer_norm", "eps 0, 768", "[3, 768]", 3, 1, {REAL(S2(3, 768), -2, 2), AFFINE(768)}, .build = layer_norm_bare, .large = true},
    {"layer_norm", "eps 0, 768", "[37, 768]", 3, 1, {REAL(S2(37, 768), -2, 2), AFFINE(768)}, .build = layer_norm_bare, .large = true},
    {"layer_norm", "eps 0, behind a bias", "[17, 768]", 4, 1, {REAL(S2(17, 768), -2, 2), AFFINE(768), REAL(S1(768), -1, 1)}, .build = layer_norm_of_sum, .large = true},
    {"layer_norm", "eps 0, long rows", "[5, 1100]", 3, 3, {REAL(S2(5, 1100), -2, 2), AFFINE(1100)}, .build = layer_norm_bare, .large = true},
    {"rms_norm", "eps 0", "[3, 5]", 2, 2, {REAL(S2(3, 5), -2, 2), REAL(S1(5), 0.5, 2)}, .build = rms_norm_bare},
    {"rms_norm", "eps 0, a row of zeros", "[3, 8]", 2, 2, {WITH_ROW_OF(0), REAL(S1(8), 0.5, 2)}, .build = rms_norm_bare, .large = true},
    {"rms_norm", "eps 0, 768", "[5, 768]", 2, 1, {REAL(S2(5, 768), -2, 2), REAL(S1(768), 0.5, 2)}, .build = rms_norm_bare, .large = true},
    {"group_norm", "eps 0", "[2, 4, 3]", 3, 1, {REAL(S3(2, 4, 3), -2, 2), AFFINE(4)}, .build = group_norm_bare},
    {"batch_norm", "eps 0", "[4, 3]", 5, 1, {REAL(S2(4, 3), -2, 2), AFFINE(3), RUNNING(3)}, .build = batch_norm_bare},
    {"layer_norm", "long rows", "[2, 4099]", 3, 3, {REAL(S2(2, 4099), -2, 2), AFFINE(4099)}, .build = layer_norm, .large = true},
    {"layer_norm", "long rows", "[1, 33001]", 3, 1, {REAL(S2(1, 33001), -2, 2), AFFINE(33001)}, .build = layer_norm, .large = true},
    {"layer_norm", "short rows, many", "[2051, 3]", 3, 3, {REAL(S2(2051, 3), -2, 2), AFFINE(3)}, .build = layer_norm, .large = true},
    {"layer_norm", "short rows, many", "[515, 33]", 3, 1, {REAL(S2(515, 33), -2, 2), AFFINE(33)}, .build = layer_norm, .large = true},
    {"layer_norm", "one row of 768", "[1, 768]", 3, 1, {REAL(S2(1, 768), -2, 2), AFFINE(768)}, .build = layer_norm, .large = true},
    {"layer_norm", "long, two axes", "[3, 33, 65]", 3, 3, {REAL(S3(3, 33, 65), -2, 2), REAL(S2(33, 65), 0.5, 2), REAL(S2(33, 65), -1, 1)}, .build = layer_norm, .large = true},
    {"rms_norm", "long rows", "[2, 4099]", 2, 2, {REAL(S2(2, 4099), -2, 2), REAL(S1(4099), 0.5, 2)}, .build = rms_norm, .large = true},
    {"rms_norm", "short rows, many", "[2051, 3]", 2, 1, {REAL(S2(2051, 3), -2, 2), REAL(S1(3), 0.5, 2)}, .build = rms_norm, .large = true},
    {"group_norm", "long", "[2, 4, 2051]", 3, 3, {REAL(S3(2, 4, 2051), -2, 2), AFFINE(4)}, .build = group_norm_statistics, .large = true},
    {"group_norm", "many", "[515, 6, 1]", 3, 1, {REAL(S3(515, 6, 1), -2, 2), AFFINE(6)}, .build = group_norm_two, .large = true},
    {"batch_norm", "long", "[2051, 3]", 5, 3, {REAL(S2(2051, 3), -2, 2), AFFINE(3), RUNNING(3)}, .build = batch_norm, .large = true},
    {"batch_norm", "long", "[2, 3, 2051]", 5, 1, {REAL(S3(2, 3, 2051), -2, 2), AFFINE(3), RUNNING(3)}, .build = batch_norm, .large = true},
    {"batch_norm", "many channels", "[3, 1027]", 5, 1, {REAL(S2(3, 1027), -2, 2), AFFINE(1027), RUNNING(1027)}, .build = batch_norm, .large = true},
    {"batch_norm_inference", "long", "[515, 3, 7]", 5, 1, {REAL(S3(515, 3, 7), -2, 2), AFFINE(3), REAL(S1(3), -1, 1), REAL(S1(3), 0.5, 2)}, .build = batch_norm_inference, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_normalisation = TABLE(rows);
