/* lstm_internal.h - inputs and outputs of the recurrence of an LSTM, for its kernels. */
#ifndef SG_LSTM_INTERNAL_H
#define SG_LSTM_INTERNAL_H

/* Inputs: z [B, T, 4H], the part of the gates' arguments that is known beforehand; w [4H, H]; the first state h, c [B, H];
 * lengths [B] (may be absent). Outputs: out [B, T, H]; the last state [B, H] each; and, for the derivatives, the gates
 * [B, T, 4H] and the cells [B, T, H]. The one attribute is `reverse`. */
enum { SG_LSTM_Z, SG_LSTM_W, SG_LSTM_H0, SG_LSTM_C0, SG_LSTM_LENGTHS };
enum { SG_LSTM_OUT, SG_LSTM_H, SG_LSTM_C, SG_LSTM_GATES, SG_LSTM_CELLS };

#endif
