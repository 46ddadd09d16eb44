/* verb_gradcheck.c - check the derivatives of a recipe's losses, to second or third order, in double precision on a few rows
 * of random data: the nets have the recipe's depth, activation and shape of loss, with widths cut so that it takes seconds. */
#include "autodiff/autodiff.h"
#include "cli/cli.h"
#include "runtime/runtime.h"

#include "graph/random_internal.h"

#include <string.h>

enum {
    ROWS = 3,
    INPUTS = 5,
    LABELS = 4,
    WIDTH = 6,
    GLOBAL = 5,
    CANDIDATES = 3,
    MOST_LAYERS = 16,
    MOST_PARAMETERS = 64
};

/* One loss as a graph on fixed small data. */
typedef struct problem {
    sg_graph *graph;
    sg_store *store;
    sg_value loss;
    sg_scope net; /* whose parameters are checked */
} problem;

typedef struct sizes {
    sg_mlc_sizes net;
    int64_t hidden[MOST_LAYERS];
} sizes;

static sizes cut(const sg_train_config *v, const sg_ints *hidden)
{
    sizes s = {.net = {.inputs = INPUTS,
                       .labels = LABELS,
                       .activation = (sg_activation)v->model.activation,
                       .global = v->energy.global < GLOBAL ? v->energy.global : GLOBAL}};
    s.net.layers = (int32_t)(hidden->count < MOST_LAYERS ? hidden->count : MOST_LAYERS);
    for (int32_t i = 0; i < s.net.layers; i++)
        s.hidden[i] = hidden->at[i] < WIDTH ? hidden->at[i] : WIDTH;
    return s;
}

/* A constant drawn for this check: normals, or zeros and ones. */
static sg_value random_constant(sg_graph *graph, sg_shape shape, bool binary, uint64_t stream)
{
    double data[ROWS * (1 + CANDIDATES) * (INPUTS + LABELS)];
    static const int32_t rng[4] = {20, 26, 0, 0};
    int64_t n = sg_shape_count(&shape);
    for (int64_t i = 0; i < n; i++) {
        double u = (double)sg_random_uniform(stream, rng, 0, (uint64_t)i);
        data[i] = binary ? u < 0.5 : 2 * u - 1;
    }
    return sg_constant(graph, SG_F32, shape, data, n);
}

static sg_features inputs(problem *p)
{
    return sg_features_dense(random_constant(p->graph, SG_SHAPE(ROWS, INPUTS), false, 1));
}

static void task_loss(problem *p, const sg_train_config *v)
{
    sizes task = cut(v, &v->model.hidden), energy = cut(v, &v->energy.hidden);
    sg_scope root = sg_scope_root(p->graph, p->store);
    task.net.hidden = task.hidden;
    energy.net.hidden = energy.hidden;
    p->net = sg_scope_sub(root, "task");
    sg_value z = sg_mlc_task(p->net, inputs(p), &task.net, false);
    sg_value y = random_constant(p->graph, SG_SHAPE(ROWS, LABELS), true, 2);
    p->loss = sg_mul_scalar(sg_sum_all(sg_bce_with_logits(z, y)), v->loss.bce_weight);
    if (v->loss.name != SG_LOSS_SEAL_DYNAMIC)
        return;
    sg_value candidates = sg_expand_dims(sg_sigmoid(z), 1);
    sg_value score = sg_mlc_score(sg_scope_sub(root, "energy"), inputs(p), candidates, &energy.net, false);
    p->loss = sg_sub(p->loss, sg_mul_scalar(sg_sum_all(score), v->loss.energy_weight));
}

