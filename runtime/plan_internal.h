/* plan_internal.h - the data of sessions and compiled plans, and the passes that make them.
 *
 * A plan is a tree of frames: the graph itself and one frame for each loop body. A frame is a list of steps (a
 * kernel, or a loop with a frame of its own). Every value lives in a buffer; several values share one where that is
 * exact: views, results that take over the memory of an operand that dies, and the states of loops.
 *
 * Time is counted in ticks over all frames in program order, so that one interval [first, last] a buffer says when its
 * memory is in use, loops included: what a body makes lives inside the loop's ticks, what a loop reads from outside
 * lives to the loop's end. */
#ifndef SG_PLAN_INTERNAL_H
#define SG_PLAN_INTERNAL_H

#include "graph/mirror_internal.h"
#include "runtime/backend_internal.h"
#include "runtime/runtime.h"

enum { SG_ALIGN = 64, SG_LETTERS = 16, SG_LETTER_BYTES = 256 };

/* ------------------------------------------------------------------------------------------------------- sessions */

/* What every replica has a copy of: that of replica r is r strides behind `at`. */
typedef struct sg_slabs {
    char *at;
    size_t stride;
} sg_slabs;

typedef struct sg_mirror sg_mirror;
typedef struct sg_mirror_block sg_mirror_block;

/* One of the stores that a session runs side by side. */
typedef struct sg_replica {
    sg_mirror_owner owner; /* first: the store knows the replica by it */
    sg_session *session;
    sg_store *store;
    uint64_t *held; /* by entry: version of the value in its mirror; 0: none */
} sg_replica;

struct sg_session {
    const sg_backend *backend;
    const sg_apart *apart; /* the backend's */
    sg_device *device;
    sg_replica *replica;
    int32_t n_replicas;
    sg_session_options options;
    sg_dtype low; /* of mixed precision; F32 without */
    int32_t threads;
    char description[256];
    sg_slabs arena; /* temporaries of whichever plan runs */
    size_t arena_bytes;
    uint64_t arena_version; /* moves when `arena` does: plans then compute their pointers again */
    sg_mirror *mirror;      /* of each store entry, on devices with memory of their own */
    int32_t n_mirrors;
    sg_mirror_block *mirror_memory;
    char *letters;      /* page-locked copies of small entries on their way to the device: SG_LETTERS a replica */
    void **letter_free; /* marks */
    int32_t next_letter;
    sg_error failure; /* of work that was enqueued, found where it could not be told */
};

/* sg_session_new with the device's table instead of its name: for modules that bring a backend, and for tests. */
sg_status sg_session_open(sg_session **out, const sg_backend *backend, sg_store *store,
                          const sg_session_options *options, sg_error *err);
/* A copy of `bytes` for each replica; false if out of memory. */
bool sg_session_allocate(sg_session *session, size_t bytes, sg_slabs *out);
/* Make the session's arena hold `bytes`. */
sg_status sg_session_reserve(sg_session *session, size_t bytes, sg_error *err);
/* Does the user want this composite, or what it is a derivative of, decomposed? */
bool sg_session_decomposes(const sg_session *session, const sg_op *op);
sg_dtype sg_session_storage(const sg_session *session, sg_dtype dtype);

/* ------------------------------------------------------------------------------------------------------------ plans */

typedef enum sg_place {
    SG_PLACE_ARENA,  /* temporary: offset in the session's arena */
    SG_PLACE_PINNED, /* inputs, results, constants, mirrors: offset in the plan's own memory */
    SG_PLACE_ENTRY   /* the store's memory */
} sg_place;

typedef struct sg_buffer {
    sg_place place;
    int32_t entry;
    size_t bytes, offset;
    int32_t first, last; /* ticks */
    char *at;            /* of replica 0 */
    size_t stride;       /* to the next replica's; see sg_buffer_at */
} sg_buffer;

typedef struct sg_copy {
    int32_t from, to; /* buffers of equal size */
} sg_copy;

typedef struct sg_copies {
    sg_copy *item;
    int32_t count;
} sg_copies;

typedef struct sg_frame sg_frame;

typedef struct sg_step {
    const sg_node *node;
    sg_kernel_spec spec;
    sg_kernel kernel;   /* launch is NULL for a loop */
    int32_t *in, *out;  /* buffers; -1: read for its shape alone */
    const void **in_at; /* [replicas, n_in] */
    void **out_at;      /* [replicas, n_out] */
    int32_t workspace;  /* buffer or -1 */
    int32_t begin, end; /* ticks */
    sg_frame *body;
    int64_t count;   /* iterations */
    sg_copies start; /* initial states that could not be taken over */
    int64_t calls, nanoseconds;
} sg_step;

