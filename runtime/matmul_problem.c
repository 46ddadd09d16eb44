/* matmul_problem.c - from the shapes of a product's operands to sizes and steps. */
#include "runtime/matmul_problem_internal.h"

/* Steps of an operand's batch axes, right-aligned with the product's. */
static void batch_steps(const sg_matmul_problem *p, const sg_shape *s, int64_t matrix, int64_t *step)
{
    int64_t size = matrix;
    for (int32_t i = p->batch_rank - 1, j = s->rank - 3; i >= 0; i--, j--) {
        step[i] = j >= 0 && s->dim[j] > 1 ? size : 0;
        size *= j >= 0 ? s->dim[j] : 1;
    }
}

/* Rows of all batches are rows of one matrix if b is the same for each and a is stored by rows. */
static void merge_batch(sg_matmul_problem *p)
{
    int64_t expected = p->m * p->k;
    for (int32_t i = p->batch_rank - 1; i >= 0; i--) {
        if (p->batch_dim[i] == 1)
            continue;
        if (p->a_transposed || p->b_step[i] != 0 || p->a_step[i] != expected)
            return;
        expected *= p->batch_dim[i];
    }
    p->m *= p->batch;
    p->batch = 1;
    p->batch_rank = 0;
}

sg_matmul_problem sg_matmul_describe(const sg_kernel_spec *spec)
{
    sg_matmul_problem p = {0};
    const sg_shape *a = &spec->in_shape[0], *b = &spec->in_shape[1], *c = &spec->out_shape[0];
    p.a_transposed = spec->attr[0].i != 0;
    p.b_transposed = spec->attr[1].i != 0;
    p.m = c->dim[c->rank - 2];
    p.n = c->dim[c->rank - 1];
    p.k = a->dim[a->rank - (p.a_transposed ? 2 : 1)];
    p.batch_rank = c->rank - 2;
    p.batch = 1;
    for (int32_t i = 0; i < p.batch_rank; i++) {
        p.batch_dim[i] = c->dim[i];
        p.batch *= c->dim[i];
    }
    batch_steps(&p, a, p.m * p.k, p.a_step);
    batch_steps(&p, b, p.k * p.n, p.b_step);
    merge_batch(&p);
    return p;
}

void sg_matmul_offsets(const sg_matmul_problem *p, int64_t batch, int64_t *a, int64_t *b)
{
    *a = *b = 0;
    for (int32_t i = p->batch_rank - 1; i >= 0; i--) {
        int64_t at = batch % p->batch_dim[i];
        batch /= p->batch_dim[i];
        *a += at * p->a_step[i];
        *b += at * p->b_step[i];
    }
}
