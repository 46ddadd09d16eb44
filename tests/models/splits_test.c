/* Splits, scaling, batches and stored encodings of small data sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/data_internal.h"
#include "tests/support/data_files.h"

#define ROWS 200
#define LABELS 6

/* Label l is on in every (2 l + 3)-th row; rows without any label exist. */
static sg_dataset *many_rows(void)
{
    float x[ROWS], y[ROWS * LABELS] = {0};
    for (int r = 0; r < ROWS; r++) {
        x[r] = (float)r;
        for (int l = 0; l < LABELS; l++)
            y[r * LABELS + l] = r % (2 * l + 3) == 1;
    }
    sg_dataset *data;
    assert_int_equal(sg_dataset_from_arrays(&data, x, y, ROWS, 1, LABELS, SG_LAYOUT_DENSE, NULL), SG_OK);
    return data;
}

static int64_t with_label(const sg_dataset *d, const sg_split *s, int part, int32_t label)
{
    int64_t count = 0;
    for (int64_t k = 0; k < s->count[part]; k++)
        for (int64_t i = d->label_indptr[s->rows[part][k]]; i < d->label_indptr[s->rows[part][k] + 1]; i++)
            count += d->label_index[i] == label;
    return count;
}

static void stratified(void **state)
{
    (void)state;
    sg_dataset *d = many_rows();
    sg_split a, b, c;
    const double shares[3] = {0.6, 0.2, 0.2};
    assert_int_equal(sg_split_stratified(&a, d, shares, 7, NULL), SG_OK);
    assert_int_equal(sg_split_stratified(&b, d, shares, 7, NULL), SG_OK);
    assert_int_equal(sg_split_stratified(&c, d, shares, 8, NULL), SG_OK);
    int64_t labelled = a.count[0] + a.count[1] + a.count[2];
    assert_int_equal(labelled + a.unlabelled, ROWS);
    assert_true(a.unlabelled > 0);
    assert_true(a.without_label[0] == 0 && a.without_label[1] == 0 && a.without_label[2] == 0);
    bool differs = false;
    for (int p = 0; p < 3; p++) {
        /* The method balances labels; sizes follow only roughly. */
        assert_true(fabs((double)a.count[p] - shares[p] * (double)labelled) <= 0.1 * (double)labelled);
        assert_int_equal(a.count[p], b.count[p]);
        assert_memory_equal(a.rows[p], b.rows[p], (size_t)a.count[p] * sizeof(int64_t));
        differs |= a.count[p] != c.count[p] || memcmp(a.rows[p], c.rows[p], (size_t)a.count[p] * sizeof(int64_t)) != 0;
        for (int64_t k = 1; k < a.count[p]; k++)
            assert_true(a.rows[p][k - 1] < a.rows[p][k]);
    }
    assert_true(differs);
    for (int32_t l = 0; l < LABELS; l++) {
        int64_t count[3], all = 0;
        for (int p = 0; p < 3; p++)
            all += count[p] = with_label(d, &a, p, l);
        for (int p = 0; p < 3; p++)
            assert_true(fabs((double)count[p] - shares[p] * (double)all) <= 2.0);
    }
    sg_split_free(&c);
    sg_error err;
    assert_int_equal(sg_split_stratified(&c, d, (double[3]){0.6, 0.6, 0.2}, 1, &err), SG_E_CONFIG);
    sg_split_free(&a);
    sg_split_free(&b);
    sg_dataset_free(d);
}

