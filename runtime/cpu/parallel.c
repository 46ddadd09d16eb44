/* parallel.c - ranges of tiles on the OpenMP pool. */
#include "runtime/cpu/cpu_internal.h"

#include <omp.h>

void sg_cpu_parallel(int32_t threads, int64_t tiles, sg_cpu_range_fn fn, void *arg)
{
    int32_t used = tiles < threads ? (int32_t)tiles : threads;
    if (used <= 1) {
        if (tiles > 0)
            fn(arg, 0, tiles, 0);
        return;
    }
#pragma omp parallel num_threads(used)
    {
        /* The pool may be smaller than asked for (OMP_THREAD_LIMIT): share out by the size it has. */
        int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
        int64_t each = tiles / team, rest = tiles % team;
        int64_t begin = me * each + (me < rest ? me : rest);
        int64_t end = begin + each + (me < rest ? 1 : 0);
        if (begin < end)
            fn(arg, begin, end, (int32_t)me);
    }
}
