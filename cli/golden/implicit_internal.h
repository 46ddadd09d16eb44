/* implicit_internal.h - golden cases of implicit gradients: what the problems share. */
#ifndef SG_CLI_GOLDEN_IMPLICIT_INTERNAL_H
#define SG_CLI_GOLDEN_IMPLICIT_INTERNAL_H

#include "autodiff/autodiff.h"
#include "cli/golden/golden_internal.h"

/* Where a problem gets its inputs from: the case's graph, or a graph of its own with the elements as constants, which is
 * compiled as a product for the host's solvers. */
typedef struct sg_golden_source {
    sg_golden *g;
    sg_graph *own; /* NULL: the case's graph */
} sg_golden_source;
sg_value sg_golden_take(const sg_golden_source *source, const char *input);

enum { SG_GOLDEN_TENSORS = 8 };

/* A problem at a point: losses of theta and phi; z and `outer` where there is one. */
typedef struct sg_golden_problem {
    sg_value inner, outer, z;
    sg_value theta[SG_GOLDEN_TENSORS], phi[SG_GOLDEN_TENSORS];
    int32_t n_theta, n_phi;
} sg_golden_problem;
typedef void (*sg_golden_problem_fn)(const sg_golden_source *source, sg_golden_problem *problem);

typedef enum sg_golden_product { SG_GOLDEN_HESSIAN, SG_GOLDEN_GGN } sg_golden_product;

/* Run a driver on products compiled for the case's device. `drive` gets the map and returns its status. */
typedef sg_status (*sg_golden_drive_fn)(void *user, const sg_linear_map *map, sg_error *err);
void sg_golden_drive(sg_golden *g, sg_golden_problem_fn build, sg_golden_product product, sg_golden_drive_fn drive,
                     void *user);

/* Rows of vectors, [rows, n], from `count` of them. */
sg_value sg_golden_rows(const sg_value *vectors, int32_t count);
/* Solve with each number of steps of the range; *x is [count, n], the terms' norms in *length [count]. */
void sg_golden_solutions(const sg_graph_map *map, const sg_value *b, sg_solve_options options, int32_t from,
                         int32_t count, sg_value *x, sg_value *length);
/* q flat [n] per row -> e - c and c per row. */
sg_value sg_golden_mixed(const sg_golden_problem *p, sg_value q);

void sg_golden_implicit_mlc(sg_golden *g);

#endif
