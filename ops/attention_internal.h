/* attention_internal.h - the operator's attributes and inputs, for its kernels. */
#ifndef SG_ATTENTION_INTERNAL_H
#define SG_ATTENTION_INTERNAL_H

#include "ops/ops_internal.h"

enum {
    SG_ATTENTION_SCALE,
    SG_ATTENTION_CAUSAL,
    SG_ATTENTION_HEADS_INNER, /* tensors are [B, T, H, d] instead of [B, H, T, d] */
    SG_ATTENTION_DROPOUT,
    SG_ATTENTION_ATTRS
};
enum { SG_ATTENTION_Q, SG_ATTENTION_K, SG_ATTENTION_V, SG_ATTENTION_N_REQUIRED };
enum { SG_ATTENTION_OUT, SG_ATTENTION_LSE };

/* Inputs behind q, k, v are told by their dtypes, in this order: BOOL mask, real bias, I32 key of the dropout draw. Each
 * is an input's place or -1. */
typedef struct sg_attention_extras {
    int32_t mask, bias, key;
    int32_t count; /* inputs that were understood, q, k and v included */
} sg_attention_extras;
sg_attention_extras sg_attention_find(int32_t n_in, const sg_dtype *in_dtype);

#endif
