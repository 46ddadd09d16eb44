/* column_sums.c - sums over the rows of what a kernel makes, by the kernel itself.
 *
 * The cotangent that leaves a normalisation, attention or gelu is the cotangent of x W + b, and summed over all rows it is the
 * gradient of b. The kernel has each element in a register, so it need not be read again:
 *
 *     gx, .. = layer_norm_vjp(..)     s = sum of gx over rows
 *
 * become one node. Its body says both, with s in f32: from bf16 only sums that are cast to f32 are taken, and they add up what
 * has not been rounded. */
#include <stdio.h>

#include "ops/attention_internal.h"
#include "ops/ops_internal.h"
#include "runtime/cuda/column_sums_internal.h"
#include "runtime/cuda/gelu_sums_internal.h"
#include "runtime/cuda/layer_norm_internal.h"
#include "runtime/fuse_internal.h"
#include "runtime/leaf_internal.h"

extern const sg_op sg_op_sum, sg_op_sum_like, sg_op_cast, sg_op_layer_norm_vjp, sg_op_attention_vjp,
    sg_op_attention_vjp_jvp;

enum { X, GAMMA, BETA, NONE = -1, MOST_OUTPUTS = 4 };

/* A sum of `graph` that a kernel makes on the way, and what it has become. */
typedef struct made {
    sg_graph *graph;
    int32_t value;
    sg_value image;
} made;

typedef struct joining {
    made *made;
    int32_t n, capacity;
    sg_cuda_readers *readers;
} joining;

static bool add_made(joining *j, sg_graph *graph, int32_t value, sg_value image)
{
    if (j->n == j->capacity) {
        int32_t wider = 2 * j->capacity + 16;
        made *moved = sg_realloc(j->made, (size_t)wider * sizeof *moved);
        if (!moved)
            return false;
        j->made = moved;
        j->capacity = wider;
    }
    j->made[j->n++] = (made){graph, value, image};
    return true;
}

static const made *find_made(const joining *j, sg_graph *graph, int32_t value)
{
    for (int32_t i = 0; i < j->n; i++)
        if (j->made[i].graph == graph && j->made[i].value == value)
            return &j->made[i];
    return NULL;
}

/* ---- which sums */

static bool index_readers(sg_cuda_readers *r)
{
    sg_graph *graph = r->graph;
    int32_t values = sg_value_count(graph), entry, value, total = 0;
    r->at = sg_calloc(values + 2, sizeof *r->at);
    r->root = sg_calloc(values + 1, sizeof *r->root);
    if (!r->at || !r->root)
        return false;
    for (int32_t i = 0; i < sg_node_count(graph); i++)
        for (int32_t k = 0; k < sg_node_at(graph, i)->n_in; k++, total++)
            r->at[sg_node_at(graph, i)->in[k] + 2]++;
    for (int32_t v = 2; v < values + 2; v++)
        r->at[v] += r->at[v - 1];
    r->node = sg_calloc(total + 1, sizeof *r->node);
    for (int32_t i = 0; r->node && i < sg_node_count(graph); i++)
        for (int32_t k = 0; k < sg_node_at(graph, i)->n_in; k++)
            r->node[r->at[sg_node_at(graph, i)->in[k] + 1]++] = i;
    for (int32_t k = 0; k < sg_result_count(graph); k++)
        r->root[sg_result_value(graph, k).id] = true;
    for (int32_t k = 0; k < sg_effect_count(graph); k++) {
        sg_effect_at(graph, k, &entry, &value);
        r->root[value] = true;
    }
    return r->node != NULL;
}

void sg_cuda_readers_free(sg_cuda_readers **all)
{
    while (*all) {
        sg_cuda_readers *r = *all;
        *all = r->next;
        sg_free(r->at);
        sg_free(r->node);
        sg_free(r->root);
        sg_free(r);
    }
}

const sg_cuda_readers *sg_cuda_readers_of(sg_cuda_readers **all, sg_graph *graph)
{
    for (const sg_cuda_readers *r = *all; r; r = r->next)
        if (r->graph == graph)
            return r;
    sg_cuda_readers *r = sg_calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->graph = graph;
    r->next = *all;
    *all = r;
    if (index_readers(r))
        return r;
    sg_cuda_readers *failed = r;
    *all = r->next;
    failed->next = NULL;
    sg_cuda_readers_free(&failed);
    return NULL;
}

const sg_node *sg_cuda_only_reader(const sg_cuda_readers *r, int32_t value)
{
    return !r->root[value] && r->at[value + 1] == r->at[value] + 1 ? sg_node_at(r->graph, r->node[r->at[value]]) : NULL;
}

