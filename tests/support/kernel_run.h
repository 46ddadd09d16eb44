/* kernel_run.h - one kernel of the cpu backend by itself, against the reference rule of its op. */
#ifndef SG_TESTS_KERNEL_RUN_H
#define SG_TESTS_KERNEL_RUN_H

#include "graph/graph.h"

/* Run the node of `y`, whose inputs are all sg_input nodes, with 1, 2 and 3 threads. Outputs and workspace start as NaN.
 * data[k] holds the elements of the node's k-th input. Fails the test unless each output is within rtol * max(1, largest
 * |expected|) of the reference and has the same bits for every number of threads. */
void kernel_check(sg_value y, double *const *data, double rtol);

/* Run the node with 2 threads, expecting an error at launch; its text goes to `text`. False if there was none. */
bool kernel_fails(sg_value y, double *const *data, char *text, size_t size);

/* n numbers in [-1, 1), the same everywhere; and n whole numbers in [0, limit). Released by test_free_all. */
double *test_numbers(uint64_t stream, int64_t n);
double *test_indices(uint64_t stream, int64_t n, int64_t limit);
double *test_array(int64_t n); /* n zeros */
void test_free_all(void);

#endif
