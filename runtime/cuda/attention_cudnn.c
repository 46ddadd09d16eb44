/* attention_cudnn.c - the forward pass of attention by cuDNN: o and logsumexp in bf16 without mask, bias or dropout. Its kernels
 * for Hopper feed the tensor cores asynchronously, which pays once the rows are long.
 *
 * cuDNN is asked by descriptors: tensors, an operation on them, a graph of operations, engines that can run it, a plan. One
 * plan serves all layers of a net. */
#include <cudnn.h>
#include <string.h>

#include "runtime/cuda/attention_cudnn_internal.h"

#if CUDNN_VERSION >= 91300

enum { LEAST_KEYS = 128, LEAST_CAPABILITY = 90, LAST_CAPABILITY = 99, PARTS = 8, UIDS = 6, RANK = 4 };
enum { Q = 1, K, V, OUT, LSE, SCALE }; /* names of the tensors */

struct sg_cuda_cudnn_attention {
    sg_cuda_attention a;
    cudnnHandle_t handle; /* the device's */
    cudnnBackendDescriptor_t part[PARTS + UIDS], plan;
    int32_t n_parts;
    bool refused; /* cuDNN has no kernel */
    int64_t workspace;
    sg_cuda_cudnn_attention *next;
};

static bool good(cudnnStatus_t code) { return code == CUDNN_STATUS_SUCCESS; }

/* ---- descriptors; each function is false where cuDNN refuses */

static bool set(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *value)
{
    return good(cudnnBackendSetAttribute(d, name, type, count, value));
}

static bool set_part(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t part)
{
    return set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

/* A new descriptor, released with the others. */
static cudnnBackendDescriptor_t make(sg_cuda_cudnn_attention *c, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    if (!good(cudnnBackendCreateDescriptor(type, &d)))
        return NULL;
    return c->part[c->n_parts++] = d;
}

static bool tensor(sg_cuda_cudnn_attention *c, cudnnBackendDescriptor_t op, cudnnBackendAttributeName_t place,
                   int64_t uid, const int64_t *dim, const int64_t *stride)
{
    cudnnBackendDescriptor_t d = make(c, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = uid <= OUT ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    int64_t alignment = 16;
    bool by_value = uid == SCALE;
    return d && set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type) &&
           set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, RANK, dim) &&
           set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, RANK, stride) &&
           set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid) &&
           set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment) &&
           set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value) && good(cudnnBackendFinalize(d)) &&
           set_part(op, place, d);
}

static bool rows(sg_cuda_cudnn_attention *c, cudnnBackendDescriptor_t op, cudnnBackendAttributeName_t place,
                 int64_t uid, int64_t count, int64_t width, sg_cuda_attention_layout l)
{
    int64_t dim[RANK] = {c->a.batch, c->a.heads, count, width}, stride[RANK] = {l.batch, l.head, l.row, 1};
    return tensor(c, op, place, uid, dim, stride);
}

