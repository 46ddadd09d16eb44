/* output_test.c - what goes where: results on standard output, messages elsewhere, -, files, and names of any bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/support/program.h"

static void help_and_tables(void **state)
{
    (void)state;
    succeeds("help", "sealgraph COMMAND");
    succeeds("--help", "commands");
    succeeds("train --help", "--labels-xml FILE");
    succeeds("help data info", "count rows");
    fails("help data foo", 2, "data needs one of: info, check, convert, split; not 'foo'");
    fails("help train foo", 2, "unknown command 'train foo'");
    succeeds("--version", "sealgraph ");
    succeeds("--version -v", "instructions");
    succeeds("ops", "matmul");
    succeeds("ops softplus", "elementwise");
    succeeds("completion bash", "complete -F _sealgraph sealgraph");
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

/* An option that would have no effect is refused: where it never has, where it has not in this use. */
static void options_without_effect(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"help --json", "help takes no --json"},
        {"completion bash --json", "completion takes no --json"},
        {"train --help --json", "--json has no effect with --help"},
        {"init --json", "init --json needs -o FILE"},
        {"init --json -o -", "init --json needs -o FILE"},
        {"data split toy.arff --json", "data split --json needs -o FILE"},
        {"data convert toy.arff --to libsvm --json -o -", "data convert --json needs -o FILE"},
    };
    write_data("toy.arff");
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        json_t *all = document(refused[i][0], 2), *error = json_object_get(all, "error");
        assert_non_null(strstr(json_string_value(json_object_get(error, "message")), refused[i][1]));
        json_decref(all);
    }
    static const char *const quiet[] = {"help",       "init",          "data check toy.arff", "model info run",
                                        "bench step", "config schema", "completion bash",     "config show"};
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "%s -v", quiet[i]);
        fails(arguments, 2, "takes no -v");
    }
    fails("ops -v", 2, "--verbose has no effect without --check");
    fails("ops --device cuda", 2, "--device has no effect without --check");
    fails("gradcheck -v", 2, "--verbose has no effect without --golden");
    outcome o = run("help init");
    assert_true(strstr(o.out, "--json") && !strstr(o.out, "--verbose"));
    outcome_release(&o);
}

/* What is odd about the rows is told wherever a data set is read, notices with -v. */
static void notes_are_told(void **state)
{
    (void)state;
    write_file("odd.arff", "@relation 'x: -C 1'\n@attribute y {0,1}\n@attribute s string\n@attribute a numeric\n"
                           "@attribute b numeric\n@data\n{0 1,3 2,2 3}\n{0 0,2 1}\n{0 1,3 1}\n{2 2}\n{0 1,2 2,3 1}\n"
                           "{3 5}\n");
    succeeds("data check odd.arff", "6 rows, 1 warning, 2 notes\n");
    json_t *found = document("data check odd.arff --json", 0);
    assert_int_equal(json_integer_value(json_object_get(found, "warnings")), 1);
    json_decref(found);
#define ODD "--files odd.arff --set data.fractions=[0.4,0.3,0.3] --set model.hidden=[2] --threads 1 --epochs 1 "
    static const char *const readers[] = {"train " ODD "-o odd --force", "train " ODD "--dry-run", "data info odd.arff",
                                          "data convert odd.arff --to libsvm -o -", "data split odd.arff",
                                          "graph --files odd.arff --set data.fractions=[0.4,0.3,0.3]",
                                          "eval odd --threads 1", "score odd.arff odd.arff",
                                          /* the model knows no other attributes */
                                          "eval odd odd.arff --threads 1", "predict odd odd.arff --threads 1"};
    enum { READERS = sizeof readers / sizeof *readers };
    for (int i = 0; i < READERS; i++)
        for (int verbose = 0; verbose < 2; verbose++) {
            char arguments[256];
            bool noted = verbose && i < READERS - 2;
            snprintf(arguments, sizeof arguments, "%s%s", readers[i], verbose ? " -v" : "");
            outcome o = run(arguments);
            if (o.code != 0 ||
                !strstr(o.err, "warning: odd.arff:7: indices of a sparse row are not in ascending order") ||
                noted != (strstr(o.err, "attribute 's' is left out: it is a string") != NULL))
                fail_msg("%s: %d %s", arguments, o.code, o.err);
            outcome_release(&o);
        }
#undef ODD
}

