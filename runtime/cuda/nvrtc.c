/* nvrtc.c - compiling source text for the device at hand. */
#include <nvrtc.h>
#include <pthread.h>
#include <string.h>

#include "runtime/cuda/nvrtc_internal.h"

extern const char sg_cuda_text_random[], sg_cuda_text_functions[], sg_cuda_text_product[], sg_cuda_text_product_fma[],
    sg_cuda_text_product_fetch[], sg_cuda_text_product_tf32[], sg_cuda_text_product_split[], sg_cuda_text_product_mma[],
    sg_cuda_text_product_wgmma[];

/* Programs of the process, by text: sessions come and go, and compiling one takes tens of milliseconds. */
typedef struct program {
    struct program *next;
    char *source;
    int32_t index; /* of the device */
    cudaLibrary_t library;
    cudaKernel_t kernel;
} program;

static program *programs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The first line of the compiler's log, for the one line of an error. */
static sg_status failed(nvrtcProgram compiled, nvrtcResult code, sg_error *err)
{
    size_t n = 0;
    char *log = compiled && nvrtcGetProgramLogSize(compiled, &n) == NVRTC_SUCCESS ? sg_calloc(1, n + 1) : NULL;
    if (log && nvrtcGetProgramLog(compiled, log) == NVRTC_SUCCESS)
        log[strcspn(log, "\n")] = 0;
    sg_status status =
        sg_fail(err, SG_E_DEVICE, "NVRTC: %s%s%s", nvrtcGetErrorString(code), log && *log ? ": " : "", log ? log : "");
    sg_free(log);
    return status;
}

static sg_status load(nvrtcProgram compiled, program *p, const char *name, sg_error *err)
{
    size_t n = 0;
    nvrtcResult code = nvrtcGetCUBINSize(compiled, &n);
    if (code != NVRTC_SUCCESS)
        return failed(NULL, code, err);
    char *image = sg_calloc(1, n + 1);
    if (!image)
        return sg_fail(err, SG_E_MEMORY, "out of memory compiling a kernel");
    code = nvrtcGetCUBIN(compiled, image);
    sg_status status = code == NVRTC_SUCCESS ? SG_OK : failed(NULL, code, err);
    if (status == SG_OK)
        status = sg_cuda_check(cudaLibraryLoadData(&p->library, image, NULL, NULL, 0, NULL, NULL, 0),
                               "loading a compiled kernel", err);
    if (status == SG_OK)
        status = sg_cuda_check(cudaLibraryGetKernel(&p->kernel, p->library, name), "loading a compiled kernel", err);
    sg_free(image);
    return status;
}

static sg_status translate(const sg_device *d, program *p, const char *name, sg_error *err)
{
    char architecture[32];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d%s", (int)d->capability,
             d->capability == 90 ? "a" : ""); /* with the instructions that only Hopper has */
    const char *options[] = {architecture, "--fmad=false", "--std=c++17", "--device-as-default-execution-space"};
    /* There are no files: what may be included is given by name. NVRTC knows the functions of the C headers itself. */
    static const char *const names[] = {"random.h",        "functions.h",    "product.h",       "product_fma.h",
                                        "product_fetch.h", "product_tf32.h", "product_split.h", "product_mma.h",
                                        "product_wgmma.h", "math.h",         "stdint.h",        "string.h"};
    const char *const texts[] = {sg_cuda_text_random,
                                 sg_cuda_text_functions,
                                 sg_cuda_text_product,
                                 sg_cuda_text_product_fma,
                                 sg_cuda_text_product_fetch,
                                 sg_cuda_text_product_tf32,
                                 sg_cuda_text_product_split,
                                 sg_cuda_text_product_mma,
                                 sg_cuda_text_product_wgmma,
                                 "",
                                 "typedef unsigned char uint8_t; typedef int int32_t; typedef unsigned uint32_t; "
                                 "typedef long long int64_t; typedef unsigned long long uint64_t;",
                                 ""};
    nvrtcProgram compiled = NULL;
    nvrtcResult code = nvrtcCreateProgram(&compiled, p->source, "chain.cu", sizeof names / sizeof *names, texts, names);
    if (code != NVRTC_SUCCESS)
        return failed(NULL, code, err);
    code = nvrtcCompileProgram(compiled, (int)(sizeof options / sizeof *options), options);
    sg_status status = code == NVRTC_SUCCESS ? load(compiled, p, name, err) : failed(compiled, code, err);
    nvrtcDestroyProgram(&compiled);
    return status;
}

static void program_free(program *p)
{
    if (p->library)
        cudaLibraryUnload(p->library);
    sg_free(p->source);
    sg_free(p);
}

static sg_status make(const sg_device *d, const char *source, const char *name, program **out, sg_error *err)
{
    program *p = sg_calloc(1, sizeof *p);
    if (p)
        p->source = sg_strdup(source);
    if (!p || !p->source) {
        sg_free(p);
        return sg_fail(err, SG_E_MEMORY, "out of memory compiling a kernel");
    }
    p->index = d->index;
    sg_status status = translate(d, p, name, err);
    if (status != SG_OK)
        program_free(p);
    else
        *out = p;
    return status;
}

static sg_status find_or_make(const sg_device *d, const char *source, const char *name, cudaKernel_t *out,
                              sg_error *err)
{
    program *made = NULL;
    for (program *p = programs; p; p = p->next)
        if (p->index == d->index && strcmp(p->source, source) == 0) {
            *out = p->kernel;
            return SG_OK;
        }
    SG_TRY(make(d, source, name, &made, err));
    made->next = programs;
    programs = made;
    *out = made->kernel;
    return SG_OK;
}

sg_status sg_cuda_compile(const sg_device *d, const char *source, const char *name, cudaKernel_t *out, sg_error *err)
{
    pthread_mutex_lock(&lock);
    sg_status status = find_or_make(d, source, name, out, err);
    pthread_mutex_unlock(&lock);
    return status;
}
