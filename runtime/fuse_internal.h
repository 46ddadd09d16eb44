/* fuse_internal.h - the fusion pass: which nodes form a chain (fuse_plan.c), and building it (fuse.c). A backend says what a
 * chain may consist of and compiles the bodies. */
#ifndef SG_FUSE_INTERNAL_H
#define SG_FUSE_INTERNAL_H

#include "runtime/backend_internal.h"

/* What may follow a product: matmul or csr_matmul. */
typedef enum sg_fuse_follow { SG_FUSE_NOTHING, SG_FUSE_CHOSEN, SG_FUSE_STEPS } sg_fuse_follow;
enum {
    SG_FUSE_MOST_CHOSEN = 4, /* members of a product's chain of chosen steps */
    SG_FUSE_MOST_JOINED = 8  /* operands of a concat that ends a chain */
};

/* A sum as x [outer, length, inner] -> y [outer, inner]. */
typedef struct sg_sum_form {
    int64_t outer, length, inner;
    int32_t first; /* axis of x from which on it adds up; axes of size 1 do not count */
} sg_sum_form;
/* Of a node sum or sum_like. False if axes that stay stand between those that it adds up, and if it adds up nothing. */
bool sg_fuse_sum_form(const sg_node *node, const sg_shape *x, const sg_shape *y, sg_sum_form *out);

/* What the chains of a backend may hold. */
typedef struct sg_fuse_rules {
    /* Can this op with these dtypes be a step? Shapes are not looked at. */
    bool (*has)(const sg_op *op, int32_t n_in, const sg_dtype *in, sg_dtype out);
    /* May a chain end in this node, a sum or sum_like of that form? NULL: never. */
    bool (*sums)(const sg_node *node, const sg_sum_form *form);
    /* May a chain end in this node, a concat? Its operands are then computed where they will lie. NULL: never. */
    bool (*joins)(sg_graph *graph, const sg_node *node);
    /* What may follow a product in one kernel, so that it sees each element before it goes to memory. NULL: nothing. */
    sg_fuse_follow (*follow)(sg_graph *graph, const sg_node *product);
    /* Is `step`, which reads the last of member[0 .. n), one that may follow them? The first is a product of SG_FUSE_CHOSEN. */
    bool (*chooses)(sg_graph *graph, const sg_node *const *member, int32_t n, const sg_node *step);
    /* Does a chain do steps on single numbers once for all its elements? Then a few may join a chain of some size that reads what they make. */
    bool numbers_once;
    bool after_sums; /* may steps on the sums themselves, of their shape, follow in the chain that ends in them? */
} sg_fuse_rules;

/* Copy `from` to `to` with chains of elementwise nodes grouped into sg_op_fused nodes. */
sg_status sg_fuse_chains(sg_graph *from, sg_graph *to, const sg_fuse_rules *rules, sg_error *err);

/* Products with one column as multiplications or sums of rows (simplify.c). */
sg_status sg_fuse_simplify(sg_graph *from, sg_graph *to, sg_error *err);

/* Passes one after the other. */
typedef sg_status (*sg_fuse_pass)(sg_graph *from, sg_graph *to, sg_error *err);
sg_status sg_fuse_passes(const sg_fuse_pass *pass, int32_t n, sg_graph *from, sg_graph *to, sg_error *err);

/* What a node is to the pass. */
typedef enum sg_fuse_role {
    SG_FUSE_NONE,    /* runs by itself */
    SG_FUSE_NUMBER,  /* the same number everywhere: copied into each chain that reads it */
    SG_FUSE_VIEW,    /* another view of its operand: a chain reads through it */
    SG_FUSE_STEP,    /* elementwise, or a draw */
    SG_FUSE_SUM,     /* a sum: ends a chain */
    SG_FUSE_PRODUCT, /* a product: begins a chain; its own operands are read from memory */
    SG_FUSE_JOIN     /* a concat: ends chains, one of each operand, each of its own shape */
} sg_fuse_role;

typedef struct sg_fuse_group {
    int32_t first, last; /* member nodes, linked by `next` in increasing order */
    int32_t count;
    sg_shape space;
    int64_t axes;    /* which its sums add up, as a number; 0 without sums */
    bool cheap;      /* every member costs about an addition: may be computed again for each broadcast copy */
    bool once;       /* every member is a step on single numbers, which a chain does once for all its elements */
    int32_t numbers; /* members that joined as such */
    int32_t product; /* a chain has one at most: its node, or -1 */
    bool chosen;     /* what may follow it is chosen step by step */
    bool joined;     /* ends in a concat, whose shape `space` is */
    bool after;      /* steps on its sums follow */
} sg_fuse_group;

/* Groups of one graph. A group is named by its first member. It runs where its last member stands. */
typedef struct sg_fuse_plan {
    sg_graph *graph;
    const sg_fuse_rules *rules;
    int32_t n_nodes, n_values;
    sg_fuse_role *role;         /* of each node */
    bool *live;                 /* of each node: its elements are needed, not only its shape */
    bool *after;                /* of each node: a step on sums of its chain */
    bool *root;                 /* of each value: needed at the end */
    int32_t *use, *use_at;      /* nodes that read value v: use[use_at[v] .. use_at[v + 1]) */
    int32_t *group;             /* of each node, or -1 */
    int32_t *next;              /* of each node: the next member of its group, or -1 */
    sg_fuse_group *groups;      /* by first member */
    int32_t *image;             /* while building: of each value, its id in the new graph, or -1 */
    struct sg_fuse_plan *outer; /* plans of the other graphs of this pass */
} sg_fuse_plan;

sg_status sg_fuse_plan_make(sg_fuse_plan *plan, sg_graph *graph, const sg_fuse_rules *rules, sg_error *err);
void sg_fuse_plan_release(sg_fuse_plan *plan);
/* Is operand k of the node read for more than its shape? */
bool sg_fuse_reads(const sg_node *node, int32_t k);

#endif
