/* run_test.c - the built program as a user runs it: exit codes, what goes to which stream, at most three lines for a failure,
 * JSON that parses, and a small run from training to prediction. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/program.h"

static outcome run(const char *arguments) { return program_run("", arguments); }

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", program_folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int exists(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", program_folder, name);
    return access(path, F_OK) == 0;
}

static void fails(const char *arguments, int code, const char *message)
{
    outcome_is_failure(run(arguments), arguments, code, message);
}

static void succeeds(const char *arguments, const char *printed)
{
    outcome o = run(arguments);
    if (o.code != 0 || !strstr(o.out, printed))
        fail_msg("%s: code %d\nout: %s\nerr: %s", arguments, o.code, o.out, o.err);
    outcome_release(&o);
}

static json_t *document(const char *arguments, int code) { return outcome_document(run(arguments), arguments, code); }

static void usage_errors(void **state)
{
    (void)state;
    fails("", 2, "no command given");
    fails("tarin", 2, "unknown command 'tarin' (did you mean 'train'?)");
    fails("data", 2, "data needs one of: info, check, convert, split");
    fails("train --epohcs 3", 2, "unknown flag --epohcs (did you mean --epochs?)");
    fails("train --epochs", 2, "--epochs needs a value");
    fails("train --resume=yes", 2, "--resume takes no value");
    fails("train --progress sometimes", 2, "--progress must be one of auto|bar|plain|none");
    fails("train --set lr", 2, "--set expects KEY=VALUE");
    fails("train --require test/example_f1", 2, "--require expects");
    fails("train --require 'test/example_f1>=nan'", 2, "--require expects");
    fails("train --require 'test/example_f1>=0x1'", 2, "--require expects");
    fails("train --require 'test/exmaple_f1>=0.4'", 2, "unknown metric 'exmaple_f1' (did you mean 'example_f1'?)");
    fails("train --require 'val/quality>1'", 2, "unknown metric 'quality'");
    fails("eval run --require 'val/micro_f1>0'", 2, "eval has test metrics alone");
    fails("config show extra", 2, "unexpected argument 'extra'");
    fails("config show --set trian.lr=1e-2", 2, "--set: unknown key 'trian.lr' (did you mean 'train.lr'?)");
    fails("config show --lr nan", 2, "--lr: train.lr expects a finite number, not 'nan'");
    fails("config show --lr -1", 2, "--lr: train.lr must be in (0, inf), not -1");
    fails("config show -c absent.yml", 2, "cannot open the configuration absent.yml");
    fails("completion tcsh", 2, "not 'tcsh'");
    fails("ops frobnicate", 2, "unknown op 'frobnicate'");
    fails("train", 2, "no data");
    fails("train --train no.arff --labels 2 -o ''", 2, "has no name");
    fails("train --train no.arff --labels 2 --seeds 1,2,1 --dry-run", 2, "lists 1 twice");
}

static void mistakes_in_files_are_placed(void **state)
{
    (void)state;
    write_file("typo.yml", "train:\n  lrr: 0.1\n");
    fails("config show -c typo.yml", 2, "typo.yml:2:3: unknown key 'train.lrr' (did you mean 'train.lr'?)");
    json_t *value = document("config show -c typo.yml --json", 2), *error = json_object_get(value, "error");
    assert_int_equal(json_integer_value(json_object_get(error, "code")), 2);
    assert_string_equal(json_string_value(json_object_get(error, "file")), "typo.yml");
    assert_int_equal(json_integer_value(json_object_get(error, "line")), 2);
    assert_int_equal(json_integer_value(json_object_get(error, "column")), 3);
    json_decref(value);
    write_file("bad.arff", "@relation 'x: -C 1'\n@attribute y {0,1}\n@attribute a numeric\n@data\n0,1\n1,hot\n");
    fails("data info bad.arff", 3, "bad.arff:6:3");
    fails("train --train bad.arff -o nothing", 3, "bad.arff:6:3");
    assert_false(exists("nothing"));
    value = document("data info bad.arff --json", 3);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(value, "error"), "line")), 6);
    json_decref(value);
    write_file("nolabels.arff", "@relation x\n@attribute a numeric\n@attribute y {0,1}\n@data\n0,1\n");
    fails("data info nolabels.arff", 3, "nolabels.arff");
    fails("data info absent.arff", 1, "absent.arff");
}

static void help_and_tables(void **state)
{
    (void)state;
    succeeds("help", "sealgraph COMMAND");
    succeeds("--help", "commands");
    succeeds("train --help", "--labels-xml FILE");
    succeeds("help data info", "count rows");
    succeeds("help --man", ".Sh EXIT STATUS");
    succeeds("--version", "sealgraph ");
    succeeds("--version -v", "instructions");
    succeeds("ops", "matmul");
    succeeds("ops softplus", "elementwise");
    succeeds("completion bash", "complete -o filenames -F _sealgraph sealgraph");
    succeeds("completion zsh", "#compdef sealgraph");
    succeeds("completion fish", "complete -c sealgraph");
    succeeds("config show --origin --lr 0.5", "# --lr");
    succeeds("gradcheck --loss seal-dynamic", "energy  gradient");
    json_decref(document("gradcheck --json", 0));
    succeeds("init --loss seal-dynamic --train a.arff", "name: seal-dynamic");
    json_decref(document("config schema", 0));
    json_decref(document("config show --json", 0));
    json_decref(document("version --json", 0));
    json_t *ops = document("ops --json", 0);
    assert_true(json_array_size(json_object_get(ops, "ops")) > 50);
    json_decref(ops);
}

static void completion_is_valid_bash(void **state)
{
    (void)state;
    outcome o = run("completion bash");
    write_file("completion.sh", o.out);
    char command[512];
    snprintf(command, sizeof command,
             "cd %s && bash -c 'source completion.sh; COMP_WORDS=(sealgraph train --dev); COMP_CWORD=2; _sealgraph; "
             "echo ${COMPREPLY[*]}' >words.txt",
             program_folder);
    assert_int_equal(system(command), 0);
    char *words = program_file("words.txt");
    assert_int_equal(strlen(words), strlen("--dev-fraction --device\n"));
    assert_true(strstr(words, "--dev-fraction") && strstr(words, "--device"));
    free(words);
    outcome_release(&o);
}

/* 200 rows whose three labels are the signs of three features. */
static void write_data(const char *name)
{
    char path[256];
    unsigned bits = 12345;
    snprintf(path, sizeof path, "%s/%s", program_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("@relation 'toy: -C 3'\n@attribute p {0,1}\n@attribute q {0,1}\n@attribute r {0,1}\n", file);
    fputs("@attribute a numeric\n@attribute b numeric\n@attribute c numeric\n@data\n", file);
    for (int row = 0; row < 200; row++) {
        double x[3];
        for (int i = 0; i < 3; i++) {
            bits = bits * 1103515245u + 12345u;
            x[i] = (double)(bits >> 16 & 0x7fff) / 16384 - 1;
        }
        fprintf(file, "%d,%d,%d,%.4f,%.4f,%.4f\n", x[0] > 0, x[1] > 0, x[2] > 0 || x[0] <= 0, x[0], x[1], x[2]);
    }
    fclose(file);
}

#define TOY_NET "--train toy.arff --test toy.arff --set model.hidden=[16] --threads 1 -q "
#define TOY TOY_NET "--lr 0.02 "

/* A setting on the command line that has no effect is refused, by the same rule for all commands, and not listed. */
static void settings_without_effect(void **state)
{
    (void)state;
    write_data("toy.arff");
    static const struct {
        const char *arguments, *message;
    } refused[] = {
        {"eval run --lr 1", "--lr: eval does not read train.lr"},
        {"eval run toy.arff --labels 3", "--labels: eval does not read data.labels with FILEs"},
        {"eval run -c toy.yml", "eval takes no -c"},
        {"eval run --config=toy.yml", "eval takes no --config"},
        {"predict run toy.arff --set data.format=arff", "--set: predict does not read data.format"},
        {"predict run toy.arff --threshold 0.1", "--threshold: predict does not read train.threshold"},
        {"score toy.arff toy.arff --seed 2", "--seed: score does not read seed"},
        {"data info toy.arff --batch 4", "--batch: data info does not read train.batch"},
        {"data info toy.arff --train toy.arff", "--train: data info does not read data.train with FILEs"},
        {"data convert toy.arff -o t.svm --split parts.tsv", "--split: data convert does not read data.split"},
        {"demo --loss cross-entropy", "--loss: demo does not read loss.name"},
        {"demo --train toy.arff", "--train: demo does not read data.train"},
        {"graph --lr 1", "--lr: graph does not read train.lr"},
        {"gradcheck --epochs 1", "--epochs: gradcheck does not read train.epochs"},
        {"gradcheck --device cpu", "--device: gradcheck does not read device without --golden"},
        {"gradcheck --golden . --seed 1", "--seed: gradcheck does not read seed with --golden"},
        {"predict run toy.arff --to labels --json", "--to has no effect with --json"},
        {"graph --as dot --plan", "--as has no effect with --plan"},
        {"graph --as dot --json", "--as has no effect with --json"},
        {"bench ops --csv --json", "--csv has no effect with --json"},
        {"bench ops --csv --markdown", "--markdown has no effect with --csv"},
        {"train --force --resume -o x", "--force has no effect with --resume"},
        {"train --dry-run --require 'test/micro_f1>0'", "--require has no effect with --dry-run"},
        {"gradcheck --golden . --order 1", "--order has no effect with --golden"},
        {"ops --device cuda", "--device has no effect without --check"},
        {"config show --threads 2000", "threads must be in [0, 1024], not 2000"},
        {"predict run toy.arff --require 'test/micro_f1>0'", "predict takes no --require"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        outcome o = run(refused[i].arguments);
        if (o.code != 2 || !strstr(o.err, refused[i].message) || text_lines(o.err) > 3)
            fail_msg("%s: code %d, %s", refused[i].arguments, o.code, o.err);
        outcome_release(&o);
    }
    static const char *const commands[] = {"eval", "predict", "score", "data info", "demo", "graph", "gradcheck"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "%s --help", commands[i]);
        outcome o = run(arguments);
        assert_int_equal(o.code, 0);
        assert_null(strstr(o.out, "--seeds"));
        assert_non_null(strstr(o.out, i == 2 || i == 3 ? "--labels-xml" : "--device"));
        outcome_release(&o);
    }
    succeeds("train --help", "--seeds");
}

/* Variables are the same for all commands: those of settings that a command does not read do not stop it. */
static void variables_without_effect(void **state)
{
    (void)state;
    static const struct {
        const char *settings, *arguments;
        int code;
        const char *message;
    } cases[] = {
        {"SEALGRAPH_SEED=x", "graph -q", 0, ""},
        {"SEALGRAPH_SEDE=1", "graph -q", 0, ""},
        {"SEALGRAPH_TRAIN_EPOCHS=0", "data info toy.arff", 0, ""},
        {"SEALGRAPH_SEEDS=2", "config show", 0, ""},
        {"SEALGRAPH_SEED=x", "config show", 2, "SEALGRAPH_SEED: seed expects"},
        {"SEALGRAPH_SEDE=1", "config show", 2, "SEALGRAPH_SEDE: unknown variable"},
        {"SEALGRAPH_DATA_LABELS=x", "data info toy.arff", 2, "SEALGRAPH_DATA_LABELS: data.labels expects"},
        {"SEALGRAPH_SEED=1", "graph --seed 1", 2, "--seed: graph does not read seed"},
    };
    write_data("toy.arff");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        outcome o = program_run(cases[i].settings, cases[i].arguments);
        if (o.code != cases[i].code || !strstr(o.err, cases[i].message))
            fail_msg("%s %s: code %d, %s", cases[i].settings, cases[i].arguments, o.code, o.err);
        outcome_release(&o);
    }
}

