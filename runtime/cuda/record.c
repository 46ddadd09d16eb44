/* record.c - a run recorded as one CUDA graph, by capturing the device's stream.
 *
 * A stream under capture knows the nodes that its next node will depend on. They are set anew at the start of each part, so
 * that one stream records any graph; what the stream then depends on at the part's end are the part's last nodes. */
#include <string.h>

#include "runtime/cuda/memory_internal.h"

/* Last nodes of each finished part: those of part p are node[first[p] .. first[p + 1]). */
typedef struct sg_cuda_capture {
    cudaGraphNode_t *node;
    int32_t n_nodes, node_capacity;
    int32_t *first;
    int32_t n_parts, part_capacity; /* n_parts counts the part under way too */
    cudaGraphNode_t *on;            /* what the part under way waits for */
    int32_t n_on, on_capacity;
} capture;

static void *with_room(void *array, int32_t n, int32_t *capacity, size_t element)
{
    if (n <= *capacity)
        return array;
    int32_t wider = n > 2 * *capacity ? n : 2 * *capacity;
    void *moved = sg_realloc(array, (size_t)wider * element);
    *capacity = moved ? wider : *capacity;
    return moved;
}

static sg_status out_of_memory(sg_error *err) { return sg_fail(err, SG_E_MEMORY, "out of memory recording a run"); }

static cudaError_t stream_ends(cudaStream_t stream, const cudaGraphNode_t **node, size_t *n)
{
    enum cudaStreamCaptureStatus status;
    const cudaGraphEdgeData *edge;
#if CUDART_VERSION >= 13000
    return cudaStreamGetCaptureInfo(stream, &status, NULL, NULL, node, &edge, n);
#else
    return cudaStreamGetCaptureInfo_v3(stream, &status, NULL, NULL, node, &edge, n);
#endif
}

/* Without `edge` all are plain. */
static cudaError_t set_stream_ends(cudaStream_t stream, cudaGraphNode_t *node, const cudaGraphEdgeData *edge, size_t n)
{
#if CUDART_VERSION >= 13000
    return cudaStreamUpdateCaptureDependencies(stream, node, edge, n, cudaStreamSetCaptureDependencies);
#else
    return cudaStreamUpdateCaptureDependencies_v2(stream, node, edge, n, cudaStreamSetCaptureDependencies);
#endif
}

