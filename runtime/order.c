/* order.c - the order of a frame's steps. Builders make a graph front to back, which is a good order as a rule; but a Hessian
 * product is made of a finished gradient and of its derivative, and in that order every value of the gradient waits for
 * a reader far behind. Here a second order is found in which values are made late, and taken if it needs less memory.
 *
 * It is made from the end: of the steps whose readers are all placed, the one is placed next (before them) that brings the fewest
 * bytes to life, so that makers stand close before the first of their readers. Results and new values of entries need no memory of
 * the plan's own: steps that make nothing else are put in afterwards, right behind what they read.
 *
 * Where steps run at the same time (concurrency.c), the order is that in which the device takes up those that are ready, one after
 * the other. There, of the steps whose makers are all placed, the one comes next with which the longest way to the end begins. A way
 * is as long as the bytes that its steps read and write, and for each step as many as the device moves in the time of a launch. */
#include <string.h>

#include "runtime/elements_internal.h"
#include "runtime/leaf_internal.h"
#include "runtime/plan_internal.h"

/* A different order must save this part of the memory to be worth it: the graph's own keeps neighbours in the caches. */
#define WORTHWHILE 0.9

typedef struct ordering {
    const sg_plan *plan;
    sg_frame *frame;
    int32_t *root;    /* of each value: the one it is a view of */
    int32_t *maker;   /* of each root: step, -1 for leaves */
    bool *outside;    /* of each root: leaves, results, entries: no temporary */
    int32_t *readers; /* of each step: placed later than it, not yet placed */
    int32_t *order, *trial, *stack;
    bool *late;    /* of each step: it makes nothing but results */
    int32_t *left; /* of each root: readers that have not run */
} ordering;

static const sg_node *node_of(const ordering *o, int32_t step) { return o->frame->step[step].node; }

static bool reads(const ordering *o, int32_t step, int32_t k) { return o->frame->step[step].in[k] >= 0; }

static int32_t input_root(const ordering *o, int32_t step, int32_t k) { return o->root[node_of(o, step)->in[k]]; }

static size_t bytes_of(const ordering *o, int32_t v)
{
    sg_value value = sg_value_at(o->frame->graph, v);
    return (size_t)sg_shape_count(sg_shape_of(value)) *
           sg_dtype_size(sg_session_storage(o->plan->session, sg_dtype_of(value)));
}

static void find_values(ordering *o)
{
    const sg_frame *f = o->frame;
    for (int32_t i = 0; i < sg_node_count(f->graph); i++) {
        const sg_node *node = sg_node_at(f->graph, i);
        for (int32_t k = 0; k < node->n_out; k++) {
            o->root[node->out + k] = sg_is_view(node) ? o->root[node->in[0]] : node->out + k;
            o->maker[node->out + k] = -1;
            o->outside[node->out + k] = true;
        }
    }
    for (int32_t i = 0; i < f->n_steps; i++)
        for (int32_t k = 0; k < node_of(o, i)->n_out; k++) {
            o->maker[node_of(o, i)->out + k] = i;
            o->outside[node_of(o, i)->out + k] = false;
        }
    for (int32_t k = 0; k < f->n_roots; k++)
        o->outside[o->root[f->root[k]]] = true;
}

static void count_readers(ordering *o)
{
    memset(o->left, 0, (size_t)sg_value_count(o->frame->graph) * sizeof *o->left);
    for (int32_t i = 0; i < o->frame->n_steps; i++)
        for (int32_t k = 0; k < node_of(o, i)->n_in; k++)
            if (reads(o, i, k))
                o->left[input_root(o, i, k)]++;
}

/* The most bytes of temporaries that live at once, workspaces included, if every value has memory of its own. */
static size_t peak_of(ordering *o, const int32_t *order)
{
    size_t now = 0, peak = 0;
    count_readers(o);
    for (int32_t at = 0; at < o->frame->n_steps; at++) {
        int32_t i = order[at];
        const sg_node *node = node_of(o, i);
        for (int32_t k = 0; k < node->n_out; k++)
            now += o->outside[node->out + k] ? 0 : bytes_of(o, node->out + k);
        size_t with = now + o->frame->step[i].kernel.workspace;
        peak = with > peak ? with : peak;
        for (int32_t k = 0; k < node->n_out; k++)
            now -= o->outside[node->out + k] || o->left[node->out + k] ? 0 : bytes_of(o, node->out + k);
        for (int32_t k = 0; k < node->n_in; k++)
            if (reads(o, i, k) && --o->left[input_root(o, i, k)] == 0 && !o->outside[input_root(o, i, k)])
                now -= bytes_of(o, input_root(o, i, k));
    }
    return peak;
}

