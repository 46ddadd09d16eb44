/* matmul.c - matrix products by cuBLASLt.
 *
 * Our matrices are stored by rows, cuBLASLt's by columns. A matrix stored by rows is its transpose stored by columns, so
 * C = op(A) op(B) is asked for as C' = op(B)' op(A)' with the operands exchanged, and nothing is moved.
 *
 * Sums are of float32, of products of float32 or bfloat16. A row added to each row of the product, a tensor added to the whole
 * of it, or a result of float32 where the operands are bfloat16, come from a fused node of the product and such steps
 * (product_follow.c). It is all added before anything is rounded, so the result does not take over the tensor's memory: where both
 * are one, cuBLASLt's kernels round the product and let the memory add it, and bits would depend on who else reads the tensor.
 *
 * The algorithm is the heuristic's first choice at compile time. Measuring several would choose by chance between equally
 * good ones, and then the same program would give other bits tomorrow. */
#include <string.h>

#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/product_internal.h"

extern const sg_op sg_op_matmul, sg_op_add;

enum { WORKSPACE_MOST = 32 << 20, TILE = 128 };

typedef struct product {
    cublasLtHandle_t blas;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t first, second, result; /* b, a and c */
    cublasLtMatmulAlgo_t algorithm;
    cudaDataType_t type, result_type; /* of the operands, and of the result */
    size_t width, result_width;       /* their bytes */
    size_t workspace, result_bytes;
    int64_t *a_at, *b_at; /* elements: one product, or strided batch, a call */
    int64_t calls, c_step;
    int32_t a, b;       /* operands of the node */
    int32_t row, whole; /* added to each row of the product, and to all of it; or -1 */
} product;

static sg_status check(cublasStatus_t code, const char *what, sg_error *err)
{
    return code == CUBLAS_STATUS_SUCCESS ? SG_OK
                                         : sg_fail(err, code == CUBLAS_STATUS_ALLOC_FAILED ? SG_E_MEMORY : SG_E_DEVICE,
                                                   "cuBLASLt: %s: %s", what, cublasLtGetStatusString(code));
}

static void release(void *state)
{
    product *p = state;
    if (p->result)
        cublasLtMatrixLayoutDestroy(p->result);
    if (p->second)
        cublasLtMatrixLayoutDestroy(p->second);
    if (p->first)
        cublasLtMatrixLayoutDestroy(p->first);
    if (p->what)
        cublasLtMatmulDescDestroy(p->what);
    sg_free(p->a_at);
    sg_free(p->b_at);
    sg_free(p);
}

/* Neighbouring batch axes become one where both operands walk them with one stride; axes of size 1 go. */
static void merge_axes(sg_matmul_problem *m)
{
    int32_t n = 0;
    for (int32_t i = 0; i < m->batch_rank; i++) {
        int64_t dim = m->batch_dim[i];
        if (dim == 1)
            continue;
        if (n > 0 && m->a_step[n - 1] == m->a_step[i] * dim && m->b_step[n - 1] == m->b_step[i] * dim) {
            m->batch_dim[n - 1] *= dim;
        } else {
            m->batch_dim[n++] = dim;
        }
        m->a_step[n - 1] = m->a_step[i];
        m->b_step[n - 1] = m->b_step[i];
    }
    m->batch_rank = n;
}

/* The innermost batch axis is a strided batch of one call; the others are calls of their own. */
static bool list_calls(product *p, const sg_matmul_problem *m, int64_t inner)
{
    p->calls = m->batch / inner;
    p->c_step = inner * m->m * m->n;
    p->a_at = sg_calloc(p->calls, sizeof *p->a_at);
    p->b_at = sg_calloc(p->calls, sizeof *p->b_at);
    for (int64_t i = 0; p->a_at && p->b_at && i < p->calls; i++)
        sg_matmul_offsets(m, i * inner, &p->a_at[i], &p->b_at[i]);
    return p->a_at && p->b_at;
}

static sg_status layout(cublasLtMatrixLayout_t *out, cudaDataType_t type, int64_t rows, int64_t columns, int32_t batch,
                        int64_t stride, sg_error *err)
{
    SG_TRY(check(cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)columns, rows), "layout", err));
    if (batch == 1)
        return SG_OK;
    SG_TRY(check(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
                 "batch", err));
    return check(
        cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
        "batch stride", err);
}

static sg_status transpose(product *p, cublasLtMatmulDescAttributes_t which, bool transposed, sg_error *err)
{
    cublasOperation_t op = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    return check(cublasLtMatmulDescSetAttribute(p->what, which, &op, sizeof op), "operand form", err);
}

