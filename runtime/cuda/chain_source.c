/* chain_source.c - the text of a chain's kernel. A thread takes a pack of neighbouring elements: it loads them in words of up to
 * 16 bytes, does a line a step for each, and stores, so that an output may lie where an input lay. Shapes are in the text as
 * numbers: divisions by them become multiplications, one a pack where an operand is broadcast along whole packs. The elements
 * that are left at the end are packs of one. */
#include <string.h>

#include "ops/ops.h"
#include "ops/ops_internal.h"
#include "runtime/cuda/chain_writer_internal.h"
#include "runtime/cuda/product_internal.h"

extern const sg_op sg_op_concat, sg_op_constant, sg_op_csr_matmul, sg_op_fused, sg_op_matmul;

enum { MOST_POINTERS = 400 };

/* product.cuh and product_csr.cuh take as many neighbours at a time, or a half, or one. */
enum { PRODUCT_PACK = 4 };

/* A row of more elements is added up by a whole block. */
enum { WARP = 32, WARP_ROW = 1024, MANY_COLUMNS = 1 << 16 };

/* ---- nodes */

static int32_t write_node(sg_cuda_writer *w, sg_graph *body, const sg_node *node, const int32_t *slot_of,
                          int32_t *next_input)
{
    const sg_shape *shape = sg_shape_of(sg_value_at(body, node->out));
    sg_dtype dtype = sg_dtype_of(sg_value_at(body, node->out));
    int32_t in[SG_CUDA_CHAIN_FACTORS] = {SG_CUDA_NONE, SG_CUDA_NONE, SG_CUDA_NONE};
    if (node->op == &sg_op_constant && node->attr[0].count == 1)
        return sg_cuda_slot_of_number(w, node->attr[0].reals[0], dtype);
    if (node->op->flags & SG_OP_LEAF)
        return sg_cuda_slot_of_input(w, (*next_input)++, shape, dtype);
    if (sg_cuda_step_sum(node->op))
        return sg_cuda_write_sum(w, slot_of[node->in[0]], shape);
    if (node->n_in > (node->op == &sg_op_csr_matmul ? SG_CUDA_CHAIN_FACTORS : 3)) {
        w->unfit = node->op;
        return SG_CUDA_NONE;
    }
    for (int32_t k = 0; k < node->n_in; k++)
        in[k] = slot_of[node->in[k]];
    return sg_cuda_write_unit(w, &(sg_cuda_unit){node->op, node->attr, node->n_in, in, shape, dtype});
}

static bool is_input(const sg_node *node)
{
    return node->op->flags & SG_OP_LEAF && !(node->op == &sg_op_constant && node->attr[0].count == 1);
}

/* The nodes that are wanted, or all. */
static void write_nodes(sg_cuda_writer *w, sg_graph *body, const bool *wanted, int32_t *slot_of)
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
static void widen_sums(sg_cuda_writer *w, const sg_shape *shape)
{
    int64_t now = sg_shape_count(&w->sums), count = sg_shape_count(shape);
    if (w->sums.rank == 0 || count > now || (count == now && shape->rank > w->sums.rank))
        w->sums = *shape;
}

/* Steps on sums: neither is a sum made of them, nor are they of the shape of what is summed. */
static bool find_steps_after(sg_cuda_writer *w, sg_graph *body)
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

static void write_body(sg_cuda_writer *w, sg_graph *body, int32_t *slot_of)
{
    if (w->chain->sum.length > 0)
        w->failed |= !find_steps_after(w, body);
    write_nodes(w, body, NULL, slot_of);
    for (int32_t j = 0; !w->failed && !w->unfit && j < sg_result_count(body); j++) {
        sg_value v = sg_result_value(body, j);
        sg_cuda_write_result(w, slot_of[v.id], j);
    }
}

static void write_single(sg_cuda_writer *w)
{
    const sg_kernel_spec *spec = w->spec;
    int32_t in[3] = {SG_CUDA_NONE, SG_CUDA_NONE, SG_CUDA_NONE};
    for (int32_t k = 0; k < spec->n_in && k < 3; k++)
        if (!(spec->node->op->shape_only >> k & 1))
            in[k] = sg_cuda_slot_of_input(w, k, &spec->in_shape[k], spec->in_dtype[k]);
    sg_cuda_unit u = {spec->node->op, spec->attr, spec->n_in, in, &spec->out_shape[0], spec->out_dtype[0]};
    if (!w->failed)
        sg_cuda_write_result(w, sg_cuda_write_unit(w, &u), 0);
}

/* ---- loops over the elements */

