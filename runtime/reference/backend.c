/* backend.c - the reference device: host memory, every element a double, and the operators' own rules as kernels. */
#include <string.h>

#include "runtime/backend_internal.h"

/* A node's evaluation arguments, made once; a launch only fills in the pointers. */
typedef struct reference_kernel {
    sg_eval_args args;
    sg_shape *shape;
    sg_dtype *dtype;
    sg_tensor64 *tensor;
    int32_t index; /* operand whose elements must lie in [low, limit), or -1 */
    double low, limit;
} reference_kernel;

static void kernel_release(void *state)
{
    reference_kernel *k = state;
    sg_free(k->shape);
    sg_free(k->dtype);
    sg_free(k->tensor);
    sg_free(k);
}

/* Which operand holds indices, and which axis of which shape they count: of an input, or of output 0 (source -1). An axis
 * that the node's first attribute names has the number BY_ATTRIBUTE; others may count from the end. */
enum { BY_ATTRIBUTE = SG_MAX_RANK };
static const struct index_rule {
    const char *op;
    int32_t index, low, source, axis, above; /* the limit is `above` more than the size of the axis */
} index_rules[] = {
    {"gather", 1, 0, 0, 0, 0},
    {"scatter_rows", 1, 0, 2, 0, 0},
    {"gather_elements", 1, 0, 0, BY_ATTRIBUTE, 0},
    {"scatter_elements", 1, 0, 2, BY_ATTRIBUTE, 0},
    {"segment_max", 1, 0, -1, 0, 0},
    {"one_hot", 0, 0, -1, -1, 0},
    {"softmax_cross_entropy", 1, -1, 0, -1, 0}, /* -1: ignored positions */
    {"crf_viterbi", 4, 0, 0, 1, 1},             /* lengths */
};

/* A rule cannot fail, so operands that name rows or classes are checked before it runs. */
static void find_index(reference_kernel *k, const sg_kernel_spec *spec)
{
    k->index = -1;
    for (size_t i = 0; i < sizeof index_rules / sizeof *index_rules; i++) {
        const struct index_rule *r = &index_rules[i];
        if (strcmp(spec->node->op->name, r->op) != 0 || r->index >= spec->n_in)
            continue;
        const sg_shape *source = r->source < 0 ? &spec->out_shape[0] : &spec->in_shape[r->source];
        int64_t axis = r->axis == BY_ATTRIBUTE ? spec->attr[0].i : r->axis;
        k->index = r->index;
        k->low = r->low;
        k->limit = (double)source->dim[axis < 0 ? axis + source->rank : axis] + r->above;
    }
}

static bool index_valid(const reference_kernel *k, const double *index, sg_error *err)
{
    int64_t n = sg_shape_count(&k->shape[k->index]);
    for (int64_t i = 0; i < n; i++)
        if (!(index[i] >= k->low && index[i] < k->limit)) {
            sg_fail(err, SG_E_DATA, "index %.0f at position %lld is outside [%.0f, %.0f)", index[i], (long long)i,
                    k->low, k->limit);
            return false;
        }
    return true;
}

static bool kernel_launch(const sg_launch *launch, sg_error *err)
{
    reference_kernel *k = launch->state;
    if (k->index >= 0 && !index_valid(k, launch->in[k->index], err))
        return false;
    for (int32_t i = 0; i < k->args.n_in; i++)
        k->tensor[i].data = (double *)launch->in[i];
    for (int32_t i = 0; i < k->args.n_out; i++)
        k->tensor[k->args.n_in + i].data = launch->out[i];
    k->args.run = launch->run;
    k->args.node->op->eval(&k->args);
    return true;
}

static sg_status reference_prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    int32_t n = spec->n_in + spec->n_out;
    reference_kernel *k = sg_calloc(1, sizeof *k);
    if (!k)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a kernel");
    *out = (sg_kernel){.name = "reference", .launch = kernel_launch, .state = k, .release = kernel_release};
    k->shape = sg_calloc(n + 1, sizeof *k->shape);
    k->dtype = sg_calloc(n + 1, sizeof *k->dtype);
    k->tensor = sg_calloc(n + 1, sizeof *k->tensor);
    if (!k->shape || !k->dtype || !k->tensor)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a kernel");
    for (int32_t i = 0; i < n; i++) {
        bool in = i < spec->n_in;
        k->shape[i] = in ? spec->in_shape[i] : spec->out_shape[i - spec->n_in];
        k->dtype[i] = in ? spec->in_dtype[i] : spec->out_dtype[i - spec->n_in];
        k->tensor[i].shape = &k->shape[i];
    }
    find_index(k, spec);
    k->args = (sg_eval_args){.node = spec->node,
                             .attr = spec->attr,
                             .n_in = spec->n_in,
                             .n_out = spec->n_out,
                             .in = k->tensor,
                             .out = k->tensor + spec->n_in,
                             .in_dtype = k->dtype,
                             .out_dtype = k->dtype + spec->n_in};
    return SG_OK;
}

static bool reference_supports(const sg_device *device, const sg_kernel_spec *spec)
{
    (void)device;
    return spec->node->op->eval != NULL;
}

/* The device has no state of its own; its handle only has to differ from NULL. */
static sg_status reference_open(const sg_device_options *options, sg_device **out, sg_error *err)
{
    if (strcmp(options->spec, "reference") != 0)
        return sg_fail(err, SG_E_DEVICE, "the reference backend takes no device number: '%s'", options->spec);
    static char handle;
    *out = (sg_device *)&handle;
    return SG_OK;
}

static void reference_close(sg_device *device) { (void)device; }

static const char *reference_describe(const sg_device *device)
{
    (void)device;
    return "reference, 1 thread, double precision, plain loops";
}

static void *reference_allocate(sg_device *device, size_t bytes)
{
    (void)device;
    return sg_alloc_aligned(bytes);
}

static void reference_free(sg_device *device, void *memory)
{
    (void)device;
    sg_free_aligned(memory);
}

const sg_backend *sg_backend_reference(void)
{
    static const sg_backend backend = {
        .name = "reference",
        .real = SG_F64,
        .open = reference_open,
        .close = reference_close,
        .describe = reference_describe,
        .supports = reference_supports,
        .prepare = reference_prepare,
        .allocate = reference_allocate,
        .release = reference_free,
    };
    return &backend;
}
