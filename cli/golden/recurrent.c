/* recurrent.c - golden family: LSTMs, linear-chain CRFs, decoding of BIO tags. */
#include <string.h>

#include "cli/golden/golden_internal.h"
#include "models/models.h"

enum { MAX_LAYERS = 8, MAX_TAGS = 64 };

static void lstm_cell(sg_golden *g)
{
    sg_lstm_weights w = {sg_golden_in(g, "w_ih"), sg_golden_in(g, "w_hh"), sg_golden_in(g, "b_ih"),
                         sg_golden_in(g, "b_hh")};
    sg_lstm_state last = {sg_golden_in(g, "h"), sg_golden_in(g, "c")};
    sg_lstm_state next = sg_lstm_cell(sg_golden_in(g, "x"), last, w);
    sg_golden_out(g, "h", next.h);
    sg_golden_out(g, "c", next.c);
}

static sg_value layer_input(sg_golden *g, const char *what, int64_t layer, bool reverse)
{
    char name[64];
    snprintf(name, sizeof name, "%s_l%lld%s", what, (long long)layer, reverse ? "_reverse" : "");
    return sg_golden_in(g, name);
}

static sg_lstm_weights layer_weights(sg_golden *g, int64_t layer, bool reverse)
{
    return (sg_lstm_weights){layer_input(g, "weight_ih", layer, reverse), layer_input(g, "weight_hh", layer, reverse),
                             layer_input(g, "bias_ih", layer, reverse), layer_input(g, "bias_hh", layer, reverse)};
}

/* States of all layers and directions, [layers * directions, batch, hidden]. */
static sg_value stack(const sg_value *state, int32_t n)
{
    sg_value wide[2 * MAX_LAYERS];
    for (int32_t i = 0; i < n; i++)
        wide[i] = sg_expand_dims(state[i], 0);
    return sg_concat(wide, n, 0);
}

static void lstm(sg_golden *g)
{
    int64_t layers = sg_golden_int(g, "layers");
    bool both = sg_golden_flag(g, "bidirectional");
    sg_value x = sg_golden_in(g, "x"), lengths = sg_golden_in(g, "lengths"), h[2 * MAX_LAYERS], c[2 * MAX_LAYERS];
    int32_t n = 0;
    if (layers < 1 || layers > MAX_LAYERS || !sg_golden_flag(g, "batch_first"))
        sg_golden_refuse(g, "needs 1 to %d layers and the batch first", MAX_LAYERS);
    for (int64_t layer = 0; layer < layers && layer < MAX_LAYERS; layer++) {
        sg_value out[2];
        for (int32_t reverse = 0; reverse <= (int32_t)both; reverse++, n++) {
            sg_lstm_state zeros = {SG_NONE, SG_NONE};
            sg_lstm_result r = sg_lstm(x, lengths, layer_weights(g, layer, reverse), zeros, reverse);
            out[reverse] = r.out;
            h[n] = r.last.h;
            c[n] = r.last.c;
        }
        x = both ? sg_concat(out, 2, 2) : out[0];
    }
    if (n == 0)
        return;
    sg_golden_out(g, "out", x);
    sg_golden_out(g, "h_n", stack(h, n));
    sg_golden_out(g, "c_n", stack(c, n));
}

/* ------------------------------------------------------------------------------------------------------------ CRF */

static sg_crf crf_of(sg_golden *g)
{
    return (sg_crf){sg_golden_in(g, "transitions"), sg_golden_in(g, "start"), sg_golden_in(g, "end")};
}

static void crf_log_partition(sg_golden *g)
{
    sg_golden_out(g, "out", sg_crf_log_partition(crf_of(g), sg_golden_in(g, "emissions"), sg_golden_in(g, "lengths")));
}

static void crf_log_likelihood(sg_golden *g)
{
    sg_value e = sg_golden_in(g, "emissions"), tags = sg_golden_in(g, "tags");
    sg_golden_out(g, "out", sg_crf_log_likelihood(crf_of(g), e, tags, sg_golden_in(g, "lengths")));
}

static void crf_marginals(sg_golden *g)
{
    sg_golden_out(g, "out", sg_crf_marginals(crf_of(g), sg_golden_in(g, "emissions"), sg_golden_in(g, "lengths")));
}

static void crf_viterbi(sg_golden *g)
{
    sg_value e = sg_golden_in(g, "emissions"), lengths = sg_golden_in(g, "lengths");
    sg_value path = sg_crf_viterbi(crf_of(g), e, lengths);
    if (sg_golden_has_output(g, "path"))
        sg_golden_out(g, "path", path);
    sg_golden_out(g, "score", sg_crf_score(crf_of(g), e, path, lengths));
}

/* ------------------------------------------------------------------------------------------------------- decoding */

static void bio_decode(sg_golden *g)
{
    int64_t count;
    const double *scores = sg_golden_elements(g, "scores", &count);
    const json_t *list = sg_golden_attr(g, "tags");
    int32_t n_tags = (int32_t)json_array_size(list), path[256];
    const char *tags[MAX_TAGS];
    double numbers[256], score = 0;
    sg_error err = {0};
    if (!scores || n_tags < 1 || n_tags > MAX_TAGS || count / n_tags > 256) {
        sg_golden_refuse(g, "needs scores and 1 to %d tags", MAX_TAGS);
        return;
    }
    for (int32_t k = 0; k < n_tags; k++)
        tags[k] = json_string_value(json_array_get(list, (size_t)k));
    int64_t words = count / n_tags;
    if (sg_bio_decode(scores, words, tags, n_tags, sg_golden_flag(g, "last_tag_must_be_o"), path, &score, &err) !=
        SG_OK)
        sg_golden_refuse(g, "%.200s", err.text);
    for (int64_t t = 0; t < words; t++)
        numbers[t] = path[t];
    sg_golden_numbers(g, "path", numbers, words);
    sg_golden_numbers(g, "score", &score, 1);
}

static const sg_golden_row rows[] = {
    {"lstm_cell", NULL, lstm_cell, 0},
    {"lstm", NULL, lstm, 0},
    {"crf_log_partition", NULL, crf_log_partition, 0},
    {"crf_log_likelihood", NULL, crf_log_likelihood, 0},
    {"crf_marginals", NULL, crf_marginals, 0},
    {"crf_viterbi", NULL, crf_viterbi, 0},
    {"bio_decode", NULL, bio_decode, 0},
};
SG_GOLDEN_TABLE(recurrent, rows);