static void files(void **state)
{
    (void)state;
    sg_dataset *d;
    const float x[] = {1, 2, 3, 4, 5}, y[] = {1, 1, 0, 1, 1};
    assert_int_equal(sg_dataset_from_arrays(&d, x, y, 5, 1, 1, SG_LAYOUT_DENSE, NULL), SG_OK);
    sg_split s;
    sg_error err;
    const char *path = data_text(0, "s.tsv", "# row\tpart\n0\ttest\n4\ttrain\n1\tvalidation\n2\ttrain\n3\t-\n");
    assert_int_equal(sg_split_read(&s, path, d, &err), SG_OK);
    assert_true(s.count[SG_TRAIN] == 1 && s.rows[SG_TRAIN][0] == 4);
    assert_true(s.count[SG_VALIDATION] == 1 && s.rows[SG_VALIDATION][0] == 1 && s.count[SG_TEST] == 1);
    assert_int_equal(s.unlabelled, 1);
    assert_true(s.without_label[SG_TRAIN] == 1 && s.without_label[SG_VALIDATION] == 0 && s.without_label[SG_TEST] == 0);
    const char *copy = data_text(1, "copy.tsv", "");
    assert_int_equal(sg_split_write(&s, d, copy, &err), SG_OK);
    sg_split_free(&s);
    assert_int_equal(sg_split_read(&s, copy, d, &err), SG_OK);
    assert_true(s.count[SG_TRAIN] == 1 && s.count[SG_TEST] == 1 && s.rows[SG_TEST][0] == 0);
    sg_split_free(&s);
    static const char *const bad[][2] = {
        {"0\ttest\n0\ttrain\n", "row 0 stands here a second time"},
        {"0\ttest\n", "row 1 has no part"},
        {"5\ttest\n", "row 5, but the data set has 5 rows"},
        {"0\tdev\n", "'dev' is not a part"},
        {"x\ttest\n", "expected `row TAB part`"},
        {"0\n", "is not a part"},
        {"0\ttest more\n", "is not a part"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sg_split_read(&s, data_text(0, "s.tsv", bad[i][0]), d, &err), SG_E_DATA);
        if (!strstr(err.text, bad[i][1]))
            fail_msg("'%s' instead of '%s'", err.text, bad[i][1]);
    }
    sg_dataset_free(d);
}

/* A batch of them alone would have no mean; they are tested as any other. */
static void training_rows_weigh_something(void **state)
{
    (void)state;
    sg_read_options options = sg_read_options_default();
    options.label_count = -1;
    const char *text =
        "@relation t\n@attribute a numeric\n@attribute y {0,1}\n@data\n1,1,{0}\n2,1\n3,1,{0.5}\n4,1,{0}\n";
    sg_dataset *d = data_read(data_text(0, "w.arff", text), &options);
    assert_non_null(d);
    sg_split s;
    const char *path = data_text(1, "w.tsv", "0\ttrain\n1\ttrain\n2\tvalidation\n3\ttest\n");
    assert_int_equal(sg_split_read(&s, path, d, NULL), SG_OK);
    assert_true(s.count[SG_TRAIN] == 1 && s.rows[SG_TRAIN][0] == 1);
    assert_true(s.count[SG_VALIDATION] == 1 && s.count[SG_TEST] == 1 && s.unlabelled == 0 && s.weightless == 1);
    assert_int_equal(sg_dataset_describe(d).weightless, 2);
    sg_split_free(&s);
    sg_dataset_free(d);
}

static void fractions(void **state)
{
    (void)state;
    sg_dataset *d = many_rows();
    sg_split s;
    for (int64_t r = 0; r < ROWS; r++)
        d->source_file[r] = r < 150 ? 0 : 1;
    assert_int_equal(sg_split_by_file(&s, d, 1, 0, 0.2, 3, NULL), SG_OK);
    int64_t from_train = s.count[SG_TRAIN] + s.count[SG_VALIDATION];
    assert_true(fabs((double)s.count[SG_VALIDATION] - 0.2 * (double)from_train) <= 10.0);
    for (int64_t k = 0; k < s.count[SG_TEST]; k++)
        assert_true(s.rows[SG_TEST][k] >= 150);
    for (int64_t k = 0; k < s.count[SG_VALIDATION]; k++)
        assert_true(s.rows[SG_VALIDATION][k] < 150);
    sg_split_free(&s);
    sg_dataset_free(d);
}

/* --------------------------------------------------------------------------------------------- scaling, imputation */

static void is(const sg_dataset *d, int64_t row, int64_t feature, double expected)
{
    float got = d->dense[row * d->features + feature];
    if (!(fabs(got - expected) < 1e-5))
        fail_msg("row %ld, feature %ld: %g, expected %g", (long)row, (long)feature, (double)got, expected);
}

static sg_dataset *with_missing(sg_data_layout layout)
{
    const float x[] = {1, 10, 7, 3, NAN, 7, 5, 0, 7, 100, 20, 8}, y[] = {1, 1, 1, 1};
    sg_dataset *d;
    assert_int_equal(sg_dataset_from_arrays(&d, x, y, 4, 3, 1, layout, NULL), SG_OK);
    return d;
}

