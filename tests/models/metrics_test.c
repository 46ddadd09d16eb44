/* Metrics against values worked out by hand and against scikit-learn's (shared/golden/metrics.json). */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/data_files.h"

static double value(const sg_metrics *m, const char *name)
{
    const sg_metric *found = sg_metrics_find(m, name);
    if (!found)
        fail_msg("no metric '%s'", name);
    return found->value;
}

static void near(const sg_metrics *m, const char *name, double expected)
{
    double got = value(m, name);
    if (!(fabs(got - expected) < 1e-12))
        fail_msg("%s is %.17g, expected %.17g", name, got, expected);
}

static sg_metrics metrics_of(const float *p, const float *y, const float *known, int64_t rows, int64_t labels)
{
    sg_metrics m;
    assert_int_equal(sg_metrics_multilabel(&m, p, y, known, rows, labels, NULL, true, NULL), SG_OK);
    return m;
}

/* The rows of docs/conventions.md: {0,1} of {0}; nothing of nothing; nothing gold, one predicted; 0.5 itself is predicted. */
static void by_hand(void **state)
{
    (void)state;
    const float y[] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0};
    const float p[] = {0.9f, 0.2f, 0.1f, 0.1f, 0.2f, 0.3f, 0.0f, 0.7f, 0.0f, 0.1f, 0.5f, 0.49f};
    sg_metrics m = metrics_of(p, y, NULL, 4, 3);
    near(&m, "example_f1", (2.0 / 3 + 0 + 0 + 1) / 4);
    near(&m, "example_f1.empty1", (2.0 / 3 + 1 + 0 + 1) / 4);
    near(&m, "micro_f1", 4.0 / (4 + 1 + 1));
    near(&m, "macro_f1", (1 + 0.5 + 0) / 3);
    near(&m, "macro_f1.empty1", (1 + 0.5 + 1) / 3);
    near(&m, "macro_f1.present", (1 + 0.5) / 2);
    near(&m, "hamming_loss", 2.0 / 12);
    near(&m, "subset_accuracy", 2.0 / 4);
    near(&m, "n_empty_gold", 2);
    near(&m, "n_empty_pred", 1);
    near(&m, "n_empty_both", 1);
    near(&m, "p@1", 2.0 / 4);
    near(&m, "p@3", (2.0 / 3 + 1.0 / 3) / 4);
    near(&m, "map.example", 2.0 / 4);
    near(&m, "map.example.nonempty", 1.0);
    near(&m, "lrap", 1.0);
    near(&m, "ndcg", 2.0 / 4);
    near(&m, "ndcg.nonempty", 1.0);
    near(&m, "micro_precision", 2.0 / 3);
    near(&m, "micro_recall", 2.0 / 3);
    near(&m, "map.label", (1 + (0.5 * 1 / 2 + 0.5 * 2 / 4)) / 2);
}

/* No row is empty on both sides: no .empty1; a missing label counts nowhere; a row of ties shares the discounts. */
static void unknown_labels_and_ties(void **state)
{
    (void)state;
    const float y[] = {1, 0, 0, 1, 0, 0}, known[] = {1, 1, 0, 1, 1, 1};
    const float p[] = {0.9f, 0.1f, 0.9f, 0.5f, 0.5f, 0.5f};
    sg_metrics m = metrics_of(p, y, known, 2, 3);
    assert_null(sg_metrics_find(&m, "example_f1.empty1"));
    near(&m, "example_f1", (1 + 0.5) / 2);
    near(&m, "hamming_loss", 2.0 / 5);
    near(&m, "n_tied@1", 1);
    near(&m, "ndcg", (1 + (1 + 1 / log2(3) + 0.5) / 3) / 2);
    near(&m, "lrap", (1 + 1.0 / 3) / 2);
    near(&m, "p@1", 1.0);
    near(&m, "p@3", (1.0 / 3 + 1.0 / 3) / 2); /* 3 divides also where 2 labels are known */
    near(&m, "n_tied@3", 0);
    near(&m, "ap.micro", (1 + 2.0 / 4) / 2);
    near(&m, "map.label", (1 + 1) / 2.0);
}

static void nothing_positive_is_undefined(void **state)
{
    (void)state;
    const float y[] = {0, 0}, p[] = {0.1f, 0.2f};
    sg_metrics m = metrics_of(p, y, NULL, 1, 2);
    assert_false(sg_metrics_find(&m, "map.label")->defined);
    assert_false(sg_metrics_find(&m, "map.example")->defined);
    assert_false(sg_metrics_find(&m, "ap.micro")->defined);
    near(&m, "example_f1", 0);
    near(&m, "example_f1.empty1", 1);
    near(&m, "micro_f1", 0);
}

