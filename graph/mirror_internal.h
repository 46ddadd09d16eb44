/* mirror_internal.h - entries of a store whose newest value is in the memory of a device.
 *
 * An entry has a version, which moves when its value does. A session on a device with memory of its own keeps a mirror of each
 * entry that it uses and the version that the mirror holds. Before a run it loads the mirrors of an older version; after a
 * run it claims the entries that the run assigned: from then on their value is in the mirror alone. Whoever asks the store
 * for the value (sg_store_at, sg_store_read, sg_store_get, sg_store_copy) or hands the entry to another session has it
 * fetched; a value that nobody asks for is never moved. */
#ifndef SG_MIRROR_INTERNAL_H
#define SG_MIRROR_INTERNAL_H

#include "graph/graph.h"

/* Who keeps mirrors; embedded at the start of its own data. */
typedef struct sg_mirror_owner sg_mirror_owner;
struct sg_mirror_owner {
    /* Write the mirror of the entry to its `data`. */
    sg_status (*fetch)(sg_mirror_owner *owner, int32_t entry, sg_error *err);
    /* Begin to write it to `to` instead. */
    sg_status (*send)(sg_mirror_owner *owner, int32_t entry, void *to, sg_error *err);
};

uint64_t sg_store_version(const sg_store *store, int32_t entry);
/* The entry's value is now the owner's mirror: it is ready, and of the version returned. */
uint64_t sg_store_claim(sg_store *store, int32_t entry, sg_mirror_owner *owner);
/* Fetch the value if it is in a mirror other than that of `but` (may be NULL). */
sg_status sg_store_settle(const sg_store *store, int32_t entry, const sg_mirror_owner *but, sg_error *err);
/* `data` was written in place: mirrors are old. The value must not be in a mirror. */
void sg_store_touch(sg_store *store, int32_t entry);
/* Give `copy`, which has the same entries, the values of the store. Those in mirrors stay there, and are only begun to be sent. */
sg_status sg_store_refresh(sg_store *copy, const sg_store *store, sg_error *err);
/* Bytes of all values, each on 64; and have them in such memory, which is the caller's and lives longer than the store. */
size_t sg_store_room(const sg_store *store);
void sg_store_house(sg_store *store, void *memory);
/* Fetch what the owner has claimed: it goes away. */
void sg_store_leave(sg_store *store, const sg_mirror_owner *owner);

#endif
