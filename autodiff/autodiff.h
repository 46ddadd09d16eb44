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

/* The products below take their arguments as independent variables: theta, phi and z may be values in the middle of a
 * graph (weights after some inner steps), and nothing is differentiated through what made them.
 *
 * Mixed second derivatives: out[j] = d/dphi_j sum_i <dL/dtheta_i, v[i]>. */
void sg_mixed_hvp(sg_value loss, const sg_value *theta, const sg_value *v, int32_t n_theta, const sg_value *phi,
                  int32_t n_phi, sg_value *out, sg_hvp_mode mode);
/* Gauss-Newton: gv = J' (d2 L / dz2) J v with z(theta) the outputs of a net, J = dz/dtheta (Schraudolph 2002). What L
 * takes from theta beside z is not in it. */
void sg_ggn_vp(sg_value loss, const sg_value *z, int32_t n_z, const sg_value *theta, const sg_value *v, int32_t n,
               sg_value *gv);
/* The same products by central differences of gradients, [g(theta + e v) - g(theta - e v)] / 2e with e = step / |v|,
 * as papers have them: two gradients each, error O(e^2) and rounding over e. For comparison. Draws are the same. */
void sg_hvp_difference(sg_value loss, const sg_value *theta, const sg_value *v, int32_t n, double step, sg_value *hv);
void sg_mixed_hvp_difference(sg_value loss, const sg_value *theta, const sg_value *v, int32_t n_theta,
                             const sg_value *phi, int32_t n_phi, double step, sg_value *out);

/* Several tensors as one vector [total], in their order, and a vector cut and shaped like n tensors. */
sg_value sg_flatten(const sg_value *values, int32_t n);
void sg_unflatten(sg_value vector, const sg_value *like, int32_t n, sg_value *out);

/* ------------------------------------------------------------------------------------------- solving with products */

/* A square linear map as an expression: `out` is linear in `in`, both n values of equal shapes. Solvers apply it to
 * other vectors (sg_substitute). */
typedef struct sg_graph_map {
    const sg_value *in, *out;
    int32_t n;
} sg_graph_map;
/* v -> H v for a loss: fills in[n] with placeholders and out[n] with the products; a step > 0 chooses differences. */
sg_graph_map sg_hvp_map(sg_value loss, const sg_value *theta, int32_t n, double step, sg_value *in, sg_value *out);

/* A linear map run by the caller: out[n_out] = A v[n_in]. A compiled plan, or anything else; autodiff/ knows no
 * backends. Returns false on failure, with `err`. Vectors of several tensors are flat, in the order of the tensors. */
typedef struct sg_linear_map {
    bool (*apply)(void *user, const double *v, double *out, sg_error *err);
    void *user;
    int64_t n_in, n_out;
} sg_linear_map;

typedef enum sg_solve_method {
    SG_SOLVE_NEUMANN, /* x = alpha sum_{i=0..K} u_i,  u_0 = b,  u_i = u_{i-1} - alpha (A + delta I) u_{i-1} */
    SG_SOLVE_CG,      /* conjugate gradients (Hestenes and Stiefel 1952); A symmetric */
    SG_SOLVE_DIRECT   /* host only: n products give the matrix, then elimination with pivoting; an oracle for small n */
} sg_solve_method;

typedef enum sg_solve_reason {
    SG_SOLVE_STEPS,              /* every term or iteration was used */
    SG_SOLVE_CONVERGED,          /* residual <= tolerance |b| */
    SG_SOLVE_GROWTH,             /* |u_i| > |u_{i-1}|: the series diverges; ended before that term */
    SG_SOLVE_NEGATIVE_CURVATURE, /* <p, (A + delta I) p> <= 0: not positive definite; x is the iterate before */
    SG_SOLVE_NOT_FINITE,         /* an infinity or NaN arose; x is the iterate before */
    SG_SOLVE_SINGULAR            /* direct: no pivot */
} sg_solve_reason;
const char *sg_solve_reason_text(sg_solve_reason reason); /* "residual below the tolerance", never NULL */

/* (A + damping I) x = b. */
typedef struct sg_solve_options {
    size_t size; /* sizeof(sg_solve_options) */
    sg_solve_method method;
    int32_t steps;     /* Neumann: the number K of terms after the first; conjugate gradients: iterations at most */
    double scale;      /* Neumann: alpha, below 2 / the largest eigenvalue of A + damping I */
    double damping;    /* delta */
    double tolerance;  /* relative to |b|; 0: only a solution exact to rounding ends early */
    bool keep_growing; /* Neumann: add growing terms too; the growth is still the reason reported */
    /* Graphs only. Rank-0 values (store scalars) used in place of the two numbers if their `graph` is set. */
    sg_value scale_value;
    sg_value damping_value;
    double difference_step; /* sg_implicit_grad: > 0 takes products by differences */
    bool unroll;            /* n copies of the step, through which derivatives pass, instead of a loop */
} sg_solve_options;

