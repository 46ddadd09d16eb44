/* Schedules: the plateau rule, ties, patience, rates by step, and the order of batches, which has a seed of its own. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "models/train_internal.h"
#include "tests/support/graph_run.h"
#include "tests/support/training.h"

static sg_config *configure(const char *key, const char *value)
{
    return training_config(TRAINING_RECIPE(6), &(sg_setting){"--set", key, value}, 1);
}

/* ---- the plateau rule and patience */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plateau_halves_after_the_sixth), cmocka_unit_test(small_gains),
        cmocka_unit_test(ties_keep_the_earlier_epoch),    cmocka_unit_test(patience_ends),
        cmocka_unit_test(order_has_its_own_seed),         cmocka_unit_test(rates_follow_the_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