bool sg_cuda_sums_rows(sg_graph *graph, const sg_node *node, int64_t columns)
{
    sg_sum_form form;
    return (node->op == &sg_op_sum || node->op == &sg_op_sum_like) &&
           sg_fuse_sum_form(node, sg_shape_of(sg_value_at(graph, node->in[X])),
                            sg_shape_of(sg_value_at(graph, node->out)), &form) &&
           form.outer == 1 && form.inner == columns;
}

int32_t sg_cuda_find_row_sum(const sg_cuda_readers *r, int32_t value, int64_t columns)
{
    for (int32_t i = r->at[value]; i < r->at[value + 1]; i++) {
        const sg_node *node = sg_node_at(r->graph, r->node[i]);
        if (node->in[X] != value)
            continue;
        int32_t found = sg_is_view(node) ? sg_cuda_find_row_sum(r, node->out, columns) : NONE;
        if (found != NONE)
            return found;
        if (!sg_cuda_sums_rows(r->graph, node, columns))
            continue;
        if (sg_dtype_of(sg_value_at(r->graph, value)) == SG_F32)
            return node->out;
        const sg_node *cast = sg_cuda_only_reader(r, node->out);
        if (cast && cast->op == &sg_op_cast && sg_dtype_of(sg_value_at(r->graph, cast->out)) == SG_F32)
            return cast->out;
    }
    return NONE;
}

/* ---- the node that makes them */

sg_value sg_cuda_sum_of_rows(sg_value x, int64_t columns, const sg_shape *shape)
{
    int32_t axes[SG_MAX_RANK], n = 0;
    int64_t inner = 1;
    const sg_shape *s = sg_shape_of(x);
    for (int32_t i = s->rank; i-- > 0; inner *= s->dim[i])
        if (inner >= columns)
            axes[n++] = i;
    return sg_reshape(sg_sum_axes(sg_cast(x, SG_F32), n, axes, false), *shape);
}

/* A node that may have sums with it: for each output its columns and the sum in `from`, or NONE. */
typedef struct summed {
    int64_t columns[MOST_OUTPUTS];
    int32_t sum[MOST_OUTPUTS], n_sums;
} summed;

static void add_result(sg_graph *body, int32_t k, sg_value v)
{
    char name[16];
    snprintf(name, sizeof name, "%d", (int)k);
    sg_result(body, name, v);
}

/* The node again, or what its body says. */
static sg_value build_inner(sg_graph *body, const sg_node *node, const sg_value *inner)
{
    int32_t x, g;
    if (node->op != &sg_op_fused || sg_cuda_gelu_columns(node->attr[0].graph, &x, &g) == 0)
        return sg_build(body, node->op, inner, node->n_in, node->attr);
    return sg_cuda_gelu_build(inner[x], inner[g]);
}

static void fill_body(sg_graph *body, const summed *s, sg_graph *from, const sg_node *node, const sg_value *inner)
{
    sg_value first = build_inner(body, node, inner);
    int32_t n = node->n_out;
    for (int32_t k = 0; k < node->n_out; k++)
        add_result(body, k, sg_output_of(first, k));
    for (int32_t k = 0; k < node->n_out; k++)
        if (s->sum[k] != NONE)
            add_result(
                body, n++,
                sg_cuda_sum_of_rows(sg_output_of(first, k), s->columns[k], sg_shape_of(sg_value_at(from, s->sum[k]))));
}

/* False where an operand comes twice: then those of the body would be fewer. */
static bool join(joining *j, const summed *s, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in,
                 sg_value *out)
{
    sg_graph *body = sg_body_new(to);
    sg_value inner[SG_CUDA_SUMMED_INPUTS];
    int32_t n = node->n_out;
    for (int32_t k = 0; body && k < node->n_in; k++)
        inner[k] = sg_capture(body, in[k]);
    if (!body || sg_body_input_count(body) != node->n_in)
        return false;
    fill_body(body, s, from, node, inner);
    sg_value fused = sg_build_fused(to, body, in, node->n_in);
    for (int32_t k = 0; k < node->n_out && !sg_is_none(fused); k++) {
        out[k] = sg_output_of(fused, k);
        if (s->sum[k] != NONE && !add_made(j, from, s->sum[k], sg_output_of(fused, n++)))
            sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory joining sums");
    }
    return true;
}

