/* autodiff.h - the public header of autodiff/: derivatives as graph transformations. Every function adds nodes to the
 * graph of its arguments and returns values of it, so results can be differentiated again, planned and fused like any
 * others.
 *
 * Three different answers: a target that the result does not depend on has an exact zero derivative (zeros of its
 * shape); a derivative that is zero by mathematics is zero; an operator without a rule on the path is the sticky error
 * SG_E_UNSUPPORTED naming the node. */
#ifndef SG_AUTODIFF_H
#define SG_AUTODIFF_H

#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Derivatives of composite operators are operators too, which a device without a kernel for them has decomposed: by the
 * sweeps of autodiff/, lent here. Every function below does it by itself; a program that only loads and compiles graphs
 * which hold derivatives calls it once. */
void sg_autodiff_start(void);

/* Reverse mode. d(sum_k <seed[k], y[k]>) / d wrt[i] -> grad[i], shaped like wrt[i]. Values are versions:
 * differentiating with respect to the value an entry had before sg_assign is meaningful. */
void sg_vjp(const sg_value *y, const sg_value *seed, int32_t n_y, const sg_value *wrt, int32_t n_wrt, sg_value *grad);
/* The gradient of a rank-0 value. */
void sg_grad(sg_value loss, const sg_value *wrt, int32_t n_wrt, sg_value *grad);

/* Forward mode: the tangent of each y when x[i] moves along dx[i]. From the same rules: flags (linear, elementwise),
 * the op's jvp, or the transpose of its vjp. */
void sg_jvp(const sg_value *y, int32_t n_y, const sg_value *x, const sg_value *dx, int32_t n_x, sg_value *dy);

/* Hessian-vector products of a rank-0 loss: hv[i] = sum_j (d2 loss / dx_i dx_j) v[j]. */
typedef enum sg_hvp_mode {
    SG_HVP_FORWARD_OVER_REVERSE, /* jvp of the gradient: fewer saved values */
    SG_HVP_REVERSE_OVER_REVERSE  /* gradient of <gradient, v> */
} sg_hvp_mode;
void sg_hvp(sg_value loss, const sg_value *x, const sg_value *v, int32_t n, sg_value *hv, sg_hvp_mode mode);

/* ------------------------------------------------------------------------------------------- checking derivatives */

/* Evaluates values of a graph in double. autodiff/ does not know backends: the caller brings one. `feed[i]` are the
 * elements of x[i]; out[k] receives those of y[k]. Returns false on failure (with `err`). */
typedef struct sg_evaluator {
    bool (*evaluate)(void *user, sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x,
                     const sg_value *y, double *const *out, int32_t n_y, sg_error *err);
    void *user;
} sg_evaluator;

typedef struct sg_gradcheck_options {
    size_t size;        /* sizeof(sg_gradcheck_options) */
    int32_t order;      /* 1: gradient, 2: also Hessian products, 3: also third order; default 2 */
    int32_t directions; /* random directions; default 2 */
    double step;        /* of the fourth-order central difference; 0 chooses by order and dtype */
    double tolerance;   /* relative to max(1, |expected|); 0 chooses 1e-7, 1e-6, 1e-5 by order */
    uint64_t seed;
} sg_gradcheck_options;

typedef struct sg_gradcheck_result {
    bool passed;
    double worst[4]; /* largest relative error by order; [0] the adjointness <jvp u, g> - <u, vjp g> */
    double limit[4]; /* the tolerance each is held to */
    char where[192]; /* which order and which input was worst */
} sg_gradcheck_result;

/* Check the derivatives of `loss` (rank 0) with respect to inputs or parameters x at the point given by `at`, along
 * random directions, against central differences of the next lower order. Adds nodes to the graph. */
sg_status sg_gradcheck(sg_value loss, const sg_value *x, double *const *at, int32_t n, const sg_evaluator *evaluator,
                       const sg_gradcheck_options *options, sg_gradcheck_result *result, sg_error *err);

#ifdef __cplusplus
}
#endif
#endif
