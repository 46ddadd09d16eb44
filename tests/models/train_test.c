/* Training runs: the schedule, the order of batches, learning, the run directory, and that stopping, killing and going on leave
 * no trace in the result. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "models/train_internal.h"
#include "serialize/serialize.h"
#include "tests/support/graph_run.h"
#include "tests/support/model_files.h"
#include "tests/support/training.h"

/* ---- helpers */

static const char recipe[] = TRAINING_RECIPE(6);

static sg_config *configure(const char *key, const char *value)
{
    return training_config(recipe, &(sg_setting){"--set", key, value}, key ? 1 : 0);
}

typedef struct ears {
    int64_t stop_epoch, stop_step; /* stop after this step; 0: never */
    double first, best;            /* validation F1 */
    double known;                  /* the best one that the start of the run told; NaN: none */
    int64_t done, left;            /* batches that it told */
    bool resumed;
    const char *other; /* a directory that somebody else wants meanwhile; NULL: none */
    bool given;        /* and got */
} ears;

static bool listen(void *user, const sg_train_event *e)
{
    ears *heard = user;
    heard->resumed |= e->resumed;
    if (heard->other) {
        int other = open(heard->other, O_RDONLY | O_DIRECTORY);
        heard->given |= flock(other, LOCK_EX | LOCK_NB) == 0;
        close(other);
    }
    if (e->moment == SG_TRAIN_STARTED) {
        heard->known = e->best_value;
        heard->done = e->done;
        heard->left = e->left;
    } else {
        assert_true(e->done ==
                    (e->epoch - (e->moment == SG_TRAIN_STEP)) * e->steps + (e->moment == SG_TRAIN_STEP ? e->step : 0));
    }
    const sg_metric *f1 = e->validation ? sg_metrics_find(e->validation, "example_f1") : NULL;
    if (f1 && e->epoch == 1)
        heard->first = f1->value;
    if (f1 && e->best)
        heard->best = f1->value;
    if (f1)
        assert_true(e->best_value == heard->best || e->best_value == heard->known);
    return !(e->moment == SG_TRAIN_STEP && e->epoch == heard->stop_epoch && e->step == heard->stop_step);
}

typedef struct outcome {
    sg_status status;
    sg_train_result result;
    sg_error err;
} outcome;

static outcome train_in(const char *folder, const char *key, const char *value, bool force, ears *heard)
{
    outcome o = {.status = SG_OK};
    sg_config *config = configure(key, value);
    sg_training_data *data = training_data(config);
    sg_train_options options = {
        .size = sizeof options, .folder = folder, .force = force, .listener = heard ? listen : NULL, .user = heard};
    o.status = sg_train(config, data, &options, &o.result, &o.err);
    sg_training_data_free(data);
    sg_config_free(config);
    return o;
}

static void finishes(const char *folder, const char *key, const char *value, ears *heard)
{
    outcome o = train_in(folder, key, value, false, heard);
    if (o.status != SG_OK)
        fail_msg("%s", o.err.text);
    assert_true(o.result.finished);
}

static char *text_of(const char *folder, const char *name)
{
    char *path = file_in(folder, name), *text;
    size_t size;
    sg_error err = {0};
    if (sg_file_read(path, 1 << 26, &text, &size, &err) != SG_OK)
        fail_msg("%s", err.text);
    free(path);
    return text;
}

static bool exists(const char *folder, const char *name)
{
    char *path = file_in(folder, name);
    bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}

static void same_text(const char *a, const char *b, const char *name)
{
    char *x = text_of(a, name), *y = text_of(b, name);
    assert_true(x[0]);
    assert_string_equal(x, y);
    sg_free(x);
    sg_free(y);
}

static int lines(const char *folder, const char *name)
{
    char *text = text_of(folder, name);
    int n = 0;
    for (const char *at = text; *at; at++)
        n += *at == '\n';
    sg_free(text);
    return n;
}

static void same_runs(const char *a, const char *b)
{
    same_text(a, b, "metrics.json");
    assert_int_equal(lines(a, "metrics.jsonl"), lines(b, "metrics.jsonl"));
    char *x = file_in(a, "model"), *y = file_in(b, "model");
    assert_same_files(x, y);
    free(x);
    free(y);
}

static char *base, *whole; /* folder of all runs; the undisturbed run */

static char *run_folder(const char *name) { return file_in(base, name); }

/* ---- schedule */

