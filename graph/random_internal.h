/* random_internal.h - the one source of random numbers: Philox4x32-10 (Salmon et al. 2011), addressed by what is drawn, not by
 * who draws it. A draw is (seed, stream, step, loop iteration, element); four neighbouring elements share one block. Only
 * integer operations and exactly rounded +, *, / and sqrt are used, and the build forbids contraction, so that every
 * backend, vector width and thread count gets the same bits. The text is C and C++: kernels for GPUs are compiled from it. */
#ifndef SG_RANDOM_INTERNAL_H
#define SG_RANDOM_INTERNAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Key and the upper half of the counter of a draw: the block of elements 4 n .. 4 n + 3 is
 * philox(counter = {low(n), high(n), counter2, counter3}, key). */
typedef struct sg_draw {
    uint32_t key[2];
    uint32_t counter2, counter3;
} sg_draw;

/* Finaliser of SplitMix64 (Steele et al. 2014): a bijection that spreads every input bit over the word. */
static inline uint64_t sg_mix64(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* rng = {seed low, seed high, step low, step high}, the content of the store's entry "rng". */
static inline sg_draw sg_draw_make(uint64_t stream, const int32_t rng[4], uint64_t repeat)
{
    uint64_t seed = (uint32_t)rng[0] | (uint64_t)(uint32_t)rng[1] << 32;
    uint64_t high = (uint32_t)rng[3] | (repeat >> 32) << 32; /* what does not fit the counter moves the key */
    uint64_t key = sg_mix64(sg_mix64(sg_mix64(seed + 0x9e3779b97f4a7c15u) ^ stream) + high);
    sg_draw draw = {{(uint32_t)key, (uint32_t)(key >> 32)}, (uint32_t)rng[2], (uint32_t)repeat};
    return draw;
}

/* The same from the four words of a key (sg_draw_key in ops/): key[0], key[1], counter2, counter3. */
static inline sg_draw sg_draw_of_key(const int32_t word[4])
{
    sg_draw draw = {{(uint32_t)word[0], (uint32_t)word[1]}, (uint32_t)word[2], (uint32_t)word[3]};
    return draw;
}

static inline void sg_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static inline uint32_t sg_random_bits(sg_draw draw, uint64_t element)
{
    uint64_t block = element / 4;
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), draw.counter2, draw.counter3}, out[4];
    sg_philox(counter, draw.key, out);
    return out[element % 4];
}

/* Uniform on [0, 1): the 24 upper bits, exact in float. */
static inline float sg_uniform_from_bits(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; }

/* Natural logarithm of a positive normal double from exactly rounded operations: x = 2^e m with m in [sqrt(1/2), sqrt(2)),
 * log m = 2 artanh(s) with s = (m - 1)/(m + 1), |s| < 0.1716, whose series is cut where terms fall below 1e-17. */
static inline double sg_exact_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    double s = (m - 1.0) / (m + 1.0), q = s * s, sum = 0.0;
    for (int k = 19; k >= 1; k -= 2)
        sum = sum * q + 1.0 / k;
    return 2.0 * s * sum + exponent * 0.6931471805599453;
}

/* Standard normal by inversion: quantile of (bits + 1/2) 2^-32, rational approximations PPND7 of Wichura (1988, AS 241),
 * relative error 1e-7, one bit of uniform giving one normal, so that no pairing of elements is needed. */
static inline float sg_normal_from_bits(uint32_t bits)
{
    double p = ((double)bits + 0.5) * 0x1p-32, q = p - 0.5;
    if (q >= -0.425 && q <= 0.425) {
        double r = 0.180625 - q * q;
        double num = ((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179;
        double den = ((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1.0;
        return (float)(q * num / den);
    }
    double r = sqrt(-sg_exact_log(q < 0 ? p : 1.0 - p)), value;
    if (r <= 5.0) {
        r -= 1.6;
        value = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
                ((0.12021132975 * r + 0.73700164250) * r + 1.0);
    } else {
        r -= 5.0;
        value = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
                ((0.012258202635 * r + 0.24197894225) * r + 1.0);
    }
    return (float)(q < 0 ? -value : value);
}

static inline float sg_random_uniform(uint64_t stream, const int32_t rng[4], uint64_t repeat, uint64_t element)
{
    return sg_uniform_from_bits(sg_random_bits(sg_draw_make(stream, rng, repeat), element));
}

static inline float sg_random_normal(uint64_t stream, const int32_t rng[4], uint64_t repeat, uint64_t element)
{
    return sg_normal_from_bits(sg_random_bits(sg_draw_make(stream, rng, repeat), element));
}

/* 64-bit FNV-1a of a text, for stream names and hash tables. */
static inline uint64_t sg_hash_text(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    return h;
}

#endif
