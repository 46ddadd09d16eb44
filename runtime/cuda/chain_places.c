/* chain_places.c - how a chain's elements are shared out: packs, and where their operands lie. */
#include "runtime/cuda/chain_parts_internal.h"

/* Elements of bf16 in 16 bytes, of f32; and how many registers the operands of a pack may take. */
enum { PACK_LOW = 8, PACK = 4, PACK_REGISTERS = 64 };

sg_cuda_places sg_cuda_places_of(const sg_shape *space, const sg_shape *shape, const int64_t *stride)
{
    sg_cuda_places p = {0};
    int32_t lead = space->rank - shape->rank;
    for (int32_t i = 0; i < space->rank; i++) {
        int64_t d = space->dim[i], step = i < lead || shape->dim[i - lead] == 1 ? 0 : stride[i - lead];
        if (d == 1)
            continue;
        if (p.rank > 0 && p.stride[p.rank - 1] == step * d) {
            p.dim[p.rank - 1] *= d;
            p.stride[p.rank - 1] = step;
        } else {
            p.dim[p.rank] = d;
            p.stride[p.rank++] = step;
        }
    }
    return p;
}

sg_cuda_access sg_cuda_access_of(const sg_cuda_places *p, int64_t pack)
{
    int32_t last = p->rank - 1;
    bool whole = true;
    if (p->rank == 0 || (p->rank == 1 && p->stride[0] == 0))
        return SG_CUDA_ACCESS_NUMBER;
    if (p->rank == 1 && p->stride[0] == 1)
        return SG_CUDA_ACCESS_OWN;
    for (int32_t i = 0; i < last; i++)
        whole = whole && p->stride[i] % pack == 0;
    if (p->dim[last] % pack == 0 && p->stride[last] == 1 && whole)
        return SG_CUDA_ACCESS_PACK;
    return p->dim[last] % pack == 0 && p->stride[last] == 0 ? SG_CUDA_ACCESS_SAME : SG_CUDA_ACCESS_ELEMENTS;
}

/* As many elements as 16 bytes hold of the smallest reals, fewer where the operands of a pack would not leave registers to
 * compute in, or where so few threads would not fill the device. Sums have the same order on every device: there, only where a
 * row would not keep its threads busy or not begin with a pack. */
int32_t sg_cuda_chain_pack(const sg_kernel_spec *spec, const sg_cuda_chain *c, int64_t threads)
{
    int32_t n = spec->n_in + spec->n_out, pack = PACK;
    for (int32_t k = 0; k < spec->n_in; k++)
        pack = spec->in_dtype[k] == SG_BF16 ? PACK_LOW : pack;
    for (int32_t j = 0; j < spec->n_out; j++)
        pack = spec->out_dtype[j] == SG_BF16 ? PACK_LOW : pack;
    while (pack > 1 &&
           ((int64_t)pack * n > PACK_REGISTERS ||
            (c->sum.length ? c->sum.length % pack || c->sum.length / pack < c->lanes : c->count / pack < threads)))
        pack /= 2;
    return c->sum.inner > 1 ? 1 : pack;
}
