/* checkpoint.c - a whole store in one file. */
#include <string.h>

#include "serialize/model_internal.h"

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
    sg_text_pair metadata[] = {{"format", "sealgraph checkpoint 1"}, {"state", state_json}};
    sg_status status = sg_safetensors_write(path, tensors, n, metadata, 2, err);
    sg_free(tensors);
    return status;
}

static sg_status check(const sg_safetensors *file, sg_store *store, const char *path, sg_error *err)
{
    const char *format = sg_safetensors_metadata(file, "format");
    char had[SG_SHAPE_TEXT], wants[SG_SHAPE_TEXT];
    if (!format || strcmp(format, "sealgraph checkpoint 1") != 0 || !sg_safetensors_metadata(file, "state"))
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
    }
    if (sg_safetensors_count(file) != sg_store_count(store))
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "the checkpoint has %d tensors, the model %d entries",
                          (int)sg_safetensors_count(file), (int)sg_store_count(store));
    return SG_OK;
}

sg_status sg_checkpoint_read(const char *path, sg_store *store, char **state_json, sg_error *err)
{
    sg_safetensors *file;
    SG_TRY(sg_safetensors_read(&file, path, err));
    sg_status status = check(file, store, path, err);
    if (status == SG_OK && !(*state_json = sg_strdup(sg_safetensors_metadata(file, "state"))))
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 0; status == SG_OK && i < sg_store_count(store); i++) {
        sg_entry *e = sg_store_at(store, i);
        const sg_named_tensor *t = sg_safetensors_find(file, e->name);
        memcpy(e->data, t->data, (size_t)sg_shape_count(&t->shape) * sg_dtype_size(t->dtype));
        e->ready = true;
    }
    sg_safetensors_free(file);
    return status;
}
