/* runtime.h - the public header of runtime/: sessions (a device, a store, one arena) and plans (compiled graphs).
 *
 *     sg_session *s;  sg_plan *step;
 *     sg_session_options options = {.size = sizeof options, .backend = "cpu", .threads = 2};
 *     sg_session_new(&s, store, &options, &err);
 *     sg_plan_new(&step, s, graph, &err);
 *     float *x = sg_plan_input(step, "x");            // fill it ...
 *     sg_plan_run(step, &err);
 *     const float *loss = sg_plan_result(step, "loss");
 *
 * A plan that was made allocates no more, but for the first sg_plan_post to a slot. Results do not depend on the number of threads. */
#ifndef SG_RUNTIME_H
#define SG_RUNTIME_H

#include "graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_session sg_session;
typedef struct sg_plan sg_plan;

typedef struct sg_session_options {
    size_t size;         /* sizeof(sg_session_options) */
    const char *backend; /* "cpu" (default) or "reference"; "cuda", "cuda:1" where the module is present */
    int32_t threads;     /* 0: the machine's cores, at most 16 */
    bool no_fusion;      /* compile every node by itself */
    const char
        *decompose; /* "attention,layer_norm": composites to run by their decomposition, derivatives included, although
                             * the backend has kernels for them; "all" for every one. To find out which kernel is wrong. */
    bool audit;     /* run each node again on the reference rules and report the first that differs */
    double audit_tolerance; /* relative to max(1, |expected|); 0: 1e-4 */
    bool poison;            /* fill freed memory with NaN; default on in debug builds */
    bool profile;           /* keep times of each node */
    /* "f32" (default); "tf32" on "cuda": f32 whose products may round their operands to TF32; or "bf16": mixed precision on
     * devices that compute in it ("cuda" from sm_80 on; "reference" computes in
     * double whatever is said). Products, attention and normalisations take and give bf16 and add up in f32; inputs, results
     * and the store stay f32, and so do losses and optimisers: docs/conventions.md. */
    const char *precision;
    /* Run this many stores side by side (0: one): the session's and, in `more`, the others, which hold the same entries. A plan
     * then computes the same for each with one set of launches where the device can: whatever a store holds (parameters, seeds,
     * rates) is that replica's own, inputs are common to all, and the bits are those that each store gets by itself. */
    int32_t replicas;
    sg_store *const *more; /* [replicas - 1], read by sg_session_new alone */
} sg_session_options;

/* The stores must hold the backend's real type (F64 for "reference", F32 else) and outlive the session. */
sg_status sg_session_new(sg_session **out, sg_store *store, const sg_session_options *options, sg_error *err);
void sg_session_free(sg_session *session);
sg_store *sg_session_store(sg_session *session);
int32_t sg_session_threads(const sg_session *session);
/* Threads that `threads = 0` stands for on this machine. */
int32_t sg_machine_threads(void);
/* One line on what was chosen: backend, threads, instruction set, library versions. */
const char *sg_session_describe(const sg_session *session);
/* Instruction set that kernels were chosen for on this machine: "avx512", "avx2" or "x86-64". */
const char *sg_cpu_isa(void);
/* SEALGRAPH_ISA, which may name a lower one, must be unset, empty, or one of these that the processor has; else SG_E_CONFIG. A session
 * on "cpu" checks it too. */
sg_status sg_cpu_isa_check(sg_error *err);
/* Names of the backends that can be asked for, comma-separated: "cpu, reference", and "cuda" if its module is there. */
const char *sg_backend_names(void);
/* Where the module of backend `name` ("cuda") is, whether or not it can be used here; NULL: there is none. Returns `out`. */
const char *sg_module_path(const char *name, char *out, size_t size);
/* Until all runs of the session are done. Devices with memory of their own run on while the host does other things; a failure
 * of theirs (an index out of range) is reported here, by sg_plan_fetch, or by the next run. */
sg_status sg_session_wait(sg_session *session, sg_error *err);

/* A copy of a store of the session, [replica] in the order of its options. Its values are in memory that the device writes to fast. */
typedef struct sg_shadow {
    sg_store *store;
    void *memory;
} sg_shadow;
/* Bring the copy up to date; the first time, of a zeroed one, make it. Values that are on the device stay there and are on their
 * way until sg_session_wait. To be released before the session. */
sg_status sg_shadow_refresh(sg_shadow *shadow, sg_session *session, int32_t replica, sg_error *err);
void sg_shadow_release(sg_shadow *shadow, sg_session *session);

/* Whether runs of the session's device return before their work is done, so that the host may prepare the next. */
bool sg_session_runs_ahead(const sg_session *session);

/* Compile the graph's results and effects at its present sizes. The graph may be freed or rebound afterwards.
 * Reports every node without a kernel at once. The store's entries are initialised by the caller
 * (sg_store_initialise). */
