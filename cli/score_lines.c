/* score_lines.c - one row of predictions: a line of jsonl, or of label:score pairs. */
#include "cli/score_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static sg_status unknown_label(const sgi_predictions *s, int64_t row, const char *name, size_t length, sg_error *err)
{
    return sg_fail_at(err, SG_E_DATA, s->path, row + 1, 0, "the gold data has no label '%.*s'",
                      (int)(length < 100 ? length : 100), name);
}

static float *scores_of(const sgi_predictions *s, int64_t row) { return s->score + row * s->gold->labels; }

static float *sets_of(const sgi_predictions *s, int64_t row) { return s->on + row * s->gold->labels; }

/* ---- NaN stands for a score that is not there while a row is read */

static void begin_row(const sgi_predictions *s, int64_t row)
{
    for (int64_t i = 0; i < s->gold->labels; i++)
        scores_of(s, row)[i] = NAN;
}

static void end_row(sgi_predictions *s, int64_t row)
{
    float *score = scores_of(s, row);
    int64_t missing = 0;
    for (int64_t i = 0; i < s->gold->labels; i++)
        if (isnan(score[i])) {
            score[i] = 0;
            missing++;
        }
    s->incomplete += missing > 0;
}

static void cut_row(sgi_predictions *s, int64_t row)
{
    s->cut = true;
    for (int64_t i = 0; i < s->gold->labels; i++)
        sets_of(s, row)[i] = scores_of(s, row)[i] >= s->threshold;
}

/* ---- jsonl */

static sg_status check_number(const sgi_predictions *s, int64_t row, json_t *number, sg_error *err)
{
    if (!number || (json_is_number(number) && json_number_value(number) == (double)row))
        return SG_OK;
    return sg_fail_at(err, SG_E_DATA, s->path, row + 1, 0,
                      "\"row\" is not %lld, though this is row %lld of the file, counted from 0: sort the lines by it, "
                      "or leave it out",
                      (long long)row, (long long)row);
}

static sg_status put_scores(sgi_predictions *s, int64_t row, json_t *scores, sg_error *err)
{
    const char *name;
    json_t *value;
    if (!json_is_object(scores))
        return sg_fail_at(err, SG_E_DATA, s->path, row + 1, 0, "\"scores\" must be an object of label: number");
    json_object_foreach(scores, name, value)
    {
        int64_t label = sg_names_find(&s->labels, name);
        if (label < 0)
            return unknown_label(s, row, name, strlen(name), err);
        if (!json_is_number(value))
            return sg_fail_at(err, SG_E_DATA, s->path, row + 1, 0, "the score of '%.80s' is not a number", name);
        scores_of(s, row)[label] = (float)json_number_value(value);
    }
    s->scored = true;
    return SG_OK;
}

static sg_status put_labels(const sgi_predictions *s, int64_t row, json_t *labels, sg_error *err)
{
    size_t i;
    json_t *value;
    if (!json_is_array(labels))
        return sg_fail_at(err, SG_E_DATA, s->path, row + 1, 0, "\"labels\" must be a list of names");
    json_array_foreach(labels, i, value)
    {
        const char *name = json_string_value(value);
        int64_t label = name ? sg_names_find(&s->labels, name) : -1;
        if (!name)
            return sg_fail_at(err, SG_E_DATA, s->path, row + 1, 0, "\"labels\" must be a list of names");
        if (label < 0)
            return unknown_label(s, row, name, strlen(name), err);
        sets_of(s, row)[label] = 1;
    }
    return SG_OK;
}

static sg_status put_row(sgi_predictions *s, int64_t row, const json_t *document, sg_error *err)
{
    json_t *scores = json_object_get(document, "scores"), *labels = json_object_get(document, "labels");
    if (!scores && !labels)
        return sg_fail_at(err, SG_E_DATA, s->path, row + 1, 0, "a row needs \"scores\" or \"labels\"");
    if (!scores && s->asked)
        return sgi_score_no_threshold(s, row + 1, err);
    SG_TRY(check_number(s, row, json_object_get(document, "row"), err));
    begin_row(s, row);
    if (labels)
        SG_TRY(put_labels(s, row, labels, err));
    if (scores)
        SG_TRY(put_scores(s, row, scores, err));
    end_row(s, row);
    if (s->asked || !labels)
        cut_row(s, row);
    return SG_OK;
}

sg_status sgi_score_json_row(sgi_predictions *s, int64_t row, const char *text, sg_error *err)
{
    json_error_t where;
    json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (!document)
        return sg_fail_at(err, SG_E_DATA, s->path, row + 1, where.column, "not valid JSON: %s", where.text);
    sg_status status = put_row(s, row, document, err);
    json_decref(document);
    return status;
}

/* ---- label:score pairs */

static sg_status no_pair(const sgi_predictions *s, int64_t row, int64_t column, const char *at, size_t span,
                         sg_error *err)
{
    return sg_fail_at(err, SG_E_DATA, s->path, row + 1, column, "expected label:score, not '%.*s'",
                      (int)(span < 80 ? span : 80), at);
}

/* The pair that begins at `at`, of which the first column is 1; leaves the end of its score in `end`. */
static sg_status put_pair(const sgi_predictions *s, int64_t row, int64_t column, const char *at, char **end,
                          sg_error *err)
{
    size_t length = 0, span = strcspn(at, " \t");
    /* Names may hold blanks and colons. */
    int64_t label = sg_names_longest(&s->labels, at, s->longest, ':', &length);
    const char *colon = memrchr(at, ':', span), *number = at + length + 1;
    if (label < 0)
        return colon ? unknown_label(s, row, at, (size_t)(colon - at), err) : no_pair(s, row, column, at, span, err);
    double score = strtod(number, end);
    span = strcspn(number, " \t");
    if (span == 0 || *end != number + span || !isfinite(score))
        return no_pair(s, row, column, at, length + 1 + span, err);
    float *put = &scores_of(s, row)[label];
    if (!isnan(*put))
        return sg_fail_at(err, SG_E_DATA, s->path, row + 1, column, "label '%.80s' is there twice",
                          s->gold->schema->label_names[label]);
    *put = (float)score;
    return SG_OK;
}

sg_status sgi_score_pairs_row(sgi_predictions *s, int64_t row, const char *text, sg_error *err)
{
    char *end;
    begin_row(s, row);
    for (const char *at = text + strspn(text, " \t"); *at; at = end + strspn(end, " \t"))
        SG_TRY(put_pair(s, row, at - text + 1, at, &end, err));
    end_row(s, row);
    cut_row(s, row);
    s->scored = true;
    return SG_OK;
}
