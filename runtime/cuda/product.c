/* product.c - products of float32 matrices that are not large: which tile, its constants, and the launch. The kernel is product.cuh; the text
 * around it, with the steps that follow the product, is chain_source.c's.
 *
 * cuBLASLt is made for large products. One of a training step on 32 rows has too few tiles to occupy the processors, and
 * then takes several times as long as reading its operands does; here the sum is split over the blocks of a cluster. From
 * some work on the tensor cores are faster, even at six products for one. Shape and device alone decide: the same program gives
 * the same bits. */
#include <string.h>

#include "runtime/cuda/chain_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/nvrtc_internal.h"
#include "runtime/cuda/product_internal.h"

extern const sg_op sg_op_matmul;

enum { CLUSTER_MOST = 8, CLUSTER_HOPPER = 16, GRID_MOST = 65535, REPLICAS_MOST = 1024 };

/* How terms are added up: by ordinary multiplications (product_fma.cuh), or on the tensor cores (product_mma.cuh, of few rows
 * product_warp.cuh, and for Hopper product_wgmma.cuh; product_tf32.cuh where rounding is allowed). */
typedef enum terms { FMA, MMA, WARP, WGMMA, TF32 } terms;
static const char *const texts[] = {"product_fma.h", "product_mma.h", "product_warp.h", "product_wgmma.h",
                                    "product_tf32.h"};

/* Into stages of bfloat16. */
static bool is_split(terms t) { return t == MMA || t == WGMMA; }

/* See product.cuh. A group of warps is wx x wy; in FMA they are 8 x 4 threads each, and a thread has tm x tn elements. `stages`
 * are at most, `blocks` at least at a time on a processor. */
typedef struct tile {
    terms terms;
    int32_t bm, bn, bk, tm, tn, wx, wy, kg, stages, blocks;
} tile;

typedef struct product {
    sg_cuda_chain chain;
    cudaKernel_t kernel;
    dim3 grid, block;
    size_t shared;
    int32_t split;
    char name[48];
} product;

/* ---- the choice */

/* Times are of an H200, in microseconds, among 20 dependent launches of one recorded run; cuBLASLt, then the kernels here, by
 * FMA and on the tensor cores: the first row by product_warp.cuh, the others by product_mma.cuh, whichever is chosen now.
 *
 *     32x400 nn, K = 400                 7.4                 3.8               2.8                NARROW
 *     32x983 nt, K = 400                 7.1                 5.0               4.1                NARROW
 *     32x3993 nt, K = 400                9.6                 8.0               6.9                SQUARE
 *     32x200 nt, K = 3993                12.7                8.3               10.4               NARROW
 *     200x159 tn, K = 672                7.0                 6.6               5.8                SQUARE
 *     672x200 nt, K = 159                6.2                 7.1               6.4                WIDE
 *     400x400, 3993x400 tn, K = 32       3.0, 10.4           3.2, 9.9          3.5, 8.3           WIDE
 *     32x1, 672x1 nn, K = 200            2.1, 2.4            3.2, 3.9 */
enum { NARROW, SQUARE, WIDE, TALL, TENSOR_NARROW, TENSOR_SHORT, TENSOR, TENSOR_GROUP, TENSOR_PAIR, TENSOR_LONG };
enum { TF32_NARROW = TENSOR_LONG + 1, TF32_SHORT, TF32_TALL };
enum { GROUP_24 = TF32_TALL + 1, GROUP_32, GROUP_40, GROUP_72, GROUP_80, GROUP_160 };
static const tile tiles[] = {
    [NARROW] = {FMA, 16, 32, 64, 4, 4, 1, 1, 8, 3, 0},
    [SQUARE] = {FMA, 32, 32, 64, 4, 4, 1, 2, 4, 3, 0},
    [WIDE] = {FMA, 32, 64, 32, 4, 4, 2, 2, 2, 3, 0},
    [TALL] = {FMA, 64, 32, 32, 4, 4, 1, 4, 2, 3, 0},
    [TENSOR_NARROW] = {WARP, 32, 32, 64, 0, 0, 1, 1, 4, 1, 4},
    [TENSOR_SHORT] = {MMA, 64, 32, 32, 0, 0, 1, 4, 1, 2, 4},
    [TENSOR] = {MMA, 64, 64, 32, 0, 0, 2, 2, 2, 2, 2},
    [TENSOR_GROUP] = {WGMMA, 64, 64, 32, 0, 0, 4, 1, 1, 2, 3},
    [TF32_NARROW] = {TF32, 32, 32, 64, 0, 0, 1, 1, 4, 3, 0},
    [TF32_SHORT] = {TF32, 64, 32, 32, 0, 0, 1, 4, 1, 2, 0},
    [TF32_TALL] = {TF32, 64, 64, 32, 0, 0, 2, 2, 2, 3, 0},
    [TENSOR_PAIR] = {WGMMA, 128, 64, 32, 0, 0, 4, 2, 1, 2, 1},
    [TENSOR_LONG] = {WARP, 32, 32, 64, 0, 0, 1, 1, 4, 1, 3},
    [GROUP_24] = {WGMMA, 64, 24, 32, 0, 0, 4, 1, 1, 2, 4},
    [GROUP_32] = {WGMMA, 64, 32, 32, 0, 0, 4, 1, 1, 2, 4},
    [GROUP_40] = {WGMMA, 64, 40, 32, 0, 0, 4, 1, 1, 2, 4},
    [GROUP_72] = {WGMMA, 64, 72, 32, 0, 0, 4, 1, 1, 2, 3},
    [GROUP_80] = {WGMMA, 64, 80, 16, 0, 0, 4, 1, 1, 2, 3},
    [GROUP_160] = {WGMMA, 64, 160, 16, 0, 0, 8, 1, 1, 2, 1},
};

