/* Small files of every format that is read, damaged at random: each is read, or refused in one line that names the file, and
 * what was read is consistent. The sanitizer run makes this a test of memory too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "graph/random_internal.h"
#include "models/models.h"
#include "tests/support/data_files.h"

enum { ROUNDS = 400, ROOM = 4096 };

static const char arff[] =
    "% comment\n@relation 'toy: -C 2'\n@attribute a {0,1}\n@attribute 'b c' {0,1}\n@attribute x numeric\n"
    "@attribute y {red,green,'dark blue'}\n@attribute z real\n@data\n1,0,2.5,red,?\n0,1,-1e3,'dark blue',4\n"
    "1,1,0,green,7.25 % end\n";
static const char sparse_arff[] =
    "@relation t\n@attribute f0 numeric\n@attribute f1 numeric\n@attribute f2 {0,1}\n@attribute l0 {0,1}\n"
    "@attribute l1 {0,1}\n@data\n{0 1,3 1}\n{1 2.5,2 1}\n{}\n{0 -3,4 1}\n";
static const char libsvm[] = "0,2 1:0.5 3:1 7:-2e-3\n1 2:1\n\n0,1,2 1:1 2:2 3:3 # note\n";
static const char xc[] = "3 6 4\n0,3 0:1 5:0.25\n1 2:1.5\n 4:1\n";
static const char xml[] =
    "<?xml version=\"1.0\"?>\n<labels xmlns=\"http://mulan.sourceforge.net/labels\">\n<label name=\"l0\"/>\n"
    "<label name=\"l1\"></label>\n</labels>\n";
static const char split[] = "# row part\n0\ttrain\n1\tvalidation\n2\ttest\n3\t-\n";
static const char yaml[] =
    "task: mlc\nseed: 7\ndata:\n  train: [a.arff]\n  labels: -2\nmodel:\n  hidden: [8, 8]\ntrain:\n  lr: 1e-3\n"
    "  epochs: 3\n  batch: 4\n";

/* What damage is made of: bytes that mean something in one of the formats. */
static const char *const pieces[] = {
    ",",  ":",    "{",   "}", "'",  "\"", "\n", "\t", "@data",      "999999999999999999999",
    "-1", "nan",  "inf", "?", "%",  "#",  "<",  ">",  "&x;",        "1e999",
    " ",  "\xff", "[",   "]", "- ", "!!", "*a", "-C", "4294967296", "0x"};
enum { PIECES = sizeof pieces / sizeof pieces[0] };

typedef struct dice {
    sg_draw draw;
    uint64_t at;
} dice;

static uint32_t roll(dice *d, uint32_t n) { return n ? sg_random_bits(d->draw, d->at++) % n : 0; }

/* Replace the span [at, at + gone) by `with`. */
static size_t splice(char *text, size_t size, size_t at, size_t gone, const char *with, size_t length)
{
    gone = gone > size - at ? size - at : gone;
    if (size - gone + length > ROOM)
        return size;
    memmove(text + at + length, text + at + gone, size - at - gone);
    memcpy(text + at, with, length);
    return size - gone + length;
}

static size_t damage(dice *d, char *text, size_t size)
{
    for (uint32_t k = 0, n = 1 + roll(d, 3); k < n && size > 0; k++) {
        size_t at = roll(d, (uint32_t)size), span = 1 + roll(d, 12);
        const char *piece = pieces[roll(d, PIECES)];
        char byte = (char)roll(d, 256), copy[16];
        switch (roll(d, 5)) {
        case 0:
            text[at] = byte;
            break;
        case 1:
            size = splice(text, size, at, span, "", 0);
            break;
        case 2: /* say it twice */
            span = span > size - at ? size - at : span;
            memcpy(copy, text + at, span);
            size = splice(text, size, at, 0, copy, span);
            break;
        case 3:
            size = at; /* cut off */
            break;
        default:
            size = splice(text, size, at, roll(d, 2) ? strlen(piece) : 0, piece, strlen(piece));
        }
    }
    return size;
}

static void check_refusal(sg_status status, const sg_error *err)
{
    assert_true(status == SG_E_DATA || status == SG_E_CONFIG || status == SG_E_IO);
    assert_true(err->text[0] && !strchr(err->text, '\n'));
}

static void check_rows(const sg_dataset *d)
{
    assert_true(d->rows >= 0 && d->features >= 0 && d->labels >= 0);
    for (int64_t r = 0; r < d->rows; r++) {
        for (int64_t i = d->has_labels ? d->label_indptr[r] : 0; d->has_labels && i < d->label_indptr[r + 1]; i++)
            assert_in_range(d->label_index[i], 0, d->labels - 1);
        for (int64_t i = d->sparse ? d->indptr[r] : 0; d->sparse && i < d->indptr[r + 1]; i++)
            assert_in_range(d->columns[i], 0, d->features - 1);
    }
}

