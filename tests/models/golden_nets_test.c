/* The networks of multi-label classification and their losses against shared/golden (skipped if it is absent): values,
 * derivatives, and a whole SEAL-dynamic run. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "models/models.h"
#include "runtime/runtime.h"
#include "tests/support/data_files.h"
#include "tests/support/golden_case.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

static void expect(sg_status status, const sg_error *err)
{
    if (status != SG_OK)
        fail_msg("%s (op %s, node %s)", err->text, err->op, err->node);
}

/* ---- golden: parameters are store entries, everything else inputs. Feature weights there are [out, in], here [in, out]. */

enum { MOST = 24 };

typedef struct variable {
    const char *name; /* in the file */
    sg_value value;
    double *data, *tangent; /* in our layout; tangent NULL if not differentiated */
    int64_t n;
} variable;

typedef struct trial {
    const json_t *test;
    sg_graph *graph;
    sg_store *store;
    sg_scope task, energy;
    int64_t hidden[8];
    sg_mlc_sizes sizes;
    variable in[MOST];
    int n_in;
} trial;

static bool is_weight(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot && dot[1] == 'W';
}

static double *in_layout(const char *name, const json_t *tensor, int64_t *n)
{
    double *data = golden_data(tensor);
    sg_shape shape = golden_shape(tensor);
    *n = sg_shape_count(&shape);
    if (!is_weight(name))
        return data;
    double *turned = calloc((size_t)*n + 1, sizeof *turned);
    assert_non_null(turned);
    for (int64_t i = 0; i < shape.dim[0]; i++)
        for (int64_t j = 0; j < shape.dim[1]; j++)
            turned[j * shape.dim[0] + i] = data[i * shape.dim[1] + j];
    free(data);
    return turned;
}

static const char *entry_name(const char *name, char *out, size_t size)
{
    const char *dot = strchr(name, '.');
    int net = (int)(dot - name);
    if (dot[1] == 'W' || dot[1] == 'c')
        snprintf(out, size, "%.*s/features/layer%s/%c", net, name, dot + 2, dot[1]);
    else
        snprintf(out, size, "%.*s/%s", net, name, strcmp(dot + 1, "B") == 0 ? "b" : dot + 1);
    return out;
}

static trial *trial_new(const json_t *test)
{
    trial *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->test = test;
    t->graph = sg_graph_new();
    t->store = sg_store_new(SG_F64);
    t->task = sg_scope_sub(sg_scope_root(t->graph, t->store), "task");
    t->energy = sg_scope_sub(sg_scope_root(t->graph, t->store), "energy");
    const char *name;
    json_t *tensor;
    json_object_foreach(json_object_get(test, "inputs"), name, tensor)
    {
        assert_true(t->n_in < MOST);
        variable *v = &t->in[t->n_in++];
        v->name = name;
        v->value = SG_NONE;
        v->data = in_layout(name, tensor, &v->n);
        const json_t *tangent = json_object_get(json_object_get(test, "tangent"), name);
        v->tangent = tangent ? in_layout(name, tangent, &v->n) : NULL;
        if (!strchr(name, '.'))
            v->value = sg_input(t->graph, name, SG_F32, golden_shape(tensor));
    }
    const json_t *attrs = json_object_get(test, "attrs");
    t->sizes = (sg_mlc_sizes){.inputs = 4, .labels = 5, .hidden = t->hidden, .global = 3};
    t->sizes.layers = json_object_get(attrs, "layers") ? (int32_t)golden_attr_real(test, "layers") : 2;
    for (int k = 0; k < t->sizes.layers; k++)
        t->hidden[k] = 4;
    return t;
}

static void trial_free(trial *t)
{
    for (int i = 0; i < t->n_in; i++) {
        free(t->in[i].data);
        free(t->in[i].tangent);
    }
    sg_graph_free(t->graph);
    sg_store_free(t->store);
    free(t);
}

