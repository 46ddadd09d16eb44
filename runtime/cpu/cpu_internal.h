/* cpu_internal.h - what the files of runtime/cpu share: the device, the table of kernels, threads, and the choice of the
 * instruction set.
 *
 * Work is cut by shape into tiles, never by the number of threads, and a tile's result depends on nothing but the tile:
 * that is why results have the same bits for every number of threads. */
#ifndef SG_CPU_INTERNAL_H
#define SG_CPU_INTERNAL_H

#include <xmmintrin.h>

#include "runtime/backend_internal.h"

/* Ordered: a higher level includes the lower ones. */
typedef enum sg_isa { SG_ISA_X86_64, SG_ISA_AVX2, SG_ISA_AVX512 } sg_isa;

/* The level that kernels are chosen for: what the processor has, or less if SEALGRAPH_ISA says so (for tests; sg_cpu_isa_check
 * refuses other values). Decided once a process. */
sg_isa sg_cpu_isa_level(void);

typedef struct sg_cpu_team sg_cpu_team;

struct sg_device {
    int32_t threads;
    sg_cpu_team *team;
    sg_isa isa;
    char text[160]; /* what `describe` answers */
};

/* One op's implementation. A table may hold several rows for one op: the first whose `supports` agrees is used. */
typedef struct sg_cpu_kernel {
    const sg_op *op;
    bool (*supports)(const sg_kernel_spec *spec);
    sg_status (*prepare)(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err);
} sg_cpu_kernel;

/* The row for this node, or NULL (kernel_table.c). */
const sg_cpu_kernel *sg_cpu_find(const sg_kernel_spec *spec);

/* The backend's `fuse` (passes.c). */
sg_status sg_cpu_fuse(sg_graph *from, sg_graph *to, sg_error *err);

/* Run fn over tiles [0, tiles) with up to `threads` threads of the run's team: fn is called for pieces of the range, any number
 * of times in each thread. `thread` is in [0, threads): an index of per-thread scratch. Runs in the caller if one thread is
 * enough or no run is going on. */
typedef void (*sg_cpu_range_fn)(void *arg, int64_t begin, int64_t end, int32_t thread);
void sg_cpu_parallel(int32_t threads, int64_t tiles, sg_cpu_range_fn fn, void *arg);

/* `threads` threads, of which whoever calls sg_cpu_run is one (team.c); the others start with its first call. NULL: out of memory. */
sg_cpu_team *sg_cpu_team_new(int32_t threads);
void sg_cpu_team_free(sg_cpu_team *team);
/* Call body(user) with the team behind sg_cpu_parallel. One run of a team at a time; a run inside a run is led by the outer team. */
void sg_cpu_run(sg_cpu_team *team, void (*body)(void *user), void *user);

/* Products and optimiser steps take subnormal numbers as zero: on x86 each one costs a hundred cycles or more, and gradients of
 * a saturated loss are full of them (measured: a product 6 times, Adam 3 times slower). Elementwise operators keep them exactly.
 * The mode belongs to the thread, so a range function sets it at its start and restores what it found. */
static inline unsigned sg_cpu_flush_subnormals(void)
{
    unsigned found = _mm_getcsr();
    _mm_setcsr(found | 0x8040); /* flush results to zero, take operands as zero */
    return found;
}
static inline void sg_cpu_restore_subnormals(unsigned found) { _mm_setcsr(found); }

/* Round up to the 64-byte lines that scratch is cut in, so that threads do not share one. */
static inline size_t sg_cpu_line(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

/* Scratch of one thread beside that of another: between what the two use lies a whole page, within which prefetchers, and
 * kernels that ask for what they will need, run ahead. Without it they take lines from each other (measured: an optimiser step
 * took a fifth longer). */
static inline size_t sg_cpu_apart(size_t bytes) { return (bytes + 2 * 4096 - 1) & ~(size_t)4095; }

#endif
