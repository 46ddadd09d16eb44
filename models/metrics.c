/* Metrics of multi-label predictions. The conventions at empty sets and ties change the numbers, so they are in the
 * names. */
#include "models/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct table {
    const float *p, *y, *known;
    int64_t rows, labels;
    const float *thresholds;
} table;

static bool is_known(const table *t, int64_t cell) { return !t->known || t->known[cell] >= 0.5f; }

/* NaN is below every threshold: a diverged net predicts nothing. */
static bool is_predicted(const table *t, int64_t cell, int64_t label)
{
    return t->p[cell] >= (t->thresholds ? t->thresholds[label] : 0.5f);
}

static void add(sg_metrics *out, const char *name, double value, bool defined)
{
    if (out->count == SG_METRICS_MAX)
        return;
    sg_metric *m = &out->metric[out->count++];
    snprintf(m->name, sizeof m->name, "%s", name);
    m->defined = defined && isfinite(value);
    m->value = m->defined ? value : NAN;
}

/* num / den, undefined where there is nothing to divide by. */
static void add_ratio(sg_metrics *out, const char *name, double num, double den)
{
    add(out, name, den > 0 ? num / den : 0.0, den > 0);
}

/* F1 = 2 TP / (2 TP + FP + FN), and `empty` where all three are zero. */
static double f1(int64_t tp, int64_t fp, int64_t fn, double empty)
{
    int64_t den = 2 * tp + fp + fn;
    return den ? 2.0 * (double)tp / (double)den : empty;
}

/* --------------------------------------------------------------------------------------------------- thresholded */

static void count_cell(const table *t, int64_t cell, int64_t label, sg_label_report *c)
{
    bool gold = t->y[cell] >= 0.5f, predicted = is_predicted(t, cell, label);
    c->tp += gold && predicted;
    c->fp += !gold && predicted;
    c->fn += gold && !predicted;
}

static void example_metrics(const table *t, sg_metrics *out)
{
    double sum = 0, exact = 0, wrong = 0, cells = 0;
    int64_t empty_gold = 0, empty_pred = 0, empty_both = 0;
    for (int64_t r = 0; r < t->rows; r++) {
        sg_label_report c = {0};
        for (int64_t i = 0; i < t->labels; i++) {
            if (!is_known(t, r * t->labels + i))
                continue;
            count_cell(t, r * t->labels + i, i, &c);
            cells++;
        }
        sum += f1(c.tp, c.fp, c.fn, 0.0);
        exact += c.fp + c.fn == 0;
        wrong += (double)(c.fp + c.fn);
        empty_gold += c.tp + c.fn == 0;
        empty_pred += c.tp + c.fp == 0;
        empty_both += c.tp + c.fn + c.fp == 0;
    }
    double rows = (double)t->rows;
    add_ratio(out, "example_f1", sum, rows);
    if (empty_both)
        add_ratio(out, "example_f1.empty1", sum + (double)empty_both, rows);
    add_ratio(out, "subset_accuracy", exact, rows);
    add_ratio(out, "hamming_loss", wrong, cells);
    add(out, "n_empty_gold", (double)empty_gold, true);
    add(out, "n_empty_pred", (double)empty_pred, true);
    add(out, "n_empty_both", (double)empty_both, true);
}

static void label_counts(const table *t, sg_label_report *out)
{
    memset(out, 0, (size_t)t->labels * sizeof *out);
    for (int64_t r = 0; r < t->rows; r++)
        for (int64_t i = 0; i < t->labels; i++)
            if (is_known(t, r * t->labels + i))
                count_cell(t, r * t->labels + i, i, &out[i]);
}

static void label_metrics(const table *t, sg_label_report *label, sg_metrics *out)
{
    label_counts(t, label);
    sg_label_report all = {0};
    double sum = 0;
    int64_t absent = 0;
    for (int64_t i = 0; i < t->labels; i++) {
        const sg_label_report *c = &label[i];
        all.tp += c->tp;
        all.fp += c->fp;
        all.fn += c->fn;
        sum += f1(c->tp, c->fp, c->fn, 0.0);
        absent += c->tp + c->fp + c->fn == 0;
    }
    double labels = (double)t->labels;
    add(out, "micro_f1", f1(all.tp, all.fp, all.fn, 0.0), true);
    add(out, "micro_precision", all.tp + all.fp ? (double)all.tp / (double)(all.tp + all.fp) : 0.0, true);
    add(out, "micro_recall", all.tp + all.fn ? (double)all.tp / (double)(all.tp + all.fn) : 0.0, true);
    add_ratio(out, "macro_f1", sum, labels);
    if (absent) {
        add_ratio(out, "macro_f1.empty1", sum + (double)absent, labels);
        add_ratio(out, "macro_f1.present", sum, labels - (double)absent);
    }
}

