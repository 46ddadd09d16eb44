/* LIBSVM and XC files. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/data_files.h"

static sg_read_options options;

static int setup(void **state)
{
    (void)state;
    options = sg_read_options_default();
    options.layout = SG_LAYOUT_DENSE;
    return 0;
}

static sg_dataset *good(const char *text)
{
    sg_dataset *data = data_read(data_text(0, "t.svm", text), &options);
    if (!data)
        fail_msg("%s", data_message);
    return data;
}

static void wrong(const char *text, const char *message)
{
    sg_dataset *data = data_read(data_text(0, "t.svm", text), &options);
    if (data)
        fail_msg("read, but expected: %s", message);
    if (!strstr(data_message, message))
        fail_msg("'%s' instead of '%s'", data_message, message);
}

static bool labels_are(const sg_dataset *d, int64_t row, int count, int first)
{
    return d->label_indptr[row + 1] - d->label_indptr[row] == count &&
           (count == 0 || d->label_index[d->label_indptr[row]] == first);
}

static void rows(void **state)
{
    (void)state;
    sg_dataset *d = good("1,3 1:0.5 2:1\r\n 1:2\n1:3 3:-1e-1\n3,1\n# only a comment\n2\t3:4 1:1 # comment\n1, 2 1:1");
    assert_int_equal(d->rows, 6);
    assert_int_equal(d->features, 3);
    assert_int_equal(d->labels, 4);
    assert_true(labels_are(d, 0, 2, 1) && labels_are(d, 1, 0, 0) && labels_are(d, 2, 0, 0) && labels_are(d, 3, 2, 1));
    assert_true(labels_are(d, 4, 1, 2) && labels_are(d, 5, 2, 1));
    assert_true(d->dense[0] == 0.5f && d->dense[1] == 1.0f && d->dense[3] == 2.0f && d->dense[8] == -0.1f);
    assert_true(d->dense[12] == 1.0f && d->dense[14] == 4.0f);
    assert_int_equal(d->source_line[4], 6);
    assert_int_equal(d->schema->index_base, 1);
    sg_dataset_free(d);
}

static void label_names(void **state)
{
    (void)state;
    sg_dataset *d = good("sport,news 1:1\nnews 1:2\n7 1:3\n");
    assert_int_equal(d->labels, 3);
    assert_string_equal(d->schema->label_names[0], "sport");
    assert_string_equal(d->schema->label_names[2], "7");
    sg_dataset_free(d);
}

static void sets_and_qid(void **state)
{
    (void)state;
    sg_dataset *d = good("1,1,2 qid:3 1:1\n2 qid:4 1:2\n");
    assert_true(labels_are(d, 0, 2, 1));
    assert_true(data_noted(d, "qid is ignored"));
    assert_true(data_noted(d, "counts once"));
    assert_int_equal(d->n_notes, 2);
    sg_dataset_free(d);
}

static void wrong_rows(void **state)
{
    (void)state;
    wrong("1 1:1\n\n2 1:1\n", "t.svm:2:1: a blank line");
    wrong("1, 1:1\n", "t.svm:1:2: a comma behind the last label");
    wrong("1,2, 1:1\n", "t.svm:1:4: a comma behind the last label");
    wrong("1,,2 1:1\n", "t.svm:1:3: an empty label");
    wrong("1 1:1 1:2\n", "t.svm:1: feature index 1 stands twice");
    wrong("1 3:0 1:2 3:1\n", "t.svm:1: feature index 3 stands twice");
    wrong("1 0:1\n", "t.svm:1:3: feature index 0, but indices count from 1");
    wrong("1 1:x\n", "t.svm:1:5: 'x' is not a number");
    wrong("1 a:1\n", "t.svm:1:3: 'a' is not a feature index");
    wrong("1 1:1 2\n", "t.svm:1:7: expected index:value, found '2'");
    wrong("1 99999999999:1\n", "too large");
    wrong("99999999 1:1\n", "label 99999999 is not a number below");
    wrong("", "the file is empty");
    wrong("5 4\n1 1:1\n", "two numbers");
    options.features = 3;
    wrong("1 4:1\n", "t.svm:1:3: feature index 4 is too large: there are 3 features, from 1 (data.features_count)");
    options.labels = 2;
    wrong("2 1:1\n", "t.svm: label 2, but there are 2 labels, from 0 (data.labels_count)");
}

/* What is no LIBSVM is taken for it only where no other format was recognised, and that is said. */
static void tables_with_commas(void **state)
{
    (void)state;
    static const char *const tables[] = {"f0,f1,y\n0.5,1,1\n", "a b,c\n1,2\n", "1,,2\n3,4,5\n", "1,2,\n",
                                         "a\tb\n1\t2\n"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        wrong(tables[i], "(the file is neither ARFF nor XC, so it is read as LIBSVM");
    wrong("1 1:1\n1,,2 1:1\n", "a comma too many?");
    assert_null(strstr(data_message, "neither"));
    options.format = SG_DATA_LIBSVM;
    wrong(tables[0], "no features at all");
    assert_null(strstr(data_message, "neither"));
    options.format = SG_DATA_AUTO;
    wrong("BZh91AY&SY\x01", "compressed by bzip2: only gzip is read");
    wrong("\3757zXZ", "compressed by xz: only gzip is read");
    wrong("\x28\xb5\x2f\xfd$", "compressed by zstd: only gzip is read");
    wrong("PK\x03\x04", "compressed by zip: only gzip is read");
}

static void options_count(void **state)
{
    (void)state;
    options.keep_blank = true;
    options.index_base = 0;
    options.features = 10;
    options.labels = 5;
    sg_dataset *d = good("1 0:1\n\n2 9:1\n");
    assert_int_equal(d->rows, 3);
    assert_int_equal(d->features, 10);
    assert_int_equal(d->labels, 5);
    assert_true(labels_are(d, 1, 0, 0) && d->dense[0] == 1.0f && d->dense[29] == 1.0f);
    sg_dataset_free(d);
}

/* Labels are called as the file calls them and stand from 0; what does not count from 1 is refused. */
static void labels_from_one(void **state)
{
    (void)state;
    options.label_base = 1;
    sg_dataset *d = good("1,3 1:1\n2 2:1\n");
    assert_int_equal(d->labels, 3);
    assert_int_equal(d->schema->label_base, 1);
    assert_string_equal(d->schema->label_names[0], "1");
    assert_string_equal(d->schema->label_names[2], "3");
    assert_true(labels_are(d, 0, 2, 0) && labels_are(d, 1, 1, 1));
    sg_dataset_note_absent(d, NULL, 0);
    assert_int_equal(d->n_notes, 0);
    options.schema = d->schema;
    for (int i = 0; i < 2; i++) { /* a file of its kind, and one that counts from 0 */
        sg_dataset *again = good(i ? "1 2 3\n0,2 0:1\n" : "1,3 1:1\n");
        assert_true(labels_are(again, 0, 2, 0) && again->label_index[1] == 2);
        sg_dataset_free(again);
    }
    wrong("4 1:1\n", "t.svm:1:1: label '4' is unknown to the model");
    wrong("0 1:1\n", "t.svm:1:1: label 0 is not a number from 1 to");
    options.schema = NULL;
    sg_dataset_free(d);
    wrong("1 1:1\n2,0 1:1\n", "t.svm:2:3: label 0 is not a number from 1 to");
    wrong("a 1:1\n", "t.svm:1:1: label a is not a number from 1 to");
    options.labels = 2;
    wrong("3 1:1\n", "label 3, but there are 2 labels, from 1 (data.labels_count)");
    options.labels = 0;
    options.label_base = 2;
    wrong("3 1:1\n", "label_base is 0 or 1, not 2");
}

/* Labels that no row has are told, and where files count from, if it may be that. */
static void labels_without_rows(void **state)
{
    (void)state;
    static const char from_one[] = "labels that are numbers count from 0; --label-base 1 (data.label_base) reads",
                      in_xc[] = "labels of XC files count from 0; in a file that counts from 1 write each as one less",
                      others[] = "add rows that have such labels";
    static const struct {
        const char *text, *told, *advice;
    } cases[] = {
        {"1 1:1\n2 1:2\n", "1 of 3 labels is on in no row, so never predicted ('0'): ", from_one},
        {"3 1:1\n9 1:2\n", "8 of 10 labels are on in no row, so never predicted ('0', '1', '2', ...): ", from_one},
        {"0 1:1\n2 1:2\n", "1 of 3 labels is on in no row, so never predicted ('1'): ", others},
        {"2 1 3\n1 0:1\n2 0:2\n", "1 of 3 labels is on in no row, so never predicted ('0'): ", in_xc},
        {"a 1:1\nb 1:2\n", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_dataset *d = good(cases[i].text);
        sg_dataset_note_absent(d, NULL, 0);
        assert_int_equal(d->n_notes, cases[i].told != NULL);
        assert_true(!cases[i].told || (data_noted(d, cases[i].told) && data_noted(d, cases[i].advice)));
        sg_dataset_free(d);
    }
    sg_dataset *d = good("a 1:1\nb 1:2\n0 1:3\n");
    sg_dataset_note_absent(d, (const int64_t[]){0}, 1);
    assert_true(data_noted(d, "2 of 3 labels are on in no training row, so never predicted ('b', '0'): "));
    assert_true(data_noted(d, others));
    sg_dataset_free(d);
}

static void xc_header(void **state)
{
    (void)state;
    sg_dataset *d = good("2 4 3\n0,2 0:1.5 3:2\n 1:1\n");
    assert_int_equal(d->schema->format, SG_DATA_XC);
    assert_int_equal(d->features, 4);
    assert_int_equal(d->labels, 3);
    assert_true(labels_are(d, 0, 2, 0) && d->dense[0] == 1.5f && d->dense[3] == 2.0f && d->dense[5] == 1.0f);
    sg_dataset_free(d);
    wrong("3 4 3\n0,2 0:1.5\n 1:1\n", "the header says 3 rows, the file has 2");
    wrong("1 4 3\n3 0:1.5\n", "t.svm:2:1: label 3 is not a number below 3: labels count from 0");
    wrong("1 4 3\n2 4:1.5\n", "t.svm:2:3: feature index 4 is too large");
    options.format = SG_DATA_XC;
    wrong("2 0:1.5\n", "expected a header");
}

static void trained_schema(void **state)
{
    (void)state;
    sg_dataset *d = good("b 1:1 4:2\na 2:1\n");
    sg_read_options again = options;
    again.schema = d->schema;
    sg_dataset *e = data_read(data_text(1, "u.svm", "a 1:1 9:1\n"), &again);
    assert_non_null(e);
    assert_int_equal(e->features, 4);
    assert_true(labels_are(e, 0, 1, 1));
    assert_true(data_noted(e, "1 values of features that the model does not know"));
    sg_dataset_free(e);
    assert_null(data_read(data_text(1, "u.svm", "c 1:1\n"), &again));
    assert_non_null(strstr(data_message, "label 'c' is unknown to the model"));
    sg_dataset_free(d);
}

/* The form of a file decides where its indices begin, whatever form a trained model's files had. */
static void trained_schema_of_the_other_form(void **state)
{
    (void)state;
    static const char svm[] = "0 1:1 4:2\n1 2:1\n", xc[] = "2 4 2\n0 0:1 3:2\n1 1:1\n";
    for (int of_xc = 0; of_xc < 2; of_xc++) {
        sg_dataset *d = good(of_xc ? xc : svm);
        sg_read_options again = options;
        again.schema = d->schema;
        assert_int_equal(d->schema->index_base, !of_xc);
        for (int i = 0; i < 4; i++) {
            again.index_base = i % 2 ? 1 : -1;
            sg_dataset *e = data_read(data_text(1, "u.svm", i < 2 ? svm : xc), &again);
            assert_non_null(e);
            assert_int_equal(e->n_notes, 0);
            assert_memory_equal(e->dense, d->dense, 8 * sizeof *d->dense);
            sg_dataset_free(e);
        }
        again.index_base = 0;
        sg_dataset *e = data_read(data_text(1, "u.svm", "0 0:1 3:2 4:9\n1 1:1\n"), &again);
        assert_non_null(e);
        assert_true(data_noted(e, "1 values of features that the model does not know"));
        assert_memory_equal(e->dense, d->dense, 8 * sizeof *d->dense);
        sg_dataset_free(e);
        again.index_base = -1;
        assert_null(data_read(data_text(1, "u.svm", "0 0:1\n"), &again));
        assert_non_null(strstr(data_message, "but LIBSVM indices count from 1 (for a model trained with"));
        sg_dataset_free(d);
    }
}

/* Written and read again, a data set is the same, in every format. */
static void round_trips(void **state)
{
    (void)state;
    static const sg_data_format formats[] = {SG_DATA_ARFF, SG_DATA_LIBSVM, SG_DATA_XC};
    static const char *const names[] = {"o.arff.gz", "o.svm", "o.txt.gz"};
    for (int layout = SG_LAYOUT_DENSE; layout <= SG_LAYOUT_SPARSE; layout++) {
        options.layout = (sg_data_layout)layout;
        sg_dataset *d = good("3 4 3\n0,2 0:0.1 3:-123456.7\n 1:1e-20\n 2:0\n");
        for (int f = 0; f < 3; f++) {
            const char *path = data_text(2, names[f], "");
            sg_error err;
            assert_int_equal(sg_dataset_write(d, path, formats[f], &err), SG_OK);
            sg_read_options back = sg_read_options_default();
            back.layout = SG_LAYOUT_DENSE;
            sg_dataset *e = data_read(path, &back);
            if (!e)
                fail_msg("%s", data_message);
            options.layout = SG_LAYOUT_DENSE;
            sg_dataset *dense = good("3 4 3\n0,2 0:0.1 3:-123456.7\n 1:1e-20\n 2:0\n");
            options.layout = (sg_data_layout)layout;
            assert_int_equal(e->features, 4);
            assert_int_equal(e->labels, 3);
            assert_int_equal(e->rows, 3);
            assert_memory_equal(e->dense, dense->dense, 12 * sizeof(float));
            assert_true(labels_are(e, 0, 2, 0) && labels_are(e, 1, 0, 0) && labels_are(e, 2, 0, 0));
            sg_dataset_free(dense);
            sg_dataset_free(e);
        }
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
        cmocka_unit_test_setup(rows, setup),
        cmocka_unit_test_setup(label_names, setup),
        cmocka_unit_test_setup(sets_and_qid, setup),
        cmocka_unit_test_setup(wrong_rows, setup),
        cmocka_unit_test_setup(tables_with_commas, setup),
        cmocka_unit_test_setup(options_count, setup),
        cmocka_unit_test_setup(labels_from_one, setup),
        cmocka_unit_test_setup(labels_without_rows, setup),
        cmocka_unit_test_setup(xc_header, setup),
        cmocka_unit_test_setup(trained_schema_of_the_other_form, setup),
        cmocka_unit_test_setup(trained_schema, setup),
        cmocka_unit_test_setup(round_trips, setup),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
