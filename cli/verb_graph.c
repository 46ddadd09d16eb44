/* verb_graph.c - the graph that a recipe trains or predicts with, or its Hessian product: as a listing, as DOT, as compiled
 * kernels, or what it costs before it runs. It is built on the sizes of the recipe's data, or on given ones where that is not at
 * hand. */
#include "cli/cli.h"
#include "runtime/runtime.h"

#include <string.h>

typedef struct drawing {
    const sg_cli *cli;
    sg_config *config;
    sg_training_data *data;
    sg_dataset *stand_in; /* of one row; or NULL */
    sg_store *store;
    sg_graph *graph;
} drawing;

static void release(drawing *d)
{
    sg_graph_free(d->graph);
    sg_store_free(d->store);
    sg_training_data_free(d->data);
    sg_dataset_free(d->stand_in);
    sg_config_free(d->config);
}

static bool is(const sg_cli *cli, const char *flag, const char *value)
{
    const char *given = sg_cli_value(cli, flag);
    return given && strcmp(given, value) == 0;
}

/* A row of the sizes that the configuration gives, without zeros, so that it is sparse only if that is asked for. */
static sg_status stand_in(drawing *d, sg_error *err)
{
    enum { FEATURES = 5, LABELS = 4 };
    const sg_train_config *v = sg_config_values(d->config);
    int64_t features = v->data.features_count ? v->data.features_count : FEATURES;
    int64_t labels = v->data.labels_count ? v->data.labels_count : LABELS;
    float *ones = sg_calloc(features > labels ? features : labels, sizeof *ones);
    if (!ones)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; i < features || i < labels; i++)
        ones[i] = 1;
    sg_status status =
        sg_dataset_from_arrays(&d->stand_in, ones, ones, 1, features, labels, (sg_data_layout)v->data.layout, err);
    sg_free(ones);
    return status;
}

/* What the graph is built for: the data, or the sizes given where no data is named, or a recipe's files are not at hand. */
static sg_status find_data(const sg_cli *cli, drawing *d, const sg_dataset **out, sg_error *err)
{
    const sg_train_config *v = sg_config_values(d->config);
    bool typed = sg_cli_names_data(d->config, true), sized = v->data.features_count > 0 && v->data.labels_count > 0;
    bool named = typed || v->data.files.count + v->data.train.count > 0;
    sg_status status = named ? sg_training_data_load(&d->data, d->config, false, err) : SG_E_IO;
    if (status == SG_OK) {
        sg_cli_notes(cli, d->data->data);
        *out = d->data->data;
    }
    if (status == SG_E_IO && named && !typed && !sized)
        return sg_cli_advise(err,
                             "give --data-dir, or data.features_count and data.labels_count for a graph without data");
    if (status != SG_E_IO || typed)
        return status;
    SG_TRY(stand_in(d, err));
    *out = d->stand_in;
    sg_cli_log(cli, "note", "no data%s%s: the graph is for %lld features and %lld labels", named ? ": " : "",
               named ? err->file : "", (long long)d->stand_in->features, (long long)d->stand_in->labels);
    return SG_OK;
}

static sg_status build(const sg_cli *cli, drawing *d, sg_error *err)
{
    const sg_dataset *data = NULL;
    SG_TRY(sg_cli_not_with(cli, "as", "plan", err));
    if (!sg_cli_output(cli))
        SG_TRY(sg_cli_not_with(cli, "as", "json", err));
    SG_TRY(sg_cli_check_output(cli, err));
    SG_TRY(sg_cli_config(cli, &d->config, err));
    SG_TRY(sg_config_check_training(d->config, err));
    const sg_train_config *v = sg_config_values(d->config);
    SG_TRY(find_data(cli, d, &data, err));
    d->store = sg_store_new(sg_config_real(v));
    d->graph = sg_graph_new();
    if (!d->store || !d->graph)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_step_options options = sg_step_options_of(v, data);
    if (is(cli, "of", "predict"))
        return sg_predict_build(d->graph, d->store, &options, err);
    return is(cli, "of", "hvp") ? sg_hvp_build(d->graph, d->store, &options, err)
                                : sg_step_build(d->graph, d->store, &options, err);
}

