/* Several seeds side by side: each has the bits that it has alone, on the cpu and on a device that runs ahead (tests/mirror; with
 * the argument --gpu a real one, skipped where there is none); runs are the same twice, and recorded or launch by launch; stopped
 * ones go on; divergence; means and deviations. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "models/train_internal.h"
#include "models/plan_batch_internal.h"
#include "serialize/serialize.h"
#include "tests/support/gpu_session.h"
#include "tests/support/graph_run.h"
#include "tests/support/model_files.h"
#include "tests/support/store_check.h"
#include "tests/support/training.h"

static const char recipe[] =
    "threads: 1\n"
    "data: {fractions: [0.6, 0.2, 0.2]}\n"
    "model: {hidden: [12, 10], dropout: [0.2, 0]}\n"
    "energy: {global: 6}\n"
    "loss: {name: seal-dynamic, samples: 5, n_energy: 2, n_task: 2}\n"
    "train: {epochs: 5, batch: 16, lr: 0.01, energy_lr: 0.01, plateau_patience: 0, patience: 2}\n";

static char *base;

/* ---- helpers */

typedef struct settings {
    const char *device, *seed, *seeds, *lr, *batch;
} settings;

static sg_config *configure(settings given)
{
    sg_setting sets[] = {{"--set", "device", given.device},
                         {"--set", "seed", given.seed},
                         {"--set", "seeds", given.seeds},
                         {"--set", "train.lr", given.lr ? given.lr : "0.01"},
                         {"--set", "train.batch", given.batch ? given.batch : "16"}};
    return training_config(recipe, sets, sizeof sets / sizeof *sets);
}

typedef struct ears {
    int64_t stop_seed, stop_epoch, stop_step; /* stop there; epoch 0: never */
    int64_t steps, epochs;                    /* heard */
    const char *other;                        /* a directory that somebody else wants meanwhile; NULL: none */
    bool given;                               /* and got */
} ears;

/* Below 0: another has the lock. */
static int lock_of(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool listen(void *user, const sg_train_event *e)
{
    ears *heard = user;
    heard->steps += e->moment == SG_TRAIN_STEP;
    heard->epochs += e->moment == SG_TRAIN_EPOCH;
    int other = heard->other ? lock_of(heard->other) : -1;
    if (other >= 0) {
        heard->given = true;
        close(other);
    }
    return !(e->moment == SG_TRAIN_STEP && e->seed == heard->stop_seed && e->epoch == heard->stop_epoch &&
             e->step == heard->stop_step);
}

static sg_status train(settings given, const char *folder, bool force, ears *heard, sg_seeds_result *several,
                       sg_train_result *one, sg_error *err)
{
    sg_config *config = configure(given);
    sg_training_data *data = training_data(config);
    ears unused = {0};
    sg_train_options options = {
        .size = sizeof options, .folder = folder, .force = force, .listener = listen, .user = heard ? heard : &unused};
    sg_status status =
        several ? sg_train_seeds(config, data, &options, several, err) : sg_train(config, data, &options, one, err);
    sg_training_data_free(data);
    sg_config_free(config);
    return status;
}

static void good(sg_status status, const sg_error *err)
{
    if (status != SG_OK)
        fail_msg("%s", err->text);
}

static void same_runs(const char *a, const char *b)
{
    assert_same_file(a, b, "metrics.json");
    assert_same_file(a, b, "checkpoint.safetensors");
    char *x = file_in(a, "model"), *y = file_in(b, "model");
    assert_same_files(x, y);
    free(x);
    free(y);
}

/* The folder of seed N trained alone on the device, made once. */
static char *alone(const char *device, int64_t seed)
{
    char name[64], number[24];
    sg_train_result result;
    sg_error err = {0};
    snprintf(name, sizeof name, "%s-%lld", device, (long long)seed);
    snprintf(number, sizeof number, "%lld", (long long)seed);
    char *folder = file_in(base, name);
    if (!is_in(folder, "metrics.json"))
        good(train((settings){device, number, "[]", NULL, NULL}, folder, false, NULL, NULL, &result, &err), &err);
    return folder;
}

static void as_alone(const char *device, const char *folder, const sg_seeds_result *result)
{
    assert_true(result->finished);
    for (int32_t i = 0; i < result->count; i++) {
        char name[40];
        snprintf(name, sizeof name, "seed-%lld", (long long)result->seed[i].seed);
        char *here = file_in(folder, name), *there = alone(device, result->seed[i].seed);
        same_runs(here, there);
        free(here);
        free(there);
    }
}

/* ---- tests */

static void bits_are_those_of_each_alone(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "cuda"};
    for (int d = 0; d < 2; d++) {
        char name[32];
        snprintf(name, sizeof name, "several-%s", devices[d]);
        char *folder = file_in(base, name);
        sg_seeds_result result;
        sg_error err = {0};
        ears heard = {0};
        good(train((settings){devices[d], "4", "3", NULL, NULL}, folder, false, &heard, &result, NULL, &err), &err);
        assert_int_equal(result.count, 3);
        assert_int_equal(result.seed[2].seed, 6);
        assert_int_equal(heard.steps, 6 * heard.epochs);
        as_alone(devices[d], folder, &result);
        assert_true(is_in(folder, "metrics.json") && is_in(folder, "config.yml"));
        sg_seeds_result again;
        assert_int_equal(train((settings){devices[d], "4", "3", NULL, NULL}, folder, false, NULL, &again, NULL, &err),
                         SG_E_ARGUMENT);
        assert_non_null(strstr(err.text, "--force"));
        sg_seeds_result_free(&again);
        sg_seeds_result_free(&result);
        free(folder);
    }
}

