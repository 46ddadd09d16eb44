/* matmul_small.c - products by row kernels, row by row: matrices so small that oneDNN's fixed cost of a call (about a
 * microsecond) would dominate, and products with a vector. A row of c is a sum of rows of b scaled by a row of a, piece by
 * piece; where b is stored transposed, or is a vector, its elements are dot products. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/matmul_internal.h"
#include "runtime/cpu/row_kernels_internal.h"

/* Below this many multiply-adds a second thread costs more than it saves. */
#define SERIAL_WORK 16384

typedef struct small_product {
    sg_matmul_problem p;
    bool dots;
    int32_t *row, *order; /* k each: 0, 1, 2, ...; and, for a stored transposed, its steps m apart, else NULL */
} small_product;

/* Columns of a row of c that a tile makes. */
#define PIECE 64
static int64_t pieces(const sg_matmul_problem *p) { return (p->n + PIECE - 1) / PIECE; }

/* Where b has its columns contiguous: stored transposed, or with one column. */
static bool has_columns(const sg_matmul_problem *p) { return p->b_transposed || p->n == 1; }

bool sg_matmul_is_small(const sg_kernel_spec *spec)
{
    if (spec->in_dtype[0] != SG_F32 || spec->in_dtype[1] != SG_F32)
        return false;
    sg_matmul_problem p = sg_matmul_describe(spec);
    if (p.m == 0 || p.n == 0 || p.k == 0 || p.batch == 0)
        return false;
    bool tiny = p.m <= SG_MATMUL_SMALL && p.n <= SG_MATMUL_SMALL && p.k <= SG_MATMUL_SMALL &&
                p.m * p.n <= SG_MATMUL_SMALL && p.m * p.n * p.k <= SG_MATMUL_SMALL;
    return tiny || (p.n == 1 && !p.a_transposed) || (p.m == 1 && !p.a_transposed && !p.b_transposed);
}

typedef struct job {
    const small_product *s;
    const sg_row_kernels *rows, *sums;
    const float *a, *b;
    float *c;
} job;

/* Columns [first, last) of a row of c. */
static void product_row(const job *j, const float *a, const float *b, float *c, int64_t first, int64_t last)
{
    const sg_matmul_problem *p = &j->s->p;
    if (!j->s->dots)
        j->rows->gather_sum(last - first, 0, p->k, a, j->s->order, j->s->row, b + first, p->n, c + first);
    else
        for (int64_t col = first; col < last; col++)
            c[col] = j->sums->dot(p->k, a, b + col * p->k);
}

/* Rows are counted on: divisions would take longer than a short row. */
static void run_pieces(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const sg_matmul_problem *p = &j->s->p;
    int64_t a, b, each = pieces(p), piece = begin % each, r = begin / each, i = r % p->m;
    unsigned mode = sg_cpu_flush_subnormals();
    sg_matmul_offsets(p, r / p->m, &a, &b);
    for (int64_t t = begin; t < end; t++) {
        int64_t first = piece * PIECE;
        product_row(j, j->a + a + (p->a_transposed ? i : i * p->k), j->b + b, j->c + r * p->n, first,
                    first + PIECE < p->n ? first + PIECE : p->n);
        if (++piece < each)
            continue;
        piece = 0;
        r++;
        if (++i == p->m && t + 1 < end) {
            i = 0;
            sg_matmul_offsets(p, r / p->m, &a, &b);
        }
    }
    sg_cpu_restore_subnormals(mode);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const small_product *s = l->state;
    const sg_matmul_problem *p = &s->p;
    job j = {s, sg_row_kernels_best(), sg_row_kernels_sums(), l->in[0], l->in[1], l->out[0]};
    int32_t threads = p->batch * p->m * p->n * p->k < SERIAL_WORK ? 1 : l->threads;
    sg_cpu_parallel(threads, p->batch * p->m * pieces(p), run_pieces, &j);
    return true;
}

sg_status sg_matmul_prepare_small(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    sg_matmul_problem p = sg_matmul_describe(spec);
    bool dots = has_columns(&p) && !p.a_transposed;
    int64_t places = dots ? 0 : p.k;
    small_product *s = sg_alloc(sizeof *s + (size_t)(2 * places) * sizeof(int32_t));
    if (!s)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a matrix product");
    *s = (small_product){.p = p, .dots = dots, .row = (int32_t *)(s + 1)};
    if (p.a_transposed && !dots)
        s->order = s->row + p.k;
    for (int64_t i = 0; i < places; i++) {
        s->row[i] = (int32_t)i;
        if (s->order)
            s->order[i] = (int32_t)(i * p.m);
    }
    *out = (sg_kernel){.name = "small matmul", .launch = launch, .state = s, .release = sg_free};
    return SG_OK;
}
