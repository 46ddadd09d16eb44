/* run_test.c - the built program as a user runs it: a small run from data to training and prediction, and its graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "serialize/serialize.h"
#include "tests/support/program.h"

#define TOY_GRAPH "--train toy.arff --test toy.arff --set model.hidden=[16] -q "

/* Sizes are made up only where no data is named, and where a recipe's files are absent but both sizes are given; and that is told. */
static void graph_without_data(void **state)
{
    (void)state;
    write_data("toy.arff");
    outcome o = run("graph --of predict");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "no data: the graph is for 5 features and 4 labels"));
    assert_non_null(strstr(o.out, "[32, 4]"));
    outcome_release(&o);
    write_file("no.yml", "data: {files: [nowhere.arff], labels: 2}\nmodel: {hidden: [7]}\n");
    fails("graph -c no.yml", 1, "nowhere.arff: cannot open the file: No such file or directory; give --data-dir, or");
#define SIZES "--set data.features_count=11 --set data.labels_count=3 "
    o = run("graph -c no.yml --of predict " SIZES);
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "no data: nowhere.arff: the graph is for 11 features and 3 labels"));
    outcome_release(&o);
    static const char *const named[] = {"--train nowhere.arff", "--files nowhere.arff --split nowhere.tsv",
                                        "-c no.yml --data-dir nowhere", "--train toy.arff --test nowhere.arff",
                                        "--train toy.arff --labels-xml nowhere.xml"};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "graph %s " SIZES, named[i]);
        fails(arguments, 1, "nowhere");
    }
    outcome_is_failure(program_run("SEALGRAPH_DATA_TRAIN=nowhere.arff", "graph"), "graph", 1, "nowhere.arff");
    fails("graph --test toy.arff", 2, "no data: give data.train");
    fails("graph --data-dir .", 2, "no data: give data.train");
    succeeds("graph --loss seal-dynamic " SIZES "--batch 6", "[6, 11]");
    succeeds("graph " TOY_GRAPH "--of predict", "[32, 3]");
    json_t *cost = document("graph -c no.yml --of hvp --plan --json " SIZES, 0),
           *sizes = json_object_get(cost, "sizes");
    assert_int_equal(json_integer_value(json_object_get(sizes, "features")), 11);
    assert_true(json_is_false(json_object_get(sizes, "of_data")));
    json_decref(cost);
    succeeds("graph --plan", "for 5 features and 4 labels, of no data");
    write_file("broken.arff", "@relation 'x: -C 1'\n@attribute y {0,1}\n@data\n7\n");
    fails("graph --train broken.arff", 3, "broken.arff");
#undef SIZES
}

