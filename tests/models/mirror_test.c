/* Training on a device whose memory is not the host's: the run is that on the cpu, in memory and in a folder, and an allocation that
 * fails ends it with an error. The device is tests/mirror, loaded as the CUDA module is, once doing its work at once, and once doing
 * nothing before somebody waits for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/models.h"
#include "serialize/serialize.h"
#include "tests/support/mirror_device.h"
#include "tests/support/model_files.h"
#include "tests/support/store_check.h"
#include "tests/support/training.h"

static mirror_counts *count;

static void good(sg_status status, const sg_error *err)
{
    if (status != SG_OK)
        fail_msg("%s", err->text);
}

static const char recipe[] = TRAINING_RECIPE(3);

static sg_status try_training(const char *device, const char *folder, sg_train_result *result, sg_error *err)
{
    sg_config *config = training_config(recipe, &(sg_setting){"--set", "device", device}, 1);
    sg_training_data *data = training_data(config);
    sg_train_options options = {.size = sizeof options, .folder = folder};
    sg_status status = sg_train(config, data, &options, result, err);
    sg_training_data_free(data);
    sg_config_free(config);
    return status;
}

static sg_train_result train_on(const char *device, const char *folder)
{
    sg_train_result result;
    sg_error err = {0};
    good(try_training(device, folder, &result, &err), &err);
    return result;
}

static void same_metrics(const sg_metrics *a, const sg_metrics *b)
{
    assert_int_equal(a->count, b->count);
    for (int32_t i = 0; i < a->count; i++)
        assert_true(a->metric[i].value == b->metric[i].value);
}

static void runs_are_equal(void **state)
{
    (void)state;
    sg_train_result a = train_on("cuda", NULL), b = train_on("cpu", NULL);
    assert_int_equal(a.epoch, b.epoch);
    same_metrics(&a.best, &b.best);
    same_metrics(&a.test, &b.test);
    same_stores(a.store, b.store);
    sg_store_free(a.store);
    sg_store_free(b.store);
}

static void memory_runs_out(void **state)
{
    (void)state;
    sg_train_result result;
    for (int64_t fail_at = 1;; fail_at++) {
        sg_error err = {0};
        count->allocations = 0;
        count->fail_at = fail_at;
        sg_status status = try_training("cuda", NULL, &result, &err);
        if (count->allocations < fail_at)
            break;
        assert_int_equal(status, SG_E_MEMORY);
        assert_non_null(strstr(err.text, "out of memory"));
    }
    count->fail_at = 0;
    sg_store_free(result.store);
}

/* Checkpoints and the best model go through the store's values. */
static void folders_are_equal(void **state)
{
    (void)state;
    const char *names[] = {"checkpoint.safetensors", "metrics.json", "model/model.safetensors"};
    char *folder = new_folder(), *a = file_in(folder, "a"), *b = file_in(folder, "b");
    train_on("cuda", a);
    train_on("cpu", b);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_same_file(a, b, names[i]);
    sg_folder_remove(folder, NULL);
    free(a);
    free(b);
    free(folder);
}

int main(void)
{
    if (!(count = mirror_open()))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_equal),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(folders_are_equal),
    };
    int failed = cmocka_run_group_tests_name("at once", tests, NULL, NULL);
    count->late = true;
    return failed + cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
