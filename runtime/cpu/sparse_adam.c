/* sparse_adam.c - the op sparse_adam (runtime/sparse_adam.c): a row of gradient is made in the first-level cache and used at once;
 * while it is made, what the step has asked for of the next row is on its way. The arithmetic of each element is that of the kernels
 * of csr_t_matmul and adam, so the bits are theirs. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/update_internal.h"
#include "runtime/updates_internal.h"

enum { P = SG_SPARSE_ADAM_P, DENSE, M, V, LR, T, VALUES, COLUMNS, INDPTR, T_ROWS, T_ORDER, T_INDPTR };
enum { ATTRS = SG_SPARSE_ADAM_ATTRS, OUTPUTS = SG_SPARSE_ADAM_OUTPUTS };

typedef struct state {
    int64_t rows, width, capacity, batch;
    sg_attr attr[ATTRS];
    size_t scratch; /* bytes of one thread */
} state;

typedef struct job {
    const state *s;
    const sg_launch *l;
    const sg_row_kernels *rows;
    sg_adam_step step;
} job;

static void update_rows(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const state *s = j->s;
    const void *const *in = j->l->in;
    void *const *out = j->l->out;
    const int32_t *pointers = in[T_INDPTR];
    float *gradient = (float *)((char *)j->l->workspace + (size_t)thread * s->scratch);
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * s->width;
        j->rows->gather_sum(s->width, pointers[row], pointers[row + 1], in[VALUES], in[T_ORDER], in[T_ROWS], in[DENSE],
                            s->width, gradient);
        j->rows->adam(s->width, &j->step, (const float *)in[P] + at, gradient, (const float *)in[M] + at,
                      (const float *)in[V] + at, (float *)out[0] + at, (float *)out[1] + at, (float *)out[2] + at);
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
    job j = {s, l, sg_row_kernels_best(),
             sg_cpu_adam_coefficients(s->attr, *(const float *)l->in[LR], *(const float *)l->in[T])};
    sg_cpu_parallel(l->threads, s->rows, update_rows, &j);
    return true;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    static const int32_t alias[OUTPUTS] = {P, M, V};
    state *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a sparse Adam step");
    s->rows = spec->in_shape[P].dim[0];
    s->width = spec->in_shape[P].dim[1];
    s->capacity = spec->in_shape[VALUES].dim[0];
    s->batch = spec->in_shape[DENSE].dim[0];
    for (int k = 0; k < ATTRS; k++)
        s->attr[k] = spec->attr[k];
    s->scratch = sg_cpu_apart((size_t)s->width * sizeof(float));
    *out = (sg_kernel){.name = "sparse adam",
                       .launch = launch,
                       .state = s,
                       .release = sg_free,
                       .alias = alias,
                       .workspace = s->scratch * (size_t)spec->threads};
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_sparse_adam_kernels[] = {{&sg_op_sparse_adam, NULL, prepare}, {0}};
