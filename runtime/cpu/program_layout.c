/* program_layout.c - views of inputs over the iteration space, tile buffers by linear scan, and which output may take over
 * which input's memory. */
#include "runtime/cpu/program_internal.h"

#include <string.h>

/* The view of an input: strides by axis of the space (0 where it broadcasts), axes of size 1 dropped, and neighbours
 * merged where one step of the outer is a full walk of the inner. */
static sg_chain_view view_of(const sg_chain_slot *slot, const sg_shape *space)
{
    sg_chain_view v = {.kind = SG_VIEW_ROWS};
    int32_t lead = space->rank - slot->shape.rank;
    for (int32_t i = 0; i < space->rank; i++) {
        int64_t dim = space->dim[i];
        int64_t stride = i < lead || slot->shape.dim[i - lead] == 1 ? 0 : slot->stride[i - lead];
        if (dim == 1)
            continue;
        if (v.rank > 0 && v.stride[v.rank - 1] == stride * dim) {
            v.dim[v.rank - 1] *= dim;
            v.stride[v.rank - 1] = stride;
        } else {
            v.dim[v.rank] = dim;
            v.stride[v.rank++] = stride;
        }
    }
    if (v.rank == 0 || (v.rank == 1 && v.stride[0] == 0))
        v.kind = SG_VIEW_SINGLE;
    else if (v.rank == 1)
        v.kind = SG_VIEW_PLAIN;
    return v;
}

/* The longest stretch, from the last axis outwards, over which every input moves by one stride: tiles inside it read all
 * inputs in place. */
static int64_t common_row(const sg_program *p)
{
    int64_t row = p->count;
    for (int32_t i = 0; i < p->n_slots; i++) {
        const sg_chain_slot *s = &p->slots[i];
        if (s->kind == SG_CHAIN_INPUT && s->loaded && s->view.kind == SG_VIEW_ROWS) {
            int64_t inner = s->view.dim[s->view.rank - 1];
            row = inner < row ? inner : row;
        }
    }
    return row;
}

static void mark_last_uses(sg_program *p)
{
    for (int32_t i = 0; i < p->n_steps; i++)
        for (int32_t k = 0; k < 3; k++)
            if (p->steps[i].src[k] >= 0)
                p->slots[p->steps[i].src[k]].last_use = i;
    for (int32_t i = 0; i < p->n_leaving; i++)
        p->slots[p->leaving[i].slot].last_use = p->n_steps;
}

/* Values written straight to memory and inputs read in place need no buffer. */
static bool needs_buffer(const sg_chain_slot *s)
{
    if (s->kind == SG_CHAIN_INPUT)
        return s->view.kind == SG_VIEW_ROWS || (s->view.kind == SG_VIEW_PLAIN && s->dtype == SG_BOOL);
    return s->output < 0;
}

/* Linear scan: a step's result may take the buffer of an operand that dies with the step, since micro-kernels read an
 * element before they write it. */
static void assign_buffers(sg_program *p)
{
    int32_t free_list[256], n_free = 0;
    for (int32_t i = 0; i < p->n_steps; i++) {
        const sg_chain_step *step = &p->steps[i];
        for (int32_t k = 0; k < 3; k++) {
            sg_chain_slot *s = step->src[k] >= 0 ? &p->slots[step->src[k]] : NULL;
            bool repeated = (k > 0 && step->src[k] == step->src[0]) || (k > 1 && step->src[k] == step->src[1]);
            if (s && !repeated && s->buffer >= 0 && s->last_use == i && n_free < 256)
                free_list[n_free++] = s->buffer;
        }
        sg_chain_slot *dst = &p->slots[step->dst];
        if (needs_buffer(dst))
            dst->buffer = n_free > 0 ? free_list[--n_free] : p->n_buffers++;
    }
}

/* Output j may take over input k if element i of k is read by no step after the one that writes element i of j. */
static bool may_alias(const sg_program *p, int32_t input, int32_t written, size_t bytes)
{
    bool read = false;
    for (int32_t i = 0; i < p->n_slots; i++) {
        const sg_chain_slot *s = &p->slots[i];
        if (s->kind != SG_CHAIN_INPUT || s->input != input || !s->loaded)
            continue;
        bool same_place = s->view.kind == SG_VIEW_PLAIN || p->count == 1;
        if (!same_place || sg_dtype_size(s->dtype) != bytes || s->last_use > written)
            return false;
        read = true;
    }
    for (int32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].rng == input)
            return false;
    return read;
}

static void find_alias(sg_program *p, int32_t output, int32_t written, size_t bytes)
{
    for (int32_t input = 0; input < p->n_in && p->alias[output] < 0; input++) {
        bool taken = false;
        for (int32_t j = 0; j < p->n_out; j++)
            taken |= p->alias[j] == input;
        if (!taken && may_alias(p, input, written, bytes))
            p->alias[output] = input;
    }
}

static void find_aliases(sg_program *p)
{
    for (int32_t j = 0; j < p->n_out; j++)
        p->alias[j] = -1;
    if (p->n_sums > 0)
        return; /* a sum's memory is smaller, and rows may be read again after another row's sum */
    for (int32_t i = 0; i < p->n_steps; i++)
        if (p->steps[i].op != SG_CHAIN_LOAD && p->slots[p->steps[i].dst].output >= 0)
            find_alias(p, p->slots[p->steps[i].dst].output, i, 4);
    for (int32_t i = 0; i < p->n_leaving; i++)
        find_alias(p, p->leaving[i].output, p->n_steps, 1);
}

void sg_program_layout(sg_program *p)
{
    p->count = sg_shape_count(&p->space);
    for (int32_t i = 0; i < p->n_slots; i++)
        if (p->slots[i].kind == SG_CHAIN_INPUT)
            p->slots[i].view = view_of(&p->slots[i], &p->space);
    if (p->row < 0)
        p->row = common_row(p);
    mark_last_uses(p);
    assign_buffers(p);
    find_aliases(p);
}
