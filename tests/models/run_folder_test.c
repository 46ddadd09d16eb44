/* The run directory: who may have it, what is swept from it, what is refused. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "serialize/serialize.h"
#include "tests/support/graph_run.h"
#include "tests/support/model_files.h"
#include "tests/support/training_run.h"

static char *base, *whole; /* folder of all runs; the undisturbed run */

static char *run_folder(const char *name) { return file_in(base, name); }

/* Killed so early that only a temporary file is there: that is no run, and no reason to refuse. */
static void remains_are_swept(void **state)
{
    (void)state;
    char *folder = run_folder("early"), *rest;
    assert_int_equal(sg_folder_make(folder, NULL), SG_OK);
    rest = file_in(folder, "config.yml.tmp123");
    assert_int_equal(sg_file_write(rest, "seed", 4, NULL), SG_OK);
    ears heard = {.stop_epoch = 1, .stop_step = 1};
    assert_int_equal(train_in(folder, NULL, NULL, false, &heard).status, SG_OK);
    assert_false(is_in(folder, "config.yml.tmp123"));
    free(rest);
    free(folder);
    folder = run_folder("foreign");
    assert_int_equal(sg_folder_make(folder, NULL), SG_OK);
    rest = file_in(folder, "letter.txt");
    assert_int_equal(sg_file_write(rest, "dear", 4, NULL), SG_OK);
    assert_int_equal(train_in(folder, NULL, NULL, false, NULL).status, SG_E_ARGUMENT);
    assert_true(is_in(folder, "letter.txt"));
    free(rest);
    free(folder);
}

/* Killed while a model was being replaced: what it left goes when the run goes on. */
static void remains_of_models_are_swept(void **state)
{
    (void)state;
    static const char *const names[] = {"model/model.pb.new.tmp7", "model/model.safetensors.new.tmp7"};
    char *folder = run_folder("half");
    ears heard = {.stop_epoch = 2, .stop_step = 1};
    assert_int_equal(train_in(folder, NULL, NULL, false, &heard).status, SG_OK);
    for (int i = 0; i < 2; i++) {
        char *rest = file_in(folder, names[i]);
        assert_int_equal(sg_file_write(rest, "half", 4, NULL), SG_OK);
        free(rest);
    }
    finishes(folder, NULL, NULL, NULL);
    assert_false(is_in(folder, names[0]) || is_in(folder, names[1]));
    same_runs(folder, whole);
    free(folder);
}

/* One process at a time: another would undo checkpoints and mix the logs, and --force would pull the directory away. */
static void busy_directories_are_refused(void **state)
{
    (void)state;
    char *folder = run_folder("busy"), *aside = run_folder("busy.1");
    ears heard = {.stop_epoch = 1, .stop_step = 2};
    assert_int_equal(train_in(folder, NULL, NULL, false, &heard).status, SG_OK);
    int other = open(folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0); /* the run that has ended holds it no more */
    for (int force = 0; force < 2; force++) {
        run_outcome o = train_in(folder, NULL, NULL, force, NULL);
        assert_int_equal(o.status, SG_E_ARGUMENT);
        assert_non_null(strstr(o.err.text, "another process"));
    }
    assert_int_not_equal(access(aside, F_OK), 0);
    close(other);
    finishes(folder, NULL, NULL, NULL);
    same_runs(folder, whole);
    free(folder);
    free(aside);
}

static void refused_as_busy(const char *folder)
{
    run_outcome o = train_in(folder, NULL, NULL, false, NULL);
    assert_int_equal(o.status, SG_E_ARGUMENT);
    assert_non_null(strstr(o.err.text, "another process"));
}

/* By whatever name: a link, dots on the way, a seed's directory within that of the whole, which in turn is not to be had while the
 * seed is trained by itself. */
