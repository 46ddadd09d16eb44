/* The ARFF reader on the odd things that real files contain, and on files that are wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/data_internal.h"
#include "tests/support/data_files.h"

static sg_dataset *read_text(const char *text, int64_t labels)
{
    sg_read_options options = sg_read_options_default();
    options.label_count = labels;
    options.layout = SG_LAYOUT_DENSE;
    return data_read(data_text(0, "t.arff", text), &options);
}

/* Expect a data set; prints the error if there is none. */
static sg_dataset *good(const char *text, int64_t labels)
{
    sg_dataset *data = read_text(text, labels);
    if (!data)
        fail_msg("%s", data_message);
    return data;
}

static void wrong(const char *text, int64_t labels, const char *message)
{
    sg_dataset *data = read_text(text, labels);
    if (data)
        fail_msg("read, but expected: %s", message);
    if (!strstr(data_message, message))
        fail_msg("'%s' instead of '%s'", data_message, message);
    assert_int_equal(data_error.status, SG_E_DATA);
}

static bool on(const sg_dataset *d, int64_t row, int32_t label)
{
    for (int64_t i = d->label_indptr[row]; i < d->label_indptr[row + 1]; i++)
        if (d->label_index[i] == label)
            return true;
    return false;
}

static bool unknown(const sg_dataset *d, int64_t row, int32_t label)
{
    for (int64_t i = d->unknown_indptr ? d->unknown_indptr[row] : 0;
         d->unknown_indptr && i < d->unknown_indptr[row + 1]; i++)
        if (d->unknown_index[i] == label)
            return true;
    return false;
}

static float x(const sg_dataset *d, int64_t row, int64_t feature) { return d->dense[row * d->features + feature]; }

#define HEAD "@relation t\n@attribute a numeric\n@attribute b real\n@attribute y {0,1}\n@data\n"

static void dense(void **state)
{
    (void)state;
    sg_dataset *d = good(HEAD "1.5,-2e1,1\n 3 , .5 ,0 % a comment\n\n% another\n+4,5.,1", -1);
    assert_int_equal(d->rows, 3);
    assert_int_equal(d->features, 2);
    assert_int_equal(d->labels, 1);
    assert_true(x(d, 0, 0) == 1.5f && x(d, 0, 1) == -20.0f && x(d, 1, 1) == 0.5f && x(d, 2, 0) == 4.0f &&
                x(d, 2, 1) == 5.0f);
    assert_true(on(d, 0, 0) && !on(d, 1, 0) && on(d, 2, 0));
    assert_int_equal(d->source_line[0], 6);
    assert_int_equal(d->source_line[2], 10);
    assert_false(sg_dataset_has_label(d, 1));
    sg_dataset_free(d);
}

static void first_attributes_are_labels(void **state)
{
    (void)state;
    sg_dataset *d =
        good("@relation 't: -C 2'\n@attribute p {0,1}\n@attribute q{0, 1}\n@attribute a numeric\n@data\n1,0,7\n", 0);
    assert_int_equal(d->labels, 2);
    assert_string_equal(d->schema->label_names[1], "q");
    assert_true(on(d, 0, 0) && !on(d, 0, 1) && x(d, 0, 0) == 7.0f);
    sg_dataset_free(d);
}

static void crlf_bom_tabs_and_case(void **state)
{
    (void)state;
    sg_dataset *d =
        good("\xef\xbb\xbf@RELATION a name of several words\r\n@Attribute\ta\tNUMERIC\r\n@ATTRIBUTE y\t{ 0 , 1 }\r\n"
             "@DATA\r\n1\t0\r\n2\t1\r\n",
             -1);
    assert_int_equal(d->rows, 2);
    assert_string_equal(d->schema->relation, "a name of several words");
    assert_true(x(d, 1, 0) == 2.0f && on(d, 1, 0) && !on(d, 0, 0));
    sg_dataset_free(d);
}

