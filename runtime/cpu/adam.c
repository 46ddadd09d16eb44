/* adam.c - the Adam step of one parameter in one pass: reads p, g, m, v, writes p, m, v in place where the plan allows.
 *
 *     m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
 *     p <- p - (lr wd p + lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps))
 *
 * The coefficients are computed once a step in double and rounded once. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/update_internal.h"

#include <math.h>
#include <string.h>

enum {
    P = SG_JOINED_ADAM_P,
    G = SG_JOINED_ADAM_FACTOR,
    M = SG_JOINED_ADAM_M,
    V = SG_JOINED_ADAM_V,
    LR = SG_JOINED_ADAM_LR,
    T = SG_JOINED_ADAM_T
};
enum { BETA1, BETA2, EPS, WEIGHT_DECAY, DECOUPLED, N_ATTRS };
/* Elements of a tile: seven streams of 16 KiB pass through the second-level cache. */
#define TILE 4096

typedef struct adam {
    int64_t count;
    sg_attr attr[N_ATTRS];
} adam;

typedef struct job {
    sg_cpu_step step;
    int64_t count;
} job;

/* 1 - beta^t without cancellation at small t. */
static double correction(double beta, double t) { return beta == 0 ? 1 : -expm1(t * log(beta)); }

static sg_adam_step coefficients(const sg_attr *attr, double lr, double t)
{
    double beta1 = attr[BETA1].f, beta2 = attr[BETA2].f, decay = attr[WEIGHT_DECAY].f;
    bool decoupled = attr[DECOUPLED].i != 0;
    return (sg_adam_step){
        .beta1 = (float)beta1,
        .one_beta1 = (float)(1 - beta1),
        .beta2 = (float)beta2,
        .one_beta2 = (float)(1 - beta2),
        .rate = (float)(lr / correction(beta1, t)),
        .scale = (float)(1 / sqrt(correction(beta2, t))),
        .eps = (float)attr[EPS].f,
        .decay = decoupled ? (float)(lr * decay) : 0,
        .l2 = decoupled ? 0 : (float)decay,
    };
}

sg_cpu_step sg_cpu_adam_step(const sg_attr *attr, const sg_launch *l)
{
    return (sg_cpu_step){l, sg_row_kernels_best(),
                         coefficients(attr, *(const float *)l->in[LR], *(const float *)l->in[T])};
}

sg_adam_row sg_cpu_adam_row(const sg_launch *l, int64_t at)
{
    return (sg_adam_row){(const float *)l->in[P] + at, (const float *)l->in[M] + at, (const float *)l->in[V] + at,
                         (float *)l->out[0] + at,      (float *)l->out[1] + at,      (float *)l->out[2] + at};
}

void sg_cpu_adam_run(const sg_cpu_step *s, int64_t at, int64_t n, const float *gradient)
{
    sg_adam_row r = sg_cpu_adam_row(s->l, at);
    s->rows->adam(n, &s->step, r.p, gradient, r.m, r.v, r.p_out, r.m_out, r.v_out);
}

sg_kernel sg_cpu_adam_kernel(const char *name, bool (*launch)(const sg_launch *l, sg_error *err), void *state,
                             size_t workspace)
{
    static const int32_t alias[] = {P, M, V};
    return (sg_kernel){
        .name = name, .launch = launch, .state = state, .release = sg_free, .alias = alias, .workspace = workspace};
}

static void run_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    int64_t first = begin * TILE, last = end * TILE < j->count ? end * TILE : j->count;
    unsigned mode = sg_cpu_flush_subnormals();
    sg_cpu_adam_run(&j->step, first, last - first, (const float *)j->step.l->in[G] + first);
    sg_cpu_restore_subnormals(mode);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const adam *a = l->state;
    job j = {sg_cpu_adam_step(a->attr, l), a->count};
    sg_cpu_parallel(l->threads, (a->count + TILE - 1) / TILE, run_tiles, &j);
    return true;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    adam *a = sg_calloc(1, sizeof *a);
    if (!a)
        return sg_fail(err, SG_E_MEMORY, "out of memory for an Adam step");
    a->count = sg_shape_count(&spec->out_shape[0]);
    memcpy(a->attr, spec->attr, sizeof a->attr);
    *out = sg_cpu_adam_kernel("adam", launch, a, 0);
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[P] == SG_F32; }

const sg_cpu_kernel sg_cpu_adam_kernels[] = {{&sg_op_adam, supports, prepare}, {0}};
