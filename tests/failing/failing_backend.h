/* failing_backend.h - what the module that fails on demand counts; a test finds `failing_count` in the loaded module. */
#ifndef SG_TESTS_FAILING_BACKEND_H
#define SG_TESTS_FAILING_BACKEND_H

#include <stdint.h>

typedef struct failing_counts {
    int64_t allocations; /* so far: memory of the device, page-locked memory, marks and recordings */
    int64_t fail_at;     /* this one (from 1) fails; 0: none */
    int64_t live;        /* allocated and not given back */
} failing_counts;

#endif