/* As for gradcheck, data need not be there: then sizes are given, or small. */
static void graph_without_data(void **state)
{
    (void)state;
    write_data("toy.arff");
    write_file("no.yml", "data: {files: [nowhere.arff], labels: 2}\nmodel: {hidden: [7]}\n");
    outcome o = run("graph -c no.yml --of predict");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.err, "no data: nowhere.arff: the graph is for 5 features and 4 labels"));
    assert_non_null(strstr(o.out, "[32, 4]"));
    outcome_release(&o);
    succeeds("graph --loss seal-dynamic --set data.features_count=11 --set data.labels_count=3 --batch 6", "[6, 11]");
    succeeds("graph " TOY_NET "--of predict", "[32, 3]");
    json_decref(document("graph -c no.yml --of hvp --plan --json", 0));
    write_file("broken.arff", "@relation 'x: -C 1'\n@attribute y {0,1}\n@data\n7\n");
    fails("graph --train broken.arff", 3, "broken.arff");
}

static void configuration_round_trip(void **state)
{
    (void)state;
    outcome o = run("config show --set model.hidden=[5,6] --lr 3e-4 --train x.arff");
    write_file("shown.yml", o.out);
    outcome again = run("config show -c shown.yml");
    assert_string_equal(o.out, again.out);
    outcome_release(&o);
    outcome_release(&again);
    o = run("init --seed 7 -o made.yml");
    assert_int_equal(o.code, 0);
    outcome_release(&o);
    fails("init -o made.yml", 2, "made.yml exists");
    succeeds("config show -c made.yml", "seed: 7");
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

/* -o - is standard output for all that write one text. */
static void outputs_to_standard_output(void)
{
    succeeds("predict run toy.arff --threads 1 -o -", "\"scores\"");
    succeeds("graph -q -o -", "[32, 5]");
    succeeds("data split toy.arff -o - -q", "\ttrain");
    succeeds("data convert toy.arff --to libsvm -q -o -", ":");
    succeeds("init -o -", "Made by");
    json_decref(document("data convert toy.arff --to libsvm --json -o -", 2));
    assert_false(exists("-"));
}

/* Standard output is written on from where it is, whoever wrote to it before: a file that is appended to keeps what it holds. */
static void standard_output_is_shared(void **state)
{
    (void)state;
    static const char *const writers[] = {"data convert toy.arff --to libsvm -q -o -", "data split toy.arff -q -o -",
                                          "data split toy.arff -q", "graph -q -o -"};
    write_data("toy.arff");
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++)
        for (int append = 0; append < 2; append++) {
            char arguments[512];
            write_file("kept.txt", "KEEP\n");
            snprintf(arguments, sizeof arguments,
                     "--version >alone.txt; (echo BEFORE; %s/sealgraph %s; echo AFTER) %s kept.txt; "
                     "%s/sealgraph %s >alone.txt; true",
                     SG_BINARY_DIR, writers[i], append ? ">>" : ">", SG_BINARY_DIR, writers[i]);
            outcome o = run(arguments);
            char *kept = program_file("kept.txt"), *alone = program_file("alone.txt"), *at = strstr(kept, "BEFORE\n");
            assert_non_null(at);
            assert_int_equal(at - kept, append ? 5 : 0);
            assert_true(strlen(alone) > 100 && strncmp(at + 7, alone, strlen(alone)) == 0);
            assert_string_equal(at + 7 + strlen(alone), "AFTER\n");
            free(kept);
            free(alone);
            outcome_release(&o);
        }
}

