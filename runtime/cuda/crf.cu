/* crf.cu - linear-chain CRF: the forward recursion, the marginals (its reverse derivative), and the forward derivatives of both. A
 * block for each row of the batch, a thread for each tag; a step is two barriers and a product with the transitions.
 *
 * With p_t(i|j) = exp(alpha_{t-1}[i] + trans[i, j] - logsumexp_i(..)), the probability of tag i before tag j at step t, and
 * q = softmax(alpha_{n-1} + end), the reverse recursion from the cotangent g of log Z is
 *
 *     a_{n-1} = g q,     a_{t-1}[i] = sum_j a_t[j] p_t(i|j),     de_t = a_t,     dtrans[i, j] = sum_t a_t[j] p_t(i|j).
 *
 * A tangent moves forward by  talpha_t[j] = te_t[j] + sum_i p_t(i|j) u_ij,  u_ij = talpha_{t-1}[i] + ttrans[i, j], and the
 * probabilities by  tp = p (u - sum p u);  the product rule gives the tangent of the reverse recursion.
 *
 * The exponentials of the transitions are taken once, W[i, j] = exp(trans[i, j] - m_j) with m_j the largest of column j, and
 * those of alpha once a step: with x_i = exp(alpha_{t-1}[i] - max alpha) and s = x' W,
 *
 *     p_t(i|j) = x_i W[i, j] / s_j,
 *     sum_i p u = ((x tu)' W + x' V) / s + talpha_{t-1}[0]     with tu = talpha_{t-1} - talpha_{t-1}[0] and V = W ttrans,
 *     a_{t-1} = x (W c)                                        with c = a_t / s,
 *     its tangent = x tu (W c) + x (W d + V c)                 with d = ta_t / s - c mean and mean = sum p u - talpha_{t-1}[0],
 *     dtrans = W sum_t x c',    its tangent = W sum_t ((x tu) c' + x d') + V sum_t x c',    element by element.
 *
 * Where s_j is so small that terms may have been lost below 2^-126 (tags that are nearly impossible together), or
 * not finite, its sum is taken again from the logarithms. Sums have a fixed order: over tags, then steps, then rows of the batch. */
#include "runtime/cuda/crf_internal.h"
#include "runtime/cuda/device.cuh"
#include "runtime/cuda/warp.cuh"

enum { REVERSE_THREADS = 128 }; /* those without a tag share in the sums over steps */
static_assert((int)SG_CUDA_CRF_MOST_TAGS <= (int)REVERSE_THREADS, "a thread for each tag");

/* Sums above this have lost no term that counts: 2^-126 is 1e-18 of it. */
__device__ static inline bool is_safe(float s) { return s > 1e-20f && s < INFINITY; }

/* NaN stays once it is there. */
__device__ static inline float larger(float a, float b) { return b > a || isnan(b) ? b : a; }

/* Shared memory of a block. The rows of W and V are an odd number of words apart: a warp that reads along a row or along a
 * column meets each bank once. Rows and columns are padded to whole QUADs of tags, which loops take at a time: W, V and what is
 * multiplied by them with 0. */
enum { QUAD = 4, ROWS = 9 };
struct tables {
    float *w, *v; /* V only with tangents of transitions */
    int padded, ld;
    float *alpha, *talpha, *x, *y, *c, *d, *a, *ta, *safe; /* [padded] */
};

__host__ __device__ static int padded_of(const sg_cuda_crf &s) { return (s.tags + QUAD - 1) / QUAD * QUAD; }

__device__ static tables tables_of(const sg_cuda_crf &s)
{
    int padded = padded_of(s), ld = padded | 1;
    float *row = (float *)sg_shared_memory, *w = row + ROWS * padded, *at[ROWS];
    for (int i = 0; i < ROWS; i++)
        at[i] = row + i * padded;
    return {w,     s.ttransitions ? w + padded * ld : NULL, padded, ld, at[0], at[1], at[2], at[3], at[4], at[5], at[6],
            at[7], at[8]};
}

