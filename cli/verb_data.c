/* verb_data.c - `data info`, `data check`, `data convert` and `data split`. Files are arguments or come from the
 * configuration (data.files, data.train...). */
#include "cli/cli.h"
#include "models/data_internal.h"

#include <string.h>

/* What a data verb works on. */
typedef struct source {
    sg_config *config;
    sg_dataset *data;
    bool divided;
    sg_split split;
} source;

static void release(source *s)
{
    if (s->divided)
        sg_split_free(&s->split);
    sg_dataset_free(s->data);
    sg_config_free(s->config);
}

static sg_status read_source(const sg_cli *cli, source *s, bool divide, sg_error *err)
{
    memset(s, 0, sizeof *s);
    SG_TRY(sg_cli_config(cli, &s->config, err));
    if (cli->n_arguments > 0) {
        SG_TRY(sg_config_read_files(s->config, cli->arguments, cli->n_arguments, &s->data, err));
        return sg_config_check_format(s->config, s->data->schema->format, err);
    }
    sg_status status = sg_config_read_data(s->config, &s->data, divide ? &s->split : NULL, err);
    SG_TRY(sg_cli_data_read(s->config, status, NULL, err));
    s->divided = divide;
    return SG_OK;
}

static sg_status open_source(const sg_cli *cli, source *s, bool divide, sg_error *err)
{
    SG_TRY(read_source(cli, s, divide, err));
    sg_cli_notes(cli, s->data);
    return SG_OK;
}

static const char *const part_names[] = {"train", "validation", "test"};

static double cardinality(const sg_dataset *data, const int64_t *rows, int64_t count)
{
    int64_t on = 0;
    for (int64_t i = 0; i < count; i++)
        on += data->label_indptr[rows[i] + 1] - data->label_indptr[rows[i]];
    return count > 0 ? (double)on / (double)count : 0;
}

/* ---- info */

static json_t *parts_document(const source *s)
{
    json_t *parts = json_object();
    for (int p = 0; p < 3; p++)
        json_object_set_new(parts, part_names[p],
                            json_pack("{s:I,s:o}", "rows", (json_int_t)s->split.count[p], "cardinality",
                                      sg_json_number(cardinality(s->data, s->split.rows[p], s->split.count[p]))));
    json_object_set_new(json_object_get(parts, part_names[SG_TRAIN]), "weightless_rows_left_out",
                        json_integer(s->split.weightless));
    return parts;
}

static json_t *files_document(const sg_dataset *data)
{
    json_t *files = json_array();
    for (int32_t f = 0; f < data->n_files; f++) {
        int64_t rows = 0, on = 0;
        for (int64_t i = 0; i < data->rows; i++)
            if (data->source_file[i] == f) {
                rows++;
                on += data->label_indptr[i + 1] - data->label_indptr[i];
            }
        json_array_append_new(files,
                              json_pack("{s:o,s:I,s:o}", "file", sg_json_text(data->files[f]), "rows", (json_int_t)rows,
                                        "cardinality", sg_json_number(rows ? (double)on / (double)rows : 0)));
    }
    return files;
}

static int info_json(const source *s)
{
    sg_dataset_info i = sg_dataset_describe(s->data);
    json_t *document =
        json_pack("{s:s,s:b,s:b,s:s,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:s,s:s,s:{s:I,s:I,s:I,s:I},s:o}",
                  "format", sg_data_format_name(i.format), "source_sparse", i.source_sparse, "sparse", i.sparse,
                  "relation", i.relation ? i.relation : "", "rows", (json_int_t)i.rows, "attributes",
                  (json_int_t)i.attributes, "features", (json_int_t)i.features, "labels", (json_int_t)i.labels,
                  "cardinality", sg_json_number(i.cardinality), "label_density", sg_json_number(i.label_density),
                  "feature_density", sg_json_number(i.feature_density), "unlabelled_rows", (json_int_t)i.unlabelled,
                  "weightless_rows", (json_int_t)i.weightless, "labels_never_positive", (json_int_t)i.never_positive,
                  "missing_features", (json_int_t)i.missing_features, "unknown_labels", (json_int_t)i.unknown_labels,
                  "first_label", i.first_label ? i.first_label : "", "last_label", i.last_label ? i.last_label : "",
                  "attribute_kinds", "numeric", (json_int_t)i.numeric, "binary", (json_int_t)i.binary, "nominal",
                  (json_int_t)i.nominal, "dropped", (json_int_t)i.dropped, "files", files_document(s->data));
    if (s->divided)
        json_object_set_new(document, "parts", parts_document(s));
    return sg_cli_json(document, SG_EXIT_OK);
}

