/* Writing data sets: encoded features and labels as ARFF, LIBSVM or XC, plain or compressed. */
#include "models/data_internal.h"
#include "serialize/serialize.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

typedef struct writer {
    const sg_dataset *d;
    gzFile file;
} writer;

/* In quotes if anything in it could end or change a name: blanks, commas, quotes, braces, percent signs,
 * backslashes. */
static void put_name(gzFile file, const char *name)
{
    if (*name && !strpbrk(name, " \t,'\"{}%\\\n\r")) {
        gzputs(file, name);
        return;
    }
    gzputc(file, '\'');
    for (; *name; name++) {
        if (*name == '\n' || *name == '\r') {
            gzputs(file, *name == '\n' ? "\\n" : "\\r");
            continue;
        }
        if (*name == '\'' || *name == '\\')
            gzputc(file, '\\');
        gzputc(file, *name);
    }
    gzputc(file, '\'');
}

static void put_float(gzFile file, float value)
{
    char text[32];
    gzputs(file, isnan(value) ? "?" : sg_text_float(value, text));
}

static const int32_t *labels_of(const sg_dataset *d, int64_t r, int64_t *n)
{
    *n = d->label_indptr[r + 1] - d->label_indptr[r];
    return d->label_index + d->label_indptr[r];
}

static bool contains(const int32_t *index, int64_t n, int64_t value)
{
    for (int64_t i = 0; i < n; i++)
        if (index[i] == value)
            return true;
    return false;
}

/* '1', '0' or '?' of a label. */
static char label_mark(const sg_dataset *d, int64_t r, int64_t label)
{
    int64_t n;
    const int32_t *on = labels_of(d, r, &n);
    if (contains(on, n, label))
        return '1';
    if (!d->has_labels || (d->unknown_indptr && contains(d->unknown_index + d->unknown_indptr[r],
                                                         d->unknown_indptr[r + 1] - d->unknown_indptr[r], label)))
        return '?';
    return '0';
}

static void arff_header(const writer *w)
{
    const sg_dataset *d = w->d;
    char relation[320], name[2048];
    const char *colon = strchr(d->schema->relation, ':');
    int length = colon ? (int)(colon - d->schema->relation) : (int)strlen(d->schema->relation);
    snprintf(relation, sizeof relation, "%.*s: -C %lld", length < 256 ? length : 256,
             length ? d->schema->relation : "data", (long long)-d->labels);
    gzputs(w->file, "@relation ");
    put_name(w->file, relation);
    gzputs(w->file, "\n\n");
    for (int64_t j = 0; j < d->features; j++) {
        gzputs(w->file, "@attribute ");
        put_name(w->file, sg_schema_feature_name(d->schema, j, name, sizeof name));
        gzputs(w->file, " numeric\n");
    }
    for (int64_t i = 0; i < d->labels; i++) {
        gzputs(w->file, "@attribute ");
        put_name(w->file, d->schema->label_names[i]);
        gzputs(w->file, " {0,1}\n");
    }
    gzputs(w->file, "\n@data\n");
}

static void arff_sparse(const writer *w, int64_t r)
{
    const sg_dataset *d = w->d;
    const char *comma = "";
    gzputc(w->file, '{');
    for (int64_t i = d->indptr[r]; i < d->indptr[r + 1]; i++) {
        if (d->values[i] == 0.0f)
            continue;
        gzprintf(w->file, "%s%d ", comma, d->columns[i]);
        put_float(w->file, d->values[i]);
        comma = ",";
    }
    for (int64_t i = 0; i < d->labels; i++) {
        char mark = label_mark(d, r, i);
        if (mark == '0')
            continue;
        gzprintf(w->file, "%s%lld %c", comma, (long long)(d->features + i), mark);
        comma = ",";
    }
    gzputc(w->file, '}');
}

static void arff_row(const writer *w, int64_t r)
{
    const sg_dataset *d = w->d;
    if (d->sparse) {
        arff_sparse(w, r);
    } else {
        for (int64_t j = 0; j < d->features; j++) {
            put_float(w->file, d->dense[r * d->features + j]);
            gzputc(w->file, ',');
        }
        for (int64_t i = 0; i < d->labels; i++)
            gzprintf(w->file, "%s%c", i ? "," : "", label_mark(d, r, i));
    }
    if (d->weights && d->weights[r] != 1.0f) {
        gzputs(w->file, ",{");
        put_float(w->file, d->weights[r]);
        gzputc(w->file, '}');
    }
    gzputc(w->file, '\n');
}