enum { FEW_ROWS = 48, SHORT_SUM = 64, LONG_SUM = 3072, HOPPER = 90 };
/* Multiplications. */
static const double most_narrow = 1 << 27, most_alone = 1 << 22, most_with_steps = 1 << 25;
static const double least_tensor = 1 << 23, least_tensor_alone = 1 << 24, most_tensor = 1 << 30;
static const double least_small = 1 << 20;
/* Elements of an operand that is not read again for each row of small tiles. */
static const double least_pair = 3 << 18;

static int64_t count_of(const sg_matmul_problem *p, int32_t which)
{
    const tile *t = &tiles[which];
    return (p->m + t->bm - 1) / t->bm * ((p->n + t->bn - 1) / t->bn) * p->batch;
}

static double work_of(const sg_matmul_problem *p)
{
    return (double)p->batch * (double)p->m * (double)p->n * (double)p->k;
}

/* Of few rows, the tiles of the tensor cores should not be too few: those of NARROW are half as large. */
enum { LEAST_NARROW_TILES = 12 };
static bool is_tensor(const sg_matmul_problem *p)
{
    double work = work_of(p);
    if (p->m < 32 || p->n < 32 || p->k < 32 || work > most_tensor)
        return false;
    return p->m <= FEW_ROWS ? work >= most_alone && count_of(p, TENSOR_NARROW) >= LEAST_NARROW_TILES
                            : work >= least_tensor;
}

/* Smaller ones are done no faster on the tensor cores, but by fewer threads: many replicas, or what happens at the same time, gain. */
enum { LEAST_SMALL_TILES = 5 };
static bool is_small_tensor(const sg_matmul_problem *p)
{
    double work = work_of(p);
    if (p->m < 32 || p->n < 32 || p->k < 32 || work < least_small || work > most_alone)
        return false;
    return p->m <= FEW_ROWS ? count_of(p, TENSOR_NARROW) >= LEAST_SMALL_TILES : p->k <= SHORT_SUM;
}

/* Vectors and empty matrices are cuBLASLt's. A launch that the steps do not need pays for a slower product. */
bool sg_cuda_product_is_ours(const sg_matmul_problem *p, bool with_steps)
{
    double work = work_of(p), most = with_steps ? most_with_steps : most_alone;
    if (p->m <= 1 || p->n <= 1 || p->k <= 0 || p->batch <= 0 || p->batch > GRID_MOST / CLUSTER_MOST || p->m >= 1 << 20)
        return false;
    if (is_tensor(p) && (with_steps || p->m <= FEW_ROWS || work >= least_tensor_alone))
        return true;
    return work <= (p->m <= FEW_ROWS && p->batch == 1 ? most_narrow : most);
}

