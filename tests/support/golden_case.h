/* golden_case.h - running the cases of a family of shared/golden: value, vjp, jvp, Hessian product and third derivative
 * of <cotangent, f> on the reference backend, each within the tolerances of the golden README. */
#ifndef SG_TESTS_GOLDEN_CASE_H
#define SG_TESTS_GOLDEN_CASE_H

#include <jansson.h>

#include "graph/graph.h"

/* Build the function of a case from its inputs, in the order of the file; SG_NONE if the family's test does not know
 * it. */
typedef sg_value (*golden_build)(const json_t *test, const sg_value *in, int32_t n_in);

/* Parts of a case. golden_data returns elements to be freed by the caller. */
sg_shape golden_shape(const json_t *tensor);
double *golden_data(const json_t *tensor);
sg_value golden_constant(sg_graph *graph, const json_t *tensor);
double golden_attr_real(const json_t *test, const char *name);
bool golden_attr_is(const json_t *test, const char *name, const char *value);

/* False if the family's file is not there: the test is to be skipped. */
bool golden_exists(const char *family);
/* Run all cases that `build` knows; fails the test on a wrong element or if fewer than `at_least` ran. */
void golden_run_family(const char *family, int at_least, golden_build build);

#endif