static void train_evaluate_predict(void **state)
{
    (void)state;
    write_data("toy.arff");
    static const char *const graphs[] = {"step", "predict", "hvp"};
    for (int i = 0; i < 3; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "graph " TOY_NET "--of %s --plan --json", graphs[i]);
        json_t *cost = document(arguments, 0), *planned = json_object_get(cost, "planned");
        assert_string_equal(json_string_value(json_object_get(cost, "graph")), graphs[i]);
        assert_true(json_real_value(json_object_get(cost, "flops")) > 1000);
        assert_true(json_integer_value(json_object_get(planned, "temporaries")) > 0);
        assert_true(json_integer_value(json_object_get(planned, "parameters")) >= (3 * 16 + 16 + 3 * 16) * 4);
        json_decref(cost);
    }
    succeeds("graph " TOY_NET "--of hvp --plan", "temporaries");
    json_t *dry = document("train " TOY "--dry-run --json -o run", 0);
    assert_int_equal(json_integer_value(json_object_get(dry, "task_parameters")), 16 * 4 + 16 * 3);
    json_decref(dry);
    assert_false(exists("run"));
    fails("train " TOY "--resume -o run", 2, "no unfinished run");
    json_t *trained = document("train " TOY "--epochs 15 -o run --json", 0);
    json_t *test = json_object_get(trained, "test");
    assert_string_equal(json_string_value(json_object_get(trained, "run")), "run");
    assert_true(json_number_value(json_object_get(test, "example_f1")) > 0.8);
    assert_true(exists("run/metrics.json") && exists("run/model/model.safetensors"));
    fails("train " TOY "--epochs 15 -o run", 2, "finished run");
    json_t *evaluated = document("eval run --json -q --threads 1", 0);
    double before = json_number_value(json_object_get(test, "example_f1"));
    double after = json_number_value(json_object_get(json_object_get(evaluated, "test"), "example_f1"));
    assert_true(before - after < 1e-7 && after - before < 1e-7);
    json_decref(evaluated);
    json_decref(trained);
    json_decref(document("eval run --require 'test/example_f1>=2' -q --threads 1 --json", 5));
    json_decref(document("eval run --require 'test/example_f1>=0.5' -q --threads 1 --json", 0));
    json_decref(document("model info run --json", 0));
    numbers_are_short();
    conditions_at_the_bound();
    outputs_to_standard_output();
    succeeds("model info run", "task/G");
    succeeds("predict run toy.arff --threads 1", "\"scores\"");
    json_decref(document("predict run toy.arff -o p.jsonl --json --threads 1", 0));
    json_t *scored = document("score toy.arff p.jsonl --json", 0);
    assert_true(json_number_value(json_object_get(json_object_get(scored, "metrics"), "example_f1")) > 0.8);
    json_decref(scored);
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

