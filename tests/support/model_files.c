#include "tests/support/model_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "runtime/runtime.h"

char *new_folder(void)
{
    char *path = strdup("/tmp/sealgraph-test-XXXXXX");
    assert_non_null(path);
    assert_non_null(mkdtemp(path));
    return path;
}

char *file_in(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    assert_non_null(path);
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

char *text_in(const char *folder, const char *name)
{
    char *path = file_in(folder, name), *text;
    size_t size;
    sg_error err = {0};
    if (sg_file_read(path, 1 << 26, &text, &size, &err) != SG_OK)
        fail_msg("%s", err.text);
    free(path);
    return text;
}

bool is_in(const char *folder, const char *name)
{
    char *path = file_in(folder, name);
    bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}

/* ---- the graph */

static void inner_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    sg_scope scope = sg_scope_in(*(const sg_scope *)user, body);
    sg_value count = sg_state(scope, "count", SG_F32, sg_shape_scalar(), sg_init_zeros());
    sg_assign(count, sg_add_scalar(count, 1));
    next[0] = sg_add(sg_mul_scalar(state[0], 0.5), count);
}

/* Captures W and the draws' entry, carries two states and an assigned entry, and has a loop inside. */
static void outer_body(void *user, sg_graph *body, const sg_value *state, sg_value *next)
{
    sg_scope scope = sg_scope_in(*(const sg_scope *)user, body);
    sg_value w = sg_param(scope, "W", SG_SHAPE(3, 3), sg_init_xavier_uniform(3, 3));
    sg_value decay = sg_state(scope, "decay", SG_F32, sg_shape_scalar(), sg_init_constant(0.9));
    sg_value turned;
    sg_repeat(body, 2, inner_body, user, &state[0], 1, &turned, false);
    next[0] = sg_tanh(sg_matmul(turned, w));
    next[1] = sg_add(sg_mul(state[1], decay), sg_sum_all(sg_mul(next[0], sg_normal_like(scope, next[0]))));
    sg_assign(decay, sg_mul_scalar(decay, 0.5));
}

static void build_graph(sg_graph *graph, sg_store *store)
{
    sg_scope scope = sg_scope_root(graph, store);
    sg_value x = sg_input(graph, "x", SG_F32, sg_shape_named(SG_SHAPE(2, 3), 0, "batch"));
    sg_value rows = sg_input(graph, "rows", SG_I32, SG_SHAPE(4));
    sg_input(graph, "unused", SG_BOOL, SG_SHAPE(0, 5));
    sg_value b = sg_param(scope, "task/b", SG_SHAPE(3), sg_init_normal(0, 1));
    sg_value dead = sg_param(scope, "dead", SG_SHAPE(7), sg_init_zeros());
    sg_exp(dead);
    static const double numbers[] = {-0.0, INFINITY, 1e-300, 4, 5, 6};
    sg_value c = sg_constant(graph, SG_F32, SG_SHAPE(2, 3), numbers, 6);
    sg_value state[2] = {sg_add(sg_clip(x, -0.75, 0.75), b), sg_scalar(graph, 0)};
    sg_scope loop = sg_scope_sub(scope, "loop");
    sg_rng_advance(scope);
    sg_repeat(graph, 3, outer_body, &loop, state, 2, state, false);
    sg_repeat(graph, 2, outer_body, &loop, state, 2, state, false);
    sg_value picked = sg_gather(sg_param(scope, "table", SG_SHAPE(5, 3), sg_init_uniform(-1, 1)), rows);
    sg_result(graph, "y", sg_named(sg_reshape(state[0], SG_SHAPE(-1)), "flat"));
    sg_result(graph, "total", state[1]);
    sg_result(graph, "picked", sg_transpose(sg_dropout(scope, picked, 0.25), SG_AXES(1, 0)));
    sg_result(graph, "parts", sg_concat((sg_value[]){sg_slice(c, 1, 0, 2), sg_cast(sg_is_finite(c), SG_F32)}, 2, 1));
}

built_model build_model(sg_dtype real, uint64_t seed)
{
    static const char *labels[] = {"first", "zweite Klasse", "\xc3\xa9t\xc3\xa9"};
    static const double thresholds[] = {0.5, 0.25, 0.125};
    static const sg_text_pair provenance[] = {{"version", "0.1.0"}, {"data", "00ff"}};
    built_model built = {.graph = sg_graph_new(), .store = sg_store_new(real)};
    assert_non_null(built.graph);
    assert_non_null(built.store);
    build_graph(built.graph, built.store);
    sg_error err;
    char text[1024];
    if (sg_graph_status(built.graph, &err) != SG_OK)
        fail_msg("%s", sg_error_format(&err, text, sizeof text));
    sg_store_initialise(built.store, seed);
    sg_rng_seed(built.store, seed, 5);
    built.model = (sg_model){.graph = built.graph,
                             .store = built.store,
                             .task = "mlc",
                             .n_labels = 3,
                             .labels = labels,
                             .thresholds = thresholds,
                             .encoding = "{\"inputs\": 3}",
                             .recipe = "task: mlc\n",
                             .provenance = provenance,
                             .n_provenance = 2};
    return built;
}

void free_built(built_model *built)
{
    sg_graph_free(built->graph);
    sg_store_free(built->store);
}

/* ---- comparing */

static double *inputs_of(const sg_node *node, int64_t n)
{
    double *data = sg_calloc(n, sizeof *data);
    assert_non_null(data);
    for (int64_t i = 0; i < n; i++)
        data[i] = strcmp(node->attr[0].s, "rows") == 0 ? (double)(i * 3 % 5) : (double)(i % 7) / 4 - 0.5;
    return data;
}

