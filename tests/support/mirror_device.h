/* mirror_device.h - tests/mirror as device cuda. */
#ifndef SG_TESTS_MIRROR_DEVICE_H
#define SG_TESTS_MIRROR_DEVICE_H

#include "tests/mirror/mirror_backend.h"

/* From now on this process's CUDA module is tests/mirror. What it counts; NULL, and the reason on standard error, if it cannot be loaded. */
mirror_counts *mirror_open(void);

#endif
