/* bert.c - a classifier on BERT: training steps, gradients and Hessian products, and whether fused kernels agree with the
 * decomposition.
 *
 *     loss = mean over rows of sum_l BCE(z_l, y_l),   z = W h_0 + b,   h = encoder(ids)
 *
 * One store serves all rows, so that its 110 million numbers are drawn once. */
#include <math.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "benchmarks/bench_internal.h"
#include "graph/random_internal.h"
#include "models/models.h"
#include "ops/ops.h"

enum { LABELS = 54, MOST_PARAMETERS = 1024, LENGTHS = 3, MOST_ROWS = 2 + 3 * LENGTHS };

/* TRAIN_LEADING: as the classifier reads the first piece alone, the last layer computes no other. */
typedef enum what { TRAIN, TRAIN_LEADING, TRAIN_DROPOUT, GRADIENT, PRODUCT, WHAT } what;
static const char *const whats[WHAT] = {"train", "train_leading", "train_dropout", "gradient", "hvp"};

typedef struct setting {
    sg_bench *bench;
    const sg_bench_bert_options *options;
    sg_store *store;
} setting;

typedef struct row {
    what what;
    int64_t batch, length;
    char name[80];
} row;

sg_bench_bert_options sg_bench_bert_defaults(void)
{
    return (sg_bench_bert_options){.sizes = {.vocabulary = 30522,
                                             .positions = 512,
                                             .types = 2,
                                             .hidden = 768,
                                             .heads = 12,
                                             .intermediate = 3072,
                                             .layers = 12}};
}

/* ------------------------------------------------------------------------------------------------- graphs */

static sg_value loss_of(sg_scope task, const sg_bert_sizes *sizes, const row *r, bool train)
{
    sg_value none = {0}, ids = sg_input(task.graph, "ids", SG_I32, SG_SHAPE(r->batch, r->length));
    sg_value y = sg_input(task.graph, "y", SG_F32, SG_SHAPE(r->batch, LABELS));
    sg_value h = sg_bert_encoder(sg_scope_sub(task, "bert"), ids, none, none, sizes, train);
    sg_value first = sg_squeeze(sg_slice(h, 1, 0, 1), 1);
    sg_scope head = sg_scope_sub(task, "classifier");
    sg_value W = sg_param(head, "weight", SG_SHAPE(LABELS, sizes->hidden), sg_init_normal(0, 0.02));
    sg_value b = sg_param(head, "bias", SG_SHAPE(LABELS), sg_init_zeros());
    return sg_mean_all(sg_sum(sg_bce_with_logits(sg_add(sg_matmul_nt(first, W), b), y), -1));
}

static void update(sg_scope root, sg_value loss, const sg_value *p, int32_t n, sg_value *g)
{
    const sg_adam_options adam = sg_adam_defaults(0.01);
    sg_grad(loss, p, n, g);
    sg_adam_step(sg_scope_sub(root, "adam"), p, g, n, sg_scalar(root.graph, 1e-5), &adam);
    sg_rng_advance(root);
    sg_result(root.graph, "loss", loss);
}

static sg_status declare(sg_scope root, const sg_bert_sizes *sizes, const row *r, sg_error *err)
{
    sg_bert_sizes n = *sizes;
    sg_value p[MOST_PARAMETERS], v[MOST_PARAMETERS], out[MOST_PARAMETERS];
    sg_scope task = sg_scope_sub(root, "task");
    char name[32];
    n.leading = r->what == TRAIN_LEADING;
    n.dropout = n.attention_dropout = r->what == TRAIN_DROPOUT ? 0.1 : 0;
    sg_value loss = loss_of(task, &n, r, r->what == TRAIN_DROPOUT);
    int32_t count = sg_params(task, p, MOST_PARAMETERS);
    if (r->what <= TRAIN_DROPOUT) {
        update(root, loss, p, count, out);
        return sg_graph_status(root.graph, err);
    }
    for (int32_t i = 0; i < count && r->what == PRODUCT; i++) {
        snprintf(name, sizeof name, "v%d", (int)i);
        v[i] = sg_input(root.graph, name, SG_F32, *sg_shape_of(p[i]));
    }
    if (r->what == GRADIENT)
        sg_grad(loss, p, count, out);
    else
        sg_hvp(loss, p, v, count, out, SG_HVP_FORWARD_OVER_REVERSE);
    for (int32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "g%d", (int)i);
        sg_result(root.graph, name, out[i]);
    }
    return sg_graph_status(root.graph, err);
}