static void data_commands(void **state)
{
    (void)state;
    write_data("toy.arff");
    json_t *info = document("data info toy.arff --json", 0);
    assert_int_equal(json_integer_value(json_object_get(info, "rows")), 200);
    assert_int_equal(json_integer_value(json_object_get(info, "features")), 3);
    assert_int_equal(json_integer_value(json_object_get(info, "labels")), 3);
    assert_true(json_real_value(json_object_get(info, "cardinality")) > 1);
    json_decref(info);
    json_decref(document("data check toy.arff --json", 0));
    json_decref(document("data convert toy.arff -o toy.svm --json", 0));
    succeeds("data info toy.svm", "rows         200");
    fails("data convert toy.arff -o toy.svm", 2, "toy.svm exists");
    fails("data convert toy.arff -o toy.bin", 2, "--to arff, libsvm or xc");
    succeeds("data split toy.arff", "\ttrain");
    json_decref(document("data split toy.arff -o parts.tsv --json", 0));
    succeeds("data info --files toy.arff --split parts.tsv", "validation");
    write_file("pred.tsv", "{\"labels\": [\"p\"]}\n");
    fails("score toy.arff pred.tsv", 2, "pred.tsv: the name does not tell what this is");
    write_file("pairs.tsv", "p:0.5\n");
    write_file("toy.xml", "<labels><label name=\"p\"/><label name=\"q\"/><label name=\"r\"/></labels>\n");
    fails("score toy.arff pairs.tsv --labels-xml toy.xml", 2, "say --from jsonl, labels or data");
    write_file("odd.arff",
               "@relation 'odd: -C 3'\n@attribute 'a b' {0,1}\n@attribute 'a b: c' {0,1}\n@attribute d {0,1}\n"
               "@attribute x numeric\n@data\n1,0,1,2\n0,1,0,3\n");
    write_file("odd.labels", "a b:0.9 d:0.8 a b: c:0.1\na b: c:0.7\td:0.2 a b:0.1\n");
    succeeds("score odd.arff odd.labels", "subset_accuracy        1\n");
    write_file("odd.labels", "a b:0.9\na b: d:0.7\n");
    fails("score odd.arff odd.labels", 3, "odd.labels:2:1: expected label:score, not 'a b:'");
    write_file("odd.labels", "a:0.9\n");
    fails("score odd.arff odd.labels", 3, "odd.labels:1: the gold data has no label 'a'");
    json_t *perfect = document("score toy.arff toy.arff --json", 0);
    json_t *metrics = json_object_get(perfect, "metrics");
    assert_true(json_number_value(json_object_get(metrics, "micro_f1")) == 1);
    json_decref(perfect);
}

/* Every number of a JSON text outside its strings: no text with fewer digits is the same number, and rereading it gives it back. */
static void has_short_numbers(const char *name, const char *text, bool of_floats)
{
    int reals = 0;
    assert_true(text[0]);
    for (const char *at = text; *at;) {
        if (*at == '"') {
            for (at++; *at && *at != '"'; at++)
                at += *at == '\\';
            at += *at == '"';
            continue;
        }
        size_t n = strspn(at, "-+.0123456789e");
        char number[40], shorter[40];
        snprintf(number, sizeof number, "%.*s", (int)n, at);
        double value = strtod(number, NULL);
        for (int digits = of_floats ? 6 : 15; digits < 17 && strchr(number, '.'); digits++) {
            snprintf(shorter, sizeof shorter, "%.*g", digits, value);
            bool same = of_floats ? strtof(shorter, NULL) == (float)value : strtod(shorter, NULL) == value;
            if (same && strlen(shorter) < strlen(number) && !strstr(number, ".0"))
                fail_msg("%s: %s is %s", name, number, shorter);
        }
        reals += strchr(number, '.') != NULL;
        at += n ? n : 1;
    }
    assert_true(reals > 0);
}

/* Of the run in the folder `run`. A metric in metrics.json is the one that eval computes, to the last bit. */
static void numbers_are_short(void)
{
    static const char *const files[] = {"run/metrics.json", "run/metrics.jsonl"};
    static const char *const commands[] = {"eval run -q --threads 1 --json", "model info run --json",
                                           "data info toy.arff --json"};
    for (int i = 0; i < 2; i++) {
        char *text = program_file(files[i]);
        has_short_numbers(files[i], text, false);
        free(text);
    }
    for (int i = 0; i < 3; i++) {
        outcome o = run(commands[i]);
        assert_int_equal(o.code, 0);
        has_short_numbers(commands[i], o.out, i == 1);
        outcome_release(&o);
    }
    outcome o = run("predict run toy.arff --threads 1");
    has_short_numbers("predict", o.out, true);
    outcome_release(&o);
    char *text = program_file("run/metrics.json");
    json_t *file = json_loads(text, 0, NULL), *now = document("eval run -q --threads 1 --json", 0);
    static const char *const names[] = {"example_f1", "micro_f1", "hamming_loss", "map.example", "ndcg"};
    for (int i = 0; i < 5; i++)
        assert_true(json_number_value(json_object_get(json_object_get(file, "test"), names[i])) ==
                    json_number_value(json_object_get(json_object_get(now, "test"), names[i])));
    free(text);
    json_decref(file);
    json_decref(now);
}

