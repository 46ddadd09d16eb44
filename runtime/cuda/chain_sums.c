/* chain_sums.c - the loops of chains that end in sums. */
#include "runtime/cuda/chain_parts_internal.h"

enum { WARP = 32 };

/* A warp or the block takes a row. */
static void put_rows(const sg_cuda_chain *c, const char *ends, sg_cuda_text *all)
{
    int lanes = (int)c->lanes, rows = SG_CUDA_CHAIN_BLOCK / lanes;
    sg_cuda_put(all, "    const index lane = threadIdx.x %% %d;\n    const bool leads = lane == 0;\n", lanes);
    sg_cuda_put(
        all,
        "    for (index place = blockIdx.x * (index)%d + threadIdx.x / %d; place < (index)%lldull; place += gridDim.x "
        "* "
        "(index)%d) {\n",
        rows, lanes, (long long)c->sum.outer, rows);
    sg_cuda_put(all, "#pragma unroll 4\n        for (index p = lane; p < (index)%lldull; p += %d)\n",
                (long long)(c->sum.length / c->pack), lanes);
    sg_cuda_put(all, "            part(sg_width<%d>(), place * (index)%lldull + p * %d);\n%s    }\n", (int)c->pack,
                (long long)c->sum.length, (int)c->pack, ends);
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
                WARP, length, SG_CUDA_CHAIN_BLOCK / WARP);
    sg_cuda_put(all,
                "            part(sg_width<1>(), (row * (index)%lldull + p) * (index)%lldull + column);\n%s    }\n",
                length, inner, ends);
}

/* A thread takes a column. */
static void put_single_columns(const sg_cuda_chain *c, const char *ends, sg_cuda_text *all)
{
    long long inner = c->sum.inner, length = c->sum.length;
    sg_cuda_put(all, "    const bool leads = true;\n");
    sg_cuda_put(
        all,
        "    for (index place = blockIdx.x * (index)%d + threadIdx.x; place < (index)%lldull; place += gridDim.x "
        "* (index)%d) {\n",
        SG_CUDA_CHAIN_BLOCK, (long long)c->sum.outer * inner, SG_CUDA_CHAIN_BLOCK);
    sg_cuda_put(all, "#pragma unroll 8\n        for (index p = 0; p < (index)%lldull; p++)\n", length);
    sg_cuda_put(
        all,
        "            part(sg_width<1>(), (place / (index)%lldull * (index)%lldull + p) * (index)%lldull + place %% "
        "(index)%lldull);\n%s    }\n",
        inner, length, inner, inner, ends);
}

void sg_cuda_put_sums(const sg_cuda_chain *c, const char *ends, sg_cuda_text *all)
{
    (c->sum.inner == 1 ? put_rows : c->lanes == 1 ? put_single_columns : put_columns)(c, ends, all);
}
