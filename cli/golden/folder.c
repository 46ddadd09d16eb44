/* folder.c - which files of a folder to run, their cases one after the other, and the report. */
#include "cli/golden/runner_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define X(name) &sg_golden_##name,
static const sg_golden_family *const tables[] = {SG_GOLDEN_FAMILIES(X)};
#undef X
enum { TABLES = sizeof tables / sizeof *tables };

static const sg_golden_family *find_table(const char *name)
{
    for (int t = 0; t < TABLES; t++)
        if (strcmp(tables[t]->name, name) == 0)
            return tables[t];
    return NULL;
}

static const sg_golden_row *find_row(const sg_golden_family *table, const sg_golden *g)
{
    const char *expression = json_string_value(sg_golden_attr(g, "expression"));
    for (int32_t i = 0; i < table->count; i++) {
        const sg_golden_row *row = &table->rows[i];
        bool same = !row->expression == !expression && (!expression || strcmp(row->expression, expression) == 0);
        if (same && strcmp(row->op, g->op) == 0)
            return row;
    }
    return NULL;
}

/* ---- the report */

static sg_golden_result *add_result(sg_golden_report *report, const char *name, const char *op)
{
    if (report->n_results == report->capacity) {
        int32_t capacity = report->capacity ? 2 * report->capacity : 64;
        sg_golden_result *results = sg_realloc(report->results, (size_t)capacity * sizeof *results);
        if (!results)
            return NULL;
        report->results = results;
        report->capacity = capacity;
    }
    sg_golden_result *r = &report->results[report->n_results];
    *r = (sg_golden_result){.name = sg_strdup(name), .op = sg_strdup(op), .family = report->n_families - 1};
    report->n_results++;
    return r->name && r->op ? r : NULL;
}

static void settle(sg_golden_report *report, sg_golden_result *r)
{
    sg_golden_count *family = &report->families[r->family];
    family->by_verdict[r->verdict]++;
    family->cases += r->verdict != SG_GOLDEN_SKIPPED;
}

void sg_golden_report_free(sg_golden_report *report)
{
    for (int32_t i = 0; i < report->n_results; i++) {
        sg_free(report->results[i].name);
        sg_free(report->results[i].op);
    }
    for (int32_t i = 0; i < report->n_families; i++)
        sg_free(report->families[i].name);
    sg_free(report->results);
    sg_free(report->families);
    *report = (sg_golden_report){0};
}

sg_golden_count sg_golden_total(const sg_golden_report *report)
{
    sg_golden_count total = {.known = true};
    for (int32_t i = 0; i < report->n_families; i++) {
        total.cases += report->families[i].cases;
        for (int v = 0; v <= SG_GOLDEN_SKIPPED; v++)
            total.by_verdict[v] += report->families[i].by_verdict[v];
    }
    return total;
}

/* ---- running */

static void run_on_devices(sg_golden *g, const sg_golden_options *options, sg_golden_result *r)
{
    bool ran = false, passed = true;
    for (int d = 0; d < SG_GOLDEN_DEVICES; d++) {
        if (!options->devices[d] || (d != SG_GOLDEN_REFERENCE && !sg_golden_fits_float(g)))
            continue;
        sg_golden_run_case(g, d, &r->on[d]);
        ran = true;
        passed = passed && r->on[d].passed;
    }
    r->verdict = !ran ? SG_GOLDEN_SKIPPED : passed ? SG_GOLDEN_PASSED : SG_GOLDEN_FAILED;
}

static sg_status run_known(const sg_golden_options *options, const sg_golden_family *table, const json_t *json,
                           const char *path, sg_golden_report *report, sg_error *err)
{
    sg_golden g;
    sg_golden_result *r = NULL;
    sg_status status = sg_golden_case_open(&g, json, path, err);
    if (status == SG_OK) {
        r = add_result(report, g.name, g.op);
        status = r ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    }
    if (status == SG_OK) {
        g.row = find_row(table, &g);
        r->verdict = SG_GOLDEN_NOT_BUILT;
        if (g.row)
            run_on_devices(&g, options, r);
        settle(report, r);
    }
    sg_golden_case_close(&g);
    return status;
}

/* A family without table is only counted: its file may describe itself in other ways. */
static sg_status note_unknown(const json_t *json, sg_golden_report *report, sg_error *err)
{
    const char *name = json_string_value(json_object_get(json, "name"));
    const char *op = json_string_value(json_object_get(json, "op"));
    sg_golden_result *r = add_result(report, name ? name : "?", op ? op : "?");
    if (!r)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    r->verdict = SG_GOLDEN_NOT_BUILT;
    settle(report, r);
    return SG_OK;
}

static sg_status refuse_twice(const json_t *cases, const char *path, sg_error *err)
{
    for (size_t i = 0; i < json_array_size(cases); i++)
        for (size_t k = 0; k < i; k++) {
            const char *a = json_string_value(json_object_get(json_array_get(cases, i), "name"));
            const char *b = json_string_value(json_object_get(json_array_get(cases, k), "name"));
            if (a && b && strcmp(a, b) == 0)
                return sg_fail_at(err, SG_E_DATA, path, 0, 0, "two cases are named '%.80s'", a);
        }
    return SG_OK;
}