/* A bound that is the metric but for its last bits holds, and does not hold as a strict one. */
static void conditions_at_the_bound(void)
{
    json_t *now = document("eval run -q --threads 1 --json", 0);
    double value = json_number_value(json_object_get(json_object_get(now, "test"), "example_f1"));
    json_decref(now);
    static const struct {
        const char *sign;
        double factor;
        int code;
    } tried[] = {{">=", 1 + 4e-16, 0}, {"<=", 1 - 4e-16, 0}, {">", 1 - 4e-16, 5}, {"<", 1 + 4e-16, 5},
                 {">=", 1 + 1e-9, 5},  {"<=", 1 - 1e-9, 5},  {">", 1 - 1e-9, 0},  {"<", 1 + 1e-9, 0}};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        char arguments[128];
        snprintf(arguments, sizeof arguments, "eval run -q --threads 1 --json --require 'test/example_f1%s%.17g'",
                 tried[i].sign, value * tried[i].factor);
        json_decref(document(arguments, tried[i].code));
    }
}

/* A file is opened and read once, so it may be a pipe, and - is standard input; training wants to read it again. */
static void data_from_pipes(void **state)
{
    (void)state;
    write_data("toy.arff");
    succeeds("data convert toy.arff --to libsvm -q -o toy.svm --force", "");
    succeeds("train --train toy.arff --validation toy.arff --set model.hidden=[2] --epochs 1 --threads 1 -q -o piped",
             "run");
    succeeds("predict piped toy.arff --threads 1 -o piped.jsonl", "");
    static const struct {
        const char *before, *arguments, *printed;
    } cases[] = {
        {"cat toy.arff |", "data info -", "rows         200"},
        {"cat toy.arff |", "data info /dev/stdin", "rows         200"},
        {"gzip -c toy.arff |", "data info -", "rows         200"},
        {"cat toy.svm |", "data info -", "rows         200"},
        {"cat toy.svm |", "data convert - --to libsvm -o -", "1:"},
        {"cat toy.arff |", "predict piped - --threads 1", "\"row\":199"},
        {"cat toy.arff |", "eval piped - --threads 1", "rows                   200"},
        {"cat piped.jsonl |", "score toy.arff - --from jsonl", "micro_f1"},
        {"cat toy.arff |", "score - piped.jsonl", "micro_f1"},
        {"cat toy.arff |", "score toy.arff - --from data", "micro_f1"},
        {"cat toy.arff |", "graph --train - --of predict -q", "[32, 3]"},
        {"cat toy.arff |", "graph --train /dev/stdin --plan -q", "3 labels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome o = program_run(cases[i].before, cases[i].arguments);
        if (o.code != 0 || !strstr(o.out, cases[i].printed))
            fail_msg("%s %s: code %d, %s", cases[i].before, cases[i].arguments, o.code, o.err);
        outcome_release(&o);
    }
    static const char *const refused[] = {"train --train - -o x", "train --train /dev/stdin -o x"};
    for (int i = 0; i < 2; i++) /* before they are read */
        outcome_is_failure(program_run("echo broken |", refused[i]), refused[i], 2, "it must be a plain one");
    outcome_is_failure(program_run("cat piped.jsonl |", "score toy.arff -"), "score toy.arff -", 2, "say --from jsonl");
    outcome_is_failure(program_run("cat /dev/null |", "data info -"), "data info -", 3, "standard input");
    outcome_is_failure(program_run("head -c 900 toy.arff | gzip -c | head -c 200 |", "data info -"), "data info -", 3,
                       "truncated");
}

/* Whoever reads it, - is standard input in what is said of it. */
static void standard_input_has_one_name(void **state)
{
    (void)state;
    static const struct {
        const char *before, *arguments;
        int code;
        const char *message;
    } cases[] = {
        {"echo 'lr: x' |", "config show -c -", 2, "sealgraph: standard input:1:1: unknown key"},
        {"echo x |", "data info -", 3, "sealgraph: standard input: the file has no features"},
        {"echo x |", "score toy.arff - --from jsonl", 3, "sealgraph: standard input:1:1: not valid JSON"},
        {"echo x |", "score toy.arff - --from labels", 3, "sealgraph: standard input:1:1: expected label:score"},
        {"echo x |", "score toy.arff - --from data", 3, "sealgraph: standard input: the file has no features"},
        {"echo x |", "score - toy.arff", 3, "sealgraph: standard input: the file has no features"},
        {"echo '{\"row\":0,\"labels\":[]}' |", "score toy.arff -", 2,
         "sealgraph: standard input: the name does not tell what this is"},
        {"echo x |", "data info toy.arff --labels-xml -", 3, "sealgraph: standard input:1:1: bad XML"},
        {"echo x |", "data info --files toy.arff --split -", 3, "sealgraph: standard input:1:1: expected `row"},
        {"cat toy.arff |", "train --train - -o x", 2, "sealgraph: standard input: training reads a file twice"},
    };
    write_data("toy.arff");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        outcome_is_failure(program_run(cases[i].before, cases[i].arguments), cases[i].arguments, cases[i].code,
                           cases[i].message);
    fails("config show -c - <.", 1, "standard input: Is a directory");
    fails("score toy.arff - --from jsonl <.", 1, "sealgraph: standard input: cannot read");
    fails("data convert toy.arff -o -", 2, "standard output does not tell a format");
    outcome o = program_run("echo 'train: {lr: 0.5}' |", "config show -c - --origin");
    assert_non_null(strstr(o.out, "# standard input:1:13"));
    outcome_release(&o);
    o = run("data convert toy.arff --to libsvm -o -");
    assert_non_null(strstr(o.err, "standard output: 200 rows"));
    outcome_release(&o);
}

/* Metrics of sets are those of eval, whatever threshold the run has, and also of a file that has one score a row. */
static void scores_as_evaluated(const char *run)
{
    static const char *const names[] = {"example_f1",      "micro_f1",     "macro_f1",
                                        "subset_accuracy", "hamming_loss", "lrap"};
    char arguments[128];
    snprintf(arguments, sizeof arguments, "eval %s toy.arff --threads 1 --json", run);
    json_t *expected = document(arguments, 0);
    for (int top = 0; top < 2; top++) {
        snprintf(arguments, sizeof arguments, "predict %s toy.arff --threads 1 -o p.jsonl --force --json%s", run,
                 top ? " --top 1" : "");
        json_decref(document(arguments, 0));
        json_t *scored = document("score toy.arff p.jsonl --json", 0);
        for (int i = 0; i < (top ? 5 : 6); i++)
            if (json_number_value(json_object_get(json_object_get(scored, "metrics"), names[i])) !=
                json_number_value(json_object_get(json_object_get(expected, "metrics"), names[i])))
                fail_msg("%s: %s with top %d", run, names[i], top);
        json_decref(scored);
    }
    json_decref(expected);
}

/* To go on with it is no mistake, and ends as the training did; what would train again is refused. */
static void finished_run_is_told_again(const json_t *trained)
{
    json_t *again = document("train run --json --threads 2", 0);
    assert_true(json_equal(again, (json_t *)(uintptr_t)trained));
    json_decref(again);
    outcome o = run("train run/ --require 'test/example_f1>=2'");
    assert_int_equal(o.code, 5);
    assert_non_null(strstr(o.err, "finished run: nothing is left to train; -o FOLDER begins a new run"));
    assert_non_null(strstr(o.out, "run          run\nbest epoch "));
    outcome_release(&o);
    o = program_run("SEALGRAPH_SEEDS=3", "train run"); /* a run is what it is */
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "run          run\nbest epoch "));
    outcome_release(&o);
    static const char *const more[] = {"train run --resume",
                                       "train run --force",
                                       "train run --dry-run",
                                       "train run --lr 0.5",
                                       "train run --set train.epochs=99",
                                       "train run -c run/config.yml"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        fails(more[i], 2, "run holds a finished run, which `eval` evaluates: -o FOLDER");
}

