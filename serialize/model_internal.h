/* model_internal.h - the parts of a model file, for the files of serialize/. */
#ifndef SG_MODEL_INTERNAL_H
#define SG_MODEL_INTERNAL_H

#include "serialize/serialize.h"

#include "model.pb-c.h"

enum { SG_SHA256_BYTES = 32, SG_SHA256_TEXT = 2 * SG_SHA256_BYTES + 1 };
void sgi_sha256(const void *data, size_t size, uint8_t out[SG_SHA256_BYTES]);
void sgi_sha256_text(const uint8_t digest[SG_SHA256_BYTES], char out[SG_SHA256_TEXT]); /* as hex digits */
sg_status sgi_sha256_file(const char *path, uint8_t out[SG_SHA256_BYTES], sg_error *err);

/* Memory that a message is built in and that is released at once. */
typedef struct sgi_pool {
    struct pool_block *blocks;
} sgi_pool;
void *sgi_pool_take(sgi_pool *pool, int64_t count, size_t bytes); /* zeroed; NULL if out of memory */
void sgi_pool_free(sgi_pool *pool);

/* The layout of an entry's data: F32 entries are held in the store's real type. */
sg_dtype sgi_stored_as(const sg_store *store, const sg_entry *entry);

/* Describe a graph, its loop bodies and the entries it reads, in `out->graphs` and `out->entries`. */
sg_status sgi_graph_to_pb(sg_graph *graph, SgPb__Model *out, sgi_pool *pool, sg_error *err);
/* Build the entries (without values) and the graph that a message describes into an empty store and graph. `path` is for
 * messages. Every node passes its operator's shape rule and must get the types that the message states. */
sg_status sgi_graph_from_pb(const SgPb__Model *in, sg_graph *graph, sg_store *store, const char *path, sg_error *err);

#endif
