/* product_vector.cu - a vector times a matrix stored by rows: c [n] = a [k] b [k, n], in float32. A block takes some columns, its
 * rows of threads every ROWS-th row of the matrix; their sums are added by halves. */
#include "runtime/cuda/product_vector_internal.h"
#include "runtime/cuda/replica.cuh"

enum { AT_ONCE = 8 };

template <int V> struct __align__(4 * V) columns {
    float x[V];
};

/* Threads have V columns each; the rows that a column's threads have are part of the order of its sum. */
template <int V> struct shape {
    static constexpr int LANES = V == 4 ? 8 : 16, ROWS = V == 4 ? 128 : 32, COLUMNS = LANES * V, THREADS = LANES * ROWS;
};

template <int V>
__global__ void __launch_bounds__(shape<V>::THREADS) vector_product(int32_t k, int32_t n, const float *a, const float *b, float *c, size_t stride)
{
    constexpr int LANES = shape<V>::LANES, ROWS = shape<V>::ROWS;
    __shared__ columns<V> room[ROWS][LANES];
    a = sg_replica_of(a, stride);
    b = sg_replica_of(b, stride);
    c = sg_replica_of(c, stride);
    sg_wait();
    int lane = threadIdx.x % LANES, row = threadIdx.x / LANES, column = (int)blockIdx.x * shape<V>::COLUMNS + lane * V;
    columns<V> sum = {};
    for (int i = row; column < n && i < k; i += AT_ONCE * ROWS) {
        float factor[AT_ONCE];
        columns<V> x[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            factor[u] = 0;
            x[u] = {};
            if (i + u * ROWS < k) {
                factor[u] = a[i + u * ROWS];
                x[u] = *(const columns<V> *)(b + (int64_t)(i + u * ROWS) * n + column);
            }
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
#pragma unroll
            for (int v = 0; v < V; v++)
                sum.x[v] += factor[u] * x[u].x[v];
    }
    room[row][lane] = sum;
    for (int left = ROWS / 2; left > 0; left /= 2) {
        __syncthreads();
        if (row < left)
#pragma unroll
            for (int v = 0; v < V; v++)
                room[row][lane].x[v] += room[row + left][lane].x[v];
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
