/* csr.c - products with sparse rows. Each line of the result (a row for csr_matmul, a column of the sparse matrix for
 * csr_t_matmul) is a sum of scaled rows of the dense operand, in the order of the non-zeros, so that the result depends
 * neither on threads nor on timing. Index arrays come from the user and are checked at every launch: about a microsecond,
 * against hundreds for the product. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/row_kernels_internal.h"
#include "runtime/cpu/update_internal.h"

#include <string.h>

enum { VALUES, COLUMNS, INDPTR, T_ROWS, T_ORDER, T_INDPTR, DENSE, DENSE_2 };
/* Columns of the result that a tile of csr_matmul computes: all rows of w are read in pieces of this width, half of which
 * fit a thread's second-level cache for the layers of multi-label models. */
#define BLOCK 256

typedef struct csr {
    int64_t capacity, lines, others, width; /* others: rows of the dense operand */
    int64_t block, blocks;
    int32_t pointers, index, order; /* operands; order < 0: non-zeros lie in order */
} csr;

/* -------------------------------------------------------------------------------------------------------- checks */

/* In order and within [0, most]? Without branches, for the compiler to use vectors. */
static bool ascend(const int32_t *p, int64_t n, int32_t most)
{
    int32_t bad = p[0] < 0 || p[n - 1] > most;
    for (int64_t i = 1; i < n; i++)
        bad |= p[i] < p[i - 1];
    return !bad;
}

static bool lie_within(const int32_t *p, int64_t n, int32_t most)
{
    int32_t bad = 0;
    for (int64_t i = 0; i < n; i++)
        bad |= (p[i] < 0) | (p[i] > most);
    return !bad;
}

static int32_t clamp(int64_t n) { return n < INT32_MAX ? (int32_t)n : INT32_MAX; }

static bool check_pointers(const sg_csr_arrays *a, sg_error *err)
{
    const int32_t *p = a->pointers;
    if (ascend(p, a->lines + 1, clamp(a->capacity)))
        return true;
    for (int64_t i = 0; i <= a->lines; i++) {
        int64_t low = i == 0 ? 0 : p[i - 1];
        if (p[i] >= low && p[i] <= a->capacity)
            continue;
        sg_fail(err, SG_E_DATA, "%s[%lld] = %d is outside [%lld, capacity %lld]", a->pointers_name, (long long)i, p[i],
                (long long)low, (long long)a->capacity);
        return false;
    }
    return true;
}

static bool check_indices(const int32_t *index, int64_t begin, int64_t end, int64_t limit, const char *name,
                          sg_error *err)
{
    if (lie_within(index + begin, end - begin, clamp(limit - 1)))
        return true;
    for (int64_t i = begin; i < end; i++)
        if (index[i] < 0 || index[i] >= limit) {
            sg_fail(err, SG_E_DATA, "%s[%lld] = %d is outside [0, %lld)", name, (long long)i, index[i],
                    (long long)limit);
            return false;
        }
    return true;
}

bool sg_cpu_csr_check(const sg_csr_arrays *a, sg_error *err)
{
    if (!check_pointers(a, err))
        return false;
    int64_t begin = a->pointers[0], end = a->pointers[a->lines];
    return check_indices(a->index, begin, end, a->others, a->index_name, err) &&
           (!a->order || check_indices(a->order, begin, end, a->capacity, "t_order", err));
}

static bool check(const csr *c, const sg_launch *l, sg_error *err)
{
    bool transposed = c->order >= 0;
    sg_csr_arrays arrays = {c->capacity,
                            c->lines,
                            c->others,
                            l->in[c->pointers],
                            l->in[c->index],
                            transposed ? l->in[c->order] : NULL,
                            transposed ? "t_indptr" : "indptr",
                            transposed ? "t_rows" : "columns"};
    return sg_cpu_csr_check(&arrays, err);
}

/* ------------------------------------------------------------------------------------------------------ products */

typedef struct job {
    const csr *c;
    const sg_launch *l;
    const sg_row_kernels *rows;
} job;

