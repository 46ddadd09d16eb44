/* fuse_plan.c - which nodes form a chain.
 *
 * Nodes are visited in their order; a node joins the chains of its operands where it can. One rule keeps the graph free of
 * cycles: whoever reads a value of a chain from outside stands after the chain's last member. A chain can then run at the
 * place of its last member, and no path leaves it and comes back.
 *
 * A chain may end in sums. Steps of the sums' own shape that read nothing of the chain but these can follow in it: whoever completes
 * a sum does them. */
#include "runtime/fuse_internal.h"

#include "ops/ops.h"
#include "runtime/leaf_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

/* Steps on single numbers that a chain does for all its elements: they cost each thread, which has four of them, about as much as these
 * from memory; and elements from which their launch would cost less. */
enum { MOST_MEMBERS = 48, MOST_ONCE = 8, ONCE_ELEMENTS = 1 << 22 };

bool sg_fuse_reads(const sg_node *node, int32_t k) { return k >= 32 || !(node->op->shape_only >> k & 1); }

/* ---- roles */

static const sg_shape *shape_at(const sg_fuse_plan *p, int32_t value)
{
    return sg_shape_of(sg_value_at(p->graph, value));
}

static bool is_summed(const sg_node *node, const sg_shape *x, const sg_shape *y, int32_t axis)
{
    for (int64_t i = 0; node->op == &sg_op_sum && i < node->attr[0].count; i++)
        if (node->attr[0].ints[i] == axis)
            return true;
    int32_t lead = x->rank - y->rank;
    return node->op != &sg_op_sum && (axis < lead || y->dim[axis - lead] != x->dim[axis]);
}

bool sg_fuse_sum_form(const sg_node *node, const sg_shape *x, const sg_shape *y, sg_sum_form *out)
{
    *out = (sg_sum_form){1, 1, 1, -1};
    for (int32_t i = 0; i < x->rank; i++) {
        int64_t dim = x->dim[i];
        if (dim == 1)
            continue;
        if (!is_summed(node, x, y, i)) {
            *(out->first < 0 ? &out->outer : &out->inner) *= dim;
            continue;
        }
        if (out->inner > 1)
            return false;
        out->first = out->first < 0 ? i : out->first;
        out->length *= dim;
    }
    return out->first >= 0;
}

static bool sum_of(const sg_fuse_plan *p, const sg_node *node, sg_sum_form *form)
{
    return (node->op == &sg_op_sum || node->op == &sg_op_sum_like) &&
           sg_dtype_of(sg_value_at(p->graph, node->in[0])) == SG_F32 &&
           sg_fuse_sum_form(node, shape_at(p, node->in[0]), shape_at(p, node->out), form);
}

/* The same number for sums over the same axes of one space: bit i for axis i. */
static int64_t axes_of(const sg_fuse_plan *p, const sg_node *node)
{
    const sg_shape *x = shape_at(p, node->in[0]), *y = shape_at(p, node->out);
    sg_sum_form form;
    int64_t axes = 0;
    for (int32_t i = 0; i < x->rank && sum_of(p, node, &form); i++)
        axes |= (int64_t)(x->dim[i] != 1 && is_summed(node, x, y, i)) << i;
    return axes;
}

static bool is_step(const sg_fuse_plan *p, const sg_node *node)
{
    sg_dtype in[3];
    if (node->n_in < 1 || node->n_in > 3 || node->n_out != 1)
        return false;
    for (int32_t k = 0; k < node->n_in; k++)
        in[k] = sg_dtype_of(sg_value_at(p->graph, node->in[k]));
    return p->rules->has(node->op, node->n_in, in, sg_dtype_of(sg_value_at(p->graph, node->out)));
}

