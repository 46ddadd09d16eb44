/* sequence.c - samples of LSTMs and linear-chain CRFs. */
#include "ops/samples/table_internal.h"

static sg_lstm_weights weights_of(const sg_value *in) { return (sg_lstm_weights){in[0], in[1], in[2], in[3]}; }

/* in: x, w_ih, w_hh, b_ih, b_hh, h, c, lengths. */
static void lstm_with(const sg_value *in, sg_value lengths, bool reverse, sg_value *out)
{
    sg_lstm_result r = sg_lstm(in[0], lengths, weights_of(in + 1), (sg_lstm_state){in[5], in[6]}, reverse);
    out[0] = r.out;
    out[1] = r.last.h;
    out[2] = r.last.c;
}

static void lstm_full(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    lstm_with(in, SG_NONE, false, out);
}

static void lstm_ragged(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    lstm_with(in, in[7], false, out);
}

static void lstm_reverse(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    lstm_with(in, in[7], true, out);
}

static void lstm_cell(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    sg_lstm_state next = sg_lstm_cell(in[0], (sg_lstm_state){in[5], in[6]}, weights_of(in + 1));
    out[0] = next.h;
    out[1] = next.c;
}

static sg_value bilstm_out(const sg_value *in)
{
    return sg_bilstm(in[0], in[5], (sg_lstm_weights){in[1], in[2], SG_NONE, SG_NONE},
                     (sg_lstm_weights){in[3], in[4], SG_NONE, SG_NONE})
        .out;
}

BUILD(bilstm, bilstm_out(in))

/* in: emissions, transitions, start, end, lengths or tags, tags. */
static sg_crf crf_of(const sg_value *in) { return (sg_crf){in[1], in[2], in[3]}; }

BUILD(crf_full, sg_crf_log_partition(crf_of(in), in[0], SG_NONE))
BUILD(crf_ragged, sg_crf_log_partition(crf_of(in), in[0], in[4]))
BUILD(crf_likelihood, sg_crf_log_likelihood(crf_of(in), in[0], in[5], in[4]))
BUILD(crf_likelihood_full, sg_crf_log_likelihood(crf_of(in), in[0], in[4], SG_NONE))
BUILD(crf_marginals, sg_crf_marginals(crf_of(in), in[0], in[4]))
BUILD(crf_viterbi, sg_crf_viterbi(crf_of(in), in[0], in[4]))

/* clang-format off */
#define LSTM(batch, steps, inputs, hidden) \
    REAL(S3(batch, steps, inputs), -1, 1), REAL(S2(4 * hidden, inputs), -1, 1), REAL(S2(4 * hidden, hidden), -1, 1), \
    REAL(S1(4 * hidden), -1, 1), REAL(S1(4 * hidden), -1, 1), REAL(S2(batch, hidden), -1, 1), REAL(S2(batch, hidden), -1, 1)
#define CELL(batch, inputs, hidden) \
    REAL(S2(batch, inputs), -1, 1), REAL(S2(4 * hidden, inputs), -1, 1), REAL(S2(4 * hidden, hidden), -1, 1), \
    REAL(S1(4 * hidden), -1, 1), REAL(S1(4 * hidden), -1, 1), REAL(S2(batch, hidden), -1, 1), REAL(S2(batch, hidden), -1, 1)
#define CRF(batch, steps, tags) \
    REAL(S3(batch, steps, tags), -2, 2), REAL(S2(tags, tags), -1, 1), REAL(S1(tags), -1, 1), REAL(S1(tags), -1, 1)

/* Probabilities are exponentials of differences of alpha, which grows by up to 3 a step in single precision: two roundings put
 * them off by 2^-23 * 3 * steps, where the limit is 1e-5. */
#define CHAIN(steps) .large = true, .slack = (steps) * 3 / 8388608.0 / 1e-5

