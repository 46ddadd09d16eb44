/* chain_lines.c - the lines of a chain's kernel that compute: one a step, what sums add up, and the stores. */
#include <string.h>

#include "ops/ops.h"
#include "ops/ops_internal.h"
#include "runtime/cuda/chain_writer_internal.h"

extern const sg_op sg_op_matmul, sg_op_fill_like, sg_op_tile_axis, sg_op_cast, sg_op_keyed_uniform, sg_op_normal_like;

enum { WARP = 32, MANY_PACKS = 1 << 13 };

static int32_t unfit(sg_cuda_writer *w, const sg_op *op)
{
    w->unfit = op;
    return SG_CUDA_NONE;
}

static int32_t result_slot(sg_cuda_writer *w, const sg_cuda_unit *u)
{
    w->chain->n_steps++;
    return sg_cuda_slot_add(
        w, (sg_cuda_slot){.kind = SG_CUDA_SLOT_RESULT, .dtype = u->dtype, .shape = *u->shape, .after = w->among_sums});
}

static int32_t write_tile(sg_cuda_writer *w, const sg_cuda_unit *u)
{
    sg_cuda_slot x = w->slot[u->in[0]], view = x;
    if (x.kind == SG_CUDA_SLOT_NUMBER)
        return u->in[0];
    if (x.kind != SG_CUDA_SLOT_INPUT)
        return unfit(w, u->op);
    int32_t axis = (int32_t)u->attr[0].i;
    view.shape = *u->shape;
    view.loaded = false;
    for (int32_t i = 0; i < u->shape->rank; i++)
        view.stride[i] = i == axis ? 0 : x.stride[i < axis ? i : i - 1];
    return sg_cuda_slot_add(w, view);
}

/* A draw's start takes as long as a pack of it: where there are many threads, one does it for its block. */
static void put_draw(sg_cuda_writer *w, int32_t at, int32_t words, unsigned long long stream)
{
    int draw = (int)at;
    bool common = w->chain->many && w->chain->count / w->chain->pack >= MANY_PACKS;
    if (common)
        sg_cuda_put(&w->setup, "    __shared__ sg_draw common%d;\n    if (threadIdx.x == 0)\n        common%d", draw,
                    draw);
    else
        sg_cuda_put(&w->setup, "    const sg_draw d%d", draw);
    sg_cuda_put(&w->setup, " = sg_draw_make(%lluull, in%d, repeat);\n", stream, (int)sg_cuda_slot_parameter(w, words));
    if (common)
        sg_cuda_put(&w->setup, "    __syncthreads();\n    const sg_draw d%d = common%d;\n", draw, draw);
}

static int32_t write_draw(sg_cuda_writer *w, const sg_cuda_unit *u)
{
    if (u->in[1] == SG_CUDA_NONE || w->slot[u->in[1]].kind != SG_CUDA_SLOT_INPUT)
        return unfit(w, u->op);
    int32_t words = w->slot[u->in[1]].input, at = result_slot(w, u);
    w->scattered[words] = true;
    w->chain->draws = true;
    if (u->op == &sg_op_keyed_uniform)
        sg_cuda_put(&w->setup, "    const sg_draw d%d = sg_draw_of_key(in%d);\n", (int)at,
                    (int)sg_cuda_slot_parameter(w, words));
    else
        put_draw(w, at, words, (unsigned long long)u->attr[0].i);
    sg_cuda_put(&w->loads, "        const auto b%d = %s(d%d, first);\n", (int)at,
                w->product ? "product_bits" : "sg_draw_bits<V>", (int)at);
    sg_cuda_put(&w->steps, "            const float v%d = sg_%s_from_bits(b%d.x[k]);\n", (int)at,
                u->op == &sg_op_normal_like ? "normal" : "uniform", (int)at);
    return at;
}

/* What numbers alone make is one: a thread computes it before its elements. */
static int32_t write_call(sg_cuda_writer *w, const sg_cuda_unit *u, const char *function)
{
    bool once = !w->among_sums;
    for (int32_t k = 0; k < u->n_in; k++) {
        sg_cuda_slot_load_for_step(w, u->in[k]);
        once &= w->slot[u->in[k]].once;
    }
    sg_cuda_text *steps = w->among_sums ? &w->after : once ? &w->setup : &w->steps;
    int32_t at = result_slot(w, u);
    if (at != SG_CUDA_NONE)
        w->slot[at].once = once;
    w->chain->n_once += once;
    sg_cuda_put(steps, "            const %s v%d = sg_%s(", sg_cuda_register_type(u->dtype), (int)at, function);
    for (int32_t k = 0; k < u->n_in; k++)
        sg_cuda_put(steps, "%s%c%d", k ? ", " : "", sg_cuda_slot_letter(w, &w->slot[u->in[k]]), (int)u->in[k]);
    for (int32_t k = 0; u->op != &sg_op_cast && k < u->op->n_attrs; k++) {
        float number = (float)u->attr[k].f;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        sg_cuda_put(steps, ", __int_as_float((int)0x%xu)", (unsigned)bits);
    }
    sg_cuda_put(steps, ");\n");
    return at;
}

