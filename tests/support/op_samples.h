/* op_samples.h - examples of every operator: how to build it, at which shapes, with which inputs. Adding a sample adds
 * all checks of tests/ops/harness_test.c. Inputs keep clear of kinks and poles, where difference quotients mean
 * nothing (what holds there is in tests/ops/conventions_test.c). */
#ifndef SG_TESTS_OP_SAMPLES_H
#define SG_TESTS_OP_SAMPLES_H

#include "graph/graph.h"

enum { SAMPLE_INPUTS = 8, SAMPLE_OUTPUTS = 4 };

typedef enum sample_fill {
    FILL_UNIFORM,  /* reals in [low, high) */
    FILL_AWAY,     /* reals with magnitude in [low, high), either sign */
    FILL_FRACTION, /* an integer in [low, high) plus [0.2, 0.8): away from integers */
    FILL_DISTINCT, /* all elements, also of the sample's other inputs, at least 1/16 apart (of up to 128) */
    FILL_INDEX,    /* integers in [low, high) */
    FILL_FLAG,     /* 0 or 1 */
    FILL_GIVEN     /* `given` */
} sample_fill;

typedef struct sample_input {
    sg_dtype dtype;
    sg_shape shape;
    sample_fill fill;
    double low, high;
    const double *given;
    bool constant; /* not differentiated although real */
} sample_input;

typedef struct op_sample op_sample;
typedef void (*sample_build)(const op_sample *sample, sg_scope scope, const sg_value *in, sg_value *out);

struct op_sample {
    const char *op;    /* the operator under test: name in op_list.h */
    const char *note;  /* what is special, "" if nothing */
    const char *shape; /* of output 0, as sg_shape_format writes it: what the shape rule has to answer */
    int32_t n_in, n_out;
    sample_input in[SAMPLE_INPUTS];
    sample_build build; /* sets out[0..n_out) */
    sg_value (*unary)(sg_value);
    sg_value (*binary)(sg_value, sg_value);
    bool flat;           /* not differentiated: derivative zero, or none defined */
    bool reference_only; /* uses a dtype that only the reference backend has */
    bool large;          /* enough work for several threads; not checked against differences */
};

int32_t op_sample_count(void);
const op_sample *op_sample_at(int32_t index);
/* "matmul [2, 3] x [3, 4] note" into `out`; returns out. */
const char *op_sample_name(const op_sample *sample, char *out, size_t size);
/* The elements of input k, rounded to f32 so that every backend gets the same numbers. */
void op_sample_fill(const op_sample *sample, int32_t k, double *out);
/* Does input k take part in derivatives? */
bool op_sample_moves(const op_sample *sample, int32_t k);
/* Declare the inputs (named x0, x1, ...) in the graph of the scope and build the outputs. */
void op_sample_build(const op_sample *sample, sg_scope scope, sg_value *in, sg_value *out);

#endif
