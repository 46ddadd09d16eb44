/* matmul_thin.c - a batch of few rows times the matrix of a layer: each element of the matrix takes part in a few multiply-adds only,
 * so what counts is how it gets from memory to the registers. Here it is read once, where it lies, while what follows is on its
 * way; work is cut fine enough for threads to end together.
 *
 * Stored by rows (c = a b), tiles are columns of b. Stored transposed (c = a b'), rows of b are the left operand of c' = b a', tiles
 * are rows of b, and the small matrices a and c are transposed instead. Sums run over k in order. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/matmul_internal.h"
#include "runtime/cpu/tile_kernels_internal.h"

/* By measurement. With more rows oneDNN's packing of b pays; with fewer, vectors of rows of a are padding for a good part. */
enum { MOST_ROWS = 64, LEAST_TURNED = 24 };
enum { TILE_COLUMNS = 32, TILE_ROWS = 12 };
/* Multiply-adds below which a second thread costs more than it gives. */
enum { SERIAL_WORK = 250000 };

typedef struct thin_product {
    sg_matmul_problem p;
    int64_t padded; /* rows of a in whole vectors; those that are none are never read back from c' */
    size_t turned;  /* bytes of a' */
    size_t scratch; /* bytes of one thread: a tile of c' */
} thin_product;

bool sg_matmul_is_thin(const sg_kernel_spec *spec)
{
    if (spec->in_dtype[0] != SG_F32 || spec->in_dtype[1] != SG_F32)
        return false;
    sg_matmul_problem p = sg_matmul_describe(spec);
    return p.batch == 1 && !p.a_transposed && p.m > 0 && p.m <= MOST_ROWS && p.n >= TILE_COLUMNS && p.k > 0 &&
           (!p.b_transposed || p.m >= LEAST_TURNED);
}

typedef struct job {
    const thin_product *s;
    const sg_tile_kernels *kernels;
    const float *a, *b;
    float *c, *turned;
    char *scratch;
} job;

static int64_t column_tiles(int64_t n) { return (n + SG_TILE_LANES) / TILE_COLUMNS; }

/* All rows of `n` columns from `at` on, whole vectors. */
static void run_vectors(const job *j, int64_t at, int64_t n)
{
    const sg_matmul_problem *p = &j->s->p;
    j->kernels->thin_gemm(p->m, n, p->k, j->a, p->k, 1, j->b + at, p->n, j->c + at, p->n, NULL);
}

/* c = a b, tiles are columns. The last tile takes what is left, from one vector to just under three; if these are not whole, its last
 * vector overlaps the one before and makes the same numbers again. */
static void run_columns(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    int64_t n = j->s->p.n, tiles = column_tiles(n);
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t at = tile * TILE_COLUMNS, width = tile == tiles - 1 ? n - at : TILE_COLUMNS,
                rest = width % SG_TILE_LANES;
        run_vectors(j, at, width - rest);
        if (rest > 0)
            run_vectors(j, n - SG_TILE_LANES, SG_TILE_LANES);
    }
    sg_cpu_restore_subnormals(mode);
}

/* Columns of a become rows of a', SG_TILE_LANES at a time. */
static void turn_columns(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const sg_matmul_problem *p = &j->s->p;
    int64_t first = begin * SG_TILE_LANES, last = end * SG_TILE_LANES < p->k ? end * SG_TILE_LANES : p->k;
    j->kernels->turn(p->m, last - first, j->a + first, p->k, j->turned + first * j->s->padded, j->s->padded);
}

/* c' = b a', tiles are rows of b. */
static void run_rows(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const sg_matmul_problem *p = &j->s->p;
    int64_t padded = j->s->padded;
    float *tile = (float *)(j->scratch + (size_t)thread * j->s->scratch);
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t at = begin * TILE_ROWS; at < p->n && at < end * TILE_ROWS; at += TILE_ROWS) {
        int64_t rows = p->n - at < TILE_ROWS ? p->n - at : TILE_ROWS;
        const float *b = j->b + at * p->k;
        j->kernels->thin_gemm(rows, padded, p->k, b, p->k, 1, j->turned, padded, tile, padded, b + rows * p->k);
        j->kernels->turn(rows, p->m, tile, padded, j->c + at, p->n);
    }
    sg_cpu_restore_subnormals(mode);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const thin_product *s = l->state;
    const sg_matmul_problem *p = &s->p;
    job j = {s, sg_tile_kernels_best(), l->in[0], l->in[1], l->out[0], l->workspace, (char *)l->workspace + s->turned};
    int32_t threads = p->m * p->n * p->k < SERIAL_WORK ? 1 : l->threads;
    if (!p->b_transposed) {
        sg_cpu_parallel(threads, column_tiles(p->n), run_columns, &j);
        return true;
    }
    sg_cpu_parallel(threads, (p->k + SG_TILE_LANES - 1) / SG_TILE_LANES, turn_columns, &j);
    sg_cpu_parallel(threads, (p->n + TILE_ROWS - 1) / TILE_ROWS, run_rows, &j);
    return true;
}

sg_status sg_matmul_prepare_thin(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    thin_product *s = sg_calloc(1, sizeof *s);
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a matrix product");
    s->p = sg_matmul_describe(spec);
    s->padded = sg_tile_pad(s->p.m);
    *out = (sg_kernel){.name = "thin matmul", .launch = launch, .state = s, .release = sg_free};
    if (s->p.b_transposed) {
        s->turned = sg_cpu_line((size_t)(s->p.k * s->padded) * sizeof(float));
        s->scratch = sg_cpu_apart((size_t)(TILE_ROWS * s->padded) * sizeof(float));
        out->workspace = s->turned + s->scratch * (size_t)spec->threads;
    }
    return SG_OK;
}