static void train_evaluate_predict(void **state)
{
    (void)state;
    write_data("toy.arff");
    static const char *const graphs[] = {"step", "predict", "hvp"};
    for (int i = 0; i < 3; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "graph " TOY_GRAPH "--threads 1 --of %s --plan --json", graphs[i]);
        json_t *cost = document(arguments, 0), *planned = json_object_get(cost, "planned");
        assert_string_equal(json_string_value(json_object_get(cost, "graph")), graphs[i]);
        assert_true(json_real_value(json_object_get(cost, "flops")) > 1000);
        assert_true(json_integer_value(json_object_get(planned, "temporaries")) > 0);
        assert_true(json_integer_value(json_object_get(planned, "parameters")) >= (3 * 16 + 16 + 3 * 16) * 4);
        json_decref(cost);
    }
    succeeds("graph " TOY_GRAPH "--of hvp --plan", "temporaries");
    json_t *dry = document("train " TOY "--dry-run --json -o run", 0);
    assert_int_equal(json_integer_value(json_object_get(dry, "task_parameters")), 16 * 4 + 16 * 3);
    json_decref(dry);
    assert_false(exists("run"));
    fails("train " TOY "--resume -o run", 2,
          "run: no such folder, so no run to go on with: -o FOLDER, without --resume, begins a new one");
    fails("train run", 2, "run: no such folder, so no run to go on with: -o FOLDER begins a new one");
    fails("train .", 2, ". holds no run to go on with, no config.yml: -o FOLDER begins a new one");
    fails("train toy.arff", 2, "toy.arff is a file, not a run folder: -c names a recipe, --train data");
    json_t *trained = document("train " TOY "--epochs 15 -o run --json", 0);
    json_t *test = json_object_get(trained, "test");
    assert_string_equal(json_string_value(json_object_get(trained, "run")), "run");
    assert_true(json_number_value(json_object_get(test, "example_f1")) > 0.8);
    assert_true(exists("run/metrics.json") && exists("run/model/model.safetensors"));
    fails("train " TOY "--epochs 15 -o run", 2, "finished run");
    finished_run_is_told_again(trained);
    refused_before_reading("train " TOY "--epochs 15 -o run", "run holds a finished run");
    refused_before_reading("train " TOY "--epochs 15 -o err.txt", "err.txt is not a directory");
    refused_before_reading("train " TOY "--epochs 15 -o .", ". is not empty and holds no run");
    json_t *evaluated = document("eval run --json -q --threads 1", 0);
    double before = json_number_value(json_object_get(test, "example_f1"));
    double after = json_number_value(json_object_get(json_object_get(evaluated, "test"), "example_f1"));
    assert_true(before - after < 1e-7 && after - before < 1e-7);
    json_decref(evaluated);
    evaluated = document("eval run toy.arff --json -q --threads 1", 0);
    assert_non_null(json_object_get(evaluated, "metrics"));
    assert_null(json_object_get(evaluated, "test")); /* the file is none */
    json_decref(evaluated);
    json_decref(trained);
    json_decref(document("eval run --require 'test/example_f1>=2' -q --threads 1 --json", 5));
    json_decref(document("eval run --require 'test/example_f1>=0.5' -q --threads 1 --json", 0));
    fails("train --files toy.arff --fractions 0.8,0.2,0 -q --require 'test/micro_f1>=0.1' -o never", 2,
          "there are no test rows");
    assert_false(exists("never"));
    json_decref(document("model info run --json", 0));
    numbers_are_short();
    conditions_at_the_bound();
    succeeds("model info run", "task/G");
    succeeds("predict run toy.arff --threads 1", "\"scores\"");
    json_decref(document("predict run toy.arff -o p.jsonl --json --threads 1", 0));
    scores_as_evaluated("run");
    succeeds("train " TOY "--epochs 15 --threshold 0.2 -o low", "low");
    scores_as_evaluated("low");
}

