/* scope.c - scopes, versions of store entries in a graph, and the numbering of random draws. */
#include "graph/graph_internal.h"
#include "graph/random_internal.h"

#include <string.h>

sg_scope sg_scope_root(sg_graph *graph, sg_store *store)
{
    sg_graph *top = sgi_top(graph);
    if (!top->store)
        top->store = store;
    if (top->store != store)
        sg_graph_fail(graph, SG_E_ARGUMENT, SG_NONE, "a graph uses one store");
    return (sg_scope){graph, store, ""};
}

sg_scope sg_scope_sub(sg_scope scope, const char *name)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%s%s%s", scope.path, scope.path[0] ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof path) {
        sg_graph_fail(scope.graph, SG_E_NAME, SG_NONE, "scope path '%.80s...' is too long", path);
        return scope;
    }
    /* The top graph keeps the text, since loop bodies come and go with their parents. */
    const char *kept = sgi_intern(sgi_top(scope.graph), path);
    return (sg_scope){scope.graph, scope.store, kept ? kept : ""};
}

sg_scope sg_scope_in(sg_scope scope, sg_graph *graph) { return (sg_scope){graph, scope.store, scope.path}; }

sg_store *sg_graph_store(const sg_graph *graph) { return sgi_top(graph)->store; }

static sgi_version *find_version(const sg_graph *graph, int32_t entry)
{
    for (int32_t i = 0; i < graph->n_versions; i++)
        if (graph->versions[i].entry == entry)
            return &graph->versions[i];
    return NULL;
}

static bool add_version(sg_graph *graph, int32_t entry, int32_t value)
{
    if (!sgi_grow((void **)&graph->versions, graph->n_versions, &graph->cap_versions, sizeof *graph->versions)) {
        sg_graph_fail(graph, SG_E_MEMORY, SG_NONE, "out of memory for a store entry");
        return false;
    }
    graph->versions[graph->n_versions++] = (sgi_version){entry, value, value};
    return true;
}

sg_value sgi_entry_current(sg_graph *graph, int32_t entry)
{
    sgi_version *known = find_version(graph, entry);
    if (known)
        return sg_value_at(graph, known->current);
    sg_value v;
    if (graph->parent) {
        sg_value outer = sgi_entry_current(graph->parent, entry);
        v = sgi_body_add_input(graph, SGI_BODY_ENTRY, outer, entry);
    } else {
        const sg_entry *e = sg_store_peek(graph->store, entry);
        sg_attr attr = sg_attr_text(e->name);
        v = sgi_leaf(graph, &sg_op_param, &attr, e->dtype, &e->shape);
    }
    if (sg_is_none(v) || !add_version(graph, entry, v.id))
        return SG_NONE;
    return sg_named(v, sg_store_peek(sg_graph_store(graph), entry)->name);
}

static sg_value use_entry(sg_scope scope, const char *name, sg_dtype dtype, sg_shape shape, sg_init init,
                          bool trainable)
{
    if (!scope.graph || sgi_failed(scope.graph))
        return SG_NONE;
    if (!scope.store)
        return sg_graph_fail(scope.graph, SG_E_ARGUMENT, SG_NONE, "entry '%s' needs a scope with a store", name);
    char path[512];
    int n = snprintf(path, sizeof path, "%s%s%s", scope.path, scope.path[0] ? "/" : "", name);
    if (!*name)
        return sg_graph_fail(scope.graph, SG_E_NAME, SG_NONE, "a store entry in '%s' has no name", scope.path);
    if (n < 0 || (size_t)n >= sizeof path)
        return sg_graph_fail(scope.graph, SG_E_NAME, SG_NONE, "entry name '%.80s...' is too long", path);
    sg_error err;
    int32_t entry;
    if (sg_store_add(scope.store, path, dtype, &shape, init, trainable, &entry, &err) != SG_OK)
        return sg_graph_fail(scope.graph, err.status, SG_NONE, "%s", err.text);
    return sgi_entry_current(scope.graph, entry);
}

sg_value sg_param(sg_scope scope, const char *name, sg_shape shape, sg_init init)
{
    return use_entry(scope, name, SG_F32, shape, init, true);
}

sg_value sg_state(sg_scope scope, const char *name, sg_dtype dtype, sg_shape shape, sg_init init)
{
    return use_entry(scope, name, dtype, shape, init, false);
}

int32_t sg_entry_of(sg_value v)
{
    if (sg_is_none(v))
        return -1;
    for (int32_t i = 0; i < v.graph->n_versions; i++)
        if (v.graph->versions[i].current == v.id)
            return v.graph->versions[i].entry;
    return -1;
}

void sg_rebind(sg_graph *graph, int32_t entry, sg_value v)
{
    if (sgi_failed(graph) || sg_is_none(sgi_entry_current(graph, entry)))
        return;
    if (v.graph != graph)
        v = sg_capture(graph, v);
    const sg_entry *e = sg_store_peek(sg_graph_store(graph), entry);
    char had[SG_SHAPE_TEXT], got[SG_SHAPE_TEXT];
    if (sg_is_none(v))
        sg_graph_fail(graph, SG_E_ARGUMENT, v, "store entry '%s' is assigned no value", e->name);
    else if (sg_dtype_of(v) != e->dtype || !sg_shape_equal(sg_shape_of(v), &e->shape))
        sg_graph_fail(graph, SG_E_SHAPE, v, "store entry '%s' is %s %s and cannot be assigned %s %s", e->name,
                      sg_dtype_name(e->dtype), sg_shape_format(&e->shape, had, sizeof had),
                      sg_dtype_name(sg_dtype_of(v)), sg_shape_format(sg_shape_of(v), got, sizeof got));
    else
        find_version(graph, entry)->current = v.id;
}