static bool is_norm(const sg_op *op) { return op == &sg_op_layer_norm_vjp; }
/* A chain that is g gelu'(x) and nothing else. */
static bool is_gelu(const sg_node *node)
{
    int32_t x, g;
    return node->op == &sg_op_fused && node->n_out == 1 && sg_cuda_gelu_columns(node->attr[0].graph, &x, &g) > 0;
}
static bool is_attention(const sg_op *op) { return op == &sg_op_attention_vjp || op == &sg_op_attention_vjp_jvp; }

/* Of rows whose kernel has the same columns of all of them in a thread (layer_norm_reverse.cu): otherwise registers are too few for a
 * third sum. */
static int64_t columns_of_norm(sg_graph *graph, const sg_node *node, const sg_shape *out)
{
    const sg_shape *x = sg_shape_of(sg_value_at(graph, node->in[X]));
    bool usual = sg_dtype_of(sg_value_at(graph, node->in[X])) == SG_BF16 && x->rank > 1 &&
                 x->dim[x->rank - 1] == SG_CUDA_NORM_USUAL;
    for (int32_t k = GAMMA; k <= BETA; k++)
        usual &= sg_shape_count(sg_shape_of(sg_value_at(graph, node->in[k]))) == SG_CUDA_NORM_USUAL;
    return usual && sg_shape_equal(out, x) ? SG_CUDA_NORM_USUAL : 0;
}

/* Neighbours that are one row of output k, 0 where its sum is not to be had. Attention's results with heads inside are rows of all
 * heads. */
static int64_t columns_of(sg_graph *graph, const sg_node *node, int32_t k)
{
    const sg_shape *out = sg_shape_of(sg_value_at(graph, node->out + k));
    if (is_gelu(node))
        return out->dim[out->rank - 1];
    if (is_norm(node->op))
        return columns_of_norm(graph, node, out);
    return node->attr[SG_ATTENTION_HEADS_INNER].i && out->rank == 4 ? out->dim[2] * out->dim[3] : 0;
}

static bool is_summed(const sg_node *node)
{
    return (is_gelu(node) || is_norm(node->op) || is_attention(node->op)) && node->n_out <= MOST_OUTPUTS &&
           node->n_in <= SG_CUDA_SUMMED_INPUTS;
}

static bool find_sums(summed *s, const sg_cuda_readers *r, const sg_node *node)
{
    for (int32_t k = 0; k < node->n_out; k++) {
        s->columns[k] = columns_of(r->graph, node, k);
        s->sum[k] = s->columns[k] > 1 ? sg_cuda_find_row_sum(r, node->out + k, s->columns[k]) : NONE;
        s->n_sums += s->sum[k] != NONE;
    }
    return s->n_sums > 0;
}

static bool join_sums(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    joining *j = user;
    summed s = {.n_sums = 0};
    const made *before = find_made(j, from, node->out);
    if (before) {
        out[0] = before->image;
        return true;
    }
    if (!is_summed(node))
        return false;
    const sg_cuda_readers *r = sg_cuda_readers_of(&j->readers, from);
    if (!r) {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory joining sums");
        return true;
    }
    return find_sums(&s, r, node) && join(j, &s, to, from, node, in, out);
}

sg_status sg_cuda_join_column_sums(sg_graph *from, sg_graph *to, sg_error *err)
{
    joining j = {0};
    sg_status status = sg_graph_rewrite(from, to, join_sums, &j, NULL, err);
    sg_free(j.made);
    sg_cuda_readers_free(&j.readers);
    return status;
}

static const sg_node *summed_node(sg_graph *body)
{
    for (int32_t i = 0; i < sg_node_count(body); i++)
        if (is_norm(sg_node_at(body, i)->op) || is_attention(sg_node_at(body, i)->op))
            return sg_node_at(body, i);
    return NULL;
}

const sg_node *sg_cuda_summed_spec(const sg_kernel_spec *spec, sg_kernel_spec *inner)
{
    const sg_node *node = summed_node(spec->attr[0].graph);
    if (!node)
        return NULL;
    *inner = *spec;
    inner->node = node;
    inner->attr = node->attr;
    inner->n_out = node->n_out;
    return node;
}

int32_t sg_cuda_sum_output(sg_graph *body, int32_t output)
{
    const sg_node *node = summed_node(body);
    for (int32_t j = 0; j < sg_result_count(body); j++) {
        int32_t v = sg_result_value(body, j).id;
        bool sums = false;
        while (v >= node->out + node->n_out) {
            const sg_node *step = sg_node_of(sg_value_at(body, v));
            sums |= step->op == &sg_op_sum;
            v = step->in[X];
        }
        if (sums && v == node->out + output)
            return j;
    }
    return NONE;
}