/* ------------------------------------------------------------------------------------------------- inputs */

/* Scattered signed numbers, the same for the same place; fast, since directions have as many elements as the net. */
static float scattered(int64_t i) { return 4.7e-10f * (float)(int32_t)((uint32_t)i * 2654435761u); }

static void fill(const char *name, void *data, int64_t count, int64_t vocabulary)
{
    const int32_t rng[4] = {5, 0, 0, 0};
    for (int64_t i = 0; i < count; i++)
        if (strcmp(name, "ids") == 0)
            ((int32_t *)data)[i] = (int32_t)((double)sg_random_uniform(1, rng, 0, (uint64_t)i) * (double)vocabulary);
        else if (strcmp(name, "y") == 0)
            ((float *)data)[i] = sg_random_uniform(2, rng, 0, (uint64_t)i) < 0.05f;
        else
            ((float *)data)[i] = scattered(i);
}

static sg_status feed(const sg_bench_case *c, sg_plan *plan, sg_error *err)
{
    const setting *s = c->data;
    for (int32_t n = 0; n < sg_node_count(c->graph); n++) {
        const sg_node *node = sg_node_at(c->graph, n);
        if (node->op != &sg_op_input)
            continue;
        const char *name = node->attr[0].s;
        void *data = sg_plan_input(plan, name);
        if (!data)
            return sg_fail(err, SG_E_DEVICE, "the device has failed");
        fill(name, data, sg_shape_count(sg_plan_input_shape(plan, name)), s->options->sizes.vocabulary);
    }
    return SG_OK;
}

/* ------------------------------------------------------------------------------------------------- agreement */

/* All results of one run, one after the other. */
static sg_status results_of(const sg_bench_case *c, const char *device, const char *precision, const char *decompose,
                            int32_t threads, float **out, int64_t *count, sg_error *err)
{
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_session_options options = {
        .size = sizeof options, .backend = device, .precision = precision, .decompose = decompose, .threads = threads};
    int32_t n = sg_result_count(c->graph);
    sg_status status = sg_session_new(&session, c->store, &options, err);
    if (status == SG_OK)
        status = sg_plan_new(&plan, session, c->graph, err);
    if (status == SG_OK)
        status = c->feed(c, plan, err);
    if (status == SG_OK)
        status = sg_plan_run(plan, err);
    *count = 0;
    for (int32_t k = 0; k < n; k++)
        *count += sg_shape_count(sg_shape_of(sg_result_value(c->graph, k)));
    *out = status == SG_OK ? sg_alloc((size_t)*count * sizeof **out) : NULL;
    if (status == SG_OK && !*out)
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t k = 0, at = 0; status == SG_OK && k < n; k++) {
        const void *data = sg_plan_result(plan, sg_result_name(c->graph, (int32_t)k));
        int64_t size = sg_shape_count(sg_shape_of(sg_result_value(c->graph, (int32_t)k)));
        if (data)
            memcpy(*out + at, data, (size_t)size * sizeof **out);
        else
            status = sg_fail(err, SG_E_DEVICE, "the device has failed");
        at += size;
    }
    sg_plan_free(plan);
    sg_session_free(session);
    return status;
}

/* |a - b| / |b| over all elements. */
static double distance(const float *a, const float *b, int64_t n)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        norm += (double)b[i] * b[i];
    }
    return norm > 0 ? sqrt(difference / norm) : difference > 0 ? INFINITY : 0;
}

