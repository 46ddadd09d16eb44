/* golden.h - running folders of golden cases: values, vjp, jvp, Hessian products and third derivatives that were computed
 * elsewhere in float64, against graphs of ours on the reference and cpu devices. The files: a folder of FAMILY.json,
 *
 *     {"family": "...", "cases": [{"name": .., "op": .., "attrs": {..}, "inputs": {..}, "outputs": {..},
 *                                  "cotangent", "tangent", "vjp", "jvp", "hvp", "third": {..}, "tol": ..}, ..]}
 *
 * with tensors {"dtype": "float64" | "int64" | "bool", "shape": [..], "data": [..]}. With phi = sum_o <cotangent_o, out_o>:
 * vjp = d phi, jvp = sum_k (d out / d x_k) t_k, hvp = H t, third = D3 phi [t, t, .], over the inputs that have a tangent.
 *
 * A tensor holds if each element is within limit * max(1, largest |expected|): 1e-10 for values, vjp and jvp, 1e-9 for hvp, 1e-8
 * for third and for traces in float64; 1e-5, 1e-4, 1e-3 and 1e-3 in float32. tol "relative": in float64 within 1e-10 of
 * each element itself (below 1e-300 anything goes); "loose": 1e-6 in float64. Whole numbers and booleans are exact. */
#ifndef SG_CLI_GOLDEN_H
#define SG_CLI_GOLDEN_H

#include "graph/graph.h"

enum { SG_GOLDEN_REFERENCE, SG_GOLDEN_CPU, SG_GOLDEN_CUDA, SG_GOLDEN_DEVICES };
extern const char *const sg_golden_devices[SG_GOLDEN_DEVICES];

typedef struct sg_golden_options {
    const char *folder;
    const char *families;            /* comma-separated; NULL: every file of the folder */
    bool devices[SG_GOLDEN_DEVICES]; /* which to run on */
} sg_golden_options;

typedef enum sg_golden_verdict {
    SG_GOLDEN_PASSED,
    SG_GOLDEN_FAILED,
    SG_GOLDEN_NOT_BUILT, /* no row for its op or formula, or no table for its family */
    SG_GOLDEN_SKIPPED    /* float32 cannot represent it and no other device was asked for */
} sg_golden_verdict;

/* What became of one case on one device. */
typedef struct sg_golden_outcome {
    bool ran, passed;
    double worst;   /* the largest error in units of its scale; with tol "relative" of the element */
    double excess;  /* the largest ratio of an error to its limit */
    char text[320]; /* where that was and what was found there, or why the case could not be run */
} sg_golden_outcome;

typedef struct sg_golden_result {
    char *name, *op;
    int32_t family; /* index in the report */
    sg_golden_verdict verdict;
    sg_golden_outcome on[SG_GOLDEN_DEVICES];
} sg_golden_result;

typedef struct sg_golden_count {
    char *name;
    bool known;                                       /* has a table here */
    int32_t cases, by_verdict[SG_GOLDEN_SKIPPED + 1]; /* `cases` without the skipped */
} sg_golden_count;

typedef struct sg_golden_report {
    int32_t n_families, n_results, capacity;
    sg_golden_count *families;
    sg_golden_result *results;
} sg_golden_report;

/* Run. Errors are those of files, with their name: no such folder or family (SG_E_CONFIG), what cannot be read (SG_E_IO),
 * bad JSON, missing keys, shapes that do not fit (SG_E_DATA). A case that fails is a result, not an error. The report is
 * released with sg_golden_report_free, also after an error. */
sg_status sg_golden_run(const sg_golden_options *options, sg_golden_report *report, sg_error *err);
void sg_golden_report_free(sg_golden_report *report);
/* All families together; name NULL. */
sg_golden_count sg_golden_total(const sg_golden_report *report);

#endif
