// product_packs.cuh - what the steps after a product read and write: packs of W neighbours of the result, EACH of them at a time, at
// product_places, NOWHERE where there is none. Included where these are stated.
enum product_access { NEIGHBOURS, SAME, ELEMENTS };

// Element `place` (i) for element i of the result.
template <product_access HOW, class T, class PLACE>
__device__ __forceinline__ sg_pack<T, EACH * W> product_read(const T *from, const product_places &places, PLACE place)
{
    sg_pack<T, EACH * W> all = {};
#pragma unroll
    for (int q = 0; q < EACH; q++) {
        index i = places.at[q];
        if (i == NOWHERE)
            continue;
        sg_pack<T, W> pack;
        if constexpr (HOW == NEIGHBOURS)
            pack = sg_load<W>(from + place(i));
        else
#pragma unroll
            for (int k = 0; k < W; k++)
                pack.x[k] = from[place(HOW == SAME ? i : i + k)];
#pragma unroll
        for (int k = 0; k < W; k++)
            all.x[q * W + k] = pack.x[k];
    }
    return all;
}

template <class T> __device__ __forceinline__ void product_store(T *to, const product_places &places, const sg_pack<T, EACH * W> &all)
{
#pragma unroll
    for (int q = 0; q < EACH; q++) {
        sg_pack<T, W> pack;
#pragma unroll
        for (int k = 0; k < W; k++)
            pack.x[k] = all.x[q * W + k];
        if (places.at[q] != NOWHERE)
            sg_store(to + places.at[q], pack);
    }
}

__device__ __forceinline__ sg_pack<unsigned, EACH * W> product_bits(const sg_draw &draw, const product_places &places)
{
    sg_pack<unsigned, EACH * W> all;
#pragma unroll
    for (int q = 0; q < EACH; q++) {
        sg_pack<unsigned, W> pack = sg_draw_bits<W>(draw, places.at[q]);
#pragma unroll
        for (int k = 0; k < W; k++)
            all.x[q * W + k] = pack.x[k];
    }
    return all;
}