static sg_value input_of(trial *t, const char *name)
{
    for (int i = 0; i < t->n_in; i++)
        if (strcmp(t->in[i].name, name) == 0)
            return t->in[i].value;
    fail_msg("no input %s", name);
    return SG_NONE;
}

/* Give the entries their values and find the graph's values of them. */
static void set_parameters(trial *t)
{
    sg_value p[64];
    int32_t n = sg_params(sg_scope_root(t->graph, t->store), p, 64);
    for (int i = 0; i < t->n_in; i++) {
        char name[64];
        sg_error err = {0};
        if (!strchr(t->in[i].name, '.'))
            continue;
        expect(sg_store_set(t->store, entry_name(t->in[i].name, name, sizeof name), t->in[i].data, t->in[i].n, &err),
               &err);
        for (int32_t k = 0; k < n; k++)
            if (sg_entry_of(p[k]) == sg_store_find(t->store, name))
                t->in[i].value = p[k];
    }
}

/* `got` may differ from the file's tensor by tolerance * scale. */
static void compare(trial *t, const char *name, const double *got, const json_t *want_json, double tolerance)
{
    char what[128];
    int64_t n;
    const char *entry = strncmp(name, "final.", 6) == 0 ? name + 6 : name;
    double *want = in_layout(entry, want_json, &n);
    snprintf(what, sizeof what, "%s: %s", json_string_value(json_object_get(t->test, "name")), name);
    assert_tensor_close(got, want, n, 0, tolerance * tensor_scale(want, n), what);
    free(want);
}

static void evaluate(trial *t, const sg_value *y, double *const *out, int32_t n)
{
    sg_value x[MOST];
    double *feed[MOST];
    int32_t n_x = 0;
    for (int i = 0; i < t->n_in; i++)
        if (!strchr(t->in[i].name, '.')) {
            x[n_x] = t->in[i].value;
            feed[n_x++] = t->in[i].data;
        }
    graph_eval(t->graph, x, feed, n_x, y, out, n);
}

static void compare_value(trial *t, const char *name, sg_value v, const json_t *want, double tolerance)
{
    double *got = calloc((size_t)sg_shape_count(sg_shape_of(v)) + 1, sizeof *got);
    assert_non_null(got);
    evaluate(t, &v, &got, 1);
    compare(t, name, got, want, tolerance);
    free(got);
}

static void check_derivatives(trial *t, sg_value out)
{
    const json_t *cotangent = json_object_get(json_object_get(t->test, "cotangent"), "out");
    sg_value x[MOST], tangent[MOST], g[MOST], h[MOST], jvp;
    const char *name[MOST];
    int32_t n = 0;
    for (int i = 0; i < t->n_in; i++) {
        if (!t->in[i].tangent)
            continue;
        sg_shape shape = *sg_shape_of(t->in[i].value);
        name[n] = t->in[i].name;
        x[n] = t->in[i].value;
        tangent[n++] = sg_constant(t->graph, SG_F32, shape, t->in[i].tangent, t->in[i].n);
    }
    if (!cotangent || !n)
        return;
    double *data = golden_data(cotangent);
    sg_shape shape = *sg_shape_of(out);
    sg_value seed = sg_constant(t->graph, SG_F32, shape, data, sg_shape_count(&shape));
    free(data);
    sg_vjp(&out, &seed, 1, x, n, g);
    sg_jvp(&out, 1, x, tangent, n, &jvp);
    sg_hvp(sg_sum_all(sg_mul(seed, out)), x, tangent, n, h, SG_HVP_FORWARD_OVER_REVERSE);
    compare_value(t, "jvp", jvp, json_object_get(json_object_get(t->test, "jvp"), "out"), 1e-10);
    for (int32_t k = 0; k < n; k++) {
        compare_value(t, name[k], g[k], json_object_get(json_object_get(t->test, "vjp"), name[k]), 1e-10);
        compare_value(t, name[k], h[k], json_object_get(json_object_get(t->test, "hvp"), name[k]), 1e-9);
    }
}

