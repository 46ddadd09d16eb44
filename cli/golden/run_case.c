/* run_case.c - one case on one device: one graph that holds the outputs and all their derivatives, one plan, one run.
 *
 * With phi = sum_o <c_o, out_o> over the outputs that have a cotangent, and tangents t of the inputs that have one:
 *     vjp = grad phi,  jvp = J t,  hvp = H t by forward over reverse and by reverse over reverse,
 *     third = grad <H t, t> with t held fixed = D3 phi [t, t, .].
 * Cotangents and tangents are inputs of the graph, so that nothing is folded that a user's vector would not be. */
#include "cli/golden/runner_internal.h"

#include <string.h>

#include "autodiff/autodiff.h"
#include "runtime/runtime.h"

const char *const sg_golden_devices[SG_GOLDEN_DEVICES] = {"reference", "cpu", "cuda"};

enum { NAME = 160 };

/* Results of the graph that belong to `group`; Hessian products come twice. */
static const struct part {
    int group;
    const char *label;
} parts[] = {
    {SG_GOLDEN_OUTPUTS, "output"},
    {SG_GOLDEN_VJP, "vjp"},
    {SG_GOLDEN_JVP, "jvp"},
    {SG_GOLDEN_HVP, "hvp (forward over reverse)"},
    {SG_GOLDEN_HVP, "hvp (reverse over reverse)"},
    {SG_GOLDEN_THIRD, "third"},
};
enum { OUT, VJP, JVP, HVP_FORWARD, HVP_REVERSE, THIRD, PARTS };

static const char *result_name(char out[NAME], const char *label, const char *tensor)
{
    snprintf(out, NAME, "%s %.100s", label, tensor);
    return out;
}

/* ---- building */

static sg_value declare(sg_golden *g, int group, int32_t i)
{
    static const sg_dtype dtypes[] = {SG_F32, SG_I32, SG_BOOL};
    const sg_golden_tensor *t = &g->group[group].at[i];
    char name[NAME];
    if (t->kind == SG_GOLDEN_TEXTS)
        return SG_NONE;
    return sg_input(g->graph, result_name(name, sg_golden_group_keys[group], t->name), dtypes[t->kind], t->shape);
}

/* The wanted ones of `value`, which is aligned with the group `base`. */
static void declare_results(sg_golden *g, int part, int base, const sg_value *value)
{
    char name[NAME];
    for (int32_t i = 0; i < g->group[base].n; i++) {
        const char *tensor = g->group[base].at[i].name;
        if (sg_golden_tensor_find(g, parts[part].group, tensor))
            sg_result(g->graph, result_name(name, parts[part].label, tensor), value[i]);
    }
}

static sg_value inner(const sg_value *a, const sg_value *b, int32_t n)
{
    sg_value sum = sg_sum_all(sg_mul(a[0], b[0]));
    for (int32_t k = 1; k < n; k++)
        sum = sg_add(sum, sg_sum_all(sg_mul(a[k], b[k])));
    return sum;
}

