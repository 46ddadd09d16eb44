/* plan_memory.c - the offline planner: offsets for buffers whose lifetimes are known. Two buffers may overlap in memory
 * exactly if their intervals of ticks do not meet. Larger buffers are placed first, each in the smallest gap that fits
 * between those already placed that live at the same time: within a few per cent of the peak of live bytes in practice,
 * and independent of addresses and hash order, so equal graphs give equal plans. On devices that run steps at the same time
 * there is a stricter rule (concurrency.c). */
#include <stdlib.h>
#include <string.h>

#include "runtime/plan_internal.h"

static size_t align_up(size_t bytes) { return (bytes + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN; }

/* Zero-size tensors take a line too: their pointers are then valid and distinct. */
static size_t footprint(const sg_buffer *b) { return align_up(b->bytes ? b->bytes : 1); }

typedef struct request {
    sg_buffer *buffer;
    int32_t index;
} request;

static int larger_first(const void *a, const void *b)
{
    const request *x = a, *y = b;
    size_t fx = footprint(x->buffer), fy = footprint(y->buffer);
    return fx != fy ? (fx < fy ? 1 : -1) : x->index - y->index;
}

typedef struct placing {
    const sg_plan *plan;
    const sg_concurrency *concurrency; /* NULL: steps run one after the other */
} placing;

static bool meet(const placing *p, const sg_buffer *a, const sg_buffer *b)
{
    int32_t i = (int32_t)(a - p->plan->buffer), j = (int32_t)(b - p->plan->buffer);
    if (p->plan->no_reuse)
        return true;
    if (p->concurrency)
        return !sg_concurrency_precedes(p->concurrency, i, j) && !sg_concurrency_precedes(p->concurrency, j, i);
    return a->first <= b->last && b->first <= a->last;
}

/* `placed` is in order of offsets. */
static size_t best_gap(const placing *p, const sg_buffer *b, sg_buffer *const *placed, int32_t n)
{
    size_t need = footprint(b), end = 0, best = 0, best_size = SIZE_MAX;
    for (int32_t i = 0; i < n; i++) {
        if (!meet(p, b, placed[i]))
            continue;
        size_t gap = placed[i]->offset > end ? placed[i]->offset - end : 0;
        if (gap >= need && gap < best_size) {
            best = end;
            best_size = gap;
        }
        size_t after = placed[i]->offset + footprint(placed[i]);
        end = after > end ? after : end;
    }
    return best_size == SIZE_MAX ? end : best;
}

static void insert(sg_buffer *b, sg_buffer **placed, int32_t n)
{
    int32_t at = n;
    while (at > 0 && placed[at - 1]->offset > b->offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = b;
}

static void place_temporaries(sg_plan *plan, const sg_concurrency *concurrency, request *order, sg_buffer **placed)
{
    const placing p = {plan, concurrency};
    int32_t n = 0;
    for (int32_t k = 0; k < plan->n_buffers; k++)
        if (plan->buffer[k].place == SG_PLACE_ARENA)
            order[n++] = (request){&plan->buffer[k], k};
    qsort(order, (size_t)n, sizeof *order, larger_first);
    for (int32_t k = 0; k < n; k++) {
        sg_buffer *b = order[k].buffer;
        b->offset = best_gap(&p, b, placed, k);
        insert(b, placed, k);
        size_t end = b->offset + footprint(b);
        plan->scratch_bytes = end > plan->scratch_bytes ? end : plan->scratch_bytes;
    }
}

static void place_pinned(sg_plan *plan)
{
    for (int32_t k = 0; k < plan->n_buffers; k++)
        if (plan->buffer[k].place == SG_PLACE_PINNED) {
            plan->buffer[k].offset = plan->pinned_bytes;
            plan->pinned_bytes += footprint(&plan->buffer[k]);
        }
}

/* Counting sort of the temporaries by the tick after which they are dead. */
static void sort_dying(sg_plan *plan)
{
    for (int32_t k = 0; k < plan->n_buffers; k++)
        if (plan->buffer[k].place == SG_PLACE_ARENA)
            plan->dying_at[plan->buffer[k].last + 1]++;
    for (int32_t t = 0; t < plan->ticks; t++)
        plan->dying_at[t + 1] += plan->dying_at[t];
    for (int32_t k = plan->n_buffers - 1; k >= 0; k--)
        if (plan->buffer[k].place == SG_PLACE_ARENA)
            plan->dying[--plan->dying_at[plan->buffer[k].last + 1]] = k;
    /* each dying_at[t + 1] has come down to the start of tick t: shift back by one */
    memmove(plan->dying_at, plan->dying_at + 1, (size_t)plan->ticks * sizeof *plan->dying_at);
    int32_t n = 0;
    for (int32_t k = 0; k < plan->n_buffers; k++)
        n += plan->buffer[k].place == SG_PLACE_ARENA;
    plan->dying_at[plan->ticks] = n;
}

sg_status sg_place_buffers(sg_plan *plan, sg_error *err)
{
    request *order = sg_calloc(plan->n_buffers + 1, sizeof *order);
    sg_buffer **placed = sg_calloc(plan->n_buffers + 1, sizeof *placed);
    plan->dying = sg_plan_take(plan, plan->n_buffers, sizeof *plan->dying);
    plan->dying_at = sg_plan_take(plan, plan->ticks + 2, sizeof *plan->dying_at);
    sg_concurrency *concurrency = NULL;
    bool ready = order && placed && plan->dying && plan->dying_at;
    if (ready && plan->concurrent)
        ready = sg_concurrency_make(&concurrency, plan, err) == SG_OK;
    if (ready) {
        place_temporaries(plan, concurrency, order, placed);
        place_pinned(plan);
        sort_dying(plan);
    }
    sg_concurrency_free(concurrency);
    sg_free(order);
    sg_free(placed);
    return ready ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
}
