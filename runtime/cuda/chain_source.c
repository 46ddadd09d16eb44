/* chain_source.c - the text of a chain's kernel. A thread takes a pack of neighbouring elements: it loads them in words of up to
 * 16 bytes, does a line a step for each, and stores, so that an output may lie where an input lay. Shapes are in the text as
 * numbers: divisions by them become multiplications, one a pack where an operand is broadcast along whole packs. The elements
 * that are left at the end are packs of one. */
#include <string.h>

#include "ops/ops.h"
#include "ops/ops_internal.h"
#include "runtime/cuda/chain_parts_internal.h"
#include "runtime/cuda/product_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

enum { NONE = -1, MOST_POINTERS = 400 };

/* product.cuh takes as many neighbours at a time, or a half, or one. */
enum { PRODUCT_PACK = 4 };

/* A row of more elements is added up by a whole block. */
enum { WARP = 32, WARP_ROW = 1024, MANY_COLUMNS = 1 << 16 };

/* ---- values */

typedef enum kind { INPUT, NUMBER, RESULT, SUM } kind;

/* A value of the chain. An input has the strides of its memory by the axes of the shape it is seen in. */
typedef struct slot {
    kind kind;
    sg_dtype dtype;
    sg_shape shape;
    int64_t stride[SG_MAX_RANK];
    int32_t input; /* operand of the node; of a sum, the slot that it adds up */
    double number;
    bool loaded, loaded_after; /* among the elements; among the sums */
    bool after;                /* a result among the sums */
} slot;

/* Element i of an operand of a concat is element start + i + i / run * gap of the result; run 0: there is no concat. */
typedef struct place_in_whole {
    int64_t start, run, gap;
} place_in_whole;

typedef struct writer {
    const sg_kernel_spec *spec;
    sg_cuda_chain *chain;
    int64_t threads; /* keep the device busy */
    slot *slot;
    int32_t n_slots, capacity;
    int32_t *parameter; /* of each operand, or NONE */
    bool *scattered;    /* of each operand: read at other places than the element's own */
    sg_shape space;
    place_in_whole place;       /* of a part of a concat */
    sg_cuda_text parts;         /* of a concat, finished */
    sg_cuda_text setup;         /* before the loop */
    sg_cuda_text loads, stores; /* of packs */
    sg_cuda_text reads, steps;  /* of each element between */
    sg_cuda_text ends;          /* of each row, where there are sums: they are completed */
    sg_cuda_text after, zeros;  /* what one thread does with them, and the next row's beginning */
    bool *is_after;             /* of each node of a body with sums: a step on them */
    bool among_sums;            /* the step being written is one */
    sg_shape sums;              /* their shape */
    bool product;               /* begins with a matrix product, whose elements product.cuh shares out */
    bool failed;                /* out of memory */
    const sg_op *unfit;         /* no step for this one */
} writer;

static int32_t add_slot(writer *w, slot s)
{
    if (w->n_slots == w->capacity) {
        int32_t wider = w->capacity ? 2 * w->capacity : 32;
        slot *moved = sg_realloc(w->slot, (size_t)wider * sizeof *moved);
        if (!moved) {
            w->failed = true;
            return NONE;
        }
        w->slot = moved;
        w->capacity = wider;
    }
    w->slot[w->n_slots] = s;
    return w->n_slots++;
}

static int32_t input_slot(writer *w, int32_t input, const sg_shape *shape, sg_dtype dtype)
{
    slot s = {.kind = INPUT, .dtype = dtype, .shape = *shape, .input = input};
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        s.stride[i] = stride;
        stride *= shape->dim[i];
    }
    return add_slot(w, s);
}

static int32_t number_slot(writer *w, double number, sg_dtype dtype)
{
    return add_slot(w, (slot){.kind = NUMBER, .dtype = dtype, .number = number});
}

static int32_t parameter_of(writer *w, int32_t input)
{
    if (w->parameter[input] == NONE) {
        w->parameter[input] = w->chain->n_input;
        w->chain->input[w->chain->n_input++] = input;
    }
    return w->parameter[input];
}

static const char *register_type(sg_dtype dtype) { return dtype == SG_I32 ? "int" : "float"; }
static const char *memory_type(sg_dtype dtype)
{
    return dtype == SG_I32 ? "int" : dtype == SG_BOOL ? "unsigned char" : dtype == SG_BF16 ? "sg_bf16" : "float";
}