static sg_fuse_role role_of(const sg_fuse_plan *p, const sg_node *node)
{
    if (node->op == &sg_op_constant)
        return node->attr[0].count == 1 ? SG_FUSE_NUMBER : SG_FUSE_NONE;
    if (sg_is_view(node) && role_of(p, sg_node_of(sg_value_at(p->graph, node->in[0]))) == SG_FUSE_NUMBER)
        return SG_FUSE_NUMBER;
    sg_sum_form form;
    if (p->rules->sums && sum_of(p, node, &form) && p->rules->sums(node, &form))
        return SG_FUSE_SUM;
    if (node->op == &sg_op_matmul || node->op == &sg_op_csr_matmul)
        return p->rules->follow && p->rules->follow(p->graph, node) ? SG_FUSE_PRODUCT : SG_FUSE_NONE;
    if (node->op == &sg_op_concat)
        return p->rules->joins && node->n_in <= SG_FUSE_MOST_JOINED && p->rules->joins(p->graph, node) ? SG_FUSE_JOIN
                                                                                                       : SG_FUSE_NONE;
    if (!is_step(p, node))
        return SG_FUSE_NONE;
    if (node->op == &sg_op_fill_like)
        return SG_FUSE_NUMBER;
    return node->op == &sg_op_tile_axis || node->op == &sg_op_broadcast_like ? SG_FUSE_VIEW : SG_FUSE_STEP;
}

/* Ops that cost about as much as reading a stored result would. */
static bool is_cheap(const sg_node *node)
{
    static const sg_op *const cheap[] = {
        &sg_op_neg,  &sg_op_abs,   &sg_op_square,     &sg_op_relu,    &sg_op_clip,        &sg_op_cast,
        &sg_op_add,  &sg_op_sub,   &sg_op_mul,        &sg_op_maximum, &sg_op_minimum,     &sg_op_equal,
        &sg_op_less, &sg_op_where, &sg_op_less_equal, &sg_op_greater, &sg_op_logical_not, &sg_op_greater_equal,
    };
    for (size_t i = 0; i < sizeof cheap / sizeof cheap[0]; i++)
        if (node->op == cheap[i])
            return true;
    return false;
}

/* ---- groups */

static bool outside(const sg_fuse_plan *p, int32_t node, int32_t a, int32_t b)
{
    return p->group[node] != a && p->group[node] != b;
}

/* Does every reader of a's values outside a and b stand after `last`? */
static bool readers_follow(const sg_fuse_plan *p, int32_t a, int32_t b, int32_t last)
{
    for (int32_t m = p->groups[a].first; m >= 0; m = p->next[m]) {
        int32_t v = sg_node_at(p->graph, m)->out;
        for (int32_t i = p->use_at[v]; i < p->use_at[v + 1]; i++)
            if (p->use[i] <= last && outside(p, p->use[i], a, b))
                return false;
    }
    return true;
}

/* Are a's values read in a and b alone? */
static bool read_only_by(const sg_fuse_plan *p, int32_t a, int32_t b)
{
    for (int32_t m = p->groups[a].first; m >= 0; m = p->next[m]) {
        int32_t v = sg_node_at(p->graph, m)->out;
        if (p->root[v])
            return false;
        for (int32_t i = p->use_at[v]; i < p->use_at[v + 1]; i++)
            if (outside(p, p->use[i], a, b))
                return false;
    }
    return true;
}

/* A product with a number that is the gradient of an update: the update can take up the number (adam_clip.c). */
static bool scales_gradient(const sg_fuse_plan *p, int32_t group)
{
    const sg_node *node = sg_node_at(p->graph, group);
    if (node->op != &sg_op_mul || p->groups[group].count > 1)
        return false;
    for (int32_t i = p->use_at[node->out]; i < p->use_at[node->out + 1]; i++)
        if (sg_node_at(p->graph, p->use[i])->op == &sg_op_adam)
            return true;
    return false;
}

/* May the steps on single numbers of group a join group b? */
static bool joins_once(const sg_fuse_plan *p, int32_t a, int32_t b)
{
    const sg_fuse_group *x = &p->groups[a], *y = &p->groups[b];
    return p->rules->numbers_once && x->once && x->count + y->numbers <= MOST_ONCE &&
           sg_shape_count(&y->space) <= ONCE_ELEMENTS && !scales_gradient(p, b);
}

/* Group a (of an operand) and group b have one iteration space, or a is cheap, or done once, and broadcasts into b's for b alone. */
static bool spaces_fit(const sg_fuse_plan *p, int32_t a, int32_t b)
{
    const sg_fuse_group *x = &p->groups[a], *y = &p->groups[b];
    if (sg_shape_equal(&x->space, &y->space))
        return x->axes == 0 || y->axes == 0 || x->axes == y->axes;
    sg_shape wide;
    return x->axes == 0 && (x->cheap || joins_once(p, a, b)) && sg_shape_broadcast(&x->space, &y->space, &wide) &&
           sg_shape_equal(&wide, &y->space) && read_only_by(p, a, b);
}

