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

/* clang-format off */
static const sg_sample rows[] = {
    {"layer_norm", "", "[3, 5]", 3, 3, {REAL(S2(3, 5), -2, 2), REAL(S1(5), 0.5, 2), REAL(S1(5), -1, 1)}, .build = layer_norm},
    {"layer_norm", "", "[2, 3, 33]", 3, 1, {REAL(S3(2, 3, 33), 1, 3), REAL(S1(33), 0.5, 2), REAL(S1(33), -1, 1)}, .build = layer_norm},
    {"layer_norm", "two axes", "[2, 3, 4]", 3, 3, {REAL(S3(2, 3, 4), -2, 2), REAL(S2(3, 4), 0.5, 2), REAL(S2(3, 4), -1, 1)}, .build = layer_norm},
    {"layer_norm", "plain", "[3, 5]", 1, 1, {REAL(S2(3, 5), -2, 2)}, .build = layer_norm_plain},
    {"layer_norm", "scaled", "[3, 5]", 2, 1, {REAL(S2(3, 5), -2, 2), REAL(S1(5), 0.5, 2)}, .build = layer_norm_scaled},
    {"layer_norm", "shifted", "[3, 5]", 2, 1, {REAL(S2(3, 5), -2, 2), REAL(S1(5), -1, 1)}, .build = layer_norm_shifted},
    {"layer_norm", "one", "[3, 1]", 3, 3, {REAL(S2(3, 1), -2, 2), REAL(S1(1), 0.5, 2), REAL(S1(1), -1, 1)}, .build = layer_norm},
    {"layer_norm", "vector", "[4]", 3, 1, {REAL(S1(4), -2, 2), REAL(S1(4), 0.5, 2), REAL(S1(4), -1, 1)}, .build = layer_norm},
    {"layer_norm", "empty", "[0, 3]", 3, 3, {REAL(S2(0, 3), -2, 2), REAL(S1(3), 0.5, 2), REAL(S1(3), -1, 1)}, .build = layer_norm},
    {"layer_norm", "empty rows", "[3, 0]", 3, 1, {REAL(S2(3, 0), -2, 2), REAL(S1(0), 0.5, 2), REAL(S1(0), -1, 1)}, .build = layer_norm},
    {"layer_norm", "large", "[301, 257]", 3, 3, {REAL(S2(301, 257), -2, 2), REAL(S1(257), 0.5, 2), REAL(S1(257), -1, 1)},
     .build = layer_norm, .large = true},
};
/* clang-format on */

const sg_sample_table sg_samples_normalisation = TABLE(rows);
