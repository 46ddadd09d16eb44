/* run_same.c - is the run in a directory the one that goes on, by its settings and its data, and can it? What differs or lacks is
 * told. */
#include <jansson.h>
#include <string.h>

#include "models/config_internal.h"
#include "models/data_internal.h"
#include "models/json_internal.h"
#include "models/train_internal.h"
#include "serialize/serialize.h"

typedef struct refusal {
    const char *what, *advice;
} refusal;
static const refusal changed_data = {"was trained on other data",
                                     "give the files to evaluate on, if they are meant as they are now"};

const char *sgi_way_out(const sgi_run *run, char *out, size_t size)
{
    const char *whole = run->group->options->folder;
    if (run->folder == whole)
        snprintf(out, size, "use --force to keep the run as %s.1 and train again", whole);
    else
        snprintf(out, size,
                 "move %s away to train its seed again, or use --force to keep all seeds as %s.1 and train them again",
                 run->folder, whole);
    return out;
}

/* The length of the name in a line "name sha256", which may hold spaces. */
static int name_length(const char *line)
{
    enum { HASH = 65 };
    size_t n = strcspn(line, "\n");
    return n > HASH ? (int)n - HASH : (int)n;
}

static bool is_base(const char *path, const char *name, int length)
{
    const char *slash = path ? strrchr(path, '/') : NULL, *base = slash ? slash + 1 : path;
    return path && strlen(base) == (size_t)length && memcmp(base, name, (size_t)length) == 0;
}

static const char *role(const sg_train_config *c, const char *name, int length)
{
    return is_base(c->data.split, name, length)        ? "the division "
           : is_base(c->data.labels_xml, name, length) ? "the list of labels "
                                                       : "";
}

static size_t print_counts(char *out, size_t size, const char *before, int64_t rows, int64_t labels, const char *when)
{
    return (size_t)snprintf(out, size, "%s%lld row%s and %lld label%s %s", before, (long long)rows,
                            rows == 1 ? "" : "s", (long long)labels, labels == 1 ? "" : "s", when);
}

static void compare_counts(const sg_dataset *now, const json_t *record, char *out, size_t size)
{
    const json_t *rows = json_object_get(record, "rows"), *labels = json_object_get(record, "labels");
    if (!json_is_integer(rows) || !json_is_integer(labels) ||
        (json_integer_value(rows) == now->rows && json_integer_value(labels) == now->labels))
        return;
    size_t n = print_counts(out, size, now->n_files > 1 ? " (all files: " : " (", json_integer_value(rows),
                            json_integer_value(labels), "then");
    n += print_counts(out + n, size - n, ", ", now->rows, now->labels, "now");
    snprintf(out + n, size - n, ")");
}

/* " (200 rows and 3 labels then, 150 rows and 3 labels now)" where they differ, which are of all files: earlier programs wrote no
 * counts. What is there now may be no data set. */
static const char *tell_counts(const sg_config *config, const json_t *record, char *out, size_t size)
{
    sg_dataset *data = NULL;
    sg_error why;
    char reason[SG_ERROR_TEXT + SG_ERROR_FILE];
    out[0] = 0;
    if (sg_config_read_data(config, &data, NULL, &why) == SG_OK)
        compare_counts(data, record, out, size);
    else
        snprintf(out, size, ", and the data cannot be read now (%.140s)", sg_error_format(&why, reason, sizeof reason));
    sg_dataset_free(data);
    return out;
}

/* Of two lists, of the same files with other hashes, the first file that differs. */
static sg_status tell_change(const sg_config *config, const char *folder, const json_t *record, const char *had,
                             const char *now, const refusal *r, sg_error *err)
{
    char counts[192];
    size_t line = 0;
    for (size_t same = 0; had[same] && had[same] == now[same]; same++)
        line = had[same] == '\n' ? same + 1 : line;
    const char *name = now[line] ? now + line : had + line;
    int n = name_length(name);
    return sg_fail(err, SG_E_CONFIG,
                   "%.300s %s: the contents of %s%.*s have changed since%s: put the old ones back, or %s", folder,
                   r->what, role(sg_config_values(config), name, n), n, name,
                   tell_counts(config, record, counts, sizeof counts), r->advice);
}

enum { SHOWN = 80, BEFORE = 30, EXCERPT = SHOWN + 8 };

/* Where to begin showing two values that differ: at a character, so that the difference is seen. */
static size_t excerpt_start(const char *a, const char *b)
{
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    if (at < SHOWN - BEFORE)
        return 0;
    at -= BEFORE;
    while (((unsigned char)a[at] & 0xc0) == 0x80)
        at--;
    return at;
}

static const char *excerpt(const char *text, size_t start, char out[EXCERPT])
{
    bool whole = strlen(text + start) <= SHOWN;
    snprintf(out, EXCERPT, "%s%.*s%s", start ? "..." : "", SHOWN, text + start, whole ? "" : "...");
    return out;
}

