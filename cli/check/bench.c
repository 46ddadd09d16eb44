/* bench.c - see bench_internal.h. */
#include "cli/check/bench_internal.h"

#include <math.h>
#include <string.h>

#include "graph/random_internal.h"
#include "ops/ops.h"
#include "runtime/runtime.h"

/* ---- findings */

void sg_finding_broken(sg_finding *finding, const char *fmt, ...)
{
    va_list args;
    if (!finding->passed && isinf(finding->error))
        return;
    va_start(args, fmt);
    vsnprintf(finding->text, sizeof finding->text, fmt, args);
    va_end(args);
    finding->passed = false;
    finding->error = INFINITY;
}

static double scale_of(const double *want, int64_t n)
{
    double scale = 1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(want[i]))
            scale = fmax(scale, fabs(want[i]));
    return scale;
}

static double error_of(double got, double want, double scale)
{
    double error = fabs(got - want) / scale;
    if (got == want || (isnan(got) && isnan(want)))
        return 0;
    return isnan(error) ? INFINITY : error;
}

/* "[1, 2] of [3, 4]" for element 6. */
static void format_place(const sg_shape *shape, int64_t i, char *out, size_t size)
{
    sg_shape place = *shape;
    char at[SG_SHAPE_TEXT], of[SG_SHAPE_TEXT];
    for (int32_t a = shape->rank - 1; a >= 0; i /= shape->dim[a--]) {
        place.dim[a] = i % shape->dim[a];
        place.name[a] = 0;
    }
    sg_shape_format(&place, at, sizeof at);
    sg_shape_format(shape, of, sizeof of);
    snprintf(out, size, "%s of %s", at, of);
}

void sg_finding_compare(sg_finding *finding, const double *got, const double *want, const sg_shape *shape, double limit,
                        const char *what)
{
    int64_t n = sg_shape_count(shape), worst = -1, beyond = 0;
    double scale = scale_of(want, n);
    for (int64_t i = 0; i < n; i++) {
        double error = error_of(got[i], want[i], scale);
        beyond += error > limit;
        if (finding->text[0] && !(error * finding->limit > finding->error * limit))
            continue;
        finding->error = error;
        finding->limit = limit;
        finding->text[0] = ' '; /* the next has to be worse */
        worst = i;
    }
    finding->passed = finding->passed && beyond == 0;
    if (worst < 0)
        return;
    char place[2 * SG_SHAPE_TEXT + 8];
    format_place(shape, worst, place, sizeof place);
    int used = snprintf(finding->text, sizeof finding->text, "%.80s at %.160s: %.12g, expected %.12g", what, place,
                        got[worst], want[worst]);
    if (beyond > 0)
        snprintf(finding->text + used, sizeof finding->text - (size_t)used,
                 "; %lld of %lld elements are beyond the limit", (long long)beyond, (long long)n);
}

/* ---- building */

bool sg_bench_sound(sg_bench *b)
{
    sg_error err = {0};
    if (sg_graph_status(b->graph, &err) == SG_OK && sg_graph_verify(b->graph, &err) == SG_OK)
        return true;
    sg_finding_broken(b->finding, "%.250s (op %s, node %.80s)", err.text, err.op, err.node);
    return false;
}

static double round_to_bf16(double x)
{
    float single = (float)x;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&single, &bits, sizeof bits);
    return single;
}

static void build_low(sg_bench *b)
{
    sg_value low[SG_SAMPLE_INPUTS];
    for (int32_t k = 0; k < b->sample->n_in; k++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", (int)k);
        b->in[k] = sg_input(b->graph, name, b->sample->in[k].dtype, b->sample->in[k].shape);
        low[k] = b->sample->in[k].dtype == SG_F32 ? sg_cast(b->in[k], SG_BF16) : b->in[k];
    }
    b->sample->build(b->sample, b->scope, low, b->out);
    for (int32_t j = 0; j < b->sample->n_out; j++)
        if (sg_dtype_of(b->out[j]) == SG_BF16)
            b->out[j] = sg_cast(b->out[j], SG_F32);
}