static sg_value scores(trial *t, sg_value y)
{
    sg_features x = sg_features_dense(input_of(t, "x"));
    if (sg_rank_of(y) == 3)
        return sg_mlc_score(t->energy, x, y, &t->sizes, false);
    return sg_squeeze(sg_mlc_score(t->energy, x, sg_expand_dims(y, 1), &t->sizes, false), 1);
}

/* sum over rows of the ranking loss; `samples` [B, K, L]. */
static sg_value nce(trial *t, sg_value logits, sg_value samples)
{
    sg_value candidates = sg_concat((sg_value[]){sg_expand_dims(input_of(t, "y"), 1), samples}, 2, 1);
    return sg_sum_all(sg_nce_ranking_loss(scores(t, candidates), sg_log_bernoulli(logits, candidates)));
}

static sg_value logits(trial *t) { return sg_mlc_task(t->task, sg_features_dense(input_of(t, "x")), &t->sizes, false); }

static sg_value task_loss(trial *t, double energy_weight)
{
    sg_value z = logits(t);
    sg_value bce = sg_mean_all(sg_sum(sg_bce_with_logits(z, input_of(t, "y")), -1));
    sg_value loss = sg_mul_scalar(bce, golden_attr_real(t->test, "w_bce"));
    if (energy_weight != 0)
        loss = sg_sub(loss, sg_mul_scalar(sg_mean_all(scores(t, sg_sigmoid(z))), energy_weight));
    else
        scores(t, sg_sigmoid(z)); /* so that the file's loss-net entries exist */
    return loss;
}

static sg_value build(trial *t, const char *op)
{
    if (strcmp(op, "task_net") == 0)
        return logits(t);
    if (strcmp(op, "mlc_score") == 0)
        return scores(t, input_of(t, "y"));
    if (strcmp(op, "log_bernoulli") == 0)
        return sg_log_bernoulli(input_of(t, "logits"), input_of(t, "y"));
    if (strcmp(op, "loss_net_nce") == 0)
        return nce(t, input_of(t, "logits"), input_of(t, "samples"));
    if (strcmp(op, "task_loss") == 0 && golden_attr_is(t->test, "energy_term", "none"))
        return task_loss(t, 0);
    if (strcmp(op, "task_loss") == 0 && golden_attr_is(t->test, "energy_term", "score"))
        return task_loss(t, golden_attr_real(t->test, "w_e"));
    return SG_NONE;
}

static json_t *golden_models(void)
{
    const char *path = shared_file(0, "golden/models.json");
    return path ? json_load_file(path, 0, NULL) : NULL;
}

static void golden_nets_and_losses(void **state)
{
    (void)state;
    json_t *root = golden_models(), *test;
    size_t i;
    int ran = 0;
    if (!root) {
        print_message("shared/golden is not there: skipped\n");
        skip();
    }
    json_array_foreach(json_object_get(root, "cases"), i, test)
    {
        const char *op = json_string_value(json_object_get(test, "op"));
        static const char *const known[] = {"task_net", "mlc_score", "log_bernoulli", "loss_net_nce", "task_loss"};
        bool mine = false;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            mine |= strcmp(op, known[k]) == 0;
        if (!mine)
            continue;
        trial *t = trial_new(test);
        sg_value out = build(t, op);
        if (!sg_is_none(out)) {
            set_parameters(t);
            compare_value(t, "out", out, json_object_get(json_object_get(test, "outputs"), "out"), 1e-10);
            check_derivatives(t, out);
            ran++;
        }
        trial_free(t);
    }
    json_decref(root);
    assert_int_equal(ran, 12);
}

/* ---- golden: SEAL-dynamic with NCE, all rounds in one graph */

