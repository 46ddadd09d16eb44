/* arena.c - memory that is released with its graph, growable arrays, and interned texts. */
#include "graph/graph_internal.h"
#include "graph/random_internal.h"

#include <string.h>

struct arena_block {
    struct arena_block *next;
    size_t used, size;
};
enum { BLOCK_BYTES = 1 << 14, HEADER = (sizeof(struct arena_block) + 15) & ~15 };

void *sgi_arena_alloc(sg_arena *arena, size_t bytes)
{
    struct arena_block *b = arena->blocks;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!b || b->size - b->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        b = sg_alloc(HEADER + size);
        if (!b)
            return NULL;
        *b = (struct arena_block){arena->blocks, 0, size};
        arena->blocks = b;
    }
    void *p = (char *)b + HEADER + b->used;
    b->used += bytes;
    memset(p, 0, bytes);
    return p;
}

void sgi_arena_free(sg_arena *arena)
{
    for (struct arena_block *b = arena->blocks, *next; b; b = next) {
        next = b->next;
        sg_free(b);
    }
    arena->blocks = NULL;
}

bool sgi_grow(void **items, int32_t count, int32_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return true;
    int32_t wider = *capacity ? *capacity * 2 : 16;
    void *p = wider > count ? sg_realloc(*items, (size_t)wider * item_bytes) : NULL;
    if (!p)
        return false;
    *items = p;
    *capacity = wider;
    return true;
}

static bool rehash_names(sg_graph *graph)
{
    int32_t wider = graph->cap_names ? graph->cap_names * 2 : 64;
    const char **table = sg_calloc(wider, sizeof *table);
    if (!table)
        return false;
    for (int32_t i = 0; i < graph->cap_names; i++) {
        if (!graph->names[i])
            continue;
        uint64_t at = sg_hash_text(graph->names[i]) & (uint64_t)(wider - 1);
        while (table[at])
            at = (at + 1) & (uint64_t)(wider - 1);
        table[at] = graph->names[i];
    }
    sg_free(graph->names);
    graph->names = table;
    graph->cap_names = wider;
    return true;
}

const char *sgi_intern(sg_graph *graph, const char *text)
{
    if (2 * graph->n_names >= graph->cap_names && !rehash_names(graph))
        return sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for a name"), NULL;
    uint64_t mask = (uint64_t)(graph->cap_names - 1), at = sg_hash_text(text) & mask;
    for (; graph->names[at]; at = (at + 1) & mask)
        if (strcmp(graph->names[at], text) == 0)
            return graph->names[at];
    size_t bytes = strlen(text) + 1;
    char *copy = sgi_arena_alloc(&graph->arena, bytes);
    if (!copy)
        return sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for a name"), NULL;
    memcpy(copy, text, bytes);
    graph->names[at] = copy;
    graph->n_names++;
    return copy;
}