/* Rows without a label are left out, which one line tells, but for -q; files of JSON end with a newline. */
static void left_out_rows(void **state)
{
    (void)state;
    write_file("some.arff",
               "@relation 'x: -C 1'\n@attribute y {0,1}\n@attribute a numeric\n@data\n1,1\n0,2\n1,3\n0,4\n1,5\n");
    static const char *const command = "train --train some.arff --validation some.arff --test some.arff --threads 1 "
                                       "--epochs 1 --set model.hidden=[2] --force -o some ";
    outcome told = program_run("", command);
    assert_int_equal(told.code, 0);
    assert_non_null(strstr(told.err, "6 rows without a label left out: 2 of training, 2 of validation, 2 of test"));
    outcome_release(&told);
    char quiet[256];
    snprintf(quiet, sizeof quiet, "%s --json -q", command);
    outcome silent = run(quiet);
    assert_null(strstr(silent.err, "without a label"));
    json_decref(outcome_document(silent, quiet, 0));
    static const char *const files[] = {"some/run.json", "some/metrics.json"};
    for (int i = 0; i < 2; i++) {
        char *text = program_file(files[i]);
        size_t n = strlen(text);
        assert_true(n > 2 && text[n - 2] == '}' && text[n - 1] == '\n');
        free(text);
    }
}

