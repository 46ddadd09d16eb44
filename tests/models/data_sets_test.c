/* The shared multi-label data sets: every count of their README. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/data_files.h"

typedef struct expected {
    const char *files[3];
    const char *xml;
    int64_t rows, attributes, features, labels;
    double cardinality; /* as the README prints it; with the root for class hierarchies */
    int64_t unlabelled, never;
    bool sparse;
    const char *first, *last;
} expected;

static const expected sets[] = {
    {{"bibtex-train"}, "bibtex", 4880, 1836, 1836, 159, 2.380, 0, 0, true, "TAG_2005", "TAG_wiki"},
    {{"bibtex-test"}, "bibtex", 2515, 1836, 1836, 159, 2.444, 0, 0, true, "TAG_2005", "TAG_wiki"},
    {{"bibtex-train", "bibtex-test"}, "bibtex", 7395, 1836, 1836, 159, 2.402, 0, 0, true, "TAG_2005", "TAG_wiki"},
    {{"cal500"}, "cal500", 502, 68, 68, 174, 26.044, 0, 0, false, "Angry-Agressive", "Instrument_-_Trumpet-Solo"},
    {{"delicious-train"}, "delicious", 12920, 500, 500, 983, 19.047, 10, 0, true, "TAG_.imported", "TAG_youtube"},
    {{"delicious-test"}, "delicious", 3185, 500, 500, 983, 18.910, 4, 1, true, "TAG_.imported", "TAG_youtube"},
    {{"delicious-train", "delicious-test"},
     "delicious",
     16105,
     500,
     500,
     983,
     19.020,
     14,
     0,
     true,
     "TAG_.imported",
     "TAG_youtube"},
    {{"emotions-train"}, "emotions", 391, 72, 72, 6, 1.813, 0, 0, false, "amazed-suprised", "angry-aggresive"},
    {{"emotions-test"}, "emotions", 202, 72, 72, 6, 1.975, 0, 0, false, "amazed-suprised", "angry-aggresive"},
    {{"genbase-train"}, "genbase", 463, 1186, 1185, 27, 1.261, 0, 2, true, "PDOC00154", "PDOC00030"},
    {{"genbase-test"}, "genbase", 199, 1186, 1185, 27, 1.231, 0, 3, true, "PDOC00154", "PDOC00030"},
    {{"genbase"}, "genbase", 662, 1186, 1185, 27, 1.252, 0, 0, true, "PDOC00154", "PDOC00030"},
    {{"yeast-train"}, "yeast", 1500, 103, 103, 14, 4.228, 0, 0, false, "Class1", "Class14"},
    {{"yeast-test"}, "yeast", 917, 103, 103, 14, 4.252, 0, 0, false, "Class1", "Class14"},
    {{"spo_FUN-train"}, NULL, 1600, 80, 86, 500, 9.745, 0, 45, false, "root", "99"},
    {{"spo_FUN-valid"}, NULL, 837, 80, 86, 500, 9.607, 0, 99, false, "root", "99"},
    {{"spo_FUN-test"}, NULL, 1266, 80, 86, 500, 9.933, 0, 61, false, "root", "99"},
    {{"spo_FUN-train", "spo_FUN-valid", "spo_FUN-test"}, NULL, 3703, 80, 86, 500, 9.778, 0, 0, false, "root", "99"},
    {{"expr_FUN-train-rebuilt"}, NULL, 1639, 551, 561, 500, 9.695, 0, 45, false, "root", "99"},
    {{"expr_FUN-valid"}, NULL, 849, 551, 561, 500, 9.587, 0, 99, false, "root", "99"},
    {{"expr_FUN-test"}, NULL, 1291, 551, 561, 500, 9.887, 0, 59, false, "root", "99"},
};

/* Read set number i of the table. */
static sg_dataset *read_set(const expected *e)
{
    const char *paths[3];
    char relative[128];
    sg_read_options options = sg_read_options_default();
    int32_t n = 0;
    for (; n < 3 && e->files[n]; n++) {
        snprintf(relative, sizeof relative, "data/mlc/%s.arff.gz", e->files[n]);
        paths[n] = shared_file(n, relative);
        assert_non_null(paths[n]);
    }
    snprintf(relative, sizeof relative, "data/mlc/%s.xml", e->xml ? e->xml : "");
    options.labels_xml = e->xml ? shared_file(3, relative) : NULL;
    sg_dataset *data;
    sg_error err;
    char text[1024];
    if (sg_dataset_read(&data, paths, n, &options, &err) != SG_OK)
        fail_msg("%s", sg_error_format(&err, text, sizeof text));
    return data;
}

