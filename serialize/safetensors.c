/* safetensors.c - writing and reading tensor files: an 8-byte little-endian header length, a JSON header, the data.
 *
 * Reading trusts nothing: the header's size is capped before memory is taken, and every tensor must have a known dtype, a
 * shape whose bytes are exactly its range, and ranges that cover the data section once, without holes or overlaps. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "serialize/serialize.h"

#define HEADER_LIMIT ((size_t)25 << 20)
#define FILE_LIMIT ((size_t)1 << 40)

static const struct {
    const char *name;
    sg_dtype dtype;
} dtypes[] = {{"F32", SG_F32}, {"F64", SG_F64}, {"BF16", SG_BF16}, {"F16", SG_F16}, {"I32", SG_I32}, {"BOOL", SG_BOOL}};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

struct sg_safetensors {
    char *bytes; /* the whole file */
    json_t *header;
    sg_named_tensor *tensors; /* sorted by place in the file */
    int32_t count;
};

/* ---- writing */

static const char *file_dtype(sg_dtype dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return NULL;
}

static json_t *describe(const sg_named_tensor *t, uint64_t begin, uint64_t end)
{
    json_t *shape = json_array();
    for (int32_t i = 0; shape && i < t->shape.rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)t->shape.dim[i])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", file_dtype(t->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

/* The header's text, padded with blanks so that the data section starts at a multiple of 64. */
static char *header_text(const sg_named_tensor *tensors, int32_t n, const sg_text_pair *metadata, int32_t n_metadata,
                         size_t *padded, uint64_t *total)
{
    json_t *header = json_object(), *pairs = json_object();
    bool complete = header && pairs;
    for (int32_t i = 0; i < n_metadata; i++)
        complete &= json_object_set_new(pairs, metadata[i].key, json_string(metadata[i].value)) == 0;
    if (n_metadata)
        json_object_set(header, "__metadata__", pairs);
    json_decref(pairs);
    *total = 0;
    for (int32_t i = 0; i < n; i++) {
        uint64_t bytes = (uint64_t)sg_shape_count(&tensors[i].shape) * sg_dtype_size(tensors[i].dtype);
        json_object_set_new(header, tensors[i].name, describe(&tensors[i], *total, *total + bytes));
        *total += bytes;
    }
    complete = complete && header && json_object_size(header) == (size_t)n + (n_metadata > 0);
    char *text = complete ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    if (!text)
        return NULL;
    size_t length = strlen(text);
    *padded = (length + 8 + 63) / 64 * 64 - 8;
    char *wider = realloc(text, *padded + 1);
    if (!wider) {
        free(text);
        return NULL;
    }
    memset(wider + length, ' ', *padded - length);
    return wider;
}

/* Takes its bytes of those that a file has room for, so that no sum of them overflows. */
static bool can_store(const sg_named_tensor *t, uint64_t *room)
{
    int64_t bytes, count = sg_shape_count(&t->shape);
    if (!file_dtype(t->dtype) || count < 0 || !sg_mul_ok(count, (int64_t)sg_dtype_size(t->dtype), &bytes) ||
        (uint64_t)bytes > *room)
        return false;
    *room -= (uint64_t)bytes;
    return true;
}

sg_status sg_safetensors_write(const char *path, const sg_named_tensor *tensors, int32_t n,
                               const sg_text_pair *metadata, int32_t n_metadata, sg_error *err)
{
    uint64_t room = FILE_LIMIT;
    for (int32_t i = 0; i < n; i++)
        if (!can_store(&tensors[i], &room))
            return sg_fail(err, SG_E_ARGUMENT, "tensor '%s' cannot be stored", tensors[i].name);
    size_t padded = 0;
    uint64_t total = 0;
    char *header = header_text(tensors, n, metadata, n_metadata, &padded, &total);
    char *file = header ? sg_alloc(8 + padded + total) : NULL;
    if (!file) {
        free(header);
        return sg_fail(err, SG_E_MEMORY,
                       "out of memory for %s, or two tensors of one name, or a text that is not UTF-8", path);
    }
    for (int i = 0; i < 8; i++)
        file[i] = (char)(padded >> (8 * i) & 0xff);
    memcpy(file + 8, header, padded);
    char *at = file + 8 + padded;
    for (int32_t i = 0; i < n; i++) {
        size_t bytes = (size_t)sg_shape_count(&tensors[i].shape) * sg_dtype_size(tensors[i].dtype);
        if (bytes)
            memcpy(at, tensors[i].data, bytes);
        at += bytes;
    }
    sg_status status = sg_file_write(path, file, 8 + padded + total, err);
    sg_free(file);
    free(header);
    return status;
}

/* ---- reading */

static sg_status bad(sg_error *err, const char *path, const char *name, const char *what)
{
    return sg_fail_at(err, SG_E_DATA, path, 0, 0, "not a valid safetensors file: %s%.100s%s%s", name ? "tensor '" : "",
                      name ? name : "", name ? "' " : "", what);
}

static bool parse_dtype(json_t *value, sg_dtype *out)
{
    const char *name = json_string_value(value);
    for (int i = 0; name && i < DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = dtypes[i].dtype;
            return true;
        }
    return false;
}