/* A model that C wrote, y = 2 x, of rows as many as one likes. */
static void write_model(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", program_folder, name);
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_value a = sg_param(sg_scope_root(graph, store), "a", SG_SHAPE(3), sg_init_constant(2));
    sg_value x = sg_input(graph, "x", SG_F32, sg_shape_named(SG_SHAPE(4, 3), 0, "batch"));
    sg_result(graph, "y", sg_mul(x, a));
    sg_store_initialise(store, 1);
    assert_int_equal(sg_model_write(path, &(sg_model){.graph = graph, .store = store}, NULL), SG_OK);
    sg_store_free(store);
    sg_graph_free(graph);
}

static const char *first_name(const json_t *document, const char *kind)
{
    const json_t *one = json_array_get(json_object_get(document, kind), 0);
    return json_string_value(json_object_get(one, "name"));
}

static void info_of_any_model(void **state)
{
    (void)state;
    write_model("own");
    succeeds("model info own", "input   x     f32    [batch=4, 3]\n");
    succeeds("model info own", "result  y     f32    [batch=4, 3]\n");
    succeeds("model info own", "tensor  a     f32    [3]\n");
    json_t *own = document("model info own --json", 0);
    assert_string_equal(first_name(own, "inputs"), "x");
    assert_string_equal(first_name(own, "results"), "y");
    assert_string_equal(first_name(own, "tensors"), "a");
    json_t *axes = json_object_get(json_array_get(json_object_get(own, "inputs"), 0), "axes");
    assert_string_equal(json_string_value(json_array_get(axes, 0)), "batch");
    assert_true(json_is_null(json_array_get(axes, 1)));
    json_decref(own);
    fails("eval own toy.arff", 1, "own is not a model that `train` left: its task is '', not mlc");
    write_data("toy.arff");
    succeeds("train " TOY "--epochs 1 -q --layout sparse -o thin", "test");
    succeeds("model info thin", "x.indptr");
}

