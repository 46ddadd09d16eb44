/* graph.h - the public header of graph/: status and errors, dtypes, shapes, the parameter store, graphs and values,
 * and the interface `sg_op` that every operator implements. graph/ knows this interface and no operator.
 *
 * Conventions of every function in the project:
 *   - Sizes and counts are int64_t, bytes are size_t; products are checked for overflow.
 *   - A function that can fail returns sg_status; if it takes an `sg_error *err` (may be NULL) it fills it on failure.
 *   - Builders never return a status: errors are sticky. A builder that gets a bad value returns SG_NONE and does
 *     nothing; the graph keeps the first error, and compiling the graph returns it.
 *   - Nothing here aborts, exits or jumps. Asserts guard internal invariants that no input can reach.
 *   - A graph and its values belong to one thread at a time.
 */
#ifndef SG_GRAPH_H
#define SG_GRAPH_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SG_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define SG_PRINTF(fmt, first)
#endif

/* ------------------------------------------------------------------------------------------------ status, errors */

/* Numbers are pinned: they may be stored and printed. */
#define SG_STATUS_MAP(X)                                                                                               \
    X(0, OK, "ok")                                                                                                     \
    X(1, E_MEMORY, "out of memory")                                                                                    \
    X(2, E_ARGUMENT, "invalid argument")                                                                               \
    X(3, E_SHAPE, "shapes do not fit")                                                                                 \
    X(4, E_DTYPE, "dtypes do not fit")                                                                                 \
    X(5, E_NAME, "unknown or conflicting name")                                                                        \
    X(6, E_GRAPH, "invalid graph")                                                                                     \
    X(7, E_UNSUPPORTED, "not supported")                                                                               \
    X(8, E_IO, "input/output error")                                                                                   \
    X(9, E_CONFIG, "bad configuration")                                                                                \
    X(10, E_DATA, "bad data")                                                                                          \
    X(11, E_DIVERGED, "diverged")                                                                                      \
    X(12, E_INTERRUPTED, "interrupted")                                                                                \
    X(13, E_DEVICE, "device error")

typedef enum sg_status {
#define X(number, name, text) SG_##name = number,
    SG_STATUS_MAP(X)
#undef X
} sg_status;

/* The fixed text of a status ("shapes do not fit"), never NULL. */
const char *sg_status_text(sg_status status);

#define SG_ERROR_TEXT 512
#define SG_ERROR_FILE 256

/* One failure: what (`text`, one line without newline), and where. `file`, `line` and `column` name a place in a
 * user's file (data, recipe, model) or, for graph errors, the C source line of the builder call; "" and 0 if unknown.
 * `op` and `node` are the operator and node name of a graph error, else "". */
typedef struct sg_error {
    sg_status status;
    int64_t line, column;
    char file[SG_ERROR_FILE];
    char op[48];
    char node[128];
    char text[SG_ERROR_TEXT];
} sg_error;

/* Fill `err` (may be NULL) and return `status`. sg_fail_at also records a place; the file - is standard input. */
sg_status sg_fail(sg_error *err, sg_status status, const char *fmt, ...) SG_PRINTF(3, 4);
sg_status sg_fail_at(sg_error *err, sg_status status, const char *file, int64_t line, int64_t column, const char *fmt,
                     ...) SG_PRINTF(6, 7);
/* Write "file:line:column: text" (parts that are known) into `out`; returns `out`. */
const char *sg_error_format(const sg_error *err, char *out, size_t size);

#define SG_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        sg_status sg_try_status_ = (expr);                                                                             \
        if (sg_try_status_ != SG_OK)                                                                                   \
            return sg_try_status_;                                                                                     \
    } while (0)

/* ------------------------------------------------------------------------------------------------------ memory */

/* All heap memory of the library comes from here. The hook exists for tests (fail at the n-th call, count calls in
 * steady state) and for embedders; set it before any other call. NULL members restore malloc, realloc and free. */
typedef struct sg_allocator {
    void *(*allocate)(void *user, size_t bytes);
    void *(*resize)(void *user, void *old, size_t bytes);
    void (*release)(void *user, void *old);
    void *user;
} sg_allocator;
void sg_allocator_set(const sg_allocator *allocator);