/* What weighs nothing is told where there is some: few files have weights. */
static const char *weightless(const char *before, int64_t rows, const char *after, char *out, size_t size)
{
    out[0] = 0;
    if (rows)
        snprintf(out, size, "%s%lld of weight 0%s", before, (long long)rows, after);
    return out;
}

static void info_text(const source *s)
{
    char light[64];
    sg_dataset_info i = sg_dataset_describe(s->data);
    printf("format       %s, %s rows, kept %s\n", sg_data_format_name(i.format), i.source_sparse ? "sparse" : "dense",
           i.sparse ? "sparse" : "dense");
    if (i.relation && i.relation[0])
        printf("relation     %s\n", i.relation);
    printf("rows         %lld (%lld without a label%s)\n", (long long)i.rows, (long long)i.unlabelled,
           weightless(", ", i.weightless, "", light, sizeof light));
    printf("attributes   %lld (%lld numeric, %lld two-valued, %lld nominal, %lld dropped)\n", (long long)i.attributes,
           (long long)i.numeric, (long long)i.binary, (long long)i.nominal, (long long)i.dropped);
    printf("features     %lld, %.2f %% not zero, %lld missing values\n", (long long)i.features, 100 * i.feature_density,
           (long long)i.missing_features);
    printf("labels       %lld, from %s to %s; %lld never positive, %lld unknown cells\n", (long long)i.labels,
           i.first_label ? i.first_label : "-", i.last_label ? i.last_label : "-", (long long)i.never_positive,
           (long long)i.unknown_labels);
    printf("cardinality  %.3f   density %.4f\n", i.cardinality, i.label_density);
    for (int p = 0; s->divided && p < 3; p++)
        printf("%-12s %lld rows, cardinality %.3f%s\n", part_names[p], (long long)s->split.count[p],
               cardinality(s->data, s->split.rows[p], s->split.count[p]),
               weightless("; ", p == SG_TRAIN ? s->split.weightless : 0, " left out", light, sizeof light));
}

/* Labels that training would not meet are told as it would tell them. */
static void note_absent(const source *s)
{
    const int64_t *rows = s->divided ? s->split.rows[SG_TRAIN] : NULL;
    int64_t n = s->divided ? s->split.count[SG_TRAIN] : s->data->rows;
    if (n > 0)
        sg_dataset_note_absent(s->data, rows, n);
}

static int info(sg_cli *cli)
{
    source s;
    sg_error err;
    int code = SG_EXIT_OK;
    sg_status status = read_source(cli, &s, true, &err);
    if (status != SG_OK) {
        code = sg_cli_fail(cli, &err);
    } else {
        note_absent(&s);
        sg_cli_notes(cli, s.data);
        if (cli->json)
            code = info_json(&s);
        else
            info_text(&s);
    }
    release(&s);
    return code;
}

/* ---- check */

static int print_notes(const sg_cli *cli, const sg_dataset *data)
{
    int count[2] = {0, 0}; /* notes, warnings */
    for (int32_t i = 0; i < data->n_notes; i++)
        count[data->notes[i].warning]++;
    if (!cli->json) {
        for (int32_t i = 0; i < data->n_notes; i++)
            printf("%-8s %s\n", data->notes[i].warning ? "warning" : "note", data->notes[i].text);
        printf("%lld row%s, %d warning%s, %d note%s\n", (long long)data->rows, data->rows == 1 ? "" : "s", count[1],
               count[1] == 1 ? "" : "s", count[0], count[0] == 1 ? "" : "s");
        return SG_EXIT_OK;
    }
    json_t *notes = json_array();
    for (int32_t i = 0; i < data->n_notes; i++)
        json_array_append_new(notes, json_pack("{s:b,s:o}", "warning", data->notes[i].warning, "text",
                                               sg_json_text(data->notes[i].text)));
    return sg_cli_json(json_pack("{s:I,s:i,s:o}", "rows", (json_int_t)data->rows, "warnings", count[1], "notes", notes),
                       SG_EXIT_OK);
}

