/* audit.c - every launch again on the reference rules. Inputs are the very values that the kernel saw, so what
 * differs is this node's doing and not an earlier one's. */
#include <float.h>
#include <math.h>

#include "runtime/elements_internal.h"
#include "runtime/plan_internal.h"
#include "runtime/reference/interpreter_internal.h"

static sg_status out_of_memory(sg_error *err)
{
    return sg_fail(err, SG_E_MEMORY, "out of memory during an audited run");
}

/* A copy in the host's memory; NULL if out of memory or the device fails. */
static void *fetch(sg_session *s, const void *memory, size_t bytes)
{
    void *copy = sg_calloc((int64_t)bytes + 1, 1);
    if (copy && s->apart->download(s->device, copy, memory, bytes, NULL) == SG_OK &&
        s->apart->wait(s->device, NULL) == SG_OK)
        return copy;
    sg_free(copy);
    return NULL;
}

static double *read_tensor(const sg_plan *plan, const void *memory, const sg_shape *shape, sg_dtype dtype)
{
    int64_t count = sg_shape_count(shape);
    double *data = sg_calloc(count + 1, sizeof *data);
    void *fetched = NULL;
    if (data && plan->session->apart)
        memory = fetched = fetch(plan->session, memory, (size_t)count * sg_dtype_size(dtype));
    if (data && memory)
        sg_elements_read(sg_session_storage(plan->session, dtype), memory, data, count);
    sg_free(fetched);
    return memory ? data : (sg_free(data), NULL);
}

sg_status sg_audit_before(const sg_plan *plan, const sg_step *step, int32_t replica, double ***before, sg_error *err)
{
    const sg_kernel_spec *spec = &step->spec;
    double **data = *before = sg_calloc(spec->n_in + 1, sizeof *data);
    if (!data)
        return out_of_memory(err);
    for (int32_t k = 0; k < spec->n_in; k++) {
        if (step->in[k] < 0)
            continue;
        data[k] = read_tensor(plan, step->in_at[replica * spec->n_in + k], &spec->in_shape[k], spec->in_dtype[k]);
        if (!data[k]) {
            sg_audit_release(step, data);
            return out_of_memory(err);
        }
    }
    return SG_OK;
}

void sg_audit_release(const sg_step *step, double **before)
{
    for (int32_t k = 0; k < step->spec.n_in; k++)
        sg_free(before[k]);
    sg_free(before);
}

/* Equal up to the tolerance, relative to max(1, |expected|). What overflows single precision may be infinite. */
static bool agree(double got, double expected, double tolerance)
{
    if (isnan(expected) || isnan(got))
        return isnan(expected) && isnan(got);
    if (got == expected)
        return true;
    if (isinf(got))
        return fabs(expected) > FLT_MAX * 0.999 && (got > 0) == (expected > 0);
    return fabs(got - expected) <= tolerance * fmax(1.0, fabs(expected));
}

static sg_status compare(const sg_plan *plan, const sg_step *step, int32_t replica, int32_t k, const double *expected,
                         sg_error *err)
{
    const sg_kernel_spec *spec = &step->spec;
    const sg_node *node = step->node;
    double *got = read_tensor(plan, step->out_at[replica * spec->n_out + k], &spec->out_shape[k], spec->out_dtype[k]);
    if (!got)
        return out_of_memory(err);
    int64_t count = sg_shape_count(&spec->out_shape[k]);
    sg_status status = SG_OK;
    for (int64_t i = 0; status == SG_OK && i < count; i++)
        if (!agree(got[i], expected[i], plan->session->options.audit_tolerance))
            status =
                sg_fail_at(err, SG_E_DEVICE, node->file, node->line, 0,
                           "audit: '%s' (%s, kernel %s) output %d element %lld is %.9g, the reference gives %.9g",
                           node->name, node->op->name, step->kernel.name, (int)k, (long long)i, got[i], expected[i]);
    if (status != SG_OK && err) {
        snprintf(err->op, sizeof err->op, "%s", node->op->name);
        snprintf(err->node, sizeof err->node, "%s", node->name);
    }
    sg_free(got);
    return status;
}

sg_status sg_audit_after(const sg_plan *plan, const sg_step *step, int32_t replica, double **before, sg_run_index run,
                         sg_error *err)
{
    const sg_kernel_spec *spec = &step->spec;
    int32_t n_in = spec->n_in, n_out = spec->n_out;
    sg_tensor64 *tensor = sg_calloc(n_in + n_out + 1, sizeof *tensor);
    sg_status status = tensor ? SG_OK : out_of_memory(err);
    for (int32_t k = 0; status == SG_OK && k < n_in + n_out; k++) {
        const sg_shape *shape = k < n_in ? &spec->in_shape[k] : &spec->out_shape[k - n_in];
        tensor[k] = (sg_tensor64){shape, k < n_in ? before[k] : sg_calloc(sg_shape_count(shape) + 1, sizeof(double))};
        if (k >= n_in && !tensor[k].data)
            status = out_of_memory(err);
    }
    if (status == SG_OK)
        status = sg_interpret_node(step->node, tensor, spec->in_dtype, tensor + n_in, spec->out_dtype, run, err);
    for (int32_t k = 0; status == SG_OK && k < n_out; k++)
        status = compare(plan, step, replica, k, tensor[n_in + k].data, err);
    for (int32_t k = 0; tensor && k < n_out; k++)
        sg_free(tensor[n_in + k].data);
    sg_free(tensor);
    return status;
}
