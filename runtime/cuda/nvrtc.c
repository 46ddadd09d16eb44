/* nvrtc.c - compiling source text for the device at hand. */
#include <nvrtc.h>
#include <string.h>

#include "runtime/cuda/nvrtc_internal.h"

extern const char sg_cuda_text_random[], sg_cuda_text_functions[];

struct sg_cuda_program {
    struct sg_cuda_program *next;
    char *source;
    cudaLibrary_t library;
    cudaKernel_t kernel;
};

/* The first line of the compiler's log, for the one line of an error. */
static sg_status failed(nvrtcProgram program, nvrtcResult code, sg_error *err)
{
    size_t n = 0;
    char *log = program && nvrtcGetProgramLogSize(program, &n) == NVRTC_SUCCESS ? sg_calloc(1, n + 1) : NULL;
    if (log && nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS)
        log[strcspn(log, "\n")] = 0;
    sg_status status =
        sg_fail(err, SG_E_DEVICE, "NVRTC: %s%s%s", nvrtcGetErrorString(code), log && *log ? ": " : "", log ? log : "");
    sg_free(log);
    return status;
}

static sg_status load(nvrtcProgram program, struct sg_cuda_program *p, const char *name, sg_error *err)
{
    size_t n = 0;
    nvrtcResult code = nvrtcGetCUBINSize(program, &n);
    if (code != NVRTC_SUCCESS)
        return failed(NULL, code, err);
    char *image = sg_calloc(1, n + 1);
    if (!image)
        return sg_fail(err, SG_E_MEMORY, "out of memory compiling a kernel");
    code = nvrtcGetCUBIN(program, image);
    sg_status status = code == NVRTC_SUCCESS ? SG_OK : failed(NULL, code, err);
    if (status == SG_OK)
        status = sg_cuda_check(cudaLibraryLoadData(&p->library, image, NULL, NULL, 0, NULL, NULL, 0),
                               "loading a compiled kernel", err);
    if (status == SG_OK)
        status = sg_cuda_check(cudaLibraryGetKernel(&p->kernel, p->library, name), "loading a compiled kernel", err);
    sg_free(image);
    return status;
}

static sg_status translate(sg_device *d, struct sg_cuda_program *p, const char *name, sg_error *err)
{
    char architecture[32];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d", (int)d->capability);
    const char *options[] = {architecture, "--fmad=false", "--std=c++17", "--device-as-default-execution-space"};
    /* There are no files: what may be included is given by name. NVRTC knows the functions of the C headers itself. */
    static const char *const names[] = {"random.h", "functions.h", "math.h", "stdint.h", "string.h"};
    const char *const texts[] = {sg_cuda_text_random, sg_cuda_text_functions, "",
                                 "typedef unsigned char uint8_t; typedef int int32_t; typedef unsigned uint32_t; "
                                 "typedef long long int64_t; typedef unsigned long long uint64_t;",
                                 ""};
    nvrtcProgram program = NULL;
    nvrtcResult code = nvrtcCreateProgram(&program, p->source, "chain.cu", sizeof names / sizeof *names, texts, names);
    if (code != NVRTC_SUCCESS)
        return failed(NULL, code, err);
    code = nvrtcCompileProgram(program, (int)(sizeof options / sizeof *options), options);
    sg_status status = code == NVRTC_SUCCESS ? load(program, p, name, err) : failed(program, code, err);
    nvrtcDestroyProgram(&program);
    return status;
}

static void program_free(struct sg_cuda_program *p)
{
    if (p->library)
        cudaLibraryUnload(p->library);
    sg_free(p->source);
    sg_free(p);
}

sg_status sg_cuda_compile(sg_device *d, const char *source, const char *name, cudaKernel_t *out, sg_error *err)
{
    for (struct sg_cuda_program *p = d->programs; p; p = p->next)
        if (strcmp(p->source, source) == 0) {
            *out = p->kernel;
            return SG_OK;
        }
    struct sg_cuda_program *p = sg_calloc(1, sizeof *p);
    if (p)
        p->source = sg_strdup(source);
    if (!p || !p->source) {
        sg_free(p);
        return sg_fail(err, SG_E_MEMORY, "out of memory compiling a kernel");
    }
    sg_status status = translate(d, p, name, err);
    if (status != SG_OK) {
        program_free(p);
        return status;
    }
    p->next = d->programs;
    d->programs = p;
    *out = p->kernel;
    return SG_OK;
}

void sg_cuda_programs_free(sg_device *d)
{
    while (d->programs) {
        struct sg_cuda_program *p = d->programs;
        d->programs = p->next;
        program_free(p);
    }
}