static int32_t tile_of(const sg_matmul_problem *p, const sg_device *device, int64_t blocks)
{
    if (is_tensor(p) && p->m <= FEW_ROWS)
        return device->tf32 ? TF32_NARROW : TENSOR_NARROW;
    if (is_tensor(p) && device->tf32)
        return p->k <= SHORT_SUM ? TF32_SHORT : TF32_TALL;
    if (is_tensor(p))
        return p->k <= SHORT_SUM                                                            ? TENSOR_SHORT
               : device->capability != HOPPER                                               ? TENSOR
               : p->m >= tiles[TENSOR_PAIR].bm && (double)p->k * (double)p->n >= least_pair ? TENSOR_PAIR
                                                                                            : TENSOR_GROUP;
    if (is_small_tensor(p) && !device->tf32 && device->capability >= HOPPER)
        return p->m <= FEW_ROWS ? TENSOR_NARROW : TENSOR_SHORT;
    int32_t which = p->m <= FEW_ROWS ? NARROW : SQUARE;
    if (which == NARROW && count_of(p, NARROW) > blocks)
        which = SQUARE;
    else if (which == SQUARE && p->k <= SHORT_SUM && count_of(p, NARROW) <= blocks)
        which = NARROW;
    if (which == SQUARE && p->m > FEW_ROWS && 2 * count_of(p, SQUARE) > blocks)
        which = p->n > tiles[SQUARE].bn ? WIDE : TALL;
    return which;
}

/* The sum is cut by fours: copies of four floats stay on 16 bytes. */
static int64_t chunk_of(int64_t k, int32_t split) { return ((k + split - 1) / split + 3) / 4 * 4; }

/* TENSOR_GROUP in another width, which changes no element's bits: the narrowest whose blocks, of all replicas, are at most the
 * processors, or else the one that computes the fewest columns. Rows of 24 columns would leave threads idle. Pairs of tiles of 80
 * columns split the numbers of a once for both, where there are enough of them: a step of ten replicas takes 146.5 us instead of 150.
 *
 *     columns of a tile               24     32     40     64     72     80
 *     672x200 nt, K = 159             6.6    7.3    8.0    10.1   11.5   12.5
 *       of ten replicas               23.9   23.3   22.0   28.4   18.9   21.8
 *     200x159 tn, K = 672             7.0    6.7    8.1    7.8    -      10.7
 *       of ten replicas               30.2   23.4   24.6   23.3   -      17.1 */
static int32_t group_of(const sg_matmul_problem *p, const sg_device *device, int32_t split)
{
    static const int32_t narrow[] = {GROUP_24, GROUP_32, GROUP_40}, wide[] = {TENSOR_GROUP, GROUP_72, GROUP_80};
    int64_t blocks = (int64_t)split * (device->replicas > 1 ? device->replicas : 1);
    for (int32_t i = p->b_transposed ? 0 : 1; i < 3; i++)
        if (count_of(p, narrow[i]) * blocks <= device->processors)
            return narrow[i];
    int32_t best = wide[0];
    for (int32_t i = 1; i < 3; i++)
        if (count_of(p, wide[i]) * tiles[wide[i]].bn < count_of(p, best) * tiles[best].bn)
            best = wide[i];
    int64_t pairs = count_of(p, GROUP_160);
    bool paired = best == GROUP_80 && count_of(p, best) == 2 * pairs && pairs * blocks >= device->processors;
    return paired && device->replicas > 1 ? GROUP_160 : best;
}

/* Split until the blocks are about 1.6 times the processors, or as many as are to be there at a time, and not into chunks of
 * fewer terms than these. */