static void sparse_omits_the_first_value(void **state)
{
    (void)state;
    sg_dataset *d =
        good("@relation t\n@attribute a numeric\n@attribute b {YES,NO}\n@attribute c {r,g,b}\n@attribute y {1,0}\n"
             "@attribute z {NO,YES}\n@data\n{}\n{ }\n{0 2,1 NO,2 b,3 0,4 YES}\n{4\tYES , 0 3}\n",
             -2);
    assert_int_equal(d->features, 5);
    assert_true(x(d, 0, 0) == 0 && x(d, 0, 1) == 1 && x(d, 0, 2) == 1 && x(d, 0, 3) == 0);
    assert_true(on(d, 0, 0) && !on(d, 0, 1) && on(d, 1, 0));
    assert_true(x(d, 2, 0) == 2 && x(d, 2, 1) == 0 && x(d, 2, 2) == 0 && x(d, 2, 4) == 1);
    assert_true(!on(d, 2, 0) && on(d, 2, 1) && on(d, 3, 1) && x(d, 3, 0) == 3);
    assert_true(data_noted(d, "the first declared value"));
    assert_true(data_noted(d, "not in ascending order"));
    sg_dataset_free(d);
}

static void positive_values(void **state)
{
    (void)state;
    sg_dataset *d =
        good("@relation t\n@attribute a {YES,NO}\n@attribute b {0,1}\n@attribute c {up,down}\n@attribute p {1,0}\n"
             "@attribute q {f,t}\n@attribute r {0.0,1.0}\n@attribute s numeric\n@data\n"
             "YES,1,down,1,t,1.0,1\nNO,0,up,0,f,0.0,0\n",
             -4);
    for (int i = 0; i < 4; i++)
        assert_true(on(d, 0, i) && !on(d, 1, i));
    for (int j = 0; j < 3; j++)
        assert_true(x(d, 0, j) == 1 && x(d, 1, j) == 0);
    sg_dataset_free(d);
    wrong("@relation t\n@attribute a numeric\n@attribute y {up,down}\n@data\n1,up\n", -1,
          "t.arff:3: label 'y' has the values");
    wrong("@relation t\n@attribute a numeric\n@attribute y {0,1,2}\n@data\n1,0\n", -1,
          "t.arff:3: label 'y' is not binary");
    wrong("@relation t\n@attribute a numeric\n@attribute y numeric\n@data\n1,0\n1,0.5\n", -1,
          "t.arff:6:3: label 'y' has the value");
    sg_read_options options = sg_read_options_default();
    options.label_count = -1;
    options.positive = "down";
    d = data_read(
        data_text(0, "t.arff", "@relation t\n@attribute a numeric\n@attribute y {up,down}\n@data\n1,up\n2,down\n"),
        &options);
    assert_non_null(d);
    assert_true(!on(d, 0, 0) && on(d, 1, 0));
    sg_dataset_free(d);
}

static void names_are_literal(void **state)
{
    (void)state;
    sg_dataset *d =
        good("@relation t\n@attribute a%b#c=d/e numeric\n@attribute 'Swainson\\'s Thrush' numeric\n"
             "@attribute \"'departwb'\" numeric\n@attribute - numeric\n@attribute \"x, y\" numeric % comment\n"
             "@attribute TAG_m\\'usica {0,1}\n@attribute TAG_dise\\~no {0,1} %{<=50K}\n@attribute TAG_?? {0,1}\n"
             "@data\n1,2,3,4,5,0,1,0\n",
             -3);
    const char *expected[] = {"a%b#c=d/e", "Swainson's Thrush", "'departwb'", "-", "x, y"};
    for (int i = 0; i < 5; i++)
        assert_string_equal(d->schema->columns[i].name, expected[i]);
    assert_string_equal(d->schema->label_names[0], "TAG_m\\'usica");
    assert_string_equal(d->schema->label_names[1], "TAG_dise\\~no");
    assert_string_equal(d->schema->label_names[2], "TAG_??");
    sg_dataset_free(d);
    wrong("@relation t\n@attribute a,b numeric\n@data\n1\n", -1, "t.arff:2:13: a comma in an attribute name");
}

static void missing_values(void **state)
{
    (void)state;
    sg_dataset *d =
        good("@relation t\n@attribute a numeric\n@attribute c {r,g,b,'?'}\n@attribute y {0,1}\n@attribute z {0,1}\n"
             "@data\n?,?,?,1\n1,'?',1,0\n{0 ?,2 ?}\n2,r,0,0\n3,r,0,0\n4,r,1,0\n",
             -2);
    assert_true(isnan(x(d, 0, 0)) && isnan(x(d, 2, 0)));
    assert_true(x(d, 0, 1) == 0 && x(d, 0, 2) == 0 && x(d, 0, 4) == 0);
    assert_true(x(d, 1, 4) == 1);
    assert_true(unknown(d, 0, 0) && !on(d, 0, 0) && !unknown(d, 0, 1) && on(d, 0, 1) && unknown(d, 2, 0) &&
                !unknown(d, 1, 0));
    assert_int_equal(d->source_missing, 3);
    assert_int_equal(d->missing, 2);
    sg_dataset_free(d);
}

