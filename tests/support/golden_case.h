/* golden_case.h - parts of a golden case in JSON, for tests of whole nets whose weights are store entries. Cases of operators
 * and losses are run by cli/golden. */
#ifndef SG_TESTS_GOLDEN_CASE_H
#define SG_TESTS_GOLDEN_CASE_H

#include <jansson.h>

#include "graph/graph.h"

/* golden_data returns elements to be freed by the caller. */
sg_shape golden_shape(const json_t *tensor);
double *golden_data(const json_t *tensor);
double golden_attr_real(const json_t *test, const char *name);
bool golden_attr_is(const json_t *test, const char *name, const char *value);

#endif