static size_t shared_bytes(const sg_cuda_crf *s)
{
    size_t padded = (size_t)padded_of(*s), matrices = s->ttransitions ? 2 : 1;
    return (matrices * padded * (padded | 1) + ROWS * padded) * sizeof(float);
}

/* W and V, a column for each thread, whose largest transition it returns. A column without a finite one is left at 0. */
__device__ static float take_exponentials(const sg_cuda_crf &s, const tables &m)
{
    int k = threadIdx.x, n = s.tags;
    float top = -INFINITY;
    for (int i = 0; i < n && k < n; i++)
        top = larger(top, s.transitions[i * n + k]);
    for (int i = k; i < ROWS * m.padded; i += blockDim.x)
        m.alpha[i] = 0;
    for (int i = 0; i < m.padded && k < m.padded; i++) {
        bool there = i < n && k < n && isfinite(top);
        float w = there ? expf(s.transitions[i * n + k] - top) : 0;
        m.w[i * m.ld + k] = w;
        if (m.v)
            m.v[i * m.ld + k] = there ? w * s.ttransitions[i * n + k] : 0;
    }
    __syncthreads();
    return top;
}

/* sum_i x[i] w[i stride], in four sums that are joined in the end. x is padded and aligned to QUADs. */
__device__ static float product(const tables &m, const float *x, const float *w, int stride)
{
    float sum[QUAD] = {0, 0, 0, 0};
#pragma unroll 4
    for (int i = 0; i < m.padded; i += QUAD) {
        float4 quad = *(const float4 *)(x + i);
        sum[0] += quad.x * w[i * stride];
        sum[1] += quad.y * w[(i + 1) * stride];
        sum[2] += quad.z * w[(i + 2) * stride];
        sum[3] += quad.w * w[(i + 3) * stride];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}
__device__ static float times_column(const tables &m, const float *x, const float *w)
{
    return product(m, x, w + threadIdx.x, m.ld);
}
__device__ static float times_row(const tables &m, const float *x, const float *w)
{
    return product(m, x, w + threadIdx.x * m.ld, 1);
}

/* Steps of row b. */
__device__ static int64_t length_of(const sg_cuda_crf &s, int64_t b)
{
    int64_t n = s.lengths ? s.lengths[b] : s.steps;
    if (n >= 0 && n <= s.steps)
        return n;
    if (threadIdx.x == 0)
        sg_cuda_raise_at(s.fault, s.site, SG_CUDA_INDEX_RANGE, b, (int)n, 0, s.steps + 1);
    return 0;
}

/* Of the first n of a row, the largest. */
__device__ static float largest(const float *x, int n)
{
    float top[QUAD] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    int i = 0;
#pragma unroll 4
    for (; i + QUAD <= n; i += QUAD) {
        float4 quad = *(const float4 *)(x + i);
        top[0] = larger(top[0], quad.x);
        top[1] = larger(top[1], quad.y);
        top[2] = larger(top[2], quad.z);
        top[3] = larger(top[3], quad.w);
    }
    for (; i < n; i++)
        top[0] = larger(top[0], x[i]);
    return larger(larger(top[0], top[1]), larger(top[2], top[3]));
}

/* The softmax of x[i] + y[i stride] along i: element i is exp(x[i] + y[i stride] - top) scale; zeros if all are -inf. If the
 * largest is inf, finite elements have no part in it, and it is NaN itself. */
struct normal {
    float top, scale;
    __device__ float of(float logarithm) const { return expf(logarithm - top) * scale; }
};

__device__ static normal normal_of(const float *x, const float *y, int stride, int n)
{
    float top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        top = larger(top, x[i] + y[i * stride]);
    if (!isfinite(top))
        return top == -INFINITY ? normal{0, 0} : normal{top, 1};
    for (int i = 0; i < n; i++)
        sum += expf(x[i] + y[i * stride] - top);
    return {top, 1 / sum};
}

/* logsumexp of x[i] + y[i stride]. */
__device__ static float logsumexp(const float *x, const float *y, int stride, int n)
{
    float top = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++)
        top = larger(top, x[i] + y[i * stride]);
    if (!isfinite(top))
        return top;
    for (int i = 0; i < n; i++)
        sum += expf(x[i] + y[i * stride] - top);
    return top + logf(sum);
}

