/* store.c - the parameter store: named entries outside graphs, and how they start. */
#include "graph/convert_internal.h"
#include "graph/mirror_internal.h"
#include "graph/random_internal.h"

#include <string.h>

typedef struct held {
    sg_entry entry;
    uint64_t version;
    sg_mirror_owner *owner; /* has the value; NULL: `data` is the value */
    bool housed;            /* `data` is in memory of the caller's */
} held;

struct sg_store {
    sg_dtype real;
    held **entries;
    int32_t count, capacity;
};

sg_init sg_init_zeros(void) { return sg_init_constant(0); }
sg_init sg_init_constant(double value) { return (sg_init){SG_INIT_CONSTANT, value, 0}; }
sg_init sg_init_uniform(double low, double high) { return (sg_init){SG_INIT_UNIFORM, low, high}; }
sg_init sg_init_normal(double mean, double std) { return (sg_init){SG_INIT_NORMAL, mean, std}; }

/* He et al. 2015: variance 2 / fan_in, as a uniform on +-sqrt(3 variance). */
sg_init sg_init_kaiming_uniform(int64_t fan_in)
{
    double bound = sqrt(6.0 / (double)(fan_in > 0 ? fan_in : 1));
    return sg_init_uniform(-bound, bound);
}

/* Glorot and Bengio 2010: variance 2 / (fan_in + fan_out). */
sg_init sg_init_xavier_uniform(int64_t fan_in, int64_t fan_out)
{
    double fans = (double)fan_in + (double)fan_out, bound = sqrt(6.0 / (fans > 0 ? fans : 1));
    return sg_init_uniform(-bound, bound);
}

sg_store *sg_store_new(sg_dtype real)
{
    if (real != SG_F32 && real != SG_F64)
        return NULL;
    sg_store *store = sg_calloc(1, sizeof *store);
    if (store)
        store->real = real;
    return store;
}

static void free_entry(held *h)
{
    if (!h)
        return;
    if (!h->housed)
        sg_free_aligned(h->entry.data);
    sg_free((char *)h->entry.name);
    for (int32_t i = 0; i < SG_MAX_RANK; i++)
        sg_free((char *)h->entry.shape.name[i]);
    sg_free(h);
}

void sg_store_free(sg_store *store)
{
    if (!store)
        return;
    for (int32_t i = 0; i < store->count; i++)
        free_entry(store->entries[i]);
    sg_free(store->entries);
    sg_free(store);
}

sg_dtype sg_store_real(const sg_store *store) { return store->real; }
int32_t sg_store_count(const sg_store *store) { return store->count; }

/* ---- values in mirrors */

sg_status sg_store_settle(const sg_store *store, int32_t entry, const sg_mirror_owner *but, sg_error *err)
{
    held *h = store->entries[entry];
    sg_mirror_owner *owner = h->owner;
    if (!owner || owner == but)
        return SG_OK;
    h->owner = NULL; /* also after a failure: the device is lost then, and `data` is all there is */
    return owner->fetch(owner, entry, err);
}

uint64_t sg_store_version(const sg_store *store, int32_t entry) { return store->entries[entry]->version; }

uint64_t sg_store_claim(sg_store *store, int32_t entry, sg_mirror_owner *owner)
{
    held *h = store->entries[entry];
    h->owner = owner;
    h->entry.ready = true;
    return ++h->version;
}

void sg_store_touch(sg_store *store, int32_t entry) { store->entries[entry]->version++; }

void sg_store_leave(sg_store *store, const sg_mirror_owner *owner)
{
    for (int32_t i = 0; i < store->count; i++)
        if (store->entries[i]->owner == owner)
            sg_store_settle(store, i, NULL, NULL);
}

/* ---- entries */

const sg_entry *sg_store_peek(const sg_store *store, int32_t index)
{
    return index >= 0 && index < store->count ? &store->entries[index]->entry : NULL;
}

const sg_entry *sg_store_read(const sg_store *store, int32_t index)
{
    if (index < 0 || index >= store->count)
        return NULL;
    sg_store_settle(store, index, NULL, NULL);
    return &store->entries[index]->entry;
}

sg_entry *sg_store_at(sg_store *store, int32_t index)
{
    if (!sg_store_read(store, index))
        return NULL;
    sg_store_touch(store, index);
    return &store->entries[index]->entry;
}

int32_t sg_store_find(const sg_store *store, const char *name)
{
    for (int32_t i = 0; i < store->count; i++)
        if (strcmp(store->entries[i]->entry.name, name) == 0)
            return i;
    return -1;
}

static size_t element_size(const sg_store *store, sg_dtype dtype)
{
    return sg_dtype_size(dtype == SG_I32 ? SG_I32 : store->real);
}

