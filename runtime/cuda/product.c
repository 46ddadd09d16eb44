/* product.c - products of small float32 matrices: which tile, its constants, and the launch. The kernel is product.cuh; the text
 * around it, with the steps that follow the product, is chain_source.c's.
 *
 * cuBLASLt is made for large products. One of a training step on 32 rows has too few tiles to occupy the processors, and
 * then takes several times as long as reading its operands does; here the sum is split over the blocks of a cluster. */
#include <string.h>

#include "runtime/cuda/chain_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/nvrtc_internal.h"
#include "runtime/cuda/product_internal.h"

extern const sg_op sg_op_matmul;

enum { MOST_PARAMETERS = 512, CLUSTER_MOST = 8, GRID_MOST = 65535, REPLICAS_MOST = 1024 };

/* See product.cuh: wx x wy warps of 8 x 4 threads, each tm x tn elements. */
typedef struct tile {
    int32_t bm, bn, bk, tm, tn, wx, wy, kg, stages;
} tile;

typedef struct product {
    sg_cuda_chain chain;
    cudaKernel_t kernel;
    dim3 grid, block;
    size_t shared;
    int32_t split, n_out;
    char name[48];
} product;

/* ---- the choice */

/* Times are of an H200, in microseconds, among 20 dependent launches of one recorded run; cuBLASLt, then the kernel here.
 *
 *     32x400 nn, K = 400, 1836, 5000     7.4, 8.5, 16.8      3.8, 5.8, 10.3    tile NARROW, split 8
 *     32x983 nt, K = 400                 7.1                 5.0               NARROW, split 2
 *     32x3993 nt, K = 400                9.6                 8.0               SQUARE
 *     200x159 tn, K = 672                7.0                 6.6               SQUARE, split 6
 *     672x200 nt, K = 159                6.2                 7.1               WIDE
 *     400x400, 1836x400 tn, K = 32       3.0, 4.7            3.2, 4.9          WIDE
 *     672x200 nt, K = 983                15.6                21.7
 *     32x1, 672x1 nn, K = 200            2.1, 2.4            3.2, 3.9 */
enum { NARROW, SQUARE, WIDE, TALL };
static const tile tiles[] = {
    [NARROW] = {16, 32, 64, 4, 4, 1, 1, 8, 3},
    [SQUARE] = {32, 32, 64, 4, 4, 1, 2, 4, 3},
    [WIDE] = {32, 64, 32, 4, 4, 2, 2, 2, 3},
    [TALL] = {64, 32, 32, 4, 4, 1, 4, 2, 3},
};

enum { FEW_ROWS = 48, LEAST_CHUNK = 32 };
static const double most_narrow = 1 << 27, most_alone = 1 << 22, most_with_steps = 1 << 25; /* multiplications */