/* Does a member of b read a sum of a? A sum is complete only when its row is: such a member cannot run tile by tile beside
 * it, even where another operand invites it into the chain (s (g - sum(s g)), the softmax's derivative). */
static bool reads_sum_of(const sg_fuse_plan *p, int32_t a, int32_t b)
{
    for (int32_t m = p->groups[a].first; m >= 0; m = p->next[m]) {
        if (p->role[m] != SG_FUSE_SUM)
            continue;
        int32_t v = sg_node_at(p->graph, m)->out;
        for (int32_t i = p->use_at[v]; i < p->use_at[v + 1]; i++)
            if (p->group[p->use[i]] == b)
                return true;
    }
    return false;
}

/* Does the product of b read a value of a? It reads whole rows, which a kernel that computes them has not finished. */
static bool feeds_product_of(const sg_fuse_plan *p, int32_t a, int32_t b)
{
    if (p->groups[b].product < 0)
        return false;
    const sg_node *node = sg_node_at(p->graph, p->groups[b].product);
    for (int32_t k = 0; k < node->n_in; k++)
        if (p->group[sg_node_of(sg_value_at(p->graph, node->in[k]))->index] == a)
            return true;
    return false;
}

/* Would a chain that makes an operand of `node` in full, for it alone, have to write it for the product's sake? */
static bool parts_chain(const sg_fuse_plan *p, const sg_node *node)
{
    for (int32_t k = 0; k < node->n_in; k++) {
        int32_t g = p->group[sg_node_of(sg_value_at(p->graph, node->in[k]))->index];
        if (g >= 0 && p->groups[g].product < 0 && sg_shape_equal(&p->groups[g].space, shape_at(p, node->out)) &&
            read_only_by(p, g, p->group[node->index]))
            return true;
    }
    return false;
}

/* May the only node of group b follow the product of group a? */
static bool chooses(const sg_fuse_plan *p, int32_t a, int32_t b)
{
    const sg_node *member[SG_FUSE_MOST_CHOSEN], *step = sg_node_at(p->graph, b);
    int32_t n = 0;
    if (p->groups[b].count > 1 || p->groups[a].count >= SG_FUSE_MOST_CHOSEN || !read_only_by(p, a, b))
        return false;
    for (int32_t m = p->groups[a].first; m >= 0; m = p->next[m])
        member[n++] = sg_node_at(p->graph, m);
    return p->rules->chooses(p->graph, member, n, step) && !parts_chain(p, step);
}

static bool products_fit(const sg_fuse_plan *p, int32_t a, int32_t b)
{
    const sg_fuse_group *x = &p->groups[a], *y = &p->groups[b];
    if (x->product < 0 && y->product < 0)
        return true;
    if ((x->product >= 0 && y->product >= 0) || x->axes > 0 || y->axes > 0 || y->chosen)
        return false;
    if (x->chosen)
        return chooses(p, a, b);
    return !feeds_product_of(p, a, b) && !feeds_product_of(p, b, a);
}

static void link_members(sg_fuse_plan *p, int32_t a, int32_t b)
{
    int32_t first = a < b ? a : b, x = p->groups[a].first, y = p->groups[b].first, tail = -1;
    while (x >= 0 || y >= 0) {
        bool from_x = y < 0 || (x >= 0 && x < y);
        int32_t m = from_x ? x : y;
        *(from_x ? &x : &y) = p->next[m];
        if (tail >= 0)
            p->next[tail] = m;
        tail = m;
        p->next[m] = -1;
        p->group[m] = first;
    }
}

static void merge(sg_fuse_plan *p, int32_t a, int32_t b)
{
    sg_fuse_group x = p->groups[a], y = p->groups[b];
    link_members(p, a, b);
    p->groups[a < b ? a : b] = (sg_fuse_group){
        .first = a < b ? a : b,
        .last = x.last > y.last ? x.last : y.last,
        .count = x.count + y.count,
        .space = y.space,
        .axes = x.axes > y.axes ? x.axes : y.axes,
        .cheap = x.cheap && y.cheap,
        .once = x.once && y.once,
        .numbers = x.numbers + y.numbers + (x.once && !y.once ? x.count : 0),
        .product = x.product >= 0 ? x.product : y.product,
        .chosen = x.chosen || y.chosen,
        .joined = x.joined || y.joined,
        .after = x.after || y.after,
    };
}

