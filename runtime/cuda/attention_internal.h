/* attention_internal.h - fused attention and its derivatives, between attention.c and attention_*.cu.
 *
 * With S = scale Q K' + bias (-inf where not attended), P = softmax(S), M the dropout and o = (P o M) V:
 *
 *     dP = g V'     dS = P o (M o dP - d), d_i = g_i . o_i - l_i
 *     dq = scale dS K     dk = scale dS' Q     dv = (P o M)' g
 *
 * for cotangents g of o and l of lse. Forward, with t. the tangent of . and c_i = sum_j P tS:
 *
 *     tS = scale (tq K' + Q tk') + tbias     tP = P o (tS - c)     tlse = c     to = (tP o M) V + (P o M) tv
 *
 * and of the reverse derivative, with tdP = tg V' + g tv' and td_i = sum_j (tP M dP + P M tdP) - tl_i:
 *
 *     tdS = tP o (M o dP - d) + P o (M o tdP - td)
 *     tdq = scale (tdS K + dS tk)     tdk = scale (tdS' Q + dS' tq)     tdv = (tP o M)' g + (P o M)' tg
 *
 * No kernel keeps more of a matrix of scores than the tile that a warp holds in registers. What is summed over keys is done by
 * blocks that own queries and sweep the keys, what is summed over queries by blocks that own keys; scores are found again
 * in each. Nothing is added by atomics. */
#ifndef SG_CUDA_ATTENTION_INTERNAL_H
#define SG_CUDA_ATTENTION_INTERNAL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* Elements between neighbours along an axis of q, k, v or what is shaped like them. */
typedef struct sg_cuda_attention_layout {
    int64_t batch, head, row;
} sg_cuda_attention_layout;

/* The same for what is broadcast to the scores [batch, heads, queries, keys]. */
typedef struct sg_cuda_attention_spread {
    int64_t batch, head;
    int32_t query, key;
} sg_cuda_attention_spread;

typedef struct sg_cuda_attention {
    int32_t batch, heads, queries, keys, depth, width; /* q is [.., queries, depth], v [.., keys, width] */
    bool bf16;                                         /* else f32; statistics of rows are f32 in both */
    bool causal, dropout;
    sg_cuda_attention_layout q, k, v, out, dq, dk, dv;
    sg_cuda_attention_spread mask, bias;
    float scale, kept;  /* kept = 1 / (1 - rate) */
    uint32_t threshold; /* an element is dropped whose upper 24 bits are below it */
    int32_t capability; /* of the device */
} sg_cuda_attention;

/* Numbers kept for each query between kernels, one plane each of batch * heads * `padded` floats: P = over 2^(s - shift) with s
 * in powers of two, and d, c, td as above. Padding has shift = inf and zeros; so have queries that attend to nothing, which have no
 * gradient whatever the cotangent of their logsumexp is, -inf: 0 (dP - d) is to be 0. */
enum { SG_ATTENTION_SHIFT, SG_ATTENTION_OVER, SG_ATTENTION_D, SG_ATTENTION_C, SG_ATTENTION_TD, SG_ATTENTION_PLANES };

/* Operands on the device; NULL where there is none, or its tangent or cotangent is zero. */
typedef struct sg_cuda_attention_operands {
    const void *q, *k, *v, *g, *tq, *tk, *tv, *tg;
    const uint8_t *mask;
    const void *bias, *tbias;
    const int32_t *key; /* of the dropout draw */
    const void *o;
    const float *lse, *g_lse, *tg_lse;
    void *out, *dq, *dk,
        *dv; /* results: `out` is o or its tangent; in a vjp_jvp dq, dk, dv are the tangents of these */
    float *out_lse;
    float *rows;   /* the planes */
    float *sum[3]; /* dq, dk, dv added up over batch and rows, [heads, depth or width] */
    float *parts;  /* of these sums, sg_cuda_attention_parts_bytes */
} sg_cuda_attention_operands;

#ifdef __cplusplus
extern "C" {
#endif

/* Depths and widths up to this have kernels. */
enum { SG_ATTENTION_MOST_DEPTH = 128 };

size_t sg_cuda_attention_rows_bytes(const sg_cuda_attention *a);
size_t sg_cuda_attention_parts_bytes(const sg_cuda_attention *a);
void sg_cuda_attention_forward(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream);
void sg_cuda_attention_jvp(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream);
/* After the next two: the sums that are asked for. */
void sg_cuda_attention_sums(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream);
void sg_cuda_attention_vjp(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream);
/* The two sweeps of a vjp by Hopper's tensor cores (attention_hopper.cu): can they be, and how many parts of the sums over dq
 * (which = 0), dk (1) and dv (2) they leave. */
bool sg_cuda_attention_hopper(const sg_cuda_attention *a);
void sg_cuda_attention_hopper_queries(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, bool second,
                                      cudaStream_t stream);
void sg_cuda_attention_hopper_keys(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, bool second,
                                   cudaStream_t stream);
int64_t sg_cuda_attention_hopper_parts(const sg_cuda_attention *a, int which);
void sg_cuda_attention_vjp_jvp(const sg_cuda_attention *a, const sg_cuda_attention_operands *x, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
