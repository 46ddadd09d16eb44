/* viterbi.c - the best path of a linear-chain CRF: scores in double, so that sums in another order than the reference's do not
 * decide between paths; back pointers of one row at a time. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/index_internal.h"

#include <math.h>
#include <string.h>

#include "ops/crf_internal.h"

typedef struct viterbi {
    int64_t batch, steps, tags;
    bool ragged;
    size_t scratch; /* bytes of one thread: two rows of scores, then the back pointers */
} viterbi;

typedef struct job {
    const viterbi *v;
    const sg_launch *l;
} job;

/* The first NaN wins, then the lowest tag of the maximum. */
static bool better(double a, double than) { return a > than || (isnan(a) && !isnan(than)); }

static void find_path(const job *j, const float *e, int64_t n, double *best, int32_t *back, int32_t *path)
{
    const float *transitions = j->l->in[SG_CRF_TRANSITIONS], *start = j->l->in[SG_CRF_START];
    const float *end = j->l->in[SG_CRF_END];
    int64_t tags = j->v->tags;
    double *next = best + tags;
    for (int64_t k = 0; k < tags; k++)
        best[k] = (double)start[k] + e[k];
    for (int64_t t = 1; t < n; t++) {
        int32_t *from = back + t * tags;
        for (int64_t k = 0; k < tags; k++) {
            next[k] = best[0] + transitions[k];
            from[k] = 0;
        }
        for (int64_t i = 1; i < tags; i++)
            for (int64_t k = 0; k < tags; k++) {
                double score = best[i] + transitions[i * tags + k];
                if (better(score, next[k])) {
                    next[k] = score;
                    from[k] = (int32_t)i;
                }
            }
        for (int64_t k = 0; k < tags; k++)
            best[k] = next[k] + e[t * tags + k];
    }
    int32_t last = 0;
    for (int64_t k = 1; k < tags; k++)
        if (better(best[k] + end[k], best[last] + end[last]))
            last = (int32_t)k;
    for (int64_t t = n - 1; t > 0; t--) {
        path[t] = last;
        last = back[t * tags + last];
    }
    path[0] = last;
}

static void run_rows(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    const job *j = arg;
    const viterbi *v = j->v;
    double *best = (double *)((char *)j->l->workspace + (size_t)thread * v->scratch);
    int32_t *back = (int32_t *)(best + 2 * v->tags);
    for (int64_t b = begin; b < end; b++) {
        int64_t n = v->ragged ? ((const int32_t *)j->l->in[SG_CRF_LENGTHS])[b] : v->steps;
        int32_t *path = (int32_t *)j->l->out[0] + b * v->steps;
        memset(path + n, 0, (size_t)(v->steps - n) * sizeof *path);
        if (n > 0)
            find_path(j, (const float *)j->l->in[SG_CRF_EMISSIONS] + b * v->steps * v->tags, n, best, back, path);
    }
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const viterbi *v = l->state;
    if (v->ragged && !sg_cpu_check_indices(l->in[SG_CRF_LENGTHS], v->batch, v->steps + 1, err))
        return false;
    job j = {v, l};
    if (v->steps > 0)
        sg_cpu_parallel(l->threads, v->batch, run_rows, &j);
    return true;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    const sg_shape *e = &spec->in_shape[SG_CRF_EMISSIONS];
    viterbi *v = sg_calloc(1, sizeof *v);
    if (!v)
        return sg_fail(err, SG_E_MEMORY, "out of memory for crf_viterbi");
    *v = (viterbi){.batch = e->dim[0], .steps = e->dim[1], .tags = e->dim[2], .ragged = spec->n_in > SG_CRF_LENGTHS};
    v->scratch = sg_cpu_line((size_t)v->tags * (2 * sizeof(double) + (size_t)v->steps * sizeof(int32_t)));
    *out = (sg_kernel){.name = "crf_viterbi", .launch = launch, .state = v, .release = sg_free};
    out->workspace = v->scratch * (size_t)spec->threads;
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    return spec->in_dtype[SG_CRF_EMISSIONS] == SG_F32 && spec->in_shape[SG_CRF_EMISSIONS].dim[2] < INT32_MAX;
}

const sg_cpu_kernel sg_cpu_viterbi_kernels[] = {{&sg_op_crf_viterbi, supports, prepare}, {0}};