/* Will the value be in memory whatever joins the chain that makes it: for one that joins no chain of steps? */
static bool is_stored_anyway(const sg_fuse_plan *p, int32_t value)
{
    bool stored = p->root[value];
    for (int32_t i = p->use_at[value]; i < p->use_at[value + 1] && !stored; i++) {
        sg_fuse_role role = role_of(p, sg_node_at(p->graph, p->use[i]));
        stored = role == SG_FUSE_NONE || role == SG_FUSE_PRODUCT;
    }
    return stored;
}

/* A step of a product that a sum alone reads belongs to the sum, which has no part in the product's chain: then it is not
 * written. What it reads of the product is in memory for others. */
static bool belongs_to_sum(const sg_fuse_plan *p, const sg_node *producer, int32_t step)
{
    const sg_node *node = sg_node_at(p->graph, step);
    return p->groups[p->group[producer->index]].product >= 0 && !p->root[node->out] &&
           p->use_at[node->out + 1] == p->use_at[node->out] + 1 &&
           role_of(p, sg_node_at(p->graph, p->use[p->use_at[node->out]])) == SG_FUSE_SUM &&
           is_stored_anyway(p, producer->out);
}

static void try_merge(sg_fuse_plan *p, int32_t producer, int32_t node)
{
    int32_t a = p->group[producer], b = p->group[node];
    if (a < 0 || a == b || p->role[producer] == SG_FUSE_SUM || p->groups[a].joined || p->groups[a].after ||
        p->groups[b].after || p->groups[a].count + p->groups[b].count > MOST_MEMBERS)
        return;
    if (belongs_to_sum(p, sg_node_at(p->graph, producer), node))
        return;
    int32_t last = p->groups[a].last > p->groups[b].last ? p->groups[a].last : p->groups[b].last;
    if (!reads_sum_of(p, a, b) && !reads_sum_of(p, b, a) && products_fit(p, a, b) && spaces_fit(p, a, b) &&
        readers_follow(p, a, b, last) && readers_follow(p, b, a, last))
        merge(p, a, b);
}

/* ---- steps on sums */

static bool is_after(const sg_fuse_plan *p, int32_t node) { return p->role[node] == SG_FUSE_SUM || p->after[node]; }

static bool is_read_by(const sg_fuse_plan *p, int32_t value, int32_t a, int32_t b)
{
    if (p->root[value])
        return false;
    for (int32_t i = p->use_at[value]; i < p->use_at[value + 1]; i++)
        if (outside(p, p->use[i], a, b))
            return false;
    return true;
}

/* The node that makes what a value shows, seen through views. */
static const sg_node *shown_by(const sg_fuse_plan *p, int32_t value)
{
    const sg_node *node = sg_node_of(sg_value_at(p->graph, value));
    while (sg_is_view(node) || p->role[node->index] == SG_FUSE_VIEW)
        node = sg_node_of(sg_value_at(p->graph, node->in[0]));
    return node;
}

/* The node after which a value is there; -1 for what is there from the beginning. */
static int32_t made_by(const sg_fuse_plan *p, int32_t value)
{
    const sg_node *node = shown_by(p, value);
    int32_t g = p->group[node->index];
    if (node->op->flags & SG_OP_LEAF || p->role[node->index] == SG_FUSE_NUMBER)
        return -1;
    return g >= 0 ? p->groups[g].last : node->index;
}

/* Do the members of b read sums of a, steps on them, and else what stands before a's last member? They draw nothing. */
static bool reads_sums_alone(const sg_fuse_plan *p, int32_t a, int32_t b)
{
    for (int32_t m = p->groups[b].first; m >= 0; m = p->next[m]) {
        const sg_node *node = sg_node_at(p->graph, m);
        if (node->op->flags & SG_OP_RANDOM)
            return false;
        for (int32_t k = 0; k < node->n_in; k++) {
            int32_t from = sg_node_of(sg_value_at(p->graph, node->in[k]))->index, g = p->group[from];
            if (!sg_fuse_reads(node, k) || g == b)
                continue;
            if (g == a ? !is_after(p, from)
                       : p->group[shown_by(p, node->in[k])->index] == a || made_by(p, node->in[k]) > p->groups[a].last)
                return false;
        }
    }
    return true;
}

