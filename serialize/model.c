/* model.c - trained models: a folder with model.pb (graph and description) beside model.safetensors (values).
 *
 * The two files are a pair: model.pb holds the digest of model.safetensors. Both are first written whole under the names
 * NAME.new, then renamed, tensors first. If the machine stops between the two renames, model.pb.new is the description
 * that belongs to the tensors, and reading finds it by the digest. */
#include <string.h>

#include "serialize/model_internal.h"

#define FORMAT "sealgraph model 1"
#define MESSAGE_LIMIT ((size_t)64 << 20)

/* A decoded message takes more memory than its bytes, by a factor that its smallest parts bound: an Attr of 6 bytes becomes
 * a structure of about 100. A file that asks for more than this is refused while it is decoded. */
#define QUOTA(bytes) (32 * (bytes) + ((size_t)1 << 20))

typedef struct quota {
    size_t left;
    bool over;   /* the refusal was ours, */
    bool failed; /* or the system's */
} quota;

static void *quota_alloc(void *user, size_t bytes)
{
    quota *q = user;
    if (bytes > q->left) {
        q->over = true;
        return NULL;
    }
    q->left -= bytes;
    void *p = sg_alloc(bytes);
    q->failed |= !p;
    return p;
}

static void quota_free(void *user, void *old)
{
    (void)user;
    sg_free(old);
}

static ProtobufCAllocator releaser = {NULL, quota_free, NULL};

typedef struct model_storage {
    sg_model model;       /* first: what the caller holds */
    SgPb__Model *message; /* owns the model's texts */
    sg_text_pair *provenance;
} model_storage;

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = sg_alloc(size);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

typedef struct model_paths {
    char *description, *new_description, *tensors, *new_tensors;
} model_paths;

static sg_status make_paths(model_paths *p, const char *folder, sg_error *err)
{
    *p = (model_paths){join(folder, "model.pb"), join(folder, "model.pb.new"), join(folder, "model.safetensors"),
                       join(folder, "model.safetensors.new")};
    return p->description && p->new_description && p->tensors && p->new_tensors
               ? SG_OK
               : sg_fail(err, SG_E_MEMORY, "out of memory");
}

static void free_paths(model_paths *p)
{
    sg_free(p->description);
    sg_free(p->new_description);
    sg_free(p->tensors);
    sg_free(p->new_tensors);
}

sg_dtype sgi_stored_as(const sg_store *store, const sg_entry *e)
{
    return e->dtype == SG_I32 ? SG_I32 : sg_store_real(store);
}

/* ---- writing */

static sg_status write_tensors(const char *path, const SgPb__Model *message, sg_store *store, sgi_pool *pool,
                               sg_error *err)
{
    sg_named_tensor *tensors = sgi_pool_take(pool, (int64_t)message->n_entries, sizeof *tensors);
    if (!tensors)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (size_t i = 0; i < message->n_entries; i++) {
        const sg_entry *e = sg_store_read(store, sg_store_find(store, message->entries[i]->name));
        if (!e->ready)
            return sg_fail(err, SG_E_ARGUMENT, "a model cannot be stored: entry '%s' has no value yet", e->name);
        tensors[i] = (sg_named_tensor){e->name, sgi_stored_as(store, e), e->shape, e->data};
    }
    sg_text_pair metadata[] = {{"format", FORMAT}, {"version", SG_VERSION}};
    return sg_safetensors_write(path, tensors, (int32_t)message->n_entries, metadata, 2, err);
}