/* `work` has room for the tensors of five groups: y and c, x and t, and results. */
static void build_derivatives(sg_golden *g, sg_value *work)
{
    int32_t m = g->group[SG_GOLDEN_COTANGENT].n, n = g->group[SG_GOLDEN_TANGENT].n;
    sg_value *y = work, *c = y + m, *x = c + m, *t = x + n, *d = t + n;
    if (m == 0 || n == 0)
        return;
    for (int32_t o = 0; o < m; o++) {
        y[o] = g->out[sg_golden_tensor_index(g, SG_GOLDEN_OUTPUTS, g->group[SG_GOLDEN_COTANGENT].at[o].name)];
        c[o] = declare(g, SG_GOLDEN_COTANGENT, o);
    }
    for (int32_t k = 0; k < n; k++) {
        x[k] = g->in[sg_golden_tensor_index(g, SG_GOLDEN_INPUTS, g->group[SG_GOLDEN_TANGENT].at[k].name)];
        t[k] = declare(g, SG_GOLDEN_TANGENT, k);
    }
    sg_vjp(y, c, m, x, n, d);
    declare_results(g, VJP, SG_GOLDEN_TANGENT, d);
    sg_jvp(y, m, x, t, n, d);
    declare_results(g, JVP, SG_GOLDEN_COTANGENT, d);
    if (!g->group[SG_GOLDEN_HVP].n && !g->group[SG_GOLDEN_THIRD].n)
        return;
    sg_value phi = inner(c, y, m);
    sg_hvp(phi, x, t, n, d, SG_HVP_FORWARD_OVER_REVERSE);
    declare_results(g, HVP_FORWARD, SG_GOLDEN_TANGENT, d);
    sg_hvp(phi, x, t, n, d, SG_HVP_REVERSE_OVER_REVERSE);
    declare_results(g, HVP_REVERSE, SG_GOLDEN_TANGENT, d);
    if (!g->group[SG_GOLDEN_THIRD].n)
        return;
    sg_grad(inner(d, t, n), x, n, d);
    declare_results(g, THIRD, SG_GOLDEN_TANGENT, d);
}

/* Every output is there, in its shape. */
static void check_outputs(sg_golden *g)
{
    for (int32_t o = 0; o < g->group[SG_GOLDEN_OUTPUTS].n; o++) {
        const sg_golden_tensor *want = &g->group[SG_GOLDEN_OUTPUTS].at[o];
        char got[SG_SHAPE_TEXT], shape[SG_SHAPE_TEXT];
        if (sg_is_none(g->out[o])) {
            if (!g->numbers[o])
                sg_golden_refuse(g, "output '%.80s' is not computed", want->name);
        } else if (!sg_shape_equal(sg_shape_of(g->out[o]), &want->shape))
            sg_golden_refuse(g, "output '%.80s' has shape %.60s, expected %.60s", want->name,
                             sg_shape_format(sg_shape_of(g->out[o]), got, sizeof got),
                             sg_shape_format(&want->shape, shape, sizeof shape));
    }
    for (int32_t o = 0; o < g->group[SG_GOLDEN_COTANGENT].n; o++)
        if (sg_is_none(g->out[sg_golden_tensor_index(g, SG_GOLDEN_OUTPUTS, g->group[SG_GOLDEN_COTANGENT].at[o].name)]))
            sg_golden_refuse(g, "output '%.80s' is differentiated and not in the graph",
                             g->group[SG_GOLDEN_COTANGENT].at[o].name);
}

static sg_status build(sg_golden *g, sg_error *err)
{
    for (int32_t k = 0; k < g->group[SG_GOLDEN_INPUTS].n; k++)
        g->in[k] = declare(g, SG_GOLDEN_INPUTS, k);
    g->row->build(g);
    SG_TRY(sg_graph_status(g->graph, err)); /* before the message of whoever got the missing value */
    check_outputs(g);
    if (g->refused)
        return sg_fail(err, SG_E_DATA, "%s", g->refusal);
    char name[NAME];
    for (int32_t o = 0; o < g->group[SG_GOLDEN_OUTPUTS].n; o++)
        if (!g->numbers[o])
            sg_result(g->graph, result_name(name, parts[OUT].label, g->group[SG_GOLDEN_OUTPUTS].at[o].name), g->out[o]);
    int32_t most = g->group[SG_GOLDEN_OUTPUTS].n + g->group[SG_GOLDEN_INPUTS].n;
    sg_value *work = sg_calloc(3 * (int64_t)most, sizeof *work);
    if (!work)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    build_derivatives(g, work);
    sg_free(work);
    return sg_graph_status(g->graph, err);
}

/* ---- running */

static sg_status feed(const sg_golden *g, sg_plan *plan, sg_error *err)
{
    static const int fed[] = {SG_GOLDEN_INPUTS, SG_GOLDEN_COTANGENT, SG_GOLDEN_TANGENT};
    char name[NAME];
    for (int i = 0; i < 3; i++)
        for (int32_t k = 0; k < g->group[fed[i]].n; k++) {
            const sg_golden_tensor *t = &g->group[fed[i]].at[k];
            result_name(name, sg_golden_group_keys[fed[i]], t->name);
            if (sg_plan_input_shape(plan, name)) /* else nothing reads it */
                SG_TRY(sg_plan_feed(plan, name, t->data, t->count, err));
        }
    return SG_OK;
}