static void plateau_halves_after_the_sixth(void **state)
{
    (void)state;
    sg_config *config = configure("train.plateau_patience", "5");
    const sg_train_config *c = sg_config_values(config);
    sgi_progress at = {.lr = 1};
    assert_true(sgi_schedule(&at, c, 0.5));
    for (int i = 0; i < 5; i++)
        assert_false(sgi_schedule(&at, c, 0.5));
    assert_true(at.lr == 1);
    assert_false(sgi_schedule(&at, c, 0.5));
    assert_true(at.lr == 0.5);
    for (int i = 0; i < 5; i++)
        sgi_schedule(&at, c, 0.4);
    assert_true(at.lr == 0.5);
    sgi_schedule(&at, c, 0.4);
    assert_true(at.lr == 0.25);
    assert_int_equal(at.best_epoch, 1);
    assert_int_equal(at.epoch, 13);
    sg_config_free(config);
}

/* A gain below the threshold is a new best epoch, but stands still for the plateau. */
static void small_gains(void **state)
{
    (void)state;
    sg_config *config = configure("train.plateau_patience", "1");
    const sg_train_config *c = sg_config_values(config);
    sgi_progress at = {.lr = 1};
    assert_true(sgi_schedule(&at, c, 0.5));
    assert_true(sgi_schedule(&at, c, 0.5 + 1e-6));
    assert_false(sgi_schedule(&at, c, 0.5 + 1e-6));
    assert_int_equal(at.best_epoch, 2);
    assert_true(at.lr == 0.5);
    assert_true(sgi_schedule(&at, c, 0.6));
    sgi_schedule(&at, c, 0.6);
    assert_true(at.lr == 0.5);
    sg_config_free(config);
}

/* The same rows summed in another order differ by a last bit or a few: the earlier epoch stays the best one, on every machine. */
static void ties_keep_the_earlier_epoch(void **state)
{
    (void)state;
    sg_config *config = configure("train.plateau_threshold", "0");
    const sg_train_config *c = sg_config_values(config);
    sgi_progress at = {.lr = 1};
    double one = 0.1, two = 0.2, three = 0.3, high = ((one + two) + three) / 3, low = (one + (two + three)) / 3;
    assert_true(low < high);
    assert_true(sgi_schedule(&at, c, low));
    assert_false(sgi_schedule(&at, c, high));
    assert_true(at.plateau_bad == 0 && at.lr < 1); /* patience 0: an epoch that stands still halves the rate */
    assert_true(sgi_schedule(&at, c, high + 1e-9));
    at = (sgi_progress){.lr = 1};
    assert_true(sgi_schedule(&at, c, 0));
    assert_false(sgi_schedule(&at, c, 0));
    assert_true(sgi_schedule(&at, c, 1e-9));
    sg_config_free(config);
}

static void patience_ends(void **state)
{
    (void)state;
    sg_config *config = configure("train.patience", "3");
    sg_train_config c = *sg_config_values(config);
    c.train.epochs = 10;
    sgi_progress at = {.lr = 1};
    sgi_schedule(&at, &c, 0.5);
    sgi_schedule(&at, &c, 0.6);
    for (int i = 0; i < 3; i++) {
        assert_false(sgi_schedule_over(&at, &c));
        sgi_schedule(&at, &c, 0.6);
    }
    assert_true(sgi_schedule_over(&at, &c));
    at = (sgi_progress){.lr = 1};
    for (int i = 0; i < 10; i++) {
        assert_false(sgi_schedule_over(&at, &c));
        sgi_schedule(&at, &c, i);
    }
    assert_true(sgi_schedule_over(&at, &c));
    sg_config_free(config);
}

/* ---- the order of batches: rows without features whose loss takes one of two values, by their only label. Which rows share the
 * first one's label shows the order, and hardly moves at a tiny rate. */

enum { SEEN = 256 };
typedef struct order {
    double loss[SEEN], before;
    int n;
} order;

static bool listen_order(void *user, const sg_train_event *e)
{
    order *o = user;
    if (e->moment != SG_TRAIN_STEP || o->n == SEEN)
        return true;
    double sum = e->bce * (double)e->step;
    o->loss[o->n++] = e->step == 1 ? sum : sum - o->before;
    o->before = sum;
    return true;
}

static void order_of_run(const char *seed, const char *order_seed, char pattern[SEEN + 1])
{
    enum { N = 100 };
    static float x[N * 2], y[N * 2];
    sg_setting sets[] = {{"--set", "seed", seed}, {"--set", "train.order_seed", order_seed}};
    static const char text[] =
        "threads: 1\nmodel: {hidden: [3]}\ntrain: {epochs: 2, batch: 1, lr: 1e-12, weight_decay: 0}\n";
    sg_config *config;
    sg_dataset *data;
    sg_training_data *ready;
    sg_error err = {0};
    order o = {.n = 0};
    for (int i = 0; i < N; i++) {
        bool second = test_uniform(9, i) < 0.5;
        y[2 * i] = !second;
        y[2 * i + 1] = second;
    }
    sg_config_request request = {.file = "order", .text = text, .sets = sets, .n_sets = 2};
    sg_train_options options = {.size = sizeof options, .listener = listen_order, .user = &o};
    sg_train_result result;
    if (sg_config_load(&config, &request, &err) != SG_OK ||
        sg_dataset_from_arrays(&data, x, y, N, 2, 2, SG_LAYOUT_DENSE, &err) != SG_OK ||
        sg_training_data_take(&ready, config, data, &err) != SG_OK ||
        sg_train(config, ready, &options, &result, &err) != SG_OK)
        fail_msg("%s", err.text);
    assert_true(o.n >= N);
    for (int i = 0; i < o.n; i++)
        pattern[i] = fabs(o.loss[i] - o.loss[0]) < 1e-4 ? 'a' : 'b';
    pattern[o.n] = 0;
    sg_store_free(result.store);
    sg_training_data_free(ready);
    sg_config_free(config);
}