static bool open_bench(sg_bench *b, const sg_sample *sample, sg_dtype real, bool is_low, sg_finding *finding)
{
    *b = (sg_bench){.sample = sample, .finding = finding, .graph = sg_graph_new(), .store = sg_store_new(real)};
    bool room = b->graph && b->store;
    for (int32_t k = 0; k < sample->n_in; k++) {
        b->feed[k] = sg_calloc(sg_shape_count(&sample->in[k].shape) + 1, sizeof *b->feed[k]);
        room = room && b->feed[k];
    }
    if (!room) {
        sg_finding_broken(finding, "out of memory");
        return false;
    }
    b->scope = sg_scope_root(b->graph, b->store);
    if (is_low)
        build_low(b);
    else
        sg_sample_build(sample, b->scope, b->in, b->out);
    sg_store_initialise(b->store, 1);
    for (int32_t k = 0; k < sample->n_in; k++) {
        sg_sample_elements(sample, k, b->feed[k]);
        for (int64_t i = 0; is_low && sample->in[k].dtype == SG_F32 && i < sg_shape_count(&sample->in[k].shape); i++)
            b->feed[k][i] = round_to_bf16(b->feed[k][i]);
        if (sg_sample_moves(sample, k)) {
            b->wrt[b->n_wrt] = b->in[k];
            b->at[b->n_wrt++] = b->feed[k];
        }
    }
    return sg_bench_sound(b);
}

bool sg_bench_open(sg_bench *b, const sg_sample *sample, sg_dtype real, sg_finding *finding)
{
    return open_bench(b, sample, real, false, finding);
}

bool sg_bench_open_low(sg_bench *b, const sg_sample *sample, sg_dtype real, sg_finding *finding)
{
    return open_bench(b, sample, real, true, finding);
}

void sg_bench_close(sg_bench *b)
{
    for (int32_t k = 0; k < b->sample->n_in; k++)
        sg_free(b->feed[k]);
    sg_graph_free(b->graph);
    sg_store_free(b->store);
}

sg_value sg_bench_direction(sg_value v, uint64_t stream)
{
    static const int32_t rng[4] = {2, 0, 0, 0};
    sg_shape shape = *sg_shape_of(v);
    int64_t n = sg_shape_count(&shape);
    double *data = sg_calloc(n + 1, sizeof *data);
    if (!data)
        return sg_graph_fail(v.graph, SG_E_MEMORY, v, "out of memory");
    for (int64_t i = 0; i < n; i++)
        data[i] = 2 * (double)sg_random_uniform(stream, rng, 0, (uint64_t)i) - 1;
    sg_value c = sg_constant(v.graph, sg_dtype_of(v), shape, data, n);
    sg_free(data);
    return c;
}

sg_value sg_bench_inner(const sg_value *a, const sg_value *c, int32_t n)
{
    sg_value sum = SG_NONE;
    for (int32_t i = 0; i < n; i++) {
        sg_value term = sg_sum_all(sg_mul(a[i], c[i]));
        sum = i ? sg_add(sum, sg_cast(term, sg_dtype_of(sum))) : term;
    }
    return sum;
}

/* Outputs that are no reals (places beside values) carry no derivative. */
sg_value sg_bench_loss(const sg_bench *b)
{
    sg_value loss = SG_NONE;
    for (int32_t j = 0; j < b->sample->n_out; j++) {
        sg_value y = b->out[j];
        if (!sg_dtype_is_real(sg_dtype_of(y)))
            continue;
        sg_value w = sg_bench_direction(y, (uint64_t)j);
        sg_value term = sg_sum_all(sg_add(sg_mul(w, y), sg_mul_scalar(sg_mul(y, y), 0.25)));
        loss = sg_is_none(loss) ? term : sg_add(loss, sg_cast(term, sg_dtype_of(loss)));
    }
    return loss;
}

