/* chain_text.c - text that grows. */
#include "runtime/cuda/chain_parts_internal.h"

#include <stdarg.h>

void sg_cuda_put(sg_cuda_text *t, const char *format, ...)
{
    va_list args;
    for (int attempt = 0; attempt < 2 && !t->failed; attempt++) {
        va_start(args, format);
        int n = vsnprintf(t->at + t->length, t->capacity - t->length, format, args);
        va_end(args);
        if (n >= 0 && (size_t)n < t->capacity - t->length) {
            t->length += (size_t)n;
            return;
        }
        size_t wider = 2 * t->capacity + (size_t)(n > 0 ? n : 0) + 1;
        char *moved = n < 0 ? NULL : sg_realloc(t->at, wider);
        t->failed = !moved;
        t->at = moved ? moved : t->at;
        t->capacity = moved ? wider : t->capacity;
    }
}
