/* score_test.c - the forms of predictions that `score` reads, which of their parts a metric is of, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/program.h"

/* Labels a; a and b; c. */
static void write_gold(void)
{
    write_file("gold.arff", "@relation 'gold: -C 3'\n@attribute a {0,1}\n@attribute b {0,1}\n@attribute c {0,1}\n"
                            "@attribute x numeric\n@data\n1,0,0,1\n1,1,0,1\n0,0,1,2\n");
}

#define ROW_0 "{\"row\":0,\"labels\":[\"a\"],\"scores\":{\"a\":0.3,\"b\":0.1,\"c\":0.15}}\n"
#define ROW_1 "{\"row\":1,\"labels\":[\"a\",\"b\"],\"scores\":{\"a\":0.7,\"b\":0.25,\"c\":0.1}}\n"
#define ROW_2 "{\"row\":2,\"labels\":[\"c\"],\"scores\":{\"a\":0.1,\"b\":0.4,\"c\":0.6}}\n"

/* What is printed, and in a warning; `warning` NULL: nothing is. */
static void scores(const char *arguments, const char *printed, const char *warning)
{
    outcome o = run(arguments);
    if (o.code != 0 || !strstr(o.out, printed) || (warning ? !strstr(o.err, warning) : o.err[0] != 0))
        fail_msg("%s: code %d\nout: %s\nerr: %s", arguments, o.code, o.out, o.err);
    outcome_release(&o);
}

#define PERFECT "subset_accuracy        1\n"
#define ONE_OF_THREE "subset_accuracy        0.333333\n"
#define TWO_OF_THREE "subset_accuracy        0.666667\n"

/* Sets are of "labels" unless a threshold is asked for; that of a file or of the environment asks for none. */
static void labels_before_scores(void **state)
{
    (void)state;
    write_gold();
    write_file("p.jsonl", ROW_0 ROW_1 ROW_2);
    scores("score gold.arff p.jsonl", PERFECT, NULL);
    scores("score gold.arff p.jsonl", "lrap                   1\n", NULL);
    scores("score gold.arff p.jsonl --threshold 0.5", ONE_OF_THREE, NULL);
    scores("score gold.arff p.jsonl --set train.threshold=0.2", TWO_OF_THREE, NULL);
    write_file("half.yml", "train: {threshold: 0.5}\n");
    scores("score gold.arff p.jsonl -c half.yml", PERFECT, NULL);
    outcome o = program_run("SEALGRAPH_TRAIN_THRESHOLD=0.5", "score gold.arff p.jsonl");
    assert_true(o.code == 0 && strstr(o.out, PERFECT));
    outcome_release(&o);
    scores("score gold.arff p.jsonl --per-label -", "b\t1\t0\t0\t", NULL);
    scores("score gold.arff p.jsonl --per-label - --threshold 0.5", "b\t0\t0\t1\t", NULL);
    write_file("p.jsonl", "{\"scores\":{\"a\":1,\"b\":0,\"c\":0}}\n" ROW_1 ROW_2);
    scores("score gold.arff p.jsonl", PERFECT, NULL);
}

static void missing_scores_are_told(void **state)
{
    (void)state;
    write_gold();
    write_file("p.jsonl", ROW_0 "{\"labels\":[\"a\",\"b\"],\"scores\":{\"b\":0.7}}\n{\"labels\":[\"c\"]}\n");
    scores("score gold.arff p.jsonl", PERFECT,
           "p.jsonl: 2 of 3 rows list no score for some label, which counts as 0: rankings");
    write_file("p.jsonl", ROW_0 "{\"scores\":{\"b\":0.7}}\n" ROW_2);
    scores("score gold.arff p.jsonl", TWO_OF_THREE, "1 of 3 rows list no score");
    scores("score gold.arff p.jsonl --threshold 0.2", "lrap",
           "counts as 0: all metrics may be wrong; `predict` without");
    write_file("p.labels", "a:1 b:0 c:0\nb:0.9 a:0.6\n\n");
    scores("score gold.arff p.labels", TWO_OF_THREE, "p.labels: 2 of 3 rows list no score");
    write_file("sets.jsonl", "{\"labels\":[\"a\"]}\n{\"labels\":[]}\n{\"labels\":[\"c\"]}\n");
    outcome o = run("score gold.arff sets.jsonl");
    assert_true(o.code == 0 && !o.err[0] && !strstr(o.out, "lrap") && strstr(o.out, TWO_OF_THREE));
    outcome_release(&o);
}

