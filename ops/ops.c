/* ops.c - the registry of operators. */
#include "ops/ops_internal.h"

#include <string.h>

static const sg_op *const registry[] = {
#define SG_OP(name) &sg_op_##name,
#include "ops/op_list.h"
#undef SG_OP
};

int32_t sg_op_count(void) { return (int32_t)(sizeof(registry) / sizeof(registry[0])); }

const sg_op *sg_op_at(int32_t index) { return index >= 0 && index < sg_op_count() ? registry[index] : NULL; }

const sg_op *sg_op_find(const char *name)
{
    for (int32_t i = 0; name && i < sg_op_count(); i++)
        if (strcmp(registry[i]->name, name) == 0)
            return registry[i];
    return NULL;
}
