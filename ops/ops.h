/* ops.h - the public header of ops/: builders of every operator. One line a builder; the mathematics stands in the file of
 * the op, beside its rules. Shapes: elementwise binary and ternary builders broadcast like NumPy. All real arithmetic is F32
 * unless the inputs are another real dtype; mixed real dtypes are an error (use sg_cast). Comparisons give BOOL, index
 * results I32. Invalid arguments set the graph's sticky error and return SG_NONE. Conventions at kinks, ties and empty
 * reductions: docs/conventions.md.
 *
 * Each builder is also a macro that calls it with the caller's file and line (define SG_NO_LOCATION before including to do
 * without; rules inside the library do, so that their nodes keep the place of the forward node). */
#ifndef SG_OPS_H
#define SG_OPS_H

#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the registry */
int32_t sg_op_count(void);
const sg_op *sg_op_at(int32_t index);      /* order of op_list.h */
const sg_op *sg_op_find(const char *name); /* NULL if unknown */
/* SG_OP_LOW, SG_OP_FOLLOWS or SG_OP_FULL: how the op runs in mixed precision; 0 for leaves, which keep their dtype. */
uint32_t sg_op_precision(const sg_op *op);

/* ---- elementwise, one input (real -> real) */
sg_value sg_neg(sg_value x);
sg_value sg_abs(sg_value x);   /* abs'(0) = 0 */
sg_value sg_sign(sg_value x);  /* derivative zero */
sg_value sg_floor(sg_value x); /* derivative zero */
sg_value sg_exp(sg_value x);
sg_value sg_expm1(sg_value x);
sg_value sg_log(sg_value x);
sg_value sg_log1p(sg_value x);
sg_value sg_sqrt(sg_value x); /* sqrt'(0) = inf */
sg_value sg_rsqrt(sg_value x);
sg_value sg_square(sg_value x);
sg_value sg_reciprocal(sg_value x);
sg_value sg_sin(sg_value x);
sg_value sg_cos(sg_value x);
sg_value sg_tanh(sg_value x);
sg_value sg_erf(sg_value x);
sg_value sg_erfc(sg_value x);    /* 1 - erf(x), exact in the tail */
sg_value sg_sigmoid(sg_value x); /* derivative s(x) s(-x) */
sg_value sg_log_sigmoid(sg_value x);
sg_value sg_softplus(sg_value x); /* log(1 + e^x), exact at every argument */
sg_value sg_relu(sg_value x);     /* relu'(0) = 0; NaN propagates */
sg_value sg_leaky_relu(sg_value x, double slope);
sg_value sg_elu(sg_value x, double alpha);
sg_value sg_gelu(sg_value x);                          /* composite: x (1 + erf(x / sqrt 2)) / 2 */
sg_value sg_gelu_tanh(sg_value x);                     /* composite: the tanh form */
sg_value sg_clip(sg_value x, double low, double high); /* gradient 1 on the closed interval */
sg_value sg_is_finite(sg_value x);                     /* BOOL */
sg_value sg_logical_not(sg_value x);                   /* BOOL -> BOOL */
sg_value sg_cast(sg_value x, sg_dtype dtype);          /* derivative passes between real dtypes, zero otherwise */
sg_value sg_stop_gradient(sg_value x);                 /* x, held constant by every derivative */

/* ---- elementwise, two and three inputs */
sg_value sg_add(sg_value a, sg_value b); /* also I32 */
sg_value sg_sub(sg_value a, sg_value b);
sg_value sg_mul(sg_value a, sg_value b);
sg_value sg_div(sg_value a, sg_value b);
sg_value sg_pow(sg_value a, sg_value b);     /* 0^0 = 1; d(x^0)/dx = 0 */
sg_value sg_maximum(sg_value a, sg_value b); /* ties 1/2 each; NaN propagates */
sg_value sg_minimum(sg_value a, sg_value b);
sg_value sg_xlogy(sg_value x, sg_value y); /* x log y, 0 at x = 0 unless y is NaN */
sg_value sg_logaddexp(sg_value a,
                      sg_value b);         /* composite: log(e^a + e^b) without overflow; both -inf: -inf, gradient 0 */