/* So are labels that no training row has, in one line, where rows are counted or trained on. */
static void labels_without_rows_are_told(void **state)
{
    (void)state;
    write_file("one.svm", "1 1:1\n2 2:1\n1,2 1:1 2:1\n1 2:2\n");
    write_file("zero.svm", "0 1:1\n1 2:1\n");
#define ONE "--train one.svm --validation zero.svm --set model.hidden=[2] --threads 1 --epochs 1 "
    static const char *const readers[][2] = {
        {"data info one.svm", "1 of 3 labels is on in no row, so never predicted ('0'): labels that are numbers count"},
        {"data info --train one.svm --validation zero.svm", "1 of 3 labels is on in no training row, so never"},
        {"train " ONE "-o one", "1 of 3 labels is on in no training row, so never predicted ('0'): add rows"},
        {"train " ONE "--dry-run", "1 of 3 labels is on in no training row"},
        {"data info zero.svm", NULL},
    };
#undef ONE
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        outcome o = run(readers[i][0]);
        const char *told = strstr(o.err, "warning: ");
        if (o.code != 0 || (readers[i][1] ? !told || !strstr(told, readers[i][1]) : told != NULL))
            fail_msg("%s: %d %s", readers[i][0], o.code, o.err);
        outcome_release(&o);
    }
    succeeds("data check one.svm", "warning  1 of 3 labels is on in no row");
}

/* mdoc has no empty lines. */
static void manual_is_valid_mdoc(void **state)
{
    (void)state;
    outcome o = run("help --man");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, ".Sh EXIT STATUS"));
    assert_non_null(strstr(o.out, "\n.Pp\nWith \\-\\-golden DIR"));
    assert_null(strstr(o.out, "\n\n"));
    assert_non_null(strstr(o.out, "\nseed of initialisation, dropout and sampling.\nAccepts\n"));
    outcome_release(&o);
}

/* What bash offers for the last of these words, in a folder that holds `step.txt`, `two words` and a folder `data`. */
static void offers(const char *words, const char *expected)
{
    char command[512];
    snprintf(command, sizeof command,
             "cd %s && mkdir -p shell/data && touch shell/step.txt 'shell/two words' && cd shell && bash -c 'source "
             "../completion.sh; "
             "COMP_WORDS=(sealgraph %s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sealgraph; IFS=,; echo "
             "\"${COMPREPLY[*]}\"' "
             ">../words.txt",
             program_folder, words);
    assert_int_equal(system(command), 0);
    char *offered = program_file("words.txt");
    offered[strcspn(offered, "\n")] = 0;
    if (strcmp(offered, expected) != 0)
        fail_msg("%s: %s", words, offered);
    free(offered);
}

static void completion_of_bash(void **state)
{
    (void)state;
    outcome o = run("completion bash");
    write_file("completion.sh", o.out);
    outcome_release(&o);
    offers("train --dev", "--device,--dev-fraction");
    offers("train --device c", "cpu,cuda");
    offers("train --device = c", "cpu,cuda");
    offers("train --device =", "cpu,reference,cuda");
    offers("train -c st", "step.txt");
    offers("train --config = st", "step.txt");
    offers("train -c tw", "two words");
    offers("train -c yeast/c", "yeast/cross-entropy.yml");
    offers("train --seed s", "");
    offers("bench s", "step");
    offers("bench --plot s", "step.txt");
    offers("bench --preset s", "");
    offers("bench --time 5 \"\"", "step,predict,ops,hvp,bert");
    offers("completion \"\"", "bash,zsh,fish");
    offers("ops xlog", "xlogy");
    offers("help da", "data");
    offers("help data s", "split");
    offers("help train s", "");
    offers("help config \"\"", "show,schema,recipes");
    offers("version s", "");
    offers("data info s", "step.txt");
    offers("data s", "split");
}

/* What no name of a file can be is offered none, in the other shells too. */
static void completion_of_words(void **state)
{
    (void)state;
    succeeds("completion zsh", "'*:word:(step predict ops hvp bert )'");
    succeeds("completion zsh", "'*--golden=[run the golden");
    succeeds("completion fish", "-f -n '__sealgraph_verb \"bench\"' -a 'step predict ops hvp bert '");
    succeeds("completion fish", "-f -n '__sealgraph_verb \"version\"' -a ''");
    succeeds("completion zsh", ":FILE:{_files; compadd -- bibtex/cross-entropy.yml ");
    succeeds("completion fish", "-l config -s c -r -F -a 'bibtex/cross-entropy.yml ");
}

