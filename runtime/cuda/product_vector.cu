/* product_vector.cu - a vector times a matrix stored by rows: c [n] = a [k] b [k, n], in float32. A block takes some columns, its
 * rows of threads every ROWS-th row of the matrix; their sums are added by halves. */
#include "runtime/cuda/product_vector_internal.h"
#include "runtime/cuda/replica.cuh"

template <int V> struct __align__(4 * V) columns {
    float x[V];
};

/* A block has LANES threads of V columns each and ROWS such rows of threads, each thread as many sums: which of them a row of the matrix
 * goes to is part of the order, as if SUMS ROWS rows of threads had one each. */
template <int V> struct shape {
    static constexpr int LANES = V == 4 ? 4 : 16, ROWS = V == 4 ? 64 : 32, SUMS = V == 4 ? 2 : 1, COLUMNS = LANES * V,
                         THREADS = LANES * ROWS, AT_ONCE = V == 4 ? 12 : 8;
};

template <int V> __device__ static inline void add(columns<V> *sum, const columns<V> &x)
{
#pragma unroll
    for (int v = 0; v < V; v++)
        sum->x[v] += x.x[v];
}

/* The bounds leave registers for all loads of a thread at once. */
template <int V>
__global__ void __launch_bounds__(shape<V>::THREADS, 512 / shape<V>::THREADS)
    vector_product(int32_t k, int32_t n, const float *a, const float *b, float *c, size_t stride)
{
    constexpr int LANES = shape<V>::LANES, ROWS = shape<V>::ROWS, SUMS = shape<V>::SUMS, AT_ONCE = shape<V>::AT_ONCE;
    __shared__ columns<V> room[ROWS][LANES];
    a = sg_replica_of(a, stride);
    b = sg_replica_of(b, stride);
    c = sg_replica_of(c, stride);
    int lane = threadIdx.x % LANES, row = threadIdx.x / LANES, column = (int)blockIdx.x * shape<V>::COLUMNS + lane * V;
    const float *from = b + (int64_t)row * n + min(column, n - V);
    columns<V> sum[SUMS] = {};
    sg_wait();
#pragma unroll 1
    for (int i = row; i < k; i += AT_ONCE * ROWS, from += AT_ONCE * ROWS * n) {
        float factor[AT_ONCE];
        columns<V> x[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            factor[u] = 0;
            x[u] = {};
            if (i + u * ROWS < k) {
                factor[u] = a[i + u * ROWS];
                x[u] = *(const columns<V> *)(from + u * ROWS * n);
            }
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[u % SUMS].x[v] += factor[u] * x[u].x[v];
    }
    for (int left = SUMS / 2; left > 0; left /= 2)
        add(&sum[0], sum[left]);
    room[row][lane] = sum[0];
    for (int left = ROWS / 2; left > 0; left /= 2) {
        __syncthreads();
        if (row < left)
            add(&room[row][lane], room[row + left][lane]);
    }
    if (row == 0 && column < n)
        *(columns<V> *)(c + column) = room[0][lane];
}

template <int V>
static void launch(int32_t k, int32_t n, const float *a, const float *b, float *c, sg_cuda_where where)
{
    unsigned blocks = (unsigned)(n + shape<V>::COLUMNS - 1) / shape<V>::COLUMNS;
    SG_CUDA_LAUNCH_EARLY(vector_product<V>, blocks, shape<V>::THREADS, where, k, n, a, b, c);
}

extern "C" void sg_cuda_vector_product(int32_t k, int32_t n, const float *a, const float *b, float *c, sg_cuda_where where)
{
    if (n % 4 == 0 && ((uintptr_t)b | (uintptr_t)c) % 16 == 0)
        launch<4>(k, n, a, b, c, where);
    else
        launch<1>(k, n, a, b, c, where);
}
