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

/* What the folder holds of each kind: a name with a type and a shape. */
typedef enum part_kind { INPUTS, RESULTS, TENSORS } part_kind;
typedef struct part {
    const char *name;
    sg_dtype dtype;
    const sg_shape *shape;
} part;

static bool next_input(const sg_model *m, int32_t *at, part *out)
{
    while (*at < sg_node_count(m->graph)) {
        const sg_node *node = sg_node_at(m->graph, (*at)++);
        if (node->op != &sg_op_input)
            continue;
        sg_value v = sg_value_at(m->graph, node->out);
        *out = (part){node->attr[0].s, sg_dtype_of(v), sg_shape_of(v)};
        return true;
    }
    return false;
}

static bool next_result(const sg_model *m, int32_t *at, part *out)
{
    if (*at == sg_result_count(m->graph))
        return false;
    sg_value v = sg_result_value(m->graph, *at);
    *out = (part){sg_result_name(m->graph, (*at)++), sg_dtype_of(v), sg_shape_of(v)};
    return true;
}

static bool next_tensor(const sg_model *m, int32_t *at, part *out)
{
    if (*at == sg_store_count(m->store))
        return false;
    const sg_entry *entry = sg_store_peek(m->store, (*at)++);
    *out = (part){entry->name, entry->dtype, &entry->shape};
    return true;
}

/* The part of this kind behind `*at`, which begins at 0 and moves on. */
static bool next_part(const sg_model *m, part_kind kind, int32_t *at, part *out)
{
    return kind == INPUTS    ? next_input(m, at, out)
           : kind == RESULTS ? next_result(m, at, out)
                             : next_tensor(m, at, out);
}

static json_t *shape_document(const sg_shape *shape)
{
    json_t *dims = json_array();
    for (int32_t i = 0; i < shape->rank; i++)
        json_array_append_new(dims, json_integer(shape->dim[i]));
    return dims;
}

/* Names of the dimensions whose size can be another, and null for the others. */
static json_t *axes_document(const sg_shape *shape)
{
    json_t *axes = json_array();
    for (int32_t i = 0; i < shape->rank; i++)
        json_array_append_new(axes, sg_json_text(shape->name[i]));
    return axes;
}

static json_t *parts_document(const sg_model *m, part_kind kind)
{
    json_t *list = json_array();
    part p;
    for (int32_t at = 0; next_part(m, kind, &at, &p);) {
        json_t *one = json_pack("{s:o,s:s,s:o}", "name", sg_json_text(p.name), "dtype", sg_dtype_name(p.dtype), "shape",
                                shape_document(p.shape));
        if (kind != TENSORS)
            json_object_set_new(one, "axes", axes_document(p.shape));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *document_of(const sg_trained *t)
{
    const sg_model *m = t->model;
    json_t *labels = json_array(), *provenance = json_object();
    json_t *features = t->schema ? json_integer((json_int_t)t->schema->n_features) : json_null();
    for (int64_t i = 0; i < m->n_labels; i++)
        json_array_append_new(
            labels, json_pack("{s:s,s:o}", "name", m->labels[i], "threshold", sg_json_float(t->thresholds[i])));
    for (int32_t i = 0; i < m->n_provenance; i++)
        json_object_set_new(provenance, m->provenance[i].key, sg_json_text(m->provenance[i].value));
    return json_pack("{s:o,s:o,s:I,s:o,s:i,s:o,s:o,s:o,s:o,s:o,s:o}", "folder", sg_json_text(t->folder), "task",
                     sg_json_text(m->task), "parameters", (json_int_t)parameter_count(m->store), "features", features,
                     "nodes", (int)sg_node_count(m->graph), "inputs", parts_document(m, INPUTS), "results",
                     parts_document(m, RESULTS), "labels", labels, "tensors", parts_document(m, TENSORS), "provenance",
                     provenance, "recipe", sg_json_text(m->recipe));
}

static void print_encoding(const sg_trained *t)
{
    if (t->schema)
        printf("features     %lld encoded from %lld attributes\n", (long long)t->schema->n_features,
               (long long)t->schema->n_columns);
    if (t->preprocess)
        printf("encoding     missing values: %s; scaling: %s\n", sg_impute_name(t->preprocess->impute),
               sg_scaling_name(t->preprocess->scaling));
}

static void print_provenance(const sg_model *m)
{
    for (int32_t i = 0; i < m->n_provenance; i++) {
        const char *value = m->provenance[i].value;
        printf("%-12s %.*s\n", m->provenance[i].key, (int)strcspn(value, "\n"), value);
        for (const char *line = strchr(value, '\n'); line && line[1]; line = strchr(line + 1, '\n'))
            printf("%12s %.*s\n", "", (int)strcspn(line + 1, "\n"), line + 1);
    }
}

static void print_parts(const sg_cli *cli, const sg_model *m)
{
    static const char *const kinds[] = {"input", "result", "tensor"};
    char shape[SG_SHAPE_TEXT];
    part p;
    sg_table *table = sg_table_new("part|name|dtype|shape");
    for (part_kind kind = INPUTS; table && kind <= TENSORS; kind++)
        for (int32_t at = 0; next_part(m, kind, &at, &p);) {
            sg_table_cell(table, "%s", kinds[kind]);
            sg_table_cell(table, "%s", p.name);
            sg_table_cell(table, "%s", sg_dtype_name(p.dtype));
            sg_table_cell(table, "%s", sg_shape_format(p.shape, shape, sizeof shape));
        }
    sg_table_print(table, stdout, cli->color_out);
    sg_table_free(table);
}

static void print_text(const sg_cli *cli, const sg_trained *t)
{
    const sg_model *m = t->model;
    printf("model        %s\ntask         %s\nparameters   %lld\n", t->folder, m->task[0] ? m->task : "-",
           (long long)parameter_count(m->store));
    print_encoding(t);
    if (m->n_labels)
        printf("labels       %lld, from %s to %s; threshold %g\n", (long long)m->n_labels, m->labels[0],
               m->labels[m->n_labels - 1], (double)t->thresholds[0]);
    printf("graph        %d nodes\n", (int)sg_node_count(m->graph));
    print_provenance(m);
    print_parts(cli, m);
}

static int info(sg_cli *cli)
{
    sg_trained *trained;
    sg_error err;
    int code = SG_EXIT_OK;
    if (sg_trained_open_any(&trained, cli->arguments[0], &err) != SG_OK)
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
    .summary = "tell what a model holds",
    .description =
        "RUN is a run folder or a model folder, of `train` or written by sg_model_write in C. Its inputs, results and\n"
        "tensors are told with type and shape; a size that can be another has a name, as in batch=32.",
    .takes = SG_TAKES_JSON,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = info,
};
