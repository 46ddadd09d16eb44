/* nvrtc.c - compiling source text for the device at hand, or finding what was compiled before: in this process, or on disk. */
#include <dlfcn.h>
#include <nvrtc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "graph/random_internal.h"
#include "runtime/cuda/kernel_cache_internal.h"
#include "runtime/cuda/nvrtc_internal.h"

extern const char sg_cuda_text_random[], sg_cuda_text_functions[], sg_cuda_text_product[], sg_cuda_text_product_fma[],
    sg_cuda_text_product_fetch[], sg_cuda_text_product_tf32[], sg_cuda_text_product_split[], sg_cuda_text_product_mma[],
    sg_cuda_text_product_wgmma[], sg_cuda_text_product_parts[], sg_cuda_text_product_warp[],
    sg_cuda_text_product_packs[], sg_cuda_text_product_csr[], sg_cuda_text_csr_read[], sg_cuda_text_csr_lines[],
    sg_cuda_text_fault[], sg_cuda_text_gelu_sums[];

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

/* ---- what a kernel is compiled from, beside its own text */

/* There are no files: what may be included is given by name. NVRTC knows the functions of the C headers itself. */
static const struct {
    const char *name, *text;
} included[] = {{"random.h", sg_cuda_text_random},
                {"functions.h", sg_cuda_text_functions},
                {"product.h", sg_cuda_text_product},
                {"product_fma.h", sg_cuda_text_product_fma},
                {"product_fetch.h", sg_cuda_text_product_fetch},
                {"product_tf32.h", sg_cuda_text_product_tf32},
                {"product_split.h", sg_cuda_text_product_split},
                {"product_mma.h", sg_cuda_text_product_mma},
                {"product_parts.h", sg_cuda_text_product_parts},
                {"product_warp.h", sg_cuda_text_product_warp},
                {"product_wgmma.h", sg_cuda_text_product_wgmma},
                {"product_packs.h", sg_cuda_text_product_packs},
                {"product_csr.h", sg_cuda_text_product_csr},
                {"runtime/cuda/csr_read.cuh", sg_cuda_text_csr_read},
                {"runtime/cuda/csr_lines_internal.h", sg_cuda_text_csr_lines},
                {"runtime/cuda/fault_internal.h", sg_cuda_text_fault},
                {"gelu_sums.h", sg_cuda_text_gelu_sums},
                {"math.h", ""},
                {"stdbool.h", ""},
                {"stdint.h", "typedef unsigned char uint8_t; typedef int int32_t; typedef unsigned uint32_t; "
                             "typedef long long int64_t; typedef unsigned long long uint64_t;"},
                {"string.h", ""}};
enum { N_INCLUDED = sizeof included / sizeof *included, N_OPTIONS = 4 };

typedef struct settings {
    char architecture[32];
    const char *option[N_OPTIONS];
} settings;

static void settings_of(const sg_device *d, settings *s)
{
    snprintf(s->architecture, sizeof s->architecture, "--gpu-architecture=sm_%d%s", (int)d->capability,
             d->capability == 90 ? "a" : ""); /* with the instructions that only Hopper has */
    s->option[0] = s->architecture;
    s->option[1] = "--fmad=false";
    s->option[2] = "--std=c++17";
    s->option[3] = "--device-as-default-execution-space";
}

/* NVRTC tells no number of a patch, so the file that it came in stands for that. */
static int describe_compiler(char *out, size_t size)
{
    int major = 0, minor = 0;
    Dl_info info;
    struct stat st = {0};
    nvrtcVersion(&major, &minor);
    if (dladdr((const void *)(uintptr_t)&nvrtcVersion, &info) && stat(info.dli_fname, &st) != 0)
        st = (struct stat){0};
    return snprintf(out, size, "nvrtc %d.%d %lld %lld", major, minor, (long long)st.st_size, (long long)st.st_mtime);
}

