/* gpu_session.h - a session on the GPU for a test that is skipped where there is none. */
#ifndef SG_TESTS_GPU_SESSION_H
#define SG_TESTS_GPU_SESSION_H

#include <stdbool.h>

#include "runtime/runtime.h"

enum { TEST_SKIPPED = 77 /* exit code of a whole program */ };

/* On device cuda, with the module of this build. NULL, and "skipped: " with the reason on standard output, where that cannot be. */
sg_session *test_gpu_session(sg_store *store);
/* Can there be one, of this precision (NULL: f32)? Tells why not in the same way. */
bool test_gpu_is_there(const char *precision);

#endif