static void nominal_encodings(void **state)
{
    (void)state;
    char text[4096] = "@relation t\n@attribute id {";
    for (int i = 0; i < 51; i++)
        sprintf(text + strlen(text), "%sv%d", i ? "," : "", i);
    strcat(text, "}\n@attribute s string\n@attribute key {a,b,c,d}\n@attribute c {r,g,b}\n@attribute y {0,1}\n@data\n"
                 "v3,'some text',a,r,0\nv4,\"x\",c,b,1\nv3,z,b,b,1\n");
    sg_dataset *d = good(text, -1);
    assert_int_equal(d->schema->n_columns, 4);
    assert_int_equal(d->features, 3);
    assert_int_equal(d->schema->columns[0].kind, SG_COLUMN_DROPPED);
    assert_int_equal(d->schema->columns[2].kind, SG_COLUMN_DROPPED);
    assert_true(data_noted(d, "'id' is left out: a nominal with more than 50 values"));
    assert_true(data_noted(d, "'key' is left out: a nominal with another value in each row"));
    assert_true(data_noted(d, "'s' is left out: it is a string"));
    char name[64];
    assert_string_equal(sg_schema_feature_name(d->schema, 2, name, sizeof name), "c=b");
    assert_true(x(d, 0, 0) == 1 && x(d, 1, 2) == 1 && x(d, 1, 0) == 0);
    sg_dataset_info info = sg_dataset_describe(d);
    assert_int_equal(info.attributes, 4);
    assert_int_equal(info.features, 3);
    assert_int_equal(info.dropped, 3);
    assert_int_equal(info.unlabelled, 1);
    sg_dataset_free(d);
}

static void weights_and_duplicates(void **state)
{
    (void)state;
    sg_dataset *d = good("@relation t\n@attribute a numeric\n@attribute a numeric\n@attribute y {0,1}\n@data\n"
                         "1,2,0,{5}\n{0 3},{ 0.5 }\n4,5,1\n",
                         -1);
    assert_true(d->weights[0] == 5.0f && d->weights[1] == 0.5f && d->weights[2] == 1.0f);
    assert_string_equal(d->schema->columns[1].name, "a#2");
    assert_true(data_noted(d, "declared twice"));
    sg_dataset_free(d);
    wrong("@relation t\n@attribute a numeric\n@attribute y {0,1}\n@attribute y {0,1}\n@data\n1,0,1\n", -2,
          "declared twice");
    static const char *const weights[] = {"-1", "1e31", "nan", "inf", "", "1"}; /* the last without its brace */
    for (int i = 0; i < 6; i++) {
        char text[160];
        snprintf(text, sizeof text, "@relation t\n@attribute a numeric\n@attribute y {0,1}\n@data\n1,0,{%s%s\n",
                 weights[i], i < 5 ? "}" : "");
        wrong(text, -1, "t.arff:5:5: expected an instance weight {number}, from 0 to 1e30, behind the last value");
    }
}

static void clus_hierarchies(void **state)
{
    (void)state;
    sg_dataset *d = good("@relation t\n@attribute a numeric\n@attribute f {no,yes}\n@attribute class hierarchical "
                         "01,01/05,01/05/02,02,02/16\n"
                         "@data\n1,yes,01/05/02@02/16\n2,?,02\n3,no,01\n",
                         0);
    assert_int_equal(d->labels, 6);
    assert_int_equal(d->features, 3);
    assert_string_equal(d->schema->label_names[0], "root");
    assert_string_equal(d->schema->label_names[5], "02/16");
    for (int i = 0; i < 6; i++)
        assert_true(on(d, 0, i));
    assert_int_equal(d->label_indptr[2] - d->label_indptr[1], 2);
    assert_true(on(d, 1, 0) && on(d, 1, 4) && x(d, 1, 1) == 0 && x(d, 1, 2) == 0 && x(d, 0, 2) == 1);
    sg_dataset_free(d);
    wrong("@relation t\n@attribute a numeric\n@attribute class hierarchical 01,02\n@data\n1,03\n", 0,
          "t.arff:5:3: class '03' is not in the hierarchy");
}