/* Steps that only make results, read by nobody. */
static void find_late(ordering *o)
{
    count_readers(o);
    for (int32_t i = 0; i < o->frame->n_steps; i++) {
        const sg_node *node = node_of(o, i);
        o->late[i] = true;
        for (int32_t k = 0; k < node->n_out; k++)
            o->late[i] = o->late[i] && o->outside[node->out + k] && o->left[node->out + k] == 0;
    }
}

/* Bytes that come alive when step i is placed before all that is placed already, less those that it makes. left counts
 * the placed readers here. */
static int64_t growth_of(const ordering *o, int32_t i)
{
    const sg_node *node = node_of(o, i);
    int64_t growth = 0;
    for (int32_t k = 0; k < node->n_out; k++)
        if (!o->outside[node->out + k] && o->left[node->out + k])
            growth -= (int64_t)bytes_of(o, node->out + k);
    for (int32_t k = 0; k < node->n_in; k++) {
        bool counted = !reads(o, i, k) || o->outside[input_root(o, i, k)] || o->left[input_root(o, i, k)];
        for (int32_t same = 0; same < k && !counted; same++)
            counted = reads(o, i, same) && input_root(o, i, same) == input_root(o, i, k);
        growth += counted ? 0 : (int64_t)bytes_of(o, input_root(o, i, k));
    }
    return growth;
}

/* Take the step with the least growth from the `n` available ones; of equal ones the latest of the graph. */
static int32_t take_best(const ordering *o, int32_t n)
{
    int32_t best = 0;
    int64_t least = INT64_MAX;
    for (int32_t at = 0; at < n; at++) {
        int64_t growth = growth_of(o, o->stack[at]);
        if (growth < least || (growth == least && o->stack[at] > o->stack[best])) {
            least = growth;
            best = at;
        }
    }
    int32_t step = o->stack[best];
    o->stack[best] = o->stack[n - 1];
    return step;
}

/* The other steps from the end to the front of `trial`; returns how many there are. */
static int32_t place_backwards(ordering *o)
{
    int32_t n = o->frame->n_steps, available = 0, placed = 0;
    memset(o->readers, 0, (size_t)n * sizeof *o->readers);
    memset(o->left, 0, (size_t)sg_value_count(o->frame->graph) * sizeof *o->left);
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < node_of(o, i)->n_in && !o->late[i]; k++)
            if (reads(o, i, k) && o->maker[input_root(o, i, k)] >= 0)
                o->readers[o->maker[input_root(o, i, k)]]++;
    for (int32_t i = 0; i < n; i++)
        if (!o->late[i] && o->readers[i] == 0)
            o->stack[available++] = i;
    while (available) {
        int32_t i = take_best(o, available--);
        o->trial[n - ++placed] = i;
        for (int32_t k = 0; k < node_of(o, i)->n_in; k++) {
            if (!reads(o, i, k))
                continue;
            int32_t maker = o->maker[input_root(o, i, k)];
            o->left[input_root(o, i, k)]++;
            if (maker >= 0 && --o->readers[maker] == 0)
                o->stack[available++] = maker;
        }
    }
    return placed;
}

/* Results right behind the last step that makes an operand of theirs; `order` receives the whole. Ties keep the graph's order. */
static void put_in_results(ordering *o, int32_t placed)
{
    int32_t n = o->frame->n_steps, at = 0, *place = o->readers, *next = o->stack, *first = o->left;
    const int32_t *kept = o->trial + (n - placed);
    for (int32_t i = 0; i < placed; i++)
        place[kept[i]] = i + 1;
    for (int32_t i = 0; i <= placed; i++)
        first[i] = -1;
    for (int32_t i = n - 1; i >= 0; i--) {
        int32_t behind = 0;
        for (int32_t k = 0; k < node_of(o, i)->n_in && o->late[i]; k++) {
            int32_t maker = reads(o, i, k) ? o->maker[input_root(o, i, k)] : -1;
            behind = maker >= 0 && place[maker] > behind ? place[maker] : behind;
        }
        if (!o->late[i])
            continue;
        next[i] = first[behind];
        first[behind] = i;
    }
    for (int32_t i = 0; i <= placed; i++) {
        if (i > 0)
            o->order[at++] = kept[i - 1];
        for (int32_t r = first[i]; r >= 0; r = next[r])
            o->order[at++] = r;
    }
}

