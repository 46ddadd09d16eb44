/* solve_graph.c - the solvers of solve.c as graphs of a fixed number of steps, one state vector each; a state `reason`
 * other than 0 masks what follows, so that the values are those of the host form. */
#include "autodiff/autodiff.h"

#include <string.h>

#include "autodiff/partial_internal.h"
#include "autodiff/solve_internal.h"
#include "ops/ops.h"

/* Not a number that rules or models would use: the placeholder must not be shared with a node of theirs. */
#define PLACEHOLDER 0x1.3c6ef372fe94fp-29

typedef struct solving {
    const sg_graph_map *map;
    const sg_solve_options *o;
    int32_t n;
    sg_value scale, damping, goal; /* rank 0, of the dtype of b; goal = tolerance |b| */
    sg_value *work;                /* n products */
} solving;

static sg_value number(sg_value like, double value) { return sg_fill_like(like, value); }

/* w = (A + delta I) v in the graph of v. */
static void product(const solving *s, sg_graph *graph, const sg_value *v, sg_value *w)
{
    sg_substitute(graph, s->map->out, s->n, s->map->in, v, s->n, w);
    for (int32_t i = 0; i < s->n && !sg_is_none(s->damping); i++)
        w[i] = sg_add(w[i], sg_mul(s->damping, v[i]));
}

static sg_value is_reason(sg_value reason, sg_solve_reason which) { return sg_equal(reason, number(reason, which)); }

/* The reason after a step in which `bad` conditions were met, the first of them counting. */
static sg_value set_reason(sg_value reason, sg_value condition, sg_solve_reason which)
{
    sg_value open = sg_logical_and(is_reason(reason, SG_SOLVE_STEPS), condition);
    return sg_where(open, number(reason, which), reason);
}

/* ---------------------------------------------------------------------------------------------------------- Neumann */

enum { LENGTH, REASON, USED, SCALARS }; /* states before the vectors u and q */

static void neumann_step(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    const solving *s = user;
    const sg_value *u = state + SCALARS, *q = u + s->n;
    sg_value *w = s->work, *u_next = next + SCALARS, *q_next = u_next + s->n;
    product(s, graph, u, w);
    for (int32_t i = 0; i < s->n; i++)
        w[i] = sg_sub(u[i], sg_mul(s->scale, w[i]));
    sg_value length = sg_vector_norm(w, s->n);
    sg_value broken = sg_logical_not(sg_is_finite(length));
    sg_value grown = sg_greater(length, sg_mul_scalar(state[LENGTH], SG_NEUMANN_GROWTH));
    sg_value reason = set_reason(state[REASON], broken, SG_SOLVE_NOT_FINITE);
    reason = set_reason(reason, grown, SG_SOLVE_GROWTH);
    sg_value going = is_reason(reason, SG_SOLVE_STEPS);
    if (s->o->keep_growing) {
        sg_value growing = is_reason(reason, SG_SOLVE_GROWTH);
        going = sg_logical_or(going, sg_logical_and(growing, sg_logical_not(broken)));
    }
    for (int32_t i = 0; i < s->n; i++) {
        u_next[i] = sg_where(going, w[i], u[i]);
        q_next[i] = sg_where(going, sg_add(q[i], w[i]), q[i]);
    }
    next[LENGTH] = sg_where(going, length, state[LENGTH]);
    next[USED] = sg_where(going, sg_add_scalar(state[USED], 1), state[USED]);
    next[REASON] = set_reason(reason, sg_less_equal(length, s->goal), SG_SOLVE_CONVERGED);
}

static void neumann(const solving *s, const sg_value *b, sg_value b_norm, sg_value *x, sg_value *state)
{
    state[LENGTH] = b_norm;
    state[USED] = number(b_norm, 0);
    state[REASON] = set_reason(number(b_norm, 0), sg_equal(b_norm, number(b_norm, 0)), SG_SOLVE_CONVERGED);
    for (int32_t i = 0; i < s->n; i++)
        state[SCALARS + i] = state[SCALARS + s->n + i] = b[i];
    sg_repeat(b_norm.graph, s->o->steps, neumann_step, (void *)s, state, SCALARS + 2 * s->n, state, s->o->unroll);
    for (int32_t i = 0; i < s->n; i++)
        x[i] = sg_mul(s->scale, state[SCALARS + s->n + i]);
}