static int32_t write_product(sg_cuda_writer *w, const sg_cuda_unit *u)
{
    int32_t at = result_slot(w, u);
    for (int32_t k = 0; k < u->n_in; k++)
        w->chain->factor[k] = w->slot[u->in[k]].input;
    sg_cuda_put(&w->reads, "            const float v%d = element[k];\n", (int)at);
    return at;
}

int32_t sg_cuda_write_unit(sg_cuda_writer *w, const sg_cuda_unit *u)
{
    if (u->op == &sg_op_matmul || u->op == &sg_op_csr_matmul)
        return write_product(w, u);
    if (u->op == &sg_op_fill_like)
        return sg_cuda_slot_of_number(w, u->attr[0].f, u->dtype);
    if (u->op == &sg_op_tile_axis)
        return write_tile(w, u);
    if (sg_cuda_step_view(u->op))
        return u->in[0];
    if (sg_cuda_step_draw(u->op))
        return write_draw(w, u);
    if (u->op == &sg_op_cast)
        return write_call(w, u, u->dtype == SG_I32 ? "to_int" : u->dtype == SG_BOOL ? "to_bool" : "to_float");
    if (u->dtype == SG_BF16 && sg_cuda_step_low(u->op)) {
        char function[48];
        snprintf(function, sizeof function, "low_%s", u->op->name);
        return write_call(w, u, function);
    }
    return sg_cuda_step_both(u->op) || sg_cuda_step_real(u->op) ? write_call(w, u, u->op->name) : unfit(w, u->op);
}

int32_t sg_cuda_write_sum(sg_cuda_writer *w, int32_t of, const sg_shape *shape)
{
    int lanes = (int)w->chain->lanes;
    bool columns = w->chain->sum.inner > 1;
    sg_cuda_slot_load(w, of);
    w->chain->n_steps++;
    int32_t at = sg_cuda_slot_add(w, (sg_cuda_slot){.kind = SG_CUDA_SLOT_SUM, .dtype = SG_F32, .shape = *shape});
    sg_cuda_put(&w->setup, "    float s%d = 0;\n", (int)at);
    if (sg_cuda_chain_alone(w->chain)) {
        sg_cuda_put(&w->setup, "    float g%d[%d] = {};\n", (int)at, SG_CUDA_CHAIN_BLOCK / WARP);
        sg_cuda_put(&w->steps, "            g%d[group] += v%d;\n", (int)at, (int)of);
        sg_cuda_put(&w->ends, "        s%d = sg_join_own(g%d);\n", (int)at, (int)at);
        return at;
    }
    sg_cuda_put(&w->steps, "            s%d += v%d;\n", (int)at, (int)of);
    if (lanes > 1)
        sg_cuda_put(&w->ends, "        s%d = sg_join_%s<%d>(s%d);\n", (int)at, columns ? "groups" : "lanes",
                    columns ? SG_CUDA_CHAIN_BLOCK / WARP : lanes, (int)at);
    sg_cuda_put(&w->zeros, "        s%d = 0;\n", (int)at);
    return at;
}

static void put_store(sg_cuda_writer *w, int32_t output)
{
    const sg_cuda_place_in_whole *p = &w->place;
    int j = (int)output, pack = w->chain->pack;
    if (w->product) {
        sg_cuda_put(&w->stores, "        product_store(out%d, first, r%d);\n", j, j);
        return;
    }
    bool apart = p->run > 0 && (p->start % pack != 0 || (p->run + p->gap) % pack != 0);
    sg_cuda_put(&w->stores, "        %s(out%d + first", apart ? "sg_store_apart" : "sg_store", j);
    if (p->start > 0)
        sg_cuda_put(&w->stores, " + (index)%lldull", (long long)p->start);
    if (p->run > 0 && p->run < w->chain->count)
        sg_cuda_put(&w->stores, " + first / (index)%lldull * (index)%lldull", (long long)p->run, (long long)p->gap);
    sg_cuda_put(&w->stores, ", r%d", j);
    if (apart)
        sg_cuda_put(&w->stores, ", sg_together<V>(first, (index)%lldull, (index)%lldull)", (long long)p->run,
                    (long long)w->chain->count);
    sg_cuda_put(&w->stores, ");\n");
}

void sg_cuda_write_result(sg_cuda_writer *w, int32_t at, int32_t output)
{
    if (at == SG_CUDA_NONE)
        return;
    if (w->slot[at].kind == SG_CUDA_SLOT_SUM || w->slot[at].after) {
        sg_cuda_put(&w->after, "            sg_write(&out%d[place], %c%d);\n", (int)output,
                    sg_cuda_slot_letter(w, &w->slot[at]), (int)at);
        return;
    }
    sg_cuda_slot_load(w, at);
    sg_cuda_put(&w->loads, "        sg_pack<%s, V> r%d;\n", sg_cuda_memory_type(w->spec->out_dtype[output]),
                (int)output);
    sg_cuda_put(&w->steps, "            sg_write(&r%d.x[k], v%d);\n", (int)output, (int)at);
    put_store(w, output);
}