/* What a compiled plan is asked for: its kernels on `out`, or its cost. */
typedef struct wanted {
    FILE *kernels;
    sg_plan_info info;
    char backend[256];
} wanted;

static sg_status compile(const drawing *d, wanted *w, sg_error *err)
{
    const sg_train_config *v = sg_config_values(d->config);
    sg_session_options options = {.size = sizeof options,
                                  .threads = (int32_t)v->threads,
                                  .backend = sg_config_backend(v),
                                  .precision = v->precision};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_status status = sg_session_new(&session, d->store, &options, err);
    if (status == SG_OK)
        status = sg_plan_new(&plan, session, d->graph, err);
    if (status == SG_OK) {
        w->info = sg_plan_describe(plan);
        snprintf(w->backend, sizeof w->backend, "%s", sg_session_describe(session));
    }
    if (status == SG_OK && w->kernels)
        sg_plan_print(plan, w->kernels);
    sg_plan_free(plan);
    sg_session_free(session);
    return status;
}

static const char *what(const sg_cli *cli) { return sg_cli_value(cli, "of") ? sg_cli_value(cli, "of") : "step"; }

static void print_cost(const drawing *d, const wanted *w, FILE *out)
{
    const sg_plan_info *i = &w->info;
    const sg_dataset *data = d->stand_in ? d->stand_in : d->data->data;
    fprintf(out, "graph        %s, for %lld features and %lld labels%s\n", what(d->cli), (long long)data->features,
            (long long)data->labels, d->stand_in ? ", of no data" : "");
    fprintf(out, "backend      %s\n", w->backend);
    fprintf(out, "kernels      %d, of these %d fused chains\n", i->nodes, i->fused);
    fprintf(out, "arithmetic   %.6g Mflop a run\n", 1e-6 * i->flops);
    fprintf(out, "traffic      %.6g MB a run, at least\n", 1e-6 * i->bytes);
    fprintf(out, "parameters   %zu bytes in the store\n", i->store_bytes);
    fprintf(out, "inputs       %zu bytes\nresults      %zu bytes\n", i->input_bytes, i->result_bytes);
    fprintf(out, "temporaries  %zu bytes planned\n", i->temporary_bytes);
}

/* {"features", "labels", "of_data": false if these are given sizes}. */
static json_t *sizes_document(const drawing *d)
{
    const sg_dataset *data = d->stand_in ? d->stand_in : d->data->data;
    return json_pack("{s:I,s:I,s:b}", "features", (json_int_t)data->features, "labels", (json_int_t)data->labels,
                     "of_data", !d->stand_in);
}

static json_t *cost_document(const drawing *d, const wanted *w)
{
    const sg_plan_info *i = &w->info;
    json_t *bytes =
        json_pack("{s:I,s:I,s:I,s:I}", "parameters", (json_int_t)i->store_bytes, "inputs", (json_int_t)i->input_bytes,
                  "results", (json_int_t)i->result_bytes, "temporaries", (json_int_t)i->temporary_bytes);
    return json_pack("{s:o,s:o,s:s,s:i,s:i,s:f,s:f,s:o}", "graph", sg_json_text(what(d->cli)), "sizes",
                     sizes_document(d), "backend", w->backend, "kernels", (int)i->nodes, "fused", (int)i->fused,
                     "flops", i->flops, "traffic", i->bytes, "planned", bytes);
}

static sg_status print(void *user, FILE *out, sg_error *err)
{
    const drawing *d = user;
    const sg_cli *cli = d->cli;
    bool cost = sg_cli_has(cli, "plan"), kernels = is(cli, "as", "plan");
    if (cost || kernels) {
        wanted w = {.kernels = kernels ? out : NULL};
        SG_TRY(compile(d, &w, err));
        if (cost)
            print_cost(d, &w, out);
        return SG_OK;
    }
    if (is(cli, "as", "dot"))
        sg_graph_print_dot(d->graph, out);
    else
        sg_graph_print(d->graph, out);
    return SG_OK;
}

