/* Training runs: learning, and that stopping, killing and going on leave no trace in the result. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "serialize/serialize.h"
#include "tests/support/graph_run.h"
#include "tests/support/model_files.h"
#include "tests/support/training.h"
#include "tests/support/training_run.h"

static char *base, *whole; /* folder of all runs; the undisturbed run */

static char *run_folder(const char *name) { return file_in(base, name); }

static void runs_in_memory_learn(void **state)
{
    (void)state;
    ears heard = {0};
    run_outcome o = train_in(NULL, "train.epochs", "30", false, &heard);
    assert_int_equal(o.status, SG_OK);
    assert_true(o.result.finished);
    assert_non_null(o.result.store);
    print_message("validation F1 %.3f after the first epoch, best %.3f\n", heard.first, heard.best);
    assert_true(heard.best > heard.first + 0.1);
    const sg_metric *best = sg_metrics_find(&o.result.best, "example_f1");
    assert_true(best->value == heard.best);
    assert_true(o.result.test.count > 0);
    sg_store_free(o.result.store);
}

static void is_told_as_finished(const char *folder)
{
    char *run = text_in(folder, "run.json");
    assert_non_null(strstr(run, "\"status\": \"finished\""));
    sg_free(run);
}

static void run_directory(void **state)
{
    (void)state;
    static const char *const names[] = {"config.yml",
                                        "run.json",
                                        "metrics.jsonl",
                                        "metrics.json",
                                        "checkpoint.safetensors",
                                        "model/model.pb",
                                        "model/model.safetensors"};
    finishes(whole, NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_in(whole, names[i]))
            fail_msg("%s is missing", names[i]);
    is_told_as_finished(whole);
}

static void equal_runs_are_equal(void **state)
{
    (void)state;
    char *again = run_folder("again"), *threads = run_folder("threads"), *seed = run_folder("seed");
    finishes(again, NULL, NULL, NULL);
    same_runs(again, whole);
    finishes(threads, "threads", "2", NULL);
    same_runs(threads, whole);
    finishes(seed, "seed", "2", NULL);
    char *a = text_in(seed, "metrics.json"), *b = text_in(whole, "metrics.json");
    assert_string_not_equal(a, b);
    sg_free(a);
    sg_free(b);
    free(again);
    free(threads);
    free(seed);
}

static void stopped_runs_go_on(void **state)
{
    (void)state;
    char *folder = run_folder("stopped");
    static const int64_t stops[][2] = {{1, 2}, {2, 1}, {3, 6}};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        ears heard = {.stop_epoch = stops[i][0], .stop_step = stops[i][1]};
        run_outcome o = train_in(folder, NULL, NULL, false, &heard);
        assert_int_equal(o.status, SG_OK);
        assert_false(o.result.finished);
        assert_int_equal(heard.resumed, i > 0);
        assert_int_equal(heard.done, i ? (stops[i - 1][0] - 1) * 6 + stops[i - 1][1] : 0);
        assert_int_equal(heard.left, 6 * 6 - heard.done);
        assert_int_equal(isnan(heard.known), i < 2); /* the first epoch ended in the second call */
        assert_false(is_in(folder, "metrics.json"));
    }
    ears heard = {0};
    finishes(folder, NULL, NULL, &heard);
    assert_true(heard.resumed);
    same_runs(folder, whole);
    free(folder);
}

/* ---- a child that trains, and waits for leave at whatever it tells */

static bool wait_for_leave(void *user, const sg_train_event *e)
{
    char byte = 0;
    (void)e;
    return write(*(int *)user, &byte, 1) == 1 && read(*(int *)user, &byte, 1) == 1;
}

static pid_t start_child(const char *folder, int *leave)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        sg_train_result result;
        sg_error err = {0};
        sg_config *config = training_config(TRAINING_RECIPE(6), NULL, 0);
        sg_training_data *data = training_data(config);
        sg_train_options options = {
            .size = sizeof options, .folder = folder, .listener = wait_for_leave, .user = &ends[1]};
        sg_status status = sg_train(config, data, &options, &result, &err);
        if (status != SG_OK)
            print_error("%s\n", err.text);
        _exit(status == SG_OK && result.finished ? 0 : 1);
    }
    close(ends[1]);
    *leave = ends[0];
    return child;
}

/* Leave for so much of what it tells; false if it came to its end. */
static bool go_on_for(int leave, int events)
{
    char byte;
    for (int i = 0; i < events; i++)
        if (read(leave, &byte, 1) != 1 || send(leave, &byte, 1, MSG_NOSIGNAL) != 1)
            return false;
    return true;
}

/* A child is killed, over and over, until one comes to the end: a little after the start, a batch or an epoch (six batches), or all
 * the files of an epoch. None gets further than to what it tells next, so it does not matter how fast this machine is. */
static void killed_runs_go_on(void **state)
{
    (void)state;
    enum { EVENTS = 13, MOST = 200 };
    char *folder = run_folder("killed");
    int kills = 0, status = -1;
    for (bool going = true; going && kills < MOST; kills += going) {
        int leave;
        pid_t child = start_child(folder, &leave);
        going = go_on_for(leave, (int)(EVENTS * test_uniform(21, 2 * kills)));
        struct timespec pause = {0, (long)(2e7 * pow(test_uniform(21, 2 * kills + 1), 3))};
        if (going) {
            nanosleep(&pause, NULL);
            kill(child, SIGKILL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        close(leave);
        going = going && !is_in(folder, "metrics.json");
    }
    print_message("killed %d times\n", kills);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    assert_true(kills > 0);
    is_told_as_finished(folder); /* also by one that was killed when it had written its last file */
    same_runs(folder, whole);
    free(folder);
}

static void divergence_is_told(void **state)
{
    (void)state;
    char *folder = run_folder("diverged");
    run_outcome o = train_in(folder, "train.lr", "1e30", false, NULL);
    assert_int_equal(o.status, SG_E_DIVERGED);
    char *run = text_in(folder, "run.json");
    assert_non_null(strstr(run, "\"status\": \"diverged\""));
    assert_false(is_in(folder, "metrics.json"));
    sg_free(run);
    free(folder);
}

static int make_base(void **state)
{
    (void)state;
    base = new_folder();
    whole = base ? file_in(base, "whole") : NULL;
    return whole ? 0 : -1;
}

static int remove_base(void **state)
{
    (void)state;
    sg_status status = sg_folder_remove(base, NULL);
    free(base);
    free(whole);
    return status == SG_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_directory), /* makes what the others compare with */
        cmocka_unit_test(killed_runs_go_on),    cmocka_unit_test(runs_in_memory_learn),
        cmocka_unit_test(equal_runs_are_equal), cmocka_unit_test(stopped_runs_go_on),
        cmocka_unit_test(divergence_is_told),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