/* ------------------------------------------------------------------------------------------------------- ranking */

typedef struct scored {
    float score;
    bool gold;
    int32_t label;
} scored;

/* Highest score first, equal scores by lower index; NaN last. */
static int by_score(const void *a, const void *b)
{
    const scored *x = a, *y = b;
    float sx = isnan(x->score) ? -INFINITY : x->score, sy = isnan(y->score) ? -INFINITY : y->score;
    if (sx != sy)
        return sx < sy ? 1 : -1;
    return (x->label > y->label) - (x->label < y->label);
}

static int64_t same_until(const scored *s, int64_t begin, int64_t n)
{
    int64_t end = begin + 1;
    while (end < n && s[end].score == s[begin].score)
        end++;
    return end;
}

/* AP = sum over distinct scores of (recall gained) x (precision there). Needs at least one gold label. */
static double average_precision(const scored *s, int64_t n, int64_t gold)
{
    double sum = 0;
    int64_t hits = 0;
    for (int64_t i = 0, end; i < n; i = end) {
        int64_t before = hits;
        end = same_until(s, i, n);
        for (int64_t k = i; k < end; k++)
            hits += s[k].gold;
        sum += (double)(hits - before) * (double)hits / (double)end;
    }
    return sum / (double)gold;
}

/* Gain of gold labels, discounted by 1 / log2(rank + 1); tied labels share the mean discount of their ranks. */
static double dcg(const scored *s, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0, end; i < n; i = end) {
        double discounts = 0, hits = 0;
        end = same_until(s, i, n);
        for (int64_t k = i; k < end; k++) {
            discounts += 1.0 / log2((double)k + 2.0);
            hits += s[k].gold;
        }
        sum += hits * discounts / (double)(end - i);
    }
    return sum;
}

static double ideal_dcg(int64_t gold)
{
    double sum = 0;
    for (int64_t k = 0; k < gold; k++)
        sum += 1.0 / log2((double)k + 2.0);
    return sum;
}

/* Label ranking average precision of one row: the same sum, and 1 if every label or none is gold. */
static double ranking_precision(const scored *s, int64_t n, int64_t gold)
{
    return gold == 0 || gold == n ? 1.0 : average_precision(s, n, gold);
}

typedef struct ranking {
    double ap, dcg, lrap, hits[3];
    int64_t labelled, tied[3];
} ranking;

static const int64_t cut[3] = {1, 3, 5};

static void rank_row(const scored *s, int64_t n, ranking *sum)
{
    int64_t gold = 0, hits = 0;
    for (int64_t i = 0; i < n; i++)
        gold += s[i].gold;
    for (int64_t i = 0, k = 0; k < 3; i++) {
        hits += i < n && s[i].gold;
        if (i + 1 == cut[k]) {
            sum->hits[k] += (double)hits / (double)cut[k];
            sum->tied[k] += i + 1 < n && s[i].score == s[i + 1].score;
            k++;
        }
    }
    sum->lrap += ranking_precision(s, n, gold);
    if (gold == 0)
        return;
    sum->labelled++;
    sum->ap += average_precision(s, n, gold);
    sum->dcg += dcg(s, n) / ideal_dcg(gold);
}

/* Known cells of one row (step 1) or one label's column (step `labels`), sorted by score. */
static int64_t gather(const table *t, int64_t first, int64_t step, int64_t n, scored *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t cell = first + i * step;
        if (is_known(t, cell))
            out[count++] = (scored){t->p[cell], t->y[cell] >= 0.5f, (int32_t)i};
    }
    qsort(out, (size_t)count, sizeof *out, by_score);
    return count;
}

static int64_t count_gold(const scored *s, int64_t n)
{
    int64_t gold = 0;
    for (int64_t i = 0; i < n; i++)
        gold += s[i].gold;
    return gold;
}