static sg_status agree(const sg_bench *bench, const sg_bench_case *c, sg_bench_row *r, sg_error *err)
{
    const sg_bench_target *t = r->target;
    float *fused = NULL, *apart = NULL, *exact = NULL;
    int64_t n;
    sg_status status = results_of(c, t->device, t->dtype, NULL, bench->threads, &fused, &n, err);
    if (status == SG_OK)
        status = results_of(c, t->device, t->dtype, "all", bench->threads, &apart, &n, err);
    if (status == SG_OK && strcmp(t->dtype, "f32") != 0)
        status = results_of(c, t->device, "f32", "all", bench->threads, &exact, &n, err);
    if (status == SG_OK) {
        r->compared = true;
        r->difference = distance(fused, apart, n);
        r->rounding = exact ? distance(fused, exact, n) : r->difference;
    }
    sg_free(fused);
    sg_free(apart);
    sg_free(exact);
    return status;
}

double sg_bench_bert_tolerance(const sg_bench_row *r) { return strcmp(r->target->dtype, "f32") == 0 ? 1e-4 : 2e-2; }

/* ------------------------------------------------------------------------------------------------- rows */

static sg_status measure(const setting *s, const sg_bench_case *c, const row *r, sg_error *err)
{
    int32_t first = s->bench->count;
    SG_TRY(sg_bench_time(s->bench, c, err));
    for (int32_t k = first; s->options->check && r->what >= GRADIENT && k < s->bench->count; k++)
        SG_TRY(agree(s->bench, c, &s->bench->rows[k], err));
    return SG_OK;
}

static sg_status one_row(const setting *s, const row *r, sg_error *err)
{
    SG_TRY(sg_bench_go_on(s->bench, err));
    sg_bench_case c = {.name = r->name,
                       .graph = sg_graph_new(),
                       .store = s->store,
                       .feed = feed,
                       .data = s,
                       .examples = (double)r->batch};
    sg_status status = c.graph ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = declare(sg_scope_root(c.graph, s->store), &s->options->sizes, r, err);
    if (status == SG_OK) {
        sg_store_initialise(s->store, 1);
        status = measure(s, &c, r, err);
    }
    sg_graph_free(c.graph);
    return status;
}

/* Adds a row if it is wanted; returns how many there are. */
static int32_t add_row(const sg_bench_bert_options *o, what w, int64_t batch, int64_t length, row *rows, int32_t n)
{
    row *r = &rows[n];
    *r = (row){.what = w, .batch = o->batch ? o->batch : batch, .length = o->length ? o->length : length};
    snprintf(r->name, sizeof r->name, "bert/%s/B%lldT%lld", whats[w], (long long)r->batch, (long long)r->length);
    return o->only && !strstr(r->name, o->only) ? n : n + 1;
}

/* The rows that are wanted; a gradient and its product come first. */
static int32_t list_rows(const sg_bench_bert_options *o, row *rows)
{
    static const int64_t lengths[LENGTHS] = {128, 256, 512};
    int32_t n = add_row(o, GRADIENT, 16, 256, rows, 0);
    n = add_row(o, PRODUCT, 16, 256, rows, n);
    for (int w = TRAIN; w <= TRAIN_DROPOUT; w++)
        for (int k = 0; k < (o->length ? 1 : LENGTHS); k++)
            n = add_row(o, (what)w, 32, lengths[k], rows, n);
    return n;
}

sg_status sg_bench_bert_check(const sg_bench_bert_options *o, sg_error *err)
{
    row rows[MOST_ROWS];
    if (list_rows(o, rows))
        return SG_OK;
    return sg_fail(err, SG_E_ARGUMENT, "no row's name holds '%s': train, train_leading, train_dropout, gradient, hvp",
                   o->only);
}

static sg_status every_row(const setting *s, sg_error *err)
{
    row rows[MOST_ROWS];
    int32_t n = list_rows(s->options, rows), first = s->bench->count;
    for (int32_t i = 0; i < n; i++) {
        SG_TRY(one_row(s, &rows[i], err));
        if (rows[0].what == GRADIENT && rows[i].what >= GRADIENT)
            sg_bench_compare(s->bench, first);
    }
    return SG_OK;
}

sg_status sg_bench_bert(sg_bench *bench, const sg_bench_bert_options *options, sg_error *err)
{
    SG_TRY(sg_bench_bert_check(options, err));
    setting s = {.bench = bench, .options = options, .store = sg_store_new(SG_F32)};
    sg_status status = s.store ? every_row(&s, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_store_free(s.store);
    return status;
}