static sg_value update(trial *t, sg_scope net, sg_value loss, double clip, double lr)
{
    sg_value p[64], g[64], norm = SG_NONE;
    int32_t n = sg_params(net, p, 64);
    sg_grad(loss, p, n, g);
    sg_value factor = sg_clip_factor(g, n, clip, &norm);
    for (int32_t i = 0; clip < HUGE_VAL && i < n; i++)
        g[i] = sg_mul(g[i], factor);
    sg_adam_options adam = sg_adam_defaults(golden_attr_real(t->test, "weight_decay"));
    sg_adam_step(sg_scope_sub(net, "adam"), p, g, n, sg_scalar(t->graph, lr), &adam);
    return norm;
}

static sg_value sample(trial *t, int64_t round, int64_t step)
{
    sg_value s = sg_squeeze(sg_slice(input_of(t, "samples"), 0, round, round + 1), 0);
    return sg_squeeze(sg_slice(s, 0, step, step + 1), 0);
}

static sg_value stack(const sg_value *v, int32_t n)
{
    sg_value flat[16];
    for (int32_t i = 0; i < n; i++)
        flat[i] = sg_expand_dims(v[i], 0);
    return sg_concat(flat, n, 0);
}

static void check_finals(trial *t)
{
    for (int i = 0; i < t->n_in; i++) {
        char name[80];
        if (!strchr(t->in[i].name, '.'))
            continue;
        sg_store *store = t->store;
        sg_value now = SG_NONE;
        sg_value p[64];
        int32_t n = sg_params(sg_scope_root(t->graph, store), p, 64);
        for (int32_t k = 0; k < n; k++)
            if (sg_entry_of(p[k]) == sg_store_find(store, entry_name(t->in[i].name, name, sizeof name)))
                now = p[k];
        snprintf(name, sizeof name, "final.%s", t->in[i].name);
        compare_value(t, name, now, json_object_get(json_object_get(t->test, "outputs"), name), 1e-8);
    }
}

static void golden_trace(void **state)
{
    (void)state;
    json_t *root = golden_models(), *test, *found = NULL;
    size_t i;
    if (!root) {
        print_message("shared/golden is not there: skipped\n");
        skip();
    }
    json_array_foreach(json_object_get(root, "cases"), i,
                       test) if (strcmp(json_string_value(json_object_get(test, "name")), "seal_dynamic_nce") == 0)
        found = test;
    assert_non_null(found);
    trial *t = trial_new(found);
    int64_t rounds = (int64_t)golden_attr_real(found, "rounds"), steps = (int64_t)golden_attr_real(found, "n_e");
    sg_value energy[16], task[16], norm[16];
    int32_t n = 0;
    for (int64_t r = 0; r < rounds; r++) {
        for (int64_t k = 0; k < steps; k++, n++) {
            energy[n] = nce(t, sg_stop_gradient(logits(t)), sample(t, r, k));
            update(t, t->energy, energy[n], HUGE_VAL, golden_attr_real(found, "lr_energy"));
        }
        task[r] = task_loss(t, golden_attr_real(found, "w_e"));
        norm[r] =
            update(t, t->task, task[r], golden_attr_real(found, "task_clip_norm"), golden_attr_real(found, "lr_task"));
    }
    sg_error err = {0};
    expect(sg_graph_status(t->graph, &err), &err);
    sg_store_initialise(t->store, 1); /* moments and step counts: zero */
    set_parameters(t);
    const json_t *outputs = json_object_get(found, "outputs");
    compare_value(t, "loss_net_losses", stack(energy, n), json_object_get(outputs, "loss_net_losses"), 1e-8);
    compare_value(t, "task_net_losses", stack(task, (int32_t)rounds), json_object_get(outputs, "task_net_losses"),
                  1e-8);
    compare_value(t, "task_net_gradient_norms", stack(norm, (int32_t)rounds),
                  json_object_get(outputs, "task_net_gradient_norms"), 1e-8);
    check_finals(t);
    trial_free(t);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_nets_and_losses),
        cmocka_unit_test(golden_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
