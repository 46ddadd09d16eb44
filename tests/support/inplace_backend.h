/* inplace_backend.h - a device for tests: the reference rules, but with kernels that take over operands as those of
 * a fast device do, without some ops if wanted, and with a fault if wanted. */
#ifndef SG_TESTS_INPLACE_BACKEND_H
#define SG_TESTS_INPLACE_BACKEND_H

#include "runtime/plan_internal.h"

/* Set before compiling; NULL for none. Names of ops: one that the device lacks, and one whose first element comes
 * out 1 % and 0.01 off. */
extern const char *inplace_backend_lacks, *inplace_backend_breaks;

const sg_backend *inplace_backend(void);
/* A session on it, or on the reference backend; options may be NULL. Fails the test on an error. */
sg_session *inplace_session(sg_store *store, const sg_session_options *options);
sg_session *reference_session(sg_store *store, const sg_session_options *options);
/* Compile; fails the test on an error. */
sg_plan *compile_plan(sg_session *session, sg_graph *graph, bool no_reuse);
void run_plan(sg_plan *plan);

#endif
