/* attention_joint.c - the cotangents of queries, keys and values as columns of one tensor.
 *
 * With q = x A' + a, k = x B' + b, v = x C' + c the reverse derivative of attention gives dq, dk, dv, and then
 *
 *     dx = dq A + dk B + dv C     dA = dq' x     dB = dk' x     dC = dv' x
 *
 * are six products. With D = [dq dk dv], which attention's kernel leaves as easily as three tensors, they are two, which fill a
 * device better and read x once:
 *
 *     dx = D [A; B; C]     [dA; dB; dC] = D' x
 *
 * A tangent has a second such tensor, tD, and sums of such products: t(dx) = tD [A; B; C] + D [tA; tB; tC] + .. */
#include <stdio.h>

#include "ops/attention_internal.h"
#include "ops/ops_internal.h"
#include "runtime/cuda/column_sums_internal.h"
#include "runtime/leaf_internal.h"

extern const sg_op sg_op_attention_vjp, sg_op_attention_vjp_jvp, sg_op_matmul, sg_op_cast, sg_op_add;

enum { TRANS_A, TRANS_B, PARTS = 3, MOST_TERMS = 4, NONE = -1 };

/* The same product of each part: with a matrix, as terms of one sum, or with rows, for the gradients of three matrices. */
typedef struct term {
    int32_t node[PARTS];
    bool transposed;        /* D' x */
    int32_t top[PARTS];     /* values: the sum; or of each part the sum of such products, made f32 */
    sg_value matrix[PARTS]; /* while building */
    int32_t n_built;
} term;

/* Of one attention. */
typedef struct joint {
    struct joint *next;
    sg_graph *graph;
    int32_t node, sum[PARTS]; /* the sums over rows are values, or NONE */
    int64_t columns;          /* of each part */
    term term[MOST_TERMS];
    int32_t n_terms;
    sg_value together, sum_image[PARTS];
} joint;

/* Gradients of three matrices: a sum of products made f32. */
typedef struct gradients {
    struct gradients *next;
    sg_graph *graph;
    int32_t top[PARTS];
    int64_t columns;
    sg_value sum;
} gradients;

typedef struct joining {
    sg_cuda_readers *readers; /* of the graphs that have been looked at */
    joint *joints;
    gradients *gradients;
} joining;

/* ---- products of one part */

static const sg_shape *shape_at(sg_graph *graph, int32_t value) { return sg_shape_of(sg_value_at(graph, value)); }

static bool same_shape(sg_graph *graph, int32_t a, int32_t b)
{
    return sg_shape_equal(shape_at(graph, a), shape_at(graph, b));
}

/* The sum that `value` is a term of. */
static int32_t whole_sum(const sg_cuda_readers *r, int32_t value)
{
    for (;;) {
        const sg_node *add = sg_cuda_only_reader(r, value);
        if (!add || add->op != &sg_op_add || !same_shape(r->graph, value, add->out))
            return value;
        value = add->out;
    }
}

/* What a product is for, or NONE where it is none of these. */
static int32_t top_of(const sg_cuda_readers *r, const sg_node *product)
{
    if (!product->attr[TRANS_A].i) {
        int32_t sum = whole_sum(r, product->out);
        return sum == product->out ? NONE : sum;
    }
    const sg_node *wide = sg_cuda_only_reader(r, product->out);
    return wide && wide->op == &sg_op_cast && sg_dtype_of(sg_value_at(r->graph, wide->out)) == SG_F32
               ? whole_sum(r, wide->out)
               : NONE;
}

typedef struct products {
    int32_t node[MOST_TERMS], n, sums;
    bool others;
} products;

/* `value` as rows of `columns`, the first operand of a product with a matrix. */
static bool is_product(sg_graph *graph, const sg_node *node, int32_t value, int64_t columns)
{
    const sg_shape *s = shape_at(graph, value);
    return node->op == &sg_op_matmul && node->in[0] == value && node->in[1] != value && !node->attr[TRANS_B].i &&
           s->rank >= 2 && s->dim[s->rank - 1] == columns && shape_at(graph, node->in[1])->rank == 2 &&
           (!node->attr[TRANS_A].i || s->rank == 2);
}