/* Sets that are not what the scores say: the metrics of either are those of it alone. */
static void sets_and_rankings_apart(void **state)
{
    (void)state;
    const float y[] = {1, 0, 0, 0, 1, 1}, on[] = {1, 0, 0, 0, 1, 1}, p[] = {0.1f, 0.2f, 0.3f, 0.1f, 0.2f, 0.3f};
    sg_metrics m, of_p = metrics_of(p, y, NULL, 2, 3);
    assert_int_equal(sg_metrics_multilabel(&m, on, y, NULL, 2, 3, NULL, false, NULL), SG_OK);
    assert_null(sg_metrics_find(&m, "lrap"));
    assert_int_equal(sg_metrics_add_rankings(&m, p, y, NULL, 2, 3, NULL), SG_OK);
    near(&m, "example_f1", 1);
    near(&m, "lrap", (1.0 / 3 + 1) / 2);
    near(&m, "ap.micro", value(&of_p, "ap.micro"));
}

static void thresholds_and_labels(void **state)
{
    (void)state;
    const float y[] = {1, 0, 1, 1}, p[] = {0.4f, 0.6f, 0.2f, 0.9f}, t[] = {0.3f, 0.7f};
    sg_metrics m;
    assert_int_equal(sg_metrics_multilabel(&m, p, y, NULL, 2, 2, t, false, NULL), SG_OK);
    near(&m, "micro_f1", 4.0 / 5);
    assert_null(sg_metrics_find(&m, "map.label"));
    sg_label_report r[2];
    assert_int_equal(sg_metrics_per_label(r, p, y, NULL, 2, 2, t, NULL), SG_OK);
    assert_true(r[0].tp == 1 && r[0].fn == 1 && r[0].fp == 0 && r[1].tp == 1 && r[1].fp == 0);
    assert_true(r[0].precision == 1.0 && r[0].recall == 0.5 && fabs(r[0].f1 - 2.0 / 3) < 1e-15);
    const float diverged[] = {NAN, NAN, NAN, NAN};
    assert_int_equal(sg_metrics_multilabel(&m, diverged, y, NULL, 2, 2, NULL, true, NULL), SG_OK);
    near(&m, "n_empty_pred", 2);
}

/* ------------------------------------------------------------------------------------------------- golden values */

static float *floats(const json_t *tensor)
{
    const json_t *data = json_object_get(tensor, "data");
    float *out = calloc(json_array_size(data) + 1, sizeof *out);
    for (size_t i = 0; i < json_array_size(data); i++)
        out[i] = (float)json_number_value(json_array_get(data, i));
    return out;
}

static const char *const pairs[][2] = {
    {"example_f1", "example_f1"},
    {"example_f1_empty_is_one", "example_f1.empty1"},
    {"micro_f1", "micro_f1"},
    {"macro_f1", "macro_f1"},
    {"subset_accuracy", "subset_accuracy"},
    {"hamming_loss", "hamming_loss"},
    {"micro_precision", "micro_precision"},
    {"micro_recall", "micro_recall"},
    {"precision_at_1", "p@1"},
    {"precision_at_3", "p@3"},
    {"precision_at_5", "p@5"},
    {"map", "map.example"},
    {"map_rows_with_labels", "map.example.nonempty"},
};

static int compare(const json_t *outputs, const sg_metrics *m)
{
    int compared = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const json_t *tensor = json_object_get(outputs, pairs[i][0]);
        const sg_metric *found = sg_metrics_find(m, pairs[i][1]);
        if (!tensor || !found)
            continue;
        near(m, pairs[i][1], json_number_value(json_array_get(json_object_get(tensor, "data"), 0)));
        compared++;
    }
    return compared;
}

static void golden(void **state)
{
    (void)state;
    const char *path = shared_file(0, "golden/metrics.json");
    if (!path) {
        print_message("shared golden values are not there: skipped\n");
        skip();
    }
    json_t *root = json_load_file(path, 0, NULL), *test;
    size_t i;
    int compared = 0;
    json_array_foreach(json_object_get(root, "cases"), i, test)
    {
        const char *op = json_string_value(json_object_get(test, "op"));
        if (strcmp(op, "multilabel_classification") != 0 && strcmp(op, "multilabel_ranking") != 0)
            continue;
        const json_t *inputs = json_object_get(test, "inputs"), *gold = json_object_get(inputs, "gold");
        const json_t *pred = json_object_get(inputs, "pred"), *shape = json_object_get(gold, "shape");
        float *y = floats(gold), *p = floats(pred ? pred : json_object_get(inputs, "scores"));
        sg_metrics m = metrics_of(p, y, NULL, json_integer_value(json_array_get(shape, 0)),
                                  json_integer_value(json_array_get(shape, 1)));
        compared += compare(json_object_get(test, "outputs"), &m);
        free(y);
        free(p);
    }
    json_decref(root);
    print_message("%d golden values compared\n", compared);
    assert_true(compared >= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(unknown_labels_and_ties),
        cmocka_unit_test(nothing_positive_is_undefined),
        cmocka_unit_test(sets_and_rankings_apart),
        cmocka_unit_test(thresholds_and_labels),
        cmocka_unit_test(golden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