/* Files for a model are read as those of its training were: blank lines are rows, and indices begin where they did. */
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
#undef AS_ALL
}

/* Names need not be UTF-8, JSON must: one document and the right code whatever the name, and the bytes of the file's name kept. */
static void any_name_gives_a_document(void **state)
{
    (void)state;
    json_t *missing = document("eval 'no\xffne' --json", 1);
    const char *message = json_string_value(json_object_get(json_object_get(missing, "error"), "message"));
    assert_non_null(message && strstr(message, "no\xef\xbf\xbdne") ? message : NULL);
    json_decref(missing);
    write_data("toy.arff");
    json_t *run = document("train " TOY "--epochs 1 -q --json -o 'r\xe9sum'", 0);
    assert_string_equal(json_string_value(json_object_get(run, "run")), "r\xef\xbf\xbdsum");
    json_decref(run);
    json_decref(document("eval 'r\xe9sum' toy.arff --json --threads 1", 0));
    fails("eval 'two\nlines\033[31m'", 1, "two?lines?[31m");
}

static void broken_models_are_refused(void **state)
{
    (void)state;
    write_data("toy.arff");
    succeeds("train " TOY "--epochs 1 --seeds 2 -q -o both", "mean");
    fails("eval both toy.arff", 1, "in both/seed-N");
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
    fails("eval nowhere toy.arff", 1, "nowhere");
}