/* Numbers in global memory, `left` more from `at` on: each read a step before it is needed, and on its way to the nearest cache FAR
 * steps before, since a step takes less time than global memory does. */
struct ahead {
    enum { FAR = 8 };
    const float *at;
    int64_t stride, left;
    float value;

    __device__ ahead(const float *first, int64_t by, int64_t count) : at(first), stride(by), left(count), value(0)
    {
        for (int64_t i = 1; i < FAR && i < count; i++)
            fetch(first + i * by);
        take();
    }
    __device__ static void fetch(const float *p)
    {
#ifdef __CUDA_ARCH__
        asm volatile("prefetch.global.L1 [%0];" ::"l"(p));
#else
        (void)p;
#endif
    }
    __device__ float take()
    {
        float now = value;
        if (left > FAR)
            fetch(at + FAR * stride);
        if (left > 0) {
            value = *at;
            at += stride;
            left--;
        }
        return now;
    }
};

/* ------------------------------------------------------------------------------------------------- log partition */

/* From alpha - base of a step to logsumexp_i(alpha[i] + trans[i, k]) - base: alpha grows with the steps, its differences do
 * not. `room` is a row of shared memory that the step before has not used. */
__device__ static float arrive(const sg_cuda_crf &s, const tables &m, float *room, float top_transition, float alpha,
                               double *base)
{
    int k = threadIdx.x, n = s.tags;
    if (k < n)
        room[k] = alpha;
    __syncthreads();
    float top = largest(room, n), by = isfinite(top) ? top : 0;
    *base += by;
    if (k < n)
        m.x[k] = expf(alpha - by);
    __syncthreads();
    if (k >= n)
        return 0;
    float sum = times_column(m, m.x, m.w);
    return is_safe(sum) ? top_transition + logf(sum) : logsumexp(room, s.transitions + k, n, n) - by;
}

__global__ void partition(sg_cuda_crf s)
{
    tables m = tables_of(s);
    int k = threadIdx.x, n = s.tags;
    bool here = k < n;
    float top = take_exponentials(s, m);
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        float *out = s.alpha_out + b * s.steps * n + k;
        int64_t length = length_of(s, b);
        ahead e(s.emissions + b * s.steps * n + k, n, here ? s.steps : 0);
        double base = 0;
        float alpha = e.take() + (here ? s.start[k] : 0);
        for (int64_t t = 0; t < s.steps; t++) {
            if (here)
                out[t * n] = (float)(base + alpha);
            if (t + 1 < length)
                alpha = e.take() + arrive(s, m, t & 1 ? m.y : m.alpha, top, alpha, &base);
        }
        __syncthreads();
        if (here)
            m.x[k] = alpha;
        __syncthreads();
        if (k == 0)
            s.log_z[b] = length > 0 ? (float)(base + logsumexp(m.x, s.end, 1, n)) : 0;
        __syncthreads();
    }
}

/* ------------------------------------------------------------------------------------------------------- tangents */

/* What a step needs of the alpha before it, of which the thread has its own tag's, and with FORWARD of its tangent: x, and
 * y = x tu, in shared memory; s and mean of the thread's column. False if alpha has no finite maximum. */
template <bool FORWARD>
__device__ static bool begin_step(const sg_cuda_crf &s, const tables &m, float alpha, float talpha, float *sum,
                                  float *mean)
{
    int k = threadIdx.x, n = s.tags;
    __syncthreads();
    if (k < n) {
        m.alpha[k] = alpha;
        if (FORWARD)
            m.talpha[k] = talpha;
    }
    __syncthreads();
    float top = largest(m.alpha, n);
    bool finite = isfinite(top);
    if (k < n) {
        float x = m.x[k] = finite ? expf(alpha - top) : 0;
        if (FORWARD)
            m.y[k] = x * (talpha - m.talpha[0]);
    }
    __syncthreads();
    *sum = *mean = 0;
    if (k >= n)
        return finite;
    *sum = times_column(m, m.x, m.w);
    if (FORWARD)
        *mean = (times_column(m, m.y, m.w) + (m.v ? times_column(m, m.x, m.v) : 0)) / *sum;
    return finite;
}