static void index_base(void **state)
{
    (void)state;
    const char *text = HEAD "{1 5,3 1}\n";
    wrong(text, -1,
          "t.arff:6:6: index 3 is out of range: there are 3 attributes. If indices count from 1 (Clus), say "
          "--arff-index-base 1");
    wrong(HEAD "{0 5,3 1}\n", -1, "there are 3 attributes, counted from 0");
    sg_read_options options = sg_read_options_default();
    options.label_count = -1;
    options.arff_index_base = 1;
    options.layout = SG_LAYOUT_DENSE;
    sg_dataset *d = data_read(data_text(0, "t.arff", text), &options);
    assert_non_null(d);
    assert_true(x(d, 0, 0) == 5 && on(d, 0, 0));
    sg_dataset_free(d);
}

static void wrong_rows(void **state)
{
    (void)state;
    wrong(HEAD "1,x,0\n", -1, "t.arff:6:3: 'x' is not a number (attribute 'b')");
    wrong(HEAD "1,nan,0\n", -1, "t.arff:6:3: 'nan' is not a number");
    wrong(HEAD "1,0x10,0\n", -1, "t.arff:6:3: '0x10' is not a number");
    wrong(HEAD "1,1e40,0\n", -1, "t.arff:6:3: 1e40 is too large");
    wrong(HEAD "1,1e999,0\n", -1, "t.arff:6:3: '1e999' is not a number");
    wrong(HEAD "1,2,1.0\n", -1, "t.arff:6:5: '1.0' is not a declared value of attribute 'y' (line 4)");
    wrong(HEAD "1,2\n", -1, "t.arff:6:4: the row has only 2 values, the header declares 3 attributes");
    wrong(HEAD "1,2,0,4\n", -1, "t.arff:6:6: the row has more than 3 values");
    wrong(HEAD "1,2,0,\n", -1, "t.arff:6:6: the row has more than 3 values");
    wrong(HEAD "1,,0\n", -1, "t.arff:6:3: the value of attribute 'b' is empty");
    wrong(HEAD "1,2\t0\n", -1, "t.arff:6:3: '2?0' is not a number");
    wrong(HEAD "1,2,'0\n", -1, "t.arff:6:5: the quote is not closed");
    wrong(HEAD "{0 1,0 2}\n", -1, "t.arff:6:6: attribute 'a' has two values in one row");
    wrong(HEAD "{0 1,}\n", -1, "t.arff:6:6: expected `index value`");
    wrong(HEAD "{0 1\n", -1, "t.arff:6:5: the sparse row has no '}'");
    wrong(HEAD "{0}\n", -1, "t.arff:6:2: expected `index value`");
    wrong(HEAD "{-1 2}\n", -1, "t.arff:6:2: expected `index value`");
    wrong(HEAD "{99999999999999999999 2}\n", -1, "t.arff:6:2: expected `index value`");
    wrong(HEAD, -1, "the file has no rows behind @data");
}

static void wrong_headers(void **state)
{
    (void)state;
    wrong("@relation t\n@attribute a numeric\n", -1, "the file ends before @data");
    wrong("", -1, "the file ends before @data");
    wrong("@relation t\n@data\n1\n", -1, "t.arff:2:1: @data before any @attribute");
    wrong("@relation t\n@attribute a\n@data\n1\n", -1, "t.arff:2:13: attribute 'a' has no type");
    wrong("@relation t\n@attribute\n@data\n1\n", -1, "@attribute without a name");
    wrong("@relation t\n@attribute a date \"yyyy\"\n", -1,
          "t.arff:2:14: type 'date' of attribute 'a' is not supported");
    wrong("@relation t\n@attribute a relational\n", -1, "type 'relational'");
    wrong("@relation t\n@attribute a {x,y\n", -1, "has no '}'");
    wrong("@relation t\n@attribute a {x,x}\n", -1, "t.arff:2:17: value 'x' is declared twice");
    wrong("@relation t\n@attribute a {}\n", -1, "t.arff:2:15: an empty value");
    wrong("@relation t\n@attribute a numeric junk\n", -1, "t.arff:2:22: unexpected text");
    wrong("@relation t\nhello\n", -1, "t.arff:2:1: expected @relation, @attribute or @data, found 'hello'");
    wrong("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", -1, "t.arff:1:1: this is a Git LFS pointer");
    wrong(HEAD "1,2,0\n", 0, "which attributes are labels? Give --labels-xml");
    wrong(HEAD "1,2,0\n", -3, "3 labels, but the file has 3 attributes in all, some of which are features");
}