/* Tiles are lines within blocks: while a thread works on one block, it reads one piece of the dense operand. */
static void product_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const csr *c = j->c;
    const int32_t *p = j->l->in[c->pointers];
    const float *dense = j->l->in[DENSE];
    float *out = j->l->out[0];
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t t = begin; t < end; t++) {
        int64_t line = t % c->lines, col = t / c->lines * c->block;
        int64_t n = c->width - col < c->block ? c->width - col : c->block;
        j->rows->gather_sum(n, p[line], p[line + 1], j->l->in[VALUES], c->order < 0 ? NULL : j->l->in[c->order],
                            j->l->in[c->index], dense + col, c->width, out + line * c->width + col);
    }
    sg_cpu_restore_subnormals(mode);
}

static bool launch_product(const sg_launch *l, sg_error *err)
{
    const csr *c = l->state;
    if (!check(c, l, err))
        return false;
    job j = {c, l, sg_row_kernels_best()};
    sg_cpu_parallel(l->threads, c->lines * c->blocks, product_tiles, &j);
    return true;
}

static void sddmm_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const csr *c = j->c;
    const int32_t *p = j->l->in[INDPTR], *index = j->l->in[COLUMNS];
    const float *g = j->l->in[DENSE], *w = j->l->in[DENSE_2];
    float *out = j->l->out[0];
    unsigned mode = sg_cpu_flush_subnormals();
    for (int64_t row = begin; row < end; row++)
        for (int64_t e = p[row]; e < p[row + 1]; e++)
            out[e] = j->rows->dot(c->width, g + row * c->width, w + index[e] * c->width);
    sg_cpu_restore_subnormals(mode);
}

static bool launch_sddmm(const sg_launch *l, sg_error *err)
{
    const csr *c = l->state;
    if (!check(c, l, err))
        return false;
    if (c->capacity > 0)
        memset(l->out[0], 0, (size_t)c->capacity * sizeof(float));
    job j = {c, l, sg_row_kernels_sums()};
    sg_cpu_parallel(l->threads, c->lines, sddmm_tiles, &j);
    return true;
}

/* ------------------------------------------------------------------------------------------------------- prepare */

static sg_status prepare(const sg_kernel_spec *spec, csr shape, sg_launch_fn launch, sg_kernel *out, sg_error *err)
{
    csr *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a sparse product");
    *c = shape;
    c->capacity = spec->in_shape[VALUES].dim[0];
    c->lines = spec->in_shape[c->pointers].dim[0] - 1;
    c->width = spec->in_shape[DENSE].dim[1];
    /* Equal blocks, in whole vectors. A line of csr_t_matmul has one or two non-zeros: it is written in one go. */
    c->blocks = c->order < 0 ? (c->width + BLOCK - 1) / BLOCK : c->width > 0;
    c->block = c->blocks ? ((c->width + c->blocks - 1) / c->blocks + 15) / 16 * 16 : 1;
    *out = (sg_kernel){.name = spec->node->op->name, .launch = launch, .state = c, .release = sg_free};
    return SG_OK;
}

static sg_status prepare_matmul(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    csr c = {.others = spec->in_shape[DENSE].dim[0], .pointers = INDPTR, .index = COLUMNS, .order = -1};
    return prepare(spec, c, launch_product, out, err);
}

static sg_status prepare_t_matmul(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    csr c = {.others = spec->in_shape[DENSE].dim[0], .pointers = T_INDPTR, .index = T_ROWS, .order = T_ORDER};
    return prepare(spec, c, launch_product, out, err);
}

static sg_status prepare_sddmm(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    csr c = {.others = spec->in_shape[DENSE_2].dim[0], .pointers = INDPTR, .index = COLUMNS, .order = -1};
    return prepare(spec, c, launch_sddmm, out, err);
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[VALUES] == SG_F32; }

const sg_cpu_kernel sg_cpu_csr_kernels[] = {{&sg_op_csr_matmul, supports, prepare_matmul},
                                            {&sg_op_csr_t_matmul, supports, prepare_t_matmul},
                                            {&sg_op_csr_sddmm, supports, prepare_sddmm},
                                            {0}};