__device__ static float at_or_zero(const float *x, int64_t i) { return x ? x[i] : 0; }

/* u_ij. */
__device__ static float moves(const sg_cuda_crf &s, const tables &m, int i, int j)
{
    return m.talpha[i] + at_or_zero(s.ttransitions, i * s.tags + j);
}

/* sum_i p(i|j) u_ij, from the logarithms. */
__device__ static float direct_mean(const sg_cuda_crf &s, const tables &m, const normal &p, int j)
{
    float sum = 0;
    for (int i = 0; i < s.tags; i++)
        sum += p.of(m.alpha[i] + s.transitions[i * s.tags + j]) * moves(s, m, i, j);
    return sum;
}

/* All tangents of alpha of row b. */
__device__ static void move_forward(const sg_cuda_crf &s, const tables &m, int64_t b, int64_t length, float *talpha)
{
    int k = threadIdx.x, n = s.tags;
    bool here = k < n;
    int64_t first = b * s.steps * n + k;
    ahead alpha(s.alpha + first, n, here ? length - 1 : 0);
    ahead te(s.te ? s.te + first : NULL, n, here && s.te ? s.steps : 0);
    float now = here ? at_or_zero(s.tstart, k) : 0, sum, mean;
    for (int64_t t = 0; t < s.steps; t++) {
        if (t > 0 && t < length) {
            bool finite = begin_step<true>(s, m, alpha.take(), now, &sum, &mean);
            if (here && finite && is_safe(sum))
                now = m.talpha[0] + mean;
            else if (here)
                now = direct_mean(s, m, normal_of(m.alpha, s.transitions + k, n, n), k);
        }
        if (t == 0 || t < length)
            now += te.take();
        if (here)
            talpha[t * n + k] = now;
    }
    __syncthreads();
}

__global__ void forward(sg_cuda_crf s)
{
    tables m = tables_of(s);
    int n = s.tags;
    take_exponentials(s, m);
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        int64_t length = length_of(s, b);
        float *talpha = s.alpha_out + b * s.steps * n, tangent = 0;
        move_forward(s, m, b, length, talpha);
        if (threadIdx.x == 0 && length > 0) {
            const float *last = s.alpha + (b * s.steps + length - 1) * n;
            normal p = normal_of(last, s.end, 1, n);
            for (int i = 0; i < n; i++)
                tangent += p.of(last[i] + s.end[i]) * (talpha[(length - 1) * n + i] + at_or_zero(s.tend, i));
        }
        if (threadIdx.x == 0)
            s.log_z[b] = tangent;
        __syncthreads();
    }
}

/* -------------------------------------------------------------------------------------------------------- reverse */

/* What a row of the batch leaves in global memory: x, c (and y, d, talpha) of every step, [steps, tags] each; then the sums of
 * pairs over its steps [from, to], and its cotangents of start and end. */
struct row_room {
    float *x, *c, *y, *d, *talpha, *pairs, *start, *end;
};

__host__ __device__ static int64_t row_size(const sg_cuda_crf &s, bool moving)
{
    return (moving ? 5 : 2) * s.steps * s.tags + (int64_t)s.tags * (s.tags + 2);
}

__device__ static row_room room_of(const sg_cuda_crf &s, int64_t b, bool moving)
{
    int64_t steps = s.steps * s.tags;
    float *x = s.room + b * row_size(s, moving), *pairs = x + (moving ? 5 : 2) * steps;
    float *start = pairs + s.tags * s.tags;
    return {x, x + steps, x + 2 * steps, x + 3 * steps, x + 4 * steps, pairs, start, start + s.tags};
}

