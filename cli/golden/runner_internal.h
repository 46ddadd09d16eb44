/* runner_internal.h - how the runner keeps a case; tables of families see golden_internal.h alone. */
#ifndef SG_CLI_GOLDEN_RUNNER_INTERNAL_H
#define SG_CLI_GOLDEN_RUNNER_INTERNAL_H

#include "cli/golden/golden.h"
#include "cli/golden/golden_internal.h"

typedef enum sg_golden_kind { SG_GOLDEN_REALS, SG_GOLDEN_INTS, SG_GOLDEN_BOOLS, SG_GOLDEN_TEXTS } sg_golden_kind;

typedef struct sg_golden_tensor {
    const char *name; /* of the JSON key */
    sg_golden_kind kind;
    sg_shape shape;
    int64_t count;
    double *data; /* NULL for texts */
} sg_golden_tensor;

/* The groups of tensors of a case, by their keys. */
#define SG_GOLDEN_GROUPS(X)                                                                                            \
    X(INPUTS, "inputs")                                                                                                \
    X(OUTPUTS, "outputs")                                                                                              \
    X(COTANGENT, "cotangent")                                                                                          \
    X(TANGENT, "tangent")                                                                                              \
    X(VJP, "vjp")                                                                                                      \
    X(JVP, "jvp")                                                                                                      \
    X(HVP, "hvp")                                                                                                      \
    X(THIRD, "third")
enum {
#define X(id, key) SG_GOLDEN_##id,
    SG_GOLDEN_GROUPS(X)
#undef X
        SG_GOLDEN_GROUP_COUNT
};
extern const char *const sg_golden_group_keys[SG_GOLDEN_GROUP_COUNT];

typedef struct sg_golden_tensors {
    int32_t n;
    sg_golden_tensor *at;
} sg_golden_tensors;

struct sg_golden {
    const char *file, *name, *op, *tol; /* tol "" if the case has none */
    const json_t *attrs;
    sg_golden_tensors group[SG_GOLDEN_GROUP_COUNT];
    const sg_golden_row *row;

    /* while it runs on a device */
    int device;
    sg_graph *graph;
    sg_store *store;
    sg_value *in;     /* by input */
    sg_value *out;    /* by output; SG_NONE until the row's function sets it */
    double **numbers; /* by output: computed outside the graph */
    bool refused;
    char refusal[256];
};

/* case.c. `json` must outlive the case. */
sg_status sg_golden_case_open(sg_golden *g, const json_t *json, const char *file, sg_error *err);
void sg_golden_case_close(sg_golden *g);
const sg_golden_tensor *sg_golden_tensor_find(const sg_golden *g, int group, const char *name);
int32_t sg_golden_tensor_index(const sg_golden *g, int group, const char *name); /* -1 if absent */

/* compare.c */
/* Can float32 hold the case? False for the extreme points and where a number leaves the range of normal floats. */
bool sg_golden_fits_float(const sg_golden *g);
/* Compare with the tolerance of the group on the case's device; writes worst, excess, passed and text of `outcome`. */
void sg_golden_compare(const sg_golden *g, int group, const char *label, const sg_golden_tensor *want,
                       const double *got, sg_golden_outcome *outcome);

/* run_case.c: build and run on `device`. A failure of any kind is an outcome. */
void sg_golden_run_case(sg_golden *g, int device, sg_golden_outcome *outcome);

#endif
