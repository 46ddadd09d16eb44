/* bio_decode.c - best sequence of BIO tags: the highest sum of scores among the sequences that the scheme allows.
 *
 * O and B-x may stand anywhere, I-x only after B-x or I-x of the same x. With best_t[j] the highest sum of a sequence that
 * ends in tag j at word t,
 *     best_t[j] = score[t, j] + max over tags i that j may follow of best_{t-1}[i],
 * a Viterbi search whose transitions are free or forbidden. */
#include <math.h>
#include <string.h>

#include "models/models.h"

/* May tag `to` follow `from` (NULL: at the start)? */
static bool may_follow(const char *to, const char *from)
{
    if (to[0] != 'I')
        return true;
    return from && from[0] != 'O' && strcmp(to + 1, from + 1) == 0;
}

static sg_status check_tags(const char *const *tags, int32_t n_tags, sg_error *err)
{
    for (int32_t k = 0; k < n_tags; k++) {
        const char *tag = tags[k];
        bool outside = tag && strcmp(tag, "O") == 0, inside = tag && (tag[0] == 'B' || tag[0] == 'I') && tag[1] == '-';
        if (!outside && !inside)
            return sg_fail(err, SG_E_DATA, "tag %d, '%s', is none of O, B-x, I-x", (int)k, tag ? tag : "");
    }
    return SG_OK;
}

/* The best tag at `best` that `to` may follow, the lowest of equals; -1: none. `to` NULL: the end. */
static int32_t best_before(const double *best, const char *const *tags, int32_t n_tags, const char *to, bool only_o)
{
    int32_t found = -1;
    for (int32_t i = 0; i < n_tags; i++) {
        bool allowed = to ? may_follow(to, tags[i]) : !only_o || tags[i][0] == 'O';
        if (allowed && best[i] > -INFINITY && (found < 0 || best[i] > best[found]))
            found = i;
    }
    return found;
}

sg_status sg_bio_decode(const double *scores, int64_t words, const char *const *tags, int32_t n_tags,
                        bool last_tag_must_be_o, int32_t *path, double *score, sg_error *err)
{
    SG_TRY(check_tags(tags, n_tags, err));
    *score = 0;
    if (words == 0)
        return SG_OK;
    int64_t cells;
    double *best = sg_mul_ok(words, n_tags, &cells) ? sg_calloc(cells + 1, sizeof *best) : NULL;
    int32_t *back = best ? sg_calloc(cells + 1, sizeof *back) : NULL;
    if (!back) {
        sg_free(best);
        return sg_fail(err, SG_E_MEMORY, "out of memory for decoding %lld words", (long long)words);
    }
    for (int64_t t = 0; t < words; t++)
        for (int32_t j = 0; j < n_tags; j++) {
            int64_t at = t * n_tags + j;
            back[at] = t ? best_before(best + (t - 1) * n_tags, tags, n_tags, tags[j], false) : -1;
            double before = !t ? (may_follow(tags[j], NULL) ? 0 : -INFINITY)
                               : (back[at] < 0 ? -INFINITY : best[(t - 1) * n_tags + back[at]]);
            best[at] = before + scores[at];
        }
    int32_t last = best_before(best + (words - 1) * n_tags, tags, n_tags, NULL, last_tag_must_be_o);
    sg_status status = SG_OK;
    if (last < 0)
        status = sg_fail(err, SG_E_DATA, "no sequence of %lld tags is allowed", (long long)words);
    else
        *score = best[(words - 1) * n_tags + last];
    for (int64_t t = words - 1; t >= 0 && last >= 0; t--) {
        path[t] = last;
        last = back[t * n_tags + last];
    }
    sg_free(best);
    sg_free(back);
    return status;
}
