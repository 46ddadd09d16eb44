/* op_check.h - what every operator has to hold, checked on its samples (ops/samples): one list of checks, run by the program
 * (`sealgraph ops --check`) and by tests/ops/harness_test.c. With L = sum_j <w_j, out_j> + 1/4 <out_j, out_j>, whose
 * square makes the derivatives of linear operators move:
 *
 *     shape        the shape rule answers what the sample says
 *     differences  grad L, its grad and the grad of that against central differences in float64; jvp against vjp
 *     adjoint      <J u, c> = <u, J' c> with independent u and c; J' linear in the cotangent
 *     linear flag  what the descriptor calls linear is
 *     zero         a derivative that is zero by contract is zero
 *     decomposed   composites and their derivative composites against the mechanical decomposition, orders 0 to 2
 *     cpu 0..3     values, grad L, Hessian products in both modes and third derivatives on cpu against reference
 *     same bits    on cpu, twice and with two threads */
#ifndef SG_CLI_OP_CHECK_H
#define SG_CLI_OP_CHECK_H

#include "ops/samples/samples_internal.h"

typedef struct sg_finding {
    bool passed;
    double error, limit; /* of the figure nearest to its limit, or farthest beyond */
    char text[400];      /* which figure that is; why nothing could be measured */
} sg_finding;

typedef struct sg_op_check {
    const char *name;
    const char *backend; /* what is checked: "reference", "cpu" or "cuda" */
    int order;           /* the highest derivative it looks at */
    bool low;            /* in bf16 */
    bool (*applies)(const sg_sample *sample);
    /* NULL: what the backend computes of this order against reference. */
    void (*run)(const sg_sample *sample, sg_finding *finding);
} sg_op_check;
void sg_op_check_run(const sg_op_check *check, const sg_sample *sample, sg_finding *finding);

extern const sg_op_check sg_op_checks[];
extern const int32_t sg_op_check_count;
/* For machines with a GPU (sealgraph ops --check --device cuda, tests/runtime/cuda_test.c):
 *
 *     cuda 0..3    as cpu 0..3
 *     cuda bits    launch by launch, recorded and replayed: the same bits
 *     cuda bf16    values, grad L and Hessian products of operators that run in bf16, from rounded operands */
extern const sg_op_check sg_cuda_checks[];
extern const int32_t sg_cuda_check_count;

/* All checks of all samples of one operator. A derivative composite is checked by the samples of the operator at its root, in
 * whose derivatives it has to arise. */
typedef struct sg_op_verdict {
    bool passed;
    bool leaf;               /* nothing to check */
    const char *through;     /* the operator whose samples were used */
    int32_t samples, checks; /* run */
    bool order[4];           /* derivatives of this order were checked */
    bool reference, cpu;     /* backends that were checked */
    bool cuda;
    const char *check; /* of the worst finding, "" if there is none */
    char sample[256];
    sg_finding worst;
    char gap[256]; /* what is missing beside findings: no sample, no rule; "" if nothing */
} sg_op_verdict;
/* `of_root`: the verdict on sg_op_root(op), which is then not computed again; NULL otherwise. `cuda`: by sg_cuda_checks. */
void sg_op_verify(const sg_op *op, bool cuda, const sg_op_verdict *of_root, sg_op_verdict *verdict);
const sg_op *sg_op_root(const sg_op *op); /* what a derivative composite differentiates in the end; else op itself */

#endif