static sg_status permute(ordering *o, sg_error *err)
{
    sg_frame *f = o->frame;
    sg_step *moved = sg_alloc((size_t)f->n_steps * sizeof *moved);
    if (!moved)
        return sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
    for (int32_t at = 0; at < f->n_steps; at++)
        moved[at] = f->step[o->order[at]];
    memcpy(f->step, moved, (size_t)f->n_steps * sizeof *moved);
    sg_free(moved);
    return SG_OK;
}

/* ---- the longest way first */

/* What a device moves in the time of a launch. */
#define LAUNCH_BYTES ((int64_t)3 << 20)

static int64_t length_of(const sg_step *step)
{
    int64_t inside = 0, bytes = LAUNCH_BYTES;
    for (int32_t i = 0; step->body && i < step->body->n_steps; i++)
        inside += length_of(&step->body->step[i]);
    for (int32_t k = 0; k < step->node->n_in; k++)
        if (step->in[k] >= 0)
            bytes += sg_shape_count(&step->spec.in_shape[k]) * (int64_t)sg_dtype_size(step->spec.in_dtype[k]);
    for (int32_t k = 0; k < step->node->n_out; k++)
        bytes += sg_shape_count(&step->spec.out_shape[k]) * (int64_t)sg_dtype_size(step->spec.out_dtype[k]);
    return step->body ? inside * step->count : bytes;
}

/* The ways of the makers of what step i reads, if theirs by step i is the longest so far. */
static void follow_makers(ordering *o, int64_t *way, int32_t i)
{
    for (int32_t k = 0; k < node_of(o, i)->n_in; k++) {
        int32_t maker = reads(o, i, k) ? o->maker[input_root(o, i, k)] : -1;
        if (maker >= 0 && way[maker] < way[i])
            way[maker] = way[i];
    }
}

static bool is_ready(const ordering *o, int32_t i, const bool *placed)
{
    for (int32_t k = 0; k < node_of(o, i)->n_in; k++) {
        int32_t maker = reads(o, i, k) ? o->maker[input_root(o, i, k)] : -1;
        if (maker >= 0 && !placed[maker])
            return false;
    }
    return !placed[i];
}

static sg_status place_longest_first(ordering *o, sg_error *err)
{
    int32_t n = o->frame->n_steps;
    int64_t *way = sg_calloc(n, sizeof *way);
    bool *placed = o->late;
    if (!way)
        return sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
    memset(placed, 0, (size_t)n * sizeof *placed);
    for (int32_t i = n - 1; i >= 0; i--) {
        way[i] += length_of(&o->frame->step[i]);
        follow_makers(o, way, i);
    }
    for (int32_t at = 0; at < n; at++) {
        int32_t best = -1;
        for (int32_t i = 0; i < n; i++)
            if (is_ready(o, i, placed) && (best < 0 || way[i] > way[best]))
                best = i;
        placed[best] = true;
        o->order[at] = best;
    }
    sg_free(way);
    return permute(o, err);
}

static sg_status choose(ordering *o, sg_error *err)
{
    find_values(o);
    if (sg_concurrency_fits(o->plan, o->frame))
        return place_longest_first(o, err);
    for (int32_t i = 0; i < o->frame->n_steps; i++)
        o->order[i] = i;
    size_t given = peak_of(o, o->order);
    find_late(o);
    put_in_results(o, place_backwards(o));
    return (double)peak_of(o, o->order) < WORTHWHILE * (double)given ? permute(o, err) : SG_OK;
}

sg_status sg_frame_order(sg_plan *plan, sg_frame *frame, sg_error *err)
{
    int64_t n = frame->n_steps, values = sg_value_count(frame->graph);
    ordering o = {.plan = plan, .frame = frame};
    int32_t *numbers = sg_calloc(3 * values + 4 * n + 2, sizeof *numbers);
    bool *marks = sg_calloc(values + n + 1, sizeof *marks);
    sg_status status = numbers && marks ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory while compiling");
    if (status == SG_OK && n > 1) {
        o.root = numbers;
        o.maker = o.root + values;
        o.left = o.maker + values; /* also as long as the steps and one more: each step makes a value */
        o.readers = o.left + values + 1;
        o.order = o.readers + n;
        o.trial = o.order + n;
        o.stack = o.trial + n;
        o.outside = marks;
        o.late = marks + values;
        status = choose(&o, err);
    }
    sg_free(numbers);
    sg_free(marks);
    return status;
}
