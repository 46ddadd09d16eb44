/* gpu_session.h - a session on the GPU for a test that is skipped where there is none, and a graph run in one. */
#ifndef SG_TESTS_GPU_SESSION_H
#define SG_TESTS_GPU_SESSION_H

#include <stdbool.h>

#include "runtime/runtime.h"

enum { TEST_SKIPPED = 77 /* exit code of a whole program */ };

/* On device cuda, with the module of this build. NULL, and "skipped: " with the reason on standard output, where that cannot be. */
sg_session *test_gpu_session(sg_store *store);
/* Can there be one, of this precision (NULL: f32)? Tells why not in the same way. */
bool test_gpu_is_there(const char *precision);

typedef struct test_gpu_graph {
    sg_graph *graph;
    sg_store *store;
    const char *const *inputs, *const *results;
    int32_t n_in, n_out;
    double most; /* inputs are uniform in [-most, most) */
    bool no_fusion;
    const char *precision;
} test_gpu_graph;

/* Results of the third run of a graph, which is a recorded one, one behind the other; all are f32, and are at most `room` numbers. Fails the
 * test on an error. Returns the number of steps of the plan. */
int32_t test_gpu_run(const test_gpu_graph *g, float *out, int64_t room);

#endif
