/* index_internal.h - the check that every kernel with indices makes before it reads through them. */
#ifndef SG_INDEX_INTERNAL_H
#define SG_INDEX_INTERNAL_H

#include "graph/graph.h"

/* True if all indices lie in [0, limit); else the first one that does not is named in `err`. */
bool sg_cpu_check_indices(const int32_t *index, int64_t count, int64_t limit, sg_error *err);

#endif