static bool parse_shape(json_t *value, sg_shape *out)
{
    size_t rank = json_array_size(value);
    if (!json_is_array(value) || rank > SG_MAX_RANK)
        return false;
    *out = (sg_shape){(int32_t)rank, {0}, {0}};
    for (size_t i = 0; i < rank; i++) {
        json_t *dim = json_array_get(value, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return false;
        out->dim[i] = json_integer_value(dim);
    }
    return sg_shape_count(out) >= 0;
}

static sg_status parse_tensor(sg_named_tensor *t, const char *name, json_t *value, const char *data, uint64_t size,
                              const char *path, sg_error *err)
{
    json_t *offsets = json_object_get(value, "data_offsets");
    json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    int64_t bytes;
    if (!parse_dtype(json_object_get(value, "dtype"), &t->dtype))
        return bad(err, path, name, "has an unknown dtype");
    if (!parse_shape(json_object_get(value, "shape"), &t->shape))
        return bad(err, path, name, "has a bad shape");
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad(err, path, name, "has no data_offsets");
    int64_t from = json_integer_value(begin), to = json_integer_value(end);
    if (from < 0 || to < from || (uint64_t)to > size)
        return bad(err, path, name, "lies outside the file");
    if (!sg_mul_ok(sg_shape_count(&t->shape), (int64_t)sg_dtype_size(t->dtype), &bytes) || bytes != to - from)
        return bad(err, path, name, "has another number of bytes than its shape");
    t->name = name;
    t->data = data + from;
    return SG_OK;
}

static int by_place(const void *a, const void *b)
{
    const sg_named_tensor *x = a, *y = b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    int64_t nx = sg_shape_count(&x->shape), ny = sg_shape_count(&y->shape);
    return (nx > ny) - (nx < ny); /* empty tensors before the one that starts there */
}

static sg_status check_cover(const sg_safetensors *f, const char *data, uint64_t size, const char *path, sg_error *err)
{
    const char *at = data;
    for (int32_t i = 0; i < f->count; i++) {
        const sg_named_tensor *t = &f->tensors[i];
        if ((const char *)t->data != at)
            return bad(err, path, t->name, (const char *)t->data < at ? "overlaps another" : "leaves a hole before it");
        at += (size_t)sg_shape_count(&t->shape) * sg_dtype_size(t->dtype);
    }
    return at == data + size ? SG_OK : bad(err, path, NULL, "bytes after the last tensor");
}

static bool is_text_map(json_t *value)
{
    const char *key;
    json_t *text;
    json_object_foreach(value, key, text)
    {
        if (!json_is_string(text))
            return false;
    }
    return json_is_object(value);
}

static sg_status parse_header(sg_safetensors *f, size_t size, const char *path, sg_error *err)
{
    uint64_t length = 0;
    if (size < 8)
        return bad(err, path, NULL, "it is shorter than its length field");
    for (int i = 0; i < 8; i++)
        length |= (uint64_t)(uint8_t)f->bytes[i] << (8 * i);
    if (length > HEADER_LIMIT || length > size - 8 || length < 2 || f->bytes[8] != '{')
        return bad(err, path, NULL, "its header length is wrong, or the file is cut off");
    json_error_t at;
    f->header = json_loadb(f->bytes + 8, (size_t)length, JSON_REJECT_DUPLICATES, &at);
    if (!json_is_object(f->header))
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "not a valid safetensors file: header: %.200s", at.text);
    f->tensors = sg_calloc((int64_t)json_object_size(f->header) + 1, sizeof *f->tensors);
    if (!f->tensors)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", path);
    const char *name, *data = f->bytes + 8 + length;
    json_t *value;
    json_object_foreach(f->header, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) {
            if (!is_text_map(value))
                return bad(err, path, NULL, "its metadata is not a map of texts");
            continue;
        }
        SG_TRY(parse_tensor(&f->tensors[f->count], name, value, data, size - 8 - length, path, err));
        f->count++;
    }
    qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_place);
    return check_cover(f, data, size - 8 - length, path, err);
}

sg_status sg_safetensors_read(sg_safetensors **out, const char *path, sg_error *err)
{
    size_t size = 0;
    sg_safetensors *f = sg_calloc(1, sizeof *f);
    if (!f)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_file_read(path, FILE_LIMIT, &f->bytes, &size, err);
    if (status == SG_OK)
        status = parse_header(f, size, path, err);
    if (status == SG_OK)
        *out = f;
    else
        sg_safetensors_free(f);
    return status;
}

void sg_safetensors_free(sg_safetensors *f)
{
    if (!f)
        return;
    json_decref(f->header);
    sg_free(f->tensors);
    sg_free(f->bytes);
    sg_free(f);
}

int32_t sg_safetensors_count(const sg_safetensors *f) { return f->count; }

const sg_named_tensor *sg_safetensors_at(const sg_safetensors *f, int32_t index)
{
    return index >= 0 && index < f->count ? &f->tensors[index] : NULL;
}

const sg_named_tensor *sg_safetensors_find(const sg_safetensors *f, const char *name)
{
    for (int32_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}

const char *sg_safetensors_metadata(const sg_safetensors *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->header, "__metadata__"), key));
}