static double work_of(const sg_matmul_problem *p)
{
    return (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
}

/* Vectors and empty matrices are cuBLASLt's. A launch that the steps do not need pays for a slower product. */
bool sg_cuda_product_is_small(const sg_matmul_problem *p, bool with_steps)
{
    double work = work_of(p), most = with_steps ? most_with_steps : most_alone;
    return p->m > 1 && p->n > 1 && p->k > 0 && p->batch > 0 && p->batch <= GRID_MOST / CLUSTER_MOST && p->m < 1 << 20 &&
           work <= (p->m <= FEW_ROWS && p->batch == 1 ? most_narrow : most);
}

static int64_t count_of(const sg_matmul_problem *p, int32_t which)
{
    const tile *t = &tiles[which];
    return (p->m + t->bm - 1) / t->bm * ((p->n + t->bn - 1) / t->bn) * p->batch;
}

/* Split until the blocks are about 1.6 times the processors. */
static const tile *choose(const sg_matmul_problem *p, const sg_device *device, int32_t *split)
{
    int64_t blocks = (int64_t)device->processors * 8 / 5;
    int32_t which = p->m <= FEW_ROWS ? NARROW : SQUARE;
    *split = 1;
    if (which == NARROW && count_of(p, NARROW) > blocks)
        which = SQUARE;
    else if (which == SQUARE && p->k <= 2 * LEAST_CHUNK && count_of(p, NARROW) <= blocks)
        which = NARROW;
    if (which == SQUARE && p->m > FEW_ROWS && 2 * count_of(p, SQUARE) > blocks)
        which = p->n > tiles[SQUARE].bn ? WIDE : TALL;
    int64_t least = which == NARROW ? LEAST_CHUNK : 3 * LEAST_CHUNK;
    if (device->capability >= 90)
        while (*split < CLUSTER_MOST && 2 * *split * count_of(p, which) <= blocks && p->k / (2 * *split) >= least)
            *split *= 2;
    return &tiles[which];
}

/* ---- the problem */

static sg_matmul_problem problem_of(const sg_kernel_spec *spec)
{
    sg_graph *body = spec->node->op == &sg_op_fused ? spec->attr[0].graph : NULL;
    return body ? sg_cuda_product_problem(body, sg_cuda_product_in(body)) : sg_matmul_describe(spec);
}

static bool supports(const sg_kernel_spec *spec)
{
    bool fused = spec->node->op == &sg_op_fused;
    if (fused && !sg_cuda_product_in(spec->attr[0].graph))
        return false;
    sg_matmul_problem p = problem_of(spec);
    if (fused)
        return sg_cuda_product_follow(spec->attr[0].graph, sg_cuda_product_in(spec->attr[0].graph)) == SG_FUSE_STEPS;
    return spec->in_dtype[0] == SG_F32 && sg_cuda_product_is_small(&p, false);
}

/* ---- the text */

/* Where matrix `batch` of an operand starts, as an expression; returns its length. */
static int put_start(char *to, size_t size, const char *name, const sg_matmul_problem *p, const int64_t *step)
{
    int64_t inner = 1;
    int n = snprintf(to, size, "#define %s(batch) (0", name);
    for (int32_t i = p->batch_rank - 1; i >= 0; inner *= p->batch_dim[i--])
        if (step[i] != 0)
            n += snprintf(to + n, size - (size_t)n, " + (size_t)(batch) / %lldu %% %lldu * %lldu", (long long)inner,
                          (long long)p->batch_dim[i], (long long)step[i]);
    return n + snprintf(to + n, size - (size_t)n, ")\n");
}

static int32_t wide(int64_t row) { return row % 4 == 0 ? 4 : 1; }

/* The sum is cut by fours: copies of four floats stay on 16 bytes. */
static int64_t chunk_of(int64_t k, int32_t split) { return ((k + split - 1) / split + 3) / 4 * 4; }

static char *text_of(const sg_matmul_problem *p, const tile *t, int32_t split, const char *chain)
{
    size_t size = strlen(chain) + 4096;
    char *text = sg_calloc(size, 1);
    if (!text)
        return NULL;
    int n =
        snprintf(text, size,
                 "constexpr int M = %lld, N = %lld, K = %lld, VA = %d, VB = %d, BM = %d, BN = %d, BK = %d, TM = %d, "
                 "TN = %d, WX = %d, WY = %d, KG = %d, STAGES = %d, SPLIT = %d, CHUNK = %lld, BATCH = %lld;\n"
                 "constexpr bool TA = %d, TB = %d;\n",
                 (long long)p->m, (long long)p->n, (long long)p->k, wide(p->a_transposed ? p->m : p->k),
                 wide(p->b_transposed ? p->k : p->n), t->bm, t->bn, t->bk, t->tm, t->tn, t->wx, t->wy, t->kg, t->stages,
                 split, (long long)chunk_of(p->k, split), (long long)p->batch, p->a_transposed, p->b_transposed);
    n += put_start(text + n, size - (size_t)n, "A_AT", p, p->a_step);
    n += put_start(text + n, size - (size_t)n, "B_AT", p, p->b_step);
    snprintf(text + n, size - (size_t)n, "%s", chain);
    return text;
}

/* ---- the kernel */

static void release(void *state)
{
    product *p = state;
    sg_cuda_chain_release(&p->chain);
    sg_free(p);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const product *p = l->state;
    void *parameter[MOST_PARAMETERS];
    unsigned long long repeat = l->run.repeat, stride = l->stride;
    int32_t n = 0;
    for (int32_t k = 0; k < 2; k++)
        parameter[n++] = (void *)(uintptr_t)&l->in[p->chain.factor[k]];
    for (int32_t k = 0; k < p->chain.n_input; k++)
        parameter[n++] = (void *)(uintptr_t)&l->in[p->chain.input[k]];
    for (int32_t j = 0; j < p->n_out; j++)
        parameter[n++] = (void *)(uintptr_t)&l->out[j];
    parameter[n++] = &repeat;
    parameter[n] = &stride;
    cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension,
                                   .val.clusterDim = {1, 1, (unsigned)p->split}};
    dim3 grid = {p->grid.x, p->grid.y, p->grid.z * (unsigned)l->replicas};
    cudaLaunchConfig_t config = {.gridDim = grid,
                                 .blockDim = p->block,
                                 .dynamicSmemBytes = p->shared,
                                 .stream = l->stream,
                                 .attrs = &cluster,
                                 .numAttrs = p->split > 1};
    return sg_cuda_check(cudaLaunchKernelExC(&config, (const void *)p->kernel, parameter), "launch of a product",
                         err) == SG_OK;
}