static void twice_the_same(void **state)
{
    (void)state;
    sg_train_result result;
    sg_error err = {0};
    char *first = alone("cuda", 5), *second = file_in(base, "cuda-5-again");
    good(train((settings){"cuda", "5", "[]", NULL, NULL}, second, false, NULL, NULL, &result, &err), &err);
    same_runs(first, second);
    free(first);
    free(second);
}

/* A session that measures times launches each kernel by itself. */
static sg_store *steps_by(bool launches, float *losses)
{
    enum { STEPS = 20 };
    sg_config *config = configure((settings){"cuda", "3", "[]", NULL, NULL});
    sg_training_data *data = training_data(config);
    sg_step_options o = sg_step_options_of(sg_config_values(config), data->data);
    sg_store *store = sg_store_new(SG_F32);
    sg_graph *graph = sg_graph_new();
    sg_session *session;
    sg_plan *plan;
    sg_batch *batch;
    sg_error err = {0};
    double rate = 0.01;
    good(sg_step_build(graph, store, &o, &err), &err);
    sg_rng_seed(store, 3, 0);
    sg_store_initialise(store, 3);
    sg_store_set(store, "task/lr", &rate, 1, NULL);
    sg_store_set(store, "energy/lr", &rate, 1, NULL);
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .threads = 1, .profile = launches};
    good(sg_session_new(&session, store, &options, &err), &err);
    good(sg_plan_new(&plan, session, graph, &err), &err);
    good(sg_batch_new(&batch, data->data, o.batch, o.capacity, &err), &err);
    for (int i = 0; i < STEPS; i++) {
        good(sg_dataset_batch(data->data, data->split.rows[SG_TRAIN] + i % 4 * o.batch, o.batch, batch, &err), &err);
        good(sgi_feed_batch(plan, SG_F32, batch, &err), &err);
        good(sg_plan_run(plan, &err), &err);
        good(sgi_fetch_floats(plan, SG_F32, "nce", &losses[i], 1, &err), &err);
    }
    sg_batch_free(batch);
    sg_plan_free(plan);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_training_data_free(data);
    sg_config_free(config);
    return store;
}

static void recorded_or_launch_by_launch(void **state)
{
    (void)state;
    float a[20], b[20];
    sg_store *recorded = steps_by(false, a), *launched = steps_by(true, b);
    assert_memory_equal(a, b, sizeof a);
    same_stores(recorded, launched);
    sg_store_free(recorded);
    sg_store_free(launched);
}