static sg_status run_cases(const sg_golden_options *options, const json_t *root, const char *path, const char *name,
                           sg_golden_report *report, sg_error *err)
{
    const sg_golden_family *table = find_table(name);
    const json_t *cases = json_object_get(root, "cases");
    const char *family = json_string_value(json_object_get(root, "family"));
    if (!json_is_array(cases))
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "has no list \"cases\"");
    if (table && (!family || strcmp(family, name) != 0))
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "says it is family '%.80s', not '%s'", family ? family : "",
                          name);
    SG_TRY(refuse_twice(cases, path, err));
    report->families[report->n_families - 1].known = table != NULL;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *json = json_array_get(cases, i);
        SG_TRY(table ? run_known(options, table, json, path, report, err) : note_unknown(json, report, err));
    }
    return SG_OK;
}

static sg_status load(const char *path, json_t **out, sg_error *err)
{
    json_error_t error;
    *out = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (*out)
        return SG_OK;
    if (error.line <= 0)
        return sg_fail(err, SG_E_IO, "%.300s", error.text);
    return sg_fail_at(err, SG_E_DATA, path, error.line, error.column, "%s", error.text);
}

static sg_status run_family(const sg_golden_options *options, const char *name, sg_golden_report *report, sg_error *err)
{
    char path[4096];
    json_t *root = NULL;
    sg_golden_count *families =
        sg_realloc(report->families, ((size_t)report->n_families + 1) * sizeof *report->families);
    if (!families)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    report->families = families;
    families[report->n_families++] = (sg_golden_count){.name = sg_strdup(name)};
    if (!families[report->n_families - 1].name)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    snprintf(path, sizeof path, "%s/%s.json", options->folder, name);
    sg_status status = load(path, &root, err);
    if (status == SG_OK)
        status = run_cases(options, root, path, name, report, err);
    json_decref(root);
    return status;
}

/* ---- the files of a folder */

typedef struct names {
    char **at;
    int32_t n;
} names;

static bool add_name(names *list, const char *text, size_t length)
{
    char **at = sg_realloc(list->at, ((size_t)list->n + 1) * sizeof *at);
    if (!at)
        return false;
    list->at = at;
    at[list->n] = sg_alloc(length + 1);
    if (!at[list->n])
        return false;
    memcpy(at[list->n], text, length);
    at[list->n++][length] = 0;
    return true;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static sg_status list_folder(const char *folder, names *out, sg_error *err)
{
    DIR *dir = opendir(folder);
    bool ok = true;
    if (!dir)
        return sg_fail(err, SG_E_IO, "cannot read the folder %s: %s", folder, strerror(errno));
    for (const struct dirent *entry; ok && (entry = readdir(dir));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot && dot != entry->d_name && strcmp(dot, ".json") == 0)
            ok = add_name(out, entry->d_name, (size_t)(dot - entry->d_name));
    }
    closedir(dir);
    if (!ok)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    if (out->n == 0)
        return sg_fail(err, SG_E_CONFIG, "%s holds no .json file", folder);
    qsort(out->at, (size_t)out->n, sizeof *out->at, by_name);
    return SG_OK;
}

static bool contains(const names *list, const char *name)
{
    for (int32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i], name) == 0)
            return true;
    return false;
}

static sg_status unknown(const names *there, const char *name, const char *folder, sg_error *err)
{
    char text[SG_ERROR_TEXT];
    size_t used = 0;
    for (int32_t i = 0; i < there->n && used < sizeof text - 1; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", there->at[i]);
    return sg_fail(err, SG_E_CONFIG, "unknown family '%.60s'; %.120s has %.280s", name, folder, text);
}

/* The names of a comma-separated list; all of them are checked before any is run. */
static sg_status choose(const sg_golden_options *options, const names *there, names *out, sg_error *err)
{
    for (const char *at = options->families; at;) {
        size_t span = strcspn(at, ",");
        if (!add_name(out, at, span))
            return sg_fail(err, SG_E_MEMORY, "out of memory");
        const char *name = out->at[out->n - 1];
        if (!contains(there, name))
            return unknown(there, name, options->folder, err);
        if (contains(&(names){out->at, out->n - 1}, name))
            return sg_fail(err, SG_E_CONFIG, "family '%.60s' is given twice", name);
        at = at[span] ? at + span + 1 : NULL;
    }
    return SG_OK;
}

static void free_names(names *list)
{
    for (int32_t i = 0; i < list->n; i++)
        sg_free(list->at[i]);
    sg_free(list->at);
}

sg_status sg_golden_run(const sg_golden_options *options, sg_golden_report *report, sg_error *err)
{
    names there = {0}, chosen = {0};
    *report = (sg_golden_report){0};
    sg_status status = list_folder(options->folder, &there, err);
    if (status == SG_OK)
        status = choose(options, &there, &chosen, err);
    const names *run = options->families ? &chosen : &there;
    for (int32_t i = 0; status == SG_OK && i < run->n; i++)
        status = run_family(options, run->at[i], report, err);
    free_names(&there);
    free_names(&chosen);
    return status;
}