static void counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        const expected *e = &sets[i];
        sg_dataset *data = read_set(e);
        sg_dataset_info info = sg_dataset_describe(data);
        print_message("%s%s: %lld rows, %lld attributes, %lld features, %lld labels, cardinality %.3f\n", e->files[0],
                      e->files[1] ? "..." : "", (long long)info.rows, (long long)info.attributes,
                      (long long)info.features, (long long)info.labels, info.cardinality);
        assert_int_equal(info.rows, e->rows);
        assert_int_equal(info.attributes, e->attributes);
        assert_int_equal(info.features, e->features);
        assert_int_equal(info.labels, e->labels);
        assert_true(fabs(info.cardinality - e->cardinality) < 0.00051);
        assert_int_equal(info.unlabelled, e->unlabelled);
        assert_int_equal(info.never_positive, e->never);
        assert_int_equal(info.sparse, e->sparse);
        assert_string_equal(info.first_label, e->first);
        assert_string_equal(info.last_label, e->last);
        sg_dataset_free(data);
    }
}

/* The share of missing values that the README gives, and none of them left after preprocessing. */
static void missing_values(void **state)
{
    (void)state;
    static const expected expr = {{"expr_FUN-train-rebuilt"}, NULL, 0, 0, 0, 0, 0, 0, 0, false, NULL, NULL};
    sg_dataset *data = read_set(&expr);
    double share = (double)data->source_missing / (double)(data->rows * 551);
    assert_true(fabs(share - 0.089) < 0.0006);
    assert_true(data_noted(data, "'gasch1_Heat_Shock_000_minutes__hs_2' is declared twice"));
    sg_preprocess *p;
    assert_int_equal(sg_preprocess_fit(&p, data, NULL, 0, SG_IMPUTE_MEAN, SG_SCALING_STANDARDISE, NULL), SG_OK);
    assert_int_equal(sg_preprocess_apply(p, data, NULL), SG_OK);
    for (int64_t j = 0; j < data->features; j++) {
        double sum = 0, squares = 0;
        for (int64_t r = 0; r < data->rows; r++) {
            double x = data->dense[r * data->features + j];
            assert_true(isfinite(x));
            sum += x;
            squares += x * x;
        }
        double n = (double)data->rows;
        assert_true(fabs(sum / n) < 1e-3);
        assert_true(fabs(squares / n - 1) < 1e-3 || squares == 0);
    }
    sg_preprocess_free(p);
    sg_dataset_free(data);
}

static void split_files(void **state)
{
    (void)state;
    static const struct {
        int set;
        const char *name;
        int64_t train, validation, test, unlabelled;
    } splits[] = {{2, "bibtex", 4437, 1479, 1479, 0},
                  {3, "cal500", 301, 100, 101, 0},
                  {11, "genbase", 397, 132, 133, 0},
                  {6, "delicious", 9654, 3218, 3219, 14}};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        sg_dataset *data = read_set(&sets[splits[i].set]);
        char relative[128];
        sg_split split;
        sg_error err;
        snprintf(relative, sizeof relative, "data/mlc/splits/%s.tsv", splits[i].name);
        assert_int_equal(sg_split_read(&split, shared_file(0, relative), data, &err), SG_OK);
        assert_int_equal(split.count[SG_TRAIN], splits[i].train);
        assert_int_equal(split.count[SG_VALIDATION], splits[i].validation);
        assert_int_equal(split.count[SG_TEST], splits[i].test);
        assert_int_equal(split.unlabelled, splits[i].unlabelled);
        sg_split_free(&split);
        sg_dataset_free(data);
    }
}

/* YES is 1 although it is declared first, and in the dense file nothing is omitted: 112 motifs are ever YES. */
static void genbase_motifs(void **state)
{
    (void)state;
    sg_dataset *data = read_set(&sets[11]);
    bool used[1185] = {false};
    int64_t motifs = 0;
    for (int64_t i = 0; i < data->indptr[data->rows]; i++)
        used[data->columns[i]] = true;
    for (int j = 0; j < 1185; j++)
        motifs += used[j];
    assert_int_equal(motifs, 112);
    sg_dataset_free(data);
}

int main(void)
{
    if (!shared_file(0, "data/mlc/README.md")) {
        print_message("the shared data sets are not there (SG_SHARED): skipped\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(missing_values),
        cmocka_unit_test(split_files),
        cmocka_unit_test(genbase_motifs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
