/* peak_loop.h - the loop of peak_internal.h. Included once by each of peak_*.c, which define NAME, VECTOR, WIDTH, SET(x),
 * MULTIPLY_ADD(a, b, c) and STORE(p, v). */
#include "runtime/cpu/peak_internal.h"

/* Chains enough to hide the latency of a multiply-add on two ports, few enough for 16 registers with the two factors. */
#define CHAINS 12

double NAME(int64_t rounds, float *sink)
{
    VECTOR acc[CHAINS], factor = SET(0.999f), term = SET(0.001f);
    for (int i = 0; i < CHAINS; i++)
        acc[i] = SET((float)i);
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++)
            acc[i] = MULTIPLY_ADD(acc[i], factor, term);
    float lane[WIDTH];
    for (int i = 0; i < CHAINS; i++) {
        STORE(lane, acc[i]);
        *sink += lane[0];
    }
    return 2.0 * CHAINS * WIDTH * (double)rounds;
}