void *sg_alloc(size_t bytes);                 /* NULL if out of memory; alignment of malloc */
void *sg_calloc(int64_t count, size_t bytes); /* zeroed; NULL on overflow too */
void *sg_realloc(void *old, size_t bytes);
void sg_free(void *old); /* NULL is allowed */
char *sg_strdup(const char *text);
void *sg_alloc_aligned(size_t bytes); /* 64-byte alignment; release with sg_free_aligned */
void sg_free_aligned(void *old);

/* ------------------------------------------------------------------------------------------------ dtypes, shapes */

/* Declared types of values. F32 is the default. The reference backend computes every dtype in double. */
#define SG_DTYPE_MAP(X)                                                                                                \
    X(0, F32, "f32", 4)                                                                                                \
    X(1, F64, "f64", 8)                                                                                                \
    X(2, BF16, "bf16", 2)                                                                                              \
    X(3, F16, "f16", 2)                                                                                                \
    X(4, I32, "i32", 4)                                                                                                \
    X(5, BOOL, "bool", 1)

typedef enum sg_dtype {
#define X(number, name, text, bytes) SG_##name = number,
    SG_DTYPE_MAP(X)
#undef X
} sg_dtype;

const char *sg_dtype_name(sg_dtype dtype);
size_t sg_dtype_size(sg_dtype dtype);  /* bytes of one element */
bool sg_dtype_is_real(sg_dtype dtype); /* F32, F64, BF16, F16 */
bool sg_dtype_parse(const char *name, sg_dtype *out);
/* Type of a statistic (logsumexp, mean, 1 / deviation) that an operator on `dtype` keeps beside its results: F32 for BF16 and
 * F16, whose digits would not do, else `dtype`. */
sg_dtype sg_dtype_statistic(sg_dtype dtype);

#define SG_MAX_RANK 8

/* A static shape; dim[i] >= 0. name[i] is NULL or the name of a dimension that sg_graph_bind can resize ("batch",
 * "tokens"). A graph interns the names it is given. Row-major ("C") order everywhere. */
typedef struct sg_shape {
    int32_t rank;
    int64_t dim[SG_MAX_RANK];
    const char *name[SG_MAX_RANK];
} sg_shape;