static void put_place(sg_cuda_text *t, const sg_cuda_places *p, const char *element)
{
    int64_t inner = 1;
    int32_t terms = 0;
    for (int32_t i = p->rank - 1; i >= 0; inner *= p->dim[i--]) {
        if (p->stride[i] == 0)
            continue;
        sg_cuda_put(t, "%s(index)%lld * (%s", terms++ ? " + " : "", (long long)p->stride[i], element);
        if (inner > 1)
            sg_cuda_put(t, " / (index)%lld", (long long)inner);
        if (i > 0)
            sg_cuda_put(t, " %% (index)%lld", (long long)p->dim[i]);
        sg_cuda_put(t, ")");
    }
    if (terms == 0)
        sg_cuda_put(t, "0");
}

/* const TYPE vAT = sg_read(inK[place]); */
static void put_read(sg_cuda_text *t, const char *indent, const slot *s, int32_t at, int32_t parameter,
                     const sg_cuda_places *p, const char *element)
{
    sg_cuda_put(t, "%sconst %s v%d = sg_read(in%d[", indent, register_type(s->dtype), (int)at, (int)parameter);
    put_place(t, p, element);
    sg_cuda_put(t, "]);\n");
}

/* Of a product: the elements of all packs that a thread finishes at a time (product.cuh). */
static void put_product_read(writer *w, int32_t at, int32_t parameter, const sg_cuda_places *p, sg_cuda_access how)
{
    const char *name = how == SG_CUDA_ACCESS_SAME ? "SAME" : how == SG_CUDA_ACCESS_ELEMENTS ? "ELEMENTS" : "NEIGHBOURS";
    sg_cuda_put(&w->setup, "    const auto at%d = [](index i) -> index { return ", (int)at);
    put_place(&w->setup, p, "i");
    sg_cuda_put(&w->setup, "; };\n    product_hold<%s>(%d, in%d, at%d);\n", name, (int)w->chain->n_streams,
                (int)parameter, (int)at);
    sg_cuda_put(&w->loads, "        const auto p%d = product_load<%s>(%d, in%d, begin, first, at%d);\n", (int)at, name,
                (int)w->chain->n_streams++, (int)parameter, (int)at);
    w->chain->odd_streams |= sg_dtype_size(w->slot[at].dtype) != sizeof(float);
    sg_cuda_put(&w->reads, "            const %s v%d = sg_read(p%d.x[k]);\n", register_type(w->slot[at].dtype), (int)at,
                (int)at);
}

static void load_input(writer *w, int32_t at)
{
    const slot *s = &w->slot[at];
    int32_t parameter = parameter_of(w, s->input);
    sg_cuda_places p = sg_cuda_places_of(&w->space, &s->shape, s->stride);
    sg_cuda_access how = sg_cuda_access_of(&p, w->chain->pack);
    w->scattered[s->input] |= how != SG_CUDA_ACCESS_OWN;
    if (how == SG_CUDA_ACCESS_NUMBER) {
        put_read(&w->setup, "    ", s, at, parameter, &p, "0");
    } else if (w->product) {
        put_product_read(w, at, parameter, &p, how);
    } else if (how == SG_CUDA_ACCESS_SAME) {
        put_read(&w->loads, "        ", s, at, parameter, &p, "first");
    } else if (how == SG_CUDA_ACCESS_ELEMENTS) {
        put_read(&w->reads, "            ", s, at, parameter, &p, "i");
    } else {
        sg_cuda_put(&w->loads, "        const auto p%d = sg_load<V>(in%d + ", (int)at, (int)parameter);
        put_place(&w->loads, &p, "first");
        sg_cuda_put(&w->loads, ");\n");
        sg_cuda_put(&w->reads, "            const %s v%d = sg_read(p%d.x[k]);\n", register_type(s->dtype), (int)at,
                    (int)at);
    }
}

