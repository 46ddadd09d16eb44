/* lstm_gates_internal.h - one row and step of the reverse recurrence of an LSTM; the mathematics stands in lstm.c. */
#ifndef SG_LSTM_GATES_INTERNAL_H
#define SG_LSTM_GATES_INTERNAL_H

#include <stdint.h>

/* Operands of one row and step: dh, dc and dz of the tile, the gates, c' and y = tanh c. */
typedef struct sg_lstm_row {
    float *dh, *dc, *dz;
    const float *gate, *last, *y;
    float *tdh, *tdc, *tdz;
    const float *tgate, *tlast, *tcell; /* tlast may be NULL: zeros */
} sg_lstm_row;

/* dz from dh and dc, which becomes that of the cell before; n hidden units. */
void sg_lstm_reverse_row(int64_t n, const sg_lstm_row *r);
/* The same with the tangents of all of them. */
void sg_lstm_reverse_tangent_row(int64_t n, const sg_lstm_row *r);

#endif
