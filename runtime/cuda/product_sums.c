/* product_sums.c - sums of several products in the order that costs least.
 *
 * Derivatives add products up: the cotangent of a value that three layers read, the tangent of x W + b. A product can add one
 * tensor to itself before it goes to memory (matmul.c), so a sum of products and tensors goes from one product to the next,
 *
 *     ((w + A B) + C D) + row,
 *
 * and no addition is left. Autodiff gives balanced trees, where sums of sums would be. In f32 or bf16 between the steps, each
 * product is rounded as often as before. */
#include "ops/ops_internal.h"
#include "runtime/cuda/product_internal.h"

extern const sg_op sg_op_matmul, sg_op_add, sg_op_cast;

enum { MOST_TERMS = 16 };

typedef struct summing {
    sg_graph *graph;  /* that the counts belong to */
    int32_t *readers; /* of each value; results and effects have one more than can be absorbed */
    int32_t *reader;  /* the last */
} summing;

typedef struct terms {
    sg_value whole[MOST_TERMS], product[MOST_TERMS], row;
    int32_t n_whole, n_product, n_row;
} terms;

static void count_root(summing *s, sg_value v) { s->readers[v.id] += 2; }

static bool count_readers(summing *s, sg_graph *graph)
{
    if (s->graph == graph)
        return true;
    int32_t n = sg_value_count(graph), entry;
    sg_value v = {.graph = graph};
    sg_free(s->readers);
    sg_free(s->reader);
    s->graph = graph;
    s->readers = sg_calloc(n + 1, sizeof *s->readers);
    s->reader = sg_calloc(n + 1, sizeof *s->reader);
    if (!s->readers || !s->reader)
        return false;
    for (int32_t i = 0; i < sg_node_count(graph); i++) {
        const sg_node *node = sg_node_at(graph, i);
        for (int32_t k = 0; k < node->n_in; k++) {
            s->readers[node->in[k]]++;
            s->reader[node->in[k]] = i;
        }
    }
    for (int32_t k = 0; k < sg_result_count(graph); k++)
        count_root(s, sg_result_value(graph, k));
    for (int32_t k = 0; k < sg_effect_count(graph); k++) {
        sg_effect_at(graph, k, &entry, &v.id);
        count_root(s, v);
    }
    return true;
}

static bool like(sg_value a, sg_value b)
{
    return sg_dtype_of(a) == sg_dtype_of(b) && sg_shape_equal(sg_shape_of(a), sg_shape_of(b));
}

/* Is this sum a term of another? */
static bool is_inner(const summing *s, sg_value sum)
{
    if (s->readers[sum.id] != 1)
        return false;
    const sg_node *reader = sg_node_at(sum.graph, s->reader[sum.id]);
    return reader->op == &sg_op_add && like(sum, sg_value_at(sum.graph, reader->out));
}

/* A product read here alone, that can add something to itself. */
static bool is_product(const summing *s, sg_value v)
{
    const sg_node *node = sg_node_of(v);
    if (s->readers[v.id] != 1)
        return false;
    if (node->op == &sg_op_cast && sg_dtype_of(v) == SG_F32) {
        v = sg_value_at(v.graph, node->in[0]);
        node = sg_node_of(v);
    }
    return node->op == &sg_op_matmul && s->readers[v.id] == 1 &&
           sg_cuda_product_follow(v.graph, node) == SG_FUSE_CHOSEN;
}

/* The terms of `v`, an operand of a sum like `sum`, in the new graph, where it is `image`. False if there are too many. */
static bool gather(const summing *s, terms *t, sg_value sum, sg_value v, sg_value image)
{
    const sg_node *node = sg_node_of(v), *now = sg_node_of(image);
    if (node->op == &sg_op_add && now->op == &sg_op_add && is_inner(s, v) && like(v, sum))
        return gather(s, t, sum, sg_value_at(v.graph, node->in[0]), sg_value_at(image.graph, now->in[0])) &&
               gather(s, t, sum, sg_value_at(v.graph, node->in[1]), sg_value_at(image.graph, now->in[1]));
    if (!like(v, sum)) {
        t->row = image;
        return t->n_row++ == 0;
    }
    bool product = is_product(s, v);
    *(product ? &t->product[t->n_product++] : &t->whole[t->n_whole++]) = image;
    return t->n_product < MOST_TERMS && t->n_whole < MOST_TERMS;
}

/* One tensor begins, what else there is follows, for the chain that may come next. */
static sg_value add_up(const terms *t)
{
    sg_value sum = t->n_whole ? sg_add(t->whole[0], t->product[0]) : t->product[0];
    for (int32_t i = 1; i < t->n_product; i++)
        sum = sg_add(sum, t->product[i]);
    if (t->n_row)
        sum = sg_add(sum, t->row);
    for (int32_t i = 1; i < t->n_whole; i++)
        sum = sg_add(sum, t->whole[i]);
    return sum;
}

static bool order_sum(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    summing *s = user;
    terms t = {0};
    sg_value sum = sg_value_at(from, node->out);
    if (node->op != &sg_op_add)
        return false;
    if (!count_readers(s, from)) {
        sg_graph_fail(to, SG_E_MEMORY, SG_NONE, "out of memory ordering sums");
        return true;
    }
    if (is_inner(s, sum) || !gather(s, &t, sum, sg_value_at(from, node->in[0]), in[0]) ||
        !gather(s, &t, sum, sg_value_at(from, node->in[1]), in[1]) || t.n_product == 0 || t.n_product + t.n_whole < 3)
        return false;
    out[0] = add_up(&t);
    return true;
}

sg_status sg_cuda_order_sums(sg_graph *from, sg_graph *to, sg_error *err)
{
    summing s = {0};
    sg_status status = sg_graph_rewrite(from, to, order_sum, &s, NULL, err);
    sg_free(s.readers);
    sg_free(s.reader);
    return status;
}