static void load(writer *w, int32_t at)
{
    slot *s = &w->slot[at];
    if (s->loaded)
        return;
    s->loaded = true;
    if (s->kind == NUMBER) {
        float real = s->dtype == SG_BOOL ? (float)(s->number != 0) : (float)s->number;
        uint32_t bits;
        memcpy(&bits, &real, sizeof bits);
        if (s->dtype == SG_I32)
            sg_cuda_put(&w->setup, "    const int v%d = (int)0x%xu;\n", (int)at, (unsigned)(int32_t)s->number);
        else
            sg_cuda_put(&w->setup, "    const float v%d = __int_as_float((int)0x%xu);\n", (int)at, (unsigned)bits);
    } else if (s->kind == INPUT) {
        load_input(w, at);
    }
}

/* ---- steps */

/* An operand of a step on sums, at the sum's place; or as all steps read it. */
static void load_for_step(writer *w, int32_t at)
{
    slot *s = &w->slot[at];
    if (!w->among_sums || s->kind != INPUT) {
        load(w, at);
        return;
    }
    if (s->loaded_after)
        return;
    s->loaded_after = true;
    sg_cuda_places p = sg_cuda_places_of(&w->sums, &s->shape, s->stride);
    w->scattered[s->input] = true;
    sg_cuda_put(&w->after, "            const %s t%d = sg_read(in%d[", register_type(s->dtype), (int)at,
                (int)parameter_of(w, s->input));
    put_place(&w->after, &p, "place");
    sg_cuda_put(&w->after, "]);\n");
}

/* The first letter of its name. */
static char letter_of(const writer *w, const slot *s)
{
    return s->kind == SUM ? 's' : s->kind == INPUT && w->among_sums ? 't' : 'v';
}

/* One node: its operands as slots (NONE for operands read for their shape alone). */
typedef struct unit {
    const sg_op *op;
    const sg_attr *attr;
    int32_t n_in;
    const int32_t *in;
    const sg_shape *shape; /* of the output */
    sg_dtype dtype;
} unit;

static int32_t unfit(writer *w, const sg_op *op)
{
    w->unfit = op;
    return NONE;
}

static int32_t result_slot(writer *w, const unit *u)
{
    w->chain->n_steps++;
    return add_slot(w, (slot){.kind = RESULT, .dtype = u->dtype, .shape = *u->shape, .after = w->among_sums});
}

static int32_t write_tile(writer *w, const unit *u)
{
    slot x = w->slot[u->in[0]], view = x;
    if (x.kind == NUMBER)
        return u->in[0];
    if (x.kind != INPUT)
        return unfit(w, u->op);
    int32_t axis = (int32_t)u->attr[0].i;
    view.shape = *u->shape;
    view.loaded = false;
    for (int32_t i = 0; i < u->shape->rank; i++)
        view.stride[i] = i == axis ? 0 : x.stride[i < axis ? i : i - 1];
    return add_slot(w, view);
}

static int32_t write_draw(writer *w, const unit *u)
{
    if (u->in[1] == NONE || w->slot[u->in[1]].kind != INPUT)
        return unfit(w, u->op);
    int32_t words = w->slot[u->in[1]].input, at = result_slot(w, u);
    w->scattered[words] = true;
    w->chain->draws = true;
    if (u->op == &sg_op_keyed_uniform)
        sg_cuda_put(&w->setup, "    const sg_draw d%d = sg_draw_of_key(in%d);\n", (int)at, (int)parameter_of(w, words));
    else
        sg_cuda_put(&w->setup, "    const sg_draw d%d = sg_draw_make(%lluull, in%d, repeat);\n", (int)at,
                    (unsigned long long)u->attr[0].i, (int)parameter_of(w, words));
    sg_cuda_put(&w->loads, "        const auto b%d = %s(d%d, first);\n", (int)at,
                w->product ? "product_bits" : "sg_draw_bits<V>", (int)at);
    sg_cuda_put(&w->steps, "            const float v%d = sg_%s_from_bits(b%d.x[k]);\n", (int)at,
                u->op == &sg_op_normal_like ? "normal" : "uniform", (int)at);
    return at;
}

static int32_t write_call(writer *w, const unit *u, const char *function)
{
    sg_cuda_text *steps = w->among_sums ? &w->after : &w->steps;
    for (int32_t k = 0; k < u->n_in; k++)
        load_for_step(w, u->in[k]);
    int32_t at = result_slot(w, u);
    sg_cuda_put(steps, "            const %s v%d = sg_%s(", register_type(u->dtype), (int)at, function);
    for (int32_t k = 0; k < u->n_in; k++)
        sg_cuda_put(steps, "%s%c%d", k ? ", " : "", letter_of(w, &w->slot[u->in[k]]), (int)u->in[k]);
    for (int32_t k = 0; u->op != &sg_op_cast && k < u->op->n_attrs; k++) {
        float number = (float)u->attr[k].f;
        uint32_t bits;
        memcpy(&bits, &number, sizeof bits);
        sg_cuda_put(steps, ", __int_as_float((int)0x%xu)", (unsigned)bits);
    }
    sg_cuda_put(steps, ");\n");
    return at;
}

