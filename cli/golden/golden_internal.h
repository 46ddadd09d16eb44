/* golden_internal.h - what the tables of golden families are written with. A family is a file NAME.json of cases and a table
 * NAME.c in this folder: which function builds the graph of a case, by the field's name of its op and, where the case is
 * a formula, by that formula. Adding a family: its name in SG_GOLDEN_FAMILIES, and
 *
 *     static void layer_norm(sg_golden *g)
 *     {
 *         sg_value y = sg_layer_norm(sg_golden_in(g, "x"), sg_golden_in(g, "gamma"), sg_golden_in(g, "beta"),
 *                                    sg_golden_real(g, "eps"));
 *         sg_golden_out(g, "out", y);
 *     }
 *
 *     static const sg_golden_row rows[] = {
 *         {"layer_norm", NULL, layer_norm, 0},
 *         {"expression", "sum(tanh(layer_norm(x)))", tanh_of_norm, 0},
 *     };
 *     SG_GOLDEN_TABLE(normalisation, rows);
 *
 * The runner does the rest, on every device: it declares the inputs, compares the outputs, builds vjp, jvp, Hessian products in
 * both modes and third derivatives where the case has them, and holds each to the tolerance of its order. Functions here
 * are called once for each device. They cannot fail: the first mistake (an input the case lacks, an attribute of
 * another type) is kept and makes the case fail with that message; getters then return harmless values. */
#ifndef SG_CLI_GOLDEN_INTERNAL_H
#define SG_CLI_GOLDEN_INTERNAL_H

#include <jansson.h>

#include "graph/graph.h"
#include "ops/ops.h"

typedef struct sg_golden sg_golden;

/* ---- tables */

enum {
    SG_GOLDEN_TRACE = 1 << 0, /* many steps: the tolerances of traces */
};

typedef struct sg_golden_row {
    const char *op;
    const char *expression; /* a case with attrs.expression matches the row with just this formula; NULL: plain */
    void (*build)(sg_golden *g);
    unsigned flags;
} sg_golden_row;

typedef struct sg_golden_family {
    const char *name;
    const sg_golden_row *rows;
    int32_t count;
} sg_golden_family;

#define SG_GOLDEN_TABLE(name, rows)                                                                                    \
    const sg_golden_family sg_golden_##name = {#name, rows, (int32_t)(sizeof(rows) / sizeof((rows)[0]))}

/* clang-format off */
#define SG_GOLDEN_FAMILIES(X)                                                                                          \
    X(attention)                                                                                                       \
    X(convolution)                                                                                                     \
    X(elementwise)                                                                                                     \
    X(implicit)                                                                                                        \
    X(linear)                                                                                                          \
    X(losses)                                                                                                          \
    X(normalisation)                                                                                                   \
    X(optimisers)                                                                                                      \
    X(recurrent)                                                                                                       \
    X(reductions_shape)
/* clang-format on */
#define X(name) extern const sg_golden_family sg_golden_##name;
SG_GOLDEN_FAMILIES(X)
#undef X

/* ---- the case: inputs. Reals are F32 values in the graph (doubles on the reference device), int64 is I32, bool is BOOL. */

sg_graph *sg_golden_graph(sg_golden *g);
/* A scope at the root of a store of the device's real type, for nets whose weights are parameters. */
sg_scope sg_golden_scope(sg_golden *g);
const char *sg_golden_device(const sg_golden *g); /* "reference" or "cpu" */
bool sg_golden_has(const sg_golden *g, const char *input);
int32_t sg_golden_inputs(const sg_golden *g); /* how many, for variadic ops */
sg_value sg_golden_in(sg_golden *g, const char *input);
sg_value sg_golden_in_at(sg_golden *g, int32_t index); /* in the order of the file */
/* The elements of an input, for what is computed outside the graph; NULL if there is no such input. */
const double *sg_golden_elements(sg_golden *g, const char *input, int64_t *count);
/* The case's input `input` is the entry of `parameter` (a value of sg_param): its elements go to the store, and derivatives
 * are taken with respect to it. */
void sg_golden_parameter(sg_golden *g, const char *input, sg_value parameter);

/* ---- the case: attributes */

const json_t *sg_golden_attr(const sg_golden *g, const char *name); /* NULL if absent; JSON null is absent too */
double sg_golden_real(sg_golden *g, const char *name);
double sg_golden_real_or(sg_golden *g, const char *name, double fallback);
int64_t sg_golden_int(sg_golden *g, const char *name);
int64_t sg_golden_int_or(sg_golden *g, const char *name, int64_t fallback);
bool sg_golden_flag(sg_golden *g, const char *name);                        /* absent: false */
bool sg_golden_is(const sg_golden *g, const char *name, const char *value); /* text equal to value; absent: false */
/* A list of at most `capacity` whole numbers; returns how many, 0 if absent. */
int32_t sg_golden_ints(sg_golden *g, const char *name, int64_t *out, int32_t capacity);
/* Axes for the builders: the list `name`, or 0, 1, .. rank - 1 if it is absent. */
int32_t sg_golden_axes(sg_golden *g, const char *name, int32_t rank, int32_t out[SG_MAX_RANK]);

/* ---- the case: results. Each output of the file needs one of these calls. */

/* The first size of an output as the file has it, 1 for rank 0: how many iterates a case wants. */
int64_t sg_golden_output_rows(sg_golden *g, const char *output);
bool sg_golden_has_output(const sg_golden *g, const char *output); /* for outputs that only some cases give */
void sg_golden_out(sg_golden *g, const char *output, sg_value value);
/* An output computed outside the graph, `count` elements. */
void sg_golden_numbers(sg_golden *g, const char *output, const double *data, int64_t count);
/* The case cannot be run as it stands: it fails with this message. */
void sg_golden_refuse(sg_golden *g, const char *fmt, ...) SG_PRINTF(2, 3);

/* ---- small helpers that several families need */

sg_value sg_golden_number(sg_value like, double value); /* a rank-0 constant of the same dtype */
/* attrs.reduction of losses, one an element: "none", "sum", or "mean", the default. */
sg_value sg_golden_reduced(sg_golden *g, sg_value losses);

#endif
