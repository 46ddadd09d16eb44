/* crf_internal.h - inputs and outputs of the linear-chain CRF operators, for their kernels. */
#ifndef SG_CRF_INTERNAL_H
#define SG_CRF_INTERNAL_H

/* Inputs of crf_log_partition and crf_viterbi: emissions [B, T, K], transitions [K, K] (from, to), start [K], end [K],
 * lengths [B] (may be absent). */
enum { SG_CRF_EMISSIONS, SG_CRF_TRANSITIONS, SG_CRF_START, SG_CRF_END, SG_CRF_LENGTHS };
/* Outputs of crf_log_partition: log Z [B]; and, for the derivatives, alpha [B, T, K]. */
enum { SG_CRF_LOG_Z, SG_CRF_ALPHA };

#endif
