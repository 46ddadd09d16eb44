/* precision_internal.h - which operands of an operator are in bf16 when it runs in low precision. */
#ifndef SG_PRECISION_INTERNAL_H
#define SG_PRECISION_INTERNAL_H

#include "graph/graph.h"

/* dtype[k], the types of the operands of a node of `op`, become those that it has in precision `low`: every F32 does, except
 * what belongs to a statistic that the operator, or the one it is the derivative of, keeps in F32 (its hint, cotangent and
 * tangent) or to gamma and beta of a norm. False if the operator refuses the types. */
bool sg_low_dtypes(const sg_op *op, const sg_attr *attr, int32_t n_in, const sg_shape *shape, sg_dtype *dtype,
                   sg_dtype low);

#endif