struct sg_frame {
    sg_graph *graph;
    int32_t *root; /* values that must exist at the end */
    int32_t n_roots;
    bool *live; /* of each node: needed by the roots */
    sg_step *step;
    int32_t n_steps;
    int32_t *buffer; /* of each value; -1 */
    /* At the end of a run or iteration: values that other copies would overwrite are saved, then the slots that were
     * not written in place receive theirs. */
    sg_copies save, commit;
    int32_t end; /* tick */
};

/* An input or a result. */
typedef struct sg_port {
    const char *name;
    sg_shape shape;
    sg_dtype dtype;
    int32_t buffer;
    size_t staged; /* place in copies of all inputs or results */
    int32_t turn;  /* input: the copy that holds its newest value */
    bool changed;  /* input: to be sent before the next run */
    bool current;  /* result: the copy holds the last run's */
} sg_port;

/* A copy of all inputs, for devices with memory of their own. */
typedef struct sg_input_copy {
    char *memory;
    void *free;     /* mark behind the last transfer from it */
    bool under_way; /* that transfer may not be done */
} sg_input_copy;

typedef struct sg_post sg_post;

/* A store entry that the plan reads or writes. If its element type is not the device's (integer entries on the
 * reference backend), its buffer is a mirror in pinned memory, converted before and after a run. */
typedef struct sg_used_entry {
    int32_t entry, buffer;
    int32_t value; /* its param value in the top graph, or -1 */
    int32_t after; /* the value it takes, or -1 */
    bool mirrored;
} sg_used_entry;

typedef struct sg_event {
    const sg_step *step;
    int64_t start, duration;
} sg_event;

struct sg_plan {
    sg_session *session;
    sg_graph *graph; /* lowered and fused; owned */
    sg_frame *top;
    sg_buffer *buffer;
    int32_t n_buffers, buffer_capacity;
    int32_t *dying;    /* arena buffers in order of `last`, for poisoning: those of tick t are */
    int32_t *dying_at; /* dying[dying_at[t] .. dying_at[t + 1]) */
    int32_t ticks;
    sg_slabs pinned;
    size_t pinned_bytes, scratch_bytes;
    uint64_t arena_version;
    sg_port *input, *result;
    int32_t n_inputs, n_results;
    sg_used_entry *entry;
    int32_t n_entries;
    struct sg_block *pool; /* what sg_plan_take handed out */
    sg_event *event;
    int64_t n_events, event_capacity;
    int64_t epoch; /* clock at compilation, origin of the trace */
    bool no_reuse;
    bool concurrent; /* steps that do not depend on each other share no memory */
    sg_post *post;   /* [SG_POSTS], from the first one on */
    size_t staged_results;
    /* Devices with memory of their own: */
    sg_input_copy input_copy[2];
    int32_t turn;               /* the copy that the next run sends */
    char *result_copy;          /* replica 0's */
    void *recording;            /* the run as one piece of work, for the present pointers */
    struct sg_hazards *hazards; /* while it is being recorded */
    int64_t runs;               /* since the pointers were computed */
};

/* Zeroed memory that lives as long as the plan; NULL if out of memory. */
void *sg_plan_take(sg_plan *plan, int64_t count, size_t bytes);
/* A new buffer, or -1 if out of memory. */
int32_t sg_plan_buffer(sg_plan *plan, sg_place place, size_t bytes);

/* sg_plan_new, and with `no_reuse` a plan in which no two temporaries share memory: what planned memory is compared
 * with. */
sg_status sg_plan_compile(sg_plan **out, sg_session *session, sg_graph *graph, bool no_reuse, sg_error *err);

/* lower.c: replace composites that the device lacks by their decomposition, run in f32 what it lacks in bf16, then report every
 * node still without kernel. */
sg_status sg_lower(sg_session *session, sg_graph *from, sg_graph **out, sg_error *err);
/* hoist.c: a copy in which loop bodies compute only what changes from one iteration to the next. */
sg_status sg_hoist(sg_graph *from, sg_graph **out, sg_error *err);
sg_status sg_check_kernels(sg_session *session, sg_graph *graph, sg_error *err);
/* The values that a run of the graph must produce: results, then what is written to the store. */
int32_t sg_root_count(const sg_graph *graph);
void sg_roots(sg_graph *graph, int32_t *out);

/* spec.c: what a kernel needs to know of a node; the arrays belong to the plan, or, without one, to the caller. */
sg_status sg_spec_fill(sg_plan *plan, sg_graph *graph, const sg_node *node, sg_kernel_spec *spec, sg_error *err);
/* Has the device a kernel for the node? `wide`: for the same in f32 where there is bf16, which is no for a node without any. The only
 * failure is SG_E_MEMORY. */
sg_status sg_spec_supported(sg_session *session, sg_graph *graph, const sg_node *node, bool wide, bool *yes);

