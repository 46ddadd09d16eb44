/* settings_test.c - wrong use: flags, settings and variables that are unknown, out of range or without effect, files that are not
 * there; each is one line with its place, and its exit code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/program.h"

static void usage_errors(void **state)
{
    (void)state;
    fails("", 2, "no command given");
    fails("tarin", 2, "unknown command 'tarin' (did you mean 'train'?)");
    fails("-v train", 2, "-v stands before the command: flags go behind it, sealgraph COMMAND -v\n");
    fails("data", 2, "data needs one of: info, check, convert, split");
    fails("data", 2, "split\nTry 'sealgraph data --help'.\n");
    fails("config recipe", 2,
          "config needs one of: show, schema, recipes; not 'recipe' (did you mean 'config recipes'?)\n"
          "Try 'sealgraph config --help'.\n");
    fails("config list", 2, "config needs one of: show, schema, recipes; not 'list'\n");
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
    fails("train --require 'test/foo>1'", 2, "unknown metric 'foo'\n");
    fails("eval run --require 'val/micro_f1>0'", 2, "eval has test metrics alone");
    fails("config show extra", 2, "unexpected argument 'extra'");
    fails("config show --set trian.lr=1e-2", 2, "--set: unknown key 'trian.lr' (did you mean 'train.lr'?)");
    fails("config show --lr nan", 2, "--lr: train.lr expects a finite number, not 'nan'");
    fails("config show --lr -1", 2, "--lr: train.lr must be in (0, inf), not -1");
    fails("config show -c absent.yml", 1, "cannot open the configuration absent.yml");
#define LISTED ", `sealgraph config recipes` lists them"
    fails("config show -c absent.yml", 1, LISTED "\n");
    fails("train -c bibtex/cros-entropy.yml", 1, LISTED " (did you mean 'bibtex/cross-entropy.yml'?)\n");
    fails("graph -c bibtex/cross-entropy", 1, LISTED " (did you mean 'bibtex/cross-entropy.yml'?)\n");
#undef LISTED
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

/* A file that cannot be opened is a failure of the machine, whatever it was to hold; what it holds may then be wrong in other ways. */
static void files_that_are_absent(void **state)
{
    (void)state;
    write_data("toy.arff");
    write_file("child.yml", "extends: absent.yml\n");
    static const char *const commands[] = {
        "config show -c absent",
        "config show -c .",
        "config show -c child.yml",
        "train --train absent --labels 2 -o x",
        "train --train toy.arff --test absent -o x",
        "train --train toy.arff --labels-xml absent -o x",
        "train --files toy.arff --split absent -o x",
        "data info absent",
        "data info .",
        "data convert absent -o x.svm",
        "eval absent",
        "predict absent toy.arff",
        "model info absent",
        "score absent toy.arff",
        "score toy.arff absent.jsonl",
        "graph --train absent",
        "graph --files toy.arff --data-dir absent --split absent",
        "data info toy.arff --data-dir absent",
        "gradcheck -c absent",
        "gradcheck --golden absent",
        "init -o absent/x.yml",
        "graph -q -o absent/x.dot",
        "score toy.arff toy.arff --per-label absent/x.tsv",
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        fails(commands[i], 1, i == 1 || i == 8 ? "." : "absent");
    assert_false(exists("x") || exists("x.svm"));
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

/* A setting on the command line that has no effect is refused, by the same rule for all commands. */
static const struct {
    const char *arguments, *message;
} without_effect[] = {
    {"eval run --lr 1", "--lr: eval does not read train.lr"},
    {"eval run toy.arff --labels 3", "--labels: eval reads data.labels only without FILEs"},
    {"eval run toy.arff --fractions 1,0,0", "--fractions: eval reads data.fractions only without FILEs"},
    {"eval run -c toy.yml", "eval takes no -c"},
    {"eval run --config=toy.yml", "eval takes no --config"},
    {"predict run toy.arff --set data.format=arff", "--set: predict does not read data.format"},
    {"predict run toy.arff --threshold 0.1",
     "--threshold: predict does not read train.threshold: a model keeps its own"},
    {"eval run --threshold 0.1", "`score FILE P.jsonl --threshold X`"},
    {"eval run --set train.threshold=0.1", "--set: eval does not read train.threshold: a model keeps its own"},
    {"score toy.arff toy.arff --seed 2", "--seed: score does not read seed"},
    {"data info toy.arff --batch 4", "--batch: data info does not read train.batch"},
    {"data info toy.arff --train toy.arff", "--train: data info reads data.train only without FILEs"},
    {"data info toy.arff --split-seed 2", "--split-seed: data info reads data.split_seed only without FILEs"},
    {"data check --files toy.arff --split-seed 2", "--split-seed: data check does not read data.split_seed"},
    {"data split toy.arff --dev-fraction 0.5", "--dev-fraction: data split reads data.dev_fraction only without"},
    {"data info --train toy.arff --fractions 1,0,0", "--fractions: data.fractions has no effect with data.train"},
    {"data info --train toy.arff --split p.tsv", "--split: data.split has no effect with data.train"},
    {"data info --files toy.arff --dev-fraction 0.1", "data.dev_fraction has no effect with data.files"},
    {"data split --files toy.arff --split p.tsv --split-seed 3", "data.split_seed has no effect with data.split"},
    {"train --train toy.arff --validation toy.arff --split-seed 3 -o x", "no effect with data.validation"},
    {"train --files toy.arff --test toy.arff -o x", "--test: data.files and data.test exclude each other"},
    {"train --train toy.arff --set energy.global=9 -o x", "energy.global has no effect with loss.name cross-ent"},
    {"train --train toy.arff --set loss.samples=9 -o x", "loss.samples has no effect with loss.name cross-entropy"},
    {"train --train toy.arff --schedule linear --set train.plateau_factor=1 -o x", "no effect with a train.schedule"},
    {"data info toy.arff --labels-xml toy.xml --labels 3", "--labels: data.labels has no effect with data.labels_xml"},
    {"data info toy.arff --close-hierarchy", "data.close_hierarchy has no effect with no data.labels_xml"},
    {"data info toy.arff --index-base 0", "--index-base: data.index_base has no effect on ARFF files"},
    {"data info toy.svm --positive 1", "--positive: data.positive has no effect on LIBSVM and XC files"},
    {"data info toy.xc --index-base 1", "--index-base: data.index_base has no effect on XC files"},
    {"data info toy.arff --label-base 1", "--label-base: data.label_base has no effect on ARFF files"},
    {"data info toy.xc --label-base 1", "--label-base: data.label_base has no effect on XC files"},
    {"score toy.svm toy.svm --labels 2", "--labels: data.labels has no effect on LIBSVM and XC files"},
    {"score toy.arff toy.arff --index-base 0", "--index-base: data.index_base has no effect on ARFF files"},
    {"train --train toy.arff --keep-blank -o x", "data.keep_blank has no effect on ARFF files"},
    {"config show --train '[a, b'", "--train: data.train: the list '[a, b' has one bracket alone"},
    {"config show --set model.hidden=3,4]", "model.hidden: the list '3,4]' has one bracket alone"},
    {"train --train toy.arff --lr 1 --set train.lr=2 -o x", "--lr and --set train.lr are the same setting: give one"},
    {"data info --set data.keep_blank=true toy.svm --no-keep-blank",
     "--keep-blank and --set data.keep_blank are the same"},
    {"train --train toy.arff --seeds 1,2 --seed 3 -o x", "--seed: seed has no effect with a list of seeds"},
    {"graph --threads 2", "--threads: graph reads threads only with --plan or --as plan"},
    {"graph --loss seal-dynamic --of predict", "--loss: graph reads loss.name only unless --of predict"},
    {"graph --of hvp --set train.clip=1", "--set: graph reads train.clip only with --of step"},
    {"graph --set energy.global=9", "energy.global has no effect with loss.name cross-entropy"},
    {"demo --schedule linear --set train.plateau_factor=1", "no effect with a train.schedule other than plateau"},
    {"graph --force", "--force has no effect without --output"},
    {"data split toy.arff --force", "--force has no effect without --output"},
    {"init --force", "--force has no effect without --output"},
    {"train --dry-run --force -o x", "--force has no effect with --dry-run"},
    {"train --train toy.arff -o -", "a run is a folder, which cannot go to standard output"},
    {"train -", "a run is a folder, which cannot go to standard output"},
    {"score toy.arff toy.arff --per-label - --json", "--per-label - and --json both want standard output"},
    {"score toy.arff toy.arff --force", "--force has no effect without --per-label"},
    {"bench step --plot -", "give a name that ends in .svg or .png"},
    {"data convert toy.arff -o t.svm --split parts.tsv", "--split: data convert does not read data.split"},
    {"demo --loss cross-entropy", "--loss: demo does not read loss.name"},
    {"demo --train toy.arff", "--train: demo does not read data.train"},
    {"graph --lr 1", "--lr: graph does not read train.lr"},
    {"gradcheck --epochs 1", "--epochs: gradcheck does not read train.epochs"},
    {"gradcheck --device cpu", "--device: gradcheck reads device only with --golden"},
    {"gradcheck --golden . --seed 1", "--seed: gradcheck reads seed only without --golden"},
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

static void settings_without_effect(void **state)
{
    (void)state;
    write_data("toy.arff");
    write_file("toy.svm", "1 1:1\n0,1 2:1\n");
    write_file("toy.xc", "2 2 2\n1 0:1\n0,1 1:1\n");
    write_file("toy.xml", "<labels><label name=\"p\"/><label name=\"q\"/></labels>\n");
    for (size_t i = 0; i < sizeof without_effect / sizeof *without_effect; i++) {
        outcome o = run(without_effect[i].arguments);
        if (o.code != 2 || !strstr(o.err, without_effect[i].message) || text_lines(o.err) > 3)
            fail_msg("%s: code %d, %s", without_effect[i].arguments, o.code, o.err);
        outcome_release(&o);
    }
}

/* Help lists what a command reads, in one of its uses at least. */
static void settings_that_are_listed(void **state)
{
    (void)state;
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
    succeeds("config show --train '[x].arff'", "[x].arff");
    succeeds("train --help", "--seeds");
    succeeds("eval --help", "train, validation, test parts of data.files (without FILEs)");
    succeeds("graph --help", "by --set, with --of step: loss.method");
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
        {"SEALGRAPH_LOG=loud", "version", 2, "SEALGRAPH_LOG must be one of quiet|verbose|debug, not 'loud'"},
        {"SEALGRAPH_ISA=avx3", "version", 2, "SEALGRAPH_ISA must be one of x86-64|avx2|avx512, not 'avx3'"},
        {"SEALGRAPH_ISA=AVX2", "config show", 2, "SEALGRAPH_ISA must be one of"},
        {"SEALGRAPH_ISA=x86-64", "version", 0, ""},
        {"SEALGRAPH_ISA=", "version", 0, ""},
        {"SEALGRAPH_SEED=x", "graph -q", 0, ""},
        {"SEALGRAPH_DATA_TRAIN=nowhere.arff", "data info toy.arff", 0, ""},
        {"SEALGRAPH_DATA_FRACTIONS=2", "data info toy.arff", 0, ""},
        {"SEALGRAPH_DATA_FRACTIONS=2", "data split toy.arff -q", 2, "SEALGRAPH_DATA_FRACTIONS"},
        {"SEALGRAPH_DATA_DEV_FRACTION=2", "data split toy.arff -q", 0, ""},
        {"SEALGRAPH_LOSS_SAMPLES=x", "graph -q --of predict", 0, ""},
        {"SEALGRAPH_LOSS_SAMPLES=x", "graph -q", 2, "SEALGRAPH_LOSS_SAMPLES"},
        {"SEALGRAPH_ENERGY_GLOBAL=9 SEALGRAPH_DATA_DEV_FRACTION=0.3", "data info --files toy.arff", 0, ""},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage_errors),
        cmocka_unit_test(mistakes_in_files_are_placed),
        cmocka_unit_test(files_that_are_absent),
        cmocka_unit_test(configuration_round_trip),
        cmocka_unit_test(settings_without_effect),
        cmocka_unit_test(settings_that_are_listed),
        cmocka_unit_test(variables_without_effect),
    };
    return cmocka_run_group_tests(tests, program_make_folder, program_remove_folder);
}