static void busy_by_another_name(void **state)
{
    (void)state;
    char *folder = run_folder("named"), *link = run_folder("linked"), *dots = run_folder("named/../named/.");
    char *seed = run_folder("named/seed-1"), *seed_link = run_folder("link-to-seed");
    ears heard = {.stop_epoch = 1, .stop_step = 2, .other = folder};
    assert_int_equal(train_in(folder, NULL, NULL, false, &heard).status, SG_OK);
    assert_false(heard.given);
    assert_int_equal(symlink("named", link), 0);
    int other = open(folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    refused_as_busy(link);
    refused_as_busy(dots);
    refused_as_busy(seed); /* the directory above is a run */
    assert_int_equal(symlink("named/seed-1", seed_link), 0);
    refused_as_busy(seed_link);
    close(other);
    heard = (ears){.stop_epoch = 1, .stop_step = 2, .other = folder};
    assert_int_equal(train_in(seed_link, NULL, NULL, false, &heard).status, SG_OK);
    assert_false(heard.given);
    finishes(link, NULL, NULL, NULL);
    same_runs(folder, whole);
    free(folder);
    free(link);
    free(dots);
    free(seed);
    free(seed_link);
}

/* A run's directory is not to be had through one above it, which would pull it away: at any depth, through the place of a link on
 * the way and the one that it names, whether or not a run lies there. */
static void busy_inside(void **state)
{
    (void)state;
    static const char *const above[] = {"outer", "outer/middle", "real", "outer/link/.."};
    char *outer = run_folder("outer"), *link = run_folder("outer/link"), *real = run_folder("real/inner");
    char *inner[] = {run_folder("outer/middle/inner"), run_folder("outer/link/inner")};
    finishes(outer, NULL, NULL, NULL);
    assert_int_equal(sg_folder_make(real, NULL), SG_OK);
    assert_int_equal(symlink("../real/inner", link), 0);
    for (size_t i = 0; i < sizeof above / sizeof *above; i++) {
        char *folder = run_folder(above[i]);
        ears heard = {.stop_epoch = 1, .stop_step = 1 + i % 2, .other = folder, .forced = folder};
        run_outcome o = train_in(inner[i >= 2], NULL, NULL, false, &heard);
        if (o.status != SG_OK)
            fail_msg("%s", o.err.text);
        assert_int_equal(heard.answer, SG_E_ARGUMENT);
        assert_false(heard.given);
        free(folder);
    }
    ears heard = {.stop_epoch = 2, .stop_step = 1, .forced = outer}; /* the name that leads there */
    assert_int_equal(train_in(inner[1], NULL, NULL, false, &heard).status, SG_OK);
    assert_int_equal(heard.answer, SG_E_ARGUMENT);
    assert_false(is_in(base, "outer.1") || is_in(base, "real.1") || is_in(outer, "middle.1"));
    for (int i = 0; i < 2; i++) {
        finishes(inner[i], NULL, NULL, NULL);
        same_runs(inner[i], whole);
        free(inner[i]);
    }
    assert_int_equal(train_in(outer, NULL, NULL, true, NULL).status, SG_OK); /* all have ended */
    assert_true(is_in(base, "outer.1/middle/inner/metrics.json"));
    free(outer);
    free(link);
    free(real);
}

/* Who has locked a directory without training there does not keep runs out of those inside. */
static void locks_of_others(void **state)
{
    (void)state;
    char *folder = run_folder("locked"), *inside = run_folder("locked/run");
    assert_int_equal(sg_folder_make(folder, NULL), SG_OK);
    int other = open(folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
    finishes(inside, NULL, NULL, NULL);
    close(other);
    free(folder);
    free(inside);
}

/* In place of the C library's. */
static bool fails_to_sync;
int fsync(int fd)
{
    struct stat st;
    if (fails_to_sync && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && faccessat(fd, "metrics.json", F_OK, 0) == 0) {
        fails_to_sync = false;
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

/* The last file is in place but its folder not synced: the run has failed, says so, and goes on. */
static void failure_at_the_end(void **state)
{
    (void)state;
    char *folder = run_folder("unsynced"), *record = file_in(folder, "run.json"), *text;
    size_t size;
    fails_to_sync = true;
    run_outcome o = train_in(folder, NULL, NULL, false, NULL);
    assert_int_equal(o.status, SG_E_IO);
    assert_false(fails_to_sync || is_in(folder, "metrics.json"));
    assert_int_equal(sg_file_read(record, 1 << 20, &text, &size, NULL), SG_OK);
    assert_non_null(strstr(text, "\"failed\""));
    sg_free(text);
    finishes(folder, NULL, NULL, NULL);
    same_runs(folder, whole);
    free(record);
    free(folder);
}

static void finished_runs_are_kept(void **state)
{
    (void)state;
    char *folder = run_folder("again"), *aside = run_folder("again.1");
    finishes(folder, NULL, NULL, NULL);
    run_outcome o = train_in(folder, NULL, NULL, false, NULL);
    assert_int_equal(o.status, SG_E_ARGUMENT);
    assert_non_null(strstr(o.err.text, "--force"));
    o = train_in(folder, NULL, NULL, true, NULL);
    assert_int_equal(o.status, SG_OK);
    same_runs(folder, whole);
    same_runs(aside, whole);
    free(folder);
    free(aside);
}

static void other_settings_are_refused(void **state)
{
    (void)state;
    char *folder = run_folder("settings");
    ears heard = {.stop_epoch = 1, .stop_step = 2};
    assert_int_equal(train_in(folder, NULL, NULL, false, &heard).status, SG_OK);
    run_outcome o = train_in(folder, "train.lr", "0.02", false, NULL);
    assert_int_equal(o.status, SG_E_CONFIG);
    assert_non_null(strstr(o.err.text, "train.lr is 0.01 there and 0.02 here"));
    finishes(folder, "threads", "2", NULL);
    same_runs(folder, whole);
    free(folder);
}

static void damaged_checkpoints_are_refused(void **state)
{
    (void)state;
    char *folder = run_folder("damaged"), *path;
    ears heard = {.stop_epoch = 2, .stop_step = 2};
    assert_int_equal(train_in(folder, NULL, NULL, false, &heard).status, SG_OK);
    path = file_in(folder, "checkpoint.safetensors");
    assert_int_equal(truncate(path, 200), 0);
    run_outcome o = train_in(folder, NULL, NULL, false, NULL);
    char text[1024], advice[512];
    assert_int_equal(o.status, SG_E_DATA);
    snprintf(advice, sizeof advice, ": put back a whole one, or use --force to keep the run as %s.1 and train again",
             folder);
    assert_non_null(strstr(sg_error_format(&o.err, text, sizeof text), "checkpoint.safetensors: "));
    if (!strstr(text, advice))
        fail_msg("%s", text);
    assert_int_equal(train_in(folder, NULL, NULL, true, NULL).status, SG_OK);
    same_runs(folder, whole);
    free(path);
    free(folder);
}

static void loses(const char *folder, const char *name)
{
    char *path = file_in(folder, name);
    assert_int_equal(unlink(path), 0);
    free(path);
}

static void refused_as_lost(const char *folder, const char *done)
{
    run_outcome o = train_in(folder, NULL, NULL, false, NULL);
    assert_int_equal(o.status, SG_E_DATA);
    if (!strstr(o.err.text, done) || !strstr(o.err.text, ": put it back, or use --force to keep the run as /") ||
        !strstr(o.err.text, ".1 and train again"))
        fail_msg("%s", o.err.text);
}

/* Without its checkpoint a run would begin anew, over its log and its model: what is left is left alone. */
static void lost_checkpoints_are_refused(void **state)
{
    (void)state;
    static const int64_t stops[][2] = {{1, 2}, {2, 1}, {3, 4}};
    static const char *const done[] = {"gone, with 0 epochs done", "gone, with 1 epoch done",
                                       "gone, with 2 epochs done"};
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "lost-%d", i);
        char *folder = run_folder(name);
        ears heard = {.stop_epoch = stops[i][0], .stop_step = stops[i][1]};
        assert_int_equal(train_in(folder, NULL, NULL, false, &heard).status, SG_OK);
        char *log = i ? text_in(folder, "metrics.jsonl") : NULL;
        loses(folder, "checkpoint.safetensors");
        refused_as_lost(folder, done[i]);
        refused_as_lost(folder, done[i]);
        if (i == 2) { /* the log alone tells it */
            loses(folder, "run.json");
            refused_as_lost(folder, done[i]);
        }
        char *after = i ? text_in(folder, "metrics.jsonl") : NULL;
        if (i)
            assert_string_equal(log, after);
        sg_free(log);
        sg_free(after);
        assert_int_equal(train_in(folder, NULL, NULL, true, NULL).status, SG_OK);
        same_runs(folder, whole);
        free(folder);
    }
}

/* Killed when the lines of the first epoch were written and its checkpoint was not: nothing else tells that it went further. */
static void killed_before_the_first_checkpoint(void **state)
{
    (void)state;
    char *folder = run_folder("killed-early");
    ears heard = {.stop_epoch = 2, .stop_step = 1};
    assert_int_equal(train_in(folder, NULL, NULL, false, &heard).status, SG_OK);
    loses(folder, "checkpoint.safetensors");
    loses(folder, "run.json");
    finishes(folder, NULL, NULL, NULL);
    same_runs(folder, whole);
    free(folder);
}

/* The checkpoint at `path` with these tensors and another record of progress, whole as a file. */
static void forge(const char *path, const sg_safetensors *file, const char *progress)
{
    sg_store *store = sg_store_new(SG_F32);
    assert_non_null(store);
    for (int32_t i = 0, at; i < sg_safetensors_count(file); i++) {
        const sg_named_tensor *t = sg_safetensors_at(file, i);
        assert_int_equal(sg_store_add(store, t->name, t->dtype, &t->shape, sg_init_zeros(), true, &at, NULL), SG_OK);
        memcpy(sg_store_at(store, at)->data, t->data, (size_t)sg_shape_count(&t->shape) * sg_dtype_size(t->dtype));
    }
    assert_int_equal(sg_checkpoint_write(path, store, progress, NULL), SG_OK);
    sg_store_free(store);
}

/* The record of a run's progress with pieces changed, put in and left out: it is refused, or training goes on from it. */
static void damaged_progress(void **state)
{
    (void)state;
    enum { ROUNDS = 80, ROOM = 1024 };
    static const char *const pieces[] = {
        "", "-", "9", "1e999", "null", "\"", "{", "]", "0.0", "99999999999999999999", "8e18"};
    char *folder = run_folder("progress"), *path = file_in(folder, "checkpoint.safetensors"), text[ROOM];
    ears heard = {.stop_epoch = 2, .stop_step = 2};
    assert_int_equal(train_in(folder, "train.epochs", "2", false, &heard).status, SG_OK);
    sg_safetensors *file;
    sg_error err = {0};
    if (sg_safetensors_read(&file, path, &err) != SG_OK)
        fail_msg("%s", err.text);
    const char *whole_text = sg_safetensors_metadata(file, "state");
    int refused = 0, n = (int)strlen(whole_text);
    for (int i = 0; i < ROUNDS; i++) {
        int at = (int)(test_uniform(31, 3 * i) * n), gone = (int)(test_uniform(31, 3 * i + 1) * 6);
        const char *with = pieces[(int)(test_uniform(31, 3 * i + 2) * (sizeof pieces / sizeof *pieces))];
        gone = gone > n - at ? n - at : gone;
        snprintf(text, sizeof text, "%.*s%s%s", at, whole_text, with, whole_text + at + gone);
        forge(path, file, text);
        ears stop = {.stop_epoch = 2, .stop_step = 3};
        run_outcome o = train_in(folder, "train.epochs", "2", false, &stop);
        char *finished = file_in(folder, "metrics.json");
        unlink(finished);
        free(finished);
        if (o.status != SG_OK && o.status != SG_E_DATA && o.status != SG_E_DIVERGED)
            fail_msg("%s: %s", text, o.err.text);
        refused += o.status == SG_E_DATA;
    }
    print_message("%d of %d refused\n", refused, (int)ROUNDS);
    assert_true(refused > ROUNDS / 4 && refused < ROUNDS);
    sg_safetensors_free(file);
    free(path);
    free(folder);
}

/* Batches done in an epoch after the last. */
static void progress_past_the_end(void **state)
{
    (void)state;
    char *folder = run_folder("past"), *path = file_in(folder, "checkpoint.safetensors"), *text, *epoch;
    ears heard = {.stop_epoch = 2, .stop_step = 2};
    assert_int_equal(train_in(folder, "train.epochs", "2", false, &heard).status, SG_OK);
    sg_safetensors *file;
    assert_int_equal(sg_safetensors_read(&file, path, NULL), SG_OK);
    text = sg_strdup(sg_safetensors_metadata(file, "state"));
    assert_non_null(epoch = strstr(text, "\"epoch\":1,\"step\":2"));
    epoch[strlen("\"epoch\":")] = '2';
    forge(path, file, text);
    run_outcome o = train_in(folder, "train.epochs", "2", false, NULL);
    assert_int_equal(o.status, SG_E_DATA);
    sg_safetensors_free(file);
    sg_free(text);
    free(path);
    free(folder);
}

static int make_base(void **state)
{
    (void)state;
    base = new_folder();
    whole = base ? file_in(base, "whole") : NULL;
    if (!whole)
        return -1;
    finishes(whole, NULL, NULL, NULL);
    return 0;
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
        cmocka_unit_test(remains_are_swept),
        cmocka_unit_test(remains_of_models_are_swept),
        cmocka_unit_test(busy_directories_are_refused),
        cmocka_unit_test(busy_by_another_name),
        cmocka_unit_test(busy_inside),
        cmocka_unit_test(locks_of_others),
        cmocka_unit_test(failure_at_the_end),
        cmocka_unit_test(finished_runs_are_kept),
        cmocka_unit_test(other_settings_are_refused),
        cmocka_unit_test(damaged_checkpoints_are_refused),
        cmocka_unit_test(lost_checkpoints_are_refused),
        cmocka_unit_test(killed_before_the_first_checkpoint),
        cmocka_unit_test(damaged_progress),
        cmocka_unit_test(progress_past_the_end),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
