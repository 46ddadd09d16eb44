/* passes.c - the rewrites between lowering and scheduling. */
#include "runtime/cuda/adam_group_internal.h"
#include "runtime/cuda/chain_internal.h"
#include "runtime/cuda/product_internal.h"
#include "runtime/fuse_internal.h"
#include "runtime/updates_internal.h"

/* Elements of a parameter whose update has a launch of its own. */
#define LARGE_UPDATE ((int64_t)1 << 19)
/* Non-zeros a row of a sparse layer from which its gradient is made apart: its kernel then shares a row among threads. */
enum { LONG_ROW = 16 };
enum { SHORT_SUM = 4096, LONGEST_SUM = 1 << 15, MANY_ROWS = 256, LONGEST_COLUMN = 64 };

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

static sg_status chains(sg_graph *from, sg_graph *to, sg_error *err)
{
    static const sg_fuse_rules rules = {
        .has = sg_cuda_chain_has, .sums = short_sums, .follow = sg_cuda_product_follow, .ends = sg_cuda_product_ends};
    return sg_fuse_chains(from, to, &rules, err);
}

static sg_status sparse_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_join_sparse_adam(from, to, LONG_ROW, err);
}

static sg_status small_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_group_adam(from, to, LARGE_UPDATE, err);
}

sg_status sg_cuda_fuse(sg_graph *from, sg_graph *to, sg_error *err)
{
    static const sg_fuse_pass passes[] = {sg_fuse_simplify, chains, sparse_updates, small_updates};
    return sg_fuse_passes(passes, sizeof passes / sizeof passes[0], from, to, err);
}