sg_status sg_plan_new(sg_plan **out, sg_session *session, sg_graph *graph, sg_error *err);
void sg_plan_free(sg_plan *plan);

/* Inputs, of all replicas, and results, of the first, by name. Memory belongs to the plan's part of the arena: element type float, int32_t or uint8_t
 * (bool) on "cpu" and "cuda"; double for every dtype on "reference". Contents of inputs stay until overwritten; results are
 * valid until the next run of any plan of the session. NULL if there is no such name. On "cuda" the memory is the
 * host's: ask for an input each time before writing to it, since asking is what has it sent to the device, and for a result
 * after each run, since asking is what waits for it and fetches it (NULL if the device has failed: see sg_session_wait). */
void *sg_plan_input(sg_plan *plan, const char *name);
/* The same for callers that write the whole input: what is there before is undefined, so nothing is kept or copied. */
void *sg_plan_input_anew(sg_plan *plan, const char *name);
const void *sg_plan_result(sg_plan *plan, const char *name);
const sg_shape *sg_plan_input_shape(const sg_plan *plan, const char *name);
const sg_shape *sg_plan_result_shape(const sg_plan *plan, const char *name);
/* The same through doubles, whatever the backend: for tests and small tools. n must equal the element count. */
sg_status sg_plan_feed(sg_plan *plan, const char *name, const double *data, int64_t n, sg_error *err);
sg_status sg_plan_fetch(sg_plan *plan, const char *name, double *out, int64_t n, sg_error *err);

/* Run once: inputs -> results, and the store's entries take their new values. A failure (an index out of range)
 * names the node. Updates happen in place, so after one the entries that the plan assigns may hold new or old
 * values. */
sg_status sg_plan_run(sg_plan *plan, sg_error *err);

/* Results without waiting. sg_plan_post, called after a run, has that run's results sent to post `slot` (0 .. SG_POSTS - 1,
 * chosen by the caller) behind it; on "cuda" it does not wait for the run. sg_plan_posted waits for that run alone, not for
 * later ones, and gives a result's elements as the replica has them (0 where there is one); they stay until the next post to the slot. A failure of the device (an index out
 * of range) is told here, perhaps one of a later run. The first post to a slot allocates memory of the plan's. */
enum { SG_POSTS = 4 };
sg_status sg_plan_post(sg_plan *plan, int32_t slot, sg_error *err);
sg_status sg_plan_posted(sg_plan *plan, int32_t slot, int32_t replica, const char *name, const void **out,
                         sg_error *err);

/* What a plan costs, before running it: for one replica. */
typedef struct sg_plan_info {
    size_t arena_bytes;     /* planned temporaries, inputs and results */
    size_t temporary_bytes; /* of these, what is neither input nor result */
    size_t input_bytes;     /* elements of the inputs */
    size_t result_bytes;    /* elements of the results */
    size_t store_bytes;     /* entries the plan reads or writes */
    int32_t nodes;          /* scheduled kernels, loop bodies counted once */
    int32_t fused;          /* of these, fused chains */
    double flops, bytes;    /* of one run, loops multiplied out */
} sg_plan_info;
sg_plan_info sg_plan_describe(const sg_plan *plan);
/* One line a scheduled kernel: name, op, shapes, kernel, offset, bytes. */
void sg_plan_print(const sg_plan *plan, FILE *out);

/* Times of the runs so far (session option `profile`): a table by kernel, and Chrome's trace format. Whether all could be written is
 * for who opened `out` to ask. */
void sg_plan_profile_print(const sg_plan *plan, FILE *out);
sg_status sg_plan_profile_trace(const sg_plan *plan, FILE *out, sg_error *err);

/* Measured limits of this machine for benchmarks: f32 multiply-add rate (flop/s) and memory bandwidth (byte/s) with the
 * given number of threads. Takes about half a second. */
typedef struct sg_machine_peak {
    double flops, bytes;
} sg_machine_peak;
sg_machine_peak sg_measure_peak(int32_t threads);

/* Measured limits of a session's device as a memory: bytes a second read and written by copies within it, and (devices with
 * memory of their own, else 0) moved from and to page-locked memory of the host. */
typedef struct sg_memory_peak {
    double copy, upload, download;
} sg_memory_peak;
sg_status sg_measure_memory(sg_session *session, sg_memory_peak *out, sg_error *err);

/* Evaluate values of a graph once on the reference backend, in double: feed[i] are the elements of x[i] (inputs, or any
 * values, which are then replaced), out[k] receives y[k]. Store entries are read, not written. This is the oracle of
 * tests and the evaluator for sg_gradcheck. */
sg_status sg_reference_eval(sg_graph *graph, const sg_value *x, double *const *feed, int32_t n_x, const sg_value *y,
                            double *const *out, int32_t n_y, sg_error *err);

#ifdef __cplusplus
}
#endif
#endif