/* Who reads a part, of which `value` is a view, in the order of nodes but for views. */
static void find_products(products *p, const sg_cuda_readers *r, int32_t value, int64_t columns)
{
    p->others |= r->root[value];
    for (int32_t i = r->at[value]; i < r->at[value + 1]; i++) {
        const sg_node *node = sg_node_at(r->graph, r->node[i]);
        if (node->in[0] == value && sg_is_view(node))
            find_products(p, r, node->out, columns);
        else if (node->in[0] == value && sg_cuda_sums_rows(r->graph, node, columns))
            p->sums++;
        else if (p->n < MOST_TERMS && is_product(r->graph, node, value, columns))
            p->node[p->n++] = node->index;
        else
            p->others = true;
    }
}

/* ---- the same of all parts */

static bool alike(const sg_cuda_readers *r, const sg_node *a, const sg_node *b)
{
    return (a->attr[TRANS_A].i != 0) == (b->attr[TRANS_A].i != 0) && same_shape(r->graph, a->in[0], b->in[0]) &&
           (a->attr[TRANS_A].i ? a->in[1] == b->in[1]
                               : same_shape(r->graph, a->in[1], b->in[1]) && top_of(r, a) == top_of(r, b));
}

/* Take the first product like `like` from the list. */
static int32_t take(products *p, const sg_cuda_readers *r, const sg_node *like)
{
    for (int32_t k = 0; k < p->n; k++) {
        int32_t found = p->node[k];
        if (!alike(r, like, sg_node_at(r->graph, found)))
            continue;
        p->n--;
        for (; k < p->n; k++)
            p->node[k] = p->node[k + 1];
        return found;
    }
    return NONE;
}

static bool find_term(joint *j, const sg_cuda_readers *r, products part[PARTS])
{
    term *t = &j->term[j->n_terms++];
    const sg_node *first = sg_node_at(j->graph, part[0].node[0]);
    *t = (term){.transposed = first->attr[TRANS_A].i != 0};
    for (int32_t i = 0; i < PARTS; i++) {
        t->node[i] = take(&part[i], r, first);
        if (t->node[i] == NONE)
            return false;
        t->top[i] = top_of(r, sg_node_at(j->graph, t->node[i]));
        if (t->top[i] == NONE)
            return false;
    }
    return true;
}

/* An operand that came twice would be one of the body. */
static bool has_distinct_operands(const sg_node *node)
{
    for (int32_t k = 0; k < node->n_in; k++)
        for (int32_t i = 0; i < k; i++)
            if (node->in[i] == node->in[k])
                return false;
    return true;
}

static bool find_joint(joint *j, const sg_cuda_readers *r, const sg_node *node)
{
    sg_graph *graph = r->graph;
    products part[PARTS] = {{.n = 0}};
    *j = (joint){.graph = graph, .node = node->index, .together = SG_NONE};
    if ((node->op != &sg_op_attention_vjp && node->op != &sg_op_attention_vjp_jvp) || node->n_out != PARTS ||
        node->n_in > SG_CUDA_SUMMED_INPUTS || !node->attr[SG_ATTENTION_HEADS_INNER].i ||
        sg_dtype_of(sg_value_at(graph, node->out)) != SG_BF16 || !has_distinct_operands(node))
        return false;
    j->columns = shape_at(graph, node->out)->dim[2] * shape_at(graph, node->out)->dim[3];
    for (int32_t i = 0; i < PARTS; i++) {
        find_products(&part[i], r, node->out + i, j->columns);
        j->sum[i] = sg_cuda_find_row_sum(r, node->out + i, j->columns);
        if (part[i].others || part[i].n != part[0].n || part[i].sums != (j->sum[i] != NONE) ||
            !same_shape(graph, node->out + i, node->out))
            return false;
    }
    while (part[0].n > 0)
        if (!find_term(j, r, part))
            return false;
    return j->n_terms > 0;
}

/* ---- sums that gradients are */

static bool same_tops(const term *t, const term *u)
{
    return t->transposed == u->transposed && t->top[0] == u->top[0] && t->top[1] == u->top[1] && t->top[2] == u->top[2];
}

static bool is_known(const joining *all, sg_graph *graph, int32_t product, const term *like, int32_t i)
{
    for (const joint *j = all->joints; j; j = j->next)
        for (int32_t k = 0; j->graph == graph && k < j->n_terms; k++)
            if (j->term[k].node[i] == product && same_tops(&j->term[k], like))
                return true;
    return false;
}

