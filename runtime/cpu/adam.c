/* adam.c - the Adam step of one parameter in one pass: reads p, g, m, v, writes p, m, v in place where the plan allows.
 *
 *     m <- b1 m + (1 - b1) g          v <- b2 v + (1 - b2) g^2
 *     p <- p - (lr wd p + lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps))
 *
 * The coefficients are computed once a step in double and rounded once. */
#include "runtime/cpu/cpu_kernels.h"
#include "runtime/cpu/update_internal.h"

#include <math.h>

enum { P, G, M, V, LR, T };
enum { BETA1, BETA2, EPS, WEIGHT_DECAY, DECOUPLED, N_ATTRS };
/* Elements of a tile: seven streams of 16 KiB pass through the second-level cache. */
#define TILE 4096

typedef struct adam {
    int64_t count;
    sg_attr attr[N_ATTRS];
} adam;

typedef struct job {
    sg_adam_step step;
    int64_t count;
    const sg_row_kernels *rows;
    const sg_launch *l;
} job;

/* 1 - beta^t without cancellation at small t. */
static double correction(double beta, double t) { return beta == 0 ? 1 : -expm1(t * log(beta)); }

sg_adam_step sg_cpu_adam_coefficients(const sg_attr *attr, double lr, double t)
{
    double beta1 = attr[BETA1].f, beta2 = attr[BETA2].f, decay = attr[WEIGHT_DECAY].f;
    bool decoupled = attr[DECOUPLED].i != 0;
    sg_adam_step s = {
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
    return s;
}

static void run_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    (void)thread;
    const job *j = arg;
    const void *const *in = j->l->in;
    void *const *out = j->l->out;
    int64_t first = begin * TILE, last = end * TILE < j->count ? end * TILE : j->count;
    unsigned mode = sg_cpu_flush_subnormals();
    j->rows->adam(last - first, &j->step, (const float *)in[P] + first, (const float *)in[G] + first,
                  (const float *)in[M] + first, (const float *)in[V] + first, (float *)out[0] + first,
                  (float *)out[1] + first, (float *)out[2] + first);
    sg_cpu_restore_subnormals(mode);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    (void)err;
    const adam *a = l->state;
    job j = {sg_cpu_adam_coefficients(a->attr, *(const float *)l->in[LR], *(const float *)l->in[T]), a->count,
             sg_row_kernels_best(), l};
    sg_cpu_parallel(l->threads, (a->count + TILE - 1) / TILE, run_tiles, &j);
    return true;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    static const int32_t alias[] = {P, M, V};
    adam *a = sg_calloc(1, sizeof *a);
    if (!a)
        return sg_fail(err, SG_E_MEMORY, "out of memory for an Adam step");
    a->count = sg_shape_count(&spec->out_shape[0]);
    for (int k = 0; k < N_ATTRS; k++)
        a->attr[k] = spec->attr[k];
    *out = (sg_kernel){.name = "adam", .launch = launch, .state = a, .release = sg_free, .alias = alias};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return spec->in_dtype[P] == SG_F32; }

const sg_cpu_kernel sg_cpu_adam_kernels[] = {{&sg_op_adam, supports, prepare}, {0}};
