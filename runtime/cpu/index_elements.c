/* index_elements.c - gather_elements and scatter_elements: single elements along an axis by index. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/index_internal.h"

#include "ops/ops_internal.h"

#include <string.h>

/* Below this many elements a second thread costs more than it saves. */
#define SERIAL_WORK 16384

typedef struct elements {
    int64_t outer, size, inner; /* of the tensor that the indices point into */
    int64_t picks;              /* indices along the axis */
    bool bytes;                 /* elements of one byte, else of four */
} elements;

typedef struct job {
    const elements *e;
    const void *in;
    const int32_t *index;
    void *out;
} job;

static void gather_slabs(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const elements *e = j->e;
    int64_t slab = e->picks * e->inner;
    for (int64_t o = begin; o < end; o++)
        for (int64_t i = 0; i < slab; i++) {
            int64_t to = o * slab + i, from = (o * e->size + j->index[to]) * e->inner + i % e->inner;
            if (e->bytes)
                ((uint8_t *)j->out)[to] = ((const uint8_t *)j->in)[from];
            else
                ((uint32_t *)j->out)[to] = ((const uint32_t *)j->in)[from];
        }
}

/* One slab of the result is summed by one thread, in the order of the elements. */
static void scatter_slabs(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const elements *e = j->e;
    int64_t slab = e->picks * e->inner;
    float *out = j->out;
    memset(out + begin * e->size * e->inner, 0, (size_t)((end - begin) * e->size * e->inner) * sizeof *out);
    for (int64_t o = begin; o < end; o++)
        for (int64_t i = 0; i < slab; i++) {
            int64_t from = o * slab + i, to = (o * e->size + j->index[from]) * e->inner + i % e->inner;
            out[to] += ((const float *)j->in)[from];
        }
}

static bool run(const sg_launch *l, sg_cpu_range_fn slabs, sg_error *err)
{
    const elements *e = l->state;
    int64_t picked = e->outer * e->picks * e->inner;
    if (!sg_cpu_check_indices(l->in[1], picked, e->size, err))
        return false;
    job j = {e, l->in[0], l->in[1], l->out[0]};
    int32_t threads = picked + e->outer * e->size * e->inner < SERIAL_WORK ? 1 : l->threads;
    if (e->inner > 0)
        sg_cpu_parallel(threads, e->outer, slabs, &j);
    return true;
}

static bool launch_gather(const sg_launch *l, sg_error *err) { return run(l, gather_slabs, err); }

static bool launch_scatter(const sg_launch *l, sg_error *err) { return run(l, scatter_slabs, err); }

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    bool gather = spec->node->op == &sg_op_gather_elements;
    elements *e = sg_calloc(1, sizeof *e);
    if (!e)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    sg_axis_split s = sg_split_at(gather ? &spec->in_shape[0] : &spec->out_shape[0], spec->attr[0].i);
    *e = (elements){s.outer, s.size, s.inner, spec->in_shape[1].dim[spec->attr[0].i],
                    sg_dtype_size(spec->in_dtype[0]) == 1};
    *out = (sg_kernel){.name = spec->node->op->name,
                       .launch = gather ? launch_gather : launch_scatter,
                       .state = e,
                       .release = sg_free};
    return SG_OK;
}

static bool supports_gather(const sg_kernel_spec *spec)
{
    size_t size = sg_dtype_size(spec->in_dtype[0]);
    return size == 4 || size == 1;
}

static bool supports_scatter(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

const sg_cpu_kernel sg_cpu_index_elements_kernels[] = {
    {&sg_op_gather_elements, supports_gather, prepare}, {&sg_op_scatter_elements, supports_scatter, prepare}, {0}};