/* A seed that has lost its checkpoint is refused, and trains again alone once its folder is out of the way. */
static void loses_checkpoint(settings given, const char *folder)
{
    char *seed = file_in(folder, "seed-5"), *path = file_in(seed, "checkpoint.safetensors");
    sg_seeds_result result;
    sg_error err = {0};
    assert_int_equal(unlink(path), 0);
    assert_int_equal(train(given, folder, false, NULL, &result, NULL, &err), SG_E_DATA);
    if (!strstr(err.text, "seed-5 holds an unfinished run, but its checkpoint.safetensors is gone, with ") ||
        !strstr(err.text, "seed-5 away to train its seed again, or use --force to keep all seeds as "))
        fail_msg("%s", err.text);
    sg_seeds_result_free(&result);
    assert_int_equal(sg_folder_remove(seed, NULL), SG_OK);
    free(path);
    free(seed);
}

/* Three seeds stopped, one's folder moved away meanwhile: they meet again. */
static void stopped_seeds_go_on(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "cuda"};
    for (int d = 0; d < 2; d++) {
        char name[32];
        snprintf(name, sizeof name, "stopped-%s", devices[d]);
        char *folder = file_in(base, name);
        settings three = {devices[d], "4", "[6, 4, 5]", NULL, NULL};
        static const int64_t stops[][3] = {{4, 1, 2}, {6, 2, 5}, {5, 3, 6}};
        sg_seeds_result result;
        sg_error err = {0};
        for (size_t i = 0; i < 3; i++) {
            ears heard = {.stop_seed = stops[i][0], .stop_epoch = stops[i][1], .stop_step = stops[i][2]};
            good(train(three, folder, false, &heard, &result, NULL, &err), &err);
            assert_false(result.finished);
            assert_false(is_in(folder, "metrics.json"));
            sg_seeds_result_free(&result);
            if (i == 1)
                loses_checkpoint(three, folder);
        }
        good(train(three, folder, false, NULL, &result, NULL, &err), &err);
        as_alone(devices[d], folder, &result);
        sg_seeds_result_free(&result);
        free(folder);
    }
}

/* Each file of a finished group but the last: only the summary is made again. */
/* In place of the C library's: the disk is full after so many; below 0: never. */
static int fitting = -1;
static atomic_int written;
ssize_t write(int fd, const void *data, size_t size)
{
    if (fitting < 0 || written++ < fitting)
        return (ssize_t)syscall(SYS_write, fd, data, size);
    errno = ENOSPC;
    return -1;
}

/* Empty: it has none. */
static void status_of(const char *folder, const char *name, char out[16])
{
    char *path = file_in(folder, name), *text = NULL;
    size_t size;
    out[0] = 0;
    if (sg_file_read(path, 1 << 20, &text, &size, NULL) == SG_OK) {
        json_t *record = json_loads(text, 0, NULL);
        assert_non_null(record);
        snprintf(out, 16, "%s", json_string_value(json_object_get(record, "status")));
        json_decref(record);
    }
    sg_free(text);
    free(path);
}

/* Wherever it happens, what becomes of the runs is told, and they go on. */
static void a_full_disk_is_told(void **state)
{
    (void)state;
    static const int fits[] = {2, 4, 7, 8, 9, 12, 20, 29};
    settings two = {"cpu", "4", "2", NULL, NULL};
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++) {
        char name[32], whole[16], seed[16];
        sg_seeds_result result;
        sg_error err = {0};
        snprintf(name, sizeof name, "full-%d", fits[i]);
        char *folder = file_in(base, name);
        written = 0;
        fitting = fits[i];
        sg_status status = train(two, folder, false, NULL, &result, NULL, &err);
        fitting = -1;
        sg_seeds_result_free(&result);
        assert_int_equal(status, SG_E_IO);
        status_of(folder, "run.json", whole);
        assert_string_equal(whole, "failed");
        status_of(folder, "seed-4/run.json", seed);
        assert_string_not_equal(seed, "running");
        status_of(folder, "seed-5/run.json", seed);
        assert_string_not_equal(seed, "running");
        good(train(two, folder, false, NULL, &result, NULL, &err), &err);
        as_alone("cpu", folder, &result);
        sg_seeds_result_free(&result);
        free(folder);
    }
}

