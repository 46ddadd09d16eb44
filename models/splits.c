/* Training, validation and test rows: from a file, by files, or by iterative stratification. */
#include "graph/random_internal.h"
#include "models/data_internal.h"
#include "serialize/serialize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEFT_OUT 3 /* beside the numbers of sg_part */

static const char *const part_name[] = {"train", "validation", "test", "-"};

void sg_split_free(sg_split *split)
{
    for (int p = 0; p < 3; p++)
        sg_free(split->rows[p]);
    *split = (sg_split){0};
}

/* Rows without a label are left out, unless the data set has no labels at all; of those to train on also what weighs nothing, as a
 * loss is a mean by weight, which a batch of such rows has none of. */
static sg_status collect(sg_split *out, const sg_dataset *d, const signed char *part, sg_error *err)
{
    *out = (sg_split){0};
    for (int pass = 0; pass < 2; pass++) {
        int64_t count[4] = {0}, unlabelled = 0, weightless = 0;
        for (int64_t r = 0; r < d->rows; r++) {
            bool empty = d->has_labels && !sg_dataset_has_label(d, r);
            bool light = part[r] == SG_TRAIN && d->weights && d->weights[r] == 0;
            int p = empty || light ? LEFT_OUT : part[r];
            unlabelled += empty;
            weightless += light && !empty;
            if (pass == 1 && empty && part[r] < LEFT_OUT)
                out->without_label[part[r]]++;
            if (pass == 1 && p < LEFT_OUT)
                out->rows[p][count[p]] = r;
            count[p]++;
        }
        out->unlabelled = unlabelled;
        out->weightless = weightless;
        for (int p = 0; p < 3 && pass == 0; p++) {
            out->count[p] = count[p];
            out->rows[p] = sg_calloc(count[p] + 1, sizeof *out->rows[p]);
            if (!out->rows[p]) {
                sg_split_free(out);
                return sg_fail(err, SG_E_MEMORY, "out of memory for a split of %lld rows", (long long)d->rows);
            }
        }
    }
    return SG_OK;
}

/* ----------------------------------------------------------------------------------------------------- split files */

static sg_status read_line(const sg_lines *lines, const char *text, int64_t rows, signed char *part, sg_error *err)
{
    const char *end = text + strcspn(text, " \t"), *name = end;
    int64_t row;
    if (!sg_text_integer(text, end, &row))
        return sg_lines_fail(lines, text, err, "expected `row TAB part`");
    if (row < 0 || row >= rows)
        return sg_lines_fail(lines, text, err, "row %lld, but the data set has %lld rows, from 0", (long long)row,
                             (long long)rows);
    if (part[row] >= 0)
        return sg_lines_fail(lines, text, err, "row %lld stands here a second time", (long long)row);
    while (sg_is_blank(*name))
        name++;
    size_t length = strcspn(name, " \t");
    for (int p = 0; p <= LEFT_OUT; p++)
        if (strlen(part_name[p]) == length && strncmp(name, part_name[p], length) == 0)
            part[row] = (signed char)p;
    if (part[row] < 0 || name[length + strspn(name + length, " \t")])
        return sg_lines_fail(lines, name, err, "'%.40s' is not a part: train, validation, test or - (left out)", name);
    return SG_OK;
}

static sg_status read_parts(sg_lines *lines, int64_t rows, signed char *part, sg_error *err)
{
    for (;;) {
        char *text;
        int64_t length;
        SG_TRY(sg_lines_next(lines, &text, &length, err));
        if (!text)
            break;
        if (*text && *text != '#')
            SG_TRY(read_line(lines, text, rows, part, err));
    }
    for (int64_t r = 0; r < rows; r++)
        if (part[r] < 0)
            return sg_fail_at(
                err, SG_E_DATA, sg_lines_path(lines), 0, 0,
                "row %lld has no part (the data set has %lld rows): does the file belong to this data set?",
                (long long)r, (long long)rows);
    return SG_OK;
}

sg_status sg_split_read(sg_split *out, const char *path, const sg_dataset *d, sg_error *err)
{
    *out = (sg_split){0};
    sg_notes notes = {0};
    sg_lines *lines;
    SG_TRY(sg_lines_open(&lines, path, &notes, err));
    signed char *part = sg_alloc((size_t)d->rows + 1);
    sg_status status = part ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory reading %s", path);
    if (part) {
        memset(part, -1, (size_t)d->rows);
        status = read_parts(lines, d->rows, part, err);
    }
    if (status == SG_OK)
        status = collect(out, d, part, err);
    sg_free(part);
    sg_lines_close(lines);
    sg_notes_free(&notes);
    return status;
}

