// chain_functions.cuh - the steps of generated kernels, compiled with NVRTC together with each chain. Registers hold float (bool
// as 0 or 1) or int; a step is the function of its operator's name, chosen by the types of the operands. What operators answer at
// ends and singular points: docs/conventions.md.

#define UNARY(name, expression)                                                                                        \
    __device__ float sg_##name(float x) { return expression; }
#define BINARY(name, expression)                                                                                       \
    __device__ float sg_##name(float x, float y) { return expression; }
#define UNARY_INT(name, expression)                                                                                    \
    __device__ int sg_##name(int x) { return expression; }
#define BINARY_INT(name, expression)                                                                                   \
    __device__ int sg_##name(int x, int y) { return expression; }
#define COMPARISON(name, operation)                                                                                    \
    __device__ float sg_##name(float x, float y) { return x operation y; }                                             \
    __device__ float sg_##name(int x, int y) { return x operation y; }

// Every thread begins with it: what a launch before this one has written is there then (record.c).
__device__ void sg_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Memory and registers: bool is a byte, bf16 the upper half of a float, rounded to nearest even.
struct sg_bf16 {
    unsigned short bits;
};
__device__ float sg_read(float x) { return x; }
__device__ int sg_read(int x) { return x; }
__device__ float sg_read(unsigned char x) { return x != 0; }
__device__ float sg_read(sg_bf16 x) { return __int_as_float((int)x.bits << 16); }
__device__ void sg_write(float *to, float x) { *to = x; }
__device__ void sg_write(int *to, int x) { *to = x; }
__device__ void sg_write(unsigned char *to, float x) { *to = x != 0; }
__device__ void sg_write(sg_bf16 *to, float x) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to->bits) : "f"(x)); }

// The same place in another replica, so many bytes further.
template <class T> __device__ T *sg_further(T *p, unsigned long long bytes) { return (T *)((char *)p + bytes); }
template <class T> __device__ const T *sg_further(const T *p, unsigned long long bytes)
{
    return (const T *)((const char *)p + bytes);
}

// V neighbouring elements, moved in words of up to 16 bytes: plans place tensors at more than that, and packs begin at
// multiples of V.
template <int V> struct sg_width {
    static constexpr int value = V;
};
template <class T, int V> struct alignas((V & (V - 1)) != 0 ? sizeof(T) : sizeof(T) * V < 16 ? sizeof(T) * V : 16) sg_pack {
    T x[V];
};
template <int V, class T> __device__ sg_pack<T, V> sg_load(const T *from) { return *(const sg_pack<T, V> *)from; }
template <class T, int V> __device__ void sg_store(T *to, const sg_pack<T, V> &pack) { *(sg_pack<T, V> *)to = pack; }
// To a place that begins no pack. Where the packs of a warp are neighbours there, in their `together`, neighbouring threads
// store neighbouring elements all the same.
template <class T, int V> __device__ void sg_store_apart(T *to, const sg_pack<T, V> &pack, bool together)
{
    if (V == 1 || !together) {
#pragma unroll
        for (int k = 0; k < V; k++)
            to[k] = pack.x[k];
        return;
    }
    __shared__ sg_pack<T, V> room[V == 1 ? 1 : 256];
    const int lane = threadIdx.x % 32;
    const T *packs = room[threadIdx.x - lane].x;
    __syncwarp();
    room[threadIdx.x] = pack;
    __syncwarp();
#pragma unroll
    for (int k = 0; k < V; k++)
        to[(k * 32 + lane) - lane * V] = packs[k * 32 + lane];
}
// Are the V elements from `first` on and those of the other threads of the warp in one run, of `count` elements?
template <int V, class I> __device__ bool sg_together(I first, I run, I count)
{
    const I begin = first - threadIdx.x % 32 * V, end = begin + 32 * V;
    return end <= count / V * V && begin / run == (end - 1) / run;
}

// The bits of V neighbouring elements of a draw; four share a block.
template <int V> __device__ sg_pack<unsigned, V> sg_draw_bits(const sg_draw &draw, unsigned long long first)
{
    sg_pack<unsigned, V> bits;
    if constexpr (V % 4 == 0) {
#pragma unroll
        for (int b = 0; b < V / 4; b++) {
            const unsigned long long block = first / 4 + b;
            const unsigned counter[4] = {(unsigned)block, (unsigned)(block >> 32), draw.counter2, draw.counter3};
            sg_philox(counter, draw.key, &bits.x[4 * b]);
        }
    } else {
#pragma unroll
        for (int k = 0; k < V; k++)
            bits.x[k] = sg_random_bits(draw, first + k);
    }
    return bits;
}

