/* module.c - backends that are modules: shared objects beside the program, loaded when their device is asked for, so that one
 * program runs with and without a GPU. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/plan_internal.h"

#ifndef SG_LIBDIR
#define SG_LIBDIR "lib"
#endif

enum { MOST_PATH = 4096 };

/* The folder of the running program, without a slash at the end; "." if unknown. */
static void program_folder(char *out)
{
    ssize_t n = readlink("/proc/self/exe", out, MOST_PATH - 1);
    out[n > 0 ? n : 0] = 0;
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
    else
        strcpy(out, ".");
}

/* SEALGRAPH_MODULE_PATH, beside the program, or where `make install` puts modules. */
static bool find_module(const char *name, char *out, size_t size)
{
    char folder[MOST_PATH];
    const char *given = getenv("SEALGRAPH_MODULE_PATH");
    if (given && *given) {
        snprintf(out, size, "%s/sealgraph-%s.so", given, name);
        return access(out, R_OK) == 0;
    }
    program_folder(folder);
    snprintf(out, size, "%s/sealgraph-%s.so", folder, name);
    if (access(out, R_OK) == 0)
        return true;
    snprintf(out, size, "%s/../%s/sealgraph/sealgraph-%s.so", folder, SG_LIBDIR, name);
    return access(out, R_OK) == 0;
}

static const sg_backend *open_module(const char *path, sg_error *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        sg_fail(err, SG_E_DEVICE, "cannot load the module %s: %s", path, dlerror());
        return NULL;
    }
    sg_backend_module_fn entry = NULL;
    *(void **)&entry = dlsym(library, "sg_backend_module");
    if (!entry)
        sg_fail(err, SG_E_DEVICE, "%s is no module of sealgraph", path);
    const sg_backend *backend = entry ? entry(SG_BACKEND_ABI, err) : NULL;
    if (!backend)
        dlclose(library);
    return backend;
}

const sg_backend *sg_module_load(const char *name, sg_error *err)
{
    static const sg_backend *loaded; /* there is one module; it stays */
    char path[2 * MOST_PATH];
    if (loaded)
        return loaded;
    if (!find_module(name, path, sizeof path)) {
        sg_fail(err, SG_E_DEVICE,
                "no module for %s: sealgraph-%s.so is neither beside the program nor in the folder "
                "SEALGRAPH_MODULE_PATH names; plain `make` builds it where nvcc and cuDNN are found",
                name, name);
        return NULL;
    }
    return loaded = open_module(path, err);
}

const char *sg_backend_names(void)
{
    char path[2 * MOST_PATH];
    return find_module("cuda", path, sizeof path) ? "cpu, reference, cuda" : "cpu, reference";
}

const char *sg_module_path(const char *name, char *out, size_t size)
{
    return find_module(name, out, size) ? out : NULL;
}
