/* einsum.c - sums of products written with one letter an axis (Einstein's convention, in NumPy's notation).
 *
 *     einsum("bqhd,bkhd->bhqk", q, k):   y[b,h,q,k] = sum over d of q[b,q,h,d] k[b,k,h,d]
 *
 * Operands are joined from left to right. For two of them, each letter has one of these parts:
 *     lone          in one operand, needed nowhere later: summed away at once
 *     batch         in both, needed later: an axis in front of the matrices
 *     contracted    in both, needed no more: the inner axis of the product
 *     left, right   in one, needed later: rows or columns of the product
 * so each join is transposes, reshapes and one batched matrix product (or, without rows or columns, or without a contracted
 * letter, a product of elements). There is no operator of its own: every part has derivatives of every order. */
#include "ops/axis_internal.h"

#include <stdio.h>
#include <string.h>

enum { MAX_OPERANDS = 16 };

/* A value with a letter for each axis. */
typedef struct term {
    sg_value value;
    int32_t rank;
    char letter[SG_MAX_RANK];
} term;

typedef struct einsum {
    sg_graph *graph;
    const char *equation;
    sg_value near; /* for messages */
    term operand[MAX_OPERANDS];
    term result; /* its letters */
} einsum;

static bool refuse(const einsum *e, const char *at, const char *what)
{
    sg_graph_fail(e->graph, SG_E_ARGUMENT, e->near, "einsum \"%s\", character %d: %s", e->equation,
                  (int)(at - e->equation) + 1, what);
    return false;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static int32_t find(const term *t, char letter)
{
    const char *at = t->rank ? memchr(t->letter, letter, (size_t)t->rank) : NULL;
    return at ? (int32_t)(at - t->letter) : -1;
}

/* ------------------------------------------------------------------------------------------------------- reading */

/* Letters up to a character that is none, into `out`; each at most once. */
static const char *read_letters(const einsum *e, const char *at, term *out)
{
    for (out->rank = 0; is_letter(*at) || *at == ' '; at++) {
        if (*at == ' ')
            continue;
        if (find(out, *at) >= 0)
            return refuse(e, at, "a letter may stand only once in an operand or in the result"), NULL;
        if (out->rank == SG_MAX_RANK)
            return refuse(e, at, "too many axes"), NULL;
        out->letter[out->rank++] = *at;
    }
    return at;
}

/* Is the size of each axis that of the letter's other axes? */
static bool check_sizes(const einsum *e, int32_t k, const char *begin)
{
    const term *t = &e->operand[k];
    for (int32_t i = 0; i < t->rank; i++) {
        for (int32_t other = 0; other < k; other++) {
            int32_t j = find(&e->operand[other], t->letter[i]);
            int64_t here = sg_dim_of(t->value, i), there = j < 0 ? here : sg_dim_of(e->operand[other].value, j);
            if (here == there)
                continue;
            char what[96];
            snprintf(what, sizeof what, "'%c' has size %lld here and %lld in operand %d", t->letter[i], (long long)here,
                     (long long)there, other);
            return refuse(e, strchr(begin, t->letter[i]), what);
        }
    }
    return true;
}

static const char *read_operand(einsum *e, const char *at, int32_t k)
{
    const char *begin = at, *end = read_letters(e, at, &e->operand[k]);
    if (!end)
        return NULL;
    int32_t rank = sg_rank_of(e->operand[k].value);
    if (e->operand[k].rank != rank) {
        char what[96];
        snprintf(what, sizeof what, "operand %d has %d letters and %d axes", k, e->operand[k].rank, rank);
        return refuse(e, begin, what), NULL;
    }
    return check_sizes(e, k, begin) ? end : NULL;
}

static bool read_result(einsum *e, const char *at, int32_t n)
{
    if (at[0] != '-' || at[1] != '>')
        return refuse(e, at, *at == ',' ? "more operands than values" : "expected a letter, ',' or '->'");
    const char *begin = at + 2, *end = read_letters(e, begin, &e->result);
    if (!end)
        return false;
    if (*end)
        return refuse(e, end, "expected a letter of the result");
    for (at = begin; at < end; at++) {
        bool known = *at == ' ';
        for (int32_t k = 0; k < n; k++)
            known = known || find(&e->operand[k], *at) >= 0;
        if (!known)
            return refuse(e, at, "this letter stands in no operand");
    }
    return true;
}

static bool read_equation(einsum *e, int32_t n)
{
    const char *at = e->equation;
    for (int32_t k = 0; k < n; k++) {
        if (!(at = read_operand(e, at, k)))
            return false;
        if (k + 1 < n && *at != ',')
            return refuse(e, at, "fewer operands than values: expected ','");
        at += k + 1 < n;
    }
    return read_result(e, at, n);
}

/* ------------------------------------------------------------------------------------------------------- joining */

/* Does the result or an operand from k on need the letter? */
static bool needed(const einsum *e, int32_t k, int32_t n, char letter)
{
    bool found = find(&e->result, letter) >= 0;
    for (; k < n && !found; k++)
        found = find(&e->operand[k], letter) >= 0;
    return found;
}

static term permute(const term *t, const char *letters, int32_t rank)
{
    int32_t order[SG_MAX_RANK] = {0};
    term out = {.rank = rank};
    for (int32_t i = 0; i < rank; i++) {
        order[i] = find(t, letters[i]);
        out.letter[i] = letters[i];
    }
    out.value = sg_transpose(t->value, rank, order);
    return out;
}

/* t summed over some of its letters. */
static term sum_over(const term *t, const char *letters, int32_t n)
{
    int32_t axes[SG_MAX_RANK], count = 0;
    term rest = {.rank = 0};
    for (int32_t i = 0; i < t->rank; i++) {
        if (n && memchr(letters, t->letter[i], (size_t)n))
            axes[count++] = i;
        else
            rest.letter[rest.rank++] = t->letter[i];
    }
    rest.value = count ? sg_sum_axes(t->value, count, axes, false) : t->value;
    return rest;
}

/* Sum over the letters that neither `other` (may be NULL) nor anything from operand k on needs. */
static term drop_lone(const einsum *e, const term *t, const term *other, int32_t k, int32_t n)
{
    char lone[SG_MAX_RANK];
    int32_t count = 0;
    for (int32_t i = 0; i < t->rank; i++)
        if (!(other && find(other, t->letter[i]) >= 0) && !needed(e, k, n, t->letter[i]))
            lone[count++] = t->letter[i];
    return sum_over(t, lone, count);
}

/* The letters of two operands by the part they play. */
typedef struct parts {
    char batch[SG_MAX_RANK], contracted[SG_MAX_RANK], left[SG_MAX_RANK], right[SG_MAX_RANK];
    int32_t n_batch, n_contracted, n_left, n_right;
} parts;

static parts sort_letters(const einsum *e, const term *a, const term *b, int32_t k, int32_t n)
{
    parts p = {.n_batch = 0};
    for (int32_t i = 0; i < a->rank; i++) {
        if (find(b, a->letter[i]) < 0)
            p.left[p.n_left++] = a->letter[i];
        else if (needed(e, k, n, a->letter[i]))
            p.batch[p.n_batch++] = a->letter[i];
        else
            p.contracted[p.n_contracted++] = a->letter[i];
    }
    for (int32_t i = 0; i < b->rank; i++)
        if (find(a, b->letter[i]) < 0)
            p.right[p.n_right++] = b->letter[i];
    return p;
}

/* t with axes [first, first + count) made one: none becomes an axis of size 1. */
static sg_value merge_axes(sg_value t, int32_t first, int32_t count)
{
    if (count == 1)
        return t;
    if (count == 0)
        return sg_expand_dims(t, first);
    int64_t code[SG_MAX_RANK];
    int32_t rank = sg_rank_of(t), n = 0;
    for (int32_t i = 0; i < rank; i++) {
        if (i == first)
            code[n++] = -1;
        else if (i < first || i >= first + count)
            code[n++] = -2 - (int64_t)i; /* keeps source axis i, see reshape.c */
    }
    sg_attr attr = sg_attr_ints(code, n);
    return sg_build_op(&sg_op_reshape, &t, 1, &attr);
}

/* a as [batch..., left, contracted] and b as [batch..., right, contracted], each group one axis. */
static sg_value matrices(const term *t, const parts *p, const char *side, int32_t n_side)
{
    char letters[SG_MAX_RANK];
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_batch; i++)
        letters[n++] = p->batch[i];
    for (int32_t i = 0; i < n_side; i++)
        letters[n++] = side[i];
    for (int32_t i = 0; i < p->n_contracted; i++)
        letters[n++] = p->contracted[i];
    term sorted = permute(t, letters, n);
    sg_value merged = merge_axes(sorted.value, p->n_batch + n_side, p->n_contracted);
    return merge_axes(merged, p->n_batch, n_side);
}