static void order_has_its_own_seed(void **state)
{
    (void)state;
    char one[SEEN + 1], two[SEEN + 1], other[SEEN + 1];
    order_of_run("1", "13370", one);
    order_of_run("2", "13370", two);
    order_of_run("1", "7", other);
    assert_non_null(strchr(one, 'b'));
    assert_string_equal(one, two);
    assert_string_not_equal(one, other);
    size_t half = strlen(one) / 2;
    assert_memory_not_equal(one, one + half, half);
}

/* ---- rates by step: warm-up over the first steps, then down to 0 at the end of the last epoch */

typedef struct rates {
    int64_t steps, n;
    double at[SEEN]; /* after step i: the rate of step i + 1 */
} rates;

static bool listen_rate(void *user, const sg_train_event *e)
{
    rates *r = user;
    r->steps = e->steps;
    if (e->moment == SG_TRAIN_STEP && r->n < SEEN)
        r->at[r->n++] = e->lr;
    return true;
}

static void rates_follow_the_schedule(void **state)
{
    (void)state;
    enum { N = 60, EPOCHS = 3, WARMUP = 5 };
    static const char text[] = "threads: 1\nmodel: {hidden: [3]}\n"
                               "train: {epochs: 3, batch: 4, lr: 0.5, schedule: cosine, warmup: 5}\n";
    static float x[N * 2], y[N * 2];
    sg_config *config;
    sg_dataset *data;
    sg_training_data *ready;
    sg_error err = {0};
    rates heard = {.n = 0};
    for (int i = 0; i < N * 2; i++) {
        x[i] = (float)test_uniform(11, i);
        y[i] = x[i] > 0.5f;
    }
    sg_config_request request = {.file = "rates", .text = text};
    sg_train_options options = {.size = sizeof options, .listener = listen_rate, .user = &heard};
    sg_train_result result;
    if (sg_config_load(&config, &request, &err) != SG_OK ||
        sg_dataset_from_arrays(&data, x, y, N, 2, 2, SG_LAYOUT_DENSE, &err) != SG_OK ||
        sg_training_data_take(&ready, config, data, &err) != SG_OK ||
        sg_train(config, ready, &options, &result, &err) != SG_OK)
        fail_msg("%s", err.text);
    assert_int_equal(heard.n, EPOCHS * heard.steps);
    for (int64_t i = 0; i < heard.n; i++)
        assert_true(heard.at[i] == 0.5 * sg_schedule_factor(SG_SCHEDULE_COSINE, WARMUP, EPOCHS * heard.steps, i + 1));
    assert_true(heard.at[0] == 0.1 && heard.at[WARMUP - 1] == 0.5 && heard.at[heard.n - 1] == 0);
    sg_store_free(result.store);
    sg_training_data_free(ready);
    sg_config_free(config);
}

/* ---- runs */

static void runs_in_memory_learn(void **state)
{
    (void)state;
    ears heard = {0};
    outcome o = train_in(NULL, "train.epochs", "30", false, &heard);
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
        if (!exists(whole, names[i]))
            fail_msg("%s is missing", names[i]);
    char *run = text_of(whole, "run.json");
    assert_non_null(strstr(run, "\"status\": \"finished\""));
    sg_free(run);
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
    char *a = text_of(seed, "metrics.json"), *b = text_of(whole, "metrics.json");
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
        outcome o = train_in(folder, NULL, NULL, false, &heard);
        assert_int_equal(o.status, SG_OK);
        assert_false(o.result.finished);
        assert_int_equal(heard.resumed, i > 0);
        assert_int_equal(heard.done, i ? (stops[i - 1][0] - 1) * 6 + stops[i - 1][1] : 0);
        assert_int_equal(heard.left, 6 * 6 - heard.done);
        assert_int_equal(isnan(heard.known), i < 2); /* the first epoch ended in the second call */
        assert_false(exists(folder, "metrics.json"));
    }
    ears heard = {0};
    finishes(folder, NULL, NULL, &heard);
    assert_true(heard.resumed);
    same_runs(folder, whole);
    free(folder);
}

