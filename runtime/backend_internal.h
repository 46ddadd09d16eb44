/* backend_internal.h - what a device implements: memory, and a kernel for each node it supports. The compile
 * pipeline, the planner and the executor know devices through this table only; a CUDA module exports one symbol that
 * returns it.
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
} sg_kernel;

struct sg_backend {
    const char *name;
    sg_dtype real;    /* element type of real tensors on this device (F64: every dtype is stored as double) */
    bool host_memory; /* the store's memory can be used as it is */
    sg_status (*open)(const char *spec, int32_t threads, sg_device **out, sg_error *err);
    void (*close)(sg_device *device);
    const char *(*describe)(const sg_device *device);
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

const sg_backend *sg_backend_reference(void);
const sg_backend *sg_backend_cpu(void);

/* A chain of elementwise ops, possibly ending in a sum over the last axis, as one node: attribute 0 is the body
 * graph (its inputs in order are the node's inputs, its results the node's outputs). Made by the fusion pass, never
 * by users. */
extern const sg_op sg_op_fused;
sg_value sg_build_fused(sg_graph *graph, sg_graph *body, const sg_value *in, int32_t n_in);

#endif