/* ----------------------------------------------------------------------------------------------- conjugate gradients */

/* LENGTH holds the squared residual; the vectors are x, r and p. */
static void cg_step(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    const solving *s = user;
    int32_t n = s->n;
    const sg_value *x = state + SCALARS, *r = x + n, *p = r + n;
    sg_value *w = s->work, *x_next = next + SCALARS, *r_next = x_next + n, *p_next = r_next + n;
    product(s, graph, p, w);
    sg_value curvature = sg_vector_dot(p, w, n), zero = number(curvature, 0);
    sg_value reason = set_reason(state[REASON], sg_logical_not(sg_is_finite(curvature)), SG_SOLVE_NOT_FINITE);
    reason = set_reason(reason, sg_less_equal(curvature, zero), SG_SOLVE_NEGATIVE_CURVATURE);
    sg_value going = is_reason(reason, SG_SOLVE_STEPS), one = number(curvature, 1);
    sg_value step = sg_div(state[LENGTH], sg_where(going, curvature, one));
    for (int32_t i = 0; i < n; i++) {
        x_next[i] = sg_where(going, sg_add(x[i], sg_mul(step, p[i])), x[i]);
        r_next[i] = sg_where(going, sg_sub(r[i], sg_mul(step, w[i])), r[i]);
    }
    sg_value rr = sg_vector_dot(r_next, r_next, n);
    sg_value turn = sg_div(rr, sg_where(going, state[LENGTH], one));
    for (int32_t i = 0; i < n; i++)
        p_next[i] = sg_where(going, sg_add(r_next[i], sg_mul(turn, p[i])), p[i]);
    next[LENGTH] = sg_where(going, rr, state[LENGTH]);
    next[USED] = sg_where(going, sg_add_scalar(state[USED], 1), state[USED]);
    next[REASON] = set_reason(reason, sg_less_equal(sg_sqrt(rr), s->goal), SG_SOLVE_CONVERGED);
}

static void conjugate_gradients(const solving *s, const sg_value *b, sg_value b_norm, sg_value *x, sg_value *state)
{
    state[LENGTH] = sg_square(b_norm);
    state[USED] = number(b_norm, 0);
    state[REASON] = set_reason(number(b_norm, 0), sg_less_equal(b_norm, s->goal), SG_SOLVE_CONVERGED);
    for (int32_t i = 0; i < s->n; i++) {
        state[SCALARS + i] = sg_zeros_like(b[i]);
        state[SCALARS + s->n + i] = state[SCALARS + 2 * s->n + i] = b[i];
    }
    sg_repeat(b_norm.graph, s->o->steps, cg_step, (void *)s, state, SCALARS + 3 * s->n, state, s->o->unroll);
    for (int32_t i = 0; i < s->n; i++)
        x[i] = state[SCALARS + i];
    state[LENGTH] = sg_sqrt(state[LENGTH]);
}

/* ------------------------------------------------------------------------------------------------------------ entry */

static bool check(const sg_graph_map *map, const sg_value *b, const sg_solve_options *o)
{
    sg_error err;
    sg_graph *graph = map->n > 0 && !sg_is_none(map->in[0]) ? map->in[0].graph : NULL;
    if (!graph || sg_graph_status(graph, NULL) != SG_OK)
        return false;
    if (sg_solve_check(o, &err) != SG_OK) {
        sg_graph_fail(graph, err.status, SG_NONE, "%s", err.text);
        return false;
    }
    for (int32_t i = 0; i < map->n; i++)
        if (sg_is_none(map->out[i]) || sg_is_none(b[i])) {
            sg_graph_fail(graph, SG_E_ARGUMENT, SG_NONE, "sg_solve_graph: part %d of the map or of b is no value",
                          (int)i);
            return false;
        }
    if (o->method != SG_SOLVE_NEUMANN && o->method != SG_SOLVE_CG)
        sg_graph_fail(graph, SG_E_UNSUPPORTED, SG_NONE,
                      "as a graph there are Neumann series and conjugate gradients; a direct solve runs from the host");
    return sg_graph_status(graph, NULL) == SG_OK;
}

/* A number of the options as a rank-0 value, or the value given in its place. */
static sg_value setting(sg_value given, double value, sg_value like)
{
    return given.graph ? sg_cast(given, sg_dtype_of(like)) : number(like, value);
}