void sg_assign(sg_value old, sg_value next)
{
    if (sg_is_none(old) || sg_is_none(next) || sgi_failed(old.graph)) {
        if (!sg_is_none(old))
            sg_graph_fail(old.graph, SG_E_ARGUMENT, old, "assignment of a value that does not exist");
        return;
    }
    int32_t entry = sg_entry_of(old), sharing = 0;
    for (int32_t i = 0; i < old.graph->n_versions; i++)
        sharing += old.graph->versions[i].current == old.id;
    if (sharing > 1) {
        sg_graph_fail(old.graph, SG_E_ARGUMENT, old,
                      "'%s' is the current version of %d store entries: say which one with sg_rebind",
                      sg_node_of(old)->name, sharing);
        return;
    }
    if (entry < 0) {
        sg_graph_fail(old.graph, SG_E_ARGUMENT, old, "'%s' is not the current version of a store entry of this graph",
                      sg_node_of(old)->name);
        return;
    }
    sg_rebind(old.graph, entry, next);
}

static bool under(const char *path, const char *name)
{
    size_t n = strlen(path);
    return n == 0 || (strncmp(path, name, n) == 0 && name[n] == '/');
}

int32_t sg_params(sg_scope scope, sg_value *out, int32_t capacity)
{
    int32_t count = 0, total = scope.store ? sg_store_count(scope.store) : 0;
    for (int32_t entry = 0; entry < total; entry++) {
        const sg_entry *e = sg_store_peek(scope.store, entry);
        const sgi_version *v = find_version(scope.graph, entry);
        if (!e->trainable || !v || !under(scope.path, e->name))
            continue;
        if (count >= capacity) {
            sg_graph_fail(scope.graph, SG_E_ARGUMENT, SG_NONE,
                          "more than %d parameters under '%s', which is the room for them", (int)capacity, scope.path);
            break;
        }
        out[count++] = sg_value_at(scope.graph, v->current);
    }
    return count;
}

static const sgi_version *nth_effect(const sg_graph *graph, int32_t index)
{
    for (int32_t i = 0; i < graph->n_versions; i++)
        if (graph->versions[i].current != graph->versions[i].start && index-- == 0)
            return &graph->versions[i];
    return NULL;
}

int32_t sg_effect_count(const sg_graph *graph)
{
    int32_t count = 0;
    while (nth_effect(graph, count))
        count++;
    return count;
}

void sg_effect_at(const sg_graph *graph, int32_t index, int32_t *entry, int32_t *value)
{
    const sgi_version *v = nth_effect(graph, index);
    *entry = v ? v->entry : -1;
    *value = v ? v->current : -1;
}

int32_t sg_reader_count(sg_graph *graph, int32_t value)
{
    int32_t count = 0, entry, written;
    for (int32_t n = 0; n < sg_node_count(graph); n++)
        for (int32_t k = 0; k < sg_node_at(graph, n)->n_in; k++)
            count += sg_node_at(graph, n)->in[k] == value;
    for (int32_t k = 0; k < sg_result_count(graph); k++)
        count += sg_result_value(graph, k).id == value;
    for (int32_t k = 0; k < sg_effect_count(graph); k++) {
        sg_effect_at(graph, k, &entry, &written);
        count += written == value;
    }
    return count;
}

int32_t sg_body_entry_count(const sg_graph *body) { return sg_effect_count(body); }

void sg_body_entry_at(const sg_graph *body, int32_t index, int32_t *entry, sg_value *inner, sg_value *next)
{
    const sgi_version *v = nth_effect(body, index);
    *entry = v ? v->entry : -1;
    *inner = v ? sg_value_at((sg_graph *)body, v->start) : SG_NONE;
    *next = v ? sg_value_at((sg_graph *)body, v->current) : SG_NONE;
}

uint64_t sg_draw_stream(sg_scope scope)
{
    sg_graph *top = sgi_top(scope.graph);
    sgi_draws *d = NULL;
    for (int32_t i = 0; i < top->n_draws && !d; i++)
        if (strcmp(top->draws[i].path, scope.path) == 0)
            d = &top->draws[i];
    if (!d) {
        const char *path = sgi_intern(top, scope.path);
        if (!path || !sgi_grow((void **)&top->draws, top->n_draws, &top->cap_draws, sizeof *top->draws)) {
            sg_graph_fail(top, SG_E_MEMORY, SG_NONE, "out of memory for a random stream");
            return 0;
        }
        d = &top->draws[top->n_draws++];
        *d = (sgi_draws){path, 0};
    }
    return sg_mix64(sg_hash_text(scope.path) + 0x9e3779b97f4a7c15u * ++d->count);
}