static sg_status compare_one(const sg_golden *g, sg_plan *plan, int part, int32_t i, sg_golden_outcome *outcome,
                             sg_error *err)
{
    const sg_golden_tensor *want = &g->group[parts[part].group].at[i];
    char name[NAME];
    if (part == OUT && g->numbers[i]) {
        sg_golden_compare(g, parts[part].group, parts[part].label, want, g->numbers[i], outcome);
        return SG_OK;
    }
    double *got = sg_calloc(want->count + 1, sizeof *got);
    if (!got)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_plan_fetch(plan, result_name(name, parts[part].label, want->name), got, want->count, err);
    if (status == SG_OK)
        sg_golden_compare(g, parts[part].group, parts[part].label, want, got, outcome);
    sg_free(got);
    return status;
}

static sg_status run_plan(const sg_golden *g, sg_plan *plan, sg_golden_outcome *outcome, sg_error *err)
{
    if (plan) {
        SG_TRY(feed(g, plan, err));
        SG_TRY(sg_plan_run(plan, err));
    }
    for (int part = 0; part < PARTS; part++)
        for (int32_t i = 0; i < g->group[parts[part].group].n; i++)
            SG_TRY(compare_one(g, plan, part, i, outcome, err));
    return SG_OK;
}

static sg_status run(sg_golden *g, sg_golden_outcome *outcome, sg_error *err)
{
    sg_session_options options = {
        .size = sizeof options, .backend = sg_golden_devices[g->device], .threads = 1, .poison = true};
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_status status = build(g, err);
    sg_store_initialise(g->store, 0);
    if (status == SG_OK && sg_result_count(g->graph)) {
        status = sg_session_new(&session, g->store, &options, err);
        if (status == SG_OK)
            status = sg_plan_new(&plan, session, g->graph, err);
    }
    if (status == SG_OK)
        status = run_plan(g, plan, outcome, err);
    sg_plan_free(plan);
    sg_session_free(session);
    return status;
}

void sg_golden_run_case(sg_golden *g, int device, sg_golden_outcome *outcome)
{
    sg_error err = {0};
    int32_t outputs = g->group[SG_GOLDEN_OUTPUTS].n;
    g->device = device;
    g->refused = false;
    g->graph = sg_graph_new();
    g->store = sg_store_new(device == SG_GOLDEN_REFERENCE ? SG_F64 : SG_F32);
    g->in = sg_calloc((int64_t)g->group[SG_GOLDEN_INPUTS].n + 1, sizeof *g->in);
    g->out = sg_calloc((int64_t)outputs + 1, sizeof *g->out);
    g->numbers = sg_calloc((int64_t)outputs + 1, sizeof *g->numbers);
    *outcome = (sg_golden_outcome){.ran = true, .passed = true};
    bool ready = g->graph && g->store && g->in && g->out && g->numbers;
    for (int32_t o = 0; ready && o < outputs; o++)
        g->out[o] = SG_NONE;
    if ((ready ? run(g, outcome, &err) : sg_fail(&err, SG_E_MEMORY, "out of memory")) != SG_OK) {
        outcome->passed = false;
        const char *op = err.op[0] && !strstr(err.text, err.op) ? err.op : "";
        snprintf(outcome->text, sizeof outcome->text, "%.250s%s%s%s", err.text, op[0] ? " (op " : "", op,
                 op[0] ? ")" : "");
    }
    for (int32_t o = 0; g->numbers && o < outputs; o++)
        sg_free(g->numbers[o]);
    sg_free(g->numbers);
    sg_free(g->out);
    sg_free(g->in);
    sg_graph_free(g->graph);
    sg_store_free(g->store);
}