static held *new_entry(const sg_store *store, const char *name, sg_dtype dtype, const sg_shape *shape, sg_init init,
                       bool trainable)
{
    held *h = sg_calloc(1, sizeof *h);
    if (!h)
        return NULL;
    sg_entry *entry = &h->entry;
    size_t bytes = (size_t)sg_shape_count(shape) * element_size(store, dtype);
    *entry = (sg_entry){sg_strdup(name), dtype, *shape, init, trainable, false, sg_alloc_aligned(bytes)};
    memset(entry->shape.name, 0, sizeof entry->shape.name); /* sizes of entries are fixed: their axes have no names */
    if (!entry->name || !entry->data) {
        free_entry(h);
        return NULL;
    }
    h->version = 1; /* no mirror holds it yet */
    memset(entry->data, 0, bytes);
    return h;
}

static sg_status conflict(const sg_entry *had, sg_dtype dtype, const sg_shape *shape, sg_init init, bool trainable,
                          sg_error *err)
{
    char old[SG_SHAPE_TEXT], new[SG_SHAPE_TEXT];
    if (had->dtype != dtype || !sg_shape_equal(&had->shape, shape))
        return sg_fail(err, SG_E_NAME, "store entry '%s' is %s %s and cannot be %s %s", had->name,
                       sg_dtype_name(had->dtype), sg_shape_format(&had->shape, old, sizeof old), sg_dtype_name(dtype),
                       sg_shape_format(shape, new, sizeof new));
    if (had->init.kind != init.kind || had->init.a != init.a || had->init.b != init.b)
        return sg_fail(err, SG_E_NAME, "store entry '%s' is declared with two different initialisers", had->name);
    if (had->trainable != trainable)
        return sg_fail(err, SG_E_NAME, "store entry '%s' is declared both trained and not trained", had->name);
    return SG_OK;
}

/* A constant may be infinite, as a score that forbids; what is drawn may not. */
static sg_status check_init(const char *name, sg_init init, sg_error *err)
{
    static const char *const kinds[] = {"constant", "uniform", "normal"};
    bool finite = isfinite(init.a) && isfinite(init.b);
    bool good = init.kind == SG_INIT_CONSTANT  ? !isnan(init.a)
                : init.kind == SG_INIT_UNIFORM ? finite && init.a <= init.b
                                               : finite && init.b >= 0;
    return good ? SG_OK
                : sg_fail(err, SG_E_ARGUMENT, "store entry '%s' cannot start as %s(%g, %g)", name, kinds[init.kind],
                          init.a, init.b);
}

sg_status sg_store_add(sg_store *store, const char *name, sg_dtype dtype, const sg_shape *shape, sg_init init,
                       bool trainable, int32_t *index, sg_error *err)
{
    int32_t at = sg_store_find(store, name);
    SG_TRY(check_init(name, init, err));
    if (at >= 0) {
        SG_TRY(conflict(&store->entries[at]->entry, dtype, shape, init, trainable, err));
        *index = at;
        return SG_OK;
    }
    int64_t bytes, count = sg_shape_count(shape);
    if (dtype != SG_F32 && dtype != SG_I32)
        return sg_fail(err, SG_E_DTYPE, "store entry '%s' must be f32 or i32, not %s", name, sg_dtype_name(dtype));
    if (count < 0 || !sg_mul_ok(count, 8, &bytes)) {
        char text[SG_SHAPE_TEXT];
        return sg_fail(err, SG_E_SHAPE, "store entry '%s' of shape %s is too large, or has a negative size", name,
                       sg_shape_format(shape, text, sizeof text));
    }
    if (store->count == store->capacity) {
        int32_t wider = store->capacity ? 2 * store->capacity : 64;
        held **grown = sg_realloc(store->entries, (size_t)wider * sizeof *grown);
        if (!grown)
            return sg_fail(err, SG_E_MEMORY, "out of memory for store entry '%s'", name);
        store->entries = grown;
        store->capacity = wider;
    }
    held *entry = new_entry(store, name, dtype, shape, init, trainable);
    if (!entry)
        return sg_fail(err, SG_E_MEMORY, "out of memory for store entry '%s'", name);
    store->entries[store->count] = entry;
    *index = store->count++;
    return SG_OK;
}

static double entry_get(const sg_store *store, const sg_entry *entry, int64_t i)
{
    if (entry->dtype == SG_I32)
        return ((const int32_t *)entry->data)[i];
    return store->real == SG_F64 ? ((const double *)entry->data)[i] : (double)((const float *)entry->data)[i];
}

static void entry_put(const sg_store *store, sg_entry *entry, int64_t i, double value)
{
    if (entry->dtype == SG_I32)
        ((int32_t *)entry->data)[i] = sg_real_to_i32(value);
    else if (store->real == SG_F64)
        ((double *)entry->data)[i] = value;
    else
        ((float *)entry->data)[i] = (float)value;
}