/* schedule.c: the frame of a graph and of the loop bodies in it: steps in order, kernels prepared. */
sg_status sg_frame_make(sg_plan *plan, sg_graph *graph, const int32_t *root, int32_t n, sg_frame **out, sg_error *err);
/* Put the frame's steps in an order that needs less memory, if there is one (order.c). */
sg_status sg_frame_order(sg_plan *plan, sg_frame *frame, sg_error *err);

/* A place that outlives a run or iteration: a store entry, or the state of a loop. */
typedef struct sg_slot {
    int32_t home;          /* buffer */
    int32_t before, after; /* its value at the start (-1: not read) and at the end */
} sg_slot;

/* layout.c: a buffer for every value of a frame and the loops in it. */
sg_status sg_frame_layout(sg_plan *plan, sg_frame *frame, const sg_slot *slot, int32_t n_slots, sg_error *err);

/* plan_memory.c: offsets of all buffers. */
sg_status sg_place_buffers(sg_plan *plan, sg_error *err);

/* concurrency.c: is this a plan whose steps are to share memory only where they depend on each other? Ask before the layout. */
bool sg_concurrency_fits(const sg_plan *plan, const sg_frame *frame);
/* For the buffers of a plan that is laid out; released also after a failure. */
typedef struct sg_concurrency sg_concurrency;
sg_status sg_concurrency_make(sg_concurrency **out, const sg_plan *plan, sg_error *err);
void sg_concurrency_free(sg_concurrency *concurrency);
/* Does all that uses buffer a come before all that uses b, by what the steps need of each other? */
bool sg_concurrency_precedes(const sg_concurrency *concurrency, int32_t a, int32_t b);

/* execute.c: compute all pointers; needed when the session's arena has moved. */
void sg_plan_resolve(sg_plan *plan);
/* Where a replica has this buffer. Entries lie in their stores, or at one stride on devices with memory of their own. */
char *sg_buffer_at(const sg_plan *plan, const sg_buffer *buffer, int32_t replica);

/* Copies that the plan makes at loop starts and at ends of frames, loop bodies counted once: 0 when all updates are
 * in place. */
int32_t sg_plan_copy_count(const sg_plan *plan);

/* apart.c: devices with memory of their own. */
sg_status sg_replicas_open(sg_session *session, sg_store *first, sg_error *err);
void sg_replicas_close(sg_session *session);
sg_slabs sg_mirror_at(const sg_session *session, int32_t entry);
/* Memory of the plan on the device, of its entries too; what does not fit is told with all numbers. */
sg_status sg_apart_allocate(sg_plan *plan, sg_error *err);
sg_status sg_apart_before(sg_plan *plan, sg_error *err);
void sg_apart_after(sg_plan *plan);
/* Keep a failure, for the next run to report. */
void sg_session_note(sg_session *session, sg_status status, const sg_error *err);
sg_status sg_session_take_failure(sg_session *session, sg_error *err);
/* Transfers and fills of the session's device, or plain ones. */
sg_status sg_session_upload(sg_session *session, void *to, const void *from, size_t bytes, sg_error *err);
sg_status sg_session_fill(sg_session *session, void *to, int byte, size_t bytes, sg_error *err);

/* record.c: record what body(plan) enqueues. While that runs, each step and copy is told before it is enqueued; at other times
 * telling does nothing. */
sg_status sg_record(sg_plan *plan, sg_status (*body)(void *plan, sg_error *err), sg_error *err);
sg_status sg_record_step(const sg_plan *plan, const sg_step *step, sg_error *err);
sg_status sg_record_copy(const sg_plan *plan, const sg_buffer *from, const sg_buffer *to, sg_error *err);

/* staging.c: inputs and results on their way. */
sg_status sg_staging_make(sg_plan *plan, sg_error *err);
void sg_staging_free(sg_plan *plan);
/* Where to write an input; with `whole` the caller writes all of it. */
void *sg_staged_input(sg_plan *plan, sg_port *port, bool whole);
sg_status sg_staging_send(sg_plan *plan, sg_error *err); /* the changed inputs, before a run */
sg_status sg_staged_result(sg_plan *plan, sg_port *port, const void **out, sg_error *err);
sg_port *sg_plan_result_port(sg_plan *plan, const char *name); /* NULL if absent */

/* module.c: the table of a backend that is a module beside the program, loaded once. NULL and one line if it cannot be. */
const sg_backend *sg_module_load(const char *name, sg_error *err);

/* audit.c: around one launch. `before` holds the operands in double, taken before the launch since it may overwrite
 * them. */
sg_status sg_audit_before(const sg_plan *plan, const sg_step *step, int32_t replica, double ***before, sg_error *err);
sg_status sg_audit_after(const sg_plan *plan, const sg_step *step, int32_t replica, double **before, sg_run_index run,
                         sg_error *err);
void sg_audit_release(const sg_step *step, double **before);

/* profile.c */
int64_t sg_clock(void);
void sg_profile_record(sg_plan *plan, sg_step *step, int64_t start);

#endif