static sg_status describe(const sg_model *model, SgPb__Model *out, sgi_pool *pool, sg_error *err)
{
    size_t pairs = model->n_provenance > 0 ? (size_t)model->n_provenance : 0;
    out->version = SG_VERSION;
    out->task = (char *)(model->task ? model->task : "");
    out->labels = (char **)model->labels;
    out->n_labels = (size_t)model->n_labels;
    out->thresholds = (double *)model->thresholds;
    out->n_thresholds = model->thresholds ? out->n_labels : 0;
    out->encoding = (char *)(model->encoding ? model->encoding : "");
    out->recipe = (char *)(model->recipe ? model->recipe : "");
    out->real = (char *)sg_dtype_name(sg_store_real(model->store));
    out->provenance = sgi_pool_take(pool, (int64_t)pairs, sizeof *out->provenance);
    SgPb__Pair *pair = sgi_pool_take(pool, (int64_t)pairs, sizeof *pair);
    if (!out->provenance || !pair)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    out->n_provenance = pairs;
    for (size_t i = 0; i < pairs; i++) {
        sg_pb__pair__init(&pair[i]);
        pair[i].key = (char *)model->provenance[i].key;
        pair[i].value = (char *)model->provenance[i].value;
        out->provenance[i] = &pair[i];
    }
    return sgi_graph_to_pb(model->graph, out, pool, err);
}

static sg_status write_description(const char *path, const SgPb__Model *message, sg_error *err)
{
    uint8_t digest[SG_SHA256_BYTES];
    SgPb__File file = SG_PB__FILE__INIT;
    size_t size = sg_pb__model__get_packed_size(message);
    if (size > MESSAGE_LIMIT - 1024)
        return sg_fail(err, SG_E_UNSUPPORTED, "a model's description of %zu bytes is over the limit of %zu", size,
                       MESSAGE_LIMIT);
    uint8_t *inner = sg_alloc(size);
    if (!inner)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", path);
    sg_pb__model__pack(message, inner);
    sgi_sha256(inner, size, digest);
    file.format = FORMAT;
    file.sha256 = (ProtobufCBinaryData){sizeof digest, digest};
    file.model = (ProtobufCBinaryData){size, inner};
    size_t total = sg_pb__file__get_packed_size(&file);
    uint8_t *bytes = sg_alloc(total);
    sg_status status = bytes ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory for %s", path);
    if (status == SG_OK) {
        sg_pb__file__pack(&file, bytes);
        status = sg_file_write(path, bytes, total, err);
    }
    sg_free(bytes);
    sg_free(inner);
    return status;
}

static sg_status write_pair(const model_paths *p, const sg_model *model, sgi_pool *pool, sg_error *err)
{
    uint8_t digest[SG_SHA256_BYTES];
    SgPb__Model message = SG_PB__MODEL__INIT;
    SG_TRY(describe(model, &message, pool, err));
    SG_TRY(write_tensors(p->new_tensors, &message, model->store, pool, err));
    SG_TRY(sgi_sha256_file(p->new_tensors, digest, err));
    message.tensors_sha256 = (ProtobufCBinaryData){sizeof digest, digest};
    SG_TRY(write_description(p->new_description, &message, err));
    SG_TRY(sg_file_rename(p->new_tensors, p->tensors, err));
    return sg_file_rename(p->new_description, p->description, err);
}

sg_status sg_model_write(const char *path, const sg_model *model, sg_error *err)
{
    sg_store *used = model->graph ? sg_graph_store(model->graph) : NULL;
    if (!model->graph || !model->store || (used && used != model->store))
        return sg_fail(err, SG_E_ARGUMENT, "a model needs a graph and the store that the graph uses");
    if (model->n_labels < 0 || (model->n_labels > 0 && !model->labels))
        return sg_fail(err, SG_E_ARGUMENT, "a model of %lld labels needs their names", (long long)model->n_labels);
    SG_TRY(sg_folder_make(path, err));
    model_paths p;
    sgi_pool pool = {NULL};
    sg_status status = make_paths(&p, path, err);
    if (status == SG_OK)
        status = write_pair(&p, model, &pool, err);
    sgi_pool_free(&pool);
    free_paths(&p);
    return status;
}

/* ---- reading */

static sg_status not_a_model(sg_error *err, const char *path, const char *what)
{
    return sg_fail_at(err, SG_E_DATA, path, 0, 0, "not a valid model: %s", what);
}