/* a_{n-1} and its tangent. */
template <bool FORWARD>
__device__ static void last_step(const sg_cuda_crf &s, const row_room &r, int64_t b, int64_t last, float *a, float *ta)
{
    int k = threadIdx.x, n = s.tags;
    const float *alpha = s.alpha + (b * s.steps + last) * n;
    normal p = normal_of(alpha, s.end, 1, n);
    float at = p.of(alpha[k] + s.end[k]), mean = 0;
    *a = s.g[b] * at;
    for (int i = 0; FORWARD && i < n; i++)
        mean += p.of(alpha[i] + s.end[i]) * (r.talpha[last * n + i] + at_or_zero(s.tend, i));
    if (FORWARD)
        *ta = at_or_zero(s.tg, b) * at + s.g[b] * (at * (r.talpha[last * n + k] + at_or_zero(s.tend, k) - mean));
}

/* From tag j to the thread's tag before it, from the logarithms. */
template <bool FORWARD>
__device__ static void pull_back(const sg_cuda_crf &s, const tables &m, const row_room &r, int j, float *next,
                                 float *tnext)
{
    int k = threadIdx.x, n = s.tags;
    normal p = normal_of(m.alpha, s.transitions + j, n, n);
    float at = p.of(m.alpha[k] + s.transitions[k * n + j]), pair = m.a[j] * at;
    *next += pair;
    if (FORWARD) {
        pair = m.ta[j] * at + m.a[j] * (at * (moves(s, m, k, j) - direct_mean(s, m, p, j)));
        *tnext += pair;
    }
    r.pairs[k * n + j] += pair;
}

/* a and its tangent from step t to the step before, whose alpha and talpha are given. */
template <bool FORWARD>
__device__ static void step_back(const sg_cuda_crf &s, const tables &m, const row_room &r, int64_t t, float alpha,
                                 float talpha, float *a, float *ta)
{
    int k = threadIdx.x, n = s.tags;
    bool here = k < n;
    float sum, mean;
    bool finite = begin_step<FORWARD>(s, m, alpha, talpha, &sum, &mean);
    bool safe = here && finite && is_safe(sum);
    float c = safe ? *a / sum : 0, d = FORWARD && safe ? *ta / sum - c * mean : 0;
    if (here) {
        m.c[k] = r.c[t * n + k] = c;
        r.x[t * n + k] = m.x[k];
        m.a[k] = *a;
        m.safe[k] = safe;
    }
    if (FORWARD && here) {
        m.d[k] = r.d[t * n + k] = d;
        r.y[t * n + k] = m.y[k];
        m.ta[k] = *ta;
    }
    bool all = __syncthreads_and(safe || !here);
    if (!here)
        return;
    float w = times_row(m, m.c, m.w), next = m.x[k] * w, tnext = 0;
    if (FORWARD)
        tnext = m.y[k] * w + m.x[k] * (times_row(m, m.d, m.w) + (m.v ? times_row(m, m.c, m.v) : 0));
    for (int j = 0; j < n && !all; j++)
        if (!m.safe[j])
            pull_back<FORWARD>(s, m, r, j, &next, &tnext);
    *a = next;
    *ta = tnext;
}

/* The sums over steps 1 to length - 1, a pair of tags at a time. */
template <bool FORWARD>
__device__ static void sum_pairs(const sg_cuda_crf &s, const tables &m, const row_room &r, int64_t length)
{
    int n = s.tags;
    for (int p = threadIdx.x; p < n * n; p += blockDim.x) {
        int i = p / n, j = p % n;
        float w = 0, v = 0;
#pragma unroll 4
        for (int64_t t = 1; t < length; t++) {
            float both = r.x[t * n + i] * r.c[t * n + j];
            w += FORWARD ? r.y[t * n + i] * r.c[t * n + j] + r.x[t * n + i] * r.d[t * n + j] : both;
            v += both;
        }
        r.pairs[p] += m.w[i * m.ld + j] * w + (FORWARD && m.v ? m.v[i * m.ld + j] * v : 0);
    }
}