static void equal_seeds_equal_bytes(void **state)
{
    (void)state;
    write_data("toy.arff");
    static const char *const runs[] = {"train " TOY "--epochs 3 -o one", "train " TOY "--epochs 3 -o two",
                                       "train " TOY "--epochs 3 -o three --threads 2"};
    for (int i = 0; i < 3; i++) {
        outcome o = run(runs[i]);
        assert_int_equal(o.code, 0);
        outcome_release(&o);
    }
    char *one = program_file("one/metrics.json"), *two = program_file("two/metrics.json"),
         *three = program_file("three/metrics.json");
    assert_true(strlen(one) > 100);
    assert_string_equal(one, two);
    assert_string_equal(one, three);
    free(one);
    free(two);
    free(three);
}

/* Files for a model are read as those of its training were: blank lines are rows, and indices begin where their format or the recipe says. */
static void files_are_read_as_in_training(void **state)
{
    (void)state;
    write_file("blank.svm", "1 0:1 2:2\n0 1:1\n\n0,1 0:1 1:1\n1 2:1\n");
    write_file("one.arff",
               "@relation 'x: -C 1'\n@attribute y {0,1}\n@attribute a numeric\n@attribute b numeric\n@data\n"
               "{1 1,2 3}\n{1 1,3 2}\n{1 1,2 1,3 1}\n");
#define AS_ALL(name) "--train " name " --validation " name " --test " name " --threads 1 --epochs 1 -q "
    succeeds("train " AS_ALL("blank.svm") "--keep-blank --index-base 0 --set model.hidden=[2] -o blank", "test");
    succeeds("predict blank blank.svm --threads 1", "\"row\":4");
    succeeds("eval blank blank.svm --threads 1", "example_f1");
    succeeds("train " AS_ALL("one.arff") "--arff-index-base 1 --set model.hidden=[2] -o one-based", "test");
    succeeds("eval one-based one.arff --threads 1", "example_f1");
    succeeds("predict one-based one.arff --threads 1", "\"row\":2");
    write_file("of.xc", "3 3 2\n1 0:1 2:2\n0 1:1\n0,1 0:1 1:3\n");
    write_file("of.svm", "1 1:1 3:2\n0 2:1\n0,1 1:1 2:3\n");
    succeeds("train " AS_ALL("of.xc") "--set model.hidden=[2] -o of-xc", "test");
    outcome xc = run("predict of-xc of.xc --threads 1"), svm = run("predict of-xc of.svm --threads 1");
    assert_int_equal(xc.code, 0);
    assert_string_equal(xc.out, svm.out);
    outcome_release(&xc);
    outcome_release(&svm);
    write_file("one.svm", "2 1:1 3:2\n1 2:1\n1,2 1:2 2:3\n");
    succeeds("train " AS_ALL("one.svm") "--label-base 1 --set model.hidden=[2] -o from-one", "test");
    succeeds("eval from-one one.svm --threads 1", "example_f1");
    succeeds("predict from-one one.svm --threads 1", "\"2\":");
    json_decref(document("predict from-one one.svm --threads 1 -o one.jsonl --json", 0));
    succeeds("score one.svm one.jsonl --label-base 1", "example_f1");
    write_file("far.svm", "1 1:1 9:4\n");
    static const char *const far[] = {"eval of-xc far.svm --threads 1", "predict of-xc far.svm --threads 1"};
    for (int i = 0; i < 2; i++) {
        outcome told = run(far[i]);
        assert_int_equal(told.code, 0);
        assert_non_null(strstr(told.err, "far.svm: 1 values of features that the model does not know were ignored"));
        outcome_release(&told);
    }
#undef AS_ALL
}