/* Devices before sm_90 cannot, and kernels compiled for them do not wait by themselves. */
static bool can_overlap(void)
{
    int device, major;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

/* A launch that waits by itself, at its start, for the launches before it: the device then prepares it while they end. What is not
 * a launch has to be over before. */
void sg_cuda_overlap(cudaStream_t stream)
{
    enum { MOST = 16 };
    const cudaGraphNode_t *ends;
    cudaGraphNode_t node[MOST];
    cudaGraphEdgeData edge[MOST] = {0};
    size_t n = 0;
    enum cudaStreamCaptureStatus status;
    if (cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusActive ||
        !can_overlap() || stream_ends(stream, &ends, &n) != cudaSuccess || n == 0 || n > MOST)
        return;
    for (size_t i = 0; i < n; i++) {
        enum cudaGraphNodeType type;
        node[i] = ends[i];
        if (cudaGraphNodeGetType(node[i], &type) == cudaSuccess && type == cudaGraphNodeTypeKernel)
            edge[i] = (cudaGraphEdgeData){.from_port = cudaGraphKernelNodePortProgrammatic,
                                          .type = cudaGraphDependencyTypeProgrammatic};
    }
    set_stream_ends(stream, node, edge, n);
}

/* Keep the last nodes of what the part under way has enqueued. */
static sg_status keep_ends(sg_device *d, sg_error *err)
{
    capture *c = d->capture;
    const cudaGraphNode_t *ends;
    size_t n = 0;
    SG_TRY(sg_cuda_check(stream_ends(d->stream, &ends, &n), "recording", err));
    if (n == 0)
        return SG_OK;
    cudaGraphNode_t *node = with_room(c->node, c->n_nodes + (int32_t)n, &c->node_capacity, sizeof *node);
    if (!node)
        return out_of_memory(err);
    c->node = node;
    memcpy(node + c->n_nodes, ends, n * sizeof *ends);
    c->n_nodes += (int32_t)n;
    return SG_OK;
}

static sg_status end_part(sg_device *d, sg_error *err)
{
    capture *c = d->capture;
    if (c->n_parts > 0)
        SG_TRY(keep_ends(d, err));
    int32_t *first = with_room(c->first, c->n_parts + 1, &c->part_capacity, sizeof *first);
    if (!first)
        return out_of_memory(err);
    c->first = first;
    first[c->n_parts++] = c->n_nodes;
    return SG_OK;
}

/* Parts that enqueued nothing end where others do: each node is named once. */
static int32_t add_ends(const capture *c, int32_t part, cudaGraphNode_t *on, int32_t n)
{
    for (int32_t i = c->first[part]; i < c->first[part + 1]; i++) {
        int32_t k = 0;
        while (k < n && on[k] != c->node[i])
            k++;
        on[k] = c->node[i];
        n += k == n;
    }
    return n;
}

sg_status sg_cuda_part(sg_device *d, const int32_t *on, int32_t n, sg_error *err)
{
    capture *c = d->capture;
    int32_t most = 1, count = 0;
    SG_TRY(end_part(d, err));
    for (int32_t i = 0; i < n; i++)
        most += c->first[on[i] + 1] - c->first[on[i]];
    cudaGraphNode_t *wider = with_room(c->on, most, &c->on_capacity, sizeof *wider);
    if (!wider)
        return out_of_memory(err);
    c->on = wider;
    for (int32_t i = 0; i < n; i++)
        count = add_ends(c, on[i], c->on, count);
    c->n_on = count;
    return sg_cuda_check(set_stream_ends(d->stream, c->on, NULL, (size_t)count), "recording", err);
}

sg_status sg_cuda_beside(sg_device *d, sg_error *err)
{
    capture *c = d->capture;
    if (!c)
        return SG_OK;
    SG_TRY(keep_ends(d, err));
    return sg_cuda_check(set_stream_ends(d->stream, c->on, NULL, (size_t)c->n_on), "recording", err);
}

static sg_status capture_body(sg_device *d, sg_status (*body)(void *user, sg_error *err), void *user,
                              cudaGraph_t *graph, sg_error *err)
{
    capture c = {0};
    SG_TRY(sg_cuda_check(cudaSetDevice(d->index), "recording", err));
    SG_TRY(sg_cuda_check(cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal), "recording", err));
    d->capture = &c;
    sg_status status = body(user, err);
    d->capture = NULL;
    cudaError_t code = cudaStreamEndCapture(d->stream, graph); /* also after a failure: it ends the recording */
    sg_free(c.node);
    sg_free(c.first);
    sg_free(c.on);
    return status == SG_OK ? sg_cuda_check(code, "recording", err) : status;
}

sg_status sg_cuda_record(sg_device *d, sg_status (*body)(void *user, sg_error *err), void *user, void **recording,
                         sg_error *err)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    sg_status status = capture_body(d, body, user, &graph, err);
    if (status == SG_OK)
        status = sg_cuda_prioritize(graph, err);
    if (status == SG_OK)
        status = sg_cuda_check(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagUseNodePriority),
                               "instantiating a recording", err);
    if (graph)
        cudaGraphDestroy(graph);
    if (status != SG_OK)
        cudaGetLastError();
    *recording = exec;
    return status;
}

sg_status sg_cuda_replay(sg_device *d, void *recording, sg_error *err)
{
    SG_TRY(sg_cuda_check(cudaSetDevice(d->index), "run", err));
    return sg_cuda_check(cudaGraphLaunch(recording, d->stream), "run", err);
}

void sg_cuda_forget(sg_device *d, void *recording)
{
    cudaStreamSynchronize(d->stream);
    cudaGraphExecDestroy(recording);
}