UNARY(neg, -x)
UNARY(abs, fabsf(x))
UNARY(sign, x != x ? x : (float)((x > 0) - (x < 0)))
UNARY(floor, floorf(x))
UNARY(exp, expf(x))
UNARY(expm1, expm1f(x))
UNARY(log, logf(x))
UNARY(log1p, log1pf(x))
UNARY(sqrt, sqrtf(x))
UNARY(rsqrt, 1.0f / sqrtf(x))
UNARY(square, x * x)
UNARY(reciprocal, 1.0f / x)
UNARY(sin, sinf(x))
UNARY(cos, cosf(x))
UNARY(tanh, tanhf(x))
UNARY(erf, erff(x))
UNARY(erfc, erfcf(x))
UNARY(relu, x > 0 ? x : x != x ? x : 0.0f)
UNARY(is_finite, fabsf(x) < __int_as_float(0x7f800000))
UNARY(logical_not, x == 0)
BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x * y)
BINARY(div, x / y)
BINARY(pow, powf(x, y))
BINARY(maximum, x != x ? x : y != y ? y : x > y ? x : y)
BINARY(minimum, x != x ? x : y != y ? y : x < y ? x : y)
BINARY(xlogy, x == 0 && y == y ? 0.0f : x * logf(y))
BINARY(logical_and, x != 0 && y != 0)
BINARY(logical_or, x != 0 || y != 0)
COMPARISON(equal, ==)
COMPARISON(not_equal, !=)
COMPARISON(less, <)
COMPARISON(less_equal, <=)
COMPARISON(greater, >)
COMPARISON(greater_equal, >=)

// Integer arithmetic wraps.
UNARY_INT(neg, (int)(0u - (unsigned)x))
UNARY_INT(abs, x < 0 ? (int)(0u - (unsigned)x) : x)
UNARY_INT(sign, (x > 0) - (x < 0))
UNARY_INT(square, (int)((unsigned)x *(unsigned)x))
UNARY_INT(relu, x > 0 ? x : 0)
BINARY_INT(add, (int)((unsigned)x + (unsigned)y))
BINARY_INT(sub, (int)((unsigned)x - (unsigned)y))
BINARY_INT(mul, (int)((unsigned)x *(unsigned)y))
BINARY_INT(maximum, x > y ? x : y)
BINARY_INT(minimum, x < y ? x : y)

__device__ float sg_where(float c, float x, float y) { return c != 0 ? x : y; }
__device__ int sg_where(float c, int x, int y) { return c != 0 ? x : y; }

__device__ float sg_reciprocal_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// log(1 + t) / t for t in [0, 1] to 1.4e-7 of itself: 1 + t q(t), with the polynomial q of the least largest error.
__device__ float sg_log1p_slope(float t)
{
    float q = 0.00536482455f;
    q = fmaf(q, t, -0.0300657917f);
    q = fmaf(q, t, 0.0792045295f);
    q = fmaf(q, t, -0.137538016f);
    q = fmaf(q, t, 0.191536546f);
    q = fmaf(q, t, -0.248571634f);
    q = fmaf(q, t, 0.33321324f);
    q = fmaf(q, t, -0.499996483f);
    return fmaf(q, t, 1.0f);
}

// 1 / (1 + e^-x) for x >= 0 and e^x / (1 + e^x) below: no overflow, and both tails keep their relative precision. 1 + t is in
// [1, 2], where the fast reciprocal is exact to a unit in the last place.
__device__ float sg_sigmoid(float x)
{
    float t = expf(-fabsf(x));
    return (x < 0 ? t : 1.0f) * sg_reciprocal_fast(1.0f + t);
}
// max(x, 0) + log(1 + e^-|x|); NaN is in t.
__device__ float sg_softplus(float x)
{
    float t = expf(-fabsf(x));
    return fmaf(t, sg_log1p_slope(t), fmaxf(x, 0.0f));
}
UNARY(log_sigmoid, -sg_softplus(-x))

