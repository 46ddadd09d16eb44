/* mirror_backend.h - what the stand-in for the CUDA module counts; a test finds `mirror_count` in the loaded module. */
#ifndef SG_TESTS_MIRROR_BACKEND_H
#define SG_TESTS_MIRROR_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mirror_counts {
    int64_t uploads, downloads, waits, mark_waits, launches, records, replays;
    int64_t parts, starts; /* of recordings; starts wait for nothing */
    size_t limit;          /* bytes that the device has; 0: plenty */
    bool late;             /* nothing is done before somebody waits for it */
    int64_t allocations,
        fail_at; /* of the device's, the host's, marks and recordings: this one (from 1) fails; 0: none */
} mirror_counts;

#endif