/* Results and effects, one after the other. */
static int32_t outputs_of(sg_graph *graph, sg_value *out, int32_t capacity)
{
    int32_t results = sg_result_count(graph), effects = sg_effect_count(graph);
    assert_true(results + effects <= capacity);
    for (int32_t i = 0; i < results; i++)
        out[i] = sg_result_value(graph, i);
    for (int32_t i = 0; i < effects; i++) {
        int32_t entry, value;
        sg_effect_at(graph, i, &entry, &value);
        out[results + i] = sg_value_at(graph, value);
    }
    return results + effects;
}

static int32_t feed_inputs(sg_graph *graph, sg_value *x, double **feed, int32_t capacity)
{
    int32_t count = 0;
    for (int32_t n = 0; n < sg_node_count(graph); n++) {
        const sg_node *node = sg_node_at(graph, n);
        if (node->op != &sg_op_input)
            continue;
        assert_true(count < capacity);
        x[count] = sg_value_at(graph, node->out);
        feed[count] = inputs_of(node, sg_shape_count(sg_shape_of(x[count])));
        count++;
    }
    return count;
}

double *evaluate_model(const sg_model *model, int64_t *n)
{
    enum { MOST = 32 };
    sg_value x[MOST], y[MOST];
    double *feed[MOST], *out[MOST], *all;
    int32_t n_x = feed_inputs(model->graph, x, feed, MOST), n_y = outputs_of(model->graph, y, MOST);
    *n = 0;
    for (int32_t i = 0; i < n_y; i++)
        *n += sg_shape_count(sg_shape_of(y[i]));
    assert_non_null(all = sg_calloc(*n, sizeof *all));
    int64_t at = 0;
    for (int32_t i = 0; i < n_y; at += sg_shape_count(sg_shape_of(y[i])), i++)
        out[i] = all + at;
    sg_error err;
    char text[1024];
    if (sg_reference_eval(model->graph, x, feed, n_x, y, out, n_y, &err) != SG_OK)
        fail_msg("%s", sg_error_format(&err, text, sizeof text));
    for (int32_t i = 0; i < n_x; i++)
        sg_free(feed[i]);
    return all;
}

static void assert_same_texts(const sg_model *a, const sg_model *b)
{
    assert_string_equal(a->task, b->task);
    assert_string_equal(a->encoding, b->encoding);
    assert_string_equal(a->recipe, b->recipe);
    assert_int_equal(a->n_labels, b->n_labels);
    for (int64_t i = 0; i < a->n_labels; i++)
        assert_string_equal(a->labels[i], b->labels[i]);
    assert_true(!a->thresholds == !b->thresholds);
    if (a->thresholds && a->n_labels)
        assert_memory_equal(a->thresholds, b->thresholds, (size_t)a->n_labels * sizeof *a->thresholds);
    assert_int_equal(a->n_provenance, b->n_provenance);
    for (int32_t i = 0; i < a->n_provenance; i++) {
        assert_string_equal(a->provenance[i].key, b->provenance[i].key);
        assert_string_equal(a->provenance[i].value, b->provenance[i].value);
    }
}

/* Every entry of `b` is in `a`, which may hold more than its graph reads. */
static void assert_same_entries(sg_store *a, sg_store *b)
{
    assert_int_equal(sg_store_real(a), sg_store_real(b));
    for (int32_t i = 0; i < sg_store_count(b); i++) {
        const sg_entry *y = sg_store_at(b, i), *x = sg_store_at(a, sg_store_find(a, y->name));
        assert_non_null(x);
        assert_int_equal(x->dtype, y->dtype);
        assert_true(sg_shape_equal(&x->shape, &y->shape));
        assert_int_equal(x->trainable, y->trainable);
        assert_int_equal(x->init.kind, y->init.kind);
        assert_true(x->init.a == y->init.a && x->init.b == y->init.b);
        assert_true(y->ready);
        size_t width = x->dtype == SG_I32 ? sizeof(int32_t) : sg_dtype_size(sg_store_real(a));
        assert_memory_equal(x->data, y->data, (size_t)sg_shape_count(&x->shape) * width);
    }
}

void assert_same_model(const sg_model *a, const sg_model *b)
{
    assert_same_texts(a, b);
    assert_same_entries(a->store, b->store);
    assert_int_equal(sg_result_count(a->graph), sg_result_count(b->graph));
    for (int32_t i = 0; i < sg_result_count(a->graph); i++)
        assert_string_equal(sg_result_name(a->graph, i), sg_result_name(b->graph, i));
    int64_t n, m;
    double *x = evaluate_model(a, &n), *y = evaluate_model(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
    sg_free(x);
    sg_free(y);
}

void assert_same_file(const char *folder_a, const char *folder_b, const char *name)
{
    char *a = file_in(folder_a, name), *b = file_in(folder_b, name), *x, *y;
    size_t nx, ny;
    assert_int_equal(sg_file_read(a, SIZE_MAX >> 1, &x, &nx, NULL), SG_OK);
    assert_int_equal(sg_file_read(b, SIZE_MAX >> 1, &y, &ny, NULL), SG_OK);
    assert_int_equal(nx, ny);
    assert_memory_equal(x, y, nx);
    sg_free(x);
    sg_free(y);
    free(a);
    free(b);
}

void assert_same_files(const char *folder_a, const char *folder_b)
{
    assert_same_file(folder_a, folder_b, "model.pb");
    assert_same_file(folder_a, folder_b, "model.safetensors");
}