static const sg_sample rows[] = {
    {"lstm", "", "[2, 3, 2]", 7, 3, {LSTM(2, 3, 3, 2)}, .build = lstm_full},
    {"lstm", "lengths", "[4, 3, 2]", 8, 3, {LSTM(4, 3, 1, 2), GIVEN_I32(S1(4), 3, 1, 0, 2)}, .build = lstm_ragged},
    {"lstm", "reverse", "[3, 3, 3]", 8, 3, {LSTM(3, 3, 2, 3), GIVEN_I32(S1(3), 3, 1, 2)}, .build = lstm_reverse},
    {"lstm", "no step", "[2, 0, 2]", 7, 3, {LSTM(2, 0, 3, 2)}, .build = lstm_full},
    {"lstm", "no row", "[0, 2, 2]", 8, 3, {LSTM(0, 2, 3, 2), GIVEN_I32(S1(0), 0)}, .build = lstm_ragged},
    {"lstm", "no hidden unit", "[2, 2, 0]", 8, 3, {LSTM(2, 2, 3, 0), GIVEN_I32(S1(2), 2, 1)}, .build = lstm_ragged},
    {"lstm", "both directions", "[2, 3, 4]", 6, 1,
     {REAL(S3(2, 3, 2), -1, 1), REAL(S2(8, 2), -1, 1), REAL(S2(8, 2), -1, 1), REAL(S2(8, 2), -1, 1), REAL(S2(8, 2), -1, 1),
      GIVEN_I32(S1(2), 3, 2)}, .build = bilstm},
    {"matmul", "lstm_cell", "[2, 2]", 7, 2, {CELL(2, 3, 2)}, .build = lstm_cell},
    {"crf_log_partition", "", "[2]", 4, 1, {CRF(2, 3, 3)}, .build = crf_full},
    {"crf_log_partition", "lengths", "[4]", 5, 1, {CRF(4, 3, 3), GIVEN_I32(S1(4), 3, 1, 0, 2)}, .build = crf_ragged},
    {"crf_log_partition", "one tag", "[2]", 4, 1, {CRF(2, 2, 1)}, .build = crf_full},
    {"crf_log_partition", "no step", "[2]", 4, 1, {CRF(2, 0, 3)}, .build = crf_full},
    {"crf_log_partition", "no row", "[0]", 4, 1, {CRF(0, 2, 3)}, .build = crf_full},
    {"crf_log_partition", "likelihood", "[3]", 6, 1,
     {CRF(3, 3, 3), GIVEN_I32(S1(3), 3, 0, 2), GIVEN_I32(S2(3, 3), 2, 0, 1, 0, 0, 0, 1, 2, 0)}, .build = crf_likelihood},
    {"crf_log_partition", "likelihood", "[2]", 5, 1, {CRF(2, 3, 3), GIVEN_I32(S2(2, 3), 2, 0, 1, 0, 0, 2)}, .build = crf_likelihood_full},
    {"crf_log_partition_vjp", "marginals", "[3, 3, 2]", 5, 1, {CRF(3, 3, 2), GIVEN_I32(S1(3), 3, 1, 2)}, .build = crf_marginals},
    {"crf_viterbi", "", "[4, 3]", 5, 1, {CRF(4, 3, 3), GIVEN_I32(S1(4), 3, 1, 0, 2)}, .build = crf_viterbi, .flat = true},
    {"lstm", "hidden not of a vector", "[3, 5, 51]", 8, 3, {LSTM(3, 5, 33, 51), GIVEN_I32(S1(3), 5, 0, 3)}, .build = lstm_ragged, .large = true},
    {"lstm", "one row, reverse", "[1, 7, 17]", 8, 3, {LSTM(1, 7, 3, 17), GIVEN_I32(S1(1), 6)}, .build = lstm_reverse, .large = true},
    {"lstm", "many rows, hidden 1", "[35, 2, 1]", 7, 3, {LSTM(35, 2, 1, 1)}, .build = lstm_full, .large = true},
    {"lstm", "many steps", "[2, 35, 3]", 7, 3, {LSTM(2, 35, 2, 3)}, .build = lstm_full, .large = true},
    {"crf_log_partition", "many tags", "[3]", 5, 1, {CRF(3, 4, 108), GIVEN_I32(S1(3), 4, 0, 1)}, .build = crf_ragged, .large = true},
    {"crf_log_partition", "more tags", "[2]", 5, 1, {CRF(2, 3, 109), GIVEN_I32(S1(2), 3, 2)}, .build = crf_ragged, .large = true},
    {"crf_log_partition", "tags of a warp and one", "[5]", 4, 1, {CRF(5, 3, 33)}, .build = crf_full, .large = true},
    /* Tag 0 stays and pays for it at the end of four steps: paths from and to the others count as much as it does, and their sums of
     * exponentials are below 2^-66. */
    {"crf_log_partition", "tags that are nearly impossible together", "[3]", 5, 1,
     {REAL(S3(3, 4, 3), -2, 2), GIVEN_F32(S2(3, 3), 60, -60, -55, -60, 0, 1, -50, 2, -1), REAL(S1(3), -1, 1),
      GIVEN_F32(S1(3), -180, 0, 0.5), GIVEN_I32(S1(3), 4, 1, 3)}, .build = crf_ragged, CHAIN(60)}, /* alpha reaches 180 */
    {"crf_log_partition", "many steps", "[2]", 5, 1, {CRF(2, 131, 9), GIVEN_I32(S1(2), 131, 66)}, .build = crf_ragged, CHAIN(131)},
    {"crf_log_partition", "many steps, one tag", "[3]", 4, 1, {CRF(3, 67, 1)}, .build = crf_full, CHAIN(67)},
    {"crf_log_partition", "many rows", "[67]", 5, 1, {CRF(67, 3, 2), INDEX(S1(67), 0, 4)}, .build = crf_ragged, .large = true},
    {"crf_log_partition", "likelihood, many tags", "[3]", 6, 1,
     {CRF(3, 3, 41), GIVEN_I32(S1(3), 3, 0, 2), INDEX(S2(3, 3), 0, 41)}, .build = crf_likelihood, .large = true},
    {"crf_log_partition_vjp", "marginals, many tags", "[3, 5, 37]", 5, 1, {CRF(3, 5, 37), GIVEN_I32(S1(3), 5, 0, 2)}, .build = crf_marginals, .large = true},
    {"crf_viterbi", "many tags", "[3, 7]", 5, 1, {CRF(3, 7, 109), GIVEN_I32(S1(3), 7, 0, 2)}, .build = crf_viterbi, .flat = true, .large = true},
    {"crf_viterbi", "one tag", "[2, 3]", 5, 1, {CRF(2, 3, 1), GIVEN_I32(S1(2), 3, 0)}, .build = crf_viterbi, .flat = true, .large = true},
    {"crf_viterbi", "many steps", "[2, 259]", 5, 1, {CRF(2, 259, 9), GIVEN_I32(S1(2), 259, 130)}, .build = crf_viterbi, .flat = true, .large = true},
    {"crf_viterbi", "no step", "[2, 0]", 5, 1, {CRF(2, 0, 3), GIVEN_I32(S1(2), 0, 0)}, .build = crf_viterbi, .flat = true},
};
/* clang-format on */

const sg_sample_table sg_samples_sequence = TABLE(rows);
