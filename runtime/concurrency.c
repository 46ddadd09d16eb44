/* concurrency.c - memory for devices that run steps at the same time.
 *
 * Where a recording orders steps by the memory that they touch, every byte used again is a dependency: the planner's tight
 * packing would string the steps together as if the graph were a chain. So plans that are small use a byte again only for
 * values that depend on all uses of the last ones anyway. For plans that are large, memory matters more, and their steps fill
 * a device by themselves. */
#include <string.h>

#include "runtime/plan_internal.h"

enum { STEPS_MOST = 1024 };
static const size_t bytes_most = (size_t)512 << 20; /* of all temporaries, each with memory of its own */

struct sg_concurrency {
    int32_t steps, words; /* the end of the run counts as a step */
    uint64_t *past;       /* of each step: those that come before it whatever the device does */
    uint64_t *users;      /* of each buffer */
    int32_t *first;       /* of each buffer: its first user */
};

static sg_status out_of_memory(sg_error *err) { return sg_fail(err, SG_E_MEMORY, "out of memory while compiling"); }

/* ---- which plans */

static void add_up(const sg_plan *plan, const sg_frame *frame, size_t *bytes)
{
    for (int32_t i = 0; i < frame->n_steps && *bytes <= bytes_most; i++) {
        const sg_step *step = &frame->step[i];
        *bytes += step->kernel.workspace;
        for (int32_t k = 0; k < step->node->n_out; k++)
            *bytes += (size_t)sg_shape_count(&step->spec.out_shape[k]) *
                      sg_dtype_size(sg_session_storage(plan->session, step->spec.out_dtype[k]));
        if (step->body)
            add_up(plan, step->body, bytes);
    }
}

bool sg_concurrency_fits(const sg_plan *plan, const sg_frame *frame)
{
    size_t bytes = 0;
    if (!plan->session->apart || !plan->session->apart->part || frame->n_steps > STEPS_MOST)
        return false;
    add_up(plan, frame, &bytes);
    return bytes <= bytes_most;
}

/* ---- order of steps */

static void mark(uint64_t *set, int32_t i) { set[i / 64] |= (uint64_t)1 << i % 64; }

static void join(uint64_t *set, const uint64_t *other, int32_t words)
{
    for (int32_t w = 0; w < words; w++)
        set[w] |= other[w];
}

typedef struct sweep {
    sg_concurrency *c;
    int32_t *writer;   /* of each buffer so far, or -1 */
    uint64_t *readers; /* of each buffer since it was written */
} sweep;

static void follow(sweep *s, int32_t step, int32_t before)
{
    uint64_t *past = s->c->past + (size_t)step * s->c->words;
    if (before < 0 || before == step)
        return;
    mark(past, before);
    join(past, s->c->past + (size_t)before * s->c->words, s->c->words);
}

static void follow_readers(sweep *s, int32_t step, int32_t buffer)
{
    const uint64_t *readers = s->readers + (size_t)buffer * s->c->words;
    for (int32_t r = 0; r < step; r++)
        if (readers[r / 64] >> r % 64 & 1)
            follow(s, step, r);
}

static void order_steps(sweep *s, const sg_frame *top)
{
    for (int32_t i = 0; i < top->n_steps; i++) {
        const sg_step *step = &top->step[i];
        for (int32_t k = 0; k < step->node->n_in; k++) {
            if (step->in[k] < 0)
                continue;
            follow(s, i, s->writer[step->in[k]]);
            mark(s->readers + (size_t)step->in[k] * s->c->words, i);
        }
        for (int32_t k = 0; k < step->node->n_out; k++) {
            int32_t b = step->out[k];
            follow(s, i, s->writer[b]);
            follow_readers(s, i, b);
            s->writer[b] = i;
            memset(s->readers + (size_t)b * s->c->words, 0, (size_t)s->c->words * sizeof *s->readers);
        }
    }
    for (int32_t i = 0; i < top->n_steps; i++)
        mark(s->c->past + (size_t)top->n_steps * s->c->words, i);
}

/* ---- users of buffers: a loop uses all that its body uses */

static void use(sg_concurrency *c, int32_t buffer, int32_t step)
{
    if (buffer < 0)
        return;
    mark(c->users + (size_t)buffer * c->words, step);
    c->first[buffer] = c->first[buffer] < 0 ? step : c->first[buffer];
}

static void use_copies(sg_concurrency *c, const sg_copies *copies, int32_t step)
{
    for (int32_t k = 0; k < copies->count; k++) {
        use(c, copies->item[k].from, step);
        use(c, copies->item[k].to, step);
    }
}

static void use_step(sg_concurrency *c, const sg_step *s, int32_t step)
{
    for (int32_t k = 0; k < s->node->n_in; k++)
        use(c, s->in[k], step);
    for (int32_t k = 0; k < s->node->n_out; k++)
        use(c, s->out[k], step);
    use(c, s->workspace, step);
    use_copies(c, &s->start, step);
    for (int32_t i = 0; s->body && i < s->body->n_steps; i++)
        use_step(c, &s->body->step[i], step);
    if (s->body) {
        use_copies(c, &s->body->save, step);
        use_copies(c, &s->body->commit, step);
    }
}

static bool allocate(sg_concurrency *c, sweep *s, int32_t buffers)
{
    c->past = sg_calloc((int64_t)c->steps * c->words, sizeof *c->past);
    c->users = sg_calloc((int64_t)buffers * c->words, sizeof *c->users);
    c->first = sg_alloc((size_t)buffers * sizeof *c->first);
    s->writer = sg_alloc((size_t)buffers * sizeof *s->writer);
    s->readers = sg_calloc((int64_t)buffers * c->words, sizeof *s->readers);
    return c->past && c->users && c->first && s->writer && s->readers;
}

sg_status sg_concurrency_make(sg_concurrency **out, const sg_plan *plan, sg_error *err)
{
    const sg_frame *top = plan->top;
    sg_concurrency *c = *out = sg_calloc(1, sizeof *c);
    sweep s = {.c = c};
    if (!c)
        return out_of_memory(err);
    c->steps = top->n_steps + 1;
    c->words = (c->steps + 63) / 64;
    bool ready = allocate(c, &s, plan->n_buffers);
    if (ready) {
        memset(c->first, 0xff, (size_t)plan->n_buffers * sizeof *c->first);
        memset(s.writer, 0xff, (size_t)plan->n_buffers * sizeof *s.writer);
        order_steps(&s, top);
        for (int32_t i = 0; i < top->n_steps; i++)
            use_step(c, &top->step[i], i);
        use_copies(c, &top->save, top->n_steps);
        use_copies(c, &top->commit, top->n_steps);
    }
    sg_free(s.writer);
    sg_free(s.readers);
    return ready ? SG_OK : out_of_memory(err);
}

void sg_concurrency_free(sg_concurrency *c)
{
    if (!c)
        return;
    sg_free(c->past);
    sg_free(c->users);
    sg_free(c->first);
    sg_free(c);
}

/* All other uses of b come after its first, which makes the value. */
bool sg_concurrency_precedes(const sg_concurrency *c, int32_t a, int32_t b)
{
    if (c->first[a] < 0 || c->first[b] < 0)
        return true;
    const uint64_t *users = c->users + (size_t)a * c->words, *past = c->past + (size_t)c->first[b] * c->words;
    for (int32_t w = 0; w < c->words; w++)
        if (users[w] & ~past[w])
            return false;
    return true;
}