/* Labels that were looked for at the wrong end. */
static void wrong_ends(void **state)
{
    (void)state;
    wrong(HEAD "5,2,0\n", 1,
          "t.arff:6:1: label 'a' has the value 5: labels are 0 or 1 (--labels 1 takes the first 1 "
          "attributes, --labels -1 the last)");
    wrong("@relation t\n@attribute y {0,1}\n@attribute a numeric\n@attribute c {x,y,z}\n@data\n0,1,x\n", -1,
          "t.arff:4: label 'c' is not binary: a label column is {0,1}, another pair of values, or "
          "numeric (--labels -1 takes the last 1 attributes, --labels 1 the first)");
    wrong("@relation 't: -C -2'\n@attribute y {0,1}\n@attribute b {u,v}\n@attribute a numeric\n@data\n0,u,1\n", 0,
          "t.arff:3: label 'b' has the values {u,v}: say which one means \"on\" with --positive (-C -2 takes the last "
          "2 attributes, -C 2 the first)");
}

static void contradictions_are_refused(void **state)
{
    (void)state;
#define BODY "@attribute a numeric\n@attribute b {0,1}\n@attribute y {0,1}\n@data\n1,1,0\n"
    wrong("@relation 't: -C -2'\n" BODY, -1, "--labels -1 contradicts -C -2");
    wrong("@relation 'MEDC: -C 2 -I 0-weka.filters.Remove'\n" BODY, 0, "-weka.filters");
    sg_dataset *d = good("@relation 't: -C -2'\n" BODY, -2);
    assert_int_equal(d->labels, 2);
    sg_dataset_free(d);
    sg_read_options options = sg_read_options_default();
    options.labels_xml = data_text(1, "y.xml", "<labels><label name=\"y\"></label></labels>");
    d = data_read(data_text(0, "t.arff", "@relation 'MEDC: -C 2-weka.filters.Remove'\n" BODY), &options);
    assert_non_null(d);
    assert_int_equal(d->labels, 1);
    assert_true(data_noted(d, "disagrees"));
    sg_dataset_free(d);
}