/* Whether there was something to write. */
static bool svm_value(const writer *w, int64_t column, float value, int base)
{
    if (value == 0.0f)
        return false;
    gzprintf(w->file, " %lld:", (long long)column + base);
    put_float(w->file, value);
    return true;
}

/* A row with nothing on it has a zero written out: a blank line is refused by readers that are not told to keep it. */
static void svm_row(const writer *w, int64_t r, int base)
{
    const sg_dataset *d = w->d;
    int64_t n;
    const int32_t *label = labels_of(d, r, &n);
    for (int64_t i = 0; i < n; i++)
        gzprintf(w->file, "%s%d", i ? "," : "", label[i]);
    bool written = n > 0;
    if (d->sparse)
        for (int64_t i = d->indptr[r]; i < d->indptr[r + 1]; i++)
            written |= svm_value(w, d->columns[i], d->values[i], base);
    else
        for (int64_t j = 0; j < d->features; j++)
            written |= svm_value(w, j, d->dense[r * d->features + j], base);
    if (!written)
        gzprintf(w->file, " %d:0", base);
    gzputc(w->file, '\n');
}

static sg_status check(const sg_dataset *d, sg_data_format format, sg_error *err)
{
    if (format == SG_DATA_AUTO)
        return sg_fail(err, SG_E_ARGUMENT, "which format? arff, libsvm or xc");
    if (format == SG_DATA_ARFF)
        return SG_OK;
    if (d->missing || d->unknown_indptr || d->weights)
        return sg_fail(err, SG_E_DATA, "%s cannot hold %s: write ARFF", sg_data_format_name(format),
                       d->missing   ? "missing values"
                       : d->weights ? "instance weights"
                                    : "unknown labels");
    return SG_OK;
}

/* Standard output is the process's own, not a file opened anew by a name such as /dev/stdout: that would write from the start of what
 * others append to, and cannot open a socket. */
static int open_output(const char *file, const char *path)
{
    if (file)
        return sg_file_open(path, file);
    return fflush(stdout) == 0 ? dup(STDOUT_FILENO) : -1;
}

static void write_rows(writer *w, sg_data_format format)
{
    const sg_dataset *d = w->d;
    if (format == SG_DATA_ARFF)
        arff_header(w);
    if (format == SG_DATA_XC)
        gzprintf(w->file, "%lld %lld %lld\n", (long long)d->rows, (long long)d->features, (long long)d->labels);
    for (int64_t r = 0; r < d->rows; r++) {
        if (format == SG_DATA_ARFF)
            arff_row(w, r);
        else
            svm_row(w, r, format == SG_DATA_LIBSVM ? 1 : 0);
    }
}

/* To an open file, which is closed. */
static bool write_through(const sg_dataset *d, int fd, bool compress, sg_data_format format)
{
    int code = Z_OK, out = dup(fd);
    writer w = {d, out >= 0 ? gzdopen(out, compress ? "wb9" : "wbT") : NULL};
    if (out >= 0 && !w.file)
        close(out);
    if (w.file) {
        write_rows(&w, format);
        gzerror(w.file, &code);
    }
    bool good = w.file && gzclose(w.file) == Z_OK && code == Z_OK;
    good = good && (fsync(fd) == 0 || errno == EINVAL || errno == EROFS); /* pipes and devices cannot be synced */
    int reason = errno;
    close(fd);
    errno = reason;
    return good;
}

static sg_status write_to(const sg_dataset *d, const char *file, const char *name, sg_data_format format, sg_error *err)
{
    size_t n = strlen(name);
    bool compress = file && n > 3 && strcmp(name + n - 3, ".gz") == 0;
    int fd = open_output(file, name);
    if (fd < 0)
        return sg_fail_at(err, SG_E_IO, name, 0, 0, "cannot create the file: %m");
    return write_through(d, fd, compress, format) ? SG_OK
                                                  : sg_fail_at(err, SG_E_IO, name, 0, 0, "cannot write the file: %m");
}

sg_status sg_dataset_write(const sg_dataset *d, const char *path, sg_data_format format, sg_error *err)
{
    char *file;
    SG_TRY(check(d, format, err));
    if (!path)
        return write_to(d, NULL, "standard output", format, err);
    SG_TRY(sg_file_begin(path, &file, err));
    return sg_file_end(path, file, write_to(d, file, path, format, err), err);
}
