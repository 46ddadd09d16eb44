/* passes.c - the rewrites between lowering and scheduling. */
#include "runtime/cpu/matmul_internal.h"
#include "runtime/cpu/program_internal.h"
#include "runtime/cpu/update_internal.h"
#include "runtime/fuse_internal.h"
#include "runtime/updates_internal.h"

extern const sg_op sg_op_sum;

static bool trailing_sums(const sg_node *node, const sg_sum_form *form)
{
    return node->op == &sg_op_sum && form->inner == 1;
}

static sg_status chains(sg_graph *from, sg_graph *to, sg_error *err)
{
    static const sg_fuse_rules rules = {.has = sg_program_has, .sums = trailing_sums};
    return sg_fuse_chains(from, to, &rules, err);
}

static sg_status sparse_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_join_sparse_adam(from, to, INT64_MAX, err);
}

/* Products with one column first: some are none. Sums of products before chains, which would take the sum in; updates after,
 * which read what chains leave. */
sg_status sg_cpu_fuse(sg_graph *from, sg_graph *to, sg_error *err)
{
    static const sg_fuse_pass passes[] = {sg_fuse_simplify, sg_cpu_products_with_rows, sg_cpu_join_products, chains,
                                          sparse_updates,   sg_cpu_join_updates};
    return sg_fuse_passes(passes, sizeof passes / sizeof passes[0], from, to, err);
}