static void write_parts(const sg_split *split, const sg_dataset *d, FILE *file)
{
    fputs("# row (from 0, files in the order", file);
    for (int32_t i = 0; i < d->n_files; i++) {
        const char *slash = strrchr(d->files[i], '/');
        fprintf(file, "%s %s", i ? "," : "", slash ? slash + 1 : d->files[i]);
    }
    fputs(")\tpart ('-' = left out)\n", file);
    int64_t at[3] = {0};
    for (int64_t r = 0; r < d->rows; r++) {
        int p = 0;
        while (p < LEFT_OUT && (at[p] >= split->count[p] || split->rows[p][at[p]] != r))
            p++;
        fprintf(file, "%lld\t%s\n", (long long)r, part_name[p]);
        if (p < LEFT_OUT)
            at[p]++;
    }
}

sg_status sg_split_write(const sg_split *split, const sg_dataset *d, const char *path, sg_error *err)
{
    char *text = NULL;
    size_t size = 0;
    if (!path) {
        write_parts(split, d, stdout);
        return fflush(stdout) == 0 && !ferror(stdout)
                   ? SG_OK
                   : sg_fail(err, SG_E_IO, "cannot write to standard output: %s", strerror(errno));
    }
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    write_parts(split, d, stream);
    bool whole = !ferror(stream);
    sg_status status = fclose(stream) == 0 && whole ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = sg_file_write(path, text, size, err);
    free(text);
    return status;
}

/* ------------------------------------------------------------------------------------------ iterative
 * stratification */

/* Sechidis, Tsoumakas and Vlahavas (2011), algorithm 1: take the label with the fewest rows left and hand each of
 * its rows to the part that still wants this label most, ties to the part that wants rows most, further ties at
 * random. So rare labels are spread while there is still a choice. */
typedef struct stratifier {
    const sg_dataset *d;
    int64_t n;
    const int64_t *rows;
    double want[3];        /* rows each part still wants */
    double *want_label;    /* [labels][3] */
    int64_t *left;         /* [labels] rows left that have the label */
    int64_t *label_indptr; /* rows of each label, as positions in `rows` */
    int64_t *label_rows;
    signed char *part; /* [n] -1: not handed out */
    uint64_t seed, draws;
} stratifier;

static uint64_t draw(stratifier *s) { return sg_mix64(s->seed + 0x9e3779b97f4a7c15u * ++s->draws); }

static bool prepare(stratifier *s, const double shares[3])
{
    const sg_dataset *d = s->d;
    s->want_label = sg_calloc(3 * d->labels + 1, sizeof *s->want_label);
    s->left = sg_calloc(d->labels + 1, sizeof *s->left);
    s->label_indptr = sg_calloc(d->labels + 2, sizeof *s->label_indptr);
    s->label_rows = sg_calloc(d->label_indptr[d->rows] + 1, sizeof *s->label_rows);
    s->part = sg_alloc((size_t)s->n + 1);
    if (!s->want_label || !s->left || !s->label_indptr || !s->label_rows || !s->part)
        return false;
    memset(s->part, -1, (size_t)s->n);
    for (int64_t k = 0; k < s->n; k++)
        for (int64_t i = d->label_indptr[s->rows[k]]; i < d->label_indptr[s->rows[k] + 1]; i++)
            s->left[d->label_index[i]]++;
    for (int64_t l = 0; l < d->labels; l++)
        s->label_indptr[l + 1] = s->label_indptr[l] + s->left[l];
    for (int64_t k = 0; k < s->n; k++)
        for (int64_t i = d->label_indptr[s->rows[k]]; i < d->label_indptr[s->rows[k] + 1]; i++) {
            int32_t l = d->label_index[i];
            s->label_rows[s->label_indptr[l + 1] - s->left[l]--] = k;
        }
    for (int64_t l = 0; l < d->labels; l++) {
        s->left[l] = s->label_indptr[l + 1] - s->label_indptr[l];
        for (int p = 0; p < 3; p++)
            s->want_label[3 * l + p] = shares[p] * (double)s->left[l];
    }
    for (int p = 0; p < 3; p++)
        s->want[p] = shares[p] * (double)s->n;
    return true;
}

static int choose_part(stratifier *s, const double *want, const double shares[3])
{
    int best[3], count = 0;
    for (int p = 0; p < 3; p++) {
        if (shares[p] <= 0)
            continue;
        int against = count ? best[0] : p;
        bool equal = want[p] == want[against] && s->want[p] == s->want[against];
        if (want[p] > want[against] || (want[p] == want[against] && s->want[p] > s->want[against]))
            count = 0;
        else if (count && !equal)
            continue;
        best[count++] = p;
    }
    return count == 1 ? best[0] : best[draw(s) % (uint64_t)count];
}

static void hand_out(stratifier *s, int64_t k, int part)
{
    const sg_dataset *d = s->d;
    int64_t r = s->rows[k];
    s->part[k] = (signed char)part;
    s->want[part] -= 1.0;
    for (int64_t i = d->label_indptr[r]; i < d->label_indptr[r + 1]; i++) {
        s->want_label[3 * d->label_index[i] + part] -= 1.0;
        s->left[d->label_index[i]]--;
    }
}