static void thresholds_want_scores(void **state)
{
    (void)state;
    write_gold();
    write_file("p.jsonl", ROW_0 "{\"labels\":[\"a\",\"b\"]}\n" ROW_2);
    fails("score gold.arff p.jsonl --threshold 0.2", 2,
          "--threshold: train.threshold has no effect on labels without scores, as in p.jsonl:2");
    fails("score gold.arff gold.arff --threshold 0.2", 2, "no effect on labels without scores, as in gold.arff");
}

static const struct {
    const char *name, *text;
    int code;
    const char *message;
} refused[] = {
    {"p.jsonl", ROW_2 ROW_1 ROW_0, 3, "p.jsonl:1: \"row\" is not 0, though this is row 0 of the file"},
    {"p.jsonl", ROW_0 ROW_0 ROW_2, 3, "p.jsonl:2: \"row\" is not 1, though this is row 1 of the file"},
    {"p.jsonl", "{\"row\":\"0\",\"labels\":[]}\n", 3, "p.jsonl:1: \"row\" is not 0"},
    {"p.jsonl", "{\"scores\":[0.1,0.2,0.3]}\n", 3, "p.jsonl:1: \"scores\" must be an object of label: number"},
    {"p.jsonl", "{\"scores\":{\"a\":1},\"labels\":\"a\"}\n", 3, "p.jsonl:1: \"labels\" must be a list of names"},
    {"p.jsonl", "{}\n", 3, "p.jsonl:1: a row needs \"scores\" or \"labels\""},
    {"p.jsonl", ROW_0 ROW_1, 3, "p.jsonl:2: ends after 2 rows; the gold data has 3"},
    {"p.jsonl", ROW_0 ROW_1 ROW_2 ROW_2, 3, "p.jsonl:4: more rows than the 3 of the gold data"},
    {"p.labels", "a:1\na:1 b:0.1 a:0.5\n", 3, "p.labels:2:11: label 'a' is there twice"},
    {"p.jsonl", "a:1 b:0\n", 3, "if this is no jsonl, say --from labels or data"},
    {"p.txt", ROW_0, 3, "if these are no label:score lines, say --from jsonl or data"},
    {"p.txt", "@relation x\n", 3, "p.txt:1:1: expected label:score, not '@relation'; if these are no"},
    {"p.svm", "a:1 b:0\n", 2, "p.svm: the name does not tell what this is"},
    {"p.json", ROW_0, 2, "(it begins with a brace): say --from jsonl, labels or data"},
};

static void first_lines_and_mismatches(void **state)
{
    (void)state;
    write_gold();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char arguments[64];
        write_file(refused[i].name, refused[i].text);
        snprintf(arguments, sizeof arguments, "score gold.arff %s", refused[i].name);
        fails(arguments, refused[i].code, refused[i].message);
    }
    outcome o = run("score gold.arff p.txt --from labels"); /* no advice on what was said */
    assert_true(o.code == 3 && !strstr(o.err, "--from"));
    outcome_release(&o);
}

/* A name tells its format before .gz too; one that does not tell is looked into. */
static void packed_predictions(void **state)
{
    (void)state;
    write_gold();
    write_file("p.jsonl", ROW_0 ROW_1 ROW_2);
    scores("score gold.arff gold.arff", PERFECT, NULL);
    outcome_release((outcome[]){program_run("gzip -c p.jsonl >p.jsonl.gz;", "version")});
    scores("score gold.arff p.jsonl.gz", PERFECT, NULL);
    outcome_release((outcome[]){program_run("gzip -c p.jsonl >p.gz;", "version")});
    fails("score gold.arff p.gz", 2, "(it begins with a brace): say --from jsonl");
    scores("score gold.arff p.gz --from jsonl", PERFECT, NULL);
}

/* Lines of pairs are lines of LIBSVM without labels, where labels are numbers. */
static void pairs_read_as_data(void **state)
{
    (void)state;
    write_file("gold.svm", "1 1:1\n2 1:2\n0 1:2\n");
    write_file("p.csv", "1:0.9\n2:0.8\n1:0.7 2:0.1\n");
    scores("score gold.svm p.csv --set data.labels_count=3", "micro_f1",
           "p.csv: read as a data set, in which no row has a label: --from labels reads label:score lines");
    scores("score gold.svm p.csv --from labels", TWO_OF_THREE, "3 of 3 rows");
}

