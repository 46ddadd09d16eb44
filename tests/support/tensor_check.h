/* tensor_check.h - comparing tensors in tests: says which element is worst, by how much, and in which test. */
#ifndef SG_TESTS_TENSOR_CHECK_H
#define SG_TESTS_TENSOR_CHECK_H

#include <stdbool.h>
#include <stdint.h>

/* |got - want| <= atol + rtol |want| for all elements; NaN equals NaN, infinities must match, -0 equals 0. On failure
 * prints `name`, the worst index, both values and their distance in f32 ulps, and fails the test. */
#define assert_tensor_close(got, want, n, rtol, atol, name)                                                            \
    tensor_check_close(got, want, n, rtol, atol, name, __FILE__, __LINE__)
void tensor_check_close(const double *got, const double *want, int64_t n, double rtol, double atol, const char *name,
                        const char *file, int line);

/* The same without failing: prints and returns false. */
bool tensor_is_close(const double *got, const double *want, int64_t n, double rtol, double atol, const char *name);

/* max(1, largest finite |want|): what absolute tolerances are multiplied with. */
double tensor_scale(const double *want, int64_t n);

#endif
