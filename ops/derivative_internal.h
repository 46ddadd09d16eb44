/* derivative_internal.h - derivative composites: operators that stand for the derivative of another one.
 *
 * Let y = f(x) be an operator P with inputs x_k and outputs y_j, all y_j real. It may name two more operators:
 *
 *   P_vjp  inputs  x, those y_j with a bit in P_vjp's `hints`, and a cotangent c_s for each output s listed in `seeded`
 *          outputs d <c, f(x)> / d x_k for each k listed in `wrt`
 *          attrs   those of P, then `wrt`, `seeded`
 *   P_jvp  inputs  x, those y_j with a bit in P_jvp's `hints`, and a tangent t_m for each input m listed in `moving`
 *          outputs sum_m (d f_j / d x_m) t_m for each j
 *          attrs   those of P, then `moving`
 *
 * P_vjp may name a P_vjp_jvp in the same way, the forward derivative of the reverse one; it has no hints of its own. A hint is the value that f has
 * at x: it saves a kernel work and no derivative passes through it. What these operators compute is never written by
 * hand: their decomposition differentiates that of P with the sweeps of autodiff/. A device may have a kernel for them,
 * which must agree with the decomposition. */
#ifndef SG_DERIVATIVE_INTERNAL_H
#define SG_DERIVATIVE_INTERNAL_H

#include "ops/ops_internal.h"

/* The attributes that a derivative composite has behind its parent's. */
#define SG_VJP_ATTRS                                                                                                   \
    {"wrt", SG_ATTR_INTS}, { "seeded", SG_ATTR_INTS }
#define SG_JVP_ATTRS                                                                                                   \
    {                                                                                                                  \
        "moving", SG_ATTR_INTS                                                                                         \
    }

/* The rules of their descriptors. n_in and n_out are SG_VARIADIC, flags SG_OP_COMPOSITE. */
sg_status sg_derivative_infer(const sg_infer_args *args);
void sg_derivative_decompose(const sg_decompose_args *args);

/* The descriptor of a derivative composite; further members (hints, jvp_op) follow. */
#define SG_DERIVATIVE_OP(NAME, SUMMARY, ATTRIBUTES, PARENT, COST, ...)                                                 \
    const sg_op sg_op_##NAME = {                                                                                       \
        .name = #NAME,                                                                                                 \
        .summary = SUMMARY,                                                                                            \
        .n_in = SG_VARIADIC,                                                                                           \
        .n_out = SG_VARIADIC,                                                                                          \
        .flags = SG_OP_COMPOSITE,                                                                                      \
        .attrs = ATTRIBUTES,                                                                                           \
        .n_attrs = sizeof ATTRIBUTES / sizeof *ATTRIBUTES,                                                             \
        .infer = sg_derivative_infer,                                                                                  \
        .decompose = sg_derivative_decompose,                                                                          \
        .cost = COST,                                                                                                  \
        .parent = &sg_op_##PARENT,                                                                                     \
        __VA_ARGS__,                                                                                                   \
    };

/* Cost of a kernel that does `flops` operations for each element of the first input and moves every operand once. */
sg_cost sg_derivative_cost(const sg_cost_args *args, double flops);

bool sg_is_vjp(const sg_op *op); /* is it the reverse derivative of its parent? */
bool sg_is_jvp(const sg_op *op);

/* Where the parts of a derivative composite lie. Inputs: [0, n_x) those of the parent, then n_hints hints in the order of
 * the outputs, then one cotangent or tangent for each entry of `with`. */
typedef struct sg_derivative_parts {
    int32_t n_x, n_hints, n_with;
    int32_t n_out;       /* outputs of the parent */
    const int64_t *with; /* seeded outputs (vjp) or moving inputs (jvp) of the parent, ascending */
    const int64_t *wrt;  /* vjp: inputs of the parent for which there is an output, ascending */
    int32_t n_wrt;
} sg_derivative_parts;
sg_derivative_parts sg_derivative_split(const sg_op *op, const sg_attr *attr, int32_t n_in);

/* The same for a kernel that serves an operator and its derivatives: `outer` are the parts of the node itself, and the result
 * those of what it moves, the reverse derivative in a P_vjp_jvp, otherwise the node again. The parts of an operator that is no
 * derivative are its inputs. */
sg_derivative_parts sg_derivative_nested(const sg_op *op, const sg_attr *attr, int32_t n_in,
                                         sg_derivative_parts *outer);
/* Input of the node that holds the hint of output j, the cotangent of output j or the tangent of input j of the parent;
 * the output that holds the cotangent of the parent's input k. -1 if there is none. */
int32_t sg_derivative_hint(const sg_op *op, const sg_derivative_parts *parts, int32_t j);
int32_t sg_derivative_with(const sg_derivative_parts *parts, int32_t j);
int32_t sg_derivative_wrt(const sg_derivative_parts *parts, int32_t k);

/* Build the reverse derivative of a node: out[i] is the cotangent of x[wrt[i]]. y are the node's outputs (a hint is taken
 * from there), seed[i] the cotangent of output seeded[i]. */
void sg_build_vjp(sg_graph *graph, const sg_node *node, const sg_value *x, const sg_value *y, const int64_t *wrt,
                  int32_t n_wrt, const int64_t *seeded, const sg_value *seed, int32_t n_seeded, sg_value *out);
/* Build the forward derivative of a node: out[j] is the tangent of output j. tangent[i] is that of x[moving[i]]. */
void sg_build_jvp(sg_graph *graph, const sg_node *node, const sg_value *x, const sg_value *y, const int64_t *moving,
                  const sg_value *tangent, int32_t n_moving, sg_value *out);

/* The sweeps of autodiff/, which stands above ops/ and brings them here when it is first used (the same ones each
 * time). SG_NONE in `grad` and `dy` stands for not connected. */
typedef struct sg_sweeps {
    void (*reverse)(const sg_value *y, const sg_value *seed, int32_t n_y, const sg_value *x, int32_t n_x,
                    sg_value *grad, bool leaves);
    void (*forward)(const sg_value *y, int32_t n_y, const sg_value *x, const sg_value *dx, int32_t n_x, sg_value *dy,
                    bool leaves);
} sg_sweeps;
void sg_set_sweeps(const sg_sweeps *sweeps);

#endif