/* The status of `sealgraph ARGUMENTS`, interrupted as by Ctrl-C once it has made the file `sign`, however long that takes. */
static int interrupted(const char *arguments, const char *sign)
{
    char command[1024];
    int status = -1;
    snprintf(command, sizeof command, "cd %s && exec env -i PATH=/usr/bin:/bin %s/sealgraph %s >out.txt 2>err.txt",
             program_folder, SG_BINARY_DIR, arguments);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    for (int i = 0; i < 6000 && !exists(sign) && waitpid(child, &status, WNOHANG) == 0; i++)
        usleep(10000);
    kill(child, SIGINT);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void interrupted_runs_go_on(void **state)
{
    (void)state;
    write_data("toy.arff");
    int status = interrupted("train " TOY "--epochs 100000 --set train.patience=100000 -o stopped",
                             "stopped/checkpoint.safetensors");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    char *err = program_file("err.txt");
    assert_non_null(strstr(err, "the same command goes on"));
    free(err);
    assert_true(exists("stopped/checkpoint.safetensors"));
    assert_false(exists("stopped/metrics.json"));
    fails("train " TOY "--epochs 5 -o stopped", 2, "other settings");
    char log[256];
    snprintf(log, sizeof log, "%s/stopped/metrics.jsonl", program_folder);
    assert_int_equal(unlink(log), 0); /* it comes back at the end of an epoch */
    interrupted("train --resume stopped", "stopped/metrics.jsonl");
    err = program_file("err.txt");
    const char *resumed = strstr(err, "resume   from epoch ");
    assert_non_null(resumed);
    assert_non_null(strstr(resumed, "; best example_f1 0."));
    free(err);
}

/* Needs no recipe; with one it checks both losses of it. */
static void gradcheck_and_bench(void **state)
{
    (void)state;
    succeeds("gradcheck --order 1", "task  gradient");
    json_t *checked = document("gradcheck --order 3 --set loss.name=seal-dynamic --json", 0);
    json_t *losses = json_object_get(checked, "losses");
    assert_true(json_is_true(json_object_get(checked, "passed")));
    assert_int_equal(json_array_size(losses), 2);
    assert_int_equal(json_array_size(json_object_get(json_array_get(losses, 1), "worst")), 4);
    json_decref(checked);
    fails("gradcheck --order 4", 2, "--order must be a whole number in [1, 3]");
    fails("gradcheck -c absent.yml", 2, "absent.yml");
    fails("gradcheck --family losses", 2, "give --golden DIR");
    succeeds("ops --check matmul", "1 operators, 1 passed, 0 failed");
    fails("ops --check mat_mul", 2, "unknown op 'mat_mul'");
    json_t *ops = document("ops --check exp --json", 0);
    assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(ops, "ops"), 0), "orders")), 4);
    json_decref(ops);
    fails("gradcheck --golden absent", 2, "absent");
    outcome placed = run("bench bert --hidden 16 --heads 3 --layers 1 --vocab 50 --batch 2 --seq 8 --time 1");
    assert_null(strstr(placed.err, SG_SOURCE_DIR));
    outcome_is_failure(placed, "bench bert --heads 3", 2, "models/bert.c:");
    fails("bench step --shape moon", 2, "bibtex|delicious|eurlexev");
    fails("train --set train.lr=nan -o nothing", 2, "train.lr expects a finite number");
    assert_false(exists("nothing"));
    succeeds("bench --help", "--shape");
    succeeds("demo --help", "--json");
}

#define TINY_BERT "bench bert --layers 2 --hidden 16 --heads 2 --vocab 50 --batch 2 --seq 8 --time 1 --threads 1"

