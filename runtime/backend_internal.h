/* backend_internal.h - what a device implements: memory, and a kernel for each node it supports. The compile
 * pipeline, the planner and the executor know devices through this table only; a module that is loaded when its device is
 * asked for (CUDA) exports one symbol that returns it.
 *
 * prepare() may allocate, search and compile. launch() may not allocate, synchronise or call back: its pointers are
 * fixed by the plan, which is what capture into a CUDA graph needs. */
#ifndef SG_BACKEND_INTERNAL_H
#define SG_BACKEND_INTERNAL_H

#include "graph/graph.h"

typedef struct sg_backend sg_backend;
typedef struct sg_device sg_device; /* opaque, the backend's */

/* What prepare sees of a node: descriptor, attributes, and the shape and dtype of each operand. */
typedef struct sg_kernel_spec {
    const sg_node *node;
    const sg_attr *attr;
    int32_t n_in, n_out;
    const sg_shape *in_shape, *out_shape;
    const sg_dtype *in_dtype, *out_dtype;
    int32_t threads;
} sg_kernel_spec;

/* What launch gets. in[k] is NULL for operands read for their shape alone. in[k] == out[j] only where the kernel
 * said so in `alias`. */
typedef struct sg_launch {
    const void *const *in;
    void *const *out;
    void *workspace;
    void *state; /* sg_kernel.state */
    sg_run_index run;
    int32_t threads;
    void *stream; /* devices with streams */
    /* More than 1 only for kernels that said so in `replicates`: the same work `replicas` times, each time `stride` bytes further
     * in all of the memory above. */
    int32_t replicas;
    size_t stride;
} sg_launch;

/* Return false and fill err for failures that depend on values (an index out of range). */
typedef bool (*sg_launch_fn)(const sg_launch *launch, sg_error *err);

typedef struct sg_kernel {
    const char *name; /* for profiles: "onednn matmul", "fused 7 ops" */
    sg_launch_fn launch;
    void *state; /* shapes, primitives, programs; released by `release` */
    void (*release)(void *state);
    size_t workspace; /* bytes from the arena */
    /* alias[j]: input whose memory output j may take over (same size, elementwise access), or -1. NULL: none. */
    const int32_t *alias;
    bool replicates; /* one launch does all replicas; else there is one launch for each */
} sg_kernel;

/* What a device is opened for. */
typedef struct sg_device_options {
    const char *spec; /* "cuda:1" */
    int32_t threads;
    bool tf32; /* products of f32 may round their operands to TF32 */
    int32_t replicas;
} sg_device_options;

/* A device whose memory is not the host's. Its transfers and launches are enqueued and happen in that order; the host does
 * not wait for them unless it says so. What fails on the way shows at the next `wait` or `wait_mark`.
 *
 * A device that was opened for R replicas allocates R times: replica r's copy of what lies at p is at p + r * stride(device), for
 * every p. Transfers and fills touch what they are told to; only `copy` is for several.
 *
 * In a recording, launches that do not touch each other's memory may happen at the same time: kernels keep nothing that they
 * write outside of their outputs and their workspace, except for themselves. */
typedef struct sg_apart {
    /* Memory of the host that transfers are fast from and to. */
    void *(*allocate_host)(sg_device *device, size_t bytes);
    void (*release_host)(sg_device *device, void *memory);
    sg_status (*upload)(sg_device *device, void *to, const void *from, size_t bytes, sg_error *err);
    sg_status (*download)(sg_device *device, void *to, const void *from, size_t bytes, sg_error *err);
    /* The same in each of `replicas`, one after the other in memory. */
    sg_status (*copy)(sg_device *device, void *to, const void *from, size_t bytes, int32_t replicas, sg_error *err);
    sg_status (*fill)(sg_device *device, void *to, int byte, size_t bytes, sg_error *err);
    /* Until all uploads are done: their sources may change. */
    sg_status (*wait_uploads)(sg_device *device, sg_error *err);
    /* A mark is passed when everything is done that was enqueued before it was set. Waiting for one that was never set returns
     * at once. */
    sg_status (*make_mark)(sg_device *device, void **mark, sg_error *err);
    sg_status (*set_mark)(sg_device *device, void *mark, sg_error *err);
    sg_status (*wait_mark)(sg_device *device, void *mark, sg_error *err);
    void (*free_mark)(sg_device *device, void *mark);
    /* Until everything enqueued is done. */
    sg_status (*wait)(sg_device *device, sg_error *err);
    size_t (*available)(sg_device *device); /* bytes that can be allocated, for all replicas together */
    size_t (*stride)(sg_device *device);
    void *(*stream)(sg_device *device); /* what sg_launch.stream is */
    /* Keep what body(user) enqueues, without doing it, to be done as one by each `replay`. NULL: not offered. */
    sg_status (*record)(sg_device *device, sg_status (*body)(void *user, sg_error *err), void *user, void **recording,
                        sg_error *err);
    /* For `body`: what it enqueues from now on is the next part of the recording; parts are numbered from 0. Within a part,
     * order is the order of calls. A part waits for the parts on[0..n) and, by itself, for no others. Without any part, a
     * recording keeps the order of calls. */
    sg_status (*part)(sg_device *device, const int32_t *on, int32_t n, sg_error *err);
    /* For `body`: what the part enqueues from now on need not wait for what it has enqueued so far. At other times, nothing. */
    sg_status (*beside)(sg_device *device, sg_error *err);
    sg_status (*replay)(sg_device *device, void *recording, sg_error *err);
    void (*forget)(sg_device *device, void *recording);
} sg_apart;

struct sg_backend {
    const char *name;
    sg_dtype real;         /* element type of real tensors on this device (F64: every dtype is stored as double) */
    const sg_apart *apart; /* NULL: the device computes in the host's memory, the store's included */
    bool tf32;             /* can be opened for TF32 */
    sg_status (*open)(const sg_device_options *options, sg_device **out, sg_error *err);
    void (*close)(sg_device *device);
    const char *(*describe)(const sg_device *device);
    /* Does the device compute in this type of low precision? NULL: in none. */
    bool (*computes)(const sg_device *device, sg_dtype dtype);
    /* Does the device have a kernel for this node (op, dtypes, shapes)? Composites it lacks are decomposed. */
    bool (*supports)(const sg_device *device, const sg_kernel_spec *spec);
    sg_status (*prepare)(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err);
    /* Group primitive nodes into fused nodes (sg_op_fused); NULL: no fusion. */
    sg_status (*fuse)(sg_graph *from, sg_graph *to, sg_error *err);
    /* Call body(user), the launches of one run, with whatever the device keeps ready for as long. NULL: call it directly. */
    void (*run)(sg_device *device, void (*body)(void *user), void *user);
    void *(*allocate)(sg_device *device, size_t bytes);
    void (*release)(sg_device *device, void *memory);
};

/* Moves with every change of this file. A module exports sg_backend_module: its table, or NULL and a message if it was built
 * for another version. */
#define SG_BACKEND_ABI 5
typedef const sg_backend *(*sg_backend_module_fn)(uint32_t abi, sg_error *err);

const sg_backend *sg_backend_reference(void);
const sg_backend *sg_backend_cpu(void);

/* A chain of elementwise ops, possibly ending in a sum over the last axis, as one node: attribute 0 is the body
 * graph (its inputs in order are the node's inputs, its results the node's outputs). Made by the fusion pass, never
 * by users. */
extern const sg_op sg_op_fused;
sg_value sg_build_fused(sg_graph *graph, sg_graph *body, const sg_value *in, int32_t n_in);

#endif
