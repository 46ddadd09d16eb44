/* fill_internal.h - synthetic inputs. */
#ifndef SG_BENCH_FILL_INTERNAL_H
#define SG_BENCH_FILL_INTERNAL_H

#include "runtime/runtime.h"

/* Fill every f32 input of the plan with standard normal numbers: no subnormals, no infinities on the way. (ops.c) */
void sg_bench_fill(sg_graph *graph, sg_plan *plan);

#endif