static void energy_loss(problem *p, const sg_train_config *v)
{
    sizes energy = cut(v, &v->energy.hidden);
    energy.net.hidden = energy.hidden;
    p->net = sg_scope_sub(sg_scope_root(p->graph, p->store), "energy");
    sg_value y = random_constant(p->graph, SG_SHAPE(ROWS, 1 + CANDIDATES, LABELS), true, 3);
    sg_value z = random_constant(p->graph, SG_SHAPE(ROWS, LABELS), false, 4);
    sg_value score = sg_mlc_score(p->net, inputs(p), y, &energy.net, false);
    p->loss = sg_sum_all(sg_nce_ranking_loss(score, sg_log_bernoulli(z, y)));
}

static bool evaluate(void *user, sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x,
                     const sg_value *y, double *const *out, int32_t n_y, sg_error *err)
{
    (void)user;
    return sg_reference_eval(graph, x, feed, n_x, y, out, n_y, err) == SG_OK;
}

static sg_status check_parameters(problem *p, const sg_gradcheck_options *options, sg_gradcheck_result *result,
                                  sg_error *err)
{
    sg_value x[MOST_PARAMETERS];
    double *at[MOST_PARAMETERS] = {0};
    int32_t n = sg_params(p->net, x, MOST_PARAMETERS);
    sg_status status = sg_graph_status(p->graph, err);
    for (int32_t i = 0; status == SG_OK && i < n; i++) {
        const sg_entry *entry = sg_store_peek(p->store, sg_entry_of(x[i]));
        int64_t count = sg_shape_count(&entry->shape);
        at[i] = sg_calloc(count, sizeof *at[i]);
        status =
            at[i] ? sg_store_get(p->store, entry->name, at[i], count, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    }
    if (status == SG_OK)
        status = sg_gradcheck(p->loss, x, at, n, &(sg_evaluator){evaluate, NULL}, options, result, err);
    for (int32_t i = 0; i < n; i++)
        sg_free(at[i]);
    return status;
}

static sg_status check(const sg_train_config *v, const char *name, const sg_gradcheck_options *options,
                       sg_gradcheck_result *result, sg_error *err)
{
    problem p = {.graph = sg_graph_new(), .store = sg_store_new(SG_F64)};
    sg_status status = p.graph && p.store ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK) {
        if (strcmp(name, "energy") == 0)
            energy_loss(&p, v);
        else
            task_loss(&p, v);
        sg_store_initialise(p.store, (uint64_t)v->seed);
        status = check_parameters(&p, options, result, err);
    }
    sg_graph_free(p.graph);
    sg_store_free(p.store);
    return status;
}

/* ---- report */

static void print_table(const sg_cli *cli, const sg_table *table)
{
    printf("%d rows, %d features, %d labels, layers at most %d wide\n", ROWS, INPUTS, LABELS, WIDTH);
    sg_table_print(table, stdout, cli->color_out);
}

static void add_row(sg_table *t, const char *name, int64_t order, const sg_gradcheck_result *r)
{
    static const char *const quantity[] = {"jvp against vjp", "gradient", "Hessian product", "third derivative"};
    for (int64_t k = 0; k <= order; k++) {
        sg_table_cell(t, "%s", name);
        sg_table_cell(t, "%s", quantity[k]);
        sg_table_cell(t, "%.1e", r->worst[k]);
        sg_table_cell(t, "%.0e", r->limit[k]);
        sg_table_cell(t, "%s", r->worst[k] <= r->limit[k] ? "ok" : "FAILED");
    }
    if (!r->passed)
        printf("%s: %s\n", name, r->where);
}

static json_t *document_of(const char *name, int64_t order, const sg_gradcheck_result *r)
{
    json_t *worst = json_array();
    for (int64_t k = 0; k <= order; k++)
        json_array_append_new(worst, sg_json_number(r->worst[k]));
    return json_pack("{s:s,s:b,s:o,s:s}", "loss", name, "passed", r->passed, "worst", worst, "where", r->where);
}

