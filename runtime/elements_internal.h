/* elements_internal.h - memory of the element types a backend stores, read and written through doubles. */
#ifndef SG_ELEMENTS_INTERNAL_H
#define SG_ELEMENTS_INTERNAL_H

#include "graph/graph.h"

/* Element type that a value of `dtype` has in the memory of a backend with the given real type: the reference backend
 * (F64) stores everything as double. */
sg_dtype sg_storage(sg_dtype real, sg_dtype dtype);
/* Bytes of a packed tensor; false on overflow. */
bool sg_tensor_bytes(sg_dtype storage, const sg_shape *shape, size_t *out);

void sg_elements_read(sg_dtype storage, const void *memory, double *out, int64_t n);
void sg_elements_write(sg_dtype storage, void *memory, const double *in, int64_t n);

#endif