static bool operation(sg_cuda_cudnn_attention *c, cudnnBackendDescriptor_t *out)
{
    const sg_cuda_attention *a = &c->a;
    cudnnBackendDescriptor_t op = *out = make(c, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    int64_t dim[RANK] = {a->batch, a->heads, a->queries, 1}, one[RANK] = {1, 1, 1, 1};
    int64_t stride[RANK] = {(int64_t)a->heads * a->queries, a->queries, 1, 1};
    return op && rows(c, op, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, Q, a->queries, a->depth, a->q) &&
           rows(c, op, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, K, a->keys, a->depth, a->k) &&
           rows(c, op, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, V, a->keys, a->width, a->v) &&
           rows(c, op, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, OUT, a->queries, a->width, a->out) &&
           tensor(c, op, CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, LSE, dim, stride) &&
           tensor(c, op, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, SCALE, one, one) && good(cudnnBackendFinalize(op));
}

/* The heuristic's first choice, as for products: a choice by timing would change the bits from run to run. */
static bool configuration(sg_cuda_cudnn_attention *c, cudnnBackendDescriptor_t op, cudnnBackendDescriptor_t *out)
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t graph = make(c, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (!graph || !set(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle) ||
        !set_part(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, op) || !good(cudnnBackendFinalize(graph)))
        return false;
    cudnnBackendDescriptor_t heuristic = make(c, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    if (!heuristic || !set_part(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph) ||
        !set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode) ||
        !good(cudnnBackendFinalize(heuristic)))
        return false;
    int64_t n = 0;
    *out = make(c, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    return *out &&
           good(cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                         out)) &&
           n >= 1;
}

static bool plan(sg_cuda_cudnn_attention *c)
{
    cudnnBackendDescriptor_t op, how;
    int64_t n;
    if (!operation(c, &op) || !configuration(c, op, &how))
        return false;
    c->plan = make(c, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    return c->plan && set(c->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &c->handle) &&
           set_part(c->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, how) && good(cudnnBackendFinalize(c->plan)) &&
           good(cudnnBackendGetAttribute(c->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
                                         &c->workspace));
}

/* ---- finding */

static bool fits(const sg_device *device, const sg_cuda_attention *a)
{
    const sg_cuda_attention_layout l[] = {a->q, a->k, a->v, a->out};
    for (int32_t i = 0; i < 4; i++)
        if (l[i].row % 8 || l[i].head % 8 || l[i].batch % 8)
            return false;
    return device->capability >= LEAST_CAPABILITY && device->capability <= LAST_CAPABILITY && a->bf16 && !a->causal &&
           !a->dropout && a->depth == a->width && a->depth % 8 == 0 && a->depth <= SG_ATTENTION_MOST_DEPTH &&
           a->keys >= LEAST_KEYS && a->queries >= LEAST_KEYS;
}

static bool same(const sg_cuda_attention *a, const sg_cuda_attention *b)
{
    const sg_cuda_attention_layout *x = &a->q, *y = &b->q;
    for (int32_t i = 0; i < 4; i++)
        if (x[i].batch != y[i].batch || x[i].head != y[i].head || x[i].row != y[i].row)
            return false;
    return a->batch == b->batch && a->heads == b->heads && a->queries == b->queries && a->keys == b->keys &&
           a->depth == b->depth && a->scale == b->scale;
}

static void free_parts(sg_cuda_cudnn_attention *c)
{
    while (c->n_parts > 0)
        cudnnBackendDestroyDescriptor(c->part[--c->n_parts]);
}

sg_status sg_cuda_cudnn_attention_find(sg_device *device, const sg_cuda_attention *a, sg_cuda_cudnn_attention **out,
                                       sg_error *err)
{
    *out = NULL;
    if (!fits(device, a))
        return SG_OK;
    for (sg_cuda_cudnn_attention *c = device->attention; c; c = c->next)
        if (same(&c->a, a)) {
            *out = c->refused ? NULL : c;
            return SG_OK;
        }
    if (!device->dnn && !good(cudnnCreate(&device->dnn)))
        return SG_OK;
    sg_cuda_cudnn_attention *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory for attention");
    c->a = *a;
    c->handle = device->dnn;
    c->refused = !plan(c);
    if (c->refused)
        free_parts(c);
    c->next = device->attention;
    device->attention = c;
    *out = c->refused ? NULL : c;
    return SG_OK;
}

size_t sg_cuda_cudnn_attention_workspace(const sg_cuda_cudnn_attention *c) { return (size_t)c->workspace; }

void sg_cuda_cudnn_attention_free_all(sg_device *device)
{
    while (device->attention) {
        sg_cuda_cudnn_attention *c = device->attention;
        device->attention = c->next;
        free_parts(c);
        sg_free(c);
    }
}

/* ---- running */

bool sg_cuda_cudnn_attention_run(const sg_cuda_cudnn_attention *c, const sg_cuda_attention_operands *x, void *workspace,
                                 cudaStream_t stream, sg_error *err)
{
    const int64_t uid[UIDS] = {Q, K, V, OUT, LSE, SCALE};
    const void *at[UIDS] = {x->q, x->k, x->v, x->out, x->out_lse, &c->a.scale};
    cudnnBackendDescriptor_t pack = NULL;
    bool done = good(cudnnSetStream(c->handle, stream)) &&
                good(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack)) &&
                set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, UIDS, uid) &&
                set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, UIDS, at) &&
                set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace) &&
                good(cudnnBackendFinalize(pack)) && good(cudnnBackendExecute(c->handle, c->plan, pack));
    if (pack)
        cudnnBackendDestroyDescriptor(pack);
    return done || sg_fail(err, SG_E_DEVICE, "cuDNN: attention failed") == SG_OK;
}

#else

sg_status sg_cuda_cudnn_attention_find(sg_device *device, const sg_cuda_attention *a, sg_cuda_cudnn_attention **out,
                                       sg_error *err)
{
    (void)device, (void)a, (void)err;
    *out = NULL;
    return SG_OK;
}

size_t sg_cuda_cudnn_attention_workspace(const sg_cuda_cudnn_attention *c) { return c == NULL; }

bool sg_cuda_cudnn_attention_run(const sg_cuda_cudnn_attention *c, const sg_cuda_attention_operands *x, void *workspace,
                                 cudaStream_t stream, sg_error *err)
{
    (void)c, (void)x, (void)workspace, (void)stream;
    return sg_fail(err, SG_E_DEVICE, "attention by cuDNN needs cuDNN 9.13") == SG_OK;
}

void sg_cuda_cudnn_attention_free_all(sg_device *device) { (void)device; }

#endif