/* All that the machine code depends on. */
static char *key_of(const sg_device *d, const char *source, const char *name)
{
    settings s;
    uint64_t texts = 0;
    size_t size = strlen(source) + 512, n;
    char *key = sg_alloc(size);
    if (!key)
        return NULL;
    settings_of(d, &s);
    for (int k = 0; k < N_INCLUDED; k++)
        texts = texts * 31 + sg_hash_text(included[k].text);
    n = (size_t)describe_compiler(key, size);
    for (int k = 0; k < N_OPTIONS; k++)
        n += (size_t)snprintf(key + n, size - n, " %s", s.option[k]);
    snprintf(key + n, size - n, " %016llx %s\n%s", (unsigned long long)texts, name, source);
    return key;
}

/* ---- the machine code */

static sg_status translate(const sg_device *d, const char *source, nvrtcProgram *out, sg_error *err)
{
    settings s;
    const char *names[N_INCLUDED], *texts[N_INCLUDED];
    for (int k = 0; k < N_INCLUDED; k++) {
        names[k] = included[k].name;
        texts[k] = included[k].text;
    }
    settings_of(d, &s);
    nvrtcResult code = nvrtcCreateProgram(out, source, "chain.cu", N_INCLUDED, texts, names);
    if (code != NVRTC_SUCCESS)
        return failed(NULL, code, err);
    code = nvrtcCompileProgram(*out, N_OPTIONS, s.option);
    return code == NVRTC_SUCCESS ? SG_OK : failed(*out, code, err);
}

static sg_status image_of(nvrtcProgram compiled, char **out, size_t *size, sg_error *err)
{
    nvrtcResult code = nvrtcGetCUBINSize(compiled, size);
    if (code != NVRTC_SUCCESS)
        return failed(NULL, code, err);
    if (!(*out = sg_calloc(1, (int64_t)*size + 1)))
        return sg_fail(err, SG_E_MEMORY, "out of memory compiling a kernel");
    code = nvrtcGetCUBIN(compiled, *out);
    return code == NVRTC_SUCCESS ? SG_OK : failed(NULL, code, err);
}

static sg_status load(program *p, const char *image, const char *name, sg_error *err)
{
    SG_TRY(sg_cuda_check(cudaLibraryLoadData(&p->library, image, NULL, NULL, 0, NULL, NULL, 0),
                         "loading a compiled kernel", err));
    return sg_cuda_check(cudaLibraryGetKernel(&p->kernel, p->library, name), "loading a compiled kernel", err);
}

static void unload(program *p)
{
    if (p->library)
        cudaLibraryUnload(p->library);
    p->library = NULL;
}

static sg_status compile(const sg_device *d, program *p, const char *name, const char *key, sg_error *err)
{
    nvrtcProgram compiled = NULL;
    char *image = NULL;
    size_t size = 0;
    sg_status status = translate(d, p->source, &compiled, err);
    if (status == SG_OK)
        status = image_of(compiled, &image, &size, err);
    if (status == SG_OK)
        status = load(p, image, name, err);
    if (status == SG_OK)
        sg_cuda_cache_write(key, image, size);
    sg_free(image);
    nvrtcDestroyProgram(&compiled);
    return status;
}

static sg_status obtain(const sg_device *d, program *p, const char *name, sg_error *err)
{
    size_t size;
    char *key = key_of(d, p->source, name);
    if (!key)
        return sg_fail(err, SG_E_MEMORY, "out of memory compiling a kernel");
    char *kept = sg_cuda_cache_read(key, &size);
    sg_status status = kept ? load(p, kept, name, NULL) : SG_E_DEVICE;
    if (status != SG_OK) {
        unload(p);
        cudaGetLastError(); /* what it says of that is told to nobody */
        status = compile(d, p, name, key, err);
    }
    sg_free(kept);
    sg_free(key);
    return status;
}

static void program_free(program *p)
{
    unload(p);
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
    sg_status status = obtain(d, p, name, err);
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
