/* Real attributes and settings that no operator can compute with are refused where they are given. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ops/ops.h"

enum { ROWS = 4, COLUMNS = 6 };

/* A value for each use. */
typedef struct values {
    sg_graph *graph;
    sg_value x, row, image, channels, heads, one;
} values;

static values make(void)
{
    sg_graph *g = sg_graph_new();
    return (values){g,
                    sg_input(g, "x", SG_F32, SG_SHAPE(ROWS, COLUMNS)),
                    sg_input(g, "row", SG_F32, SG_SHAPE(COLUMNS)),
                    sg_input(g, "image", SG_F32, SG_SHAPE(2, ROWS, 3, 3)),
                    sg_input(g, "channels", SG_F32, SG_SHAPE(ROWS)),
                    sg_input(g, "heads", SG_F32, SG_SHAPE(2, 2, ROWS, COLUMNS)),
                    sg_input(g, "one", SG_F32, sg_shape_scalar())};
}

/* ---- builders with the one setting given, others as usual */

static void leaky_relu(const values *v, double c) { sg_leaky_relu(v->x, c); }
static void elu(const values *v, double c) { sg_elu(v->x, c); }
static void clip_low(const values *v, double c) { sg_clip(v->x, c, INFINITY); }
static void clip_high(const values *v, double c) { sg_clip(v->x, -INFINITY, c); }
static void layer_norm(const values *v, double c) { sg_layer_norm(v->x, v->row, v->row, c); }
static void rms_norm(const values *v, double c) { sg_rms_norm(v->x, v->row, c); }
static void group_norm(const values *v, double c) { sg_group_norm(v->image, 2, v->channels, v->channels, c); }
static void batch_eps(const values *v, double c)
{
    sg_batch_norm(v->image, v->channels, v->channels, v->channels, v->channels, 0.1, c);
}
static void batch_momentum(const values *v, double c)
{
    sg_batch_norm(v->image, v->channels, v->channels, v->channels, v->channels, c, 1e-5);
}
static void batch_inference(const values *v, double c)
{
    sg_batch_norm_inference(v->image, v->channels, v->channels, v->channels, v->channels, c);
}
static void scale(const values *v, double c)
{
    sg_attention(v->heads, v->heads, v->heads, &(sg_attention_options){.scale = c});
}
static void attention_dropout(const values *v, double c)
{
    static sg_store *store; /* one for all: entries of the same names */
    store = store ? store : sg_store_new(SG_F32);
    sg_attention(v->heads, v->heads, v->heads,
                 &(sg_attention_options){.dropout = c, .scope = sg_scope_root(v->graph, store)});
}
static void dropout(const values *v, double c)
{
    static sg_store *store;
    store = store ? store : sg_store_new(SG_F32);
    sg_dropout(sg_scope_root(v->graph, store), v->x, c);
}
static void adam(const values *v, double beta1, double beta2, double eps, double decay)
{
    sg_adam((sg_adam_state){v->x, v->x, v->x}, v->x, v->one, v->one, beta1, beta2, eps, decay, true);
}
static void amsgrad(const values *v, double beta1, double beta2, double eps, double decay)
{
    sg_amsgrad((sg_amsgrad_state){v->x, v->x, v->x, v->x}, v->x, v->one, v->one, beta1, beta2, eps, decay, true);
}
static void adam_beta1(const values *v, double c) { adam(v, c, 0.9, 1e-8, 0); }
static void adam_beta2(const values *v, double c) { adam(v, 0.9, c, 1e-8, 0); }
static void adam_eps(const values *v, double c) { adam(v, 0.9, 0.9, c, 0); }
static void adam_decay(const values *v, double c) { adam(v, 0.9, 0.9, 1e-8, c); }
static void amsgrad_beta1(const values *v, double c) { amsgrad(v, c, 0.9, 1e-8, 0); }
static void amsgrad_beta2(const values *v, double c) { amsgrad(v, 0.9, c, 1e-8, 0); }
static void amsgrad_eps(const values *v, double c) { amsgrad(v, 0.9, 0.9, c, 0); }
static void amsgrad_decay(const values *v, double c) { amsgrad(v, 0.9, 0.9, 1e-8, c); }
static void sgd_momentum(const values *v, double c) { sg_sgd((sg_sgd_state){v->x, v->x}, v->x, v->one, c, 0, false); }
static void sgd_decay(const values *v, double c) { sg_sgd((sg_sgd_state){v->x, v->x}, v->x, v->one, 0.9, c, false); }
static void clip_factor(const values *v, double c) { sg_clip_factor(&v->x, 1, c, NULL); }
static void fill(const values *v, double c) { sg_fill_like(v->x, c); }
static void add_scalar(const values *v, double c) { sg_add_scalar(v->x, c); }