void sg_store_initialise(sg_store *store, uint64_t seed)
{
    const int32_t rng[4] = {(int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), 0, 0};
    for (int32_t e = 0; e < store->count; e++) {
        sg_entry *entry = &store->entries[e]->entry;
        if (entry->ready)
            continue;
        sg_store_touch(store, e);
        int64_t n = sg_shape_count(&entry->shape);
        uint64_t stream = sg_mix64(sg_hash_text(entry->name));
        for (int64_t i = 0; i < n; i++) {
            double v = entry->init.a;
            if (entry->init.kind == SG_INIT_UNIFORM)
                v += (entry->init.b - entry->init.a) * (double)sg_random_uniform(stream, rng, 0, (uint64_t)i);
            else if (entry->init.kind == SG_INIT_NORMAL)
                v += entry->init.b * (double)sg_random_normal(stream, rng, 0, (uint64_t)i);
            entry_put(store, entry, i, v);
        }
        entry->ready = true;
    }
}

static sg_status find_checked(const sg_store *store, const char *name, int64_t n, int32_t *out, sg_error *err)
{
    int32_t at = *out = sg_store_find(store, name);
    if (at < 0)
        return sg_fail(err, SG_E_NAME, "the store has no entry '%s'", name);
    int64_t count = sg_shape_count(&store->entries[at]->entry.shape);
    if (count != n)
        return sg_fail(err, SG_E_SHAPE, "store entry '%s' has %lld elements, not %lld", name, (long long)count,
                       (long long)n);
    return SG_OK;
}

sg_status sg_store_get(const sg_store *store, const char *name, double *out, int64_t n, sg_error *err)
{
    int32_t at;
    SG_TRY(find_checked(store, name, n, &at, err));
    SG_TRY(sg_store_settle(store, at, NULL, err));
    for (int64_t i = 0; i < n; i++)
        out[i] = entry_get(store, &store->entries[at]->entry, i);
    return SG_OK;
}

sg_status sg_store_set(sg_store *store, const char *name, const double *in, int64_t n, sg_error *err)
{
    int32_t at;
    SG_TRY(find_checked(store, name, n, &at, err));
    held *h = store->entries[at];
    h->owner = NULL; /* what a mirror may hold is overwritten */
    sg_store_touch(store, at);
    for (int64_t i = 0; i < n; i++)
        entry_put(store, &h->entry, i, in[i]);
    h->entry.ready = true;
    return SG_OK;
}

static size_t bytes_of(const sg_store *store, const sg_entry *entry)
{
    return (size_t)sg_shape_count(&entry->shape) * element_size(store, entry->dtype);
}

static void copy_value(sg_store *copy, sg_entry *to, const sg_store *store, const sg_entry *from)
{
    int64_t n = sg_shape_count(&from->shape);
    if (copy->real == store->real || from->dtype == SG_I32)
        memcpy(to->data, from->data, bytes_of(store, from));
    else
        for (int64_t i = 0; i < n; i++)
            entry_put(copy, to, i, entry_get(store, from, i));
    to->ready = from->ready;
}

sg_store *sg_store_copy(const sg_store *store, sg_dtype real)
{
    sg_store *copy = sg_store_new(real);
    for (int32_t e = 0; copy && e < store->count; e++) {
        const sg_entry *from = sg_store_read(store, e);
        int32_t at;
        if (sg_store_add(copy, from->name, from->dtype, &from->shape, from->init, from->trainable, &at, NULL) !=
            SG_OK) {
            sg_store_free(copy);
            return NULL;
        }
        copy_value(copy, &copy->entries[at]->entry, store, from);
    }
    return copy;
}

sg_status sg_store_refresh(sg_store *copy, const sg_store *store, sg_error *err)
{
    for (int32_t e = 0; e < store->count; e++) {
        held *to = copy->entries[e], *from = store->entries[e];
        if (from->owner)
            SG_TRY(from->owner->send(from->owner, e, to->entry.data, err));
        else
            copy_value(copy, &to->entry, store, &from->entry);
        to->entry.ready = from->entry.ready;
        sg_store_touch(copy, e);
    }
    return SG_OK;
}

enum { LINE = 64 };
static size_t room_of(const sg_store *store, int32_t e)
{
    return (bytes_of(store, &store->entries[e]->entry) + LINE - 1) / LINE * LINE;
}

size_t sg_store_room(const sg_store *store)
{
    size_t bytes = 0;
    for (int32_t e = 0; e < store->count; e++)
        bytes += room_of(store, e);
    return bytes;
}

void sg_store_house(sg_store *store, void *memory)
{
    char *at = memory;
    for (int32_t e = 0; e < store->count; at += room_of(store, e++)) {
        held *h = store->entries[e];
        memcpy(at, h->entry.data, bytes_of(store, &h->entry));
        if (!h->housed)
            sg_free_aligned(h->entry.data);
        h->entry.data = at;
        h->housed = true;
    }
}