/* Our rows are cuBLASLt's columns, to each of which it adds what it calls the bias. Each launch sets its address; the choice of
 * an algorithm looks at its alignment, which is the arena's. */
static sg_status epilogue(product *p, sg_error *err)
{
    cublasLtEpilogue_t bias = CUBLASLT_EPILOGUE_BIAS;
    const void *anywhere = (const void *)(uintptr_t)SG_CUDA_WORKSPACE_LINE;
    SG_TRY(check(cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_EPILOGUE, &bias, sizeof bias), "epilogue",
                 err));
    SG_TRY(check(cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &anywhere, sizeof anywhere),
                 "epilogue", err));
    return check(cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &p->result_type,
                                                sizeof p->result_type),
                 "epilogue", err);
}

static sg_status describe(product *p, const sg_device *device, const sg_matmul_problem *m, int32_t batch, sg_error *err)
{
    int32_t last = m->batch_rank - 1;
    bool tf32 = device->tf32 && p->type == CUDA_R_32F;
    cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    SG_TRY(check(cublasLtMatmulDescCreate(&p->what, compute, CUDA_R_32F), "descriptor", err));
    if (p->row >= 0)
        SG_TRY(epilogue(p, err));
    SG_TRY(transpose(p, CUBLASLT_MATMUL_DESC_TRANSA, m->b_transposed, err));
    SG_TRY(transpose(p, CUBLASLT_MATMUL_DESC_TRANSB, m->a_transposed, err));
    SG_TRY(layout(&p->first, p->type, m->b_transposed ? m->k : m->n, m->b_transposed ? m->n : m->k, batch,
                  batch > 1 ? m->b_step[last] : 0, err));
    SG_TRY(layout(&p->second, p->type, m->a_transposed ? m->m : m->k, m->a_transposed ? m->k : m->m, batch,
                  batch > 1 ? m->a_step[last] : 0, err));
    return layout(&p->result, p->result_type, m->n, m->m, batch, m->m * m->n, err);
}

/* Bytes that every operand of every call is aligned to: the arena's alignment, less where calls start inside a tensor. */
static uint32_t alignment_of(const product *p)
{
    int64_t bits = 64, width = (int64_t)p->width, result_width = (int64_t)p->result_width;
    for (int64_t i = 0; i < p->calls; i++)
        bits |= p->a_at[i] * width | p->b_at[i] * width | i * p->c_step * result_width;
    return (uint32_t)(bits & -bits);
}

/* Split sums are allowed only where the parts are added up in a fixed order. */
static sg_status prefer(cublasLtMatmulPreference_t preference, uint32_t alignment, uint64_t most, sg_error *err)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++)
        SG_TRY(check(cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &alignment, sizeof alignment),
                     "alignment", err));
    SG_TRY(check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &reductions, sizeof reductions),
                 "reductions", err));
    return check(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
        "workspace", err);
}

/* Products of bfloat16 that fill the device by their tiles are to have none: kernels that take their tiles from a counter wait for a
 * node that clears it, and split sums are for others. */
static uint64_t workspace_for(const product *p, const sg_device *device, const sg_matmul_problem *m)
{
    int64_t tiles = m->batch * ((m->m + TILE - 1) / TILE) * ((m->n + TILE - 1) / TILE);
    return p->type == CUDA_R_16BF && 2 * tiles >= device->processors ? 0 : WORKSPACE_MOST;
}

static sg_status choose(product *p, const sg_device *device, const sg_matmul_problem *m, sg_error *err)
{
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    SG_TRY(check(cublasLtMatmulPreferenceCreate(&preference), "preference", err));
    sg_status status = prefer(preference, alignment_of(p), workspace_for(p, device, m), err);
    if (status == SG_OK)
        status = check(cublasLtMatmulAlgoGetHeuristic(p->blas, p->what, p->first, p->second, p->result, p->result,
                                                      preference, 1, &found, &n),
                       "choosing an algorithm", err);
    cublasLtMatmulPreferenceDestroy(preference);
    SG_TRY(status);
    if (n == 0 || found.state != CUBLAS_STATUS_SUCCESS)
        return sg_fail(err, SG_E_UNSUPPORTED, "cuBLASLt has no algorithm for a product of %lld x %lld x %lld",
                       (long long)m->m, (long long)m->k, (long long)m->n);
    p->algorithm = found.algo;
    p->workspace = found.workspaceSize;
    return SG_OK;
}