/* The elements of a product, those of EACH packs at a time. */
static void put_product(const sg_cuda_writer *w, sg_cuda_text *all)
{
    sg_cuda_put(all,
                "%s    if (!EARLY)\n        product_compute(of);\n"
                "#pragma unroll 1\n    for (int begin = first_pack(); begin < OWN; begin += EACH) {\n"
                "        constexpr int V = EACH * W;\n        const product_places first(begin);\n%s"
                "        if (EARLY)\n            product_compute(of);\n"
                "        float element[V];\n        product_elements(of, begin, first, element);\n"
                "#pragma unroll\n        for (int k = 0; k < V; k++) {\n%s%s        }\n%s    }\n",
                w->setup.at, w->loads.at, w->reads.at, w->steps.at, w->stores.at);
}

/* Every element once, a pack at a time, if nothing is summed. */
static void put_loop(const sg_cuda_writer *w, sg_cuda_text *all)
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

/* A pack has a place; that of a sum is given by its parts, and `group` is the sum, of those that one thread has, that it is added to. */
static void put_head(const sg_cuda_writer *w, sg_cuda_text *all)
{
    const sg_sum_form *sum = &w->chain->sum;
    if (sum->length == 0)
        sg_cuda_put(all, "    const auto part = [&](auto width, index first) {\n");
    else
        sg_cuda_put(all,
                    "    const auto part = [&](auto width, index row, index step, index column, int group) {\n"
                    "        const index first = (row * (index)%lldull + step) * (index)%lldull + column;\n",
                    (long long)sum->length, (long long)sum->inner);
    sg_cuda_put(all, "        constexpr int V = decltype(width)::value;\n");
}

/* What is done before the elements, for a pack of them, and the loop. */
static void put_part(const sg_cuda_writer *w, sg_cuda_text *all)
{
    if (w->product) {
        put_product(w, all);
        return;
    }
    sg_cuda_put(all, "%s", w->setup.at);
    put_head(w, all);
    sg_cuda_put(all,
                "%s#pragma unroll\n        for (int k = 0; k < V; k++) {\n            const index i = first + k;\n",
                w->loads.at);
    sg_cuda_put(all, "            (void)i;\n%s%s        }\n%s    };\n", w->reads.at, w->steps.at, w->stores.at);
    put_loop(w, all);
}

/* ---- a concat: a chain of each operand, in a loop of its own */

static void begin_part(sg_cuda_writer *w, const sg_shape *space)
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

static void write_operand(sg_cuda_writer *w, sg_graph *body, int32_t value, bool *wanted, int32_t *slot_of)
{
    memset(wanted, 0, (size_t)sg_node_count(body) * sizeof *wanted);
    sg_graph_reach(body, &value, 1, false, wanted);
    begin_part(w, sg_shape_of(sg_value_at(body, value)));
    write_nodes(w, body, wanted, slot_of);
    if (w->failed || w->unfit)
        return;
    sg_cuda_write_result(w, slot_of[value], 0);
    sg_cuda_put(&w->parts, "    {\n");
    put_part(w, &w->parts);
    sg_cuda_put(&w->parts, "    }\n");
}