static sg_status draw(const sg_cli *cli, drawing *d, sg_error *err)
{
    const char *path = sg_cli_output(cli);
    SG_TRY(build(cli, d, err));
    if (cli->json && !path)
        return SG_OK;
    return sg_cli_write(cli, path, print, d, err);
}

static int summary(const sg_cli *cli, const drawing *d)
{
    if (sg_cli_has(cli, "plan")) {
        wanted w = {.kernels = NULL};
        sg_error err;
        return compile(d, &w, &err) == SG_OK ? sg_cli_json(cost_document(d, &w), SG_EXIT_OK) : sg_cli_fail(cli, &err);
    }
    json_t *entries = json_array();
    for (int32_t i = 0; i < sg_store_count(d->store); i++) {
        const sg_entry *entry = sg_store_peek(d->store, i);
        json_array_append_new(entries,
                              json_pack("{s:s,s:I,s:b}", "name", entry->name, "elements",
                                        (json_int_t)sg_shape_count(&entry->shape), "trainable", entry->trainable));
    }
    return sg_cli_json(json_pack("{s:i,s:o,s:o,s:o}", "nodes", (int)sg_node_count(d->graph), "sizes", sizes_document(d),
                                 "written", sg_json_text(sg_cli_output(cli)), "entries", entries),
                       SG_EXIT_OK);
}

static int run(sg_cli *cli)
{
    drawing d = {.cli = cli};
    sg_error err;
    int code = SG_EXIT_OK;
    if (draw(cli, &d, &err) != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (cli->json)
        code = summary(cli, &d);
    release(&d);
    return code;
}

static const sg_flag flags[] = {
    {"of", 0, "WHAT", "step|predict|hvp", "the training step (default), prediction, or a Hessian product of its loss"},
    {"as", 0, "FORM", "text|dot|plan", "a listing (default), Graphviz, or the compiled kernels with memory"},
    {"plan", 0, NULL, NULL, "planned bytes and arithmetic of the compiled graph, before any run"},
    {NULL, 0, NULL, NULL, NULL},
};

static bool is_compiled(const sg_cli *cli) { return sg_cli_has(cli, "plan") || is(cli, "as", "plan"); }
static bool has_loss(const sg_cli *cli) { return !is(cli, "of", "predict"); }
static bool is_step(const sg_cli *cli) { return has_loss(cli) && !is(cli, "of", "hvp"); }

static const sg_reads reads_when[] = {
    {"with --plan or --as plan", is_compiled, "|threads|precision|"},
    {"unless --of predict", has_loss, "|model.dropout|energy.*|loss.name|loss.energy_weight|loss.bce_weight|"},
    {"with --of step", is_step,
     "|loss.method|loss.samples|loss.n_energy|loss.n_task|train.weight_decay|train.energy_weight_decay|train.clip|"},
    {0}};

const sg_verb sg_verb_graph = {
    .name = "graph",
    .arguments = "",
    .summary = "print the graph of a recipe",
    .description =
        "For a picture:  sealgraph graph -c FILE --of predict --as dot | dot -Tsvg > graph.svg\n"
        "Sizes are those of the data. Where no data is named they are data.features_count and data.labels_count, or 5\n"
        "and 4; so they are for a recipe whose files are not at hand, if both are given:\n"
        "  sealgraph graph -c FILE --set data.features_count=1836 --set data.labels_count=159",
    .takes = SG_TAKES_CONFIG | SG_TAKES_OUTPUT | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = SG_READS_FORM SG_READS_FILES SG_READS_PARTS
    "|data.scaling|data.impute|model.hidden|model.activation|train.batch|device|",
    .reads_when = reads_when,
    .flags = flags,
    .run = run,
};