static int32_t write_product(writer *w, const unit *u)
{
    int32_t at = result_slot(w, u);
    for (int32_t k = 0; k < 2; k++)
        w->chain->factor[k] = w->slot[u->in[k]].input;
    sg_cuda_put(&w->reads, "            const float v%d = element[k];\n", (int)at);
    return at;
}

static int32_t write_unit(writer *w, const unit *u)
{
    if (u->op == &sg_op_matmul)
        return write_product(w, u);
    if (u->op == &sg_op_fill_like)
        return number_slot(w, u->attr[0].f, u->dtype);
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

/* Threads add up as they go; the end of the row, or of the columns, joins what they have. */
static int32_t write_sum(writer *w, int32_t of, const sg_shape *shape)
{
    int lanes = (int)w->chain->lanes;
    bool columns = w->chain->sum.inner > 1;
    load(w, of);
    w->chain->n_steps++;
    int32_t at = add_slot(w, (slot){.kind = SUM, .dtype = SG_F32, .shape = *shape});
    sg_cuda_put(&w->setup, "    float s%d = 0;\n", (int)at);
    sg_cuda_put(&w->steps, "            s%d += v%d;\n", (int)at, (int)of);
    if (lanes > 1)
        sg_cuda_put(&w->ends, "        s%d = sg_join_%s<%d>(s%d);\n", (int)at, columns ? "groups" : "lanes",
                    columns ? SG_CUDA_CHAIN_BLOCK / WARP : lanes, (int)at);
    sg_cuda_put(&w->zeros, "        s%d = 0;\n", (int)at);
    return at;
}

static void put_store(writer *w, int32_t output)
{
    const place_in_whole *p = &w->place;
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

static void leave(writer *w, int32_t at, int32_t output)
{
    if (at == NONE)
        return;
    if (w->slot[at].kind == SUM || w->slot[at].after) {
        sg_cuda_put(&w->after, "            sg_write(&out%d[place], %c%d);\n", (int)output, letter_of(w, &w->slot[at]),
                    (int)at);
        return;
    }
    load(w, at);
    sg_cuda_put(&w->loads, "        sg_pack<%s, V> r%d;\n", memory_type(w->spec->out_dtype[output]), (int)output);
    sg_cuda_put(&w->steps, "            sg_write(&r%d.x[k], v%d);\n", (int)output, (int)at);
    put_store(w, output);
}

/* ---- nodes */

static int32_t write_node(writer *w, sg_graph *body, const sg_node *node, const int32_t *slot_of, int32_t *next_input)
{
    const sg_shape *shape = sg_shape_of(sg_value_at(body, node->out));
    sg_dtype dtype = sg_dtype_of(sg_value_at(body, node->out));
    int32_t in[3] = {NONE, NONE, NONE};
    if (node->op == &sg_op_constant && node->attr[0].count == 1)
        return number_slot(w, node->attr[0].reals[0], dtype);
    if (node->op->flags & SG_OP_LEAF)
        return input_slot(w, (*next_input)++, shape, dtype);
    if (sg_cuda_step_sum(node->op))
        return write_sum(w, slot_of[node->in[0]], shape);
    if (node->n_in > 3)
        return unfit(w, node->op);
    for (int32_t k = 0; k < node->n_in; k++)
        in[k] = slot_of[node->in[k]];
    return write_unit(w, &(unit){node->op, node->attr, node->n_in, in, shape, dtype});
}

static bool is_input(const sg_node *node)
{
    return node->op->flags & SG_OP_LEAF && !(node->op == &sg_op_constant && node->attr[0].count == 1);
}

/* The nodes that are wanted, or all. */
static void write_nodes(writer *w, sg_graph *body, const bool *wanted, int32_t *slot_of)
{
    int32_t next_input = 0;
    for (int32_t n = 0; !w->failed && !w->unfit && n < sg_node_count(body); n++) {
        const sg_node *node = sg_node_at(body, n);
        w->among_sums = w->is_after && w->is_after[n];
        if (!wanted || wanted[n])
            slot_of[node->out] = write_node(w, body, node, slot_of, &next_input);
        else
            next_input += is_input(node);
    }
    w->among_sums = false;
}

/* The steps on sums are of one shape, or spread to it; the sums are too, but for axes of size 1. */
static void widen_sums(writer *w, const sg_shape *shape)
{
    int64_t now = sg_shape_count(&w->sums), count = sg_shape_count(shape);
    if (w->sums.rank == 0 || count > now || (count == now && shape->rank > w->sums.rank))
        w->sums = *shape;
}

/* Steps on sums: neither is a sum made of them, nor are they of the shape of what is summed. */
static bool find_steps_after(writer *w, sg_graph *body)
{
    int32_t nodes = sg_node_count(body), results = sg_result_count(body), n = 0;
    int32_t *roots = sg_calloc(nodes + results + 1, sizeof *roots);
    w->is_after = sg_calloc(nodes + 1, sizeof *w->is_after);
    if (!roots || !w->is_after) {
        sg_free(roots);
        return false;
    }
    for (int32_t i = 0; i < nodes; i++)
        if (sg_cuda_step_sum(sg_node_at(body, i)->op))
            roots[n++] = sg_node_at(body, i)->in[0];
    for (int32_t j = 0; j < results; j++)
        if (sg_shape_equal(sg_shape_of(sg_result_value(body, j)), &w->space))
            roots[n++] = sg_result_value(body, j).id;
    sg_graph_reach(body, roots, n, false, w->is_after);
    for (int32_t i = 0; i < nodes; i++) {
        const sg_node *node = sg_node_at(body, i);
        w->is_after[i] = !w->is_after[i] && !(node->op->flags & SG_OP_LEAF) && !sg_cuda_step_sum(node->op);
        if (w->is_after[i])
            widen_sums(w, sg_shape_of(sg_value_at(body, node->out)));
    }
    sg_free(roots);
    return true;
}

static void write_body(writer *w, sg_graph *body, int32_t *slot_of)
{
    if (w->chain->sum.length > 0)
        w->failed |= !find_steps_after(w, body);
    write_nodes(w, body, NULL, slot_of);
    for (int32_t j = 0; !w->failed && !w->unfit && j < sg_result_count(body); j++) {
        sg_value v = sg_result_value(body, j);
        leave(w, slot_of[v.id], j);
    }
}

static void write_single(writer *w)
{
    const sg_kernel_spec *spec = w->spec;
    int32_t in[3] = {NONE, NONE, NONE};
    for (int32_t k = 0; k < spec->n_in && k < 3; k++)
        if (!(spec->node->op->shape_only >> k & 1))
            in[k] = input_slot(w, k, &spec->in_shape[k], spec->in_dtype[k]);
    unit u = {spec->node->op, spec->attr, spec->n_in, in, &spec->out_shape[0], spec->out_dtype[0]};
    if (!w->failed)
        leave(w, write_unit(w, &u), 0);
}

/* ---- the whole */

/* The elements of a product, those of EACH packs at a time. */
static void put_product(const writer *w, sg_cuda_text *all)
{
    sg_cuda_put(all,
                "%s    if (!EARLY)\n        product_compute(a, b);\n"
                "#pragma unroll 1\n    for (int begin = 0; begin < OWN; begin += EACH) {\n"
                "        constexpr int V = EACH * W;\n        const product_places first(begin);\n%s"
                "        if (EARLY)\n            product_compute(a, b);\n"
                "        float element[V];\n        product_elements(a, b, begin, first, element);\n"
                "#pragma unroll\n        for (int k = 0; k < V; k++) {\n%s%s        }\n%s    }\n",
                w->setup.at, w->loads.at, w->reads.at, w->steps.at, w->stores.at);
}

/* Every element once, a pack at a time, if nothing is summed. */
static void put_loop(const writer *w, sg_cuda_text *all)
{
    const sg_cuda_chain *c = w->chain;
    if (c->sum.length > 0) {
        sg_cuda_text ends = {.capacity = 256, .at = sg_calloc(256, 1)};
        ends.failed = !ends.at;
        sg_cuda_put(&ends, "%s        if (leads) {\n%s        }\n%s", w->ends.at, w->after.at, w->zeros.at);
        sg_cuda_put_sums(c, ends.at, all);
        all->failed |= ends.failed;
        sg_free(ends.at);
        return;
    }
    sg_cuda_put(all, "    const index thread = blockIdx.x * (index)blockDim.x + threadIdx.x, all = gridDim.x * "
                     "(index)blockDim.x;\n");
    sg_cuda_put(all,
                "    for (index p = thread; p < (index)%lldull; p += all)\n        part(sg_width<%d>(), p * %d);\n",
                (long long)(c->count / c->pack), (int)c->pack, (int)c->pack);
    if (c->count % c->pack != 0)
        sg_cuda_put(
            all,
            "    for (index i = (index)%lldull + thread; i < (index)%lldull; i += all)\n        part(sg_width<1>(), "
            "i);\n",
            (long long)(c->count / c->pack * c->pack), (long long)c->count);
}

/* What is done before the elements, for a pack of them, and the loop. */
static void put_part(const writer *w, sg_cuda_text *all)
{
    if (w->product) {
        put_product(w, all);
        return;
    }
    sg_cuda_put(all, "%s", w->setup.at);
    sg_cuda_put(
        all,
        "    const auto part = [&](auto width, index first) {\n        constexpr int V = decltype(width)::value;\n");
    sg_cuda_put(all,
                "%s#pragma unroll\n        for (int k = 0; k < V; k++) {\n            const index i = first + k;\n",
                w->loads.at);
    sg_cuda_put(all, "            (void)i;\n%s%s        }\n%s    };\n", w->reads.at, w->steps.at, w->stores.at);
    put_loop(w, all);
}

/* ---- a concat: a chain of each operand, in a loop of its own */

static void begin_part(writer *w, const sg_shape *space)
{
    sg_cuda_text *texts[] = {&w->setup, &w->loads, &w->reads, &w->steps, &w->stores};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        texts[i]->length = 0;
        texts[i]->at[0] = 0;
    }
    w->n_slots = 0;
    w->space = *space;
    w->chain->count = sg_shape_count(space);
    w->chain->pack = sg_cuda_chain_pack(w->spec, w->chain, w->threads);
    while (w->place.run % w->chain->pack != 0)
        w->chain->pack /= 2;
}

static void write_operand(writer *w, sg_graph *body, int32_t value, bool *wanted, int32_t *slot_of)
{
    memset(wanted, 0, (size_t)sg_node_count(body) * sizeof *wanted);
    sg_graph_reach(body, &value, 1, false, wanted);
    begin_part(w, sg_shape_of(sg_value_at(body, value)));
    write_nodes(w, body, wanted, slot_of);
    if (w->failed || w->unfit)
        return;
    leave(w, slot_of[value], 0);
    sg_cuda_put(&w->parts, "    {\n");
    put_part(w, &w->parts);
    sg_cuda_put(&w->parts, "    }\n");
}

/* The chain's pack becomes that of its largest part. */
static void write_concat(writer *w, sg_graph *body, const sg_node *concat, int32_t *slot_of)
{
    sg_axis_split y = sg_split_at(&w->space, concat->attr[0].i);
    bool *wanted = sg_calloc(sg_node_count(body) + 1, sizeof *wanted);
    int64_t before = 0, count = w->chain->count, most = 0;
    int32_t pack = 1;
    w->failed |= !wanted;
    for (int32_t k = 0; !w->failed && !w->unfit && k < concat->n_in; k++) {
        sg_axis_split x = sg_split_at(sg_shape_of(sg_value_at(body, concat->in[k])), concat->attr[0].i);
        w->place = (place_in_whole){before * y.inner, x.size * x.inner, (y.size - x.size) * y.inner};
        before += x.size;
        if (x.outer * x.size * x.inner == 0)
            continue;
        write_operand(w, body, concat->in[k], wanted, slot_of);
        pack = w->chain->count > most ? w->chain->pack : pack;
        most = w->chain->count > most ? w->chain->count : most;
    }
    w->chain->count = count;
    w->chain->pack = pack;
    sg_free(wanted);
}

/* ---- the whole */

/* The z axis of the grid counts replicas, outside of what a product uses it for. */
static void put_replica(const writer *w, sg_cuda_text *all)
{
    const sg_cuda_chain *c = w->chain;
    bool product = w->product;
    sg_cuda_put(all, "    const unsigned long long offset = %s * stride;\n",
                product ? "product_replica()" : "blockIdx.z");
    if (product)
        sg_cuda_put(all, "    a = sg_further(a, offset);\n    b = sg_further(b, offset);\n");
    for (int32_t k = 0; k < c->n_input; k++)
        sg_cuda_put(all, "    in%d = sg_further(in%d, offset);\n", (int)k, (int)k);
    for (int32_t j = 0; j < w->spec->n_out; j++)
        sg_cuda_put(all, "    out%d = sg_further(out%d, offset);\n", (int)j, (int)j);
}

static void put_kernel(const writer *w, sg_cuda_text *all)
{
    const sg_kernel_spec *spec = w->spec;
    const sg_cuda_chain *c = w->chain;
    bool product = w->product;
    sg_cuda_put(all, "#include \"random.h\"\n#include \"functions.h\"\ntypedef %s index;\n%s",
                c->count < INT32_MAX / 2 ? "unsigned" : "unsigned long long",
                product ? "#include \"product.h\"\n" : "");
    sg_cuda_put(all, "extern \"C\" __global__ void %schain(%s", product ? "PRODUCT_BOUNDS " : "",
                product ? "const float *a, const float *b, " : "");
    for (int32_t k = 0; k < c->n_input; k++)
        sg_cuda_put(all, "const %s *in%d, ", memory_type(spec->in_dtype[c->input[k]]), (int)k);
    for (int32_t j = 0; j < spec->n_out; j++)
        sg_cuda_put(all, "%s *out%d, ", memory_type(spec->out_dtype[j]), (int)j);
    sg_cuda_put(all, "unsigned long long repeat, unsigned long long stride)\n{\n    sg_wait();\n");
    put_replica(w, all);
    if (w->parts.length > 0)
        sg_cuda_put(all, "%s", w->parts.at);
    else
        put_part(w, all);
    sg_cuda_put(all, "}\n");
}

/* Output j may lie where an input of its element size lay that is read at its own element alone. */
static void find_aliases(const writer *w)
{
    const sg_kernel_spec *spec = w->spec;
    for (int32_t j = 0; j < spec->n_out; j++) {
        w->chain->alias[j] = NONE;
        for (int32_t k = 0; k < spec->n_in && w->chain->alias[j] == NONE; k++) {
            bool taken = w->parameter[k] == NONE || w->scattered[k] || k == w->chain->factor[0] ||
                         k == w->chain->factor[1] ||
                         sg_dtype_size(spec->in_dtype[k]) != sg_dtype_size(spec->out_dtype[j]);
            taken |= w->place.run > 0 || !sg_shape_equal(&spec->out_shape[j], &w->space);
            for (int32_t i = 0; i < j; i++)
                taken |= w->chain->alias[i] == k;
            if (!taken)
                w->chain->alias[j] = k;
        }
    }
}

static bool start(writer *w)
{
    const sg_kernel_spec *spec = w->spec;
    sg_cuda_text *texts[] = {&w->parts,  &w->setup, &w->loads, &w->reads, &w->steps,
                             &w->stores, &w->ends,  &w->after, &w->zeros};
    w->parameter = sg_calloc(spec->n_in + 1, sizeof *w->parameter);
    w->scattered = sg_calloc(spec->n_in + 1, sizeof *w->scattered);
    w->chain->factor[0] = w->chain->factor[1] = NONE;
    w->chain->input = sg_calloc(spec->n_in + 1, sizeof *w->chain->input);
    w->chain->alias = sg_calloc(spec->n_out + 1, sizeof *w->chain->alias);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        texts[i]->capacity = 256;
        texts[i]->at = sg_calloc(256, 1);
        w->failed |= !texts[i]->at;
    }
    for (int32_t k = 0; w->parameter && k < spec->n_in; k++)
        w->parameter[k] = NONE;
    return !w->failed && w->parameter && w->scattered && w->chain->input && w->chain->alias;
}