/* The same value, as this program writes it: an earlier one wrote 1e-05 for 1.0e-05. */
static sg_status same_value(const sgi_run *run, const sg_config *then, const sg_option *option, sg_error *err)
{
    char *had = sg_config_value_text(then, option), *now = sg_config_value_text(run->config, option);
    char there[EXCERPT], here[EXCERPT], advice[SG_ERROR_TEXT];
    sg_status status = had && now ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK && strcmp(had, now) != 0) {
        size_t start = excerpt_start(had, now);
        status =
            sg_fail(err, SG_E_CONFIG,
                    "%.200s holds an unfinished run with other settings: %s is %s there and %s here (%.80s); go on "
                    "with its own, or %s, or choose another directory",
                    run->folder, option->key, excerpt(had, start, there), excerpt(now, start, here),
                    sg_config_origin(run->config, option->key), sgi_way_out(run, advice, sizeof advice));
    }
    sg_free(had);
    sg_free(now);
    return status;
}

/* Results do not depend on threads, which may differ. */
sg_status sgi_same_settings(const sgi_run *run, sg_error *err)
{
    sg_config *then = NULL;
    char *path = sgi_folder_path(run, "config.yml"), *text = NULL;
    size_t size;
    sg_status status =
        path ? sg_file_read(path, SGI_TEXT_LIMIT, &text, &size, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = sg_config_parse(&then, text, size, path, err);
    for (int32_t i = 0; status == SG_OK && i < sg_option_count(); i++)
        if (strcmp(sg_option_at(i)->key, "threads") != 0)
            status = same_value(run, then, sg_option_at(i), err);
    sg_config_free(then);
    sg_free(path);
    sg_free(text);
    return status;
}

/* run.json of the run's folder; NULL if it cannot be read. */
static json_t *read_record(const sgi_run *run)
{
    char *path = sgi_folder_path(run, "run.json"), *text = NULL;
    size_t size;
    bool there = path && sg_file_read(path, SGI_TEXT_LIMIT, &text, &size, NULL) == SG_OK;
    json_t *record = there ? json_loads(text, 0, NULL) : NULL;
    sg_free(text);
    sg_free(path);
    return record;
}

/* As far as run.json in the run's folder can tell: it is for people, and a run goes on without it. Settings are equal, and so are
 * the names of files: a shorter list is of a program that did not hash label lists and divisions. */
static sg_status same_data(const sgi_run *run, const char *hashes, const char *name, const refusal *r, sg_error *err)
{
    json_t *had = read_record(run), *now = sg_json_text(hashes);
    const char *then = json_string_value(json_object_get(had, "data")), *here = json_string_value(now);
    sg_status status = SG_OK;
    if (then && here && strncmp(then, here, strlen(then)) != 0)
        status = tell_change(run->config, name, had, then, here, r, err);
    json_decref(had);
    json_decref(now);
    return status;
}

sg_status sgi_same_data(const sgi_run *run, const char *hashes, sg_error *err)
{
    char advice[SG_ERROR_TEXT], or_elsewhere[SG_ERROR_TEXT + 32];
    snprintf(or_elsewhere, sizeof or_elsewhere, "%s, or choose another directory",
             sgi_way_out(run, advice, sizeof advice));
    return same_data(run, hashes, run->folder, &(refusal){"holds an unfinished run with other data", or_elsewhere},
                     err);
}

/* The run's folder is the one that the model's is in, whichever of the two was named. */
sg_status sg_trained_check_data(const sg_trained *trained, const sg_config *config, sg_error *err)
{
    size_t size = strlen(trained->folder) + sizeof "/..";
    char *above = sg_alloc(size), *hashes = NULL;
    if (!above)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    snprintf(above, size, "%s/..", trained->folder);
    sgi_run run = {.folder = above, .config = config};
    sg_status status = SG_OK;
    if (sgi_folder_has(&run, "run.json") && sgi_hash_data(config, &hashes, NULL) == SG_OK)
        status = same_data(&run, hashes, trained->folder, &changed_data, err);
    sg_free(hashes);
    sg_free(above);
    return status;
}

/* ---- can it go on? */

/* The last epoch of which the log has a line; 0: none. */
static int64_t logged_epoch(const sgi_run *run)
{
    char *path = sgi_folder_path(run, "metrics.jsonl"), *text = NULL;
    size_t size;
    json_int_t last = 0;
    bool there = path && sg_file_read(path, SGI_TEXT_LIMIT, &text, &size, NULL) == SG_OK;
    for (const char *line = text, *end; there && (end = strchr(line, '\n')); line = end + 1) {
        json_int_t epoch = 0;
        json_t *value = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (value && json_unpack(value, "{s:I}", "epoch", &epoch) == 0 && epoch > last)
            last = epoch;
        json_decref(value);
    }
    sg_free(text);
    sg_free(path);
    return last;
}

/* The first checkpoint is written behind the log's lines of the first epoch, so that these alone may be what a killed run left, which
 * is begun again. run.json knows of it from the next time on that something is told there. */
sg_status sgi_keeps_checkpoint(const sgi_run *run, sg_error *err)
{
    char advice[SG_ERROR_TEXT];
    if (sgi_folder_has(run, "checkpoint.safetensors"))
        return SG_OK;
    json_t *record = read_record(run);
    bool had = json_is_true(json_object_get(record, "checkpoint"));
    int64_t told = json_integer_value(json_object_get(record, "epoch")), logged = logged_epoch(run);
    int64_t done = told > logged ? told : logged;
    json_decref(record);
    if (!had && done < 2)
        return SG_OK;
    return sg_fail(err, SG_E_DATA,
                   "%s holds an unfinished run, but its checkpoint.safetensors is gone, with %lld epoch%s done: put it "
                   "back, or %s",
                   run->folder, (long long)done, done == 1 ? "" : "s", sgi_way_out(run, advice, sizeof advice));
}
