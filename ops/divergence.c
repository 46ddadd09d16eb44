/* divergence.c - builders of divergences between distributions that are given by logits or log-probabilities, and of the cross-
 * entropy with a whole distribution as target. Outcomes of probability 0 take part with 0: no 0 * inf arises, at any
 * order of differentiation, since the infinite factor is replaced before it is multiplied. */
#include "ops/ops_internal.h"

#include <math.h>

/* `log_q` with 0 in the place of -inf where the weight p is 0 too. A positive weight keeps the -inf: the divergence is inf. */
static sg_value where_counted(sg_value p, sg_value log_q)
{
    sg_value impossible = sg_equal(log_q, sg_number(log_q, -INFINITY));
    sg_value absent = sg_logical_and(impossible, sg_equal(p, sg_number(p, 0)));
    return sg_where(absent, sg_number(log_q, 0), log_q);
}

sg_value sg_softmax_cross_entropy_dense(sg_value z, sg_value p)
{
    sg_value log_q = sg_log_softmax(z, -1);
    return sg_neg(sg_sum(sg_mul(p, where_counted(p, log_q)), -1));
}

/* sum_i e^{log p_i} (log p_i - log q_i). For log p_i = -inf both factors are replaced: the term and its derivatives are 0. */
sg_value sg_kl_divergence(sg_value log_p, sg_value log_q)
{
    sg_value zero = sg_number(log_p, 0), never = sg_equal(log_p, sg_number(log_p, -INFINITY));
    sg_value ratio = sg_where(never, zero, sg_sub(sg_where(never, zero, log_p), sg_where(never, zero, log_q)));
    return sg_sum(sg_mul(sg_exp(log_p), ratio), -1);
}

/* The two outcomes one after the other, each logarithm exact in its tail: s(a) (a - b) + softplus(b) - softplus(a) is shorter, and
 * for large logits of one sign nothing but the rounding of numbers of their size. */
sg_value sg_kl_bernoulli(sg_value a, sg_value b)
{
    sg_value not_a = sg_neg(a), not_b = sg_neg(b);
    sg_value yes = sg_mul(sg_sigmoid(a), sg_sub(sg_log_sigmoid(a), sg_log_sigmoid(b)));
    sg_value no = sg_mul(sg_sigmoid(not_a), sg_sub(sg_log_sigmoid(not_a), sg_log_sigmoid(not_b)));
    return sg_add(yes, no);
}