/* SG_SHAPE(2, 3) is a shape of rank 2; sg_shape_scalar() one of rank 0. */
#define SG_SHAPE(...)                                                                                                  \
    sg_shape_make((int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
sg_shape sg_shape_make(int32_t rank, const int64_t *dim);
sg_shape sg_shape_scalar(void);
sg_shape sg_shape_named(sg_shape shape, int32_t axis, const char *name); /* names one axis */
bool sg_shape_equal(const sg_shape *a, const sg_shape *b);               /* sizes only */
int64_t sg_shape_count(const sg_shape *shape);                           /* elements; -1 on overflow, also beside a 0 */
/* NumPy broadcasting of a and b; false if they do not fit. Names of dimensions are kept from either side. */
bool sg_shape_broadcast(const sg_shape *a, const sg_shape *b, sg_shape *out);
/* "[32, 159]" with names as "batch=32"; returns `out`. */
const char *sg_shape_format(const sg_shape *shape, char *out, size_t size);
#define SG_SHAPE_TEXT 256
/* Checked a*b for non-negative operands; false on overflow. */
bool sg_mul_ok(int64_t a, int64_t b, int64_t *out);

/* ------------------------------------------------------------------------------------------------ graphs, values */

typedef struct sg_graph sg_graph;
typedef struct sg_store sg_store;
typedef struct sg_op sg_op;

/* A handle on one output of one node. Copy freely. Invalid handles have id < 0 or no graph, as what an initialiser
 * leaves out. */
typedef struct sg_value {
    sg_graph *graph;
    int32_t id;
} sg_value;

#define SG_NONE ((sg_value){0, -1})
static inline bool sg_is_none(sg_value v) { return !v.graph || v.id < 0; }
static inline bool sg_same(sg_value a, sg_value b) { return a.graph == b.graph && a.id == b.id; }

/* A new empty graph, or NULL if out of memory. sg_graph_free releases nodes, names, constants and loop bodies at once. */
sg_graph *sg_graph_new(void);
void sg_graph_free(sg_graph *graph);

/* The first error of the graph or of a loop body in it, also in `err` (may be NULL); SG_OK, and `err` untouched, if there is none. */
sg_status sg_graph_status(const sg_graph *graph, sg_error *err);
/* Record an error (kept only if it is the first). `near` (may be SG_NONE) names the node concerned. Returns SG_NONE. */
sg_value sg_graph_fail(sg_graph *graph, sg_status status, sg_value near, const char *fmt, ...) SG_PRINTF(4, 5);

/* Shape and dtype of a value. For SG_NONE: a rank-0 F32. The pointer lives as long as the graph and until the next
 * node is added: copy the shape if you go on building. */
const sg_shape *sg_shape_of(sg_value v);
sg_dtype sg_dtype_of(sg_value v);
int32_t sg_rank_of(sg_value v);
int64_t sg_dim_of(sg_value v, int32_t axis); /* negative axes count from the end; -1 if out of range */

/* Give the node of `v` a name for messages, dumps and profiles. Returns v. */
sg_value sg_named(sg_value v, const char *name);

/* Output `index` of the node that `v` belongs to (operators with several outputs return their first). */
sg_value sg_output_of(sg_value v, int32_t index);

/* Declare `v` as the graph's result `name`; a compiled plan returns its results by these names, in this order. */
void sg_result(sg_graph *graph, const char *name, sg_value v);
int32_t sg_result_count(const sg_graph *graph);
sg_value sg_result_value(sg_graph *graph, int32_t index);
const char *sg_result_name(const sg_graph *graph, int32_t index);

/* Resize named dimensions and re-run all shape rules: the graph is built once and used at several batch sizes.
 * Ops keep no sizes of named dimensions. A name that no input has is passed over. On failure the graph is left as it was and
 * `err` says which node refused. */
typedef struct sg_binding {
    const char *name;
    int64_t size;
} sg_binding;
sg_status sg_graph_bind(sg_graph *graph, const sg_binding *bindings, int32_t count, sg_error *err);

/* ----------------------------------------------------------------------------------------- inspection and dumps */

/* Attribute values, in the order of the operator's schema. Strings, lists and tensors live in the graph. */
typedef enum sg_attr_kind {
    SG_ATTR_INT,
    SG_ATTR_REAL,
    SG_ATTR_TEXT,
    SG_ATTR_INTS,
    SG_ATTR_REALS,
    SG_ATTR_GRAPH
} sg_attr_kind;

typedef struct sg_attr {
    sg_attr_kind kind;
    int64_t count; /* elements of `ints` or `reals` */
    union {
        int64_t i; /* also bool, dtype and enumerations */
        double f;
        const char *s;
        const int64_t *ints;
        const double *reals;
        sg_graph *graph; /* a loop body, owned by the graph that holds the node */
    };
} sg_attr;

static inline sg_attr sg_attr_int(int64_t v)
{
    sg_attr a = {SG_ATTR_INT, 0, {0}};
    a.i = v;
    return a;
}
static inline sg_attr sg_attr_real(double v)
{
    sg_attr a = {SG_ATTR_REAL, 0, {0}};
    a.f = v;
    return a;
}
static inline sg_attr sg_attr_text(const char *v)
{
    sg_attr a = {SG_ATTR_TEXT, 0, {0}};
    a.s = v;
    return a;
}
static inline sg_attr sg_attr_ints(const int64_t *v, int64_t n)
{
    sg_attr a = {SG_ATTR_INTS, n, {0}};
    a.ints = v;
    return a;
}
static inline sg_attr sg_attr_reals(const double *v, int64_t n)
{
    sg_attr a = {SG_ATTR_REALS, n, {0}};
    a.reals = v;
    return a;
}
static inline sg_attr sg_attr_graph(sg_graph *v)
{
    sg_attr a = {SG_ATTR_GRAPH, 0, {0}};
    a.graph = v;
    return a;
}

/* A node, read-only outside graph/. Nodes are stored in a topological order: every input's node has a smaller index. */
typedef struct sg_node {
    const sg_op *op;
    int32_t index;
    int32_t n_in, n_out;
    const int32_t *in; /* value ids */
    int32_t out;       /* value id of the first output; outputs are consecutive */
    const sg_attr *attr;
    const char *name; /* never NULL: generated from op and index until sg_named */
    const char *file; /* builder call, or "" */
    int32_t line;
} sg_node;

int32_t sg_node_count(const sg_graph *graph);
const sg_node *sg_node_at(const sg_graph *graph, int32_t index); /* valid until the next node is added */
const sg_node *sg_node_of(sg_value v);                           /* NULL for SG_NONE; same lifetime */
int32_t sg_value_count(const sg_graph *graph);
/* Was the node named by sg_named, or is its name generated? */
bool sg_node_is_named(const sg_node *node);
static inline sg_value sg_value_at(sg_graph *graph, int32_t id)
{
    sg_value v = {graph, id};
    return v;
}

/* Mark (live[node index] = true, `live` has sg_node_count entries) what the given values need. Data edges only: an
 * input that an op reads only for its shape (sg_op.shape_only) keeps its node alive only if `shapes` is true. */
void sg_graph_reach(const sg_graph *graph, const int32_t *roots, int32_t count, bool shapes, bool *live);

/* Check every invariant of the graph (order, arity, attribute kinds, shapes equal to the rules' answer, bodies). */
sg_status sg_graph_verify(const sg_graph *graph, sg_error *err);

/* Human-readable listing, one node a line with shapes; and Graphviz DOT. Both stable for equal graphs. */
void sg_graph_print(const sg_graph *graph, FILE *out);
void sg_graph_print_dot(const sg_graph *graph, FILE *out);

/* ---------------------------------------------------------------------------------------- parameter store, scopes */

/* How an entry starts. Bounds are given, not guessed from shapes, since layouts differ. */
typedef enum sg_init_kind { SG_INIT_CONSTANT, SG_INIT_UNIFORM, SG_INIT_NORMAL } sg_init_kind;
typedef struct sg_init {
    sg_init_kind kind;
    double a, b; /* constant a; uniform on [a, b); normal with mean a and standard deviation b */
} sg_init;
/* Refused where an entry is declared with it (SG_E_ARGUMENT): NaN, a range that is infinite or ends before it begins, a negative
 * deviation. A constant may be infinite. */
sg_init sg_init_zeros(void);
sg_init sg_init_constant(double value);
sg_init sg_init_uniform(double low, double high);
sg_init sg_init_normal(double mean, double std);
sg_init sg_init_kaiming_uniform(int64_t fan_in);                 /* U(+-sqrt(6 / fan_in)), ReLU gain */
sg_init sg_init_xavier_uniform(int64_t fan_in, int64_t fan_out); /* U(+-sqrt(6 / (fan_in + fan_out))) */

typedef struct sg_entry {
    const char *name; /* full path: "task/layer1/W" */
    sg_dtype dtype;   /* F32 (stored in the store's real type) or I32 */
    sg_shape shape;
    sg_init init;
    bool trainable; /* parameters are; moments, counters and schedules are not */
    bool ready;     /* has a value: initialised, set or loaded */
    void *data;     /* 64-byte aligned; the store's real type, or int32_t */
} sg_entry;

/* Parameters live outside graphs, in a store. Tied weights are one entry. `real` is F32 (cpu and cuda sessions) or F64
 * (reference sessions); NULL for another type, or out of memory. Entries keep their address for life. */
sg_store *sg_store_new(sg_dtype real);
void sg_store_free(sg_store *store);
sg_dtype sg_store_real(const sg_store *store);
int32_t sg_store_count(const sg_store *store);
/* Entry by index, in creation order. A session on a device with memory of its own leaves new values there until somebody asks
 * for them: sg_store_at and sg_store_read bring the value into `data`, where it stays until the next run that assigns the
 * entry. sg_store_at counts as a change of the value, which such a session then loads again; sg_store_read does not.
 * sg_store_peek is for everything but `data`, which it leaves as it is. */
sg_entry *sg_store_at(sg_store *store, int32_t index);
const sg_entry *sg_store_read(const sg_store *store, int32_t index);
const sg_entry *sg_store_peek(const sg_store *store, int32_t index);
int32_t sg_store_find(const sg_store *store, const char *name); /* -1 if absent */
/* Add an entry or find the equal one; the same name with another shape, dtype or initialiser, or as trainable and not, is an
 * error. */
sg_status sg_store_add(sg_store *store, const char *name, sg_dtype dtype, const sg_shape *shape, sg_init init,
                       bool trainable, int32_t *index, sg_error *err);
/* Give every entry that is not ready its initial value. Element i of one that is drawn comes from Philox with a key made of the
 * seed and the entry's name, and i as the counter: independent of creation order and of other entries. */
void sg_store_initialise(sg_store *store, uint64_t seed);
/* Read or write all elements as doubles (n must equal the element count). Writing makes the entry ready. */
sg_status sg_store_get(const sg_store *store, const char *name, double *out, int64_t n, sg_error *err);
sg_status sg_store_set(sg_store *store, const char *name, const double *in, int64_t n, sg_error *err);
/* A copy with another real type (values converted), for comparing backends. NULL if out of memory. */
sg_store *sg_store_copy(const sg_store *store, sg_dtype real);

/* A place in the name tree, from which parameters and random draws get their names. A graph uses one store. */
typedef struct sg_scope {
    sg_graph *graph;
    sg_store *store;
    const char *path; /* interned in the graph; "" at the root */
} sg_scope;
sg_scope sg_scope_root(sg_graph *graph, sg_store *store);
sg_scope sg_scope_sub(sg_scope scope, const char *name);
/* The same place seen from another graph (a loop body). */
sg_scope sg_scope_in(sg_scope scope, sg_graph *graph);

/* The current value, in this graph, of the entry scope/name, which is created if it does not exist. The first use in a
 * graph adds a `param` node; after sg_assign it is the assigned value. sg_state is the same for entries that are not
 * trained: optimiser moments, step counters, learning rates. */
sg_value sg_param(sg_scope scope, const char *name, sg_shape shape, sg_init init);
sg_value sg_state(sg_scope scope, const char *name, sg_dtype dtype, sg_shape shape, sg_init init);
/* Rebind the entry whose current value is `old` to `next` (same shape and dtype): later sg_param calls see `next`, and
 * the plan writes it to the store when the run ends. No ordering edges exist: values are versions. If `old` is the current
 * version of several entries (they were assigned one value), that is an error: sg_rebind names the entry. */
void sg_assign(sg_value old, sg_value next);
/* Current values of the trainable entries under the scope that this graph has used, in creation order of the store.
 * Returns how many were written. More than `capacity` fail the graph, and the first `capacity` are returned. */
int32_t sg_params(sg_scope scope, sg_value *out, int32_t capacity);
/* Store entry that `v` is the current version of, or -1. */
int32_t sg_entry_of(sg_value v);
sg_store *sg_graph_store(const sg_graph *graph); /* NULL if the graph uses none */

/* The writes of a graph: entries whose final value differs from the one at the start. */
int32_t sg_effect_count(const sg_graph *graph);
void sg_effect_at(const sg_graph *graph, int32_t index, int32_t *entry, int32_t *value);
/* How often a value (by id) is read: by nodes, as a result, as the new value of an entry. Looks at the whole graph. */
int32_t sg_reader_count(sg_graph *graph, int32_t value);

/* A new random stream: hash of (scope path, number of this draw in that scope). Equal graphs get equal streams. */
uint64_t sg_draw_stream(sg_scope scope);

/* ---------------------------------------------------------------------------------------------- operator interface */

/* Shape rule: fill out_shape and out_dtype from the inputs and attributes. n_out is preset to op->n_out; of a variadic op it is 0
 * and the rule sets it (1 to SG_MAX_OUTPUTS). Return sg_infer_fail(...) to refuse. */
#define SG_MAX_OUTPUTS 1024
typedef struct sg_infer_args {
    const sg_op *op;
    const sg_attr *attr;
    int32_t n_in;
    const sg_shape *in_shape;
    const sg_dtype *in_dtype;
    int32_t n_out;
    sg_shape *out_shape;
    sg_dtype *out_dtype;
    sg_error *err;
} sg_infer_args;
sg_status sg_infer_fail(const sg_infer_args *args, sg_status status, const char *fmt, ...) SG_PRINTF(3, 4);

/* Reverse rule: given cotangents gout[k] (SG_NONE where output k is not connected), set gin[k] for the inputs with
 * need[k]. gin[k] has the shape of the *output* broadcast (the sweep sums it back to the input's shape), or the input's
 * own shape. Leave gin[k] SG_NONE for an exact zero. Must be linear in gout; calls builders only. */
typedef struct sg_vjp_args {
    sg_graph *graph;
    const sg_node *node; /* a copy: stays valid while the rule builds */
    const sg_value *in, *out, *gout;
    const bool *need;
    sg_value *gin;
} sg_vjp_args;

/* Forward rule: given tangents tin[k] (SG_NONE = zero), set tout[k] (SG_NONE = zero). Only for ops whose jvp does not
 * follow from flags (linear, elementwise) and for which two vjps would waste work. */
typedef struct sg_jvp_args {
    sg_graph *graph;
    const sg_node *node;
    const sg_value *in, *out, *tin;
    sg_value *tout;
} sg_jvp_args;

/* Decomposition of a composite: build the outputs from `in` with builders and set out[k]. */
typedef struct sg_decompose_args {
    sg_graph *graph;
    const sg_node *node;
    const sg_value *in;
    sg_value *out;
} sg_decompose_args;

/* Where in a run a random draw happens; see sg_random in random_internal.h. */
typedef struct sg_run_index {
    uint64_t repeat; /* iteration number, flattened over nested loops; 0 outside loops */
} sg_run_index;

/* A dense, packed tensor of doubles (reference backend): bool as 0/1, integers as whole numbers. */
typedef struct sg_tensor64 {
    const sg_shape *shape;
    double *data;
} sg_tensor64;

/* Reference kernel: compute out from in, in double, with plain loops. Inputs must not be written. Outputs never alias
 * inputs. */
typedef struct sg_eval_args {
    const sg_node *node;
    const sg_attr *attr;
    int32_t n_in, n_out;
    const sg_tensor64 *in;
    const sg_tensor64 *out;
    const sg_dtype *in_dtype, *out_dtype;
    sg_run_index run;
} sg_eval_args;

/* Work of one execution: floating-point operations and the bytes that must move at least. */
typedef struct sg_cost {
    double flops, bytes;
} sg_cost;
typedef struct sg_cost_args {
    const sg_attr *attr;
    int32_t n_in, n_out;
    const sg_shape *in_shape, *out_shape;
    const sg_dtype *in_dtype, *out_dtype;
} sg_cost_args;

typedef struct sg_attr_spec {
    const char *name;
    sg_attr_kind kind;
} sg_attr_spec;

enum {
    SG_OP_ELEMENTWISE = 1 << 0, /* out[i] depends only on in[k][i] after broadcasting; jvp follows from vjp */
    SG_OP_COMPOSITE = 1 << 1, /* value and derivatives are those of `decompose` (vjp may name derivative composites) */
    SG_OP_RANDOM = 1 << 2,    /* a draw: never merged with another, never folded */
    SG_OP_ZERO_GRAD = 1 << 3, /* derivative is zero wherever it exists (sign, comparisons, draws, argmax) */
    SG_OP_LEAF = 1 << 4,      /* no computation: input, constant, param */
    SG_OP_COMMUTATIVE = 1 << 5, /* binary and symmetric: CSE may order the inputs */
    SG_OP_STOP = 1 << 6,        /* derivatives stop here by contract: zero at stop_gradient, refused at repeat */
    /* How an operator runs in mixed precision; derivative composites do as their parent. Elementwise ones follow, unless
     * they say otherwise. */
    SG_OP_LOW = 1 << 7,      /* f32 operands are rounded to bf16, and so are the results; sums are in f32 */
    SG_OP_FOLLOWS = 1 << 8,  /* in bf16 where an operand is, and in f32 where all readers want that */
    SG_OP_FULL = 1 << 9,     /* in f32 */
    SG_OP_ANY_REAL = 1 << 10 /* its real attributes may be infinite or NaN; those of others are refused */
};

#define SG_VARIADIC (-1)

/* An operator: one const descriptor, `const sg_op sg_op_NAME`, in ops/. Everything a backend does not supply itself
 * is here. */
struct sg_op {
    const char *name;
    const char *summary; /* one line: the formula, for `sealgraph ops` and the reference page */
    int32_t n_in;        /* or SG_VARIADIC */
    int32_t n_out;       /* or SG_VARIADIC */
    uint32_t flags;
    uint32_t linear;     /* bit k: linear in input k with the others fixed */
    uint32_t shape_only; /* bit k: input k is read for its shape alone */
    const sg_attr_spec *attrs;
    int32_t n_attrs;
    sg_status (*infer)(const sg_infer_args *args);
    void (*vjp)(const sg_vjp_args *args); /* NULL: zero, stop or composite by flags, else not implemented */
    void (*jvp)(const sg_jvp_args *args);
    void (*decompose)(const sg_decompose_args *args);
    void (*eval)(const sg_eval_args *args);    /* NULL only for composites, leaves and repeat */
    sg_cost (*cost)(const sg_cost_args *args); /* NULL: 1 flop an output element; bytes of inputs read and outputs */
    /* Derivative composites: operators that stand for the derivative of this one, so that a device may have a kernel for
     * it. They take the place of `vjp` and `jvp`; their layout is told in ops/derivative_internal.h. */
    const sg_op *vjp_op, *jvp_op;
    const sg_op *parent; /* of a derivative composite: the operator it differentiates */
    uint32_t hints;      /* of a derivative composite: bit j: output j of the parent comes along, to save work */
};

/* Cost of a node by its op's rule or the default. */
sg_cost sg_node_cost(sg_graph *graph, const sg_node *node);

/* Add a node and return its first output. An equal node (same op, inputs and attributes, not random) is reused: common
 * subexpressions are shared while building, also between derivative passes. Attributes are copied. A value of an
 * enclosing graph used in a loop body is captured. All builders of ops/ end here. */
sg_value sg_build(sg_graph *graph, const sg_op *op, const sg_value *in, int32_t n_in, const sg_attr *attr);

/* The place that the next nodes and errors are attributed to. Builders of all folders are macros that make it the caller's
 * file and line while they run and give the earlier one back (define SG_NO_LOCATION before including to do without). So in
 * sg_add(layer(x), b) a mistake inside layer() has its line there, and one of the sum has the line of sg_add. sg_here changes
 * the place until then. The function is the one that was called there: errors begin with its name. */
void sg_here(const char *file, int32_t line);
void sg_enter(const char *file, int32_t line, const char *function);
void sg_leave(void);

/* Call a function with the place of this line: one that returns an sg_value, nothing, or a type of SG_LEFT(name, type). */
#define SG_AT(function, ...) SG_AT_OF(value, function, __VA_ARGS__)
#define SG_AT_VOID(function, ...) (sg_enter(__FILE__, __LINE__, #function), function(__VA_ARGS__), sg_leave())
#define SG_AT_OF(name, function, ...) sg_left_##name((sg_enter(__FILE__, __LINE__, #function), function(__VA_ARGS__)))
#define SG_LEFT(name, type)                                                                                            \
    static inline type sg_left_##name(type result)                                                                     \
    {                                                                                                                  \
        sg_leave();                                                                                                    \
        return result;                                                                                                 \
    }
SG_LEFT(value, sg_value)

/* The op of a leaf by role; graph/ creates these nodes itself. */
extern const sg_op sg_op_input, sg_op_constant, sg_op_param, sg_op_capture;
/* Fed by name at each run. The same name, dtype and sizes are the same input; with others it is an error (SG_E_NAME). In a loop body
 * it is the input of the graph around all loops. */
sg_value sg_input(sg_graph *graph, const char *name, sg_dtype dtype, sg_shape shape);
/* `count` numbers in row-major order, copied, I32 and BOOL as sg_cast makes them; or one value for every element if count is 1. */
sg_value sg_constant(sg_graph *graph, sg_dtype dtype, sg_shape shape, const double *data, int64_t count);
sg_value sg_scalar(sg_graph *graph, double value); /* rank-0 F32 constant */

/* ---------------------------------------------------------------------------------------------------- loop bodies */

/* A body is a graph inside a graph. Its inputs are, in order: `states` (one per state given), then what it captured from
 * the enclosing graph by using its values or the store's entries. Used by sg_repeat in ops/; a pass reads bodies through
 * these calls. */
sg_graph *sg_body_new(sg_graph *parent);        /* owned by `parent` */
sg_graph *sg_body_parent(const sg_graph *body); /* NULL for a top graph */
/* A new body input that mirrors `outer` (a value of the parent or of a graph around it); found again on second use. */
sg_value sg_capture(sg_graph *body, sg_value outer);
/* A new body input for a loop state shaped like `initial`, a value of the parent: never shared. */
sg_value sg_body_state(sg_graph *body, sg_value initial);
/* Inputs of the body in order, with the parent's value each one starts from. */
int32_t sg_body_input_count(const sg_graph *body);
void sg_body_input_at(const sg_graph *body, int32_t index, sg_value *inner, sg_value *outer);
/* Which input of the body the value with this id is; -1: none. */
int32_t sg_body_input_index(const sg_graph *body, int32_t value);
/* Is input `index` a value captured by its use, which no iteration changes? States and entries are not. */
bool sg_body_input_captured(const sg_graph *body, int32_t index);
/* Entries assigned inside the body: they are loop state. `inner` is the value at the start of an iteration, `next` the
 * one it leaves. Closing makes the entry inputs states too. */
int32_t sg_body_entry_count(const sg_graph *body);
void sg_body_entry_at(const sg_graph *body, int32_t index, int32_t *entry, sg_value *inner, sg_value *next);
/* In `graph`, make `v` the current version of store entry `entry` (what sg_assign does, by entry). */
void sg_rebind(sg_graph *graph, int32_t entry, sg_value v);

/* ------------------------------------------------------------------------------------------------------ rewriting */

/* Copy the nodes of `from` that its results and effects need into `to`, in order. For each live node `rewrite` may build a
 * replacement in `to` from the already mapped inputs: it fills out[0..n_out) and returns true, or returns false to have
 * the node copied. map (sg_value_count(from) entries) receives the new ids or -1. Results and effects are carried over;
 * loop bodies are rewritten in the same way. The compile pipeline is a chain of these. */
typedef bool (*sg_rewrite_fn)(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in,
                              sg_value *out);
sg_status sg_graph_rewrite(sg_graph *from, sg_graph *to, sg_rewrite_fn rewrite, void *user, int32_t *map,
                           sg_error *err);
/* Copy what the results of `from` need into `to`, its inputs taken for values of `to`: map (sg_value_count(from) entries)
 * comes with the ids of the inputs' images, -1 elsewhere, and receives those of all nodes copied. Results are not
 * declared in `to`; `from` must not use a store. */
sg_status sg_graph_inline(sg_graph *from, sg_graph *to, int32_t *map, sg_error *err);

/* Inside a rewrite function: set the image of another value of `from`. A pass that makes one node of several returns true for
 * the earlier ones with outputs SG_NONE, and sets them here when it builds that node; nothing in between may use them. */
void sg_rewrite_image(sg_graph *from, int32_t value, sg_value image);
/* Likewise: the image of a leaf of `from` that may come later, for a node built before its operand's place. */
sg_value sg_rewrite_leaf(sg_graph *from, sg_graph *to, const sg_node *leaf);

/* The expressions y as functions of x at other arguments: out[k] = y[k] with x[i] replaced by by[i] (same shape and dtype),
 * built in `graph`, which may be a loop body inside the graph of the y. Nodes that do not depend on the x are shared, also
 * draws: one that reads an x for its shape alone stays the same draw. A loop on the way is refused (SG_E_UNSUPPORTED). */
void sg_substitute(sg_graph *graph, const sg_value *y, int32_t n_y, const sg_value *x, const sg_value *by, int32_t n_x,
                   sg_value *out);

#ifdef __cplusplus
}
#endif

#ifndef SG_NO_LOCATION
#include "graph/location.h"
#endif
#endif
