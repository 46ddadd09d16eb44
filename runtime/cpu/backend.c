/* backend.c - the CPU as a device: opening, memory, and the way from a node to its kernel. */
#include "runtime/cpu/cpu_internal.h"

#include "runtime/cpu/onednn_internal.h"
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

static const char *const isa_names[] = {"x86-64", "avx2", "avx512"};

static sg_isa processor_isa(void)
{
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return avx512 ? SG_ISA_AVX512 : avx2 ? SG_ISA_AVX2 : SG_ISA_X86_64;
}

/* What the processor has, or what SEALGRAPH_ISA names, which it must have as well. */
static sg_status choose_isa(sg_isa *out, sg_error *err)
{
    const char *wish = getenv("SEALGRAPH_ISA");
    *out = processor_isa();
    if (!wish || !*wish)
        return SG_OK;
    for (sg_isa isa = SG_ISA_X86_64; isa <= SG_ISA_AVX512; isa++)
        if (strcmp(wish, isa_names[isa]) == 0) {
            if (isa > *out)
                return sg_fail(err, SG_E_CONFIG, "SEALGRAPH_ISA is %s, but this processor has %s at most", wish,
                               isa_names[*out]);
            *out = isa;
            return SG_OK;
        }
    return sg_fail(err, SG_E_CONFIG, "SEALGRAPH_ISA must be one of %s|%s|%s, not '%.40s'", isa_names[SG_ISA_X86_64],
                   isa_names[SG_ISA_AVX2], isa_names[SG_ISA_AVX512], wish);
}

sg_status sg_cpu_isa_check(sg_error *err)
{
    sg_isa isa;
    return choose_isa(&isa, err);
}

sg_isa sg_cpu_isa_level(void)
{
    static int known = -1; /* every thread that races here computes the same answer */
    int level = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (level < 0) {
        sg_error err;
        sg_isa isa;
        choose_isa(&isa, &err);
        level = (int)isa;
        __atomic_store_n(&known, level, __ATOMIC_RELAXED);
    }
    return (sg_isa)level;
}

const char *sg_cpu_isa(void) { return isa_names[sg_cpu_isa_level()]; }

static sg_status cpu_open(const sg_device_options *options, sg_device **out, sg_error *err)
{
    if (strcmp(options->spec, "cpu") != 0)
        return sg_fail(err, SG_E_ARGUMENT, "backend \"cpu\" takes no options, but was asked for as \"%s\"",
                       options->spec);
    SG_TRY(sg_cpu_isa_check(err));
    sg_device *device = sg_calloc(1, sizeof *device);
    if (!device)
        return sg_fail(err, SG_E_MEMORY, "out of memory opening the cpu backend");
    device->threads = options->threads > 0 ? options->threads : 1;
    device->team = sg_cpu_team_new(device->threads);
    if (!device->team) {
        sg_free(device);
        return sg_fail(err, SG_E_MEMORY, "out of memory opening the cpu backend");
    }
    device->isa = sg_cpu_isa_level();
    char onednn[48];
    sg_onednn_version(onednn, sizeof onednn);
    snprintf(device->text, sizeof device->text, "%s kernels, %s, SLEEF", sg_cpu_isa(), onednn);
    *out = device;
    return SG_OK;
}

static void cpu_close(sg_device *device)
{
    sg_cpu_team_free(device->team);
    sg_free(device);
}

static const char *cpu_describe(const sg_device *device) { return device->text; }

static bool cpu_supports(const sg_device *device, const sg_kernel_spec *spec)
{
    (void)device;
    return sg_cpu_find(spec) != NULL;
}

static sg_status cpu_prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    const sg_cpu_kernel *kernel = sg_cpu_find(spec);
    if (!kernel)
        return sg_fail(err, SG_E_UNSUPPORTED, "backend \"cpu\" has no kernel for node %s (%s)", spec->node->name,
                       spec->node->op->name);
    memset(out, 0, sizeof *out);
    return kernel->prepare(device, spec, out, err);
}

static void cpu_run(sg_device *device, void (*body)(void *user), void *user) { sg_cpu_run(device->team, body, user); }

static void *cpu_allocate(sg_device *device, size_t bytes)
{
    (void)device;
    return sg_alloc_aligned(bytes);
}

static void cpu_release(sg_device *device, void *memory)
{
    (void)device;
    sg_free_aligned(memory);
}

const sg_backend *sg_backend_cpu(void)
{
    static const sg_backend backend = {
        .name = "cpu",
        .real = SG_F32,
        .open = cpu_open,
        .close = cpu_close,
        .describe = cpu_describe,
        .supports = cpu_supports,
        .prepare = cpu_prepare,
        .fuse = sg_cpu_fuse,
        .run = cpu_run,
        .allocate = cpu_allocate,
        .release = cpu_release,
    };
    return &backend;
}