/* Names may hold blanks and colons, and begin as others do; the longest that fits is meant. */
static void names_within_names(void **state)
{
    (void)state;
    write_file("names.arff", "@relation 'names: -C 4'\n@attribute a {0,1}\n@attribute 'a:0.5 b' {0,1}\n"
                             "@attribute 'a b' {0,1}\n@attribute 'a:0.5 bc' {0,1}\n@attribute x numeric\n@data\n"
                             "1,0,1,0,1\n0,1,0,0,1\n0,0,0,1,2\n");
    write_file("p.labels", "a b:1 a:0.5 a:0.5 b:0 a:0.5 bc:0.25\na:0 a:0.5 b:1 a b:0.5e-1 a:0.5 bc:0\n"
                           "a:0.5 bc:1 a:0 a:0.5 b:0 a b:0\n");
    scores("score names.arff p.labels", PERFECT, NULL);
    write_file("p.labels", "a b:1 a:0.5\na:0.5 bcd:1\n\n");
    fails("score names.arff p.labels", 3, "p.labels:2: the gold data has no label 'bcd'");
}

/* Each row has another one of them, so that a name taken for another shows. */
static void many_labels(void **state)
{
    (void)state;
    enum { LABELS = 3000, ROWS = 30 };
    char *gold, *predicted;
    size_t size;
    FILE *out = open_memstream(&gold, &size);
    fprintf(out, "@relation 'many: -C %d'\n", LABELS);
    for (int i = 0; i < LABELS; i++)
        fprintf(out, "@attribute label%d {0,1}\n", i);
    fputs("@attribute x numeric\n@data\n", out);
    for (int r = 0; r < ROWS; r++)
        fprintf(out, "{%d 1,%d 1}\n", 97 * r, LABELS);
    fclose(out);
    write_file("many.arff", gold);
    out = open_memstream(&predicted, &size);
    for (int r = 0; r < ROWS; r++) {
        for (int i = LABELS - 1; i >= 0; i--)
            fprintf(out, "label%d:%d ", i, i == 97 * r);
        fputs("\n", out);
    }
    fclose(out);
    write_file("many.labels", predicted);
    scores("score many.arff many.labels", PERFECT, NULL);
    free(gold);
    free(predicted);
}

static void forms_are_described(void **state)
{
    (void)state;
    static const char *const commands[] = {"score --help", "predict --help"};
    for (int i = 0; i < 2; i++) {
        succeeds(commands[i], "docs/conventions.md");
        succeeds(commands[i], "under Predictions");
    }
    succeeds("score --help", ".jsonl, .labels or .txt, anything else is a data set");
}

/* A sanitizer's own memory is beyond any limit. */
static void memory_is_told(void **state)
{
#if defined __SANITIZE_ADDRESS__
    (void)state;
    skip();
#else
    enum { ROWS = 20000 };
    char command[512], *rows = malloc(ROWS * 8 + 64);
    (void)state;
    assert_non_null(rows);
    size_t n = (size_t)sprintf(rows, "%d 1 20000\n", ROWS);
    for (int i = 0; i < ROWS; i++)
        n += (size_t)sprintf(rows + n, "1 0:1\n");
    write_file("wide.xc", rows);
    free(rows);
    snprintf(command, sizeof command,
             "cd %s && (ulimit -v 1500000 && exec %s/sealgraph score wide.xc wide.xc) 2>err.txt; test $? -eq 1",
             program_folder, SG_BINARY_DIR);
    assert_int_equal(system(command), 0);
    char *err = program_file("err.txt");
    assert_string_equal(err, "sealgraph: out of memory for 20000 rows x 20000 labels: they take 4.8 GB\n");
    free(err);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_before_scores),   cmocka_unit_test(missing_scores_are_told),
        cmocka_unit_test(thresholds_want_scores), cmocka_unit_test(first_lines_and_mismatches),
        cmocka_unit_test(packed_predictions),     cmocka_unit_test(pairs_read_as_data),
        cmocka_unit_test(names_within_names),     cmocka_unit_test(many_labels),
        cmocka_unit_test(forms_are_described),    cmocka_unit_test(memory_is_told),
    };
    return cmocka_run_group_tests(tests, program_make_folder, program_remove_folder);
}
