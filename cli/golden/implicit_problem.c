/* implicit_problem.c - golden cases of implicit gradients: inputs, compiled products, and solutions step by step. */
#include "cli/golden/implicit_internal.h"

#include "models/models.h"
#include "runtime/runtime.h"

#include <string.h>

sg_value sg_golden_take(const sg_golden_source *source, const char *input)
{
    sg_value v = sg_golden_in(source->g, input);
    if (!source->own || sg_is_none(v))
        return v;
    int64_t count;
    const double *data = sg_golden_elements(source->g, input, &count);
    return sg_constant(source->own, sg_dtype_of(v), *sg_shape_of(v), data, count);
}

static int64_t elements(const sg_value *v, int32_t n)
{
    int64_t count = 0;
    for (int32_t i = 0; i < n; i++)
        count += sg_shape_count(sg_shape_of(v[i]));
    return count;
}

/* A graph with input "v" and result "av". */
static void build_product(sg_golden *g, sg_graph *graph, sg_golden_problem_fn build, sg_golden_product product)
{
    sg_golden_problem p = {.inner = SG_NONE};
    sg_value v[SG_GOLDEN_TENSORS], av[SG_GOLDEN_TENSORS];
    build(&(sg_golden_source){g, graph}, &p);
    if (sg_graph_status(graph, NULL) != SG_OK)
        return;
    sg_value flat = sg_input(graph, "v", SG_F32, SG_SHAPE(elements(p.theta, p.n_theta)));
    sg_unflatten(flat, p.theta, p.n_theta, v);
    if (product == SG_GOLDEN_GGN)
        sg_ggn_vp(p.inner, &p.z, 1, p.theta, v, p.n_theta, av);
    else
        sg_hvp(p.inner, p.theta, v, p.n_theta, av, SG_HVP_FORWARD_OVER_REVERSE);
    sg_result(graph, "av", sg_flatten(av, p.n_theta));
}

static sg_status drive_on(sg_session *session, sg_graph *graph, sg_golden_drive_fn drive, void *user, sg_error *err)
{
    sg_plan *plan = NULL;
    SG_TRY(sg_plan_new(&plan, session, graph, err));
    sg_plan_product product = {plan, "v", "av"};
    sg_linear_map map = sg_plan_map(&product);
    sg_status status = drive(user, &map, err);
    sg_plan_free(plan);
    return status;
}

void sg_golden_drive(sg_golden *g, sg_golden_problem_fn build, sg_golden_product product, sg_golden_drive_fn drive,
                     void *user)
{
    sg_error err = {0};
    bool reference = strcmp(sg_golden_device(g), "reference") == 0;
    sg_store *store = sg_store_new(reference ? SG_F64 : SG_F32);
    sg_graph *graph = sg_graph_new();
    sg_session *session = NULL;
    sg_session_options options = {.size = sizeof options, .backend = sg_golden_device(g), .threads = 1};
    sg_status status = store && graph ? SG_OK : sg_fail(&err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK) {
        build_product(g, graph, build, product);
        status = sg_session_new(&session, store, &options, &err);
    }
    if (status == SG_OK)
        status = drive_on(session, graph, drive, user, &err);
    if (status != SG_OK)
        sg_golden_refuse(g, "%.200s", err.text);
    sg_session_free(session);
    sg_graph_free(graph);
    sg_store_free(store);
}

sg_value sg_golden_rows(const sg_value *vectors, int32_t count)
{
    enum { MOST = 32 };
    sg_value row[MOST];
    for (int32_t i = 0; i < count && i < MOST; i++)
        row[i] = sg_expand_dims(vectors[i], 0);
    return sg_concat(row, count < MOST ? count : MOST, 0);
}

void sg_golden_solutions(const sg_graph_map *map, const sg_value *b, sg_solve_options options, int32_t from,
                         int32_t count, sg_value *x, sg_value *length)
{
    enum { MOST = 16 };
    sg_value solution[SG_GOLDEN_TENSORS], rows[MOST], norms[MOST], flat = sg_flatten(b, map->n);
    sg_value size = sg_sqrt(sg_sum_all(sg_square(flat)));
    for (int32_t i = 0; i < count && i < MOST; i++) {
        sg_solve_report report;
        options.steps = from + i;
        sg_solve_graph(map, b, &options, solution, &report);
        rows[i] = sg_flatten(solution, map->n);
        norms[i] = sg_mul(report.residual, size);
    }
    *x = sg_golden_rows(rows, count);
    *length = sg_golden_rows(norms, count);
}

sg_value sg_golden_mixed(const sg_golden_problem *p, sg_value q)
{
    sg_value v[SG_GOLDEN_TENSORS], c[SG_GOLDEN_TENSORS];
    sg_unflatten(q, p->theta, p->n_theta, v);
    sg_mixed_hvp(p->inner, p->theta, v, p->n_theta, p->phi, p->n_phi, c, SG_HVP_FORWARD_OVER_REVERSE);
    return sg_flatten(c, p->n_phi);
}
