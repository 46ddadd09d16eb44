/* samples_internal.h - examples of every operator: how to build it, at which shapes, with which inputs. A row in one of the
 * tables of this folder adds all checks of `sealgraph ops --check` and of tests/ops/harness_test.c. Inputs keep clear of
 * kinks and poles, where difference quotients mean nothing (what holds there is in tests/ops/conventions_test.c). */
#ifndef SG_SAMPLES_INTERNAL_H
#define SG_SAMPLES_INTERNAL_H

#include "graph/graph.h"

enum { SG_SAMPLE_INPUTS = 16, SG_SAMPLE_OUTPUTS = 8 };

typedef enum sg_sample_fill {
    SG_FILL_UNIFORM,  /* reals in [low, high) */
    SG_FILL_AWAY,     /* reals with magnitude in [low, high), either sign */
    SG_FILL_FRACTION, /* an integer in [low, high) plus [0.2, 0.8): away from integers */
    SG_FILL_DISTINCT, /* all elements, also of the sample's other inputs, at least 1/16 apart (of up to 128) */
    SG_FILL_INDEX,    /* integers in [low, high) */
    SG_FILL_FLAG,     /* 0 or 1 */
    SG_FILL_GIVEN,    /* `given` */
    SG_FILL_MADE      /* by `make` */
} sg_sample_fill;

typedef struct sg_sample_input {
    sg_dtype dtype;
    sg_shape shape;
    sg_sample_fill fill;
    double low, high;
    const double *given;
    void (*make)(double *out, int64_t n);
    bool constant; /* not differentiated although real */
} sg_sample_input;

typedef struct sg_sample sg_sample;
struct sg_sample {
    const char *op;    /* the operator under test: name in op_list.h */
    const char *note;  /* what is special, "" if nothing */
    const char *shape; /* of output 0, as sg_shape_format writes it: what the shape rule has to answer */
    int32_t n_in, n_out;
    sg_sample_input in[SG_SAMPLE_INPUTS];
    void (*build)(const sg_sample *sample, sg_scope scope, const sg_value *in, sg_value *out); /* sets out[0..n_out) */
    sg_value (*unary)(sg_value); /* for `build`: the builder of an elementwise operator */
    sg_value (*binary)(sg_value, sg_value);
    bool flat;           /* not differentiated: derivative zero, or none defined */
    bool reference_only; /* uses a dtype that only the reference backend has */
    bool large;          /* enough work for several threads; not checked against differences */
    double slack;        /* by what limits of single precision are loosened, derived beside the row; 0 stands for 1 */
};

/* All tables one after the other. */
int32_t sg_sample_count(void);
const sg_sample *sg_sample_at(int32_t index);
/* "matmul [2, 3]x[3, 4] note" into `out`; returns out. */
const char *sg_sample_name(const sg_sample *sample, char *out, size_t size);
/* The elements of input k, rounded to f32 so that every backend gets the same numbers. They depend on the sample alone, not
 * on its place in the tables. */
void sg_sample_elements(const sg_sample *sample, int32_t k, double *out);
/* Does input k take part in derivatives? */
bool sg_sample_moves(const sg_sample *sample, int32_t k);
/* Declare the inputs (named x0, x1, ...) in the graph of the scope and build the outputs. */
void sg_sample_build(const sg_sample *sample, sg_scope scope, sg_value *in, sg_value *out);

/* The tables: one file each. */
typedef struct sg_sample_table {
    const sg_sample *rows;
    int32_t count;
} sg_sample_table;
#define SG_SAMPLE_TABLES(X)                                                                                            \
    X(elementwise)                                                                                                     \
    X(reduce)                                                                                                          \
    X(sequence)                                                                                                        \
    X(shape)                                                                                                           \
    X(index)                                                                                                           \
    X(product)                                                                                                         \
    X(image)                                                                                                           \
    X(loss)                                                                                                            \
    X(attention)                                                                                                       \
    X(normalisation)                                                                                                   \
    X(training)
#define X(name) extern const sg_sample_table sg_samples_##name;
SG_SAMPLE_TABLES(X)
#undef X

#endif
