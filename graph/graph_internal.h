/* graph_internal.h - the structures behind graph.h, for the files of graph/ alone. */
#ifndef SG_GRAPH_INTERNAL_H
#define SG_GRAPH_INTERNAL_H

#include "graph/graph.h"

/* Blocks of memory that live as long as the graph: nodes, attributes, names never move and are never freed singly. */
typedef struct sg_arena {
    struct arena_block *blocks;
} sg_arena;
void *sgi_arena_alloc(sg_arena *arena, size_t bytes); /* zeroed, 16-byte aligned; NULL if out of memory */
void sgi_arena_free(sg_arena *arena);

/* A growable array: `items` of `count` used and `capacity` allocated. False if out of memory. */
bool sgi_grow(void **items, int32_t count, int32_t *capacity, size_t item_bytes);

typedef struct sgi_value {
    sg_shape shape;
    sg_dtype dtype;
    int32_t node;
} sgi_value;

/* The version history of a store entry in one graph: the value at the start and the current one. */
typedef struct sgi_version {
    int32_t entry, start, current;
} sgi_version;

/* What a body input stands for. Entry inputs are never shared with plain captures of the same outer value: a capture is
 * the version at the loop's start, an entry input is the version at the start of the iteration. */
typedef enum sgi_body_kind { SGI_BODY_STATE, SGI_BODY_CAPTURE, SGI_BODY_ENTRY } sgi_body_kind;
typedef struct sgi_body_input {
    sgi_body_kind kind;
    int32_t inner;
    sg_value outer;
    int32_t entry;
} sgi_body_input;

typedef struct sgi_result {
    const char *name;
    int32_t id;
} sgi_result;

typedef struct sgi_draws {
    const char *path;
    uint64_t count;
} sgi_draws;

struct sg_graph {
    sg_arena arena;
    sg_node **nodes;
    int32_t n_nodes, cap_nodes;
    sgi_value **values;
    int32_t n_values, cap_values;
    int32_t *buckets; /* hash table of node index + 1, open addressing */
    int32_t n_buckets;
    const char **names; /* interned texts, open addressing */
    int32_t n_names, cap_names;
    sgi_result *results;
    int32_t n_results, cap_results;
    sgi_version *versions; /* in order of first use */
    int32_t n_versions, cap_versions;
    sgi_draws *draws; /* top graph only */
    int32_t n_draws, cap_draws;
    sgi_body_input *inputs; /* bodies only */
    int32_t n_inputs, cap_inputs;
    sg_graph *parent;
    sg_graph **bodies;
    int32_t n_bodies, cap_bodies;
    sg_store *store;
    int32_t *images; /* while the graph is being rewritten: value ids in the new graph, or -1 */
    sg_error error;  /* top graph only: the first error */
};

/* Names that stand in an error come from files too: control characters, which could end the line or steer a terminal, become '?'. */
void sgi_one_line(char *text);

/* The place set by sg_here. */
void sgi_place(const char **file, int32_t *line);
sg_graph *sgi_top(const sg_graph *graph);
bool sgi_failed(const sg_graph *graph);
/* The one copy of `text` in the graph; NULL only if out of memory (the graph then has failed). */
const char *sgi_intern(sg_graph *graph, const char *text);
/* A leaf with shape and dtype given instead of inferred. */
sg_value sgi_leaf(sg_graph *graph, const sg_op *op, const sg_attr *attr, sg_dtype dtype, const sg_shape *shape);
/* The current version of a store entry in `graph`, entering it from the enclosing graph or as a param node. */
sg_value sgi_entry_current(sg_graph *graph, int32_t entry);
sg_value sgi_body_add_input(sg_graph *body, sgi_body_kind kind, sg_value outer, int32_t entry);
/* Infer all shapes of the graph again, from its leaves. */
sg_status sgi_reinfer(sg_graph *graph, sg_error *err);
/* Run a node's shape rule into fresh shapes (sizes op->n_out, at least n_out of the node). */
sg_status sgi_infer(sg_graph *graph, const sg_op *op, const sg_attr *attr, const int32_t *in, int32_t n_in,
                    int32_t *n_out, sg_shape *shape, sg_dtype *dtype, sg_error *err);
bool sgi_attr_equal(const sg_attr *a, const sg_attr *b);

#endif