/* Each recipe has a line that says what it is, and `-c` takes its name. */
static void recipes_are_listed(void **state)
{
    (void)state;
    succeeds("config recipes", "\nyeast/cross-entropy.yml         yeast, cross-entropy: 103 features, 14 labels.\n");
    json_t *listed = document("config recipes --json", 0), *recipes = json_object_get(listed, "recipes"), *recipe;
    size_t i;
    assert_non_null(strstr(json_string_value(json_object_get(listed, "folder")), "/recipes"));
    assert_true(json_array_size(recipes) > 10);
    json_array_foreach(recipes, i, recipe)
    {
        char command[256];
        snprintf(command, sizeof command, "config show -c %s", json_string_value(json_object_get(recipe, "name")));
        succeeds(command, "task: mlc");
        assert_true(json_string_length(json_object_get(recipe, "summary")) > 20);
    }
    json_decref(listed);
    char alone[512];
    snprintf(alone, sizeof alone, "cd %s && cp %s/sealgraph . && ./sealgraph config recipes 2>err.txt; test $? = 1",
             program_folder, SG_BINARY_DIR);
    assert_int_equal(system(alone), 0);
    char *told = program_file("err.txt");
    assert_non_null(strstr(told, "this program has no recipes beside it"));
    free(told);
}

/* -o - is standard output for all that write one text. */
static void outputs_to_standard_output(void **state)
{
    (void)state;
    write_data("toy.arff");
    succeeds("train " TOY "--epochs 1 -o run", "test");
    succeeds("predict run toy.arff --threads 1 -o -", "\"scores\"");
    succeeds("graph -q -o -", "[32, 5]");
    succeeds("data split toy.arff -o - -q", "\ttrain");
    succeeds("data convert toy.arff --to libsvm -q -o -", ":");
    succeeds("init -o -", "Made by");
    outcome o = run("score toy.arff toy.arff --per-label -");
    assert_int_equal(o.code, 0);
    assert_int_equal(text_lines(o.out), 4); /* the table alone */
    assert_int_equal(strncmp(o.out, "label\ttp\tfp\tfn", strlen("label\ttp\tfp\tfn")), 0);
    succeeds("score toy.arff toy.arff --per-label labels.tsv", "micro_f1");
    char *table = program_file("labels.tsv");
    assert_string_equal(table, o.out);
    free(table);
    outcome_release(&o);
    fails("score toy.arff toy.arff --per-label labels.tsv", 2, "labels.tsv exists");
    fails("score toy.arff toy.arff --per-label . --force", 2, ". is a directory");
    fails("data convert toy.arff --to xc -o . --force", 2, ". is a directory");
    succeeds("score toy.arff toy.arff --per-label labels.tsv --force", "micro_f1");
    succeeds("score toy.arff toy.arff --per-label /dev/null", "micro_f1");
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

/* What cannot be written is told and leaves nothing behind, and a file that was there stays: on a full device, and over the limit on
 * the size of files. */
static void disks_may_be_full(void **state)
{
    (void)state;
    static const char *const printed[] = {"help --man",
                                          "train --help",
                                          "ops",
                                          "config schema",
                                          "data info toy.arff",
                                          "data split toy.arff",
                                          "graph -q",
                                          "init",
                                          "data convert toy.arff --to arff -o -",
                                          "score toy.arff toy.arff --per-label -",
                                          "config show --json",
                                          "completion zsh"};
    static const char *const written[] = {"data convert toy.arff --to arff", "data convert toy.arff --to libsvm",
                                          "data split toy.arff", "graph -q --loss seal-dynamic --as dot", "init"};
    char command[512];
    write_data("toy.arff");
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++) {
        snprintf(command, sizeof command, "cd %s && %s/sealgraph %s >/dev/full 2>err.txt", program_folder,
                 SG_BINARY_DIR, printed[i]);
        int status = system(command);
        char *err = program_file("err.txt");
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || text_lines(err) != 1)
            fail_msg("%s: %d %s", printed[i], status, err);
        free(err);
    }
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        for (int there = 0; there < 2; there++) {
            if (there)
                write_file("out.x", "KEEP\n");
            snprintf(
                command, sizeof command,
                "mkdir -p %s/empty && cd %s && rm -f empty/* && (%s && cp out.x empty/; ulimit -f 1 && exec "
                "%s/sealgraph %s -q --force -o empty/out.x) 2>err.txt; test $? = 1 && test \"$(ls empty)\" = \"%s\"",
                program_folder, program_folder, there ? "true" : "false", SG_BINARY_DIR, written[i],
                there ? "out.x" : "");
            if (system(command) != 0)
                fail_msg("%s", command);
            char *kept = program_file("empty/out.x");
            assert_string_equal(kept, there ? "KEEP\n" : "");
            free(kept);
        }
}

