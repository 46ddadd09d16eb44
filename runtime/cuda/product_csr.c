/* product_csr.c - products of sparse rows and a matrix with the steps that follow them, such as a bias, an activation and dropout: the
 * first layer of a network in one launch. The kernel is product_csr.cuh; the text around it, with the steps, is chain_source.c's. */
#include <string.h>

#include "runtime/cuda/chain_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/fault_internal.h"
#include "runtime/cuda/nvrtc_internal.h"
#include "runtime/cuda/product_internal.h"

enum { VALUES, COLUMNS, INDPTR, DENSE = 6 };
/* Columns that a block has from each lane, in fours: more where there are blocks enough. */
enum { MANY_REPLICAS = 4, MANY_GROUPS = 2, GROUP = 128 };

/* product_operands of the text. */
typedef struct operands {
    const float *value, *dense;
    const int32_t *pointers, *column;
    sg_cuda_fault *fault;
    int32_t site;
} operands;

typedef struct product {
    sg_cuda_chain chain;
    cudaKernel_t kernel;
    unsigned blocks;
    int32_t site;
    sg_cuda_fault *fault;
    char name[48];
} product;

static void release(void *state)
{
    product *p = state;
    sg_cuda_chain_release(&p->chain);
    sg_free(p);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const product *p = l->state;
    const int32_t *factor = p->chain.factor;
    operands of = {
        l->in[factor[VALUES]], l->in[factor[DENSE]], l->in[factor[INDPTR]], l->in[factor[COLUMNS]], p->fault, p->site};
    void *parameter[SG_CUDA_CHAIN_PARAMETERS] = {&of};
    sg_cuda_chain_parameters(&p->chain, l, parameter + 1);
    dim3 grid = {p->blocks, 1, (unsigned)l->replicas}, block = {SG_CUDA_CHAIN_BLOCK, 1, 1};
    sg_cuda_overlap(l->stream);
    return sg_cuda_check(cudaLaunchKernel((const void *)p->kernel, grid, block, parameter, 0, l->stream),
                         "launch of a sparse product", err) == SG_OK;
}

static sg_status compile(product *p, sg_device *device, sg_graph *body, const sg_node *multiply, sg_error *err)
{
    const sg_shape *dense = sg_shape_of(sg_value_at(body, multiply->in[DENSE]));
    int64_t capacity = sg_shape_count(sg_shape_of(sg_value_at(body, multiply->in[VALUES])));
    int64_t lines = sg_shape_of(sg_value_at(body, multiply->out))->dim[0], width = dense->dim[1];
    int32_t groups = device->replicas >= MANY_REPLICAS ? MANY_GROUPS : 1;
    size_t size = strlen(p->chain.source) + 512;
    char *text = sg_calloc(size, 1);
    if (!text)
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a sparse product");
    snprintf(
        text, size,
        "constexpr long long CAPACITY = %lld, ROWS = %lld;\nconstexpr int LINES = %lld, WIDTH = %lld, GROUPS = %d;\n%s",
        (long long)capacity, (long long)dense->dim[0], (long long)lines, (long long)width, groups, p->chain.source);
    p->blocks = (unsigned)(lines * ((width + GROUP * groups - 1) / (GROUP * groups)));
    sg_status status = sg_cuda_compile(device, text, "chain", &p->kernel, err);
    sg_free(text);
    return status;
}

/* Faults are those of the product, not of the node that it has become part of. */
static int32_t site_of(sg_device *device, const sg_kernel_spec *spec, const sg_node *multiply)
{
    sg_kernel_spec own = *spec;
    own.node = multiply;
    int32_t site = sg_cuda_site_of(device, &own);
    sg_cuda_site_arrays(device, site, "indptr", "columns");
    return site;
}

static sg_status build(product *p, sg_device *device, const sg_kernel_spec *spec, sg_error *err)
{
    sg_graph *body = spec->attr[0].graph;
    const sg_node *multiply = sg_cuda_csr_in(body);
    SG_TRY(sg_cuda_chain_write(&p->chain, spec, INT64_MAX, err));
    p->fault = device->fault_at;
    p->site = site_of(device, spec, multiply);
    snprintf(p->name, sizeof p->name, "csr_matmul + %d ops", (int)p->chain.n_steps - 1);
    return compile(p, device, body, multiply, err);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    product *p = sg_calloc(1, sizeof *p);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a sparse product");
    sg_status status = build(p, device, spec, err);
    if (status != SG_OK) {
        release(p);
        return status;
    }
    *out = (sg_kernel){
        .name = p->name, .launch = launch, .state = p, .release = release, .alias = p->chain.alias, .replicates = true};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec) { return sg_cuda_csr_in(spec->attr[0].graph) != NULL; }

const sg_cuda_kernel sg_cuda_product_csr_kernels[] = {{&sg_op_fused, supports, prepare}, {0}};