/* Are all terms of this sum products of joints, so that the sums of three parts are one? */
static bool is_all_known(const joining *all, sg_graph *graph, int32_t value, const term *like, int32_t i)
{
    const sg_node *node = sg_node_of(sg_value_at(graph, value));
    if (node->op == &sg_op_add)
        return is_all_known(all, graph, node->in[0], like, i) && is_all_known(all, graph, node->in[1], like, i);
    return node->op == &sg_op_cast && is_known(all, graph, sg_node_of(sg_value_at(graph, node->in[0]))->index, like, i);
}

static bool has_whole_gradients(const joining *all, const joint *j)
{
    for (int32_t k = 0; k < j->n_terms; k++)
        for (int32_t i = 0; j->term[k].transposed && i < PARTS; i++)
            if (!is_all_known(all, j->graph, j->term[k].top[i], &j->term[k], i))
                return false;
    return true;
}

/* Leaves out the first joint that does not fit. False: all do. */
static bool leave_one_out(joining *all, sg_graph *graph)
{
    for (joint **at = &all->joints; *at; at = &(*at)->next) {
        joint *j = *at;
        if (j->graph != graph || has_whole_gradients(all, j))
            continue;
        *at = j->next;
        sg_free(j);
        return true;
    }
    return false;
}

static bool add_gradients(joining *all, const joint *j, const term *t)
{
    for (const gradients *g = all->gradients; g; g = g->next)
        if (g->graph == j->graph && g->top[0] == t->top[0])
            return true;
    gradients *g = sg_calloc(1, sizeof *g);
    if (!g)
        return false;
    *g = (gradients){all->gradients, j->graph, {t->top[0], t->top[1], t->top[2]}, j->columns, SG_NONE};
    all->gradients = g;
    return true;
}

static bool analyse(joining *all, const sg_cuda_readers *r)
{
    sg_graph *graph = r->graph;
    joint found;
    for (int32_t n = 0; n < sg_node_count(graph); n++) {
        if (!find_joint(&found, r, sg_node_at(graph, n)))
            continue;
        joint *j = sg_alloc(sizeof *j);
        if (!j)
            return false;
        *j = found;
        j->next = all->joints;
        all->joints = j;
    }
    while (leave_one_out(all, graph))
        ;
    for (const joint *j = all->joints; j; j = j->next)
        for (int32_t k = 0; j->graph == graph && k < j->n_terms; k++)
            if (j->term[k].transposed && !add_gradients(all, j, &j->term[k]))
                return false;
    return true;
}

static bool analyse_once(joining *all, sg_graph *graph)
{
    for (const sg_cuda_readers *r = all->readers; r; r = r->next)
        if (r->graph == graph)
            return true;
    const sg_cuda_readers *r = sg_cuda_readers_of(&all->readers, graph);
    return r && analyse(all, r);
}

/* ---- building */

static void add_result(sg_graph *body, int32_t k, sg_value v)
{
    char name[16];
    snprintf(name, sizeof name, "%d", (int)k);
    sg_result(body, name, v);
}

/* D, then the sums that there are. */
static void fill_body(sg_graph *body, const joint *j, const sg_node *node, const sg_value *inner)
{
    sg_value first = sg_build(body, node->op, inner, node->n_in, node->attr), part[PARTS];
    const sg_shape *s = sg_shape_of(first);
    int32_t n = 1;
    for (int32_t i = 0; i < PARTS; i++)
        part[i] = sg_reshape(sg_output_of(first, i), SG_SHAPE(s->dim[0], s->dim[1], j->columns));
    add_result(body, 0, sg_concat(part, PARTS, 2));
    for (int32_t i = 0; i < PARTS; i++)
        if (j->sum[i] != NONE)
            add_result(body, n++,
                       sg_cuda_sum_of_rows(sg_output_of(first, i), j->columns, shape_at(j->graph, j->sum[i])));
}

