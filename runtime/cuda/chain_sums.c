/* chain_sums.c - the loops of chains that end in sums. */
#include "runtime/cuda/chain_parts_internal.h"

enum { WARP = 32, WARPS = SG_CUDA_CHAIN_BLOCK / WARP, FEW = 8 };

/* Columns that keep a device busy if a thread takes each, in each of many replicas. */
enum { MANY_COLUMNS = 1 << 12 };

/* A warp or the block takes a row. */
static void put_rows(const sg_cuda_chain *c, const char *ends, sg_cuda_text *all)
{
    int lanes = (int)c->lanes, rows = SG_CUDA_CHAIN_BLOCK / lanes;
    long long packs = (long long)(c->sum.length / c->pack), each = (packs + lanes - 1) / lanes;
    sg_cuda_put(all, "    const index lane = threadIdx.x %% %d;\n    const bool leads = lane == 0;\n", lanes);
    sg_cuda_put(
        all,
        "    for (index place = blockIdx.x * (index)%d + threadIdx.x / %d; place < (index)%lldull; place += gridDim.x "
        "* "
        "(index)%d) {\n",
        rows, lanes, (long long)c->sum.outer, rows);
    if (each <= FEW)
        sg_cuda_put(all,
                    "#pragma unroll\n        for (int n = 0; n < %lld; n++)\n"
                    "            if (const index p = n * (index)%d + lane; p < (index)%lldull)\n",
                    each, lanes, packs);
    else
        sg_cuda_put(all, "#pragma unroll 4\n        for (index p = lane; p < (index)%lldull; p += %d)\n", packs, lanes);
    sg_cuda_put(all, "                part(sg_width<%d>(), place, p * %d, 0, 0);\n%s    }\n", (int)c->pack,
                (int)c->pack, ends);
}

/* Each warp of a block takes every eighth element of the same 32 columns. */
static void put_columns(const sg_cuda_chain *c, const char *ends, sg_cuda_text *all)
{
    long long inner = c->sum.inner, length = c->sum.length, tiles = (inner + WARP - 1) / WARP;
    sg_cuda_put(all, "    for (index t = blockIdx.x; t < (index)%lldull; t += gridDim.x) {\n",
                (long long)c->sum.outer * tiles);
    sg_cuda_put(
        all, "        const index row = t / (index)%lldull, column = t %% (index)%lldull * %d + threadIdx.x %% %d;\n",
        tiles, tiles, WARP, WARP);
    sg_cuda_put(all, "        const index place = row * (index)%lldull + column;\n", inner);
    sg_cuda_put(all, "        const bool inside = column < (index)%lldull, leads = inside && threadIdx.x < %d;\n",
                inner, WARP);
    sg_cuda_put(all,
                "#pragma unroll 4\n        for (index p = threadIdx.x / %d; inside && p < (index)%lldull; p += %d)\n",
                WARP, length, WARPS);
    sg_cuda_put(all, "            part(sg_width<1>(), row, p, column, 0);\n%s    }\n", ends);
}

/* A loop in which a thread takes a column. */
static void begin_columns(const sg_cuda_chain *c, sg_cuda_text *all)
{
    long long inner = c->sum.inner;
    sg_cuda_put(all, "    const bool leads = true;\n");
    sg_cuda_put(
        all,
        "    for (index place = blockIdx.x * (index)%d + threadIdx.x; place < (index)%lldull; place += gridDim.x "
        "* (index)%d) {\n",
        SG_CUDA_CHAIN_BLOCK, (long long)c->sum.outer * inner, SG_CUDA_CHAIN_BLOCK);
    sg_cuda_put(all, "        const index row = place / (index)%lldull, column = place %% (index)%lldull;\n", inner,
                inner);
}

static void put_single_columns(const sg_cuda_chain *c, const char *ends, sg_cuda_text *all)
{
    begin_columns(c, all);
    sg_cuda_put(all, "#pragma unroll 8\n        for (index p = 0; p < (index)%lldull; p++)\n",
                (long long)c->sum.length);
    sg_cuda_put(all, "            part(sg_width<1>(), row, p, column, 0);\n%s    }\n", ends);
}

bool sg_cuda_chain_alone(const sg_cuda_chain *c)
{
    return c->many && c->sum.inner > 1 && c->lanes == WARP && c->sum.outer * c->sum.inner >= MANY_COLUMNS;
}

/* The same in the order of put_columns. */
static void put_columns_alone(const sg_cuda_chain *c, const char *ends, sg_cuda_text *all)
{
    long long whole = c->sum.length / WARPS * WARPS;
    begin_columns(c, all);
    sg_cuda_put(all, "#pragma unroll %d\n        for (index p = 0; p < (index)%lldull; p += %d)\n",
                whole <= FEW * WARPS ? FEW : 1, whole, WARPS);
    sg_cuda_put(all,
                "#pragma unroll\n            for (int warp = 0; warp < %d; warp++)\n"
                "                part(sg_width<1>(), row, p + warp, column, warp);\n",
                WARPS);
    sg_cuda_put(all,
                "#pragma unroll\n        for (int warp = 0; warp < %d; warp++)\n"
                "            part(sg_width<1>(), row, (index)%lldull + warp, column, warp);\n%s    }\n",
                (int)(c->sum.length % WARPS), whole, ends);
}

void sg_cuda_put_sums(const sg_cuda_chain *c, const char *ends, sg_cuda_text *all)
{
    if (c->sum.inner == 1)
        put_rows(c, ends, all);
    else if (c->lanes == 1)
        put_single_columns(c, ends, all);
    else if (sg_cuda_chain_alone(c))
        put_columns_alone(c, ends, all);
    else
        put_columns(c, ends, all);
}
