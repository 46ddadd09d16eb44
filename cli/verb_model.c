/* verb_model.c - `model info`: what is in a model folder. */
#include "cli/cli.h"
#include "models/data_internal.h"
#include "serialize/serialize.h"

#include <string.h>

static int64_t parameter_count(const sg_store *store)
{
    int64_t total = 0;
    for (int32_t i = 0; i < sg_store_count(store); i++) {
        const sg_entry *entry = sg_store_peek(store, i);
        if (entry->trainable)
            total += sg_shape_count(&entry->shape);
    }
    return total;
}

static json_t *shape_document(const sg_shape *shape)
{
    json_t *dims = json_array();
    for (int32_t i = 0; i < shape->rank; i++)
        json_array_append_new(dims, json_integer(shape->dim[i]));
    return dims;
}

static json_t *document_of(const sg_trained *t)
{
    const sg_model *m = t->model;
    json_t *tensors = json_array(), *labels = json_array(), *provenance = json_object(), *results = json_array();
    for (int32_t i = 0; i < sg_store_count(m->store); i++) {
        const sg_entry *entry = sg_store_peek(m->store, i);
        json_array_append_new(tensors, json_pack("{s:s,s:s,s:o}", "name", entry->name, "dtype",
                                                 sg_dtype_name(entry->dtype), "shape", shape_document(&entry->shape)));
    }
    for (int64_t i = 0; i < m->n_labels; i++)
        json_array_append_new(
            labels, json_pack("{s:s,s:o}", "name", m->labels[i], "threshold", sg_json_float(t->thresholds[i])));
    for (int32_t i = 0; i < m->n_provenance; i++)
        json_object_set_new(provenance, m->provenance[i].key, sg_json_text(m->provenance[i].value));
    for (int32_t i = 0; i < sg_result_count(m->graph); i++)
        json_array_append_new(results, json_string(sg_result_name(m->graph, i)));
    return json_pack("{s:o,s:s,s:I,s:I,s:i,s:o,s:o,s:o,s:o,s:o}", "folder", sg_json_text(t->folder), "task", m->task,
                     "parameters", (json_int_t)parameter_count(m->store), "features", (json_int_t)t->schema->n_features,
                     "nodes", (int)sg_node_count(m->graph), "results", results, "labels", labels, "tensors", tensors,
                     "provenance", provenance, "recipe", sg_json_text(m->recipe));
}

static void print_text(const sg_cli *cli, const sg_trained *t)
{
    const sg_model *m = t->model;
    char shape[SG_SHAPE_TEXT];
    printf("model        %s\ntask         %s\nparameters   %lld\nfeatures     %lld encoded from %lld attributes\n",
           t->folder, m->task, (long long)parameter_count(m->store), (long long)t->schema->n_features,
           (long long)t->schema->n_columns);
    if (t->preprocess)
        printf("inputs       missing values: %s; scaling: %s\n", sg_impute_name(t->preprocess->impute),
               sg_scaling_name(t->preprocess->scaling));
    printf("labels       %lld, from %s to %s; threshold %g\n", (long long)m->n_labels, m->n_labels ? m->labels[0] : "-",
           m->n_labels ? m->labels[m->n_labels - 1] : "-", m->n_labels ? (double)t->thresholds[0] : 0.5);
    printf("graph        %d nodes\n", (int)sg_node_count(m->graph));
    for (int32_t i = 0; i < m->n_provenance; i++) {
        const char *value = m->provenance[i].value;
        printf("%-12s %.*s\n", m->provenance[i].key, (int)strcspn(value, "\n"), value);
        for (const char *line = strchr(value, '\n'); line && line[1]; line = strchr(line + 1, '\n'))
            printf("%12s %.*s\n", "", (int)strcspn(line + 1, "\n"), line + 1);
    }
    sg_table *table = sg_table_new("tensor|dtype|shape");
    for (int32_t i = 0; i < sg_store_count(m->store); i++) {
        const sg_entry *entry = sg_store_peek(m->store, i);
        sg_table_cell(table, "%s", entry->name);
        sg_table_cell(table, "%s", sg_dtype_name(entry->dtype));
        sg_table_cell(table, "%s", sg_shape_format(&entry->shape, shape, sizeof shape));
    }
    sg_table_print(table, stdout, cli->color_out);
    sg_table_free(table);
}

static int info(sg_cli *cli)
{
    sg_trained *trained;
    sg_error err;
    int code = SG_EXIT_OK;
    if (sg_trained_open(&trained, cli->arguments[0], &err) != SG_OK)
        return sg_cli_fail(cli, &err);
    if (cli->json)
        code = sg_cli_json(document_of(trained), SG_EXIT_OK);
    else
        print_text(cli, trained);
    sg_trained_free(trained);
    return code;
}

const sg_verb sg_verb_model_info = {
    .name = "model info",
    .arguments = "RUN",
    .summary = "tell what a trained model holds",
    .description = "RUN is a run folder or a model folder.",
    .takes = SG_TAKES_JSON,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = info,
};