/* Does chain a make anything but sums? What else it makes would have to wait for all that the steps on the sums read. */
static bool makes_sums_alone(const sg_fuse_plan *p, int32_t a)
{
    for (int32_t m = p->groups[a].first; m >= 0; m = p->next[m]) {
        int32_t v = sg_node_at(p->graph, m)->out;
        if (!is_after(p, m) && !is_read_by(p, v, a, a))
            return false;
    }
    return true;
}

/* May chain b run on the sums of the chain that `maker` belongs to, once they are complete? It is of their shape, and they are
 * for it alone. */
static bool may_follow(const sg_fuse_plan *p, int32_t maker, int32_t b)
{
    int32_t a = p->group[maker], value = sg_node_at(p->graph, maker)->out;
    const sg_fuse_group *x = &p->groups[a], *y = &p->groups[b];
    int32_t last = x->last > y->last ? x->last : y->last;
    return a != b && y->axes == 0 && y->product < 0 && !y->joined && x->count + y->count <= MOST_MEMBERS &&
           sg_shape_equal(&y->space, shape_at(p, value)) && is_read_by(p, value, a, b) && reads_sums_alone(p, a, b) &&
           makes_sums_alone(p, a) && readers_follow(p, a, b, last) && readers_follow(p, b, a, last);
}

/* Of several sums that the node reads, the one made last, which the others are ready for. */
static void try_follow(sg_fuse_plan *p, const sg_node *node)
{
    int32_t maker = -1, b = p->group[node->index];
    for (int32_t k = 0; k < node->n_in; k++) {
        int32_t from = sg_node_of(sg_value_at(p->graph, node->in[k]))->index;
        if (sg_fuse_reads(node, k) && from > maker && p->group[from] >= 0 && is_after(p, from))
            maker = from;
    }
    if (maker < 0 || !may_follow(p, maker, b))
        return;
    for (int32_t m = p->groups[b].first; m >= 0; m = p->next[m])
        p->after[m] = true;
    p->groups[b].after = true;
    merge(p, b, p->group[maker]);
}

/* The chain that makes an operand of a concat, for it alone. */
static void try_join(sg_fuse_plan *p, int32_t operand, int32_t concat)
{
    int32_t a = p->group[sg_node_of(sg_value_at(p->graph, operand))->index], b = p->group[concat];
    if (a < 0 || a == b || p->groups[a].joined || p->groups[a].axes > 0 || p->groups[a].product >= 0 ||
        p->groups[a].count + p->groups[b].count > MOST_MEMBERS)
        return;
    if (sg_shape_equal(&p->groups[a].space, shape_at(p, operand)) && read_only_by(p, a, b))
        merge(p, a, b);
}

static void place_node(sg_fuse_plan *p, const sg_node *node)
{
    bool is_sum = p->role[node->index] == SG_FUSE_SUM, is_product = p->role[node->index] == SG_FUSE_PRODUCT;
    bool is_join = p->role[node->index] == SG_FUSE_JOIN;
    bool is_draw = node->op->flags & SG_OP_RANDOM;
    p->group[node->index] = node->index;
    p->groups[node->index] = (sg_fuse_group){
        .first = node->index,
        .last = node->index,
        .count = 1,
        .space = *shape_at(p, is_sum ? node->in[0] : node->out),
        .axes = is_sum ? axes_of(p, node) : 0,
        .cheap = !is_sum && !is_draw && is_cheap(node),
        .once = p->role[node->index] == SG_FUSE_STEP && !is_draw && sg_shape_count(shape_at(p, node->out)) == 1,
        .joined = is_join,
        .product = is_product ? node->index : -1,
        .chosen = is_product && p->rules->follow(p->graph, node) == SG_FUSE_CHOSEN,
    };
    for (int32_t k = 0; is_join && k < node->n_in; k++)
        try_join(p, node->in[k], node->index);
    for (int32_t k = 0; !is_product && !is_join && k < node->n_in; k++)
        if (sg_fuse_reads(node, k))
            try_merge(p, sg_node_of(sg_value_at(p->graph, node->in[k]))->index, node->index);
    if (p->rules->after_sums && p->role[node->index] == SG_FUSE_STEP)
        try_follow(p, node);
}