typedef struct sg_solve_result {
    int32_t iterations; /* terms after the first, or iterations */
    /* Relative to |b|. Neumann: |u_i| of the last term, which is the residual of the sum without it; conjugate
     * gradients: as the recursion has it; direct: measured. */
    double residual;
    bool converged;
    sg_solve_reason reason;
} sg_solve_result;

/* From the host, in constant memory. SG_OK also if not converged: look at the result. Fails (err) if the map does, out of
 * memory, and on options that make no sense. */
sg_status sg_solve(const sg_linear_map *map, const double *b, const sg_solve_options *options, double *x,
                   sg_solve_result *result, sg_error *err);

/* The same as a graph of `steps` steps, for the step graph of a training run: what comes after growth, convergence or
 * negative curvature is masked. The report's values are rank-0 reals, reason by the numbers of the enumeration. */
typedef struct sg_solve_report {
    sg_value iterations, residual, reason;
} sg_solve_report;
void sg_solve_graph(const sg_graph_map *map, const sg_value *b, const sg_solve_options *options, sg_value *x,
                    sg_solve_report *report);

/* Power iteration from `start` (not zero): v <- A v / |A v|, `steps` times. `value` is the Rayleigh quotient v'Av, the
 * eigenvalue of largest magnitude in the limit, `residual` is |A v - value v|; `vector` (may be NULL) receives v. */
typedef struct sg_power_result {
    sg_value value, residual;
} sg_power_result;
sg_power_result sg_power_iteration(const sg_graph_map *map, const sg_value *start, int64_t steps, bool unroll,
                                   sg_value *vector);

/* ----------------------------------------------------------------------------------------------- implicit gradients */

/* min_phi outer(t(phi), phi) with t(phi) = argmin_theta inner(theta, phi). At theta = t, with H = d2 inner / dtheta2:
 *
 *     a = d outer / dtheta,   q ~ (H + delta I)^-1 a,   grad = d outer / dphi - d/dphi <d inner / dtheta, q>
 *
 * exact where d inner / dtheta = 0. */
typedef struct sg_bilevel {
    sg_value inner, outer; /* rank 0 */
    const sg_value *theta, *phi;
    int32_t n_theta, n_phi;
} sg_bilevel;
/* In one graph, by Neumann series or conjugate gradients; grad[n_phi]. */
void sg_implicit_grad(const sg_bilevel *problem, const sg_solve_options *options, sg_value *grad,
                      sg_solve_report *report);
/* From the host: hessian v = H v, mixed q = d/dphi <d inner / dtheta, q>, a and e = d outer / dphi given; grad[n_phi]. */
sg_status sg_implicit_solve(const sg_linear_map *hessian, const sg_linear_map *mixed, const double *a, const double *e,
                            const sg_solve_options *options, double *grad, sg_solve_result *result, sg_error *err);

/* ---------------------------------------------------------------------------------------------------- spectra */

/* All columns of a map, row-major matrix[n_out][n_in], by n_in products; e.g. the Hessian of a small net. Refuses
 * more than SG_DENSE_MOST columns. */
#define SG_DENSE_MOST 4096
sg_status sg_dense_matrix(const sg_linear_map *map, double *matrix, sg_error *err);

/* Diagonal of a square map, E[v * A v] over Rademacher vectors v (Hutchinson 1990; Bekas et al. 2007): mean of `samples`
 * draws in diagonal[n], and if error is not NULL its standard error (needs 2 samples). Draws are those of the
 * counter-based generator with this seed. */
sg_status sg_hutchinson_diagonal(const sg_linear_map *map, int32_t samples, uint64_t seed, double *diagonal,
                                 double *error, sg_error *err);

typedef struct sg_lanczos_options {
    size_t size;      /* sizeof(sg_lanczos_options) */
    int32_t steps;    /* products at most; 0: min(n, 64). Takes steps vectors of memory */
    double tolerance; /* both residuals relative to the largest |eigenvalue|; 0: 1e-10 */
    uint64_t seed;
    bool rademacher; /* start with signs instead of normal numbers */
} sg_lanczos_options;

typedef struct sg_lanczos_result {
    double smallest, largest;                   /* extreme Ritz values: inside the spectrum */
    double smallest_residual, largest_residual; /* |A v - value v|: an eigenvalue lies within this distance */
    int32_t iterations;
    bool converged;
    sg_solve_reason reason; /* SG_SOLVE_STEPS, _CONVERGED or _NOT_FINITE */
} sg_lanczos_result;

/* Extreme eigenvalues of a symmetric map (Lanczos 1950), with full reorthogonalisation. An exhausted Krylov space is gone
 * on from in a new random direction, so n steps give the exact extremes. */
sg_status sg_lanczos(const sg_linear_map *map, const sg_lanczos_options *options, sg_lanczos_result *result,
                     sg_error *err);

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

#ifndef SG_NO_LOCATION
#include "autodiff/location.h"
#endif
#endif
