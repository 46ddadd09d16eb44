/* kernel_cache_internal.h - kernels that were compiled at run time, kept in files for the processes to come. */
#ifndef SG_CUDA_KERNEL_CACHE_INTERNAL_H
#define SG_CUDA_KERNEL_CACHE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

/* The machine code that was written for exactly this key, which names all that it depends on; released with sg_free. NULL if there
 * is none, or only one that is damaged or not this user's own. */
char *sg_cuda_cache_read(const char *key, size_t *size);
/* Keep it. What goes wrong changes nothing but the time that the next process takes. */
void sg_cuda_cache_write(const char *key, const char *image, size_t size);

#endif