/* ---- the plan */

static bool mark_roots(sg_fuse_plan *p)
{
    int32_t n = 0, entry, results = sg_result_count(p->graph), effects = sg_effect_count(p->graph);
    int32_t *roots = sg_calloc(results + effects + 1, sizeof *roots);
    if (!roots)
        return false;
    for (int32_t i = 0; i < results; i++)
        roots[n++] = sg_result_value(p->graph, i).id;
    for (int32_t i = 0; i < effects; i++)
        sg_effect_at(p->graph, i, &entry, &roots[n++]);
    for (int32_t i = 0; i < n; i++)
        p->root[roots[i]] = true;
    sg_graph_reach(p->graph, roots, n, false, p->live);
    sg_free(roots);
    return true;
}

/* Readers of each value: counted, then placed. */
static bool list_uses(sg_fuse_plan *p)
{
    int64_t total = 0;
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t n = 0; n < p->n_nodes; n++) {
            const sg_node *node = sg_node_at(p->graph, n);
            for (int32_t k = 0; p->live[n] && k < node->n_in; k++) {
                if (!sg_fuse_reads(node, k))
                    continue;
                if (pass == 0)
                    p->use_at[node->in[k] + 1]++;
                else
                    p->use[p->use_at[node->in[k]]++] = n;
            }
        }
        if (pass == 1)
            break;
        for (int32_t v = 0; v < p->n_values; v++)
            p->use_at[v + 1] += p->use_at[v];
        total = p->use_at[p->n_values];
        if (!(p->use = sg_calloc(total + 1, sizeof *p->use)))
            return false;
    }
    for (int32_t v = p->n_values; v > 0; v--) /* placing moved each start to its end */
        p->use_at[v] = p->use_at[v - 1];
    p->use_at[0] = 0;
    return true;
}

static bool allocate_plan(sg_fuse_plan *p)
{
    int32_t n = p->n_nodes + 1, v = p->n_values + 2;
    p->role = sg_calloc(n, sizeof *p->role);
    p->live = sg_calloc(n, sizeof *p->live);
    p->after = sg_calloc(n, sizeof *p->after);
    p->root = sg_calloc(v, sizeof *p->root);
    p->use_at = sg_calloc(v, sizeof *p->use_at);
    p->group = sg_calloc(n, sizeof *p->group);
    p->next = sg_calloc(n, sizeof *p->next);
    p->groups = sg_calloc(n, sizeof *p->groups);
    p->image = sg_calloc(v, sizeof *p->image);
    return p->role && p->live && p->after && p->root && p->use_at && p->group && p->next && p->groups && p->image;
}

sg_status sg_fuse_plan_make(sg_fuse_plan *p, sg_graph *graph, const sg_fuse_rules *rules, sg_error *err)
{
    *p = (sg_fuse_plan){
        .graph = graph, .rules = rules, .n_nodes = sg_node_count(graph), .n_values = sg_value_count(graph)};
    if (!allocate_plan(p) || !mark_roots(p) || !list_uses(p)) {
        sg_fuse_plan_release(p);
        return sg_fail(err, SG_E_MEMORY, "out of memory grouping nodes");
    }
    for (int32_t v = 0; v < p->n_values; v++)
        p->image[v] = -1;
    for (int32_t n = 0; n < p->n_nodes; n++) {
        const sg_node *node = sg_node_at(graph, n);
        p->role[n] = role_of(p, node);
        p->group[n] = p->next[n] = -1;
        if (p->live[n] && p->role[n] >= SG_FUSE_STEP)
            place_node(p, node);
    }
    return SG_OK;
}

void sg_fuse_plan_release(sg_fuse_plan *p)
{
    sg_free(p->role);
    sg_free(p->live);
    sg_free(p->after);
    sg_free(p->root);
    sg_free(p->use);
    sg_free(p->use_at);
    sg_free(p->group);
    sg_free(p->next);
    sg_free(p->groups);
    sg_free(p->image);
}
