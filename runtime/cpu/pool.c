/* pool.c - pooling: each plane by itself, row of places by row of places.
 *
 * A row of places covers a few rows of the plane. These are first reduced to one row, column by column, in whole vectors; then
 * each place reduces the few columns it covers. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/row_kernels_internal.h"

#include "ops/pool_internal.h"

#include <math.h>
#include <string.h>

/* Below this many elements a second thread costs more than it saves. */
#define SERIAL_WORK 16384

typedef struct pool pool;
typedef void (*plane_fn)(const pool *p, const float *in, float *out, int32_t *at, float *row, int32_t *row_at);

struct pool {
    int64_t planes;
    sg_window_axis row, col; /* `size` is that of the larger side, also for the gradient */
    bool count_padding;
    plane_fn plane;
    int64_t in_plane, out_plane;
    size_t scratch; /* of one thread: a row of floats, and one of places */
};

/* The number that a mean over these taps is divided by. */
static float divisor(const pool *p, int64_t rows, int64_t cols)
{
    return p->count_padding ? (float)(p->row.kernel * p->col.kernel) : (float)(rows * cols);
}

/* Is the element `v` at place `a` to be taken before `best` at `b`? The largest, of equals the first, a NaN before all. */
static bool goes_before(float v, int32_t a, float best, int32_t b)
{
    if (isnan(v) || isnan(best))
        return isnan(v) && (!isnan(best) || a < b);
    return v > best || (v == best && a < b);
}

static void max_plane(const pool *p, const float *x, float *y, int32_t *at, float *best, int32_t *best_at)
{
    const sg_row_kernels *rows = sg_row_kernels_best();
    int64_t width = p->col.size;
    for (int64_t i = 0; i < p->row.places; i++) {
        int64_t begin, end;
        sg_pool_taps(&p->row, i, &begin, &end);
        for (int64_t t = begin; t < end; t++) {
            int64_t first = sg_window_element(&p->row, i, t) * width;
            if (t == begin)
                for (int64_t c = 0; c < width; c++) {
                    best[c] = x[first + c];
                    best_at[c] = (int32_t)(first + c);
                }
            else
                rows->keep_larger(width, x + first, (int32_t)first, best, best_at);
        }
        for (int64_t j = 0; j < p->col.places; j++, y++, at++) {
            sg_pool_taps(&p->col, j, &begin, &end);
            int64_t c = sg_window_element(&p->col, j, begin);
            *y = best[c];
            *at = best_at[c];
            for (int64_t t = begin + 1; t < end; t++) {
                c += p->col.dilation;
                if (goes_before(best[c], best_at[c], *y, *at)) {
                    *y = best[c];
                    *at = best_at[c];
                }
            }
        }
    }
}

static void avg_plane(const pool *p, const float *x, float *y, int32_t *at, float *sums, int32_t *sums_at)
{
    (void)at, (void)sums_at;
    const sg_row_kernels *rows = sg_row_kernels_sums();
    int64_t width = p->col.size, begin, end;
    for (int64_t i = 0; i < p->row.places; i++) {
        sg_pool_taps(&p->row, i, &begin, &end);
        int64_t covered = end - begin, first = sg_window_element(&p->row, i, begin) * width;
        rows->sum_columns(covered, width, x + first, p->row.dilation * width, sums);
        for (int64_t j = 0; j < p->col.places; j++) {
            sg_pool_taps(&p->col, j, &begin, &end);
            float sum = 0;
            for (int64_t t = begin; t < end; t++)
                sum += sums[sg_window_element(&p->col, j, t)];
            *y++ = sum / divisor(p, covered, end - begin);
        }
    }
}

/* The places' shares add up in a row, which is then added to each row that the places cover. */
static void avg_grad_plane(const pool *p, const float *y, float *x, int32_t *at, float *shares, int32_t *shares_at)
{
    (void)at, (void)shares_at;
    int64_t width = p->col.size, begin, end;
    memset(x, 0, (size_t)(p->row.size * width) * sizeof *x);
    for (int64_t i = 0; i < p->row.places; i++) {
        int64_t first_row, last_row;
        sg_pool_taps(&p->row, i, &first_row, &last_row);
        memset(shares, 0, (size_t)width * sizeof *shares);
        for (int64_t j = 0; j < p->col.places; j++, y++) {
            sg_pool_taps(&p->col, j, &begin, &end);
            float share = *y / divisor(p, last_row - first_row, end - begin);
            for (int64_t t = begin; t < end; t++)
                shares[sg_window_element(&p->col, j, t)] += share;
        }
        for (int64_t t = first_row; t < last_row; t++) {
            float *to = x + sg_window_element(&p->row, i, t) * width;
            for (int64_t c = 0; c < width; c++)
                to[c] += shares[c];
        }
    }
}

typedef struct job {
    const pool *p;
    const float *in;
    float *out;
    int32_t *at;
    char *scratch;
} job;

static void run_planes(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const pool *p = j->p;
    char *scratch = j->scratch + (size_t)thread * p->scratch;
    int32_t *row_at = (int32_t *)(scratch + p->scratch / 2);
    for (int64_t k = begin; k < end; k++)
        p->plane(p, j->in + k * p->in_plane, j->out + k * p->out_plane, j->at ? j->at + k * p->out_plane : NULL,
                 (float *)scratch, row_at);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const pool *p = l->state;
    job j = {p, l->in[0], l->out[0], p->plane == max_plane ? l->out[1] : NULL, l->workspace};
    int32_t threads = p->planes * p->row.size * p->col.size < SERIAL_WORK ? 1 : l->threads;
    sg_cpu_parallel(threads, p->planes, run_planes, &j);
    return true;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    pool *p = sg_calloc(1, sizeof *p);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", spec->node->op->name);
    bool spread = spec->node->op == &sg_op_avg_pool2d_grad, largest = spec->node->op == &sg_op_max_pool2d;
    const sg_shape *in = &spec->in_shape[0], *result = &spec->out_shape[0];
    const sg_shape *x = spread ? result : in, *y = spread ? in : result;
    const int64_t *kernel = spec->attr[SG_POOL_KERNEL].ints;
    p->planes = x->dim[0] * x->dim[1];
    p->row = sg_window_of(spec->attr, 0, x->dim[2], kernel[0], y->dim[2]);
    p->col = sg_window_of(spec->attr, 1, x->dim[3], kernel[1], y->dim[3]);
    p->count_padding = !largest && spec->attr[SG_POOL_COUNT_PADDING].i != 0;
    p->plane = largest ? max_plane : spread ? avg_grad_plane : avg_plane;
    p->in_plane = in->dim[2] * in->dim[3];
    p->out_plane = result->dim[2] * result->dim[3];
    p->scratch = 2 * sg_cpu_line((size_t)x->dim[3] * sizeof(float));
    *out = (sg_kernel){.name = spec->node->op->name, .launch = launch, .state = p, .release = sg_free};
    out->workspace = p->scratch * (size_t)spec->threads;
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[0] == SG_F32; }

const sg_cpu_kernel sg_cpu_pool_kernels[] = {{&sg_op_max_pool2d, supports, prepare},
                                             {&sg_op_avg_pool2d, supports, prepare},
                                             {&sg_op_avg_pool2d_grad, supports, prepare},
                                             {0}};
