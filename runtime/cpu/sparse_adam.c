/* sparse_adam.c - the update of a first layer fed with sparse rows, without its gradient ever in memory.
 *
 * The gradient x^T g of a layer [columns, width] is as large as the layer, is written by csr_t_matmul and read once by adam.
 * Both work row by row of the layer, so a few rows of gradient are made in the first-level cache and used at once: of the
 * nine streams through memory (write g, read p, g, m, v, write p, m, v) six remain. The arithmetic of each element is that of
 * the two kernels, so the bits are theirs. */
#include <math.h>

#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/update_internal.h"

/* Operands: those of adam with the dense operand of the product in the place of the gradient, then the six of the CSR batch. */
enum { P, DENSE, M, V, LR, T, VALUES, COLUMNS, INDPTR, T_ROWS, T_ORDER, T_INDPTR, INPUTS };
enum { ADAM_INPUTS = 6, CSR_INPUTS = 6, ADAM_GRADIENT = 1, ATTRS = 5, OUTPUTS = 3 };

/* ------------------------------------------------------------------------------------------------------ the op */

static sg_status infer(const sg_infer_args *args)
{
    static const int32_t like[OUTPUTS] = {P, M, V};
    for (int32_t k = 0; k < OUTPUTS; k++) {
        args->out_shape[k] = args->in_shape[like[k]];
        args->out_dtype[k] = args->in_dtype[like[k]];
    }
    return SG_OK;
}

/* The two ops' own rules one after the other. A rule cannot report a failure; out of memory shows as NaN. */
static void eval(const sg_eval_args *args)
{
    int64_t n = sg_shape_count(args->in[P].shape);
    sg_tensor64 gradient = {args->in[P].shape, sg_calloc(n, sizeof(double))};
    if (!gradient.data) {
        for (int64_t i = 0; i < n; i++)
            args->out[0].data[i] = args->out[1].data[i] = args->out[2].data[i] = NAN;
        return;
    }
    sg_tensor64 product[CSR_INPUTS + 1], update[ADAM_INPUTS];
    for (int k = 0; k < CSR_INPUTS; k++)
        product[k] = args->in[VALUES + k];
    product[CSR_INPUTS] = args->in[DENSE];
    sg_eval_args a = {.n_in = CSR_INPUTS + 1, .n_out = 1, .in = product, .out = &gradient, .run = args->run};
    sg_op_csr_t_matmul.eval(&a);
    for (int k = 0; k < ADAM_INPUTS; k++)
        update[k] = k == ADAM_GRADIENT ? gradient : args->in[k];
    a = (sg_eval_args){
        .attr = args->attr, .n_in = ADAM_INPUTS, .n_out = OUTPUTS, .in = update, .out = args->out, .run = args->run};
    sg_op_adam.eval(&a);
    sg_free(gradient.data);
}

/* The product's and the step's arithmetic; p, m, v are read and written, the batch and its dense operand read. */
static sg_cost cost(const sg_cost_args *args)
{
    double elements = (double)sg_shape_count(&args->in_shape[P]), capacity = (double)args->in_shape[VALUES].dim[0];
    double width = (double)args->in_shape[DENSE].dim[1], dense = (double)sg_shape_count(&args->in_shape[DENSE]);
    return (sg_cost){2 * capacity * width + 15 * elements, 24 * elements + 4 * dense + 12 * capacity};
}

static const sg_attr_spec attrs[ATTRS] = {{"beta1", SG_ATTR_REAL},
                                          {"beta2", SG_ATTR_REAL},
                                          {"eps", SG_ATTR_REAL},
                                          {"weight_decay", SG_ATTR_REAL},
                                          {"decoupled", SG_ATTR_INT}};

static const sg_op sparse_adam = {
    .name = "sparse_adam",
    .summary = "adam with the gradient csr_t_matmul(x, g)",
    .n_in = INPUTS,
    .n_out = OUTPUTS,
    .flags = SG_OP_STOP,
    .attrs = attrs,
    .n_attrs = ATTRS,
    .infer = infer,
    .eval = eval,
    .cost = cost,
};

/* ---------------------------------------------------------------------------------------------------- the pass */

static bool join(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user;
    if (node->op != &sg_op_adam || sg_dtype_of(in[P]) != SG_F32 || sg_rank_of(in[P]) != 2)
        return false;
    const sg_node *product = sg_node_of(in[ADAM_GRADIENT]);
    if (product->op != &sg_op_csr_t_matmul || sg_reader_count(from, node->in[ADAM_GRADIENT]) != 1)
        return false;
    sg_value joined[INPUTS];
    for (int k = 0; k < ADAM_INPUTS; k++)
        joined[k] = in[k];
    joined[DENSE] = sg_value_at(to, product->in[CSR_INPUTS]);
    for (int k = 0; k < CSR_INPUTS; k++)
        joined[VALUES + k] = sg_value_at(to, product->in[k]);
    sg_value first = sg_build(to, &sparse_adam, joined, INPUTS, node->attr);
    for (int k = 0; k < OUTPUTS; k++)
        out[k] = sg_output_of(first, k);
    return true;
}

sg_status sg_cpu_join_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, join, NULL, NULL, err);
}

/* -------------------------------------------------------------------------------------------------- the kernel */

/* Rows of the layer a tile makes: 16 rows of 400 floats are 25 KiB of gradient. */
enum { TILE_ROWS = 16 };

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

static void run_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const state *s = j->s;
    const void *const *in = j->l->in;
    void *const *out = j->l->out;
    const int32_t *pointers = in[T_INDPTR];
    float *gradient = (float *)((char *)j->l->workspace + (size_t)thread * s->scratch);
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t first = tile * TILE_ROWS, last = first + TILE_ROWS < s->rows ? first + TILE_ROWS : s->rows;
        for (int64_t row = first; row < last; row++)
            j->rows->gather_sum(s->width, pointers[row], pointers[row + 1], in[VALUES], in[T_ORDER], in[T_ROWS],
                                in[DENSE], s->width, gradient + (row - first) * s->width);
        int64_t at = first * s->width;
        j->rows->adam((last - first) * s->width, &j->step, (const float *)in[P] + at, gradient,
                      (const float *)in[M] + at, (const float *)in[V] + at, (float *)out[0] + at, (float *)out[1] + at,
                      (float *)out[2] + at);
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
    sg_cpu_parallel(l->threads, (s->rows + TILE_ROWS - 1) / TILE_ROWS, run_tiles, &j);
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
    s->scratch = sg_cpu_line((size_t)(TILE_ROWS * s->width) * sizeof(float));
    *out = (sg_kernel){.name = "sparse adam",
                       .launch = launch,
                       .state = s,
                       .release = sg_free,
                       .alias = alias,
                       .workspace = s->scratch * (size_t)spec->threads};
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_sparse_adam_kernels[] = {{&sparse_adam, NULL, prepare}, {0}};