/* t with an axis, of size 1 if need be, for each of the letters. */
static sg_value spread(const term *t, const char *letters, int32_t rank)
{
    char own[SG_MAX_RANK] = {0};
    int64_t missing[SG_MAX_RANK];
    int32_t n_own = 0, n_missing = 0;
    for (int32_t i = 0; i < rank; i++) {
        if (find(t, letters[i]) >= 0)
            own[n_own++] = letters[i];
        else
            missing[n_missing++] = i;
    }
    term sorted = permute(t, own, n_own);
    return n_missing ? sg_expand_axes(sorted.value, n_missing, missing) : sorted.value;
}

/* a b elementwise over all letters of the joint and the contracted ones, and the sum over those. */
static sg_value multiply_elements(const term *a, const term *b, const term *joint, const parts *p)
{
    char letters[2 * SG_MAX_RANK];
    int32_t axes[SG_MAX_RANK], rank = joint->rank;
    memcpy(letters, joint->letter, (size_t)rank);
    for (int32_t i = 0; i < p->n_contracted; i++) {
        axes[i] = rank;
        letters[rank++] = p->contracted[i];
    }
    sg_value product = sg_mul(spread(a, letters, rank), spread(b, letters, rank));
    return p->n_contracted ? sg_sum_axes(product, p->n_contracted, axes, false) : product;
}