/* A child trains; it is killed after a while, over and over, until one comes to the end. */
static void killed_runs_go_on(void **state)
{
    (void)state;
    char *folder = run_folder("killed");
    int kills = 0, status = -1;
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            outcome o = train_in(folder, NULL, NULL, false, NULL);
            if (o.status != SG_OK)
                print_error("%s\n", o.err.text);
            _exit(o.status == SG_OK ? 0 : 1);
        }
        struct timespec pause = {0, (long)(1e6 * (2 + (20 + 5 * i) * test_uniform(21, i)))};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) || exists(folder, "metrics.json"))
            break;
        kills++;
    }
    print_message("killed %d times\n", kills);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
    assert_true(kills > 0);
    same_runs(folder, whole);
    free(folder);
}

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
    assert_false(exists(folder, "config.yml.tmp123"));
    free(rest);
    free(folder);
    folder = run_folder("foreign");
    assert_int_equal(sg_folder_make(folder, NULL), SG_OK);
    rest = file_in(folder, "letter.txt");
    assert_int_equal(sg_file_write(rest, "dear", 4, NULL), SG_OK);
    assert_int_equal(train_in(folder, NULL, NULL, false, NULL).status, SG_E_ARGUMENT);
    assert_true(exists(folder, "letter.txt"));
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
    assert_false(exists(folder, names[0]) || exists(folder, names[1]));
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
        outcome o = train_in(folder, NULL, NULL, force, NULL);
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
    outcome o = train_in(folder, NULL, NULL, false, NULL);
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

static void finished_runs_are_kept(void **state)
{
    (void)state;
    char *folder = run_folder("again"), *aside = run_folder("again.1");
    outcome o = train_in(folder, NULL, NULL, false, NULL);
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
    outcome o = train_in(folder, "train.lr", "0.02", false, NULL);
    assert_int_equal(o.status, SG_E_CONFIG);
    assert_non_null(strstr(o.err.text, "lr: 0.01"));
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
    outcome o = train_in(folder, NULL, NULL, false, NULL);
    char text[1024];
    assert_int_equal(o.status, SG_E_DATA);
    assert_non_null(strstr(sg_error_format(&o.err, text, sizeof text), "checkpoint.safetensors"));
    free(path);
    free(folder);
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
        sg_text_pair metadata[] = {{"format", "sealgraph checkpoint 1"}, {"state", text}};
        assert_int_equal(
            sg_safetensors_write(path, sg_safetensors_at(file, 0), sg_safetensors_count(file), metadata, 2, NULL),
            SG_OK);
        ears stop = {.stop_epoch = 2, .stop_step = 3};
        outcome o = train_in(folder, "train.epochs", "2", false, &stop);
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
    sg_text_pair metadata[] = {{"format", "sealgraph checkpoint 1"}, {"state", text}};
    assert_int_equal(
        sg_safetensors_write(path, sg_safetensors_at(file, 0), sg_safetensors_count(file), metadata, 2, NULL), SG_OK);
    outcome o = train_in(folder, "train.epochs", "2", false, NULL);
    assert_int_equal(o.status, SG_E_DATA);
    sg_safetensors_free(file);
    sg_free(text);
    free(path);
    free(folder);
}

static void divergence_is_told(void **state)
{
    (void)state;
    char *folder = run_folder("diverged");
    outcome o = train_in(folder, "train.lr", "1e30", false, NULL);
    assert_int_equal(o.status, SG_E_DIVERGED);
    char *run = text_of(folder, "run.json");
    assert_non_null(strstr(run, "\"status\": \"diverged\""));
    assert_false(exists(folder, "metrics.json"));
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
        cmocka_unit_test(plateau_halves_after_the_sixth),
        cmocka_unit_test(small_gains),
        cmocka_unit_test(ties_keep_the_earlier_epoch),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(run_directory), /* makes what the others compare with */
        cmocka_unit_test(killed_runs_go_on),
        cmocka_unit_test(order_has_its_own_seed),
        cmocka_unit_test(rates_follow_the_schedule),
        cmocka_unit_test(runs_in_memory_learn),
        cmocka_unit_test(equal_runs_are_equal),
        cmocka_unit_test(stopped_runs_go_on),
        cmocka_unit_test(remains_are_swept),
        cmocka_unit_test(remains_of_models_are_swept),
        cmocka_unit_test(busy_directories_are_refused),
        cmocka_unit_test(busy_by_another_name),
        cmocka_unit_test(finished_runs_are_kept),
        cmocka_unit_test(other_settings_are_refused),
        cmocka_unit_test(damaged_checkpoints_are_refused),
        cmocka_unit_test(damaged_progress),
        cmocka_unit_test(progress_past_the_end),
        cmocka_unit_test(divergence_is_told),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