template <bool FORWARD> __global__ void reverse(sg_cuda_crf s)
{
    tables m = tables_of(s);
    int k = threadIdx.x, n = s.tags;
    take_exponentials(s, m);
    for (int64_t b = blockIdx.x; b < s.batch; b += gridDim.x) {
        int64_t length = length_of(s, b);
        row_room r = room_of(s, b, FORWARD);
        float *de = s.de ? s.de + b * s.steps * n : NULL, a = 0, ta = 0;
        for (int64_t i = length * n + k; de && i < s.steps * n; i += blockDim.x)
            de[i] = 0;
        for (int i = k; i < n * (n + 2); i += blockDim.x)
            r.pairs[i] = 0;
        if (length == 0)
            continue; /* the same for the whole block */
        if (FORWARD)
            move_forward(s, m, b, length, r.talpha);
        if (k < n)
            last_step<FORWARD>(s, r, b, length - 1, &a, &ta);
        __syncthreads();
        if (k < n)
            r.end[k] = FORWARD ? ta : a;
        int64_t before = (length - 2) * n + k, steps = k < n ? length - 1 : 0;
        ahead alpha(s.alpha + b * s.steps * n + before, -n, steps), talpha(r.talpha + before, -n, FORWARD ? steps : 0);
        for (int64_t t = length - 1; t >= 0; t--) {
            if (de && k < n)
                de[t * n + k] = FORWARD ? ta : a;
            if (t > 0)
                step_back<FORWARD>(s, m, r, t, alpha.take(), talpha.take(), &a, &ta);
        }
        if (k < n)
            r.start[k] = FORWARD ? ta : a;
        __syncthreads();
        if (s.dtransitions)
            sum_pairs<FORWARD>(s, m, r, length);
        __syncthreads();
    }
}

/* The sums over the batch. */
__global__ void sum_rows(sg_cuda_crf s, int64_t row, int64_t tail)
{
    int64_t n = s.tags;
    for (int64_t i = sg_first(); i < n * (n + 2); i += sg_stride()) {
        float *out = i < n * n ? s.dtransitions : i < n * (n + 1) ? s.dstart : s.dend, sum = 0;
        for (int64_t b = 0; b < s.batch; b++)
            sum += s.room[b * row + tail + i];
        if (out)
            out[i < n * n ? i : i % n] = sum;
    }
}

/* --------------------------------------------------------------------------------------------------------- launch */

static unsigned threads_of(const sg_cuda_crf *s) { return (unsigned)(s->tags + SG_WARP - 1) / SG_WARP * SG_WARP; }

extern "C" void sg_cuda_crf_partition(const sg_cuda_crf *s, cudaStream_t stream)
{
    unsigned blocks = s->batch > 0 ? sg_blocks(s->batch, 1) : 0;
    SG_LAUNCH_SHARED(partition, blocks, threads_of(s), shared_bytes(s), stream, *s);
}

extern "C" void sg_cuda_crf_forward(const sg_cuda_crf *s, cudaStream_t stream)
{
    unsigned blocks = s->batch > 0 ? sg_blocks(s->batch, 1) : 0;
    SG_LAUNCH_SHARED(forward, blocks, threads_of(s), shared_bytes(s), stream, *s);
}

extern "C" size_t sg_cuda_crf_room(const sg_cuda_crf *s, bool moving)
{
    return (size_t)(s->batch * row_size(*s, moving)) * sizeof(float);
}

extern "C" void sg_cuda_crf_reverse(const sg_cuda_crf *s, bool moving, cudaStream_t stream)
{
    unsigned blocks = s->batch > 0 ? sg_blocks(s->batch, 1) : 0;
    int64_t row = row_size(*s, moving), sums = (int64_t)s->tags * (s->tags + 2);
    if (moving)
        SG_LAUNCH_SHARED(reverse<true>, blocks, REVERSE_THREADS, shared_bytes(s), stream, *s);
    else
        SG_LAUNCH_SHARED(reverse<false>, blocks, REVERSE_THREADS, shared_bytes(s), stream, *s);
    if (s->dtransitions || s->dstart || s->dend)
        SG_CUDA_LAUNCH(sum_rows, sg_blocks(sums, SG_BLOCK), SG_BLOCK, stream, *s, row, row - sums);
}