// Beyond 15 the tail of the normal distribution is 0 in float; the bound keeps infinities from meeting it. NaN stays.
__device__ float sg_within_15(float x) { return fabsf(x) > 15.0f ? 15.0f : fabsf(x); }
__device__ float sg_normal_tail(float a) { return 0.5f * erfcf(a * 0.70710678f); }
// x P(Z <= x) = max(x, 0) - |x| P(Z > |x|)
__device__ float sg_gelu(float x)
{
    float a = sg_within_15(x);
    return (x > 0 ? x : 0.0f) - a * sg_normal_tail(a);
}
// P(Z <= x) + x density(x), from the tail at |x| on both sides
__device__ float sg_gelu_derivative(float x)
{
    float a = sg_within_15(x), d = sg_normal_tail(a) - a * 0.39894228f * expf(-0.5f * a * a);
    return x < 0 ? d : 1.0f - d;
}

// The same to 5e-4 of the result or 1e-7, for results that are rounded to bf16, in a third of the instructions. The tail by
// Abramowitz and Stegun 7.1.26, P(Z > a) = t (a1 + a2 t + .. + a5 t^4) e^(-a^2 / 2) / 2 with t = 1 / (1 + p a / sqrt(2));
// e^(-a^2 / 2) is left in `e`.
__device__ float sg_exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ float sg_tail_fast(float a, float *e)
{
    float t = sg_reciprocal_fast(fmaf(0.23164189f, a, 1.0f)), p = 0.53070271f;
    *e = sg_exp2_fast(a * a * -0.72134752f);
    p = fmaf(p, t, -0.72657602f);
    p = fmaf(p, t, 0.71070687f);
    p = fmaf(p, t, -0.14224837f);
    p = fmaf(p, t, 0.12741480f);
    return p * t * *e;
}
__device__ float sg_low_gelu(float x)
{
    float e, a = sg_within_15(x);
    return fmaf(-a, sg_tail_fast(a, &e), x > 0 ? x : 0.0f);
}
__device__ float sg_low_gelu_derivative(float x)
{
    float e, a = sg_within_15(x), tail = sg_tail_fast(a, &e), d = fmaf(a * -0.39894228f, e, tail);
    return x < 0 ? d : 1.0f - d;
}
__device__ float sg_low_sigmoid(float x)
{
    float t = sg_exp2_fast(fabsf(x) * -1.44269504f);
    return (x < 0 ? t : 1.0f) * sg_reciprocal_fast(1.0f + t);
}
__device__ float sg_low_tanh(float x)
{
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ float sg_leaky_relu(float x, float slope) { return x > 0 ? x : x * slope; }
__device__ float sg_elu(float x, float alpha) { return x > 0 ? x : alpha * expm1f(x); }
__device__ float sg_clip(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

// Conversions. What does not fit an integer, NaN included, becomes the nearest, or 0.
__device__ int sg_to_int(int x) { return x; }
__device__ int sg_to_int(float x)
{
    return x >= 2147483648.0f ? 2147483647 : x < -2147483648.0f ? -2147483647 - 1 : x != x ? 0 : (int)x;
}
__device__ float sg_to_float(int x) { return (float)x; }
__device__ float sg_to_float(float x) { return x; }
__device__ float sg_to_bool(int x) { return x != 0; }
__device__ float sg_to_bool(float x) { return x != 0; }

// The sum over a warp, or over all threads of the block, in every thread; always added in the same order.
template <int LANES> __device__ float sg_join_lanes(float x)
{
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, mask);
    if constexpr (LANES > 32) {
        __shared__ float room[LANES / 32];
        __syncthreads(); // until the sum before has been read
        if (threadIdx.x % 32 == 0)
            room[threadIdx.x / 32] = x;
        __syncthreads();
        x = room[0];
#pragma unroll
        for (int w = 1; w < LANES / 32; w++)
            x += room[w];
    }
    return x;
}

// The sum over the threads of one place in all warps, in those of every warp.
template <int GROUPS> __device__ float sg_join_groups(float x)
{
    __shared__ float room[GROUPS][32];
    __syncthreads(); // until the sum before has been read
    room[threadIdx.x / 32][threadIdx.x % 32] = x;
    __syncthreads();
    x = room[0][threadIdx.x % 32];
#pragma unroll
    for (int w = 1; w < GROUPS; w++)
        x += room[w][threadIdx.x % 32];
    return x;
}

// The same of the sums that a thread has for each of them.
template <int GROUPS> __device__ float sg_join_own(float (&sum)[GROUPS])
{
    float x = sum[0];
#pragma unroll
    for (int w = 1; w < GROUPS; w++)
        x += sum[w];
#pragma unroll
    for (int w = 0; w < GROUPS; w++)
        sum[w] = 0;
    return x;
}