/* The number of a standard stream that is closed is given to no file, which messages would be written into. */
static void closed_streams(void **state)
{
    (void)state;
    static const char *const closed[] = {"0 <&-", "2 2>&-"};
    for (int i = 0; i < 2; i++) {
        char arguments[64];
        snprintf(arguments, sizeof arguments, "data info --json /proc/self/fd/%s", closed[i]);
        outcome o = run(arguments);
        assert_int_equal(o.code, 3); /* an empty file, not one that is not there */
        outcome_release(&o);
    }
    outcome o = run("ops >&-");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "cannot write to standard output"));
    outcome_release(&o);
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

/* Rows of weight 0 are counted wherever the rows to train on are. One of the three has no label either, and counts as such. */
static void weightless_rows_are_told(void **state)
{
    (void)state;
    write_file("light.arff", "@relation 'x: -C 1'\n@attribute y {0,1}\n@attribute a numeric\n@data\n"
                             "1,1,{0}\n1,2\n1,3,{0}\n0,4,{0}\n1,5\n");
    write_file("light.tsv", "0\ttrain\n1\ttrain\n2\ttest\n3\ttrain\n4\tvalidation\n");
    static const char *const data = " --files light.arff --split light.tsv ";
    char command[256];
    snprintf(command, sizeof command, "train%s--set model.hidden=[2] --threads 1 --dry-run", data);
    outcome told = run(command);
    assert_int_equal(told.code, 0);
    assert_non_null(strstr(told.err, "1 row of weight 0 left out of training"));
    outcome_release(&told);
    snprintf(command, sizeof command, "data info%s", data);
    succeeds(command, "(1 without a label, 3 of weight 0)");
    succeeds(command, "train        1 rows, cardinality 1.000; 1 of weight 0 left out\n");
    snprintf(command, sizeof command, "data info%s--json", data);
    json_t *info = document(command, 0), *parts = json_object_get(info, "parts");
    assert_int_equal(json_integer_value(json_object_get(info, "weightless_rows")), 3);
    json_t *left_out = json_object_get(json_object_get(parts, "train"), "weightless_rows_left_out");
    assert_int_equal(json_integer_value(left_out), 1);
    json_decref(info);
    succeeds("data check light.arff", "3 of 5 rows have weight 0; training leaves them out");
    succeeds("data check light.arff", "5 rows, 0 warnings, ");
    snprintf(command, sizeof command, "data split%s-o again.tsv --json", data);
    json_t *split = document(command, 0);
    assert_int_equal(json_integer_value(json_object_get(split, "left_out")), 2);
    json_decref(split);
}

/* What `train` refuses for it is no file without warnings. */
static void weightless_files_are_warned_of(void **state)
{
    (void)state;
    write_file("none.arff", "@relation 'x: -C 2'\n@attribute p {0,1}\n@attribute q {0,1}\n@attribute a numeric\n"
                            "@data\n1,0,1,{0}\n0,1,2,{0}\n0,0,3\n");
    fails("train --files none.arff -q -o none", 3, "no training rows with labels and a weight above 0");
    succeeds("data check none.arff",
             "warning  all rows that have a label have weight 0, so none is left to train on: ");
    succeeds("data check none.arff", "3 rows, 1 warning, 2 notes\n");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_tables),
        cmocka_unit_test(options_without_effect),
        cmocka_unit_test(notes_are_told),
        cmocka_unit_test(labels_without_rows_are_told),
        cmocka_unit_test(manual_is_valid_mdoc),
        cmocka_unit_test(completion_of_bash),
        cmocka_unit_test(completion_of_words),
        cmocka_unit_test(recipes_are_listed),
        cmocka_unit_test(outputs_to_standard_output),
        cmocka_unit_test(standard_output_is_shared),
        cmocka_unit_test(disks_may_be_full),
        cmocka_unit_test(closed_streams),
        cmocka_unit_test(left_out_rows),
        cmocka_unit_test(weightless_rows_are_told),
        cmocka_unit_test(weightless_files_are_warned_of),
        cmocka_unit_test(any_name_gives_a_document),
    };
    return cmocka_run_group_tests(tests, program_make_folder, program_remove_folder);
}
