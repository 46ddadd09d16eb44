/* sparse_adam.c - the op sparse_adam (runtime/sparse_adam.c): the gradient is made in registers, a vector at a time, and used at once.
 * The arithmetic of each element is that of the kernels of csr_t_matmul and adam, so the bits are theirs. */
#include <string.h>

#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/update_internal.h"

enum { P = SG_SPARSE_ADAM_P, DENSE = SG_SPARSE_ADAM_DENSE, VALUES = SG_SPARSE_ADAM_VALUES };
enum { T_ROWS = SG_SPARSE_ADAM_T_ROWS, T_ORDER = SG_SPARSE_ADAM_T_ORDER, T_INDPTR = SG_SPARSE_ADAM_T_INDPTR };

typedef struct state {
    int64_t rows, width, capacity, batch;
    sg_attr attr[SG_JOINED_ADAM_ATTRS];
} state;

typedef struct job {
    const state *s;
    sg_cpu_step step;
} job;

static void update_rows(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const state *s = j->s;
    const sg_launch *l = j->step.l;
    const int32_t *pointers = l->in[T_INDPTR];
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t row = begin; row < end; row++) {
        sg_adam_row r = sg_cpu_adam_row(l, row * s->width);
        j->step.rows->gather_adam(s->width, &j->step.step, pointers[row], pointers[row + 1], l->in[VALUES],
                                  l->in[T_ORDER], l->in[T_ROWS], l->in[DENSE], s->width, &r);
    }
    sg_cpu_restore_subnormals(mode);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const state *s = l->state;
    sg_csr_arrays arrays = {s->capacity,   s->rows,        s->batch,   l->in[T_INDPTR],
                            l->in[T_ROWS], l->in[T_ORDER], "t_indptr", "t_rows"};
    if (!sg_cpu_csr_check(&arrays, err))
        return false;
    job j = {s, sg_cpu_adam_step(s->attr, l)};
    sg_cpu_parallel(l->threads, s->rows, update_rows, &j);
    return true;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    state *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a sparse Adam step");
    s->rows = spec->in_shape[P].dim[0];
    s->width = spec->in_shape[P].dim[1];
    s->capacity = spec->in_shape[VALUES].dim[0];
    s->batch = spec->in_shape[DENSE].dim[0];
    memcpy(s->attr, spec->attr, sizeof s->attr);
    *out = sg_cpu_adam_kernel("sparse adam", launch, s, 0);
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_sparse_adam_kernels[] = {{&sg_op_sparse_adam, NULL, prepare}, {0}};