enum { FINITE, NOT_NEGATIVE, UP_TO_ONE, FRACTION, LIMIT, NUMBER, ANY };
static const struct {
    void (*build)(const values *v, double c);
    const char *name;
    int takes;
} settings[] = {
    {leaky_relu, "slope", FINITE},
    {elu, "alpha", FINITE},
    {clip_low, "", NUMBER},
    {clip_high, "", NUMBER},
    {layer_norm, "eps", NOT_NEGATIVE},
    {rms_norm, "eps", NOT_NEGATIVE},
    {group_norm, "eps", NOT_NEGATIVE},
    {batch_eps, "eps", NOT_NEGATIVE},
    {batch_momentum, "momentum", UP_TO_ONE},
    {batch_inference, "eps", NOT_NEGATIVE},
    {scale, "scale", FINITE},
    {attention_dropout, "dropout", FRACTION},
    {dropout, "dropout", FRACTION},
    {adam_beta1, "beta1", FRACTION},
    {adam_beta2, "beta2", FRACTION},
    {adam_eps, "eps", NOT_NEGATIVE},
    {adam_decay, "weight_decay", FINITE},
    {amsgrad_beta1, "beta1", FRACTION},
    {amsgrad_beta2, "beta2", FRACTION},
    {amsgrad_eps, "eps", NOT_NEGATIVE},
    {amsgrad_decay, "weight_decay", FINITE},
    {sgd_momentum, "momentum", NOT_NEGATIVE},
    {sgd_decay, "weight_decay", FINITE},
    {clip_factor, "limit", LIMIT},
    {fill, "", ANY},
    {add_scalar, "", ANY},
};

static bool taken(int takes, double c)
{
    switch (takes) {
    case ANY:
        return true;
    case NUMBER:
        return !isnan(c);
    case LIMIT:
        return c >= 0;
    case FINITE:
        return isfinite(c);
    case NOT_NEGATIVE:
        return isfinite(c) && c >= 0;
    case UP_TO_ONE:
        return c >= 0 && c <= 1;
    default:
        return c >= 0 && c < 1;
    }
}

static void settings_are_checked(void **state)
{
    (void)state;
    static const double tried[] = {NAN, INFINITY, -INFINITY, -1e-3, -0.0, 0, 0.5, 1, 2};
    for (size_t k = 0; k < sizeof settings / sizeof *settings; k++)
        for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
            values v = make();
            sg_error err = {0};
            settings[k].build(&v, tried[i]);
            sg_status status = sg_graph_status(v.graph, &err);
            bool good = taken(settings[k].takes, tried[i]);
            if (status != (good ? SG_OK : SG_E_ARGUMENT))
                fail_msg("setting %d (%s) at %g: status %d %s", (int)k, settings[k].name, tried[i], (int)status,
                         err.text);
            if (!good && (!strstr(err.text, settings[k].name) || !strstr(err.file, "settings_test.c") || err.line < 1))
                fail_msg("setting %d (%s) at %g: '%s' at %s:%d", (int)k, settings[k].name, tried[i], err.text, err.file,
                         (int)err.line);
            sg_graph_free(v.graph);
        }
}

/* No operator has a real attribute that the cases above leave out. */
static void every_operator_is_here(void **state)
{
    (void)state;
    static const char *const tried[] = {"leaky_relu", "elu",        "clip",       "layer_norm",
                                        "rms_norm",   "group_norm", "batch_norm", "batch_norm_inference",
                                        "attention",  "adam",       "fill_like"};
    for (int32_t i = 0; i < sg_op_count(); i++) {
        const sg_op *op = sg_op_at(i);
        bool real = false, found = op->parent != NULL;
        for (int32_t a = 0; a < op->n_attrs; a++)
            real |= op->attrs[a].kind == SG_ATTR_REAL;
        for (size_t k = 0; k < sizeof tried / sizeof *tried; k++)
            found |= strcmp(op->name, tried[k]) == 0;
        if (real && !found)
            fail_msg("%s has a real attribute that is not tried here", op->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(settings_are_checked),
                                       cmocka_unit_test(every_operator_is_here)};
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
