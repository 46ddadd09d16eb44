/* matmul_sum.c - sums of matrix products as one node. Tangents and cotangents are full of them (x W' moves by tx W' + x tW'; x
 * that enters three projections gets three products): apart, each product is written to memory and read again to be added.
 * Here a tile of the sum stays in the cache while the products are added to it, and needs no memory but its own. */
#include <math.h>
#include <string.h>

#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/matmul_internal.h"

enum { MOST_TERMS = 8 };

/* ----------------------------------------------------------------------------------------------------------- the op */

/* Operands a0, b0, a1, b1, ..; attribute: whether each is stored transposed. */
static const sg_attr_spec attrs[] = {{"transposed", SG_ATTR_INTS}};

static void term_attrs(const sg_attr *attr, int32_t t, sg_attr out[2])
{
    out[0] = sg_attr_int(attr[0].ints[2 * t]);
    out[1] = sg_attr_int(attr[0].ints[2 * t + 1]);
}

static sg_status infer(const sg_infer_args *args)
{
    sg_attr attr[2];
    term_attrs(args->attr, 0, attr);
    sg_infer_args first = *args;
    first.attr = attr;
    first.n_in = 2;
    return sg_op_matmul.infer(&first);
}

/* A rule cannot report a failure; out of memory shows as NaN. */
static void eval(const sg_eval_args *args)
{
    int64_t n = sg_shape_count(args->out[0].shape);
    sg_tensor64 term = {args->out[0].shape, sg_calloc(n + 1, sizeof(double))};
    for (int64_t i = 0; i < n; i++)
        args->out[0].data[i] = term.data ? 0 : NAN;
    for (int32_t t = 0; term.data && t < args->n_in / 2; t++) {
        sg_attr attr[2];
        term_attrs(args->attr, t, attr);
        sg_eval_args a = *args;
        a.attr = attr;
        a.n_in = 2;
        a.in = args->in + 2 * t;
        a.out = &term;
        sg_op_matmul.eval(&a);
        for (int64_t i = 0; i < n; i++)
            args->out[0].data[i] += term.data[i];
    }
    sg_free(term.data);
}

static sg_cost cost(const sg_cost_args *args)
{
    sg_cost sum = {0, 0};
    for (int32_t t = 0; t < args->n_in / 2; t++) {
        sg_attr attr[2];
        term_attrs(args->attr, t, attr);
        sg_cost_args a = *args;
        a.attr = attr;
        a.in_shape = args->in_shape + 2 * t;
        a.in_dtype = args->in_dtype + 2 * t;
        sg_cost one = sg_op_matmul.cost(&a);
        sum.flops += one.flops;
        sum.bytes += one.bytes;
    }
    return sum;
}

static const sg_op matmul_sum = {
    .name = "matmul_sum",
    .summary = "a sum of matrix products",
    .n_in = SG_VARIADIC,
    .n_out = 1,
    .flags = SG_OP_STOP,
    .attrs = attrs,
    .n_attrs = 1,
    .infer = infer,
    .eval = eval,
    .cost = cost,
};

/* --------------------------------------------------------------------------------------------------------- the pass */

typedef struct terms {
    sg_value in[2 * MOST_TERMS];
    int64_t transposed[2 * MOST_TERMS];
    int32_t n;
} terms;

/* A product that oneDNN makes as one matrix, rows of the whole batch together. */
static bool one_matrix(sg_value product)
{
    const sg_node *node = sg_node_of(product);
    sg_value a = sg_value_at(product.graph, node->in[0]), b = sg_value_at(product.graph, node->in[1]);
    int64_t work = 1;
    bool fits = sg_dtype_of(product) == SG_F32 && sg_rank_of(b) == 2 && (sg_rank_of(a) == 2 || node->attr[0].i == 0) &&
                sg_mul_ok(sg_shape_count(sg_shape_of(a)), sg_dim_of(product, -1), &work);
    return fits && work > SG_MATMUL_SMALL;
}

/* Add the terms of a value of the new graph; false if it is no product or sum of products. */
static bool collect(terms *all, sg_value v)
{
    const sg_node *node = sg_node_of(v);
    bool sum = node->op == &matmul_sum;
    if ((!sum && (node->op != &sg_op_matmul || !one_matrix(v))) || all->n + node->n_in / 2 > MOST_TERMS)
        return false;
    for (int32_t k = 0; k < node->n_in; k++) {
        all->in[2 * all->n + k] = sg_value_at(v.graph, node->in[k]);
        all->transposed[2 * all->n + k] = sum ? node->attr[0].ints[k] : node->attr[k].i;
    }
    all->n += node->n_in / 2;
    return true;
}

static bool join(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user;
    terms all = {.n = 0};
    if (node->op != &sg_op_add || sg_is_none(in[0]) || sg_is_none(in[1]) || in[0].graph != to || in[1].graph != to ||
        !sg_shape_equal(sg_shape_of(in[0]), sg_shape_of(in[1])) || !collect(&all, in[0]) || !collect(&all, in[1]) ||
        sg_reader_count(from, node->in[0]) != 1 || sg_reader_count(from, node->in[1]) != 1)
        return false;
    sg_attr attr = sg_attr_ints(all.transposed, 2 * all.n);
    out[0] = sg_build(to, &matmul_sum, all.in, 2 * all.n, &attr);
    return true;
}

sg_status sg_cpu_join_products(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, join, NULL, NULL, err);
}

/* ------------------------------------------------------------------------------------------------------- the kernel */

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    sg_matmul_problem p[MOST_TERMS];
    int32_t n = spec->n_in / 2;
    for (int32_t t = 0; t < n; t++) {
        sg_attr attr[2];
        term_attrs(spec->attr, t, attr);
        sg_kernel_spec one = *spec;
        one.attr = attr;
        one.in_shape = spec->in_shape + 2 * t;
        one.in_dtype = spec->in_dtype + 2 * t;
        p[t] = sg_matmul_describe(&one);
    }
    return sg_matmul_prepare_terms(p, n, spec->threads, out, err);
}

const sg_cpu_kernel sg_cpu_matmul_sum_kernels[] = {{&matmul_sum, NULL, prepare}, {0}};
