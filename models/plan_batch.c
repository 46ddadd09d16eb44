/* plan_batch.c - batches into plans, results out of them. The reference backend (real = F64) holds every tensor in double. */
#include "models/plan_batch_internal.h"

#include <string.h>

/* An input that nothing in the graph reads is not in the plan, and its data is not needed. */
static sg_status feed(sg_plan *plan, sg_dtype real, const char *name, const void *data, bool integers, int64_t n,
                      sg_error *err)
{
    void *to = sg_plan_input_anew(plan, name);
    if (!to)
        return SG_OK;
    if (sg_shape_count(sg_plan_input_shape(plan, name)) != n)
        return sg_fail(err, SG_E_SHAPE, "input '%s' of the plan does not have %lld elements", name, (long long)n);
    if (real == SG_F32)
        memcpy(to, data, (size_t)n * sizeof(float)); /* int32_t has the same width */
    for (int64_t i = 0; real != SG_F32 && i < n; i++)
        ((double *)to)[i] = integers ? (double)((const int32_t *)data)[i] : (double)((const float *)data)[i];
    return SG_OK;
}

sg_status sgi_feed_features(sg_plan *plan, sg_dtype real, const sg_batch *b, sg_error *err)
{
    if (b->capacity == 0)
        return feed(plan, real, "x", b->x, false, b->rows * b->features, err);
    SG_TRY(feed(plan, real, "x.values", b->values, false, b->capacity, err));
    SG_TRY(feed(plan, real, "x.columns", b->columns, true, b->capacity, err));
    SG_TRY(feed(plan, real, "x.indptr", b->indptr, true, b->rows + 1, err));
    SG_TRY(feed(plan, real, "x.t_rows", b->t_rows, true, b->capacity, err));
    SG_TRY(feed(plan, real, "x.t_order", b->t_order, true, b->capacity, err));
    return feed(plan, real, "x.t_indptr", b->t_indptr, true, b->features + 1, err);
}

sg_status sgi_feed_batch(sg_plan *plan, sg_dtype real, const sg_batch *b, sg_error *err)
{
    SG_TRY(sgi_feed_features(plan, real, b, err));
    SG_TRY(feed(plan, real, "y", b->y, false, b->rows * b->labels, err));
    SG_TRY(feed(plan, real, "known", b->y_known, false, b->rows * b->labels, err));
    return feed(plan, real, "weight", b->weight, false, b->rows, err);
}

static void read_floats(sg_dtype real, const void *from, float *out, int64_t n)
{
    if (real == SG_F32)
        memcpy(out, from, (size_t)n * sizeof *out);
    for (int64_t i = 0; real != SG_F32 && i < n; i++)
        out[i] = (float)((const double *)from)[i];
}

sg_status sgi_fetch_floats(sg_plan *plan, sg_dtype real, const char *name, float *out, int64_t n, sg_error *err)
{
    const void *from = sg_plan_result(plan, name);
    if (!from)
        return sg_fail(err, SG_E_NAME, "the plan has no result '%s'", name);
    read_floats(real, from, out, n);
    return SG_OK;
}

sg_status sgi_posted_floats(sg_plan *plan, sg_dtype real, int32_t slot, int32_t replica, const char *name, float *out,
                            int64_t n, sg_error *err)
{
    const void *from;
    SG_TRY(sg_plan_posted(plan, slot, replica, name, &from, err));
    read_floats(real, from, out, n);
    return SG_OK;
}