static const tile *choose(const sg_matmul_problem *p, const sg_device *device, int32_t *split)
{
    static const int32_t least[] = {
        [NARROW] = 32,        [SQUARE] = 96,       [WIDE] = 96,      [TALL] = 96,
        [TENSOR_NARROW] = 32, [TENSOR_SHORT] = 64, [TENSOR] = 64,    [TENSOR_GROUP] = 96,
        [TF32_NARROW] = 64,   [TF32_SHORT] = 64,   [TF32_TALL] = 96, [TENSOR_PAIR] = 96,
    };
    int64_t blocks = (int64_t)device->processors * 8 / 5;
    int32_t which = tile_of(p, device, blocks);
    if (which == TENSOR_NARROW || which == TF32_NARROW)
        blocks = (int64_t)device->processors * 2;
    if (which == TENSOR_GROUP || which == TF32_TALL)
        blocks = (int64_t)device->processors * 3;
    if (which == TENSOR_PAIR)
        blocks = device->processors;
    int32_t most =
        which == TENSOR_NARROW && device->capability == HOPPER && p->k >= LONG_SUM ? CLUSTER_HOPPER : CLUSTER_MOST;
    *split = 1;
    if (device->capability >= HOPPER)
        while (*split < most && 2 * *split * count_of(p, which) <= blocks && p->k / (2 * *split) >= least[which])
            *split *= 2;
    if (which == TENSOR_GROUP)
        return &tiles[group_of(p, device, *split)];
    bool one_step = chunk_of(p->k, *split) <= tiles[which].bk;
    return &tiles[which == TENSOR_NARROW && !one_step ? TENSOR_LONG : which];
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
    return spec->in_dtype[0] == SG_F32 && sg_cuda_product_is_ours(&p, false);
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

/* Stages are filled ahead of the sum; by cp.async, also after its end, one more. */
static int32_t stages_of(const sg_matmul_problem *p, const tile *t, int32_t split)
{
    int64_t steps = (chunk_of(p->k, split) + t->bk - 1) / t->bk, most = is_split(t->terms) ? steps : steps + 1;
    return most < t->stages ? (int32_t)most : t->stages;
}

enum { MANY_STEPS = 8 };
/* Steps for each element. */
static int32_t each_of(const sg_cuda_chain *chain) { return chain->n_steps - chain->n_once; }
/* What many steps read is brought to shared memory, all at once: they are done for a few elements at a time, which would be too few
 * reads on their way. */
static bool holds(const tile *t, const sg_cuda_chain *chain)
{
    return (t->terms == FMA || t->terms == MMA) && each_of(chain) > MANY_STEPS && chain->n_streams > 0 &&
           !chain->odd_streams;
}

/* Elements that a thread finishes at a time: of many, operands are on their way together, but long code is slow to fetch. */
static int32_t at_once(const tile *t, const sg_cuda_chain *chain)
{
    enum { MOST = 8, HELD = 4 };
    if (each_of(chain) > MANY_STEPS)
        return holds(t, chain) ? HELD : 1;
    return chain->n_streams > 1 ? MOST / chain->n_streams : MOST;
}

/* What other blocks send lies where the stages were (product.cuh). */
static bool is_late(const tile *t) { return t->terms == WGMMA; }
/* What another block finishes goes there at once. */
static bool sends(const tile *t, int32_t split) { return is_late(t) && split * 16 == t->bm; }

static char *text_of(const sg_matmul_problem *p, const tile *t, int32_t split, const sg_cuda_chain *chain)
{
    size_t size = strlen(chain->source) + 4096;
    char bounds[64] = "";
    if (t->blocks > 0)
        snprintf(bounds, sizeof bounds, "__launch_bounds__(THREADS, %d)", (int)t->blocks);
    char *text = sg_calloc(size, 1);
    if (!text)
        return NULL;
    int n = snprintf(
        text, size,
        "constexpr int M = %lld, N = %lld, K = %lld, VA = %d, VB = %d, BM = %d, BN = %d, BK = %d, TM = %d, "
        "TN = %d, WX = %d, WY = %d, KG = %d, STAGES = %d, SPLIT = %d, CHUNK = %lld, BATCH = %lld;\n"
        "constexpr int AT_ONCE = %d;\nconstexpr bool READS_EARLY = %d, HOLDS = %d, LATE = %d, WITHIN = %d, TA = %d, "
        "TB = %d;\n#define PRODUCT_TERMS \"%s\"\n#define PRODUCT_BOUNDS %s\n",
        (long long)p->m, (long long)p->n, (long long)p->k, wide(p->a_transposed ? p->m : p->k),
        wide(p->b_transposed ? p->k : p->n), t->bm, t->bn, t->bk, t->tm, t->tn, t->wx, t->wy, t->kg,
        stages_of(p, t, split), split, (long long)chunk_of(p->k, split), (long long)p->batch, (int)at_once(t, chain),
        t->terms != WGMMA, holds(t, chain), is_late(t), is_split(t->terms), p->a_transposed, p->b_transposed,
        texts[t->terms], bounds);
    n += put_start(text + n, size - (size_t)n, "A_AT", p, p->a_step);
    n += put_start(text + n, size - (size_t)n, "B_AT", p, p->b_step);
    snprintf(text + n, size - (size_t)n, "%s", chain->source);
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
    void *parameter[SG_CUDA_CHAIN_PARAMETERS];
    const void *operands[] = {l->in[p->chain.factor[0]], l->in[p->chain.factor[1]]};
    parameter[0] = operands;
    sg_cuda_chain_parameters(&p->chain, l, parameter + 1);
    cudaLaunchAttribute cluster = {.id = cudaLaunchAttributeClusterDimension,
                                   .val.clusterDim = {1, 1, (unsigned)p->split}};
    dim3 grid = {p->grid.x, p->grid.y, p->grid.z * (unsigned)l->replicas};
    cudaLaunchConfig_t config = {.gridDim = grid,
                                 .blockDim = p->block,
                                 .dynamicSmemBytes = p->shared,
                                 .stream = l->stream,
                                 .attrs = &cluster,
                                 .numAttrs = p->split > 1};
    sg_cuda_overlap(l->stream);
    return sg_cuda_check(cudaLaunchKernelExC(&config, (const void *)p->kernel, parameter), "launch of a product",
                         err) == SG_OK;
}

/* Floats of a tile of rows x columns that lie so in memory, the columns along the sum or not. As in the texts. */
static size_t operand_floats(terms terms, int32_t rows, int32_t columns, bool along)
{
    if (terms == WARP)
        return 0;
    if (!is_split(terms))
        return (size_t)rows * (size_t)(along ? columns + 4 : terms == TF32 ? columns + 8 : columns);
    if (terms == MMA)
        return (size_t)rows * (size_t)(columns + 8) * 3 / 2;
    int32_t across = 128 + (columns % 64 == 0 ? 16 : columns % 32 == 0 ? 32 : 64);
    return (size_t)(rows / 8) * (size_t)(columns / 8) * (size_t)across * 3 / 4;
}

static size_t shared_bytes(const sg_matmul_problem *p, const tile *t, int32_t split, const sg_cuda_chain *chain)
{
    size_t a =
        p->a_transposed ? operand_floats(t->terms, t->bk, t->bm, false) : operand_floats(t->terms, t->bm, t->bk, true);
    size_t b =
        p->b_transposed ? operand_floats(t->terms, t->bn, t->bk, true) : operand_floats(t->terms, t->bk, t->bn, false);
    size_t stages = (a + b) * (size_t)stages_of(p, t, split);
    size_t sums = (size_t)(t->bm * (t->terms == FMA ? t->bn : t->bn + 8) * t->kg);
    size_t share = (size_t)((t->bm * t->bn + split - 1) / split);
    size_t shares = (split > 1 ? (size_t)split : 0) + (holds(t, chain) ? (size_t)chain->n_streams : 0);
    if (is_late(t)) {
        size_t after = sends(t, split) ? sums : sums + shares * share;
        return (stages > after ? stages : after) * sizeof(float);
    }
    return ((stages > sums ? stages : sums) + shares * share) * sizeof(float);
}

static sg_status compile(product *p, sg_device *device, const sg_matmul_problem *m, const tile *t, sg_error *err)
{
    char *text = text_of(m, t, p->split, &p->chain);
    if (!text)
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a product");
    sg_status status = sg_cuda_compile(device, text, "chain", &p->kernel, err);
    sg_free(text);
    SG_TRY(status);
    /* No share of shared memory is asked for: a processor changes its share only when it runs nothing, so that kernels of different
     * shares could not run on it together. */
    SG_TRY(sg_cuda_check(
        cudaFuncSetAttribute((const void *)p->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)p->shared),
        "shared memory of a product", err));
    if (p->split <= CLUSTER_MOST)
        return SG_OK;
    return sg_cuda_check(
        cudaFuncSetAttribute((const void *)p->kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
        "blocks of a product", err);
}

static sg_status build(product *p, sg_device *device, const sg_kernel_spec *spec, sg_error *err)
{
    sg_matmul_problem m = problem_of(spec);
    const tile *t = choose(&m, device, &p->split);
    SG_TRY(sg_cuda_chain_write(&p->chain, spec, INT64_MAX, err));
    p->shared = shared_bytes(&m, t, p->split, &p->chain);
    p->grid = (dim3){(unsigned)((m.n + t->bn - 1) / t->bn), (unsigned)((m.m + t->bm - 1) / t->bm),
                     (unsigned)(m.batch * p->split)};
    p->block = (dim3){(unsigned)(32 * t->wx * t->wy * t->kg), 1, 1};
    if (spec->node->op == &sg_op_fused)
        snprintf(p->name, sizeof p->name, "%s + %d ops %dx%d/%d", t->terms == FMA ? "matmul" : "tensor matmul",
                 (int)p->chain.n_steps - 1, (int)t->bm, (int)t->bn, (int)p->split);
    else
        snprintf(p->name, sizeof p->name, "%s %dx%d/%d", t->terms == FMA ? "cuda matmul" : "tensor matmul", (int)t->bm,
                 (int)t->bn, (int)p->split);
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
