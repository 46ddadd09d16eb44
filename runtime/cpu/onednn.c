/* onednn.c - matrix products by oneDNN (version 3 C API).
 *
 * Every primitive is created while the OpenMP limit of the calling thread is 1, and is executed inside our own parallel
 * region or under that limit: oneDNN runs on the calling thread alone, so it never splits K and results do not depend on
 * the number of threads. Scratch memory is the plan's. */
#include "runtime/cpu/onednn_internal.h"

#include <dnnl.h>
#include <stdio.h>

/* What a thread binds its pointers to. */
typedef struct slot {
    dnnl_memory_t a, b, c, scratch;
} slot;

struct sg_onednn_gemm {
    dnnl_engine_t engine;
    dnnl_primitive_t primitive;
    size_t scratch;
    int32_t threads;
    dnnl_stream_t *stream; /* one a thread, as slots */
    slot *slot;
};

static dnnl_status_t describe(dnnl_memory_desc_t *out, int64_t rows, int64_t cols, int64_t row, int64_t col)
{
    const dnnl_dims_t dims = {rows, cols};
    const dnnl_dims_t strides = {row, col};
    return dnnl_memory_desc_create_with_strides(out, 2, dims, dnnl_f32, strides);
}

static dnnl_status_t add_to_result(dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t after = NULL;
    dnnl_status_t status = dnnl_post_ops_create(&after);
    if (status == dnnl_success)
        status = dnnl_post_ops_append_sum(after, 1, 0, dnnl_data_type_undef);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attr, after);
    dnnl_post_ops_destroy(after);
    return status;
}

static dnnl_status_t strict_attributes(dnnl_primitive_attr_t *out)
{
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_fpmath_mode(*out, dnnl_fpmath_mode_strict);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    return status;
}

static dnnl_status_t make_slot(sg_onednn_gemm *gemm, int32_t thread, const_dnnl_memory_desc_t a,
                               const_dnnl_memory_desc_t b, const_dnnl_memory_desc_t c, const_dnnl_memory_desc_t scratch)
{
    slot *s = &gemm->slot[thread];
    dnnl_status_t status = dnnl_stream_create(&gemm->stream[thread], gemm->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = dnnl_memory_create(&s->a, a, gemm->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status = dnnl_memory_create(&s->b, b, gemm->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status = dnnl_memory_create(&s->c, c, gemm->engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success)
        status = dnnl_memory_create(&s->scratch, scratch, gemm->engine, DNNL_MEMORY_NONE);
    return status;
}

static dnnl_status_t make_primitive(sg_onednn_gemm *gemm, const_dnnl_memory_desc_t a, const_dnnl_memory_desc_t b,
                                    const_dnnl_memory_desc_t c, bool add)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = strict_attributes(&attr);
    if (status == dnnl_success && add)
        status = add_to_result(attr);
    if (status == dnnl_success)
        status = dnnl_matmul_primitive_desc_create(&desc, gemm->engine, a, b, NULL, c, attr);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&gemm->primitive, desc);
    const_dnnl_memory_desc_t scratch = NULL;
    if (status == dnnl_success) {
        scratch = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
        gemm->scratch = scratch ? dnnl_memory_desc_get_size(scratch) : 0;
    }
    for (int32_t t = 0; t < gemm->threads && status == dnnl_success; t++)
        status = make_slot(gemm, t, a, b, c, scratch);
    dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

static dnnl_status_t make_gemm(sg_onednn_gemm *gemm, const sg_gemm_shape *s)
{
    dnnl_memory_desc_t a = NULL, b = NULL, c = NULL;
    dnnl_status_t status = dnnl_engine_create(&gemm->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = describe(&a, s->m, s->k, s->a_row, s->a_col);
    if (status == dnnl_success)
        status = describe(&b, s->k, s->n, s->b_row, s->b_col);
    if (status == dnnl_success)
        status = describe(&c, s->m, s->n, s->c_row, 1);
    if (status == dnnl_success) {
        int before = sg_onednn_begin();
        status = make_primitive(gemm, a, b, c, s->add);
        sg_onednn_end(before);
    }
    dnnl_memory_desc_destroy(a);
    dnnl_memory_desc_destroy(b);
    dnnl_memory_desc_destroy(c);
    return status;
}

sg_status sg_onednn_gemm_new(sg_onednn_gemm **out, const sg_gemm_shape *shape, int32_t threads, sg_error *err)
{
    *out = NULL;
    sg_onednn_gemm *gemm = sg_calloc(1, sizeof *gemm);
    if (!gemm)
        return sg_fail(err, SG_E_MEMORY, "out of memory for a matrix product");
    gemm->threads = threads;
    gemm->stream = sg_calloc(threads, sizeof *gemm->stream);
    gemm->slot = sg_calloc(threads, sizeof *gemm->slot);
    if (!gemm->stream || !gemm->slot) {
        sg_onednn_gemm_free(gemm);
        return sg_fail(err, SG_E_MEMORY, "out of memory for a matrix product");
    }
    dnnl_status_t status = make_gemm(gemm, shape);
    if (status != dnnl_success) {
        sg_onednn_gemm_free(gemm);
        return sg_fail(err, status == dnnl_out_of_memory ? SG_E_MEMORY : SG_E_DEVICE,
                       "oneDNN refuses the product [%lld, %lld] x [%lld, %lld] (status %d)", (long long)shape->m,
                       (long long)shape->k, (long long)shape->k, (long long)shape->n, (int)status);
    }
    *out = gemm;
    return SG_OK;
}

void sg_onednn_gemm_free(sg_onednn_gemm *gemm)
{
    if (!gemm)
        return;
    for (int32_t t = 0; t < gemm->threads && gemm->slot && gemm->stream; t++) {
        dnnl_memory_destroy(gemm->slot[t].a);
        dnnl_memory_destroy(gemm->slot[t].b);
        dnnl_memory_destroy(gemm->slot[t].c);
        dnnl_memory_destroy(gemm->slot[t].scratch);
        dnnl_stream_destroy(gemm->stream[t]);
    }
    dnnl_primitive_destroy(gemm->primitive);
    dnnl_engine_destroy(gemm->engine);
    sg_free(gemm->slot);
    sg_free(gemm->stream);
    sg_free(gemm);
}

size_t sg_onednn_gemm_scratch(const sg_onednn_gemm *gemm) { return gemm->scratch; }

static bool execute(sg_onednn_gemm *gemm, int32_t thread, const float *a, const float *b, float *c, void *scratch)
{
    slot *s = &gemm->slot[thread];
    /* oneDNN's handles are not const, but sources are only read. */
    if (dnnl_memory_set_data_handle(s->a, (void *)(uintptr_t)a) != dnnl_success ||
        dnnl_memory_set_data_handle(s->b, (void *)(uintptr_t)b) != dnnl_success ||
        dnnl_memory_set_data_handle(s->c, c) != dnnl_success ||
        dnnl_memory_set_data_handle(s->scratch, scratch) != dnnl_success)
        return false;
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, s->a}, {DNNL_ARG_WEIGHTS, s->b}, {DNNL_ARG_DST, s->c}, {DNNL_ARG_SCRATCHPAD, s->scratch}};
    return dnnl_primitive_execute(gemm->primitive, gemm->stream[thread], 4, args) == dnnl_success;
}

bool sg_onednn_gemm_run(sg_onednn_gemm *gemm, int32_t thread, const float *a, const float *b, float *c, void *scratch)
{
    int before = sg_onednn_begin();
    bool ok = execute(gemm, thread, a, b, c, scratch);
    sg_onednn_end(before);
    return ok;
}

void sg_onednn_version(char *out, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, size, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}