static void finish(writer *w)
{
    sg_free(w->slot);
    sg_free(w->parameter);
    sg_free(w->scattered);
    sg_free(w->parts.at);
    sg_free(w->setup.at);
    sg_free(w->loads.at);
    sg_free(w->reads.at);
    sg_free(w->steps.at);
    sg_free(w->stores.at);
    sg_free(w->ends.at);
    sg_free(w->after.at);
    sg_free(w->zeros.at);
    sg_free(w->is_after);
}

/* The concat that the chain ends in, or NULL. */
static const sg_node *concat_of(sg_graph *body)
{
    const sg_node *last = sg_node_of(sg_result_value(body, 0));
    return last->op == &sg_op_concat ? last : NULL;
}

static void write_fused(writer *w)
{
    sg_graph *body = w->spec->attr[0].graph;
    const sg_node *concat = concat_of(body);
    int32_t *slot_of = sg_calloc(sg_value_count(body) + 1, sizeof *slot_of);
    w->failed |= !slot_of;
    if (!w->failed && concat)
        write_concat(w, body, concat, slot_of);
    else if (!w->failed)
        write_body(w, body, slot_of);
    sg_free(slot_of);
}

static void write_all(writer *w)
{
    if (w->spec->node->op == &sg_op_fused)
        write_fused(w);
    else
        write_single(w);
    if (w->failed || w->unfit)
        return;
    sg_cuda_text all = {.capacity = 1024, .at = sg_calloc(1024, 1)};
    w->failed = !all.at;
    if (!w->failed)
        put_kernel(w, &all);
    w->failed |= all.failed || w->setup.failed || w->loads.failed || w->reads.failed || w->steps.failed;
    w->failed |= w->stores.failed || w->ends.failed || w->after.failed || w->zeros.failed || w->parts.failed;
    w->chain->source = all.at;
    find_aliases(w);
}

