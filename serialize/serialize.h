/* serialize.h - the public header of serialize/: safetensors files, trained models and checkpoints.
 *
 * Everything is written to a temporary name beside its place, fsync'ed and renamed: after a crash the old or the new file is
 * there, whole. Everything read is checked before memory is taken for it: counts, sizes, offsets, names; a bad file is
 * SG_E_DATA with the file and what is wrong, never a crash. */
#ifndef SG_SERIALIZE_H
#define SG_SERIALIZE_H

#include "graph/graph.h"
#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- whole files */
/* Replace `path` by the given bytes: the old ones or the new ones are there at any time. What stands for another file (a link,
 * a pipe, a device such as /dev/stdout) is written through instead, in place. */
sg_status sg_file_write(const char *path, const void *data, size_t size, sg_error *err);
/* The same piece by piece: `begin` names a new file beside `path`, or where this stands for another file `path` itself; `open` opens that
 * for writing (-1 and errno on failure), and who writes fsyncs and closes it; `end` puts it in place if `written` is SG_OK, or else
 * removes it, releases the name, and returns `written` or its own failure. */
sg_status sg_file_begin(const char *path, char **name, sg_error *err);
int sg_file_open(const char *path, const char *name);
sg_status sg_file_end(const char *path, char *name, sg_status written, sg_error *err);
/* The same into the file that is there, within the room it has on its disk, so that this may be full. Not whole if the process is
 * killed meanwhile. */
sg_status sg_file_overwrite(const char *path, const void *data, size_t size, sg_error *err);
/* Add bytes to the end of a file, made if it is not there, and fsync: all of them, or if that fails none. */
sg_status sg_file_append(const char *path, const void *data, size_t size, sg_error *err);
/* Remove all files that were begun by any thread and not ended, and let none begin or end another, nor add to one: for a process about to end. */
void sg_file_abandon_all(void);
/* Read a whole file of at most `limit` bytes; a NUL follows the data. Release with sg_free. */
sg_status sg_file_read(const char *path, size_t limit, char **data, size_t *size, sg_error *err);
/* Rename `from` to `to` (a file or folder, `to` is replaced if it is a file) and fsync the folder that holds it. */
sg_status sg_file_rename(const char *from, const char *to, sg_error *err);
/* mkdir -p, and rm -r (nothing there: ok). */
sg_status sg_folder_make(const char *path, sg_error *err);
sg_status sg_folder_remove(const char *path, sg_error *err);

/* ---- safetensors (https://github.com/huggingface/safetensors, format of 2022) */
typedef struct sg_named_tensor {
    const char *name;
    sg_dtype dtype; /* of `data`, in the file too */
    sg_shape shape;
    const void *data;
} sg_named_tensor;
typedef struct sg_text_pair {
    const char *key, *value;
} sg_text_pair;
/* Tensors in the given order, 64-byte aligned data section, metadata under "__metadata__". */
sg_status sg_safetensors_write(const char *path, const sg_named_tensor *tensors, int32_t n,
                               const sg_text_pair *metadata, int32_t n_metadata, sg_error *err);
/* A file in memory; tensors point into it. */
typedef struct sg_safetensors sg_safetensors;
sg_status sg_safetensors_read(sg_safetensors **out, const char *path, sg_error *err);
void sg_safetensors_free(sg_safetensors *file);
int32_t sg_safetensors_count(const sg_safetensors *file);
const sg_named_tensor *sg_safetensors_at(const sg_safetensors *file, int32_t index);
const sg_named_tensor *sg_safetensors_find(const sg_safetensors *file, const char *name);
const char *sg_safetensors_metadata(const sg_safetensors *file, const char *key); /* NULL if absent */

/* ---- trained models: a folder with model.pb and model.safetensors */
typedef struct sg_model {
    sg_graph *graph;  /* inputs and results are the signature; sizes of named dimensions can be rebound */
    sg_store *store;  /* the entries the graph reads */
    const char *task; /* "mlc" */
    int64_t n_labels;
    const char *const *labels;
    const double *thresholds;       /* [n_labels] or NULL: 0.5 */
    const char *encoding;           /* schema and preprocessing, JSON text of models/ (sg_encoding_save), or "" */
    const char *recipe;             /* resolved configuration, YAML */
    const sg_text_pair *provenance; /* data hashes, version; nothing that varies between equal runs */
    int32_t n_provenance;
} sg_model;
/* Write the folder `path` (made if absent). Only entries that the graph reads are stored. Equal models give equal bytes. */
sg_status sg_model_write(const char *path, const sg_model *model, sg_error *err);
/* Read it back. All memory, graph and store included, belongs to the model: release with sg_model_free. Inputs of a model with an
 * encoding, such as `train` leaves, are encoded and scaled rows: sg_trained_open and its like of models/ make them. */
sg_status sg_model_read(sg_model **out, const char *path, sg_error *err);
void sg_model_free(sg_model *model);

/* ---- checkpoints: one safetensors file holding every entry of a store, and a small JSON text of the caller's */
sg_status sg_checkpoint_write(const char *path, sg_store *store, const char *state_json, sg_error *err);
/* Fill the store's entries (same names, dtypes, shapes; no more, no fewer) and return the text (release with sg_free). A file in
 * which a bit has changed is refused. On failure the store is unchanged. */
sg_status sg_checkpoint_read(const char *path, sg_store *store, char **state_json, sg_error *err);

/* SHA-256 of a file as 64 hex digits, for provenance. */
sg_status sg_file_sha256(const char *path, char out[65], sg_error *err);

#ifdef __cplusplus
}
#endif
#endif
