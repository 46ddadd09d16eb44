/* rules.cuh - what a reduction does with its elements. A rule has an accumulator that starts as none(), takes in element i of
 * value x as of(x, i), and is joined with another's; join is symmetric to the bit. result() ends it. */
#ifndef SG_CUDA_RULES_CUH
#define SG_CUDA_RULES_CUH

#include <math.h>
#include <stdint.h>

#include "runtime/cuda/device.cuh"

struct sum_rule {
    typedef float acc;
    typedef float out;
    __device__ static acc none() { return 0; }
    __device__ static acc of(float x, int64_t) { return x; }
    __device__ static acc join(acc a, acc b) { return a + b; }
    __device__ static out result(acc a) { return a; }
};

/* In double, as the other backends have it. */
struct prod_rule {
    typedef double acc;
    typedef float out;
    __device__ static acc none() { return 1; }
    __device__ static acc of(float x, int64_t) { return x; }
    __device__ static acc join(acc a, acc b) { return a * b; }
    __device__ static out result(acc a) { return (float)a; }
};

/* NaN stays once it is there. */
struct max_rule {
    typedef float acc;
    typedef float out;
    __device__ static acc none() { return -INFINITY; }
    __device__ static acc of(float x, int64_t) { return x; }
    __device__ static acc join(acc a, acc b) { return b > a || isnan(b) ? b : a; }
    __device__ static out result(acc a) { return a; }
};

struct min_rule {
    typedef float acc;
    typedef float out;
    __device__ static acc none() { return INFINITY; }
    __device__ static acc of(float x, int64_t) { return x; }
    __device__ static acc join(acc a, acc b) { return b < a || isnan(b) ? b : a; }
    __device__ static out result(acc a) { return a; }
};

/* An element and its place; place -1: none yet. */
struct placed {
    float x;
    int32_t at;
};

/* Does a go before b: the larger first, NaN before all, of equals the lower place? */
__device__ static inline bool goes_before(placed a, placed b)
{
    if (a.at < 0 || b.at < 0)
        return a.at >= 0;
    if (isnan(a.x) || isnan(b.x))
        return isnan(a.x) && (!isnan(b.x) || a.at < b.at);
    return a.x > b.x || (a.x == b.x && a.at < b.at);
}

struct argmax_rule {
    typedef placed acc;
    typedef int32_t out;
    __device__ static acc none() { return {0, -1}; }
    __device__ static acc of(float x, int64_t i) { return {x, (int32_t)i}; }
    __device__ static acc join(acc a, acc b) { return goes_before(b, a) ? b : a; }
    __device__ static out result(acc a) { return a.at; }
};

/* The smallest is the largest of the negatives. */
struct argmin_rule : argmax_rule {
    __device__ static acc of(float x, int64_t i) { return {-x, (int32_t)i}; }
};

/* exp(x - top) summed, with the largest element so far as `top`: the sum never overflows, and moves to a new top by one
 * factor. */
struct exponentials {
    float top, sum;
};

struct logsumexp_rule {
    typedef exponentials acc;
    typedef float out;
    __device__ static acc none() { return {-INFINITY, 0}; }
    __device__ static acc of(float x, int64_t) { return {x, x == -INFINITY ? 0.0f : 1.0f}; }
    __device__ static acc join(acc a, acc b)
    {
        if (isnan(a.top) || isnan(b.top))
            return {NAN, 0};
        acc high = b.top > a.top ? b : a, low = b.top > a.top ? a : b;
        /* With both at one infinity there is nothing to scale, and the sum is not looked at (result). */
        if (low.top != high.top)
            high.sum += low.sum * expf(low.top - high.top);
        else
            high.sum += low.sum;
        return high;
    }
    __device__ static out result(acc a) { return isfinite(a.top) ? a.top + logf(a.sum) : a.top; }
};

#endif
