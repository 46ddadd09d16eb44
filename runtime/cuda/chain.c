/* chain.c - elementwise ops and fused chains as generated kernels. */
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/chain_internal.h"
#include "runtime/cuda/cuda_kernels.h"
#include "runtime/cuda/nvrtc_internal.h"

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

/* Threads of a block; blocks and busy threads a multiprocessor. A thread with a wide pack is worth its start, and one pack for
 * each thread is as fast as memory; others take one after the other. The start of a draw takes about as long as a pack of it. Many
 * replicas are bound by instructions: wide packs have fewer. */
enum {
    BLOCK = SG_CUDA_CHAIN_BLOCK,
    WAVES = 16,
    WAVES_DRAWN = 8,
    BUSY = 512,
    PACK_ONCE = 4,
    MANY_REPLICAS = 4,
    MANY_FEWER = 4 /* busy threads */
};

typedef struct chain {
    sg_cuda_chain text;
    cudaKernel_t kernel;
    unsigned blocks;
    char name[48];
} chain;

void sg_cuda_chain_parameters(const sg_cuda_chain *c, const sg_launch *l, void **parameter)
{
    _Static_assert(sizeof l->run.repeat == 8 && sizeof l->stride == 8, "unsigned long long in the text");
    for (int32_t k = 0; k < c->n_input; k++)
        *parameter++ = (void *)(uintptr_t)&l->in[c->input[k]];
    for (int32_t j = 0; j < c->n_out; j++)
        *parameter++ = (void *)(uintptr_t)&l->out[j];
    *parameter++ = (void *)(uintptr_t)&l->run.repeat;
    *parameter = (void *)(uintptr_t)&l->stride;
}

static void release(void *state)
{
    chain *c = state;
    sg_cuda_chain_release(&c->text);
    sg_free(c);
}

static bool launch(const sg_launch *l, sg_error *err)
{
    const chain *c = l->state;
    void *parameter[SG_CUDA_CHAIN_PARAMETERS];
    if (c->text.count == 0)
        return true;
    sg_cuda_chain_parameters(&c->text, l, parameter);
    dim3 grid = {c->blocks, 1, (unsigned)l->replicas}, block = {BLOCK, 1, 1};
    sg_cuda_overlap(l->stream);
    return sg_cuda_check(cudaLaunchKernel((const void *)c->kernel, grid, block, parameter, 0, l->stream),
                         "launch of a chain", err) == SG_OK;
}

/* Threads of one replica that keep the device busy. SEALGRAPH_CUDA_BUSY lowers the number, so that tests get packs in small
 * tensors. */
static sg_status busy_threads(const sg_device *device, int64_t *out, sg_error *err)
{
    const char *wish = getenv("SEALGRAPH_CUDA_BUSY");
    char *end = "";
    long each = wish && *wish ? strtol(wish, &end, 10) : BUSY;
    if (*end || each < 0 || each > BUSY)
        return sg_fail(err, SG_E_CONFIG, "SEALGRAPH_CUDA_BUSY must be a whole number in [0, %d], not '%.40s'", BUSY,
                       wish);
    int64_t all = device->processors * (int64_t)each;
    if (device->replicas >= MANY_REPLICAS)
        all /= MANY_FEWER;
    *out = device->replicas > 1 ? (all + device->replicas - 1) / device->replicas : all;
    return SG_OK;
}

/* In columns, a block takes as many of them as a warp has threads, unless a thread takes each. */
static int64_t threads_of(const sg_cuda_chain *c)
{
    if (c->sum.length == 0)
        return (c->count + c->pack - 1) / c->pack;
    if (c->sum.inner > 1 && (c->lanes == 1 || sg_cuda_chain_alone(c)))
        return c->sum.outer * c->sum.inner;
    if (c->sum.inner > 1)
        return c->sum.outer * ((c->sum.inner + c->lanes - 1) / c->lanes) * BLOCK;
    return c->sum.outer * c->lanes;
}

static sg_status build(chain *c, sg_device *device, const sg_kernel_spec *spec, sg_error *err)
{
    int64_t busy = 0;
    SG_TRY(busy_threads(device, &busy, err));
    c->text.many = device->replicas >= MANY_REPLICAS;
    SG_TRY(sg_cuda_chain_write(&c->text, spec, busy, err));
    int64_t blocks = (threads_of(&c->text) + BLOCK - 1) / BLOCK;
    bool each_once = c->text.pack >= PACK_ONCE && !c->text.draws;
    int64_t most = each_once ? INT32_MAX : (int64_t)device->processors * (c->text.draws ? WAVES_DRAWN : WAVES);
    c->blocks = (unsigned)(blocks < most ? blocks : most);
    if (spec->node->op == &sg_op_fused)
        snprintf(c->name, sizeof c->name, "fused %d ops", (int)c->text.n_steps);
    else
        snprintf(c->name, sizeof c->name, "cuda %s", spec->node->op->name);
    return c->text.count == 0 ? SG_OK : sg_cuda_compile(device, c->text.source, "chain", &c->kernel, err);
}

static sg_status prepare(sg_device *device, const sg_kernel_spec *spec, sg_kernel *out, sg_error *err)
{
    chain *c = sg_calloc(1, sizeof *c);
    if (!c)
        return sg_fail(err, SG_E_MEMORY, "out of memory preparing a chain");
    sg_status status = build(c, device, spec, err);
    if (status != SG_OK) {
        release(c);
        return status;
    }
    *out = (sg_kernel){
        .name = c->name, .launch = launch, .state = c, .release = release, .alias = c->text.alias, .replicates = true};
    return SG_OK;
}

static bool supports(const sg_kernel_spec *spec)
{
    return spec->n_out == 1 && spec->n_in <= 3 &&
           sg_cuda_chain_has(spec->node->op, spec->n_in, spec->in_dtype, spec->out_dtype[0]);
}

/* The fusion pass asked about each step. */
static bool supports_body(const sg_kernel_spec *spec)
{
    (void)spec;
    return true;
}

/* clang-format off */
#define ROW(name) {&sg_op_##name, supports, prepare}
const sg_cuda_kernel sg_cuda_chain_kernels[] = {
    {&sg_op_fused, supports_body, prepare},
    ROW(neg), ROW(abs), ROW(sign), ROW(floor), ROW(exp), ROW(expm1), ROW(log), ROW(log1p), ROW(sqrt), ROW(rsqrt),
    ROW(square), ROW(reciprocal), ROW(sin), ROW(cos), ROW(tanh), ROW(erf), ROW(erfc), ROW(sigmoid), ROW(log_sigmoid),
    ROW(softplus), ROW(relu), ROW(leaky_relu), ROW(elu), ROW(gelu), ROW(gelu_derivative), ROW(clip), ROW(is_finite),
    ROW(logical_not), ROW(cast), ROW(stop_gradient), ROW(add), ROW(sub), ROW(mul), ROW(div), ROW(pow), ROW(maximum),
    ROW(minimum), ROW(xlogy), ROW(equal), ROW(not_equal), ROW(less), ROW(less_equal), ROW(greater), ROW(greater_equal),
    ROW(logical_and), ROW(logical_or), ROW(where), ROW(uniform_like), ROW(normal_like), ROW(keyed_uniform),
    ROW(broadcast_like), ROW(tile_axis), ROW(fill_like),
    {0},
};
