/* passes.c - the rewrites between lowering and scheduling. */
#include "ops/ops.h"
#include "runtime/cuda/adam_group_internal.h"
#include "runtime/cuda/cast_group_internal.h"
#include "runtime/cuda/chain_internal.h"
#include "runtime/cuda/column_sums_internal.h"
#include "runtime/cuda/csr_internal.h"
#include "runtime/cuda/product_internal.h"
#include "runtime/fuse_internal.h"
#include "runtime/updates_internal.h"

extern const sg_op sg_op_matmul, sg_op_reshape, sg_op_sum;
enum { TRANS_A, TRANS_B };

/* Elements of a parameter whose update has a launch of its own. */
#define LARGE_UPDATE ((int64_t)1 << 19)
/* Elements of a parameter from which its update is joined to the product that is its gradient; below LARGE_UPDATE, since a thread
 * of a product has too few loads on their way for the six streams of a larger update. */
#define LEAST_JOINED ((int64_t)1 << 17)
enum { ADAM_G = 1 };
/* Elements that one node casts. */
#define CAST_AT_ONCE ((int64_t)1 << 24)
enum { SHORT_SUM = 4096, LONGEST_SUM = 1 << 15, MANY_ROWS = 256, LONGEST_COLUMN = 64 };

/* Products with one column, H v: each element of a row of H is multiplied once and added up, which a chain does in less time
 * than a product. */
static bool as_sum(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user, (void)to, (void)from;
    if (node->op != &sg_op_matmul || node->attr[TRANS_A].i || sg_dtype_of(in[0]) != SG_F32 ||
        sg_dtype_of(in[1]) != SG_F32)
        return false;
    bool trans_b = node->attr[TRANS_B].i != 0;
    sg_shape row = *sg_shape_of(in[1]);
    int64_t *rows = &row.dim[row.rank - 2], *columns = &row.dim[row.rank - 1];
    int64_t length = trans_b ? *columns : *rows;
    if ((trans_b ? *rows : *columns) != 1 || length < 1 || length > SHORT_SUM)
        return false;
    *rows = 1;
    *columns = length;
    row.name[row.rank - 2] = row.name[row.rank - 1] = NULL;
    out[0] = sg_sum_axes(sg_mul(in[0], trans_b ? in[1] : sg_reshape(in[1], row)), 1, (int32_t[]){-1}, true);
    return true;
}

/* A sum of which axes of size 1 are kept, only to be dropped: the same without them. */
static bool as_sum_without(const sg_node *node, sg_graph *from, const sg_value *in, sg_value *out)
{
    if (node->op != &sg_op_reshape || sg_node_of(in[0])->op != &sg_op_sum)
        return false;
    const sg_node *sum = sg_node_of(in[0]);
    int32_t axes[SG_MAX_RANK], n = (int32_t)sum->attr[0].count;
    for (int32_t i = 0; i < n; i++)
        axes[i] = (int32_t)sum->attr[0].ints[i];
    sg_value plain = sg_sum_axes(sg_value_at(in[0].graph, sum->in[0]), n, axes, false);
    if (!sg_shape_equal(sg_shape_of(plain), sg_shape_of(sg_value_at(from, node->out))))
        return false;
    out[0] = plain;
    return true;
}

static bool with_sums(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    return as_sum(user, to, from, node, in, out) || as_sum_without(node, from, in, out);
}

static sg_status sums(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, with_sums, NULL, NULL, err);
}

/* A warp or a block adds up a row, which is to be short, or one of many; eight threads a column of a few elements. */
static bool short_sums(const sg_node *node, const sg_sum_form *f)
{
    (void)node;
    if (f->length < 1)
        return false;
    if (f->inner > 1)
        return f->length <= LONGEST_COLUMN;
    return f->length <= SHORT_SUM || (f->length <= LONGEST_SUM && f->outer >= MANY_ROWS);
}

/* Of what kernels hold in registers as it is in memory. */
static bool joins(sg_graph *graph, const sg_node *concat)
{
    sg_dtype dtype = sg_dtype_of(sg_value_at(graph, concat->out));
    return dtype == SG_F32 || dtype == SG_I32;
}

static sg_status chains(sg_graph *from, sg_graph *to, sg_error *err)
{
    static const sg_fuse_rules rules = {.has = sg_cuda_chain_has,
                                        .sums = short_sums,
                                        .joins = joins,
                                        .follow = sg_cuda_product_follow,
                                        .chooses = sg_cuda_product_chooses,
                                        .numbers_once = true,
                                        .after_sums = true};
    return sg_fuse_chains(from, to, &rules, err);
}

static bool is_read_once(sg_graph *graph, int32_t value)
{
    int32_t readers = 0;
    for (int32_t i = 0; i < sg_node_count(graph); i++)
        for (int32_t k = 0; k < sg_node_at(graph, i)->n_in; k++)
            readers += sg_node_at(graph, i)->in[k] == value;
    for (int32_t j = 0; j < sg_result_count(graph); j++)
        readers += sg_result_value(graph, j).id == value;
    return readers == 1;
}

/* An update of some size whose gradient is a product that steps may follow, and that nobody else reads: stated as steps it runs
 * on the product's elements, and the gradient is never in memory. */
static bool joins_update(sg_graph *graph, const sg_node *node)
{
    if (node->op != &sg_op_adam)
        return false;
    sg_value g = sg_value_at(graph, node->in[ADAM_G]);
    int64_t elements = sg_shape_count(sg_shape_of(g));
    return sg_node_of(g)->op == &sg_op_matmul && elements >= LEAST_JOINED && elements < LARGE_UPDATE &&
           is_read_once(graph, g.id) && sg_cuda_product_follow(graph, sg_node_of(g)) == SG_FUSE_STEPS;
}

static bool as_steps(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user;
    if (!joins_update(from, node))
        return false;
    node->op->decompose(&(sg_decompose_args){.graph = to, .node = node, .in = in, .out = out});
    return true;
}

static sg_status joined_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, as_steps, NULL, NULL, err);
}

static sg_status sparse_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_join_sparse_adam(from, to, SG_CUDA_LONG_LINE, err);
}

static sg_status small_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_group_adam(from, to, LARGE_UPDATE, err);
}

static sg_status leaf_casts(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_cuda_group_casts(from, to, CAST_AT_ONCE, err);
}

sg_status sg_cuda_fuse(sg_graph *from, sg_graph *to, sg_error *err)
{
    static const sg_fuse_pass passes[] = {sg_fuse_simplify,
                                          sg_cuda_join_cotangents,
                                          sg_cuda_order_sums,
                                          sums,
                                          joined_updates,
                                          chains,
                                          sg_cuda_join_column_sums,
                                          sg_cuda_clip_updates,
                                          sparse_updates,
                                          sg_cuda_spread_updates,
                                          small_updates,
                                          sg_cuda_rows_updates,
                                          leaf_casts};
    return sg_fuse_passes(passes, sizeof passes / sizeof passes[0], from, to, err);
}