/* A thread a column where there are many, whatever the device; 0 threads are no device (see chain.c). */
static int32_t lanes_of(const writer *w)
{
    const sg_sum_form *f = &w->chain->sum;
    if (f->inner > 1)
        return f->outer * f->inner >= MANY_COLUMNS || w->threads == 0 ? 1 : WARP;
    return f->length <= WARP_ROW ? WARP : SG_CUDA_CHAIN_BLOCK;
}

/* The iteration space is the shape of what is summed, or else of every output. */
static void find_space(writer *w)
{
    const sg_kernel_spec *spec = w->spec;
    sg_graph *body = spec->node->op == &sg_op_fused ? spec->attr[0].graph : NULL;
    w->space = spec->out_shape[0];
    for (int32_t n = 0; body && n < sg_node_count(body); n++) {
        const sg_node *node = sg_node_at(body, n);
        if (!sg_cuda_step_sum(node->op))
            continue;
        w->space = *sg_shape_of(sg_value_at(body, node->in[0]));
        sg_fuse_sum_form(node, &w->space, sg_shape_of(sg_value_at(body, node->out)), &w->chain->sum);
        w->chain->lanes = lanes_of(w);
    }
    w->chain->count = sg_shape_count(&w->space);
}

static bool begins_with_product(const sg_kernel_spec *spec)
{
    return spec->node->op == &sg_op_matmul ||
           (spec->node->op == &sg_op_fused && sg_cuda_product_in(spec->attr[0].graph));
}

sg_status sg_cuda_chain_write(sg_cuda_chain *chain, const sg_kernel_spec *spec, int64_t threads, sg_error *err)
{
    writer w = {.spec = spec, .chain = chain, .threads = threads};
    if (spec->n_in + spec->n_out > MOST_POINTERS)
        return sg_fail(err, SG_E_UNSUPPORTED, "a chain of %d operands is too long", (int)(spec->n_in + spec->n_out));
    w.failed = !start(&w);
    find_space(&w);
    w.product = begins_with_product(spec);
    chain->pack = w.product ? PRODUCT_PACK : sg_cuda_chain_pack(spec, chain, threads);
    if (!w.failed)
        write_all(&w);
    finish(&w);
    if (w.unfit)
        return sg_fail(err, SG_E_UNSUPPORTED, "op %s cannot be part of a chain as it stands", w.unfit->name);
    return w.failed ? sg_fail(err, SG_E_MEMORY, "out of memory writing a kernel") : SG_OK;
}

void sg_cuda_chain_release(sg_cuda_chain *chain)
{
    sg_free(chain->source);
    sg_free(chain->input);
    sg_free(chain->alias);
}