/* The label with the fewest rows left, at least one; ties at random. -1: no labelled rows are left. */
static int64_t rarest_label(stratifier *s)
{
    int64_t best = -1, ties = 0;
    for (int64_t l = 0; l < s->d->labels; l++) {
        if (s->left[l] == 0 || (best >= 0 && s->left[l] > s->left[best]))
            continue;
        ties = best >= 0 && s->left[l] == s->left[best] ? ties + 1 : 1;
        if (ties == 1 || draw(s) % (uint64_t)ties == 0)
            best = l;
    }
    return best;
}

static void shuffle(stratifier *s, int64_t *items, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t other = (int64_t)(draw(s) % (uint64_t)(i + 1)), swap = items[i];
        items[i] = items[other];
        items[other] = swap;
    }
}

static bool stratify(stratifier *s, const double shares[3])
{
    bool ok = prepare(s, shares);
    for (int64_t l = ok ? rarest_label(s) : -1; l >= 0; l = rarest_label(s)) {
        int64_t *items = s->label_rows + s->label_indptr[l], n = s->label_indptr[l + 1] - s->label_indptr[l];
        shuffle(s, items, n);
        for (int64_t i = 0; i < n; i++)
            if (s->part[items[i]] < 0)
                hand_out(s, items[i], choose_part(s, s->want_label + 3 * l, shares));
    }
    /* Rows without labels (a data set without label columns) go where rows are wanted. */
    for (int64_t k = 0; ok && k < s->n; k++)
        if (s->part[k] < 0)
            hand_out(s, k, choose_part(s, s->want, shares));
    return ok;
}

/* Stratify the rows whose part is `from`; the result overwrites `part`. */
static sg_status stratify_part(const sg_dataset *d, signed char *part, int from, const double shares[3], uint64_t seed,
                               sg_error *err)
{
    stratifier s = {.d = d, .seed = sg_mix64(seed + 1)};
    int64_t *rows = sg_calloc(d->rows + 1, sizeof *rows);
    bool ok = rows != NULL;
    for (int64_t r = 0; ok && r < d->rows; r++)
        if (part[r] == from && (!d->has_labels || sg_dataset_has_label(d, r)))
            rows[s.n++] = r;
    s.rows = rows;
    ok = ok && stratify(&s, shares);
    for (int64_t k = 0; ok && k < s.n; k++)
        part[rows[k]] = s.part[k];
    sg_free(rows);
    sg_free(s.want_label);
    sg_free(s.left);
    sg_free(s.label_indptr);
    sg_free(s.label_rows);
    sg_free(s.part);
    return ok ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory splitting %lld rows", (long long)d->rows);
}

sg_status sg_split_stratified(sg_split *out, const sg_dataset *d, const double shares[3], uint64_t seed, sg_error *err)
{
    *out = (sg_split){0};
    double sum = shares[0] + shares[1] + shares[2];
    if (!(shares[0] >= 0 && shares[1] >= 0 && shares[2] >= 0 && sum > 0.999999 && sum < 1.000001))
        return sg_fail(err, SG_E_CONFIG, "the shares of a split are not negative and sum to 1, not %g + %g + %g",
                       shares[0], shares[1], shares[2]);
    signed char *part = sg_calloc(d->rows + 1, sizeof *part);
    sg_status status = part ? stratify_part(d, part, SG_TRAIN, shares, seed, err)
                            : sg_fail(err, SG_E_MEMORY, "out of memory splitting %lld rows", (long long)d->rows);
    if (status == SG_OK)
        status = collect(out, d, part, err);
    memset(out->without_label, 0, sizeof out->without_label); /* no part was ever chosen for them */
    sg_free(part);
    return status;
}

sg_status sg_split_by_file(sg_split *out, const sg_dataset *d, int32_t n_train, int32_t n_validation,
                           double dev_fraction, uint64_t seed, sg_error *err)
{
    *out = (sg_split){0};
    if (!(dev_fraction >= 0 && dev_fraction < 1))
        return sg_fail(err, SG_E_CONFIG, "dev_fraction is at least 0 and below 1, not %g", dev_fraction);
    signed char *part = sg_calloc(d->rows + 1, sizeof *part);
    if (!part)
        return sg_fail(err, SG_E_MEMORY, "out of memory splitting %lld rows", (long long)d->rows);
    for (int64_t r = 0; r < d->rows; r++) {
        int32_t file = d->source_file[r];
        part[r] = file < n_train ? SG_TRAIN : file < n_train + n_validation ? SG_VALIDATION : SG_TEST;
    }
    sg_status status = SG_OK;
    if (dev_fraction > 0)
        status = stratify_part(d, part, SG_TRAIN, (double[3]){1.0 - dev_fraction, dev_fraction, 0.0}, seed, err);
    if (status == SG_OK)
        status = collect(out, d, part, err);
    sg_free(part);
    return status;
}
