/* Files as lines. gzread takes plain and compressed files alike; everything that can be wrong with the bytes
 * (truncated or damaged compression, pointers of Git LFS in place of data, other encodings, NUL bytes) is found
 * here, with its place. */
#include "models/data_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>
#include <zlib.h>

struct sg_lines {
    gzFile file;
    char *path;
    sg_notes *notes;
    char *buffer; /* bytes read and not yet handed out: [begin, end) */
    int64_t capacity, begin, end, total;
    bool at_end, latin1;
    int64_t number;
    char *line;      /* start of the current line */
    char *converted; /* the line in UTF-8 if the file is Latin-1 */
    int64_t converted_capacity;
};

static bool has_suffix(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcmp(text + n - m, suffix) == 0;
}

static sg_status read_failed(sg_lines *lines, sg_error *err)
{
    int code;
    const char *message = gzerror(lines->file, &code);
    if (code == Z_BUF_ERROR)
        return sg_fail_at(err, SG_E_DATA, lines->path, 0, 0,
                          "the compressed file is truncated: it ends in the middle of its data");
    if (code == Z_DATA_ERROR) {
        const char *why = strstr(message, ": "); /* behind zlib's own name for the file */
        return sg_fail_at(err, SG_E_DATA, lines->path, 0, 0, "the compressed file is damaged (%s)",
                          why ? why + 2 : message);
    }
    return sg_fail_at(err, SG_E_IO, lines->path, 0, 0, "cannot read: %s", code == Z_ERRNO ? strerror(errno) : message);
}

/* Read more bytes behind `end`; moves the unread part to the front first. */
static sg_status fill(sg_lines *lines, sg_error *err)
{
    int64_t unread = lines->end - lines->begin;
    if (lines->begin > 0)
        memmove(lines->buffer, lines->buffer + lines->begin, (size_t)unread);
    lines->begin = 0;
    lines->end = unread;
    if (unread > SG_MAX_LINE_BYTES)
        return sg_fail_at(err, SG_E_DATA, lines->path, lines->number + 1, 0, "the line is longer than 256 MiB");
    const unsigned chunk = 1 << 16;
    if (!sg_grow(&lines->buffer, &lines->capacity, unread + chunk + 1, 1))
        return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", lines->path);
    int got = gzread(lines->file, lines->buffer + unread, chunk);
    if (got < 0)
        return read_failed(lines, err);
    lines->end += got;
    lines->total += got;
    if (lines->total > SG_MAX_FILE_BYTES)
        return sg_fail_at(err, SG_E_DATA, lines->path, 0, 0, "the file holds more than 64 GiB");
    if (got < (int)chunk) {
        int code;
        gzerror(lines->file, &code);
        if (code != Z_OK && code != Z_STREAM_END)
            return read_failed(lines, err);
        lines->at_end = got == 0 || gzeof(lines->file);
    }
    return SG_OK;
}

/* The name of a compression, other than gzip, that the bytes begin with; NULL: none. */
static const char *other_compression(const char *bytes, int64_t n)
{
    static const struct {
        const char *name, *magic;
        int64_t at, size;
    } known[] = {{"bzip2", "1AY&SY", 4, 6},
                 {"xz", "\3757zXZ", 0, 5},
                 {"zstd", "\x28\xb5\x2f\xfd", 0, 4},
                 {"zip", "PK\x03\x04", 0, 4}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n >= known[i].at + known[i].size && memcmp(bytes + known[i].at, known[i].magic, (size_t)known[i].size) == 0)
            return known[i].name;
    return NULL;
}

