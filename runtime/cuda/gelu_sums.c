/* gelu_sums.c - g gelu'(x) with its sum over rows, a fused node made by column_sums.c: read again, a tensor four times as wide as the
 * others of an encoder's layer would cost half of what it costs to make. */
#include "runtime/cuda/gelu_sums_internal.h"

#include "ops/ops_internal.h"
#include "runtime/cuda/column_sums_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/nvrtc_internal.h"
#include "runtime/leaf_internal.h"

extern const sg_op sg_op_cast, sg_op_mul, sg_op_gelu_derivative;

enum { PACK = 8, LEAST = 128 * PACK, MOST = 512 * PACK, WARP = 32 * PACK }; /* columns: a thread has a pack */
enum { BLOCKS = 256, ROWS = 4, ACROSS = 32, DOWN = 32 };

typedef struct gelu_sums {
    cudaKernel_t kernel, add;
    int64_t rows, chunk;
    int32_t columns, blocks, x, g, alias[2];
} gelu_sums;

/* ---- the body */

static bool rows_fit(const sg_shape *s)
{
    int64_t n = s->rank > 1 ? s->dim[s->rank - 1] : 0;
    return n >= LEAST && n <= MOST && n % WARP == 0 && sg_shape_count(s) > 0 && sg_shape_count(s) / n < INT32_MAX;
}

int64_t sg_cuda_gelu_columns(sg_graph *body, int32_t *x, int32_t *g)
{
    sg_value y = sg_result_count(body) > 0 ? sg_result_value(body, 0) : SG_NONE;
    const sg_node *mul = sg_is_none(y) ? NULL : sg_node_of(y);
    if (!mul || mul->op != &sg_op_mul || sg_dtype_of(y) != SG_BF16 || !rows_fit(sg_shape_of(y)))
        return 0;
    for (int32_t k = 0; k < 2; k++) {
        const sg_node *slope = sg_node_of(sg_value_at(body, mul->in[k]));
        if (slope->op != &sg_op_gelu_derivative)
            continue;
        *x = sg_body_input_index(body, slope->in[0]);
        *g = sg_body_input_index(body, mul->in[1 - k]);
        bool alike = *x >= 0 && *g >= 0 && sg_body_input_count(body) == 2 &&
                     sg_shape_equal(sg_shape_of(sg_value_at(body, mul->in[1 - k])), sg_shape_of(y)) &&
                     sg_shape_equal(sg_shape_of(sg_value_at(body, slope->in[0])), sg_shape_of(y));
        return alike ? sg_shape_of(y)->dim[sg_shape_of(y)->rank - 1] : 0;
    }
    return 0;
}

sg_value sg_cuda_gelu_build(sg_value x, sg_value g)
{
    return sg_mul(g, sg_build(x.graph, &sg_op_gelu_derivative, &x, 1, NULL));
}

/* ---- the kernel */

static bool launch(const sg_launch *l, sg_error *err)
{
    const gelu_sums *s = l->state;
    const void *parameter[] = {&s->rows, &s->chunk, &s->columns, &l->in[s->x], &l->in[s->g], &l->out[0], &l->workspace};
    const void *adding[] = {&s->blocks, &s->columns, &l->workspace, &l->out[1]};
    dim3 grid = {(unsigned)s->blocks, 1, 1}, block = {(unsigned)s->columns / PACK, 1, 1};
    dim3 add_grid = {(unsigned)(s->columns + ACROSS - 1) / ACROSS, 1, 1}, add_block = {ACROSS * DOWN, 1, 1};
    sg_cuda_overlap(l->stream);
    if (sg_cuda_check(
            cudaLaunchKernel((const void *)s->kernel, grid, block, (void **)(uintptr_t)parameter, 0, l->stream),
            "launch", err) != SG_OK)
        return false;
    sg_cuda_overlap(l->stream);
    return sg_cuda_check(
               cudaLaunchKernel((const void *)s->add, add_grid, add_block, (void **)(uintptr_t)adding, 0, l->stream),
               "launch", err) == SG_OK;
}

#define SOURCE(defined) "#include \"random.h\"\n#include \"functions.h\"\n" defined "#include \"gelu_sums.h\"\n"

static sg_status compile(gelu_sums *s, const sg_device *device, sg_error *err)
{
    SG_TRY(sg_cuda_compile(device, SOURCE(""), "gelu_sums", &s->kernel, err));
    return sg_cuda_compile(device, SOURCE("#define ADD_PARTS\n"), "gelu_add_parts", &s->add, err);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    gelu_sums *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a kernel");
    s->columns = (int32_t)sg_cuda_gelu_columns(spec->attr[0].graph, &s->x, &s->g);
    s->rows = sg_shape_count(&spec->out_shape[0]) / s->columns;
    s->chunk = ((s->rows + BLOCKS - 1) / BLOCKS + ROWS - 1) / ROWS * ROWS;
    s->blocks = (int32_t)((s->rows + s->chunk - 1) / s->chunk);
    s->alias[0] = s->g;
    s->alias[1] = -1;
    sg_status status = compile(s, device, err);
    if (status != SG_OK) {
        sg_free(s);
        return status;
    }
    *out = (sg_kernel){
        .name = "gelu_derivative + sum", .launch = launch, .state = s, .release = sg_free, .alias = s->alias};
    out->workspace = (size_t)s->blocks * (size_t)s->columns * sizeof(float);
    return SG_OK;
}

/* Is v the sum over rows of y, as column_sums.c writes it? Fusion makes other bodies of two results as well. */
static bool is_sum_of_rows(sg_graph *body, sg_value v, sg_value y, int64_t columns)
{
    const sg_node *node = sg_node_of(v);
    while (sg_is_view(node))
        node = sg_node_of(sg_value_at(body, node->in[0]));
    if (!sg_cuda_sums_rows(body, node, columns))
        return false;
    const sg_node *cast = sg_node_of(sg_value_at(body, node->in[0]));
    return cast->op == &sg_op_cast && cast->in[0] == y.id;
}

static bool supports(const sg_kernel_spec *spec)
{
    int32_t x, g;
    sg_graph *body = spec->attr[0].graph;
    int64_t columns = spec->n_out == 2 ? sg_cuda_gelu_columns(body, &x, &g) : 0;
    return columns > 0 && is_sum_of_rows(body, sg_result_value(body, 1), sg_result_value(body, 0), columns);
}

const sg_cuda_kernel sg_cuda_gelu_sums_kernels[] = {{&sg_op_fused, supports, prepare}, {0}};