/* Gradient and product agree with the decomposed graph, a product costs more, and a training step updates every weight. */
static void bench_of_bert(void **state)
{
    (void)state;
    static const char *const names[] = {"bert/gradient/B2T8", "bert/hvp/B2T8", "bert/train/B2T8",
                                        "bert/train_dropout/B2T8"};
    json_t *timed = document(TINY_BERT " --check --json", 0), *rows = json_object_get(timed, "rows");
    double flops[4];
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        json_t *row = json_array_get(rows, i);
        assert_string_equal(json_string_value(json_object_get(row, "name")), names[i]);
        assert_true(json_real_value(json_object_get(row, "examples_per_s")) > 0);
        flops[i] = json_real_value(json_object_get(row, "flops"));
        json_t *difference = json_object_get(row, "difference");
        assert_true((difference != NULL) == (i < 2));
        if (difference)
            assert_true(json_real_value(difference) < 1e-5);
    }
    assert_true(flops[1] > 2 * flops[0] && flops[1] < 4 * flops[0]);
    assert_true(flops[2] > flops[0] && flops[3] > flops[2]);
    json_decref(timed);
    succeeds(TINY_BERT " --only hvp", "bert/hvp/B2T8");
    fails(TINY_BERT " --only moon", 2, "train, train_dropout, gradient, hvp");
    fails(TINY_BERT " --heads 3", 2, "no multiple of 3 heads");
    fails(TINY_BERT " --layers 0", 2, "--layers must be a whole number in [1, 60]");
}

/* A folder with a case that holds, one that does not and one of an op unknown here. */
static void golden_folders(void **state)
{
    (void)state;
#define CASE(name, op, out)                                                                                            \
    "{\"name\":\"" name "\",\"op\":\"" op "\",\"inputs\":{\"x\":{\"dtype\":\"float64\",\"shape\":[],\"data\":[1]}},"   \
    "\"outputs\":{\"out\":{\"dtype\":\"float64\",\"shape\":[],\"data\":[" out "]}}}"
    write_file("elementwise.json", "{\"family\":\"elementwise\",\"cases\":[" CASE("good", "neg", "-1") "]}");
    succeeds("gradcheck --golden .", "1 cases, 1 passed, 0 failed, 0 not built");
    write_file("elementwise.json", "{\"family\":\"elementwise\",\"cases\":[" CASE("good", "neg", "-1") "," CASE(
                                       "bad", "neg", "1") "," CASE("odd", "negate", "-1") "]}");
#undef CASE
    outcome o = run("gradcheck --golden . --family elementwise --device cpu");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.out, "elementwise bad (neg)"));
    assert_non_null(strstr(o.out, "not built elementwise odd (negate)"));
    assert_non_null(strstr(o.out, "\n3 cases, 1 passed, 1 failed, 1 not built\n"));
    outcome_release(&o);
    json_t *report = document("gradcheck --golden . --json", 1);
    assert_int_equal(json_integer_value(json_object_get(report, "failed")), 1);
    json_decref(report);
    fails("gradcheck --golden . --family losses", 2, "unknown family 'losses'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_errors),
        cmocka_unit_test(mistakes_in_files_are_placed),
        cmocka_unit_test(help_and_tables),
        cmocka_unit_test(completion_is_valid_bash),
        cmocka_unit_test(configuration_round_trip),
        cmocka_unit_test(settings_without_effect),
        cmocka_unit_test(variables_without_effect),
        cmocka_unit_test(graph_without_data),
        cmocka_unit_test(data_commands),
        cmocka_unit_test(standard_output_is_shared),
        cmocka_unit_test(train_evaluate_predict),
        cmocka_unit_test(left_out_rows),
        cmocka_unit_test(files_are_read_as_in_training),
        cmocka_unit_test(equal_seeds_equal_bytes),
        cmocka_unit_test(broken_models_are_refused),
        cmocka_unit_test(any_name_gives_a_document),
        cmocka_unit_test(interrupted_runs_go_on),
        cmocka_unit_test(gradcheck_and_bench),
        cmocka_unit_test(bench_of_bert),
        cmocka_unit_test(golden_folders),
    };
    return cmocka_run_group_tests(tests, program_make_folder, program_remove_folder);
}