bool sg_bench_evaluate(sg_bench *b, const sg_value *y, double *const *out, int32_t n)
{
    sg_error err = {0};
    if (!sg_bench_sound(b))
        return false;
    if (sg_reference_eval(b->graph, b->in, b->feed, b->sample->n_in, y, out, n, &err) == SG_OK)
        return true;
    sg_finding_broken(b->finding, "%.250s (op %s, node %.80s)", err.text, err.op, err.node);
    return false;
}

/* ---- compiled runs */

static sg_status run_plan(sg_bench *b, sg_plan *plan, int32_t runs, sg_bench_results *out, sg_error *err)
{
    for (int32_t k = 0; k < b->sample->n_in; k++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", (int)k);
        const sg_shape *shape = sg_plan_input_shape(plan, name);
        if (shape)
            SG_TRY(sg_plan_feed(plan, name, b->feed[k], sg_shape_count(shape), err));
    }
    for (int32_t i = 0; i < runs; i++)
        SG_TRY(sg_plan_run(plan, err));
    for (int32_t k = 0; k < out->count; k++)
        SG_TRY(sg_plan_fetch(plan, sg_result_name(b->graph, k), out->data[k], out->n[k], err));
    return SG_OK;
}

static sg_status compile_and_run(sg_bench *b, sg_bench_way way, sg_bench_results *out, sg_error *err)
{
    sg_session *session = NULL;
    sg_plan *plan = NULL;
    sg_session_options options = {.size = sizeof options,
                                  .backend = way.backend,
                                  .threads = way.threads,
                                  .decompose = way.decompose,
                                  .poison = !way.recorded};
    sg_status status = sg_session_new(&session, b->store, &options, err);
    if (status == SG_OK)
        status = sg_plan_new(&plan, session, b->graph, err);
    if (status == SG_OK)
        status = run_plan(b, plan, way.runs, out, err);
    sg_plan_free(plan);
    sg_session_free(session);
    return status;
}

static bool reserve(sg_bench *b, sg_bench_results *out)
{
    out->count = sg_result_count(b->graph);
    if (out->count > SG_BENCH_RESULTS) {
        sg_finding_broken(b->finding, "more than %d results", (int)SG_BENCH_RESULTS);
        out->count = 0;
    }
    for (int32_t k = 0; k < out->count; k++) {
        out->shape[k] = *sg_shape_of(sg_result_value(b->graph, k));
        out->n[k] = sg_shape_count(&out->shape[k]);
        snprintf(out->name[k], sizeof out->name[k], "%s", sg_result_name(b->graph, k));
        out->data[k] = sg_calloc(out->n[k] + 1, sizeof *out->data[k]);
        if (!out->data[k])
            sg_finding_broken(b->finding, "out of memory");
    }
    return b->finding->passed;
}

bool sg_bench_run(const sg_sample *sample, void (*what)(sg_bench *), sg_bench_way way, sg_bench_results *out,
                  sg_finding *finding)
{
    sg_bench b;
    sg_error err = {0};
    *out = (sg_bench_results){.count = 0};
    bool ok = open_bench(&b, sample, strcmp(way.backend, "reference") == 0 ? SG_F64 : SG_F32, way.low, finding);
    if (ok)
        what(&b);
    ok = ok && sg_bench_sound(&b) && reserve(&b, out);
    if (ok && compile_and_run(&b, way, out, &err) != SG_OK) {
        sg_finding_broken(finding, "on %s: %.250s (op %s, node %.80s)", way.backend, err.text, err.op, err.node);
        ok = false;
    }
    sg_bench_close(&b);
    return ok;
}

void sg_bench_release(sg_bench_results *results)
{
    for (int32_t k = 0; k < results->count; k++)
        sg_free(results->data[k]);
}
