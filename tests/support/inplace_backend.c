#include "tests/support/inplace_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

const char *inplace_backend_lacks, *inplace_backend_breaks;

typedef struct inplace_kernel {
    sg_kernel inner;
    void **scratch; /* where the rule writes, since it may not overwrite what it reads */
    size_t *bytes;
    int32_t *alias;
    int32_t n_out;
    bool broken;
} inplace_kernel;

static bool inplace_launch(const sg_launch *launch, sg_error *err)
{
    inplace_kernel *k = launch->state;
    sg_launch inner = *launch;
    inner.out = k->scratch;
    inner.state = k->inner.state;
    if (!k->inner.launch(&inner, err))
        return false;
    for (int32_t i = 0; i < k->n_out; i++)
        memcpy(launch->out[i], k->scratch[i], k->bytes[i]);
    if (k->broken && k->bytes[0])
        *(double *)launch->out[0] = *(double *)launch->out[0] * 1.01 + 0.01;
    return true;
}

static void inplace_release(void *state)
{
    inplace_kernel *k = state;
    if (k->inner.release)
        k->inner.release(k->inner.state);
    for (int32_t i = 0; i < k->n_out; i++)
        sg_free(k->scratch[i]);
    sg_free(k->scratch);
    sg_free(k->bytes);
    sg_free(k->alias);
    sg_free(k);
}

static int32_t choose_alias(const sg_kernel_spec *spec, int32_t j)
{
    const sg_op *op = spec->node->op;
    static const int32_t adam[] = {0, 2, 3};
    if (strcmp(op->name, "adam") == 0)
        return adam[j];
    for (int32_t k = 0; op->flags & SG_OP_ELEMENTWISE && k < spec->n_in; k++)
        if (sg_shape_equal(&spec->in_shape[k], &spec->out_shape[j]) && !(op->shape_only >> k & 1))
            return k;
    return -1;
}

static sg_status inplace_prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    inplace_kernel *k = sg_calloc(1, sizeof *k);
    SG_TRY(sg_backend_reference()->prepare(device, spec, &k->inner, err));
    k->n_out = spec->n_out;
    k->scratch = sg_calloc(spec->n_out, sizeof *k->scratch);
    k->bytes = sg_calloc(spec->n_out, sizeof *k->bytes);
    k->alias = sg_calloc(spec->n_out, sizeof *k->alias);
    k->broken = inplace_backend_breaks && strcmp(inplace_backend_breaks, spec->node->op->name) == 0;
    for (int32_t j = 0; j < spec->n_out; j++) {
        k->bytes[j] = (size_t)sg_shape_count(&spec->out_shape[j]) * sizeof(double);
        k->scratch[j] = sg_alloc(k->bytes[j] + 1);
        k->alias[j] = choose_alias(spec, j);
    }
    *out = (sg_kernel){
        .name = "in place", .launch = inplace_launch, .state = k, .release = inplace_release, .alias = k->alias};
    return SG_OK;
}

static bool inplace_supports(const sg_device *device, const sg_kernel_spec *spec)
{
    if (inplace_backend_lacks && strcmp(inplace_backend_lacks, spec->node->op->name) == 0)
        return false;
    return sg_backend_reference()->supports(device, spec);
}

static sg_status inplace_open(const sg_device_options *options, sg_device **out, sg_error *err)
{
    const sg_device_options reference = {.spec = "reference", .threads = options->threads, .tf32 = options->tf32};
    return sg_backend_reference()->open(&reference, out, err);
}

const sg_backend *inplace_backend(void)
{
    static sg_backend table;
    table = *sg_backend_reference();
    table.name = "inplace";
    table.open = inplace_open;
    table.supports = inplace_supports;
    table.prepare = inplace_prepare;
    return &table;
}

static sg_session *open_session(const sg_backend *backend, sg_store *store, const sg_session_options *options)
{
    sg_session *session;
    sg_error err;
    if (sg_session_open(&session, backend, store, options, &err) != SG_OK)
        fail_msg("%s", err.text);
    return session;
}

sg_session *inplace_session(sg_store *store, const sg_session_options *options)
{
    return open_session(inplace_backend(), store, options);
}

sg_session *reference_session(sg_store *store, const sg_session_options *options)
{
    return open_session(sg_backend_reference(), store, options);
}

sg_plan *compile_plan(sg_session *session, sg_graph *graph, bool no_reuse)
{
    sg_plan *plan;
    sg_error err;
    if (sg_plan_compile(&plan, session, graph, no_reuse, &err) != SG_OK)
        fail_msg("%s", err.text);
    return plan;
}

void run_plan(sg_plan *plan)
{
    sg_error err;
    if (sg_plan_run(plan, &err) != SG_OK)
        fail_msg("%s", err.text);
}