static int check(sg_cli *cli)
{
    source s;
    sg_error err;
    sg_status status = read_source(cli, &s, false, &err);
    if (status == SG_OK && sg_dataset_check(s.data) < 0)
        status = sg_fail(&err, SG_E_MEMORY, "out of memory");
    int code = status == SG_OK ? print_notes(cli, s.data) : sg_cli_fail(cli, &err);
    release(&s);
    return code;
}

/* ---- convert */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static sg_status output_format(const sg_cli *cli, const char *path, sg_data_format *out, sg_error *err)
{
    static const struct {
        const char *end;
        sg_data_format format;
    } ends[] = {{".arff", SG_DATA_ARFF},     {".arff.gz", SG_DATA_ARFF},  {".svm", SG_DATA_LIBSVM},
                {".svm.gz", SG_DATA_LIBSVM}, {".libsvm", SG_DATA_LIBSVM}, {".libsvm.gz", SG_DATA_LIBSVM},
                {".xc", SG_DATA_XC},         {".xc.gz", SG_DATA_XC}};
    const char *name = sg_cli_value(cli, "to");
    bool to_stdout = strcmp(path, "-") == 0;
    if (name)
        return sg_data_format_parse(name, out) ? SG_OK : sg_fail(err, SG_E_CONFIG, "unknown format %s", name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (ends_with(path, ends[i].end)) {
            *out = ends[i].format;
            return SG_OK;
        }
    return sg_fail(err, SG_E_CONFIG, "%s%s does not tell a format: use --to arff, libsvm or xc",
                   to_stdout ? "" : "the name ", to_stdout ? "standard output" : path);
}

static sg_status convert_to(const sg_cli *cli, source *s, sg_error *err)
{
    sg_data_format format;
    const char *path = sg_cli_value(cli, "output");
    memset(s, 0, sizeof *s);
    if (!path)
        return sg_fail(err, SG_E_CONFIG, "data convert needs -o FILE");
    SG_TRY(output_format(cli, path, &format, err));
    SG_TRY(sg_cli_check_output(cli, err));
    SG_TRY(sg_cli_one_result(cli, err));
    SG_TRY(open_source(cli, s, false, err));
    return sg_dataset_write(s->data, sg_cli_output(cli), format, err);
}

static int report_written(const sg_cli *cli, const source *s)
{
    const char *path = sg_cli_output(cli);
    if (cli->json)
        return sg_cli_json(json_pack("{s:o,s:I,s:I,s:I}", "written", sg_json_text(path), "rows",
                                     (json_int_t)s->data->rows, "features", (json_int_t)s->data->features, "labels",
                                     (json_int_t)s->data->labels),
                           SG_EXIT_OK);
    sg_cli_log(cli, "written", "%s: %lld rows, %lld features, %lld labels", path ? path : "standard output",
               (long long)s->data->rows, (long long)s->data->features, (long long)s->data->labels);
    return SG_EXIT_OK;
}

static int convert(sg_cli *cli)
{
    source s;
    sg_error err;
    int code = convert_to(cli, &s, &err) == SG_OK ? report_written(cli, &s) : sg_cli_fail(cli, &err);
    release(&s);
    return code;
}

/* ---- split */

static sg_status split_to(const sg_cli *cli, source *s, sg_error *err)
{
    memset(s, 0, sizeof *s);
    SG_TRY(sg_cli_check_output(cli, err));
    SG_TRY(sg_cli_one_result(cli, err));
    SG_TRY(open_source(cli, s, true, err));
    if (!s->divided) {
        const sg_train_config *v = sg_config_values(s->config);
        SG_TRY(sg_split_stratified(&s->split, s->data, v->data.fractions.at, (uint64_t)v->data.split_seed, err));
        s->divided = true;
    }
    return sg_split_write(&s->split, s->data, sg_cli_output(cli), err);
}

/* Rows that are written as '-': without a label, of no weight in training, or left out by --split before. */
static int64_t left_out(const source *s)
{
    return s->data->rows - s->split.count[SG_TRAIN] - s->split.count[SG_VALIDATION] - s->split.count[SG_TEST];
}

static int split(sg_cli *cli)
{
    source s;
    sg_error err;
    int code = SG_EXIT_OK;
    if (split_to(cli, &s, &err) != SG_OK)
        code = sg_cli_fail(cli, &err);
    else if (cli->json)
        code = sg_cli_json(json_pack("{s:o,s:o,s:I}", "written", sg_json_text(sg_cli_output(cli)), "parts",
                                     parts_document(&s), "left_out", (json_int_t)left_out(&s)),
                           SG_EXIT_OK);
    else
        sg_cli_log(cli, "split", "train %lld, validation %lld, test %lld, left out %lld", (long long)s.split.count[0],
                   (long long)s.split.count[1], (long long)s.split.count[2], (long long)left_out(&s));
    release(&s);
    return code;
}

/* Files that are given are no parts; those of a configuration are divided where somebody asks for it. */
static const sg_reads reads_files[] = {{"without FILEs", sg_cli_has_none, SG_READS_FILES}, {0}};
static const sg_reads reads_parts[] = {{"without FILEs", sg_cli_has_none, SG_READS_FILES SG_READS_PARTS}, {0}};
static const sg_reads reads_division[] = {
    {"without FILEs", sg_cli_has_none, SG_READS_FILES "|data.split|data.dev_fraction|"}, {0}};

const sg_verb sg_verb_data_info = {
    .name = "data info",
    .arguments = "[FILE...]",
    .summary = "count rows, features and labels of a data set",
    .description =
        "FILEs are read as one data set; without them the files of the configuration are, and its parts are\n"
        "counted too:  sealgraph data info --train a.arff.gz --labels-xml a.xml",
    .takes = SG_TAKES_CONFIG | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = SG_READS_FORM,
    .reads_when = reads_parts,
    .max_arguments = -1,
    .run = info,
};

const sg_verb sg_verb_data_check = {
    .name = "data check",
    .arguments = "[FILE...]",
    .summary = "look for oddities in a data set",
    .description =
        "Constant features, labels that are never or always on, rows that are duplicate, unlabelled or of weight 0.",
    .takes = SG_TAKES_CONFIG | SG_TAKES_JSON,
    .reads = SG_READS_FORM,
    .reads_when = reads_files,
    .max_arguments = -1,
    .run = check,
};

static const sg_flag convert_flags[] = {
    {"to", 0, "FORMAT", "arff|libsvm|xc", "format to write; else the name of the output tells"},
    {NULL, 0, NULL, NULL, NULL},
};

const sg_verb sg_verb_data_convert = {
    .name = "data convert",
    .arguments = "[FILE...]",
    .summary = "write a data set in another format",
    .description =
        "Features are written as they enter a net (nominal attributes encoded, nothing scaled), in LIBSVM from 1\n"
        "and its labels from 0, whatever the files count from. A name that ends in .gz is compressed.",
    .takes = SG_TAKES_CONFIG | SG_TAKES_OUTPUT | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = SG_READS_FORM,
    .reads_when = reads_files,
    .max_arguments = -1,
    .flags = convert_flags,
    .run = convert,
};

const sg_verb sg_verb_data_split = {
    .name = "data split",
    .arguments = "[FILE...]",
    .summary = "divide the rows of a data set into train, validation and test",
    .description = "Iterative stratification by --fractions and --split-seed. The lines `row TAB part` go to -o or to\n"
                   "standard output; --split reads them.",
    .takes = SG_TAKES_CONFIG | SG_TAKES_OUTPUT | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = SG_READS_FORM "|data.split_seed|data.fractions|",
    .reads_when = reads_division,
    .max_arguments = -1,
    .run = split,
};