static void finished_seeds_are_not_trained_again(void **state)
{
    (void)state;
    char *folder = file_in(base, "several-cpu"), *path = file_in(folder, "metrics.json");
    char *before = text_in(folder, "metrics.json");
    sg_seeds_result result;
    sg_error err = {0};
    ears heard = {0};
    assert_int_equal(unlink(path), 0);
    good(train((settings){"cpu", "4", "3", NULL, NULL}, folder, false, &heard, &result, NULL, &err), &err);
    assert_int_equal(heard.steps, 0);
    assert_true(result.finished);
    char *after = text_in(folder, "metrics.json");
    assert_string_equal(before, after);
    sg_free(before);
    sg_free(after);
    sg_seeds_result_free(&result);
    free(path);
    free(folder);
}

static void refused_while_locked(settings given, const char *folder, const char *other)
{
    sg_seeds_result result;
    sg_error err = {0};
    int held = lock_of(other);
    assert_true(held >= 0);
    assert_int_equal(train(given, folder, false, NULL, &result, NULL, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "another process"));
    sg_seeds_result_free(&result);
    close(held);
}

/* A seed's directory that is reached by a name outside that of the whole is not to be had by two either. */
static void seeds_elsewhere_are_locked(void **state)
{
    (void)state;
    char *folder = file_in(base, "linked"), *other = file_in(base, "elsewhere"), *inside = file_in(folder, "seed-6");
    char *link = file_in(folder, "seed-5"), *summary = file_in(folder, "metrics.json");
    settings three = {"cpu", "4", "3", NULL, NULL};
    sg_seeds_result result;
    sg_error err = {0};
    ears heard = {.stop_seed = 4, .stop_epoch = 1, .stop_step = 2};
    good(train(three, folder, false, &heard, &result, NULL, &err), &err);
    sg_seeds_result_free(&result);
    assert_int_equal(rename(link, other), 0);
    assert_int_equal(symlink("../elsewhere", link), 0);
    refused_while_locked(three, folder, other);
    refused_while_locked(three, folder, inside);
    heard = (ears){.other = other};
    good(train(three, folder, false, &heard, &result, NULL, &err), &err);
    assert_true(result.finished && heard.steps > 0 && !heard.given);
    sg_seeds_result_free(&result);
    assert_int_equal(unlink(summary), 0);
    refused_while_locked(three, folder, other); /* nor when that seed is finished */
    good(train(three, folder, false, NULL, &result, NULL, &err), &err);
    as_alone("cpu", folder, &result);
    sg_seeds_result_free(&result);
    free(folder);
    free(other);
    free(inside);
    free(link);
    free(summary);
}

static void divergence_is_told(void **state)
{
    (void)state;
    char *folder = file_in(base, "diverged");
    sg_seeds_result result;
    sg_error err = {0};
    assert_int_equal(train((settings){"cuda", "1", "2", "1e30", NULL}, folder, false, NULL, &result, NULL, &err),
                     SG_E_DIVERGED);
    assert_non_null(strstr(err.text, "seed 1: loss"));
    assert_non_null(strstr(err.text, "batch"));
    assert_false(result.finished);
    assert_false(is_in(folder, "metrics.json"));
    char *run = text_in(folder, "seed-2/run.json");
    assert_non_null(strstr(run, "\"status\": \"diverged\""));
    sg_free(run);
    sg_seeds_result_free(&result);
    free(folder);
}

