/* The networks of multi-label classification, their losses and the training step: published parameter counts, values worked out
 * by hand, values and derivatives of shared/golden (skipped if it is absent), and what a step must not depend on. */
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
#include "models/plan_batch_internal.h"
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

/* ---- sizes */

static int64_t trainable(sg_store *store)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < sg_store_count(store); i++)
        sum += sg_store_at(store, i)->trainable ? sg_shape_count(&sg_store_at(store, i)->shape) : 0;
    return sum;
}

static int64_t built_parameters(const sg_mlc_sizes *sizes, bool score)
{
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_scope root = sg_scope_root(graph, store);
    sg_features x = sg_features_dense(sg_input(graph, "x", SG_F32, SG_SHAPE(2, sizes->inputs)));
    if (score)
        sg_mlc_score(root, x, sg_input(graph, "y", SG_F32, SG_SHAPE(2, 1, sizes->labels)), sizes, true);
    else
        sg_mlc_task(root, x, sizes, true);
    sg_error err = {0};
    expect(sg_graph_status(graph, &err), &err);
    int64_t count = trainable(store);
    sg_graph_free(graph);
    sg_store_free(store);
    return count;
}

/* Table 17 of the first paper; its two columns are exchanged for Cal500. */
static void parameter_counts(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t inputs, labels;
        int32_t layers;
        int64_t width, global, task, score;
    } rows[] = {
        {"expr_fun", 561, 500, 4, 200, 400, 333000, 533800}, {"spo_fun", 86, 500, 4, 300, 300, 447000, 597600},
        {"bibtex", 1836, 159, 2, 400, 200, 958800, 991000},  {"delicious", 500, 983, 2, 400, 200, 754000, 951000},
        {"genbase", 1186, 27, 1, 400, 200, 485600, 491400},  {"eurlexev", 5000, 3993, 2, 500, 200, 4747500, 5546500},
        {"cal500", 68, 174, 5, 500, 200, 1123500, 1158700},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t hidden[8];
        for (int k = 0; k < rows[i].layers; k++)
            hidden[k] = rows[i].width;
        sg_mlc_sizes sizes = {.inputs = rows[i].inputs,
                              .labels = rows[i].labels,
                              .layers = rows[i].layers,
                              .hidden = hidden,
                              .global = rows[i].global};
        print_message("%s\n", rows[i].name);
        assert_int_equal(sg_mlc_task_parameters(&sizes), rows[i].task);
        assert_int_equal(sg_mlc_score_parameters(&sizes), rows[i].score);
        assert_int_equal(built_parameters(&sizes, false), rows[i].task);
        assert_int_equal(built_parameters(&sizes, true), rows[i].score);
    }
}

/* ---- values by hand */

static sg_value numbers(sg_graph *graph, sg_shape shape, const double *data)
{
    return sg_constant(graph, SG_F32, shape, data, sg_shape_count(&shape));
}

static double *one(sg_graph *graph, sg_value v)
{
    static double out[64];
    double *to = out;
    assert_true(sg_shape_count(sg_shape_of(v)) <= 64);
    graph_eval(graph, NULL, NULL, 0, &v, &to, 1);
    return out;
}

/* Logits 0 and log 3: p = 1/2, 3/4. */
static void log_noise_by_hand(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_value z = sg_constant(graph, SG_F64, SG_SHAPE(1, 2), (double[]){0, log(3)}, 2);
    sg_value y = sg_constant(graph, SG_F64, SG_SHAPE(1, 2, 2), (double[]){1, 1, 0, 0}, 4);
    double *got = one(graph, sg_log_bernoulli(z, y));
    assert_tensor_close(got, ((double[]){log(3.0 / 8), log(1.0 / 8)}), 2, 0, 1e-14, "log P");
    sg_value far = sg_constant(graph, SG_F64, SG_SHAPE(1, 2), (double[]){-500, 500}, 2);
    got = one(graph, sg_log_bernoulli(far, y));
    assert_tensor_close(got, ((double[]){-100, -100}), 2, 0, 1e-12, "clamped at -100");
    sg_graph_free(graph);
}

