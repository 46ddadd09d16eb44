/* hazards_internal.h - which parts of a recording must wait for which: read after write, write after read, write after write,
 * by the bytes that each part touches. */
#ifndef SG_HAZARDS_INTERNAL_H
#define SG_HAZARDS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_hazards sg_hazards;

/* NULL if out of memory. */
sg_hazards *sg_hazards_new(void);
void sg_hazards_free(sg_hazards *hazards);

/* The part being described reads or writes these bytes; all its reads come before its writes. False if out of memory. */
bool sg_hazards_read(sg_hazards *hazards, const void *at, size_t bytes);
bool sg_hazards_write(sg_hazards *hazards, const void *at, size_t bytes);

/* From here on parts touch other memory than those before, though it is named by the same addresses: they wait for none of them. */
void sg_hazards_elsewhere(sg_hazards *hazards);

/* End the description of a part. Parts are numbered from 0 in this order. on[0..n) are the parts that it must wait for, in
 * falling order, without those that others of them wait for; valid until the next call. */
void sg_hazards_end(sg_hazards *hazards, const int32_t **on, int32_t *n);

#endif
