/* resume_test.c - runs that are interrupted and go on, in the built program: signals, and settings and data that changed meanwhile. */
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "serialize/serialize.h"
#include "tests/support/program.h"

/* No signal of the process may have a handler: its frame would be written where oneDNN's products lead the stack pointer. */
static void no_handlers(pid_t process)
{
    char path[64], line[128];
    uint64_t handled = UINT64_MAX;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *f = fopen(path, "r");
    if (!f) /* a system without /proc */
        return;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "SigCgt: %" SCNx64, &handled) == 1)
            break;
    fclose(f);
    for (int number = 1; number < 32; number++)
        if (number != SIGSEGV && number != SIGBUS && number != SIGFPE) /* a sanitizer's */
            assert_false(handled >> (number - 1) & 1);
}

/* `sealgraph ARGUMENTS` with this input (-1: the caller's). Signals are as a terminal's child has them, not as ctest may have been
 * given them (in the background of a script SIGINT is ignored), and what goes wrong leaves no run behind. */
static pid_t start(const char *arguments, int input)
{
    char command[1024];
    snprintf(command, sizeof command, "cd %s && exec env -i PATH=/usr/bin:/bin %s/sealgraph %s >out.txt 2>err.txt",
             program_folder, SG_BINARY_DIR, arguments);
    pid_t child = fork();
    if (child == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        signal(SIGHUP, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (input < 0 || dup2(input, STDIN_FILENO) == STDIN_FILENO)
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    assert_true(child > 0);
    return child;
}

/* `sealgraph ARGUMENTS`, interrupted once it has made the file `sign`, however long that takes: it ends in order. The signal comes
 * twice, as timeout(1) sends it. */
static void interrupted(const char *arguments, const char *sign)
{
    int status = -1;
    pid_t child = start(arguments, -1), ended = 0;
    while (!exists(sign) && (ended = waitpid(child, &status, WNOHANG)) == 0)
        usleep(10000);
    assert_int_equal(ended, 0);
    no_handlers(child);
    kill(child, SIGINT);
    usleep(1000); /* so that they are two */
    kill(child, SIGINT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
}

/* `sealgraph ARGUMENTS` waits for more of its input when all but a pipe's room has been taken from here: a signal ends it. */
static void ends_while_it_waits(const char *arguments, int number)
{
    enum { LINES = 1 << 15, MOST = 1 << 20 };
    int ends[2], status = -1;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = start(arguments, ends[0]);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    int room = fcntl(ends[1], F_GETPIPE_SZ);
    FILE *input = fdopen(ends[1], "w");
    assert_non_null(input);
    assert_true(room > 0 && room < 9 * LINES && 9 * LINES < MOST);
    for (int i = 0; i < LINES; i++)
        assert_true(fputs(strstr(arguments, "-c ") ? "# remark\n" : "% remark\n", input) >= 0);
    kill(child, number);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
    fclose(input);
}

/* The first signal is enough, whether or not there are steps to come. */
static void waiting_commands_end(void **state)
{
    (void)state;
    ends_while_it_waits("data info -", SIGINT);
    ends_while_it_waits("train -c -", SIGINT);
    ends_while_it_waits("train -c - --dry-run", SIGTERM);
    ends_while_it_waits("config show -c /dev/stdin", SIGHUP);
}

/* As a program left it that wrote 1e-05 for 1.0e-05. */
static void write_older_numbers(const char *run)
{
    char name[64];
    snprintf(name, sizeof name, "%s/config.yml", run);
    char *text = program_file(name), *at = strstr(text, "weight_decay: 1.0e-05");
    assert_non_null(at);
    at += strlen("weight_decay: 1");
    memmove(at, at + 2, strlen(at + 2) + 1);
    write_file(name, text);
    free(text);
}

/* Of long values that differ late the place where they do is shown. */
static void long_values_are_told_apart(const char *run)
{
#define EIGHT "b.arff,c.arff,d.arff,e.arff,f.arff,g.arff,h.arff,i.arff,"
#define SHOWN "...arff, g.arff, h.arff, i.arff, "
    char name[64], arguments[256], message[256];
    snprintf(name, sizeof name, "%s/config.yml", run);
    char *text = program_file(name), *at = strstr(text, "test: [toy.arff]"), *longer = calloc(1, strlen(text) + 256);
    assert_true(at && longer);
    sprintf(longer, "%.*stest: [" EIGHT "é.arff]%s", (int)(at - text), text, at + strlen("test: [toy.arff]"));
    write_file(name, longer);
    snprintf(arguments, sizeof arguments, "train %s --test " EIGHT "z.arff", run);
    snprintf(message, sizeof message, "data.test is " SHOWN "\"é.arff\"] there and " SHOWN "z.arff] here (--test)");
    fails(arguments, 2, message);
    write_file(name, text);
    free(longer);
    free(text);
#undef EIGHT
#undef SHOWN
}

static void interrupted_runs_go_on(void **state)
{
    (void)state;
    write_data("toy.arff");
    interrupted("train " TOY "--epochs 1000000 --set train.patience=1000000 -o stopped",
                "stopped/checkpoint.safetensors");
    char *err = program_file("err.txt");
    assert_non_null(strstr(err, "the same command goes on"));
    free(err);
    assert_true(exists("stopped/checkpoint.safetensors"));
    assert_false(exists("stopped/metrics.json"));
    refused_before_reading("train " TOY "--epochs 5 -o stopped",
                           "other settings: train.epochs is 1000000 there and 5 here (--epochs); go on with its own, "
                           "or use --force to keep the run as stopped.1 and train again, or choose another directory");
    fails("train stopped --set train.clip=3", 2, "other settings: train.clip is 10 there and 3 here (--set)");
    fails("train stopped --test t.arff", 2, "other settings: data.test is [toy.arff] there and [t.arff] here (--test)");
    long_values_are_told_apart("stopped");
    char log[256];
    snprintf(log, sizeof log, "%s/stopped/metrics.jsonl", program_folder);
    assert_int_equal(unlink(log), 0); /* it comes back at the end of an epoch */
    write_older_numbers("stopped");
    interrupted("train --resume stopped", "stopped/metrics.jsonl");
    err = program_file("err.txt");
    const char *resumed = strstr(err, "resume   from epoch ");
    assert_non_null(resumed);
    assert_non_null(strstr(resumed, "; best example_f1 "));
    free(err);
}

/* None begins anew over what is left of a run. */
static void lost_checkpoints_are_refused(void **state)
{
    (void)state;
#define RUN "train " TOY "--epochs 1000000 --set train.patience=1000000 -o lost"
    static const char *const ways[] = {"train lost", "train lost --resume", "train --resume -o lost", RUN};
    char path[256];
    write_data("toy.arff");
    interrupted(RUN, "lost/checkpoint.safetensors");
    snprintf(path, sizeof path, "%s/lost/checkpoint.safetensors", program_folder);
    write_file("lost/checkpoint.safetensors", "none");
    fails("train lost", 3, ": put back a whole one, or use --force to keep the run as lost.1 and train again\n");
    assert_int_equal(unlink(path), 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        fails(ways[i], 3, "lost holds an unfinished run, but its checkpoint.safetensors is gone, with ");
        fails(ways[i], 3, " done: put it back, or use --force to keep the run as lost.1 and train again\n");
    }
    assert_false(exists("lost/checkpoint.safetensors"));
    interrupted("train lost --force", "lost/checkpoint.safetensors");
    assert_true(exists("lost.1/run.json"));
#undef RUN
}

/* As a program left it that hashed data files alone. */
static void forget_hash(const char *run, const char *name)
{
    char path[256], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/%s/run.json", program_folder, run);
    assert_int_equal(sg_file_read(path, 1 << 20, &text, &size, NULL), SG_OK);
    char *line = strstr(text, name), *next = line ? strstr(line, "\\n") : NULL;
    assert_non_null(next);
    memmove(line, next + 2, strlen(next + 2) + 1);
    assert_int_equal(sg_file_write(path, text, strlen(text), NULL), SG_OK);
    sg_free(text);
}

/* What a run was begun with must be what it goes on with, and what a model is evaluated on unless files are
 * named: rows, the list of labels, the division. */
static void changed_data_is_refused(void **state)
{
    (void)state;
    static const char *const changed[][2] = {
        {"rows.arff", "@relation 'x: -C 1'\n@attribute p {0,1}\n@attribute a numeric\n@data\n"
                      "1,1\n0,3\n1,2\n1,4\n0,5\n1,7\n1,7\n0,7\n"},
        {"list.xml", "<labels><label name=\"p\"/><!-- other --></labels>\n"},
        {"parts.tsv", "0\ttrain\n1\ttrain\n2\ttrain\n3\tvalidation\n4\tvalidation\n5\ttest\n6\ttest\n7\t-\n"},
    };
    static const char *const first[] = {
        ("@relation 'x: -C 1'\n@attribute p {0,1}\n@attribute a numeric\n@data\n"
         "1,1\n0,2\n1,2\n1,4\n0,5\n1,7\n1,7\n0,7\n"),
        "<labels><label name=\"p\"/></labels>\n",
        "0\ttrain\n1\ttrain\n2\ttrain\n3\tvalidation\n4\ttest\n5\ttest\n6\ttest\n7\t-\n"};
#define TRAIN "train --files rows.arff --labels-xml list.xml --split parts.tsv --threads 1 -q"
    for (int i = 0; i < 3; i++)
        write_file(changed[i][0], first[i]);
    succeeds(TRAIN " --epochs 1 -o done", "test");
    succeeds("eval done --threads 1", "rows                   2");
    interrupted(TRAIN " -o begun --epochs 1000000 --patience 1000000", "begun/checkpoint.safetensors");
    for (int i = 0; i < 3; i++) {
        static const char *const roles[] = {"", "the list of labels ", "the division "};
        char message[256];
        write_file(changed[i][0], changed[i][1]);
        snprintf(message, sizeof message,
                 "begun holds an unfinished run with other data: the contents of %s%s have changed since: put the old "
                 "ones back, or use --force to keep the run as begun.1 and train again, or choose another directory\n",
                 roles[i], changed[i][0]);
        fails("train --resume begun -q", 2, message);
        if (i == 0) {
            write_file(changed[i][0], "no data set");
            fails("train --resume begun -q", 2,
                  "rows.arff have changed since, and the data cannot be read now (rows.arff:1");
            write_file("list.xml", "<labels><label name=\"p\"/><label name=\"a\"/></labels>\n");
            write_file(changed[i][0], "@relation x\n@attribute p {0,1}\n@attribute a {0,1}\n@attribute b numeric\n"
                                      "@data\n1,1,2\n");
            fails("train --resume begun -q", 2, "(8 rows and 1 label then, 1 row and 2 labels now): put");
            write_file("list.xml", first[1]);
            write_file(changed[i][0], changed[i][1]);
        }
        snprintf(message, sizeof message, "done/model was trained on other data: the contents of %s%s have changed",
                 roles[i], changed[i][0]);
        fails("eval done --threads 1", 2, message);
        fails("eval done/model --data-dir . --threads 1", 2, message);
        succeeds("eval done rows.arff --threads 1", "rows                   8");
        succeeds("eval done --files rows.arff --threads 1", "rows                   2");
        write_file(changed[i][0], first[i]);
    }
#undef TRAIN
    char log[256];
    snprintf(log, sizeof log, "%s/begun/metrics.jsonl", program_folder);
    assert_int_equal(unlink(log), 0);
    forget_hash("begun", "parts.tsv ");
    interrupted("train --resume begun -q", "begun/metrics.jsonl"); /* comes back at the end of an epoch */
    assert_true(exists("begun/metrics.jsonl"));
}

/* The counts that are told are those of all files, not of the one that changed. */
static void counts_of_several_files(void **state)
{
    (void)state;
    write_data("toy.arff");
    write_data("more.arff");
    interrupted("train --files toy.arff,more.arff --threads 1 -q -o two --epochs 1000000 --patience 1000000",
                "two/checkpoint.safetensors");
    char *text = program_file("more.arff"), *last = text + strlen(text) - 1;
    while (last[-1] != '\n')
        last--;
    *last = 0;
    write_file("more.arff", text);
    free(text);
    fails("train two", 2,
          "more.arff have changed since (all files: 400 rows and 3 labels then, 399 rows and 3 labels now): put");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_commands_end),         cmocka_unit_test(interrupted_runs_go_on),
        cmocka_unit_test(lost_checkpoints_are_refused), cmocka_unit_test(changed_data_is_refused),
        cmocka_unit_test(counts_of_several_files),
    };
    return cmocka_run_group_tests(tests, program_make_folder, program_remove_folder);
}