/* Equal ratios: each of four candidates is the gold one with probability 1/4. */
static void ranking_by_hand(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    double score[] = {1, 2, 3, 4, log(3), 0, 0, 0}, noise[] = {0, 1, 2, 3, 0, 0, 0, 0};
    sg_value loss = sg_nce_ranking_loss(numbers(graph, SG_SHAPE(2, 4), score), numbers(graph, SG_SHAPE(2, 4), noise));
    assert_tensor_close(one(graph, loss), ((double[]){log(4), log(2)}), 2, 0, 1e-7, "ranking");
    sg_graph_free(graph);
}

/* One input, one hidden unit: T = softplus(w x + c). */
static void nets_by_hand(void **state)
{
    (void)state;
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F64);
    sg_scope root = sg_scope_root(graph, store);
    sg_mlc_sizes sizes = {.inputs = 1, .labels = 2, .layers = 1, .hidden = (int64_t[]){1}, .global = 1};
    sg_features x = sg_features_dense(numbers(graph, SG_SHAPE(1, 1), (double[]){2}));
    sg_value z = sg_mlc_task(sg_scope_sub(root, "task"), x, &sizes, false);
    sg_value y = numbers(graph, SG_SHAPE(1, 2, 2), (double[]){1, 0, 1, 1});
    sg_value s = sg_mlc_score(sg_scope_sub(root, "energy"), x, y, &sizes, false);
    static const struct {
        const char *name;
        double at[2];
        int64_t n;
    } entries[] = {
        {"task/features/layer1/W", {0.5}, 1},
        {"task/features/layer1/c", {-1}, 1},
        {"task/G", {1, -2}, 2},
        {"energy/features/layer1/W", {1}, 1},
        {"energy/features/layer1/c", {0}, 1},
        {"energy/b", {3, 0.5}, 2},
        {"energy/M", {1, -1}, 2},
        {"energy/m0", {0.25}, 1},
        {"energy/v", {2}, 1},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        assert_int_equal(sg_store_set(store, entries[i].name, entries[i].at, entries[i].n, NULL), SG_OK);
    double t = log(2), u = log1p(exp(2));
    assert_tensor_close(one(graph, z), ((double[]){t, -2 * t}), 2, 0, 1e-14, "logits");
    double want[] = {3 * u + 2 * log1p(exp(1.25)), 3.5 * u + 2 * log1p(exp(0.25))};
    assert_tensor_close(one(graph, s), want, 2, 0, 1e-13, "score");
    sg_graph_free(graph);
    sg_store_free(store);
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

/* ---- the training step */

enum { ROWS = 8, INPUTS = 6, LABELS = 5 };
static const int64_t hidden[] = {7, 6};
static const double dropout[] = {0.3, 0};

static sg_step_options step_options(void)
{
    sg_step_options o = {.loss = SG_LOSS_SEAL_DYNAMIC,
                         .batch = ROWS,
                         .samples = 4,
                         .n_energy = 2,
                         .n_task = 2,
                         .energy_weight = 0.5,
                         .bce_weight = 1,
                         .clip = 1};
    o.task = (sg_mlc_sizes){
        .inputs = INPUTS, .labels = LABELS, .layers = 2, .hidden = hidden, .dropout = dropout, .global = 4};
    o.energy = o.task;
    o.task_adam = o.energy_adam = sg_adam_defaults(1e-4);
    return o;
}

/* A plan of the step with its store; the batch comes from arrays. */
typedef struct stepper {
    sg_graph *graph;
    sg_store *store;
    sg_session *session;
    sg_plan *plan;
    sg_dtype real;
} stepper;

static stepper stepper_new(const sg_step_options *o, const char *backend, double task_lr)
{
    sg_error err = {0};
    stepper s = {.graph = sg_graph_new(), .real = strcmp(backend, "cpu") == 0 ? SG_F32 : SG_F64};
    s.store = sg_store_new(s.real);
    expect(sg_step_build(s.graph, s.store, o, &err), &err);
    sg_rng_seed(s.store, 3, 0);
    sg_store_initialise(s.store, 3);
    expect(sg_store_set(s.store, "task/lr", &task_lr, 1, &err), &err);
    if (o->loss == SG_LOSS_SEAL_DYNAMIC)
        expect(sg_store_set(s.store, "energy/lr", (double[]){0.01}, 1, &err), &err);
    expect(sg_session_new(&s.session, s.store,
                          &(sg_session_options){.size = sizeof(sg_session_options), .backend = backend, .threads = 1},
                          &err),
           &err);
    expect(sg_plan_new(&s.plan, s.session, s.graph, &err), &err);
    return s;
}

static void stepper_free(stepper *s)
{
    sg_plan_free(s->plan);
    sg_session_free(s->session);
    sg_graph_free(s->graph);
    sg_store_free(s->store);
}

typedef struct rows {
    float x[ROWS * INPUTS], y[ROWS * LABELS];
} rows;

/* About half of the features are zero; every row has a label. */
static rows some_rows(void)
{
    rows r = {{0}, {0}};
    for (int i = 0; i < ROWS * INPUTS; i++)
        r.x[i] = test_uniform(1, i) < 0.5 ? 0 : (float)(2 * test_uniform(2, i) - 1);
    for (int i = 0; i < ROWS * LABELS; i++)
        r.y[i] = i % LABELS == 0 || test_uniform(3, i) < 0.4;
    return r;
}

static sg_batch *batch_of(const rows *r, int64_t batch, int64_t capacity, int64_t n)
{
    sg_error err = {0};
    sg_dataset *data;
    sg_batch *b;
    int64_t all[ROWS];
    for (int64_t i = 0; i < ROWS; i++)
        all[i] = i;
    expect(sg_dataset_from_arrays(&data, r->x, r->y, ROWS, INPUTS, LABELS,
                                  capacity ? SG_LAYOUT_SPARSE : SG_LAYOUT_DENSE, &err),
           &err);
    expect(sg_batch_new(&b, data, batch, capacity, &err), &err);
    expect(sg_dataset_batch(data, all, n, b, &err), &err);
    sg_dataset_free(data);
    return b;
}

static void run_steps(stepper *s, const sg_batch *b, int times)
{
    sg_error err = {0};
    for (int i = 0; i < times; i++) {
        expect(sgi_feed_batch(s->plan, s->real, b, &err), &err);
        expect(sg_plan_run(s->plan, &err), &err);
    }
}

/* Entries (all that train) and losses; tolerance 0 asks for equal bits. */
static void same_state(stepper *a, stepper *b, double tolerance)
{
    double x[256], y[256];
    for (int32_t i = 0; i < sg_store_count(a->store); i++) {
        const sg_entry *e = sg_store_at(a->store, i);
        int64_t n = sg_shape_count(&e->shape);
        if (!e->trainable)
            continue;
        assert_int_equal(sg_store_get(a->store, e->name, x, n, NULL), SG_OK);
        assert_int_equal(sg_store_get(b->store, e->name, y, n, NULL), SG_OK);
        assert_tensor_close(x, y, n, 0, tolerance * tensor_scale(y, n), e->name);
    }
    for (int32_t i = 0; i < sg_result_count(a->graph); i++) {
        const char *name = sg_result_name(a->graph, i);
        assert_int_equal(sg_plan_fetch(a->plan, name, x, 1, NULL), SG_OK);
        assert_int_equal(sg_plan_fetch(b->plan, name, y, 1, NULL), SG_OK);
        assert_true(isfinite(x[0]));
        assert_tensor_close(x, y, 1, tolerance, tolerance, name);
    }
}

static void step_on_cpu_as_on_reference(void **state)
{
    (void)state;
    rows r = some_rows();
    sg_step_options o = step_options();
    sg_batch *b = batch_of(&r, ROWS, 0, 7);
    stepper cpu = stepper_new(&o, "cpu", 0.01), reference = stepper_new(&o, "reference", 0.01);
    run_steps(&cpu, b, 3);
    run_steps(&reference, b, 3);
    same_state(&cpu, &reference, 1e-4);
    stepper_free(&cpu);
    stepper_free(&reference);
    sg_batch_free(b);
}

static void sparse_rows_as_dense_ones(void **state)
{
    (void)state;
    static const char *const backends[] = {"reference", "cpu"};
    rows r = some_rows();
    for (int k = 0; k < 2; k++) {
        sg_step_options dense = step_options(), sparse = step_options();
        sparse.capacity = ROWS * INPUTS;
        sg_batch *b = batch_of(&r, ROWS, 0, ROWS), *c = batch_of(&r, ROWS, sparse.capacity, ROWS);
        stepper d = stepper_new(&dense, backends[k], 0.01), s = stepper_new(&sparse, backends[k], 0.01);
        run_steps(&d, b, 2);
        run_steps(&s, c, 2);
        same_state(&s, &d, k ? 1e-4 : 1e-11);
        stepper_free(&d);
        stepper_free(&s);
        sg_batch_free(b);
        sg_batch_free(c);
    }
}

/* What stands in rows of weight 0 changes no bit, and a shorter plan gives the same up to rounding. */
static void padding_does_not_count(void **state)
{
    (void)state;
    static const char *const backends[] = {"reference", "cpu"};
    rows r = some_rows();
    for (int k = 0; k < 2; k++) {
        sg_step_options o = step_options(), five = step_options();
        five.batch = 5;
        sg_batch *clean = batch_of(&r, ROWS, 0, 5), *dirty = batch_of(&r, ROWS, 0, 5), *tight = batch_of(&r, 5, 0, 5);
        for (int i = 5; i < ROWS; i++) {
            for (int j = 0; j < INPUTS; j++)
                dirty->x[i * INPUTS + j] = 7 - (float)j;
            dirty->y[i * LABELS + i % LABELS] = 1;
            assert_true(dirty->weight[i] == 0);
        }
        stepper a = stepper_new(&o, backends[k], 0.01), b = stepper_new(&o, backends[k], 0.01);
        stepper c = stepper_new(&five, backends[k], 0.01);
        run_steps(&a, clean, 3);
        run_steps(&b, dirty, 3);
        run_steps(&c, tight, 3);
        same_state(&b, &a, 0);
        same_state(&c, &a, k ? 1e-4 : 1e-11);
        stepper_free(&a);
        stepper_free(&b);
        stepper_free(&c);
        sg_batch_free(clean);
        sg_batch_free(dirty);
        sg_batch_free(tight);
    }
}

/* The value given for an unknown label changes no bit, and a label that is unknown everywhere is not learnt. */
static void unknown_labels_do_not_count(void **state)
{
    (void)state;
    rows r = some_rows();
    sg_step_options o = step_options();
    o.known = true;
    o.task_adam.weight_decay = 0;
    sg_batch *off = batch_of(&r, ROWS, 0, ROWS), *on = batch_of(&r, ROWS, 0, ROWS);
    for (int i = 0; i < ROWS; i++) {
        off->y_known[i * LABELS + 2] = on->y_known[i * LABELS + 2] = 0;
        off->y[i * LABELS + 2] = 0;
        on->y[i * LABELS + 2] = 1;
    }
    stepper a = stepper_new(&o, "cpu", 0.01), b = stepper_new(&o, "cpu", 0.01);
    double before[LABELS * 6], after[LABELS * 6];
    assert_int_equal(sg_store_get(a.store, "task/G", before, LABELS * 6, NULL), SG_OK);
    run_steps(&a, off, 3);
    run_steps(&b, on, 3);
    same_state(&b, &a, 0);
    assert_int_equal(sg_store_get(a.store, "task/G", after, LABELS * 6, NULL), SG_OK);
    assert_memory_equal(before + 2 * 6, after + 2 * 6, 6 * sizeof *before);
    assert_memory_not_equal(before, after, 6 * sizeof *before);
    stepper_free(&a);
    stepper_free(&b);
    sg_batch_free(off);
    sg_batch_free(on);
}

/* With a task-net so sure that each draw is certain, loops of updates are the updates one by one. */
static void be_sure(stepper *s)
{
    double G[LABELS * 6];
    for (int i = 0; i < LABELS * 6; i++)
        G[i] = i / 6 % 2 ? 60 : -60;
    assert_int_equal(sg_store_set(s->store, "task/G", G, LABELS * 6, NULL), SG_OK);
}

static void loops_are_updates_one_by_one(void **state)
{
    (void)state;
    rows r = some_rows();
    sg_step_options single = step_options(), loop = step_options();
    sg_mlc_sizes *nets[] = {&single.task, &single.energy, &loop.task, &loop.energy};
    for (int i = 0; i < 4; i++)
        nets[i]->dropout = NULL;
    sg_batch *b = batch_of(&r, ROWS, 0, ROWS);
    /* Task-net: cross-entropy draws nothing. */
    single.loss = loop.loss = SG_LOSS_CROSS_ENTROPY;
    single.n_task = 1;
    loop.n_task = 3;
    stepper one = stepper_new(&single, "reference", 0.01), many = stepper_new(&loop, "reference", 0.01);
    double sum = 0, bce;
    for (int i = 0; i < 3; i++) {
        run_steps(&one, b, 1);
        assert_int_equal(sg_plan_fetch(one.plan, "bce", &bce, 1, NULL), SG_OK);
        sum += bce / 3;
    }
    run_steps(&many, b, 1);
    assert_int_equal(sg_plan_fetch(many.plan, "bce", &bce, 1, NULL), SG_OK);
    assert_tensor_close(&bce, &sum, 1, 1e-12, 0, "mean of the losses");
    for (int32_t i = 0; i < sg_store_count(one.store); i++) {
        const sg_entry *e = sg_store_at(one.store, i), *f = sg_store_at(many.store, sg_store_find(many.store, e->name));
        if (e->dtype != SG_I32)
            assert_tensor_close((double *)f->data, (double *)e->data, sg_shape_count(&e->shape), 0, 1e-12, e->name);
    }
    stepper_free(&one);
    stepper_free(&many);
    /* Both nets: the task-net held (rate 0), five loss-net updates. */
    single.loss = loop.loss = SG_LOSS_SEAL_DYNAMIC;
    single.n_energy = single.n_task = loop.n_task = 1;
    loop.n_energy = 5;
    one = stepper_new(&single, "reference", 0);
    many = stepper_new(&loop, "reference", 0);
    be_sure(&one);
    be_sure(&many);
    run_steps(&one, b, 5);
    run_steps(&many, b, 1);
    for (int32_t i = 0; i < sg_store_count(one.store); i++) {
        const sg_entry *e = sg_store_at(one.store, i), *f = sg_store_at(many.store, sg_store_find(many.store, e->name));
        if (strncmp(e->name, "energy/", 7) == 0)
            assert_tensor_close((double *)f->data, (double *)e->data, sg_shape_count(&e->shape), 0, 1e-12, e->name);
    }
    stepper_free(&one);
    stepper_free(&many);
    sg_batch_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameter_counts),
        cmocka_unit_test(log_noise_by_hand),
        cmocka_unit_test(ranking_by_hand),
        cmocka_unit_test(nets_by_hand),
        cmocka_unit_test(golden_nets_and_losses),
        cmocka_unit_test(golden_trace),
        cmocka_unit_test(step_on_cpu_as_on_reference),
        cmocka_unit_test(sparse_rows_as_dense_ones),
        cmocka_unit_test(padding_does_not_count),
        cmocka_unit_test(unknown_labels_do_not_count),
        cmocka_unit_test(loops_are_updates_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