static void scaling(void **state)
{
    (void)state;
    const int64_t train[] = {0, 1, 2};
    for (int layout = SG_LAYOUT_DENSE; layout <= SG_LAYOUT_SPARSE; layout++) {
        sg_preprocess *p;
        sg_dataset *d = with_missing((sg_data_layout)layout);
        assert_int_equal(sg_preprocess_fit(&p, d, train, 3, SG_IMPUTE_MEAN, SG_SCALING_STANDARDISE, NULL), SG_OK);
        assert_int_equal(sg_preprocess_apply(p, d, NULL), SG_OK);
        is(d, 0, 0, -2 / sqrt(8.0 / 3));
        is(d, 3, 0, 97 / sqrt(8.0 / 3));
        is(d, 0, 1, 5 / sqrt(50.0 / 3));
        is(d, 1, 1, 0);
        is(d, 0, 2, 0);
        is(d, 3, 2, 0);
        assert_int_equal(d->missing, 0);
        sg_preprocess_free(p);
        sg_dataset_free(d);

        d = with_missing((sg_data_layout)layout);
        assert_int_equal(sg_preprocess_fit(&p, d, train, 3, SG_IMPUTE_INDICATOR, SG_SCALING_MINMAX, NULL), SG_OK);
        assert_int_equal(sg_preprocess_apply(p, d, NULL), SG_OK);
        assert_int_equal(d->features, 4);
        is(d, 0, 0, 0);
        is(d, 2, 0, 1);
        is(d, 3, 0, 99.0 / 4);
        is(d, 1, 1, 0.5);
        is(d, 1, 3, 1);
        is(d, 0, 3, 0);
        sg_preprocess_free(p);
        sg_dataset_free(d);

        d = with_missing((sg_data_layout)layout);
        assert_int_equal(sg_preprocess_fit(&p, d, NULL, 0, SG_IMPUTE_ZERO, SG_SCALING_NONE, NULL), SG_OK);
        assert_int_equal(sg_preprocess_apply(p, d, NULL), SG_OK);
        assert_int_equal(d->sparse, layout == SG_LAYOUT_SPARSE);
        assert_true(sg_preprocess_apply(p, d, NULL) == SG_OK);
        sg_preprocess_free(p);
        sg_dataset_free(d);
    }
}

static void stored_encodings(void **state)
{
    (void)state;
    sg_read_options options = sg_read_options_default();
    options.label_count = -1;
    sg_dataset *d =
        data_read(data_text(0, "t.arff",
                            "@relation t\n@attribute 'a \"q\"' numeric\n@attribute b {NO,YES}\n"
                            "@attribute c {r,g,b}\n@attribute y {0,1}\n@data\n0.1,NO,r,1\n?,YES,r,0\n-3.7,NO,b,1\n"),
                  &options);
    assert_non_null(d);
    sg_preprocess *p, *q;
    sg_schema *s;
    sg_error err;
    assert_int_equal(sg_preprocess_fit(&p, d, NULL, 0, SG_IMPUTE_INDICATOR, SG_SCALING_STANDARDISE, NULL), SG_OK);
    char *text = sg_encoding_save(d->schema, p);
    assert_non_null(text);
    assert_int_equal(sg_encoding_load(text, strlen(text), &s, &q, &err), SG_OK);
    assert_int_equal(s->n_columns, 3);
    assert_int_equal(s->n_features, 5);
    assert_string_equal(s->columns[0].name, "a \"q\"");
    assert_int_equal(s->columns[1].positive, 1);
    assert_int_equal(s->columns[2].first, 2);
    assert_string_equal(s->label_names[0], "y");
    assert_memory_equal(p->fill, q->fill, 5 * sizeof(float));
    assert_memory_equal(p->offset, q->offset, 6 * sizeof(float));
    assert_memory_equal(p->scale, q->scale, 6 * sizeof(float));
    assert_int_equal(q->flagged[0], 0);
    sg_schema_free(s);
    sg_preprocess_free(q);
    size_t size = strlen(text);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(sg_encoding_load(text, cut, &s, &q, &err), SG_E_DATA);
    for (size_t i = 0; i < size * 8; i++) {
        text[i / 8] ^= (char)(1 << i % 8);
        if (sg_encoding_load(text, size, &s, &q, &err) == SG_OK) {
            sg_schema_free(s);
            sg_preprocess_free(q);
        }
        text[i / 8] ^= (char)(1 << i % 8);
    }
    sg_free(text);
    sg_preprocess_free(p);
    sg_dataset_free(d);
}

