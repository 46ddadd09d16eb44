/* lstm_gates.c - gates of one row in the reverse recurrence of an LSTM; see lstm.c. */
#include "runtime/cpu/lstm_gates_internal.h"

void sg_lstm_reverse_row(int64_t n, const sg_lstm_row *r)
{
    for (int64_t k = 0; k < n; k++) {
        float i = r->gate[k], f = r->gate[n + k], g = r->gate[2 * n + k], o = r->gate[3 * n + k], y = r->y[k];
        float dc = r->dc[k] + r->dh[k] * (o * (1 - y * y));
        r->dz[k] = dc * g * (i * (1 - i));
        r->dz[n + k] = dc * r->last[k] * (f * (1 - f));
        r->dz[2 * n + k] = dc * i * (1 - g * g);
        r->dz[3 * n + k] = r->dh[k] * y * (o * (1 - o));
        r->dc[k] = dc * f;
    }
}

void sg_lstm_reverse_tangent_row(int64_t n, const sg_lstm_row *r)
{
    for (int64_t k = 0; k < n; k++) {
        float i = r->gate[k], f = r->gate[n + k], g = r->gate[2 * n + k], o = r->gate[3 * n + k], y = r->y[k];
        float ti = r->tgate[k], tf = r->tgate[n + k], tg = r->tgate[2 * n + k], to = r->tgate[3 * n + k];
        float dh = r->dh[k], tdh = r->tdh[k], slope = 1 - y * y, ty = slope * r->tcell[k];
        float dc = r->dc[k] + dh * (o * slope);
        float tdc = r->tdc[k] + tdh * (o * slope) + dh * (to * slope - 2 * o * y * ty);
        float di = dc * g, df = dc * r->last[k], dg = dc * i, d_o = dh * y;
        float tdi = tdc * g + dc * tg, tdf = tdc * r->last[k] + dc * (r->tlast ? r->tlast[k] : 0);
        float tdg = tdc * i + dc * ti, tdo = tdh * y + dh * ty;
        r->dz[k] = di * (i * (1 - i));
        r->dz[n + k] = df * (f * (1 - f));
        r->dz[2 * n + k] = dg * (1 - g * g);
        r->dz[3 * n + k] = d_o * (o * (1 - o));
        r->tdz[k] = tdi * (i * (1 - i)) + di * (1 - 2 * i) * ti;
        r->tdz[n + k] = tdf * (f * (1 - f)) + df * (1 - 2 * f) * tf;
        r->tdz[2 * n + k] = tdg * (1 - g * g) - dg * (2 * g * tg);
        r->tdz[3 * n + k] = tdo * (o * (1 - o)) + d_o * (1 - 2 * o) * to;
        r->dc[k] = dc * f;
        r->tdc[k] = tdc * f + dc * tf;
    }
}
