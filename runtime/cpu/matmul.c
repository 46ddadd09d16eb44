/* matmul.c - matrix products by oneDNN, tile by tile.
 *
 * c [batch, M, N] = a [batch, M, K] b [batch, K, N], either operand stored transposed, batch axes broadcast. Tiles cut M
 * and N by shape alone and never K, so that an element is summed in one order whatever the number of threads. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/matmul_internal.h"
#include "runtime/cpu/onednn_internal.h"

#include <string.h>

/* Tile limits, by measurement on two AVX-512 cores over the products of the SEAL step, of prediction and 1024^3. oneDNN packs b
 * anew for each tile, so products with many rows take taller ones (4096 rows: 6 % faster), as long as enough are left to
 * share out; with smaller ones the fixed cost of a call (about 1 us) shows. */
#define TILE_M 128
#define TILE_M_TALLEST 512
#define TILES_M 8
#define TILE_N 256
/* oneDNN works on 8 rows of whole vectors at a time. */
#define UNIT_M 8
#define UNIT_N 16
/* With a stored transposed oneDNN copies a's tile for each call, which longer rows of b repay. */
#define TILE_N_TRANSPOSED_A 512
/* A product above this many multiply-adds is worth a second thread. */
#define SPLIT_WORK 250000

/* One product. All terms of a sum have its m, n and batch. */
typedef struct term {
    sg_matmul_problem p;
    sg_onednn_gemm *gemm[4]; /* bit 0: the last tile of M, bit 1: the last tile of N */
} term;

/* A product, or a sum of products: a tile of the sum is made by one call after the other while it is in the cache. */
typedef struct matmul {
    int64_t m, n, batch, depth; /* depth: of all terms together */
    int64_t tile_m, tile_n, tiles_m, tiles_n;
    size_t scratch; /* of one thread */
    int32_t n_terms;
    term term[];
} matmul;

/* Equal blocks of at most `limit`, in whole units. */
static int64_t cut(int64_t n, int64_t limit, int64_t unit)
{
    int64_t blocks = (n + limit - 1) / limit, size = (n + blocks - 1) / blocks;
    size = (size + unit - 1) / unit * unit;
    return size < n ? size : n;
}

static int64_t tallest_tile(int64_t m)
{
    int64_t limit = m / TILES_M;
    return limit < TILE_M ? TILE_M : limit > TILE_M_TALLEST ? TILE_M_TALLEST : limit;
}

static void choose_tiles(matmul *mm)
{
    const sg_matmul_problem *p = &mm->term[0].p;
    mm->tile_m = cut(mm->m, tallest_tile(mm->m), UNIT_M);
    mm->tile_n = cut(mm->n, p->a_transposed ? TILE_N_TRANSPOSED_A : TILE_N, UNIT_N);
    bool single = mm->batch == 1 && mm->tile_m == mm->m && mm->tile_n == mm->n;
    if (single && mm->m * mm->n * mm->depth >= SPLIT_WORK) {
        /* oneDNN packs a transposed b for each call: halves of N would have it packed once, but are slower to pack. */
        if ((p->b_transposed && mm->m >= 16) || mm->n < 32)
            mm->tile_m = cut(mm->m, (mm->m + 1) / 2, UNIT_M);
        else
            mm->tile_n = cut(mm->n, (mm->n + 1) / 2, UNIT_N);
    }
    mm->tiles_m = (mm->m + mm->tile_m - 1) / mm->tile_m;
    mm->tiles_n = (mm->n + mm->tile_n - 1) / mm->tile_n;
}

static void release(void *state)
{
    matmul *mm = state;
    if (!mm)
        return;
    for (int32_t t = 0; t < mm->n_terms; t++)
        for (int i = 0; i < 4; i++)
            sg_onednn_gemm_free(mm->term[t].gemm[i]);
    sg_free(mm);
}

static sg_gemm_shape tile_shape(const matmul *mm, const sg_matmul_problem *p, int edge)
{
    sg_gemm_shape s = {.k = p->k, .c_row = mm->n};
    s.m = edge & 1 ? mm->m - (mm->tiles_m - 1) * mm->tile_m : mm->tile_m;
    s.n = edge & 2 ? mm->n - (mm->tiles_n - 1) * mm->tile_n : mm->tile_n;
    s.a_row = p->a_transposed ? 1 : p->k;
    s.a_col = p->a_transposed ? p->m : 1;
    s.b_row = p->b_transposed ? 1 : p->n;
    s.b_col = p->b_transposed ? p->k : 1;
    return s;
}

/* Which of the four tile shapes stands at (i, j). */
static int edge_at(const matmul *mm, int64_t i, int64_t j)
{
    return (i == mm->tiles_m - 1 ? 1 : 0) | (j == mm->tiles_n - 1 ? 2 : 0);
}