typedef struct tally {
    int64_t read, refused;
} tally;

static void read_rows(const char *path, const sg_read_options *options, tally *t)
{
    sg_error err = {0};
    sg_dataset *data = NULL;
    sg_status status = sg_dataset_read(&data, &path, 1, options, &err);
    if (status == SG_OK) {
        check_rows(data);
        sg_dataset_free(data);
        t->read++;
    } else {
        check_refusal(status, &err);
        assert_null(data);
        t->refused++;
    }
}

typedef void (*read_fn)(const char *path, const char *text, size_t size, tally *t);

static void mutate(const char *name, const char *text, size_t size, read_fn read, uint64_t stream)
{
    static const int32_t rng[4] = {5, 0, 0, 0};
    dice d = {sg_draw_make(stream, rng, 0), 0};
    tally t = {0};
    for (int round = 0; round < ROUNDS; round++) {
        char bytes[ROOM];
        memcpy(bytes, text, size);
        size_t n = damage(&d, bytes, size);
        read(data_file(0, name, bytes, n), bytes, n, &t);
    }
    /* damage that every reader swallowed, or none, would test nothing */
    assert_true(t.read > 0 && t.refused > ROUNDS / 10);
    data_files_remove();
}

static void read_dense(const char *path, const char *text, size_t size, tally *t)
{
    (void)text, (void)size;
    sg_read_options o = sg_read_options_default();
    o.label_count = 2;
    read_rows(path, &o, t);
}

static void read_sparse(const char *path, const char *text, size_t size, tally *t)
{
    (void)text, (void)size;
    sg_read_options o = sg_read_options_default();
    o.labels_xml = data_text(1, "labels.xml", xml);
    read_rows(path, &o, t);
}

static void read_xml(const char *path, const char *text, size_t size, tally *t)
{
    (void)text, (void)size;
    sg_read_options o = sg_read_options_default();
    o.labels_xml = path;
    read_rows(data_text(1, "rows.arff", sparse_arff), &o, t);
}

static void read_lines(const char *path, const char *text, size_t size, tally *t)
{
    (void)text, (void)size;
    sg_read_options o = sg_read_options_default();
    o.format = SG_DATA_LIBSVM;
    o.keep_blank = true;
    read_rows(path, &o, t);
}

static void read_xc(const char *path, const char *text, size_t size, tally *t)
{
    (void)text, (void)size;
    sg_read_options o = sg_read_options_default();
    o.format = SG_DATA_XC;
    read_rows(path, &o, t);
}

static void read_split(const char *path, const char *text, size_t size, tally *t)
{
    (void)text, (void)size;
    static const float x[8] = {0}, y[4] = {1, 1, 1, 1};
    sg_error err = {0};
    sg_dataset *data = NULL;
    sg_split parts = {0};
    assert_int_equal(sg_dataset_from_arrays(&data, x, y, 4, 2, 1, SG_LAYOUT_DENSE, NULL), SG_OK);
    sg_status status = sg_split_read(&parts, path, data, &err);
    if (status == SG_OK) {
        int64_t rows = parts.count[0] + parts.count[1] + parts.count[2];
        assert_in_range(rows, 0, 4);
        t->read++;
    } else {
        check_refusal(status, &err);
        t->refused++;
    }
    sg_split_free(&parts);
    sg_dataset_free(data);
}

static void read_config(const char *path, const char *text, size_t size, tally *t)
{
    sg_error err = {0};
    sg_config *config = NULL;
    sg_status status = sg_config_parse(&config, text, size, path, &err);
    if (status == SG_OK) {
        sg_config_free(config);
        t->read++;
    } else {
        check_refusal(status, &err);
        assert_null(config);
        t->refused++;
    }
}

static void damaged_arff(void **state)
{
    (void)state;
    mutate("dense.arff", arff, sizeof arff - 1, read_dense, 1);
    mutate("sparse.arff", sparse_arff, sizeof sparse_arff - 1, read_sparse, 2);
}

static void damaged_label_lists(void **state)
{
    (void)state;
    mutate("labels2.xml", xml, sizeof xml - 1, read_xml, 3);
}

static void damaged_libsvm(void **state)
{
    (void)state;
    mutate("rows.svm", libsvm, sizeof libsvm - 1, read_lines, 4);
    mutate("rows.txt", xc, sizeof xc - 1, read_xc, 5);
}

static void damaged_splits(void **state)
{
    (void)state;
    mutate("split.tsv", split, sizeof split - 1, read_split, 6);
}

static void damaged_configurations(void **state)
{
    (void)state;
    mutate("recipe.yml", yaml, sizeof yaml - 1, read_config, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_arff),   cmocka_unit_test(damaged_label_lists),    cmocka_unit_test(damaged_libsvm),
        cmocka_unit_test(damaged_splits), cmocka_unit_test(damaged_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