static sg_status decode_failed(const quota *q, const char *path, sg_error *err)
{
    if (q->over)
        return not_a_model(err, path, "its parts claim more memory than a file of this size can need");
    if (q->failed)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", path);
    return not_a_model(err, path, "it is damaged or cut off");
}

/* The message inside the file, whose digest vouches for every byte. */
static sg_status decode(const uint8_t *bytes, size_t size, const char *path, SgPb__Model **out, sg_error *err)
{
    quota q = {QUOTA(size), false, false};
    ProtobufCAllocator allocator = {quota_alloc, quota_free, &q};
    uint8_t digest[SG_SHA256_BYTES];
    SgPb__File *file = sg_pb__file__unpack(&allocator, size, bytes);
    if (!file)
        return decode_failed(&q, path, err);
    sgi_sha256(file->model.data, file->model.len, digest);
    sg_status status = SG_OK;
    if (strcmp(file->format, FORMAT) != 0)
        status = not_a_model(err, path, "it is not of the format '" FORMAT "'");
    else if (file->sha256.len != sizeof digest || memcmp(file->sha256.data, digest, sizeof digest) != 0)
        status = not_a_model(err, path, "it is damaged: its digest differs");
    else if (!(*out = sg_pb__model__unpack(&allocator, file->model.len, file->model.data)))
        status = decode_failed(&q, path, err);
    sg_pb__file__free_unpacked(file, &releaser);
    return status;
}

static sg_status read_description(const char *path, SgPb__Model **out, sg_error *err)
{
    char *bytes;
    size_t size;
    SG_TRY(sg_file_read(path, MESSAGE_LIMIT, &bytes, &size, err));
    sg_status status = decode((const uint8_t *)bytes, size, path, out, err);
    sg_free(bytes);
    return status;
}

static bool belongs(const SgPb__Model *message, const uint8_t *digest)
{
    return message->tensors_sha256.len == SG_SHA256_BYTES &&
           memcmp(message->tensors_sha256.data, digest, SG_SHA256_BYTES) == 0;
}

/* The description of the tensors that are there; see the head of this file. */
static sg_status find_description(const model_paths *p, SgPb__Model **out, sg_error *err)
{
    uint8_t digest[SG_SHA256_BYTES];
    SgPb__Model *message = NULL;
    SG_TRY(sgi_sha256_file(p->tensors, digest, err));
    sg_status status = read_description(p->description, &message, err);
    if (status == SG_OK && belongs(message, digest)) {
        *out = message;
        return SG_OK;
    }
    sg_pb__model__free_unpacked(message, &releaser);
    message = NULL;
    if (read_description(p->new_description, &message, NULL) == SG_OK && belongs(message, digest)) {
        *out = message;
        return SG_OK;
    }
    sg_pb__model__free_unpacked(message, &releaser);
    return status != SG_OK ? status
                           : sg_fail_at(err, SG_E_DATA, p->description, 0, 0,
                                        "%s: the two files do not belong together, or one is damaged", p->tensors);
}

static sg_status fill_store(sg_store *store, const sg_safetensors *file, const char *path, sg_error *err)
{
    const char *format = sg_safetensors_metadata(file, "format");
    if (!format || strcmp(format, FORMAT) != 0)
        return not_a_model(err, path, "it is not of the format '" FORMAT "'");
    for (int32_t i = 0; i < sg_store_count(store); i++) {
        sg_entry *e = sg_store_at(store, i);
        const sg_named_tensor *t = sg_safetensors_find(file, e->name);
        if (!t || t->dtype != sgi_stored_as(store, e) || !sg_shape_equal(&t->shape, &e->shape))
            return sg_fail_at(err, SG_E_DATA, path, 0, 0, "entry '%s' is missing or has another dtype or shape",
                              e->name);
        size_t bytes = (size_t)sg_shape_count(&t->shape) * sg_dtype_size(t->dtype);
        if (bytes)
            memcpy(e->data, t->data, bytes);
        e->ready = true;
    }
    if (sg_safetensors_count(file) != sg_store_count(store))
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "%d tensors for %d entries", (int)sg_safetensors_count(file),
                          (int)sg_store_count(store));
    return SG_OK;
}