/* Epochs of one batch, of two, of more than are under way at a time. */
static void runs_in_memory(void **state)
{
    (void)state;
    static const char *const batches[] = {"16", "32", "50", "90", "200"};
    static const char *const devices[] = {"cpu", "cuda"};
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
            sg_seeds_result result;
            sg_train_result one;
            sg_error err = {0};
            settings two = {devices[d], "4", "2", NULL, batches[i]}, single = {devices[d], "5", "[]", NULL, batches[i]};
            good(train(two, NULL, false, NULL, &result, NULL, &err), &err);
            good(train(single, NULL, false, NULL, NULL, &one, &err), &err);
            same_stores(result.seed[1].result.store, one.store);
            sg_seeds_result_free(&result);
            sg_store_free(one.store);
        }
}

static void seeds_of_a_configuration(void **state)
{
    (void)state;
    static const struct {
        const char *seed, *given;
        int32_t count; /* 0: refused */
        int64_t first, last;
    } cases[] = {{"8", "[]", 1, 8, 8},
                 {"8", "3", 3, 8, 10},
                 {"8", "[1]", 1, 8, 8},
                 {"8", "[2, 123, 234]", 3, 2, 234},
                 {"8", "0", 0, 0, 0},
                 {"8", "5000", 0, 0, 0},
                 {"8", "[3, 1, 3]", 0, 0, 0},
                 {"8", "7,0", 2, 7, 0},
                 {"9223372036854775806", "2", 2, INT64_MAX - 1, INT64_MAX},
                 {"9223372036854775806", "3", 0, 0, 0},
                 {"9223372036854775807", "7,0", 2, 7, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_config *config = configure((settings){"cpu", cases[i].seed, cases[i].given, NULL, NULL});
        int64_t *seed = NULL;
        int32_t n = 0;
        sg_error err = {0};
        sg_status status = sg_config_seeds(config, &seed, &n, &err);
        assert_int_equal(status, cases[i].count ? SG_OK : SG_E_CONFIG);
        if (status == SG_OK) {
            assert_int_equal(n, cases[i].count);
            assert_int_equal(seed[0], cases[i].first);
            assert_int_equal(seed[n - 1], cases[i].last);
        }
        sg_free(seed);
        sg_config_free(config);
    }
}

static void means_and_deviations(void **state)
{
    (void)state;
    sg_metrics a = {2, {{"f", 1, true}, {"g", 5, true}}}, b = {2, {{"f", 2, true}, {"g", 0, false}}},
               c = {2, {{"f", 4.5, true}, {"g", 0, false}}}, mean, deviation;
    const sg_metrics *of[] = {&a, &b, &c};
    sg_metrics_spread(of, 3, &mean, &deviation);
    assert_true(mean.count == 2 && mean.metric[0].value == 2.5 && mean.metric[1].value == 5);
    assert_true(fabs(deviation.metric[0].value - sqrt((2.25 + 0.25 + 4) / 2)) < 1e-15);
    assert_false(deviation.metric[1].defined);
    sg_metrics_spread(of, 0, &mean, &deviation);
    assert_int_equal(mean.count, 0);
}

static int make_base(void **state)
{
    (void)state;
    base = new_folder();
    return base ? 0 : -1;
}

static int remove_base(void **state)
{
    (void)state;
    sg_status status = sg_folder_remove(base, NULL);
    free(base);
    return status == SG_OK ? 0 : -1;
}

int main(int argc, char **argv)
{
    bool gpu = argc > 1 && strcmp(argv[1], "--gpu") == 0;
    if (!gpu)
        setenv("SEALGRAPH_MODULE_PATH", SG_BINARY_DIR "/tests/mirror", 1);
    else if (!test_gpu_is_there(NULL))
        return TEST_SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_each_alone),
        cmocka_unit_test(twice_the_same),
        cmocka_unit_test(recorded_or_launch_by_launch),
        cmocka_unit_test(stopped_seeds_go_on),
        cmocka_unit_test(a_full_disk_is_told),
        cmocka_unit_test(finished_seeds_are_not_trained_again),
        cmocka_unit_test(seeds_elsewhere_are_locked),
        cmocka_unit_test(divergence_is_told),
        cmocka_unit_test(runs_in_memory),
        cmocka_unit_test(seeds_of_a_configuration),
        cmocka_unit_test(means_and_deviations),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
