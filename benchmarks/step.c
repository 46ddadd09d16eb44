/* step.c - the SEAL-NCE training step and prediction on synthetic rows of the shapes of three data sets. */
#include <string.h>

#include "benchmarks/bench_internal.h"
#include "graph/random_internal.h"
#include "models/models.h"
#include "models/plan_batch_internal.h"

typedef struct shape {
    const char *name;
    int64_t inputs, labels;
} shape;
static const shape shapes[] = {{"bibtex", 1836, 159}, {"delicious", 500, 983}, {"eurlexev", 5000, 3993}};
enum { SHAPES = sizeof shapes / sizeof shapes[0], BATCH = 32, PREDICT_BATCH = 4096 };

typedef enum rows_kind { ONES, UNIFORM } rows_kind; /* 4 % ones, or dense uniform numbers */

static sg_status make_rows(sg_dataset **out, const shape *s, int64_t rows, rows_kind kind, sg_data_layout layout,
                           sg_error *err)
{
    const int32_t rng[4] = {1, 0, 0, 0};
    float *x = sg_calloc(rows * s->inputs, sizeof *x), *y = sg_calloc(rows * s->labels, sizeof *y);
    sg_status status = x && y ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; status == SG_OK && i < rows * s->inputs; i++) {
        float u = sg_random_uniform(1, rng, 0, (uint64_t)i);
        x[i] = kind == UNIFORM ? u : u < 0.04f;
    }
    for (int64_t i = 0; status == SG_OK && i < rows * s->labels; i++)
        y[i] = sg_random_uniform(2, rng, 0, (uint64_t)i) < 0.03f;
    if (status == SG_OK)
        status = sg_dataset_from_arrays(out, x, y, rows, s->inputs, s->labels, layout, err);
    sg_free(x);
    sg_free(y);
    return status;
}

static sg_step_options step_options(const shape *s, const sg_dataset *data, int64_t batch)
{
    static const int64_t hidden[] = {400, 400};
    sg_step_options o = {.loss = SG_LOSS_SEAL_DYNAMIC,
                         .batch = batch,
                         .samples = 20,
                         .n_energy = 1,
                         .n_task = 1,
                         .energy_weight = 1,
                         .bce_weight = 1,
                         .task_adam = sg_adam_defaults(0)};
    o.task_adam.decoupled = false;
    o.energy_adam = o.task_adam;
    o.capacity = data->sparse ? sg_dataset_max_nnz(data, batch) : 0;
    o.task = (sg_mlc_sizes){.inputs = s->inputs,
                            .labels = s->labels,
                            .layers = 2,
                            .hidden = hidden,
                            .activation = SG_ACTIVATION_SOFTPLUS,
                            .global = 200};
    o.energy = o.task;
    return o;
}

typedef sg_status (*build_fn)(sg_graph *graph, sg_store *store, const sg_step_options *options, sg_error *err);

static void start_rates(sg_store *store)
{
    const double rate = 1e-3;
    sg_store_initialise(store, 1);
    if (sg_store_find(store, "task/lr") >= 0)
        sg_store_set(store, "task/lr", &rate, 1, NULL);
    if (sg_store_find(store, "energy/lr") >= 0)
        sg_store_set(store, "energy/lr", &rate, 1, NULL);
}

static sg_status feed_batch(const sg_bench_case *c, sg_plan *plan, sg_error *err)
{
    return sgi_feed_batch(plan, SG_F32, c->data, err);
}

static sg_status first_rows(sg_dataset *data, int64_t rows, int64_t capacity, sg_batch **out, sg_error *err)
{
    int64_t listed[PREDICT_BATCH];
    for (int64_t i = 0; i < rows; i++)
        listed[i] = i;
    SG_TRY(sg_batch_new(out, data, rows, capacity, err));
    return sg_dataset_batch(data, listed, rows, *out, err);
}

static sg_status one_row(sg_bench *bench, const char *verb, const shape *s, int64_t rows, rows_kind kind,
                         sg_data_layout layout, build_fn build, sg_error *err)
{
    char name[80];
    sg_dataset *data = NULL;
    sg_batch *batch = NULL;
    sg_step_options o = {0};
    snprintf(name, sizeof name, "%s/%s/%s", verb, s->name, layout == SG_LAYOUT_SPARSE ? "sparse" : "dense");
    sg_bench_case c = {.name = name,
                       .graph = sg_graph_new(),
                       .store = sg_store_new(SG_F32),
                       .feed = feed_batch,
                       .examples = (double)rows};
    sg_status status =
        c.graph && c.store ? make_rows(&data, s, rows, kind, layout, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK) {
        o = step_options(s, data, rows);
        status = first_rows(data, rows, o.capacity, &batch, err);
    }
    if (status == SG_OK)
        status = build(c.graph, c.store, &o, err);
    if (status == SG_OK) {
        start_rates(c.store);
        c.data = batch;
        status = sg_bench_time(bench, &c, err);
    }
    sg_batch_free(batch);
    sg_dataset_free(data);
    sg_store_free(c.store);
    sg_graph_free(c.graph);
    return status;
}

static sg_status check_shape(const char *name, sg_error *err)
{
    for (int k = 0; name && k < SHAPES; k++)
        if (strcmp(name, shapes[k].name) == 0)
            return SG_OK;
    return name ? sg_fail(err, SG_E_ARGUMENT, "unknown shape '%s': bibtex, delicious or eurlexev", name) : SG_OK;
}

static sg_status both_layouts(sg_bench *bench, const char *verb, const char *only, int64_t rows, rows_kind dense_kind,
                              build_fn build, sg_error *err)
{
    SG_TRY(check_shape(only, err));
    for (int k = 0; k < SHAPES; k++) {
        if (only && strcmp(only, shapes[k].name) != 0)
            continue;
        SG_TRY(sg_bench_go_on(bench, err));
        SG_TRY(one_row(bench, verb, &shapes[k], rows, ONES, SG_LAYOUT_SPARSE, build, err));
        SG_TRY(one_row(bench, verb, &shapes[k], rows, dense_kind, SG_LAYOUT_DENSE, build, err));
    }
    return SG_OK;
}

sg_status sg_bench_step(sg_bench *bench, const char *only, sg_error *err)
{
    return both_layouts(bench, "seal_nce", only, BATCH, ONES, sg_step_build, err);
}

sg_status sg_bench_predict(sg_bench *bench, const char *only, sg_error *err)
{
    return both_layouts(bench, "predict", only, PREDICT_BATCH, UNIFORM, sg_predict_build, err);
}
