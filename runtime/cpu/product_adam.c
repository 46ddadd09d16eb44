/* product_adam.c - the Adam step of a dense layer as one node with the product that is its gradient.
 *
 * The gradient a'b of a layer [m, n] is as large as the layer, but takes only k multiply-adds an element, where k is the number of
 * rows in the batch: for small batches it is made faster than the optimiser reads p, m and v. So a tile of it is made in the cache
 * and used at once, and the step takes the time of its six streams through memory: the gradient is neither written nor read. */
#include <string.h>

#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/tile_kernels_internal.h"
#include "runtime/cpu/update_internal.h"

enum { P = SG_JOINED_ADAM_P, A = SG_JOINED_ADAM_FACTOR, B = SG_JOINED_ADAM_MORE, INPUTS };
/* A longer sum is better made apart, with its operands packed. */
enum { MOST_ROWS = 256 };
/* Of the gradient, at once: two row blocks of the product, 24 KiB at the most. */
enum { TILE_ROWS = 12, TILE_COLUMNS = 512 };

/* ----------------------------------------------------------------------------------------------------------- the op */

static const sg_attr transposed[] = {{.i = 1}, {.i = 0}};

static void eval(const sg_eval_args *args)
{
    sg_tensor64 product[] = {args->in[A], args->in[B]};
    sg_joined_adam_eval(args, &sg_op_matmul, transposed, product, 2);
}

static sg_cost cost(const sg_cost_args *args)
{
    double elements = (double)sg_shape_count(&args->in_shape[P]), k = (double)args->in_shape[A].dim[0];
    double operands = (double)sg_shape_count(&args->in_shape[A]) + (double)sg_shape_count(&args->in_shape[B]);
    return sg_joined_adam_cost(args, 2 * k * elements, 4 * operands);
}

static const sg_op product_adam =
    SG_JOINED_ADAM_OP("product_adam", "adam with the gradient matmul(a', b)", INPUTS, eval, cost);

/* --------------------------------------------------------------------------------------------------------- the pass */

/* a'b of two matrices with whole vectors to a row. */
static bool fits(const sg_node *product, sg_value a, sg_value b)
{
    return product->attr[0].i != 0 && product->attr[1].i == 0 && sg_rank_of(a) == 2 && sg_rank_of(b) == 2 &&
           sg_dim_of(a, 0) > 0 && sg_dim_of(a, 0) <= MOST_ROWS && sg_dim_of(b, 1) % SG_TILE_LANES == 0;
}

static bool join(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in, sg_value *out)
{
    (void)user;
    const sg_node *product = sg_joined_adam_product(from, node, in, &sg_op_matmul);
    if (!product)
        return false;
    sg_value a = sg_value_at(to, product->in[0]), b = sg_value_at(to, product->in[1]);
    if (!fits(product, a, b))
        return false;
    sg_joined_adam_build(to, &product_adam, node, in, a, &b, 1, out);
    return true;
}

sg_status sg_cpu_join_updates(sg_graph *from, sg_graph *to, sg_error *err)
{
    return sg_graph_rewrite(from, to, join, NULL, NULL, err);
}

/* ------------------------------------------------------------------------------------------------------- the kernel */

typedef struct state {
    int64_t m, n, k;
    int64_t width, blocks; /* columns of a tile, and tiles side by side */
    sg_attr attr[SG_JOINED_ADAM_ATTRS];
    size_t scratch; /* bytes of one thread */
} state;

typedef struct job {
    const state *s;
    const sg_tile_kernels *tiles;
    sg_cpu_step step;
} job;

/* One tile, `m` rows and `n` columns from element `at` of the layer, which its gradient starts at a and b. */
static void update_tile(const job *j, int64_t m, int64_t n, int64_t at, const float *a, const float *b, float *gradient)
{
    const state *s = j->s;
    j->tiles->gemm(m, n, s->k, a, 1, s->m, b, s->n, gradient, n, false);
    for (int64_t row = 0; row < m; row++, at += s->n)
        sg_cpu_adam_run(&j->step, at, n, gradient + row * n);
}

static void run_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const state *s = j->s;
    const sg_launch *l = j->step.l;
    float *gradient = (float *)((char *)l->workspace + (size_t)thread * s->scratch);
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t row = tile / s->blocks * TILE_ROWS, col = tile % s->blocks * s->width;
        int64_t m = s->m - row < TILE_ROWS ? s->m - row : TILE_ROWS, n = s->n - col < s->width ? s->n - col : s->width;
        update_tile(j, m, n, row * s->n + col, (const float *)l->in[A] + row, (const float *)l->in[B] + col, gradient);
    }
    sg_cpu_restore_subnormals(mode);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const state *s = l->state;
    job j = {s, sg_tile_kernels_best(), sg_cpu_adam_step(s->attr, l)};
    sg_cpu_parallel(l->threads, (s->m + TILE_ROWS - 1) / TILE_ROWS * s->blocks, run_tiles, &j);
    return true;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    state *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for an Adam step");
    s->m = spec->in_shape[P].dim[0];
    s->n = spec->in_shape[P].dim[1];
    s->k = spec->in_shape[A].dim[0];
    s->blocks = (s->n + TILE_COLUMNS - 1) / TILE_COLUMNS;
    s->width = s->blocks ? sg_tile_pad((s->n + s->blocks - 1) / s->blocks) : 0;
    memcpy(s->attr, spec->attr, sizeof s->attr);
    s->scratch = sg_cpu_apart((size_t)(TILE_ROWS * s->width) * sizeof(float));
    *out = sg_cpu_adam_kernel("product adam", launch, s, s->scratch * (size_t)spec->threads);
    return SG_OK;
}

const sg_cpu_kernel sg_cpu_product_adam_kernels[] = {{&product_adam, NULL, prepare}, {0}};
