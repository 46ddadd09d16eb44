/* product_vector.c - products of a vector and a matrix of some ten thousand elements: a kernel of our own (product_vector.cu) does all
 * replicas in one launch, cuBLASLt needs one for each. Large matrices are cuBLASLt's. */
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/product_internal.h"
#include "runtime/cuda/product_vector_internal.h"

extern const sg_op sg_op_matmul;

#define MOST_ELEMENTS ((int64_t)1 << 20)

static bool launch(const sg_launch *l, sg_error *err)
{
    const sg_matmul_problem *p = l->state;
    sg_cuda_vector_product((int32_t)p->k, (int32_t)p->n, l->in[0], l->in[1], l->out[0], sg_cuda_where_of(l));
    return sg_cuda_launched(err);
}

static bool supports(const sg_kernel_spec *spec)
{
    sg_matmul_problem p = sg_matmul_describe(spec);
    return spec->in_dtype[0] == SG_F32 && spec->in_dtype[1] == SG_F32 && p.m == 1 && p.batch == 1 && !p.b_transposed &&
           p.n > 0 && p.k > 0 && p.n <= MOST_ELEMENTS && p.k <= MOST_ELEMENTS / p.n;
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    (void)device;
    sg_matmul_problem *p = sg_calloc(1, sizeof *p);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a product");
    *p = sg_matmul_describe(spec);
    *out = (sg_kernel){.name = "vector matmul", .launch = launch, .state = p, .release = sg_free, .replicates = true};
    return SG_OK;
}

const sg_cuda_kernel sg_cuda_vector_kernels[] = {{&sg_op_matmul, supports, prepare}, {0}};