sg_value sg_equal(sg_value a, sg_value b); /* BOOL; derivative zero; also I32 */
sg_value sg_not_equal(sg_value a, sg_value b);
sg_value sg_less(sg_value a, sg_value b);
sg_value sg_less_equal(sg_value a, sg_value b);
sg_value sg_greater(sg_value a, sg_value b);
sg_value sg_greater_equal(sg_value a, sg_value b);
sg_value sg_logical_and(sg_value a, sg_value b);
sg_value sg_logical_or(sg_value a, sg_value b);
sg_value sg_where(sg_value condition, sg_value a, sg_value b); /* the side not taken gets an exact zero cotangent */
/* Shorthands with a number: x + c, x * c. */
sg_value sg_add_scalar(sg_value x, double c);
sg_value sg_mul_scalar(sg_value x, double c);

/* ---- reductions over one or several axes; negative axes count from the end; `keep` keeps the axes as size 1 */
#define SG_AXES(...)                                                                                                   \
    (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (int32_t[]) { __VA_ARGS__ }
sg_value sg_sum_axes(sg_value x, int32_t n, const int32_t *axes, bool keep); /* sg_sum_axes(x, SG_AXES(0, 2), false) */
sg_value sg_sum(sg_value x, int32_t axis);
sg_value sg_sum_all(sg_value x);            /* rank 0 */
sg_value sg_mean(sg_value x, int32_t axis); /* composite; empty axis: NaN */
sg_value sg_mean_axes(sg_value x, int32_t n, const int32_t *axes, bool keep);
sg_value sg_mean_all(sg_value x);
sg_value sg_max(sg_value x, int32_t axis, bool keep); /* ties share the cotangent evenly; empty axis: error */
sg_value sg_min(sg_value x, int32_t axis, bool keep);
sg_value sg_prod(sg_value x, int32_t axis, bool keep); /* exact at zeros at every order */
sg_value sg_argmax(sg_value x, int32_t axis);          /* I32; ties: lowest index; the first NaN */
sg_value sg_argmin(sg_value x, int32_t axis);
/* The k largest along an axis, largest first, ties in order of place; NaN counts as larger than all numbers. `indices`
 * (I32, may be NULL) receives their places. k is from 0 to the size of the axis. The k smallest: of sg_neg(x). */
sg_value sg_top_k(sg_value x, int64_t k, int32_t axis, sg_value *indices);
sg_value sg_logsumexp(sg_value x, int32_t axis, bool keep); /* all -inf: -inf with gradient 0 */
sg_value sg_cumsum(sg_value x, int32_t axis);

/* ---- shape */
sg_value sg_reshape(sg_value x, sg_shape shape);   /* 0 keeps the dimension at that place, one -1 is inferred */
sg_value sg_expand_dims(sg_value x, int32_t axis); /* new axis of size 1 */
sg_value sg_squeeze(sg_value x, int32_t axis);
sg_value sg_transpose(sg_value x, int32_t n, const int32_t *order); /* sg_transpose(x, SG_AXES(1, 0)) */
sg_value sg_swap_axes(sg_value x, int32_t a, int32_t b);
sg_value sg_broadcast_like(sg_value x, sg_value model); /* x broadcast to the shape of model */
sg_value sg_sum_like(sg_value x, sg_value model);       /* its transpose: sum x over the axes broadcasting would add */
sg_value sg_reshape_like(sg_value x, sg_value model);
sg_value sg_tile_axis(sg_value x, int32_t axis,
                      int64_t size); /* new axis of `size` equal copies (materialises nothing) */
sg_value sg_concat(const sg_value *x, int32_t n, int32_t axis);
sg_value sg_slice(sg_value x, int32_t axis, int64_t begin, int64_t end);  /* [begin, end), negatives from the end */
sg_value sg_pad(sg_value x, int32_t axis, int64_t before, int64_t after); /* with zeros */
sg_value sg_pad_with(sg_value x, int32_t axis, int64_t before, int64_t after, double value); /* any value, also inf */
sg_value sg_zeros_like(sg_value model); /* exact zeros of model's shape and dtype, F32 if that is not real */
sg_value sg_ones_like(sg_value model);
sg_value sg_fill_like(sg_value model, double value);

/* ---- indexing; indices are I32, out of range is an error at run time (named node) */
sg_value sg_gather(sg_value table, sg_value index); /* rows: table [V, ...], index [...] -> [index..., ...] */
sg_value sg_scatter_rows(sg_value x, sg_value index, sg_value model); /* its transpose: rows added up; shape of model */
sg_value sg_scatter_add(sg_value x, sg_value index, sg_value source); /* x with source[i] added to row index[i] */
sg_value sg_take(sg_value x, sg_value index, int32_t axis); /* gather along an axis: it becomes the axes of the index */
/* Single elements: y[.., i, ..] = x[.., index[.., i, ..], ..]; the index has x's shape but for the axis. Its transpose
 * adds elements up in the shape of a model; _add_ adds them to x. */
sg_value sg_gather_elements(sg_value x, sg_value index, int32_t axis);
sg_value sg_scatter_elements(sg_value x, sg_value index, sg_value model, int32_t axis);
sg_value sg_scatter_add_elements(sg_value x, sg_value index, sg_value source, int32_t axis);
/* Reductions over the rows with one id: segment I32 has the leading axes of x (its rows), in any order of ids;
 * -> [segments, rest of x]. A segment without rows: sum 0, mean 0, max -inf. Ties of max share the cotangent evenly. */
sg_value sg_segment_sum(sg_value x, sg_value segment, int64_t segments);
sg_value sg_segment_mean(sg_value x, sg_value segment, int64_t segments);
sg_value sg_segment_max(sg_value x, sg_value segment, int64_t segments);
sg_value sg_one_hot(sg_value index, int64_t classes);

/* ---- products. a [..., M, K], b [..., K, N] -> [..., M, N]; batch axes broadcast. _nt: b is [..., N, K]; _tn: a is
 *      [..., K, M]. Rank-1 operands as in NumPy (b of rank 1: [..., K] -> [...]). */
sg_value sg_matmul(sg_value a, sg_value b);
sg_value sg_matmul_nt(sg_value a, sg_value b);
sg_value sg_matmul_tn(sg_value a, sg_value b);
/* Sums of products in NumPy's notation, one letter an axis: sg_einsum("bqhd,bkhd->bhqk", (sg_value[]){q, k}, 2). The
 * result must be given; a letter stands at most once in an operand. Built from transposes and matrix products. */
sg_value sg_einsum(const char *equation, const sg_value *x, int32_t n);

/* ---- images: x [images, channels, rows, columns]. How a window moves over rows and columns: tap t of place p reads element
 *      p stride - padding + t dilation, and places run as long as the window fits the padded input. */
typedef struct sg_window {
    int64_t stride[2], dilation[2]; /* of rows and columns; 0 stands for 1 */
    int64_t padding[4];             /* top, left, bottom, right */
} sg_window;
/* A square window: the same stride both ways and the same padding on all four sides. */
static inline sg_window sg_window_square(int64_t stride, int64_t padding)
{
    sg_window w = {{stride, stride}, {1, 1}, {padding, padding, padding, padding}};
    return w;
}
/* Convolution (cross-correlation), zero padding. w [out channels, channels / groups, kernel rows, kernel columns];
 * group k of the out channels reads group k of the channels. A bias is an addition of [out channels, 1, 1]. */
sg_value sg_conv2d(sg_value x, sg_value w, sg_window window, int64_t groups);
/* Transposed convolution: the x-gradient of the convolution with this window. w [channels, out channels / groups, kernel
 * rows, kernel columns]. Rows of the result: (rows - 1) stride - padding + dilation (kernel - 1) + 1 + more_rows, with
 * more_rows (output padding) less than the stride. */
sg_value sg_conv_transpose2d(sg_value x, sg_value w, sg_window window, int64_t groups, int64_t more_rows,
                             int64_t more_columns);
/* The largest element, and the mean, of each window of rows x columns elements. Output 1 of max_pool2d (sg_output_of) is the
 * I32 place, row * width + column, of that element: the first of equals, the first NaN. Padding is never the largest; in a
 * mean it counts as zeros if count_padding, else the mean is over the elements alone. A window of padding alone is refused. */
sg_value sg_max_pool2d(sg_value x, int64_t rows, int64_t columns, sg_window window);
sg_value sg_avg_pool2d(sg_value x, int64_t rows, int64_t columns, sg_window window, bool count_padding);

/* ---- sparse rows. A CSR batch [rows, columns] with a fixed capacity of non-zeros; the true count is indptr[rows]. Its
 *      transpose (column pointers, row of and position of each non-zero in column order) comes beside it, so that the
 *      weight gradient is a gather with a fixed order. Entries past the true count are ignored. */
typedef struct sg_csr {
    sg_value values;   /* [capacity] real */
    sg_value columns;  /* [capacity] I32 */
    sg_value indptr;   /* [rows + 1] I32 */
    sg_value t_rows;   /* [capacity] I32: row of the j-th non-zero in column order */
    sg_value t_order;  /* [capacity] I32: its position in values */
    sg_value t_indptr; /* [columns + 1] I32 */
} sg_csr;
/* Six inputs named NAME.values (F32), NAME.columns, NAME.indptr, NAME.t_rows, NAME.t_order, NAME.t_indptr (I32). Rows,
 * columns and capacity are fixed: their axes have no names. */
sg_csr sg_csr_input(sg_graph *graph, const char *name, int64_t rows, int64_t columns, int64_t capacity);
sg_value sg_csr_matmul(sg_csr x, sg_value w);            /* [rows, columns] x [columns, N] -> [rows, N] */
sg_value sg_csr_t_matmul(sg_csr x, sg_value g);          /* transposed: [columns, rows] x [rows, N] -> [columns, N] */
sg_value sg_csr_sddmm(sg_csr x, sg_value g, sg_value w); /* [capacity]: <g[row], w[column]> at each non-zero */

/* ---- softmax family and losses; all along the last axis unless said */
sg_value sg_softmax(sg_value x, int32_t axis); /* composite; a row of all -inf gives zeros with gradient 0 */
sg_value sg_log_softmax(sg_value x, int32_t axis);
/* softmax over the elements with keep = true (BOOL, broadcast to x), 0 at the others whatever x is there; a row without
 * any gives zeros with gradient 0. */
sg_value sg_masked_softmax(sg_value x, sg_value keep, int32_t axis);
sg_value sg_bce_with_logits(sg_value z, sg_value y); /* elementwise: softplus(z) - z y */
sg_value sg_softmax_cross_entropy(sg_value z,
                                  sg_value target); /* z [..., C], target I32 [...] -> [...]; -1 ignores: 0 */
/* The same with a distribution p [..., C] as target: -sum_c p_c log softmax(z)_c -> [...]; differentiable in p too. A class with
 * p = 0 and z = -inf takes part with 0. */
sg_value sg_softmax_cross_entropy_dense(sg_value z, sg_value p);
/* Kullback-Leibler divergences. From log-probabilities [..., C] -> [...]: sum_c p_c (log p_c - log q_c), 0 where p_c = 0;
 * and elementwise between Bernoulli distributions with logits a and b. */
sg_value sg_kl_divergence(sg_value log_p, sg_value log_q);
sg_value sg_kl_bernoulli(sg_value a, sg_value b);

/* ---- normalisation. Variances are biased means of squared deviations; eps is added to the variance under the root. */
/* (x - mean) / sqrt(variance + eps) * gamma + beta, statistics over the last axes, as many as gamma and beta have (1 to 8,
 * the same shape as these axes). Without gamma or beta (SG_NONE): factor 1, shift 0; without both: over the last axis.
 * Further outputs of the node (sg_output_of): 1 mean, 2 1 / sqrt(variance + eps), both with the axes kept as size 1. */
sg_value sg_layer_norm(sg_value x, sg_value gamma, sg_value beta, double eps);
/* x / sqrt(mean x^2 + eps) * gamma over the last axes, those of gamma (rank 1 or more). Output 1 of the node is 1 / sqrt(..), with the
 * axes kept as size 1. */
sg_value sg_rms_norm(sg_value x, sg_value gamma, double eps);
/* x [N, C, ...], all others [C]. Group: statistics of each example's C / groups neighbouring channels together. Further outputs of
 * the node: 1 mean, 2 1 / sqrt(variance + eps), both [N, groups]. */
sg_value sg_group_norm(sg_value x, int64_t groups, sg_value gamma, sg_value beta, double eps);
/* Batch: statistics of each channel over all other axes. The running statistics move by `momentum` towards those of the
 * batch, with the unbiased variance; the caller assigns them. They carry no derivative. Further outputs of y's node: 1 mean,
 * 2 the biased variance, both [C]. */
typedef struct sg_batch_norm_result {
    sg_value y, running_mean, running_variance;
} sg_batch_norm_result;
sg_batch_norm_result sg_batch_norm(sg_value x, sg_value gamma, sg_value beta, sg_value running_mean,
                                   sg_value running_variance, double momentum, double eps);
sg_value sg_batch_norm_inference(sg_value x, sg_value gamma, sg_value beta, sg_value running_mean,
                                 sg_value running_variance, double eps);

/* Scaled dot-product attention: softmax(scale q k' + bias) v, row by row. q [B, H, Tq, d], k [B, H, Tk, d], v [B, H, Tk, dv]
 * -> [B, H, Tq, dv]. A zeroed option is its default. A row that attends to nothing gives zeros with gradient 0. Output 1
 * (sg_output_of) is the logsumexp of each row of scores [B, H, Tq]. Composite with fused derivatives of every order, which keep no
 * scores in memory; decomposed are the derivatives that want the cotangent of the bias (it has the scores' size), on `cuda` d or
 * dv above 128, and there in f32, as products by cuBLASLt are faster, scores of all heads of 1/4 to 64 MiB if not causal. */
typedef struct sg_attention_options {
    sg_value mask;    /* BOOL, broadcast to [B, H, Tq, Tk]: true where query attends to key */
    sg_value bias;    /* real, the same: added to the scores; differentiable */
    bool causal;      /* query i attends to keys j <= i */
    bool heads_inner; /* tensors are [B, T, H, d], as a projection leaves them: no transposed copies */
    double scale;     /* 0: 1 / sqrt(d) */
    double dropout;   /* rate, on the probabilities; draws in `scope` */
    sg_scope scope;
} sg_attention_options;
sg_value sg_attention(sg_value q, sg_value k, sg_value v, const sg_attention_options *options);

/* ---- sequences [batch, steps, ...]; `lengths` I32 [batch], each in [0, steps] (else an error of the run), or SG_NONE: all
 *      rows are full. What lies past a row's length takes no part in anything. Derivatives keep fused kernels. */
/* Weights with the gates in the order i, f, g, o: w_ih [4H, inputs], w_hh [4H, H], b_ih and b_hh [4H] or SG_NONE. */
typedef struct sg_lstm_weights {
    sg_value w_ih, w_hh, b_ih, b_hh;
} sg_lstm_weights;
typedef struct sg_lstm_state {
    sg_value h, c; /* [batch, H] */
} sg_lstm_state;
typedef struct sg_lstm_result {
    sg_value out; /* [batch, steps, H]; 0 past the length */
    sg_lstm_state last;
} sg_lstm_result;
typedef struct sg_bilstm_result {
    sg_value out; /* [batch, steps, 2H]: forward, backward */
    sg_lstm_state forward, backward;
} sg_bilstm_result;
/* One step, x [batch, inputs]: c' = f c + i g, h' = o tanh(c'). */
sg_lstm_state sg_lstm_cell(sg_value x, sg_lstm_state last, sg_lstm_weights weights);
/* All steps of x [batch, steps, inputs], from the first state (members SG_NONE: zeros). reverse: each row from its last
 * step to its first; out[b, t] is the state after step t. Past a row's length its state stays as it is. */
sg_lstm_result sg_lstm(sg_value x, sg_value lengths, sg_lstm_weights weights, sg_lstm_state first, bool reverse);
/* Both directions, from zeros. */
sg_bilstm_result sg_bilstm(sg_value x, sg_value lengths, sg_lstm_weights forward, sg_lstm_weights backward);

/* A linear-chain CRF over K tags: the score of a path is start[y_0] + sum_t emissions[t, y_t] + sum_t transitions[y_{t-1},
 * y_t] + end[y_last]. -inf forbids a transition. transitions [K, K] (from, to), start [K], end [K]; emissions
 * [batch, steps, K]. A row of length 0 has log Z, score and likelihood 0. */
typedef struct sg_crf {
    sg_value transitions, start, end;
} sg_crf;
sg_value sg_crf_log_partition(sg_crf crf, sg_value emissions,
                              sg_value lengths); /* [batch]: log sum exp of all scores */
/* [batch]: the score of the paths in tags I32 [batch, steps]; tags past the length are ignored but must be in [0, K). */
sg_value sg_crf_score(sg_crf crf, sg_value emissions, sg_value tags, sg_value lengths);
sg_value sg_crf_log_likelihood(sg_crf crf, sg_value emissions, sg_value tags, sg_value lengths); /* score - log Z */
sg_value sg_crf_marginals(sg_crf crf, sg_value emissions, sg_value lengths); /* [batch, steps, K]: P(y_t = j); 0 past */
/* I32 [batch, steps]: the path of the highest score; ties: the lowest tag, from the last step on; 0 past the length. Its
 * score, with the derivative of a maximum: sg_crf_score of it. */
sg_value sg_crf_viterbi(sg_crf crf, sg_value emissions, sg_value lengths);

/* ---- random draws. Stream from the scope, step and seed from the store's entry "rng" (I32 [4]: seed low, seed high, step
 *      low, step high), element index and loop iteration: the same bits on every backend. */
sg_value sg_rng(sg_scope scope);     /* current value of the entry "rng" at the root, created if absent */
void sg_rng_advance(sg_scope scope); /* assigns rng with step + 1 */
void sg_rng_seed(sg_store *store, uint64_t seed, uint64_t step); /* host side */
sg_value sg_uniform_like(sg_scope scope, sg_value model);        /* [0, 1), multiples of 2^-24 */
sg_value sg_normal_like(sg_scope scope, sg_value model);
sg_value sg_bernoulli(sg_scope scope, sg_value p);            /* 0/1 reals: uniform < p, one draw an element */
sg_value sg_dropout(sg_scope scope, sg_value x, double rate); /* x * mask / (1 - rate); rate 0 returns x */
/* A draw in two steps, for operators that draw inside: its address at this step and iteration (I32 [4]), and its uniforms,
 * which are the same however often they are evaluated. */
sg_value sg_draw_key(sg_scope scope);
sg_value sg_keyed_uniform(sg_value key, sg_value model);

/* ---- optimiser steps: pure functions of values; the caller assigns the results (sg_adam_step in models/ does) */
typedef struct sg_adam_state {
    sg_value p, m, v;
} sg_adam_state;
/* AdamW (Loshchilov and Hutter 2019, algorithm 2): p <- p (1 - lr wd), then the Adam step with bias correction.
 * lr and t are rank-0 reals (t counts from 1). decoupled = false: Adam with L2 added to g. */
sg_adam_state sg_adam(sg_adam_state now, sg_value g, sg_value lr, sg_value t, double beta1, double beta2, double eps,
                      double weight_decay, bool decoupled);
/* AMSGrad (Reddi et al. 2018): the same step with the largest second moment so far, v_max, in the place of v. */
typedef struct sg_amsgrad_state {
    sg_value p, m, v, v_max;
} sg_amsgrad_state;
sg_amsgrad_state sg_amsgrad(sg_amsgrad_state now, sg_value g, sg_value lr, sg_value t, double beta1, double beta2,
                            double eps, double weight_decay, bool decoupled);
/* SGD with momentum u (starts at 0): g <- g + weight_decay p; u <- momentum u + g; p <- p - lr u, or with Nesterov
 * p - lr (g + momentum u). */
typedef struct sg_sgd_state {
    sg_value p, u;
} sg_sgd_state;
sg_sgd_state sg_sgd(sg_sgd_state now, sg_value g, sg_value lr, double momentum, double weight_decay, bool nesterov);
/* Factor min(1, limit / (norm + 1e-6)) of the global 2-norm over all g; `norm` (may be NULL) receives the norm. */
sg_value sg_clip_factor(const sg_value *g, int32_t n, double limit, sg_value *norm);

/* ---- loops: state <- body(state) n times. The body may use values of the enclosing graph and assign store entries. */
typedef void (*sg_body_fn)(void *user, sg_graph *body, const sg_value *state, sg_value *next);
/* `out` receives the final states (may be `state`). Entries that the body assigns are rebound in `graph`.
 * A derivative through the loop is refused (SG_E_UNSUPPORTED). unroll: build n copies in `graph` instead, through which derivatives pass. */
void sg_repeat(sg_graph *graph, int64_t n, sg_body_fn body, void *user, const sg_value *state, int32_t n_state,
               sg_value *out, bool unroll);

/* ---- checkpoints: what is built between begin and end is a segment whose interior the backward pass computes again (draws
 *      included) instead of keeping it: memory for time. y[n_y] are the segment's results and are replaced by the marked
 *      ones; use these from then on. Values from outside that the segment reads are kept. Segments may be nested. No
 *      effect on values; one more forward pass of the segment in each reverse sweep.
 *
 *          int32_t begin = sg_checkpoint_begin(graph);
 *          sg_value y = layer(scope, x);
 *          sg_checkpoint_end(graph, begin, &y, 1);                                                                       */
int32_t sg_checkpoint_begin(sg_graph *graph);
void sg_checkpoint_end(sg_graph *graph, int32_t begin, sg_value *y, int32_t n_y);

#ifdef __cplusplus
}
#endif

#ifndef SG_NO_LOCATION
#include "ops/location.h"
#endif
#endif