static bool launch(const sg_launch *l, sg_error *err)
{
    static const float one = 1, zero = 0;
    const product *p = l->state;
    if (p->row >= 0 && check(cublasLtMatmulDescSetAttribute(p->what, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &l->in[p->row],
                                                            sizeof(void *)),
                             "bias", err) != SG_OK)
        return false;
    for (int64_t i = 0; i < p->calls; i++) {
        const char *a = (const char *)l->in[p->a] + (size_t)p->a_at[i] * p->width;
        const char *b = (const char *)l->in[p->b] + (size_t)p->b_at[i] * p->width;
        char *c = (char *)l->out[0] + (size_t)(i * p->c_step) * p->result_width;
        const char *whole =
            p->whole < 0 ? c : (const char *)l->in[p->whole] + (size_t)(i * p->c_step) * p->result_width;
        cublasStatus_t code =
            cublasLtMatmul(p->blas, p->what, &one, b, p->first, a, p->second, p->whole < 0 ? &zero : &one, whole,
                           p->result, c, p->result, &p->algorithm, sg_cuda_workspace_of(l), p->workspace, l->stream);
        if (check(code, "product", err) != SG_OK)
            return false;
    }
    return true;
}

/* An empty sum is zero. */
static bool launch_empty(const sg_launch *l, sg_error *err)
{
    const product *p = l->state;
    return p->result_bytes == 0 ||
           sg_cuda_check(cudaMemsetAsync(l->out[0], 0, p->result_bytes, l->stream), "product", err) == SG_OK;
}

static sg_status build(product *p, const sg_device *device, sg_matmul_problem m, sg_error *err)
{
    merge_axes(&m);
    int64_t inner = m.batch_rank > 0 ? m.batch_dim[m.batch_rank - 1] : 1;
    if (inner > INT32_MAX)
        return sg_fail(err, SG_E_UNSUPPORTED, "a batch of %lld matrices is too large", (long long)inner);
    if (!list_calls(p, &m, inner))
        return sg_fail(err, SG_E_MEMORY, "out of memory for a matrix product");
    SG_TRY(describe(p, device, &m, (int32_t)inner, err));
    return choose(p, device, &m, err);
}

static void read_body(product *p, sg_graph *body)
{
    const sg_node *multiply = sg_cuda_product_in(body);
    sg_cuda_product_end end = sg_cuda_product_begin(multiply);
    for (int32_t i = multiply->index + 1; i < sg_node_count(body); i++)
        if (sg_node_at(body, i)->n_in > 0)
            sg_cuda_product_extend(body, &end, sg_node_at(body, i));
    p->a = sg_body_input_index(body, multiply->in[0]);
    p->b = sg_body_input_index(body, multiply->in[1]);
    p->row = sg_body_input_index(body, end.row);
    p->whole = sg_body_input_index(body, end.whole);
}

static sg_matmul_problem read_spec(product *p, const sg_kernel_spec *spec)
{
    p->a = 0;
    p->b = 1;
    p->row = p->whole = -1;
    if (spec->node->op != &sg_op_fused)
        return sg_matmul_describe(spec);
    sg_graph *body = spec->attr[0].graph;
    read_body(p, body);
    return sg_cuda_product_problem(body, sg_cuda_product_in(body));
}

static const char *name_of(const product *p)
{
    return p->whole < 0 ? p->row < 0 ? "cublaslt matmul" : "cublaslt matmul + row"
           : p->row < 0 ? "cublaslt matmul + whole"
                        : "cublaslt matmul + row + whole";
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    product *p = sg_calloc(1, sizeof *p);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a matrix product");
    sg_matmul_problem m = read_spec(p, spec);
    p->blas = device->blas;
    p->type = spec->in_dtype[p->a] == SG_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    p->result_type = spec->out_dtype[0] == SG_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    p->width = sg_dtype_size(spec->in_dtype[p->a]);
    p->result_width = sg_dtype_size(spec->out_dtype[0]);
    p->result_bytes = (size_t)(m.batch * m.m * m.n) * p->result_width;
    *out = (sg_kernel){.name = name_of(p), .state = p, .release = release, .launch = launch_empty};
    if (p->result_bytes == 0 || m.k == 0)
        return SG_OK;
    sg_status status = build(p, device, m, err);
    if (status != SG_OK) {
        release(p);
        memset(out, 0, sizeof *out);
        return status;
    }
    out->launch = launch;
    out->workspace = sg_cuda_workspace_bytes(p->workspace);
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    if (spec->node->op == &sg_op_fused)
        return sg_cuda_product_in(spec->attr[0].graph) != NULL;
    return (spec->in_dtype[0] == SG_F32 || spec->in_dtype[0] == SG_BF16) && spec->in_dtype[1] == spec->in_dtype[0];
}

const sg_cuda_kernel sg_cuda_matmul_kernels[] = {
    {&sg_op_fused, supports, prepare}, {&sg_op_matmul, supports, prepare}, {0}};
