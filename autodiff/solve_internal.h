/* solve_internal.h - what the host and the graph form of solvers share. */
#ifndef SG_SOLVE_INTERNAL_H
#define SG_SOLVE_INTERNAL_H

#include "autodiff/autodiff.h"

/* A term counts as grown beyond the rounding of its norm: along flat directions of A the terms keep their length. */
#define SG_NEUMANN_GROWTH (1 + 1e-6)

/* Relative residual at which conjugate gradients have converged whatever the tolerance: far below rounding, and before the
 * curvature of a vanishing direction underflows. */
#define SG_CG_FLOOR 1e-18

/* Apply a map; its failure as a status. */
sg_status sg_map_apply(const sg_linear_map *map, const double *v, double *out, sg_error *err);
/* Refuse options that make no sense. */
sg_status sg_solve_check(const sg_solve_options *options, sg_error *err);

#endif