/* ------------------------------------------------------------------------------------------------------- batches */

static void check_sparse(const sg_batch *b, const float *dense)
{
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t j = 0; j < b->features; j++) {
            float row_value = 0, column_value = 0;
            for (int32_t i = b->indptr[r]; i < b->indptr[r + 1]; i++)
                row_value += b->columns[i] == j ? b->values[i] : 0;
            for (int32_t i = b->t_indptr[j]; i < b->t_indptr[j + 1]; i++)
                column_value += b->t_rows[i] == r ? b->values[b->t_order[i]] : 0;
            assert_true(row_value == dense[r * b->features + j] && column_value == row_value);
        }
    assert_int_equal(b->t_indptr[b->features], b->indptr[b->rows]);
}

static void batches(void **state)
{
    (void)state;
    const float x[] = {1, 0, 2, 0, 0, 0, 3, 4, 5, 0, 6, 0}, y[] = {1, 0, 0, 1, 1, 1, 0, 0};
    const float expected[] = {0, 6, 0, 1, 0, 2, 0, 0, 0}, targets[] = {0, 0, 1, 0, 0, 0};
    const int64_t rows[] = {3, 0}, heavy[] = {2, 0, 3};
    for (int layout = SG_LAYOUT_DENSE; layout <= SG_LAYOUT_SPARSE; layout++) {
        sg_dataset *d;
        sg_batch *dense, *sparse;
        sg_error err;
        assert_int_equal(sg_dataset_from_arrays(&d, x, y, 4, 3, 2, (sg_data_layout)layout, NULL), SG_OK);
        assert_int_equal(sg_dataset_max_nnz(d, 1), 3);
        assert_int_equal(sg_dataset_max_nnz(d, 2), 5);
        assert_int_equal(sg_dataset_max_nnz(d, 9), 6);
        assert_int_equal(sg_batch_new(&dense, d, 3, 0, NULL), SG_OK);
        assert_int_equal(sg_batch_new(&sparse, d, 3, 5, NULL), SG_OK);
        assert_int_equal(sg_dataset_batch(d, rows, 2, dense, NULL), SG_OK);
        assert_int_equal(sg_dataset_batch(d, rows, 2, sparse, NULL), SG_OK);
        assert_memory_equal(dense->x, expected, sizeof expected);
        check_sparse(sparse, expected);
        assert_memory_equal(sparse->y, targets, sizeof targets);
        assert_true(dense->weight[0] == 1 && dense->weight[1] == 1 && dense->weight[2] == 0);
        assert_true(dense->y_known[0] == 1);
        assert_int_equal(sg_dataset_batch(d, heavy, 3, sparse, &err), SG_E_SHAPE);
        assert_int_equal(sg_dataset_batch(d, (int64_t[]){4}, 1, dense, &err), SG_E_ARGUMENT);
        assert_int_equal(sg_dataset_batch(d, rows, 2, sparse, NULL), SG_OK);
        check_sparse(sparse, expected);
        sg_dataset *part;
        assert_int_equal(sg_dataset_subset(&part, d, rows, 2, NULL), SG_OK);
        assert_int_equal(part->rows, 2);
        assert_int_equal(part->source_line[0], 4);
        assert_int_equal(sg_dataset_batch(part, (int64_t[]){0, 1}, 2, dense, NULL), SG_OK);
        assert_memory_equal(dense->x, expected, sizeof expected);
        sg_dataset_free(part);
        sg_batch_free(dense);
        sg_batch_free(sparse);
        sg_dataset_free(d);
    }
}

static int teardown(void **state)
{
    (void)state;
    data_files_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stratified), cmocka_unit_test(files),   cmocka_unit_test(training_rows_weigh_something),
        cmocka_unit_test(fractions),  cmocka_unit_test(scaling), cmocka_unit_test(stored_encodings),
        cmocka_unit_test(batches),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