static void build_together(joint *j, sg_graph *to, const sg_node *node, const sg_value *in)
{
    sg_graph *body = sg_body_new(to);
    sg_value inner[SG_CUDA_SUMMED_INPUTS];
    int32_t n = 1;
    for (int32_t k = 0; body && k < node->n_in; k++)
        inner[k] = sg_capture(body, in[k]);
    if (!body)
        return;
    fill_body(body, j, node, inner);
    j->together = sg_build_fused(to, body, in, node->n_in);
    for (int32_t i = 0; i < PARTS; i++)
        if (j->sum[i] != NONE && !sg_is_none(j->together))
            j->sum_image[i] = sg_output_of(j->together, n++);
}

/* The last of the three products stands for all. */
static sg_value build_product(joint *j, term *t, int32_t i, const sg_value *in)
{
    t->matrix[i] = in[1];
    if (++t->n_built < PARTS)
        return SG_NONE;
    sg_shape rows = *shape_at(j->graph, sg_node_at(j->graph, t->node[0])->in[0]);
    rows.dim[rows.rank - 1] = PARTS * j->columns;
    return sg_matmul(sg_reshape(j->together, rows), sg_concat(t->matrix, PARTS, 0));
}

/* The first of the three adds all to the sum, and is no more. */
static void build_transposed(joining *all, joint *j, term *t, sg_value x)
{
    gradients *g = all->gradients;
    if (t->n_built++ > 0)
        return;
    while (g->graph != j->graph || g->top[0] != t->top[0])
        g = g->next;
    sg_value product = sg_matmul_tn(sg_reshape(j->together, SG_SHAPE(sg_shape_of(x)->dim[0], PARTS * j->columns)), x);
    product = sg_cast(product, SG_F32);
    g->sum = sg_is_none(g->sum) ? product : sg_add(g->sum, product);
}

static bool place_of(const int32_t *list, int32_t what, int32_t *i)
{
    for (*i = 0; *i < PARTS; (*i)++)
        if (list[*i] == what)
            return true;
    return false;
}

static bool rewrite_member(joining *all, joint *j, sg_graph *to, const sg_node *node, const sg_value *in, sg_value *out)
{
    int32_t i;
    if (node->index == j->node) {
        build_together(j, to, node, in);
        for (i = 0; i < PARTS; i++)
            out[i] = SG_NONE;
        return true;
    }
    if (place_of(j->sum, node->out, &i)) {
        out[0] = j->sum_image[i];
        return true;
    }
    for (int32_t k = 0; k < j->n_terms; k++) {
        term *t = &j->term[k];
        if (!place_of(t->node, node->index, &i))
            continue;
        out[0] = t->transposed ? SG_NONE : build_product(j, t, i, in);
        if (t->transposed)
            build_transposed(all, j, t, in[1]);
        return true;
    }
    return false;
}

static bool rewrite_gradient(const gradients *g, const sg_node *node, sg_value *out)
{
    int32_t i;
    if (!place_of(g->top, node->out, &i))
        return false;
    out[0] = sg_slice(g->sum, 0, i * g->columns, (i + 1) * g->columns);
    return true;
}

/* What reads only what is no more is no more; a sum has the terms that are left. */
static bool rewrite(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    joining *all = user;
    if (!analyse_once(all, from)) {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory joining products");
        return true;
    }
    for (joint *j = all->joints; j; j = j->next)
        if (j->graph == from && rewrite_member(all, j, to, node, in, out))
            return true;
    for (const gradients *g = all->gradients; g; g = g->next)
        if (g->graph == from && rewrite_gradient(g, node, out))
            return true;
    for (int32_t k = 0; all->joints && k < node->n_in; k++)
        if (sg_is_none(in[k])) {
            out[0] = node->op == &sg_op_add ? in[1 - k] : SG_NONE;
            return true;
        }
    return false;
}

static void release(joining *all)
{
    while (all->joints) {
        joint *j = all->joints;
        all->joints = j->next;
        sg_free(j);
    }
    while (all->gradients) {
        gradients *g = all->gradients;
        all->gradients = g->next;
        sg_free(g);
    }
    sg_cuda_readers_free(&all->readers);
}

sg_status sg_cuda_join_cotangents(sg_graph *from, sg_graph *to, sg_error *err)
{
    joining all = {0};
    sg_status status = sg_graph_rewrite(from, to, rewrite, &all, NULL, err);
    release(&all);
    return status;
}
