/* table_internal.h - the vocabulary of the tables in this folder: inputs, shapes, builders of one line. */
#ifndef SG_SAMPLES_TABLE_INTERNAL_H
#define SG_SAMPLES_TABLE_INTERNAL_H

#include "ops/ops.h"
#include "ops/samples/samples_internal.h"

/* clang-format off */
/* Inputs, by what they are filled with. */
#define REAL(shape_, low_, high_) {.dtype = SG_F32, .shape = shape_, .fill = SG_FILL_UNIFORM, .low = low_, .high = high_}
#define AWAY(shape_, low_, high_) {.dtype = SG_F32, .shape = shape_, .fill = SG_FILL_AWAY, .low = low_, .high = high_}
#define DISTINCT(shape_) {.dtype = SG_F32, .shape = shape_, .fill = SG_FILL_DISTINCT}
#define FRACTION(shape_, low_, high_) {.dtype = SG_F32, .shape = shape_, .fill = SG_FILL_FRACTION, .low = low_, .high = high_}
#define FLAG(shape_) {.dtype = SG_BOOL, .shape = shape_, .fill = SG_FILL_FLAG}
#define INDEX(shape_, low_, high_) {.dtype = SG_I32, .shape = shape_, .fill = SG_FILL_INDEX, .low = low_, .high = high_}
#define GIVEN_I32(shape_, ...) {.dtype = SG_I32, .shape = shape_, .fill = SG_FILL_GIVEN, .given = (const double[]){__VA_ARGS__}}
#define GIVEN_BOOL(shape_, ...) {.dtype = SG_BOOL, .shape = shape_, .fill = SG_FILL_GIVEN, .given = (const double[]){__VA_ARGS__}}
#define GIVEN_F32(shape_, ...) {.dtype = SG_F32, .shape = shape_, .fill = SG_FILL_GIVEN, .given = (const double[]){__VA_ARGS__}}
#define MADE(dtype_, shape_, make_) {.dtype = dtype_, .shape = shape_, .fill = SG_FILL_MADE, .make = make_}
/* Only the shape of a model counts; its elements are nobody's business. */
#define MODEL(shape_) {.dtype = SG_F32, .shape = shape_, .fill = SG_FILL_UNIFORM, .low = -1, .high = 1, .constant = true}

/* Shapes as constant expressions, so that the tables are static. */
#define S0 {.rank = 0}
#define S1(a) {.rank = 1, .dim = {a}}
#define S2(a, b) {.rank = 2, .dim = {a, b}}
#define S3(a, b, c) {.rank = 3, .dim = {a, b, c}}
#define S4(a, b, c, d) {.rank = 4, .dim = {a, b, c, d}}
/* clang-format on */

/* A builder of one expression of in[0], in[1], ... and `scope`. */
#define BUILD(name, ...)                                                                                               \
    static void name(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)                            \
    {                                                                                                                  \
        (void)s, (void)scope, (void)in;                                                                                \
        out[0] = (__VA_ARGS__);                                                                                        \
    }

#define TABLE(rows)                                                                                                    \
    {                                                                                                                  \
        rows, (int32_t)(sizeof(rows) / sizeof((rows)[0]))                                                              \
    }

#endif
