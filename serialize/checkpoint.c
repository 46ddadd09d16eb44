/* checkpoint.c - a whole store in one file. Names, dtypes and shapes are those of the store or the file is refused; a digest
 * holds the rest, the elements and the caller's text, which a run would go on from whatever they are. */
#include <string.h>

#include "serialize/model_internal.h"

#define FORMAT "sealgraph checkpoint 2"

/* Of the elements of all tensors, in this order, and of the text. */
static bool digest_of(const sg_named_tensor *tensors, int32_t n, const char *state, char out[SG_SHA256_TEXT])
{
    uint8_t digest[SG_SHA256_BYTES], *parts = sg_calloc(n + 1, sizeof digest);
    if (!parts)
        return false;
    for (int32_t i = 0; i < n; i++)
        sgi_sha256(tensors[i].data, (size_t)sg_shape_count(&tensors[i].shape) * sg_dtype_size(tensors[i].dtype),
                   parts + (size_t)i * SG_SHA256_BYTES);
    sgi_sha256(state, strlen(state), parts + (size_t)n * SG_SHA256_BYTES);
    sgi_sha256(parts, (size_t)(n + 1) * sizeof digest, digest);
    sgi_sha256_text(digest, out);
    sg_free(parts);
    return true;
}

static sg_status write_tensors(const char *path, const sg_named_tensor *tensors, int32_t n, const char *state,
                               sg_error *err)
{
    char digest[SG_SHA256_TEXT];
    if (!digest_of(tensors, n, state, digest))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_text_pair metadata[] = {{"format", FORMAT}, {"state", state}, {"sha256", digest}};
    return sg_safetensors_write(path, tensors, n, metadata, 3, err);
}

sg_status sg_checkpoint_write(const char *path, sg_store *store, const char *state_json, sg_error *err)
{
    int32_t n = sg_store_count(store);
    sg_named_tensor *tensors = sg_calloc(n + 1, sizeof *tensors);
    if (!tensors)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 0; i < n; i++) {
        const sg_entry *e = sg_store_read(store, i);
        tensors[i] = (sg_named_tensor){e->name, sgi_stored_as(store, e), e->shape, e->data};
    }
    sg_status status = write_tensors(path, tensors, n, state_json, err);
    sg_free(tensors);
    return status;
}

/* The entries' tensors, in the order of the store. */
static sg_status find_tensors(const sg_safetensors *file, const sg_store *store, sg_named_tensor *out, const char *path,
                              sg_error *err)
{
    const char *format = sg_safetensors_metadata(file, "format");
    char had[SG_SHAPE_TEXT], wants[SG_SHAPE_TEXT];
    if (!format || strcmp(format, FORMAT) != 0 || !sg_safetensors_metadata(file, "state"))
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "the file is not a checkpoint of this version");
    for (int32_t i = 0; i < sg_store_count(store); i++) {
        const sg_entry *e = sg_store_peek(store, i);
        const sg_named_tensor *t = sg_safetensors_find(file, e->name);
        if (!t)
            return sg_fail_at(err, SG_E_DATA, path, 0, 0, "the checkpoint lacks '%s'", e->name);
        if (t->dtype != sgi_stored_as(store, e) || !sg_shape_equal(&t->shape, &e->shape))
            return sg_fail_at(err, SG_E_DATA, path, 0, 0, "'%s' is %s %s in the checkpoint and %s %s in the model",
                              e->name, sg_dtype_name(t->dtype), sg_shape_format(&t->shape, had, sizeof had),
                              sg_dtype_name(sgi_stored_as(store, e)), sg_shape_format(&e->shape, wants, sizeof wants));
        out[i] = *t;
    }
    if (sg_safetensors_count(file) != sg_store_count(store))
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "the checkpoint has %d tensors, the model %d entries",
                          (int)sg_safetensors_count(file), (int)sg_store_count(store));
    return SG_OK;
}

static sg_status check_digest(const sg_safetensors *file, const sg_named_tensor *tensors, int32_t n, const char *path,
                              sg_error *err)
{
    const char *written = sg_safetensors_metadata(file, "sha256");
    char digest[SG_SHA256_TEXT];
    if (!digest_of(tensors, n, sg_safetensors_metadata(file, "state"), digest))
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    return written && strcmp(written, digest) == 0
               ? SG_OK
               : sg_fail_at(err, SG_E_DATA, path, 0, 0, "the checkpoint is damaged: its digest differs");
}

sg_status sg_checkpoint_read(const char *path, sg_store *store, char **state_json, sg_error *err)
{
    int32_t n = sg_store_count(store);
    sg_safetensors *file;
    SG_TRY(sg_safetensors_read(&file, path, err));
    sg_named_tensor *tensors = sg_calloc(n + 1, sizeof *tensors);
    sg_status status =
        tensors ? find_tensors(file, store, tensors, path, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = check_digest(file, tensors, n, path, err);
    if (status == SG_OK && !(*state_json = sg_strdup(sg_safetensors_metadata(file, "state"))))
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 0; status == SG_OK && i < n; i++) {
        sg_entry *e = sg_store_at(store, i);
        memcpy(e->data, tensors[i].data, (size_t)sg_shape_count(&tensors[i].shape) * sg_dtype_size(tensors[i].dtype));
        e->ready = true;
    }
    sg_free(tensors);
    sg_safetensors_free(file);
    return status;
}
