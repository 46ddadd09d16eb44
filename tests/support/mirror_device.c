#include "tests/support/mirror_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

mirror_counts *mirror_open(void)
{
    setenv("SEALGRAPH_MODULE_PATH", SG_BINARY_DIR "/tests/mirror", 1);
    void *module = dlopen(SG_BINARY_DIR "/tests/mirror/sealgraph-cuda.so", RTLD_NOW | RTLD_LOCAL);
    if (!module)
        fprintf(stderr, "%s\n", dlerror());
    return module ? dlsym(module, "mirror_count") : NULL;
}