/* The chain's pack becomes that of its largest part. */
static void write_concat(sg_cuda_writer *w, sg_graph *body, const sg_node *concat, int32_t *slot_of)
{
    sg_axis_split y = sg_split_at(&w->space, concat->attr[0].i);
    bool *wanted = sg_calloc(sg_node_count(body) + 1, sizeof *wanted);
    int64_t before = 0, count = w->chain->count, most = 0;
    int32_t pack = 1;
    w->failed |= !wanted;
    for (int32_t k = 0; !w->failed && !w->unfit && k < concat->n_in; k++) {
        sg_axis_split x = sg_split_at(sg_shape_of(sg_value_at(body, concat->in[k])), concat->attr[0].i);
        w->place = (sg_cuda_place_in_whole){before * y.inner, x.size * x.inner, (y.size - x.size) * y.inner};
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
static void put_replica(const sg_cuda_writer *w, sg_cuda_text *all)
{
    const sg_cuda_chain *c = w->chain;
    bool product = w->product;
    sg_cuda_put(all, "    const unsigned long long offset = %s;\n",
                product ? "product_offset(stride)" : "blockIdx.z * stride");
    if (product)
        sg_cuda_put(all, "    of = product_further(of, offset);\n");
    for (int32_t k = 0; k < c->n_input; k++)
        sg_cuda_put(all, "    in%d = sg_further(in%d, offset);\n", (int)k, (int)k);
    for (int32_t j = 0; j < w->spec->n_out; j++)
        sg_cuda_put(all, "    out%d = sg_further(out%d, offset);\n", (int)j, (int)j);
}

static void put_kernel(const sg_cuda_writer *w, sg_cuda_text *all)
{
    const sg_kernel_spec *spec = w->spec;
    const sg_cuda_chain *c = w->chain;
    bool product = w->product;
    sg_cuda_put(all, "#include \"random.h\"\n#include \"functions.h\"\ntypedef %s index;\n%s",
                c->count < INT32_MAX / 2 ? "unsigned" : "unsigned long long",
                w->sparse ? "#include \"product_csr.h\"\n"
                : product ? "#include \"product.h\"\n"
                          : "");
    sg_cuda_put(all, "extern \"C\" __global__ void %schain(%s", product ? "PRODUCT_BOUNDS " : "",
                product ? "product_operands of, " : "");
    for (int32_t k = 0; k < c->n_input; k++)
        sg_cuda_put(all, "const %s *in%d, ", sg_cuda_memory_type(spec->in_dtype[c->input[k]]), (int)k);
    for (int32_t j = 0; j < spec->n_out; j++)
        sg_cuda_put(all, "%s *out%d, ", sg_cuda_memory_type(spec->out_dtype[j]), (int)j);
    sg_cuda_put(all, "unsigned long long repeat, unsigned long long stride)\n{\n    sg_wait();\n");
    put_replica(w, all);
    if (w->parts.length > 0)
        sg_cuda_put(all, "%s", w->parts.at);
    else
        put_part(w, all);
    sg_cuda_put(all, "}\n");
}

/* Output j may lie where an input of its element size lay that is read at its own element alone. */
static void find_aliases(const sg_cuda_writer *w)
{
    const sg_kernel_spec *spec = w->spec;
    for (int32_t j = 0; j < spec->n_out; j++) {
        w->chain->alias[j] = SG_CUDA_NONE;
        for (int32_t k = 0; k < spec->n_in && w->chain->alias[j] == SG_CUDA_NONE; k++) {
            bool taken = w->parameter[k] == SG_CUDA_NONE || w->scattered[k] ||
                         sg_dtype_size(spec->in_dtype[k]) != sg_dtype_size(spec->out_dtype[j]);
            taken |= w->place.run > 0 || !sg_shape_equal(&spec->out_shape[j], &w->space);
            for (int32_t i = 0; i < SG_CUDA_CHAIN_FACTORS; i++)
                taken |= w->chain->factor[i] == k;
            for (int32_t i = 0; i < j; i++)
                taken |= w->chain->alias[i] == k;
            if (!taken)
                w->chain->alias[j] = k;
        }
    }
}

static bool start(sg_cuda_writer *w)
{
    const sg_kernel_spec *spec = w->spec;
    sg_cuda_text *texts[] = {&w->parts,  &w->setup, &w->loads, &w->reads, &w->steps,
                             &w->stores, &w->ends,  &w->after, &w->zeros};
    w->parameter = sg_calloc(spec->n_in + 1, sizeof *w->parameter);
    w->scattered = sg_calloc(spec->n_in + 1, sizeof *w->scattered);
    for (int32_t k = 0; k < SG_CUDA_CHAIN_FACTORS; k++)
        w->chain->factor[k] = SG_CUDA_NONE;
    w->chain->input = sg_calloc(spec->n_in + 1, sizeof *w->chain->input);
    w->chain->alias = sg_calloc(spec->n_out + 1, sizeof *w->chain->alias);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        texts[i]->capacity = 256;
        texts[i]->at = sg_calloc(256, 1);
        w->failed |= !texts[i]->at;
    }
    for (int32_t k = 0; w->parameter && k < spec->n_in; k++)
        w->parameter[k] = SG_CUDA_NONE;
    return !w->failed && w->parameter && w->scattered && w->chain->input && w->chain->alias;
}

static void finish(sg_cuda_writer *w)
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

static void write_fused(sg_cuda_writer *w)
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

static void write_all(sg_cuda_writer *w)
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
static int32_t lanes_of(const sg_cuda_writer *w)
{
    const sg_sum_form *f = &w->chain->sum;
    if (f->inner > 1)
        return f->outer * f->inner >= MANY_COLUMNS || w->threads == 0 ? 1 : WARP;
    return f->length <= WARP_ROW ? WARP : SG_CUDA_CHAIN_BLOCK;
}

/* The iteration space is the shape of what is summed, or else of every output. */
static void find_space(sg_cuda_writer *w)
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

static void find_product(sg_cuda_writer *w)
{
    const sg_kernel_spec *spec = w->spec;
    sg_graph *body = spec->node->op == &sg_op_fused ? spec->attr[0].graph : NULL;
    w->sparse = body && sg_cuda_csr_in(body);
    w->product = w->sparse || spec->node->op == &sg_op_matmul || (body && sg_cuda_product_in(body));
}

sg_status sg_cuda_chain_write(sg_cuda_chain *chain, const sg_kernel_spec *spec, int64_t threads, sg_error *err)
{
    sg_cuda_writer w = {.spec = spec, .chain = chain, .threads = threads};
    if (spec->n_in + spec->n_out > MOST_POINTERS)
        return sg_fail(err, SG_E_UNSUPPORTED, "a chain of %d operands is too long", (int)(spec->n_in + spec->n_out));
    chain->n_out = spec->n_out;
    w.failed = !start(&w);
    find_space(&w);
    find_product(&w);
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