/* A run of here that goes on in far/ is told where it was. */
static void fails_elsewhere(void)
{
    char command[512];
    write_data("toy.arff");
    fails("train " TOY_NET "--lr 1e30 -o astray", 4, "try a smaller learning rate");
    snprintf(
        command, sizeof command,
        "cd %s/far && %s/sealgraph train ../astray 2>err.txt >out.txt; test $? -eq 1 && grep -q \"toy.arff: cannot "
        "open the file: No such file or directory; relative paths of a run are looked up from the folder in which it "
        "was begun, $(realpath ..): go on from there$\" err.txt",
        program_folder, SG_BINARY_DIR);
    assert_int_equal(system(command), 0);
}

/* Relative files are those under data.dir, once it is given, and no others. */
static void data_folders(void **state)
{
    (void)state;
    char command[512];
    write_data("toy.arff");
    write_data("moved.arff");
    succeeds("train --train moved.arff --test moved.arff --set model.hidden=[2] --epochs 1 --threads 1 -q -o moved",
             "test");
    snprintf(command, sizeof command, "cd %s && mkdir sub && mv moved.arff sub", program_folder);
    assert_int_equal(system(command), 0);
    fails("eval moved", 1, "moved.arff: cannot open the file: No such file or directory; give --data-dir");
    succeeds("eval moved --data-dir sub --threads 1", "example_f1");
    succeeds("data info moved.arff --data-dir sub", "rows         200");
    fails("data info toy.arff --data-dir sub", 1, "sub/toy.arff: cannot open");
    fails("data info toy.arff --data-dir nowhere", 1, "nowhere: cannot open the folder that is data.dir");
    fails("data info toy.arff --data-dir toy.arff", 1, "toy.arff: data.dir is no folder");
#define ADVICE "; give --data-dir (data.dir in the recipe), the folder of the recipe's files"
    write_file("far.yml", "data: {train: [moved.arff], test: [moved.arff]}\n");
    fails("train -c far.yml -o far", 1, "moved.arff: cannot open the file: No such file or directory" ADVICE);
    fails("data info -c far.yml", 1, "moved.arff: cannot open the file: No such file or directory" ADVICE);
    fails("data split -c far.yml", 1, "moved.arff: cannot open the file: No such file or directory" ADVICE);
    fails("data check moved.arff -c far.yml", 1, "moved.arff: cannot open the file: No such file or directory\n");
    fails("train -c far.yml -o far --set data.dir=/nowhere", 1, "No such file or directory\n");
    write_file("far.yml", "data: {dir: /nowhere, train: [moved.arff], test: [moved.arff]}\n");
    fails("train -c far.yml -o far", 1,
          "/nowhere: cannot open the folder that is data.dir: No such file or directory" ADVICE);
    write_file("far.yml", "data: {train: [/nowhere/a.arff], test: [/nowhere/a.arff]}\n");
    fails("train -c far.yml -o far", 1, "/nowhere/a.arff: cannot open the file: No such file or directory\n");
    fails("train --train moved.arff -o far", 1, "moved.arff: cannot open the file: No such file or directory\n");
    assert_false(exists("far"));
#undef ADVICE
    snprintf(command, sizeof command, "mkdir %s/far", program_folder);
    assert_int_equal(system(command), 0);
    write_file("far/config.yml", "data: {train: [moved.arff], test: [moved.arff]}\n");
    fails(
        "train far", 1,
        "No such file or directory; relative paths of a run are looked up from the folder in which it was begun: go on "
        "from there\n");
    fails_elsewhere();
    fails("train far --data-dir sub", 2, "data.dir is null there and sub here"); /* what it does not advise */
}

