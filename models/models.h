/* models.h - the public header of models/: data sets and their readers, metrics, configuration, networks and energies,
 * training methods. */
#ifndef SG_MODELS_H
#define SG_MODELS_H

#include "graph/graph.h"
#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==================================================================================================== data sets */
/* (section: data) */

/* ====================================================================================================== metrics */
/* (section: metrics) */

/* ================================================================================================ configuration */
/* (section: config) */

/* ======================================================================================= networks and energies */
/* (section: nets) */

/* ===================================================================================================== training */
/* (section: training) */

#ifdef __cplusplus
}
#endif
#endif