/* One batched product. Where groups were merged, their axes come back from a value that is read for its shape alone, so
 * that no size of a named axis is kept. */
static sg_value multiply_matrices(const term *a, const term *b, const term *joint, const parts *p)
{
    sg_value product = sg_matmul_nt(matrices(a, p, p->left, p->n_left), matrices(b, p, p->right, p->n_right));
    if (p->n_left == 1 && p->n_right == 1)
        return product;
    term rows = sum_over(a, p->contracted, p->n_contracted), columns = sum_over(b, p->contracted, p->n_contracted);
    sg_value model = sg_add(spread(&rows, joint->letter, joint->rank), spread(&columns, joint->letter, joint->rank));
    return sg_reshape_like(product, model);
}

/* The product of the first k operands with operand k. */
static bool join(const einsum *e, term *a, int32_t k, int32_t n)
{
    term b = drop_lone(e, &e->operand[k], a, k + 1, n), left = drop_lone(e, a, &e->operand[k], k + 1, n);
    parts p = sort_letters(e, &left, &b, k + 1, n);
    term joint = {.rank = 0};
    if (p.n_batch + p.n_left + p.n_right > SG_MAX_RANK)
        return refuse(e, e->equation, "a product of two operands would have too many axes");
    for (int32_t i = 0; i < p.n_batch; i++)
        joint.letter[joint.rank++] = p.batch[i];
    for (int32_t i = 0; i < p.n_left; i++)
        joint.letter[joint.rank++] = p.left[i];
    for (int32_t i = 0; i < p.n_right; i++)
        joint.letter[joint.rank++] = p.right[i];
    bool matrices_needed = p.n_contracted && p.n_left + p.n_right;
    joint.value = matrices_needed ? multiply_matrices(&left, &b, &joint, &p) : multiply_elements(&left, &b, &joint, &p);
    *a = joint;
    return !sg_is_none(joint.value);
}

sg_value sg_einsum(const char *equation, const sg_value *x, int32_t n)
{
    sg_graph *graph = sg_common_graph(x, n);
    if (!graph)
        return SG_NONE;
    einsum e = {.graph = graph, .equation = equation, .near = x[0]};
    if (!equation)
        return sg_graph_fail(graph, SG_E_ARGUMENT, x[0], "einsum: no equation");
    if (n > MAX_OPERANDS)
        return sg_graph_fail(graph, SG_E_ARGUMENT, x[0], "einsum: %d operands, at most %d", n, MAX_OPERANDS);
    for (int32_t k = 0; k < n; k++)
        e.operand[k].value = x[k];
    if (!read_equation(&e, n))
        return SG_NONE;
    term product = e.operand[0];
    for (int32_t k = 1; k < n; k++)
        if (!join(&e, &product, k, n))
            return SG_NONE;
    product = drop_lone(&e, &product, NULL, n, n);
    return permute(&product, e.result.letter, e.result.rank).value;
}