static void row_rankings(const table *t, scored *buffer, sg_metrics *out)
{
    ranking sum = {0};
    for (int64_t r = 0; r < t->rows; r++)
        rank_row(buffer, gather(t, r * t->labels, 1, t->labels, buffer), &sum);
    double rows = (double)t->rows, labelled = (double)sum.labelled;
    add(out, "map.example", sum.ap / rows, sum.labelled > 0);
    add(out, "ndcg", sum.dcg / rows, sum.labelled > 0);
    if (sum.labelled < t->rows) {
        add_ratio(out, "map.example.nonempty", sum.ap, labelled);
        add_ratio(out, "ndcg.nonempty", sum.dcg, labelled);
    }
    add_ratio(out, "lrap", sum.lrap, rows);
    for (int k = 0; k < 3; k++) {
        char name[24];
        snprintf(name, sizeof name, "p@%d", (int)cut[k]);
        add_ratio(out, name, sum.hits[k], rows);
        snprintf(name, sizeof name, "n_tied@%d", (int)cut[k]);
        add(out, name, (double)sum.tied[k], true);
    }
}

static void column_rankings(const table *t, scored *buffer, sg_metrics *out)
{
    double sum = 0;
    int64_t present = 0;
    for (int64_t i = 0; i < t->labels; i++) {
        int64_t n = gather(t, i, t->labels, t->rows, buffer), gold = count_gold(buffer, n);
        if (gold == 0)
            continue;
        present++;
        sum += average_precision(buffer, n, gold);
    }
    add_ratio(out, "map.label", sum, (double)present);
}

static void pooled_ranking(const table *t, scored *buffer, sg_metrics *out)
{
    int64_t n = gather(t, 0, 1, t->rows * t->labels, buffer), gold = count_gold(buffer, n);
    add(out, "ap.micro", gold ? average_precision(buffer, n, gold) : 0.0, gold > 0);
}

static sg_status check_sizes(int64_t rows, int64_t labels, int64_t *cells, sg_error *err)
{
    if (rows < 0 || labels < 1 || !sg_mul_ok(rows, labels, cells) || *cells > INT32_MAX)
        return sg_fail(err, SG_E_ARGUMENT, "metrics of %lld rows and %lld labels", (long long)rows, (long long)labels);
    return SG_OK;
}

static sg_status out_of_memory(int64_t rows, sg_error *err)
{
    return sg_fail(err, SG_E_MEMORY, "out of memory for metrics of %lld rows", (long long)rows);
}

sg_status sg_metrics_add_rankings(sg_metrics *out, const float *p, const float *y, const float *known, int64_t rows,
                                  int64_t labels, sg_error *err)
{
    int64_t cells;
    SG_TRY(check_sizes(rows, labels, &cells, err));
    table t = {p, y, known, rows, labels, NULL};
    scored *buffer = sg_calloc(cells + 1, sizeof *buffer);
    if (!buffer)
        return out_of_memory(rows, err);
    row_rankings(&t, buffer, out);
    column_rankings(&t, buffer, out);
    pooled_ranking(&t, buffer, out);
    sg_free(buffer);
    return SG_OK;
}

sg_status sg_metrics_multilabel(sg_metrics *out, const float *p, const float *y, const float *known, int64_t rows,
                                int64_t labels, const float *thresholds, bool ranking, sg_error *err)
{
    int64_t cells;
    *out = (sg_metrics){0};
    SG_TRY(check_sizes(rows, labels, &cells, err));
    table t = {p, y, known, rows, labels, thresholds};
    sg_label_report *label = sg_calloc(labels, sizeof *label);
    if (!label)
        return out_of_memory(rows, err);
    example_metrics(&t, out);
    label_metrics(&t, label, out);
    sg_free(label);
    return ranking ? sg_metrics_add_rankings(out, p, y, known, rows, labels, err) : SG_OK;
}

const sg_metric *sg_metrics_find(const sg_metrics *metrics, const char *name)
{
    for (int32_t i = 0; i < metrics->count; i++)
        if (strcmp(metrics->metric[i].name, name) == 0)
            return &metrics->metric[i];
    return NULL;
}

sg_status sg_metrics_per_label(sg_label_report *out, const float *p, const float *y, const float *known, int64_t rows,
                               int64_t labels, const float *thresholds, sg_error *err)
{
    int64_t cells;
    SG_TRY(check_sizes(rows, labels, &cells, err));
    table t = {p, y, known, rows, labels, thresholds};
    label_counts(&t, out);
    for (int64_t i = 0; i < labels; i++) {
        sg_label_report *c = &out[i];
        c->precision = c->tp + c->fp ? (double)c->tp / (double)(c->tp + c->fp) : 0.0;
        c->recall = c->tp + c->fn ? (double)c->tp / (double)(c->tp + c->fn) : 0.0;
        c->f1 = f1(c->tp, c->fp, c->fn, 0.0);
    }
    return SG_OK;
}
