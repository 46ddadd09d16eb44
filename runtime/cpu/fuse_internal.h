/* fuse_internal.h - the fusion pass of the cpu backend (fuse.c). */
#ifndef SG_CPU_FUSE_INTERNAL_H
#define SG_CPU_FUSE_INTERNAL_H

#include "runtime/backend_internal.h"

/* Copy `from` to `to` with chains of elementwise nodes grouped into sg_op_fused nodes. */
sg_status sg_cpu_fuse(sg_graph *from, sg_graph *to, sg_error *err);

#endif