static sg_status check_all(const sg_cli *cli, const sg_config *config, json_t *rows, sg_table *table, bool *passed,
                           sg_error *err)
{
    static const char *const names[] = {"task", "energy"};
    const sg_train_config *v = sg_config_values(config);
    int64_t order;
    SG_TRY(sg_cli_int(cli, "order", 1, 3, 2, &order, err));
    sg_gradcheck_options options = {.size = sizeof options, .order = (int32_t)order, .seed = (uint64_t)v->seed};
    for (int i = 0; i < (v->loss.name == SG_LOSS_SEAL_DYNAMIC ? 2 : 1); i++) {
        sg_gradcheck_result result = {0};
        SG_TRY(check(v, names[i], &options, &result, err));
        *passed = *passed && result.passed;
        json_array_append_new(rows, document_of(names[i], order, &result));
        add_row(table, names[i], order, &result);
    }
    return SG_OK;
}

static int check_recipe(sg_cli *cli)
{
    sg_config *config = NULL;
    sg_error err;
    bool passed = true;
    json_t *rows = json_array();
    sg_table *table = sg_table_new("loss|quantity|>worst error|>limit|result");
    sg_status status = rows && table ? sg_cli_config(cli, &config, &err) : sg_fail(&err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = check_all(cli, config, rows, table, &passed, &err);
    int code = passed ? SG_EXIT_OK : SG_EXIT_RUNTIME;
    if (status != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (cli->json)
        code = sg_cli_json(json_pack("{s:b,s:O}", "passed", passed, "losses", rows), code);
    else
        print_table(cli, table);
    json_decref(rows);
    sg_table_free(table);
    sg_config_free(config);
    return code;
}

static int run(sg_cli *cli)
{
    sg_error err;
    bool golden = sg_cli_has(cli, "golden");
    if (sg_cli_not_with(cli, "order", "golden", &err) != SG_OK || sg_cli_needs(cli, "verbose", "golden", &err) != SG_OK)
        return sg_cli_usage_error(cli, &err);
    if (golden)
        return sg_gradcheck_golden(cli);
    if (!sg_cli_has(cli, "family"))
        return check_recipe(cli);
    sg_fail(&err, SG_E_CONFIG, "--family names files of a folder: give --golden DIR");
    return sg_cli_usage_error(cli, &err);
}

static const sg_flag flags[] = {
    {"order", 0, "N", NULL, "1: gradients, 2: also Hessian products (default), 3: also third derivatives"},
    {"golden", 0, "DIR", NULL, "run the golden cases of a folder instead, on reference and cpu or the --device given"},
    {"family", 0, "A,B", NULL, "of the folder, only these families; all by default"},
    {NULL, 0, NULL, NULL, NULL},
};

static bool is_golden(const sg_cli *cli) { return sg_cli_has(cli, "golden"); }
static bool is_recipe(const sg_cli *cli) { return !is_golden(cli); }

static const sg_reads reads_when[] = {
    {"with --golden", is_golden, "|device|"},
    {"without --golden", is_recipe,
     "|seed|model.hidden|model.activation|energy.hidden|energy.global|loss.name|loss.energy_weight|loss.bce_weight|"},
    {0}};

const sg_verb sg_verb_gradcheck = {
    .name = "gradcheck",
    .arguments = "",
    .summary = "check the derivatives of a recipe's losses, or golden cases",
    .description =
        "Against finite differences in double precision, with small widths and random data; needs no files.\n"
        "The figures are the largest relative errors by order.\n"
        "\n"
        "With --golden DIR: every FAMILY.json of the folder holds cases with values, vector-Jacobian and "
        "Jacobian-vector\n"
        "products, Hessian products and third derivatives that were computed elsewhere in float64. Each case is built\n"
        "as a graph and held to them, to 1e-10 of the scale on reference (1e-9 and 1e-8 at second and third order) "
        "and\n"
        "1e-5 on cpu (1e-4, 1e-3). Exit code 1 if a case fails or is not known here; -v lists them all.",
    .takes = SG_TAKES_CONFIG | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = "|",
    .reads_when = reads_when,
    .flags = flags,
    .run = run,
};
