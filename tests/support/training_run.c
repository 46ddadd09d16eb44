#include "tests/support/training_run.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/model_files.h"
#include "tests/support/training.h"

static const char recipe[] = TRAINING_RECIPE(6);

static sg_config *configure(const char *key, const char *value)
{
    return training_config(recipe, &(sg_setting){"--set", key, value}, key ? 1 : 0);
}

static bool listen(void *user, const sg_train_event *e)
{
    ears *heard = user;
    heard->resumed |= e->resumed;
    if (heard->other) {
        int other = open(heard->other, O_RDONLY | O_DIRECTORY);
        heard->given |= flock(other, LOCK_EX | LOCK_NB) == 0;
        close(other);
    }
    if (heard->forced && e->moment == SG_TRAIN_STEP) {
        heard->answer = train_in(heard->forced, NULL, NULL, true, NULL).status;
        heard->forced = NULL;
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

run_outcome train_in(const char *folder, const char *key, const char *value, bool force, ears *heard)
{
    run_outcome o = {.status = SG_OK};
    sg_config *config = configure(key, value);
    sg_training_data *data = training_data(config);
    sg_train_options options = {
        .size = sizeof options, .folder = folder, .force = force, .listener = heard ? listen : NULL, .user = heard};
    o.status = sg_train(config, data, &options, &o.result, &o.err);
    sg_training_data_free(data);
    sg_config_free(config);
    return o;
}

void finishes(const char *folder, const char *key, const char *value, ears *heard)
{
    run_outcome o = train_in(folder, key, value, false, heard);
    if (o.status != SG_OK)
        fail_msg("%s", o.err.text);
    assert_true(o.result.finished);
}

static void same_text(const char *a, const char *b, const char *name)
{
    char *x = text_in(a, name), *y = text_in(b, name);
    assert_true(x[0]);
    assert_string_equal(x, y);
    sg_free(x);
    sg_free(y);
}

static int lines(const char *folder, const char *name)
{
    char *text = text_in(folder, name);
    int n = 0;
    for (const char *at = text; *at; at++)
        n += *at == '\n';
    sg_free(text);
    return n;
}

void same_runs(const char *a, const char *b)
{
    same_text(a, b, "metrics.json");
    assert_int_equal(lines(a, "metrics.jsonl"), lines(b, "metrics.jsonl"));
    char *x = file_in(a, "model"), *y = file_in(b, "model");
    assert_same_files(x, y);
    free(x);
    free(y);
}