static sg_status make_gemms(matmul *mm, int32_t t, int32_t threads, sg_error *err)
{
    for (int edge = 0; edge < 4; edge++) {
        if ((!(edge & 1) && mm->tiles_m == 1) || (!(edge & 2) && mm->tiles_n == 1))
            continue;
        sg_gemm_shape s = tile_shape(mm, &mm->term[t].p, edge);
        s.add = t > 0;
        SG_TRY(sg_onednn_gemm_new(&mm->term[t].gemm[edge], &s, threads, err));
        size_t scratch = sg_cpu_apart(sg_onednn_gemm_scratch(mm->term[t].gemm[edge]));
        mm->scratch = scratch > mm->scratch ? scratch : mm->scratch;
    }
    return SG_OK;
}

typedef struct job {
    const matmul *mm;
    const void *const *in;
    float *c;
    char *scratch;
    int failed; /* set by any thread */
} job;

/* The part of one term in the tile that begins at (row, col). */
static bool run_term(const job *j, int32_t t, int64_t batch, int64_t row, int64_t col, int edge, int32_t thread)
{
    const matmul *mm = j->mm;
    const sg_matmul_problem *p = &mm->term[t].p;
    int64_t a, b;
    sg_matmul_offsets(p, batch, &a, &b);
    a += p->a_transposed ? row : row * p->k;
    b += p->b_transposed ? col * p->k : col;
    return sg_onednn_gemm_run(mm->term[t].gemm[edge], thread, (const float *)j->in[2 * t] + a,
                              (const float *)j->in[2 * t + 1] + b, j->c + (batch * mm->m + row) * mm->n + col,
                              j->scratch + (size_t)thread * mm->scratch);
}

static void run_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    job *j = arg;
    const matmul *mm = j->mm;
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t in = tile % mm->tiles_n, im = tile / mm->tiles_n % mm->tiles_m,
                batch = tile / mm->tiles_n / mm->tiles_m;
        for (int32_t t = 0; t < mm->n_terms; t++)
            if (!run_term(j, t, batch, im * mm->tile_m, in * mm->tile_n, edge_at(mm, im, in), thread))
                __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
    }
    sg_cpu_restore_subnormals(mode);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const matmul *mm = l->state;
    job j = {mm, l->in, l->out[0], l->workspace, 0};
    sg_cpu_parallel(l->threads, mm->batch * mm->tiles_m * mm->tiles_n, run_tiles, &j);
    if (j.failed)
        sg_fail(err, SG_E_DEVICE, "oneDNN failed in a matrix product");
    return !j.failed;
}

/* An empty sum is zero. */
static bool launch_empty(const sg_launch *l, sg_error *err)
{
    (void)err;
    const matmul *mm = l->state;
    memset(l->out[0], 0, (size_t)(mm->batch * mm->m * mm->n) * sizeof(float));
    return true;
}

static sg_status make_products(matmul *mm, int32_t threads, sg_error *err)
{
    choose_tiles(mm);
    for (int32_t t = 0; t < mm->n_terms; t++)
        SG_TRY(make_gemms(mm, t, threads, err));
    return SG_OK;
}

sg_status sg_matmul_prepare_terms(const sg_matmul_problem *p, int32_t n, int32_t threads, sg_kernel *out, sg_error *err)
{
    matmul *mm = sg_calloc(1, sizeof *mm + (size_t)n * sizeof mm->term[0]);
    if (!mm)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a matrix product");
    *mm = (matmul){.m = p[0].m, .n = p[0].n, .batch = p[0].batch, .n_terms = n};
    for (int32_t t = 0; t < n; t++) {
        mm->term[t].p = p[t];
        mm->depth += p[t].k;
    }
    *out = (sg_kernel){.name = n == 1 ? "onednn matmul" : "onednn matmul sum",
                       .launch = launch_empty,
                       .state = mm,
                       .release = release};
    if (mm->m == 0 || mm->n == 0 || mm->depth == 0 || mm->batch == 0)
        return SG_OK;
    out->launch = launch;
    sg_status status = make_products(mm, threads, err);
    if (status != SG_OK) {
        release(mm);
        memset(out, 0, sizeof *out);
        return status;
    }
    out->workspace = mm->scratch * (size_t)threads;
    return SG_OK;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    sg_matmul_problem p = sg_matmul_describe(spec);
    return sg_matmul_prepare_terms(&p, 1, spec->threads, out, err);
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32 && spec->in_dtype[1] == SG_F32; }

const sg_cpu_kernel sg_cpu_matmul_kernels[] = {
    {&sg_op_matmul, sg_matmul_is_small, sg_matmul_prepare_small},
    {&sg_op_matmul, sg_matmul_is_thin, sg_matmul_prepare_thin},
    {&sg_op_matmul, supports, prepare},
    {0},
};