void sg_solve_graph(const sg_graph_map *map, const sg_value *b, const sg_solve_options *options, sg_value *x,
                    sg_solve_report *report)
{
    int32_t n = map->n;
    for (int32_t i = 0; i < n; i++)
        x[i] = SG_NONE;
    *report = (sg_solve_report){SG_NONE, SG_NONE, SG_NONE};
    if (!check(map, b, options))
        return;
    sg_value b_norm = sg_vector_norm(b, n), *state = sg_calloc(SCALARS + 4 * (int64_t)n, sizeof *state);
    if (sg_is_none(b_norm)) {
        sg_free(state);
        return;
    }
    if (!state) {
        sg_graph_fail(b_norm.graph, SG_E_MEMORY, b_norm, "out of memory in sg_solve_graph");
        return;
    }
    solving s = {.map = map, .o = options, .n = n, .damping = SG_NONE, .work = state + SCALARS + 3 * n};
    s.scale = setting(options->scale_value, options->scale, b_norm);
    if (options->damping_value.graph || options->damping != 0)
        s.damping = setting(options->damping_value, options->damping, b_norm);
    double floor = options->method == SG_SOLVE_CG ? SG_CG_FLOOR : 0;
    s.goal = sg_mul_scalar(b_norm, options->tolerance > floor ? options->tolerance : floor);
    (options->method == SG_SOLVE_NEUMANN ? neumann : conjugate_gradients)(&s, b, b_norm, x, state);
    sg_value zero = number(b_norm, 0), one = number(b_norm, 1);
    report->iterations = state[USED];
    report->reason = state[REASON];
    report->residual = sg_div(state[LENGTH], sg_where(sg_greater(b_norm, zero), b_norm, one));
    sg_free(state);
}

sg_graph_map sg_hvp_map(sg_value loss, const sg_value *theta, int32_t n, double step, sg_value *in, sg_value *out)
{
    for (int32_t i = 0; i < n; i++)
        in[i] = sg_fill_like(theta[i], PLACEHOLDER);
    if (step > 0)
        sg_hvp_difference(loss, theta, in, n, step, out);
    else
        sg_mixed_hvp(loss, theta, in, n, theta, n, out, SG_HVP_FORWARD_OVER_REVERSE);
    return (sg_graph_map){in, out, n};
}

/* ---------------------------------------------------------------------------------------------------- power iteration */

static void power_step(void *user, sg_graph *graph, const sg_value *state, sg_value *next)
{
    const solving *s = user;
    product(s, graph, state, s->work);
    sg_value length = sg_vector_norm(s->work, s->n), zero = number(length, 0), one = number(length, 1);
    sg_value some = sg_greater(length, zero), divisor = sg_where(some, length, one);
    for (int32_t i = 0; i < s->n; i++)
        next[i] = sg_where(some, sg_div(s->work[i], divisor), state[i]);
}

sg_power_result sg_power_iteration(const sg_graph_map *map, const sg_value *start, int64_t steps, bool unroll,
                                   sg_value *vector)
{
    int32_t n = map->n;
    sg_power_result result = {SG_NONE, SG_NONE};
    for (int32_t i = 0; vector && i < n; i++)
        vector[i] = SG_NONE;
    sg_solve_options none = {.size = sizeof none, .method = SG_SOLVE_CG};
    if (!check(map, start, &none))
        return result;
    sg_value length = sg_vector_norm(start, n), *v = sg_calloc(2 * (int64_t)n, sizeof *v);
    if (sg_is_none(length)) {
        sg_free(v);
        return result;
    }
    if (!v) {
        sg_graph_fail(length.graph, SG_E_MEMORY, length, "out of memory in sg_power_iteration");
        return result;
    }
    solving s = {.map = map, .n = n, .scale = SG_NONE, .damping = SG_NONE, .goal = SG_NONE, .work = v + n};
    for (int32_t i = 0; i < n; i++)
        v[i] = sg_div(start[i], length);
    sg_repeat(length.graph, steps, power_step, &s, v, n, v, unroll);
    product(&s, length.graph, v, s.work);
    result.value = sg_vector_dot(v, s.work, n);
    for (int32_t i = 0; i < n; i++) {
        s.work[i] = sg_sub(s.work[i], sg_mul(result.value, v[i]));
        if (vector)
            vector[i] = v[i];
    }
    result.residual = sg_vector_norm(s.work, n);
    sg_free(v);
    return result;
}