static void label_lists(void **state)
{
    (void)state;
    const char *text =
        "@relation t\n@attribute 'a&b' {0,1}\n@attribute x numeric\n@attribute c {0,1}\n@attribute d {0,1}\n"
        "@data\n0,1,0,1\n1,2,0,0\n";
    sg_read_options options = sg_read_options_default();
    options.labels_xml =
        data_text(1, "l.xml",
                  "<?xml version=\"1.0\"?>\n<m:labels xmlns:m=\"http://mulan.sourceforge.net/labels\">\n"
                  "<m:label name=\"c\"><m:label name=\"d\"/></m:label><m:label name=\"a&amp;b\"/></m:labels>\n");
    sg_dataset *d = data_read(data_text(0, "t.arff", text), &options);
    if (!d)
        fail_msg("%s", data_message);
    assert_int_equal(d->labels, 3);
    assert_string_equal(d->schema->label_names[0], "a&b");
    assert_string_equal(d->schema->label_names[2], "d");
    assert_true(on(d, 0, 2) && !on(d, 0, 1));
    assert_true(data_noted(d, "1 labels are on without their parent label"));
    sg_dataset_free(d);
    options.close_hierarchy = true;
    d = data_read(data_text(0, "t.arff", text), &options);
    assert_true(on(d, 0, 2) && on(d, 0, 1));
    sg_dataset_free(d);
    static const char *const bad[][2] = {
        {"<labels>\n<label name=\"nope\"/></labels>", "l.xml:2: label 'nope' is not an attribute"},
        {"<labels>\n<label name=\"c\"/><label name=\"c\"/></labels>", "l.xml:2:18: label 'c' is listed twice"},
        {"<labels>\n<label/></labels>", "l.xml:2:1: a <label> has no name"},
        {"<labels>\n</labels>", "lists no labels"},
        {"<labels>\n<label name=\"c\">", "bad XML"},
        {"<tags></tags>", "l.xml:1:1: expected the element <labels>, found <tags>"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        options.labels_xml = data_text(1, "l.xml", bad[i][0]);
        assert_null(data_read(data_text(0, "t.arff", text), &options));
        if (!strstr(data_message, bad[i][1]))
            fail_msg("'%s' instead of '%s'", data_message, bad[i][1]);
    }
}

static void compressed_files(void **state)
{
    (void)state;
    sg_read_options options = sg_read_options_default();
    options.label_count = -1;
    char text[20000] = HEAD;
    for (int i = 0; i < 400; i++)
        sprintf(text + strlen(text), "%d,%g,%d\n", i * 7919 % 1009, i * 0.37, i % 2);
    sg_dataset *d = data_read(data_gzip(0, "t.arff.gz", text, 0), &options);
    assert_non_null(d);
    assert_int_equal(d->rows, 400);
    sg_dataset_free(d);
    for (size_t cut = 1; cut < 600; cut += 97) {
        assert_null(data_read(data_gzip(0, "t.arff.gz", text, cut), &options));
        assert_non_null(strstr(data_message, "truncated"));
    }
    static const char wrong_sum[] = "\x1f\x8b\x08\0\0\0\0\0\0\x03\xcb\x04\0\0\0\0\0\x01\0\0";
    assert_null(data_read(data_file(0, "t.arff.gz", wrong_sum, sizeof wrong_sum), &options)); /* of the text "i" */
    assert_non_null(strstr(data_message, "t.arff.gz: the compressed file is damaged (incorrect data check)"));
    assert_null(data_read(data_text(0, "t.arff.gz", text), &options));
    assert_non_null(strstr(data_message, "not compressed by gzip"));
    assert_null(data_read("/nonexistent/file.arff", &options));
    assert_int_equal(data_error.status, SG_E_IO);
}

static void encodings(void **state)
{
    (void)state;
    sg_dataset *d = good("@relation t\n@attribute caf\xe9 numeric\n@attribute y {0,1}\n@data\n1,0\n", -1);
    assert_string_equal(d->schema->columns[0].name, "caf\xc3\xa9");
    assert_true(data_noted(d, "read as Latin-1"));
    sg_dataset_free(d);
    d = good("@relation t\n@attribute caf\xc3\xa9 numeric\n@attribute y {0,1}\n@data\n1,0\n", -1);
    assert_string_equal(d->schema->columns[0].name, "caf\xc3\xa9");
    assert_int_equal(d->n_notes, 0);
    sg_dataset_free(d);
    sg_read_options options = sg_read_options_default();
    static const char nul[] = HEAD "1,\0002,0\n";
    assert_null(data_read(data_file(0, "t.arff", nul, sizeof nul - 1), &options));
}

static void several_files(void **state)
{
    (void)state;
    const char *paths[] = {data_text(0, "a.arff", HEAD "1,2,0\n"),
                           data_text(1, "b.arff",
                                     "@relation u\n@attribute y {1,0}\n@attribute b numeric\n@attribute a numeric\n"
                                     "@data\n1,5,6\n")};
    sg_read_options options = sg_read_options_default();
    options.label_count = -1;
    sg_dataset *d, *e;
    sg_error err;
    assert_int_equal(sg_dataset_read(&d, paths, 2, &options, &err), SG_OK);
    assert_int_equal(d->rows, 2);
    assert_true(x(d, 1, 0) == 6 && x(d, 1, 1) == 5 && on(d, 1, 0));
    assert_int_equal(d->source_file[1], 1);
    /* For a trained model: by name, with or without label columns. */
    options = sg_read_options_default();
    options.schema = d->schema;
    e = data_read(
        data_text(2, "c.arff",
                  "@relation u\n@attribute b numeric\n@attribute z numeric\n@attribute a numeric\n@data\n5,9,6\n"),
        &options);
    assert_non_null(e);
    assert_false(e->has_labels);
    assert_int_equal(e->labels, 1);
    assert_true(x(e, 0, 0) == 6 && x(e, 0, 1) == 5);
    sg_dataset_free(e);
    assert_null(data_read(data_text(2, "c.arff", "@relation u\n@attribute b numeric\n@data\n5\n"), &options));
    assert_non_null(strstr(data_message, "attribute 'a' is missing"));
    assert_null(data_read(data_text(2, "c.arff", "@relation u\n@attribute b {0,1}\n@attribute a numeric\n@data\n1,5\n"),
                          &options));
    assert_non_null(strstr(data_message, "attribute 'b' is nominal here, but a number was expected"));
    sg_dataset_free(d);
}

static uint64_t scramble(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Whatever happens to a file, reading ends with a data set or with an error that has a text. */
static void damaged_files(void **state)
{
    (void)state;
    static const char text[] =
        "@relation 't: -C -2'\n@attribute a numeric\n@attribute 'b \\'c' {r,'g g',b}\n@attribute s string\n"
        "@attribute y {0,1}\n@attribute z{1,0} % c\n@data\n1,r,'x',0,1\n?, 'g g' ,y,?,0,{2}\n{0 -1.5e3,4 0}\n"
        "{1 b, 3 1},{0.5} % c\n";
    size_t n = sizeof text - 1;
    int read = 0, failed = 0;
    uint64_t seed = 1;
    for (size_t i = 0; i < 4 * n; i++) {
        char copy[sizeof text];
        size_t size = i < n ? i : n;
        memcpy(copy, text, n);
        if (i >= n)
            copy[scramble(&seed) % n] ^= (char)(1u << scramble(&seed) % 8);
        sg_read_options options = sg_read_options_default();
        sg_dataset *d = data_read(data_file(0, "t.arff", copy, size), &options);
        read += d != NULL;
        failed += !d;
        if (!d)
            assert_true(data_error.status != SG_OK && data_error.text[0]);
        sg_dataset_free(d);
    }
    assert_true(read >= 20);
    assert_true(failed >= 100);
}

/* An allocator that fails once, at call number `fail_at`. */
static int64_t calls, fail_at;

static void *failing_allocate(void *user, size_t bytes)
{
    (void)user;
    return ++calls == fail_at ? NULL : malloc(bytes);
}

static void *failing_resize(void *user, void *old, size_t bytes)
{
    (void)user;
    return ++calls == fail_at ? NULL : realloc(old, bytes);
}

static void failing_release(void *user, void *old)
{
    (void)user;
    free(old);
}

/* Wherever memory runs out, reading ends with that error (or without a note), and nothing leaks. */
static void out_of_memory(void **state)
{
    (void)state;
    const sg_allocator failing = {failing_allocate, failing_resize, failing_release, NULL};
    sg_read_options options = sg_read_options_default();
    options.labels_xml = data_text(1, "l.xml", "<labels><label name='y'><label name='z'/></label></labels>");
    options.close_hierarchy = true;
    const char *path =
        data_text(0, "t.arff",
                  "@relation t\n@attribute 'a b' numeric\n@attribute a {r,g,b}\n@attribute a {1,0}\n"
                  "@attribute y {0,1}\n@attribute z {0,1}\n@data\n1,r,0,0,1\n{0 ?,3 ?}\n2,r,0,0,1,{2}\n");
    int failed = 0;
    for (fail_at = 1;; fail_at++) {
        calls = 0;
        sg_allocator_set(&failing);
        sg_dataset *d = data_read(path, &options);
        int64_t made = calls;
        sg_dataset_free(d);
        sg_allocator_set(NULL);
        if (!d) {
            assert_int_equal(data_error.status, SG_E_MEMORY);
            failed++;
        }
        if (made < fail_at)
            break;
    }
    print_message("%d of %lld allocations were needed\n", failed, (long long)fail_at - 1);
    assert_true(failed > 50);
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
        cmocka_unit_test(dense),
        cmocka_unit_test(first_attributes_are_labels),
        cmocka_unit_test(crlf_bom_tabs_and_case),
        cmocka_unit_test(sparse_omits_the_first_value),
        cmocka_unit_test(positive_values),
        cmocka_unit_test(names_are_literal),
        cmocka_unit_test(missing_values),
        cmocka_unit_test(nominal_encodings),
        cmocka_unit_test(weights_and_duplicates),
        cmocka_unit_test(clus_hierarchies),
        cmocka_unit_test(index_base),
        cmocka_unit_test(wrong_rows),
        cmocka_unit_test(wrong_headers),
        cmocka_unit_test(wrong_ends),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(label_lists),
        cmocka_unit_test(compressed_files),
        cmocka_unit_test(encodings),
        cmocka_unit_test(several_files),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
