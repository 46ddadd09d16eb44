/* serialize.h - the public header of serialize/: safetensors, the model folder (model.pb + model.safetensors), checkpoints. */
#ifndef SG_SERIALIZE_H
#define SG_SERIALIZE_H

#include "graph/graph.h"
#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
}
#endif
#endif