/* Entries take memory by the shapes they state: those must be the shapes of tensors that the file really holds. */
static sg_status check_sizes(const SgPb__Model *message, const sg_safetensors *file, const char *path, sg_error *err)
{
    for (size_t i = 0; i < message->n_entries; i++) {
        const SgPb__Entry *e = message->entries[i];
        const sg_named_tensor *t = sg_safetensors_find(file, e->name);
        bool same = t && e->type && (size_t)t->shape.rank == e->type->n_dims;
        for (size_t k = 0; same && k < e->type->n_dims; k++)
            same = t->shape.dim[k] == e->type->dims[k];
        if (!same)
            return sg_fail_at(err, SG_E_DATA, path, 0, 0, "entry '%.80s' is missing or has another shape", e->name);
    }
    return SG_OK;
}

static sg_status read_parts(model_storage *s, const char *tensors, const char *description, sg_error *err)
{
    sg_safetensors *file;
    sg_dtype real;
    sg_model *m = &s->model;
    if (!sg_dtype_parse(s->message->real, &real) || !(real == SG_F32 || real == SG_F64))
        return not_a_model(err, description, "its store has an unknown dtype");
    m->graph = sg_graph_new();
    m->store = sg_store_new(real);
    if (!m->graph || !m->store)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    SG_TRY(sg_safetensors_read(&file, tensors, err));
    sg_status status = check_sizes(s->message, file, tensors, err);
    sg_enter("", 0, ""); /* the nodes have no place in a source file */
    if (status == SG_OK)
        status = sgi_graph_from_pb(s->message, m->graph, m->store, description, err);
    sg_leave();
    if (status == SG_OK)
        status = fill_store(m->store, file, tensors, err);
    sg_safetensors_free(file);
    return status;
}

static sg_status read_texts(model_storage *s, const char *path, sg_error *err)
{
    const SgPb__Model *in = s->message;
    sg_model *m = &s->model;
    if (in->n_thresholds && in->n_thresholds != in->n_labels)
        return not_a_model(err, path, "it has another number of thresholds than labels");
    s->provenance = sg_calloc((int64_t)in->n_provenance, sizeof *s->provenance);
    if (!s->provenance)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", path);
    for (size_t i = 0; i < in->n_provenance; i++)
        s->provenance[i] = (sg_text_pair){in->provenance[i]->key, in->provenance[i]->value};
    m->task = in->task;
    m->n_labels = (int64_t)in->n_labels;
    m->labels = (const char *const *)in->labels;
    m->thresholds = in->n_thresholds ? in->thresholds : NULL;
    m->encoding = in->encoding;
    m->recipe = in->recipe;
    m->provenance = s->provenance;
    m->n_provenance = (int32_t)in->n_provenance;
    return SG_OK;
}

sg_status sg_model_read(sg_model **out, const char *path, sg_error *err)
{
    model_paths p;
    model_storage *s = sg_calloc(1, sizeof *s);
    sg_status status = make_paths(&p, path, err);
    if (status == SG_OK && !s)
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK)
        status = find_description(&p, &s->message, err);
    if (status == SG_OK)
        status = read_texts(s, p.description, err);
    if (status == SG_OK)
        status = read_parts(s, p.tensors, p.description, err);
    free_paths(&p);
    if (status == SG_OK)
        *out = &s->model;
    else
        sg_model_free(s ? &s->model : NULL);
    return status;
}

void sg_model_free(sg_model *model)
{
    if (!model)
        return;
    model_storage *s = (model_storage *)model;
    sg_graph_free(model->graph);
    sg_store_free(model->store);
    sg_pb__model__free_unpacked(s->message, &releaser);
    sg_free(s->provenance);
    sg_free(s);
}