static sg_status check_start(sg_lines *lines, sg_error *err)
{
    static const char lfs[] = "version https://git-lfs";
    const char *at = lines->buffer;
    int64_t n = lines->end;
    if (n >= (int64_t)sizeof lfs - 1 && memcmp(at, lfs, sizeof lfs - 1) == 0)
        return sg_fail_at(err, SG_E_DATA, lines->path, 1, 1,
                          "this is a Git LFS pointer, not the data: fetch the file with `git lfs pull`");
    const char *packed = other_compression(at, n);
    if (packed)
        return sg_fail_at(err, SG_E_DATA, lines->path, 0, 0,
                          "the file is compressed by %s: only gzip is read, so unpack it first", packed);
    if (has_suffix(lines->path, ".gz") && gzdirect(lines->file))
        return sg_fail_at(err, SG_E_DATA, lines->path, 0, 0,
                          "the name ends in .gz, but the file is not compressed by gzip");
    if (n >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
        lines->begin = 3;
    if (n >= 2 && (memcmp(at, "\xff\xfe", 2) == 0 || memcmp(at, "\xfe\xff", 2) == 0))
        return sg_fail_at(err, SG_E_DATA, lines->path, 1, 1, "the file is in UTF-16: convert it to UTF-8");
    return SG_OK;
}

const char *sg_lines_name(const char *path) { return strcmp(path, "-") == 0 ? "standard input" : path; }

sg_status sg_lines_open(sg_lines **out, const char *path, sg_notes *notes, sg_error *err)
{
    *out = NULL;
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    path = sg_lines_name(path);
    if (fd < 0)
        return sg_fail_at(err, SG_E_IO, path, 0, 0, "cannot open the file: %m");
    sg_lines *lines = sg_calloc(1, sizeof *lines);
    gzFile file = lines ? gzdopen(fd, "rb") : NULL;
    if (!file) {
        close(fd);
        sg_free(lines);
        return sg_fail(err, SG_E_MEMORY, "out of memory opening %s", path);
    }
    lines->notes = notes;
    lines->path = sg_strdup(path);
    lines->file = file;
    sg_status status = SG_OK;
    if (!lines->path)
        status = sg_fail(err, SG_E_MEMORY, "out of memory opening %s", path);
    else if ((status = fill(lines, err)) == SG_OK)
        status = check_start(lines, err);
    if (status != SG_OK) {
        sg_lines_close(lines);
        return status;
    }
    *out = lines;
    return SG_OK;
}

sg_status sg_lines_take(sg_lines **out, sg_lines **opened, const char *path, sg_notes *notes, sg_error *err)
{
    if (!*opened)
        return sg_lines_open(out, path, notes, err);
    *out = *opened;
    *opened = NULL;
    (*out)->notes = notes;
    return SG_OK;
}

sg_status sg_lines_peek(sg_lines *lines, char *first, sg_error *err)
{
    bool comment = false;
    int64_t at = lines->begin;
    for (*first = 0;; at++) {
        while (at == lines->end && !lines->at_end) {
            int64_t seen = at - lines->begin;
            SG_TRY(fill(lines, err));
            at = lines->begin + seen;
        }
        if (at == lines->end)
            return SG_OK;
        char c = lines->buffer[at];
        if (c == '\n' || c == '%')
            comment = c == '%';
        else if (!comment && c != '\r' && !sg_is_blank(c)) {
            *first = c;
            return SG_OK;
        }
    }
}

void sg_lines_close(sg_lines *lines)
{
    if (!lines)
        return;
    if (lines->file)
        gzclose(lines->file);
    sg_free(lines->path);
    sg_free(lines->buffer);
    sg_free(lines->converted);
    sg_free(lines);
}

static bool is_utf8(const char *text, int64_t length)
{
    int64_t i = 0;
    while (i < length && (unsigned char)text[i] < 0x80)
        i++;
    while (i < length) {
        utf8proc_int32_t code;
        utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)text + i, length - i, &code);
        if (step <= 0)
            return false;
        i += step;
    }
    return true;
}

/* Latin-1 is the first 256 code points of Unicode: bytes from 0x80 become two bytes. */
static bool latin1_to_utf8(sg_lines *lines, int64_t *length)
{
    const unsigned char *in = (const unsigned char *)lines->line;
    if (!sg_grow(&lines->converted, &lines->converted_capacity, 2 * *length + 1, 1))
        return false;
    char *out = lines->converted;
    for (int64_t i = 0; i < *length; i++) {
        if (in[i] < 0x80) {
            *out++ = (char)in[i];
        } else {
            *out++ = (char)(0xc0 | in[i] >> 6);
            *out++ = (char)(0x80 | (in[i] & 0x3f));
        }
    }
    *out = '\0';
    *length = out - lines->converted;
    lines->line = lines->converted;
    return true;
}

static sg_status decode(sg_lines *lines, int64_t *length, sg_error *err)
{
    const char *nul = memchr(lines->line, '\0', (size_t)*length);
    if (nul)
        return sg_fail_at(err, SG_E_DATA, lines->path, lines->number, nul - lines->line + 1,
                          "NUL byte: this is not a text file");
    if (!lines->latin1 && !is_utf8(lines->line, *length)) {
        lines->latin1 = true;
        sg_note_add(lines->notes, true, "%s:%lld: not UTF-8; the rest of the file is read as Latin-1", lines->path,
                    (long long)lines->number);
    }
    if (lines->latin1 && !latin1_to_utf8(lines, length))
        return sg_fail(err, SG_E_MEMORY, "out of memory reading %s", lines->path);
    return SG_OK;
}

sg_status sg_lines_next(sg_lines *lines, char **text, int64_t *length, sg_error *err)
{
    *text = NULL;
    int64_t scanned = lines->begin;
    char *newline = NULL;
    for (;;) {
        newline = memchr(lines->buffer + scanned, '\n', (size_t)(lines->end - scanned));
        if (newline || lines->at_end)
            break;
        int64_t unread = lines->end - lines->begin;
        SG_TRY(fill(lines, err));
        scanned = unread;
    }
    if (!newline && lines->begin == lines->end)
        return SG_OK;
    lines->line = lines->buffer + lines->begin;
    char *end = newline ? newline : lines->buffer + lines->end;
    lines->begin = end - lines->buffer + (newline != NULL);
    while (end > lines->line && end[-1] == '\r')
        end--;
    *end = '\0';
    lines->number++;
    *length = end - lines->line;
    SG_TRY(decode(lines, length, err));
    *text = lines->line;
    return SG_OK;
}

int64_t sg_lines_number(const sg_lines *lines) { return lines->number; }

const char *sg_lines_path(const sg_lines *lines) { return lines->path; }

sg_status sg_lines_fail(const sg_lines *lines, const char *at, sg_error *err, const char *fmt, ...)
{
    char text[SG_ERROR_TEXT];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    int64_t column = at ? at - lines->line + 1 : 0;
    return sg_fail_at(err, SG_E_DATA, lines->path, lines->number, column, "%s", text);
}