static size_t shared_bytes(const sg_matmul_problem *p, const tile *t, int32_t split)
{
    size_t a = (size_t)(p->a_transposed ? t->bk * t->bm : t->bm * (t->bk + 4));
    size_t b = (size_t)(p->b_transposed ? t->bn * (t->bk + 4) : t->bk * t->bn);
    size_t stages = (a + b) * (size_t)t->stages, sums = (size_t)(t->bm * t->bn * t->kg);
    size_t share = split > 1 ? (size_t)split * (size_t)((t->bm * t->bn + split - 1) / split) : 0;
    return ((stages > sums ? stages : sums) + share) * sizeof(float);
}

static sg_status compile(product *p, sg_device *device, const sg_matmul_problem *m, const tile *t, sg_error *err)
{
    char *text = text_of(m, t, p->split, p->chain.source);
    if (!text)
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a product");
    sg_status status = sg_cuda_compile(device, text, "chain", &p->kernel, err);
    sg_free(text);
    SG_TRY(status);
    return sg_cuda_check(
        cudaFuncSetAttribute((const void *)p->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)p->shared),
        "shared memory of a product", err);
}

static sg_status build(product *p, sg_device *device, const sg_kernel_spec *spec, sg_error *err)
{
    sg_matmul_problem m = problem_of(spec);
    const tile *t = choose(&m, device, &p->split);
    SG_TRY(sg_cuda_chain_write(&p->chain, spec, INT64_MAX, err));
    p->n_out = spec->n_out;
    p->shared = shared_bytes(&m, t, p->split);
    p->grid = (dim3){(unsigned)((m.n + t->bn - 1) / t->bn), (unsigned)((m.m + t->bm - 1) / t->bm),
                     (unsigned)(m.batch * p->split)};
    p->block = (dim3){(unsigned)(32 * t->wx * t->wy * t->kg), 1, 1};
    if (spec->node->op == &sg_op_fused)
        snprintf(p->name, sizeof p->name, "matmul + %d ops %dx%d/%d", (int)p->chain.n_steps - 1, (int)t->bm, (int)t->bn,
                 (int)p->split);
    else
        snprintf(p->name, sizeof p->name, "cuda matmul %dx%d/%d", (int)t->bm, (int)t->bn, (int)p->split);
    return compile(p, device, &m, t, err);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    product *p = sg_calloc(1, sizeof *p);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a product");
    sg_status status = build(p, device, spec, err);
    if (status != SG_OK) {
        release(p);
        return status;
    }
    *out = (sg_kernel){.name = p->name,
                       .launch = launch,
                       .state = p,
                       .release = release,
                       .alias = p->chain.alias,
                       .replicates = p->grid.z <= GRID_MOST / REPLICAS_MOST};
    return SG_OK;
}

const sg_cuda_kernel sg_cuda_product_kernels[] = {
    {&sg_op_fused, supports, prepare}, {&sg_op_matmul, supports, prepare}, {0}};