static void broken_models_are_refused(void **state)
{
    (void)state;
    write_data("toy.arff");
    succeeds("train " TOY "--epochs 1 --seeds 2 -q -o both", "\nstd ");
    fails("eval both toy.arff", 1, "in both/seed-N");
    succeeds("train both", "\nstd ");
    json_t *again = document("train both --json", 0);
    assert_int_equal(json_array_size(json_object_get(again, "seeds")), 2);
    json_decref(again);
    fails("train both --resume", 2, "both holds a finished run of seeds, each a run in both/seed-N: -o FOLDER");
    succeeds("eval both/seed-1 toy.arff -q --threads 1", "example_f1");
    outcome o = run("train " TOY "--epochs 1 -o whole");
    assert_int_equal(o.code, 0);
    outcome_release(&o);
    char command[512];
    snprintf(command, sizeof command, "cd %s && cp -r whole/model cut && truncate -s 100 cut/model.safetensors",
             program_folder);
    assert_int_equal(system(command), 0);
    fails("model info cut", 3, "model.safetensors");
    fails("eval cut toy.arff", 3, "model.safetensors");
    fails("eval nowhere toy.arff", 1, "cannot open nowhere: No such file or directory: give a run folder or");
    fails("eval toy.arff", 1, "toy.arff is a file: give a run folder or a model folder");
    fails("predict . toy.arff", 1, ". is neither a run folder nor a model folder: there is no model.safetensors in it");
    fails("model info .", 1, ". is neither a run folder nor a model folder");
    snprintf(command, sizeof command, "cd %s && rm cut/model.safetensors", program_folder);
    assert_int_equal(system(command), 0);
    fails("eval cut toy.arff", 1, "cannot open cut/model.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_without_data),     cmocka_unit_test(data_commands),
        cmocka_unit_test(data_from_pipes),        cmocka_unit_test(standard_input_has_one_name),
        cmocka_unit_test(train_evaluate_predict), cmocka_unit_test(files_are_read_as_in_training),
        cmocka_unit_test(info_of_any_model),      cmocka_unit_test(equal_seeds_equal_bytes),
        cmocka_unit_test(data_folders),           cmocka_unit_test(broken_models_are_refused),
    };
    return cmocka_run_group_tests(tests, program_make_folder, program_remove_folder);
}
