/* predictor.c - probabilities of many rows, a batch at a time, on one compiled plan. */
#include <string.h>

#include "models/models.h"
#include "models/plan_batch_internal.h"
#include "runtime/runtime.h"

/* Wide batches keep the matrix products efficient; the last one is padded. A device that runs on by itself gets wider ones, and
 * the next before the last one's results are read. */
enum { ROWS = 256, ROWS_AHEAD = 1024 };

struct sg_predictor {
    sg_step_options options;
    sg_store *store;
    sg_session *session; /* own, or NULL */
    sg_session *used;
    sg_plan *plan;
    sg_batch *batch;
    int64_t rows, capacity; /* of a batch */
};

/* Sparse capacity depends on the rows to predict, so the plan is made for the first data set and again for a larger one. */
static sg_status prepare(sg_predictor *p, const sg_dataset *data, sg_error *err)
{
    int64_t capacity = data->sparse ? sg_dataset_max_nnz(data, p->rows) : 0;
    if (p->plan && capacity <= p->capacity && (capacity > 0) == (p->capacity > 0))
        return SG_OK;
    sg_plan_free(p->plan);
    sg_batch_free(p->batch);
    p->plan = NULL;
    p->batch = NULL;
    p->capacity = p->options.capacity = capacity;
    p->options.batch = p->rows;
    SG_TRY(sg_batch_new(&p->batch, data, p->rows, capacity, err));
    sg_graph *graph = sg_graph_new();
    if (!graph)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = sg_predict_build(graph, p->store, &p->options, err);
    if (status == SG_OK)
        status = sg_plan_new(&p->plan, p->used, graph, err);
    sg_graph_free(graph);
    return status;
}

sg_status sgi_predictor_on(sg_predictor **out, sg_session *session, const sg_step_options *options, sg_error *err)
{
    sg_predictor *p = sg_calloc(1, sizeof *p);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    p->options = *options;
    p->used = session;
    p->rows = sg_session_runs_ahead(session) ? ROWS_AHEAD : ROWS;
    p->store = sg_session_store(session);
    *out = p;
    return SG_OK;
}

sg_status sg_predictor_new(sg_predictor **out, sg_store *store, const sg_step_options *options, const char *device,
                           const char *precision, int32_t threads, sg_error *err)
{
    sg_session *session;
    SG_TRY(sg_session_new(
        &session, store,
        &(sg_session_options){
            .size = sizeof(sg_session_options), .backend = device, .threads = threads, .precision = precision},
        err));
    sg_status status = sgi_predictor_on(out, session, options, err);
    if (status == SG_OK)
        (*out)->session = session;
    else
        sg_session_free(session);
    return status;
}

static int64_t rows_of(const sg_predictor *p, int64_t n, int64_t batch)
{
    int64_t left = n - batch * p->rows;
    return left < p->rows ? left : p->rows;
}

static sg_status send(sg_predictor *p, const sg_dataset *data, const int64_t *rows, int64_t n, int64_t batch,
                      sg_error *err)
{
    SG_TRY(sg_dataset_batch(data, rows + batch * p->rows, rows_of(p, n, batch), p->batch, err));
    SG_TRY(sgi_feed_features(p->plan, sg_store_real(p->store), p->batch, err));
    SG_TRY(sg_plan_run(p->plan, err));
    return sg_plan_post(p->plan, (int32_t)(batch % 2), err);
}

sg_status sgi_predictor_run(sg_predictor *p, const sg_dataset *data, const int64_t *rows, int64_t n, float *const *out,
                            int32_t replicas, sg_error *err)
{
    if (data->features != p->options.task.inputs)
        return sg_fail(err, SG_E_DATA, "the data has %lld features, the model %lld", (long long)data->features,
                       (long long)p->options.task.inputs);
    SG_TRY(prepare(p, data, err));
    int64_t L = p->options.task.labels, batches = (n + p->rows - 1) / p->rows;
    for (int64_t i = 0; i <= batches; i++) {
        if (i < batches)
            SG_TRY(send(p, data, rows, n, i, err));
        for (int32_t r = 0; i > 0 && r < replicas; r++)
            SG_TRY(sgi_posted_floats(p->plan, sg_store_real(p->store), (int32_t)((i - 1) % 2), r, "p",
                                     out[r] + (i - 1) * p->rows * L, rows_of(p, n, i - 1) * L, err));
    }
    return SG_OK;
}

sg_status sg_predictor_run(sg_predictor *p, const sg_dataset *data, const int64_t *rows, int64_t n, float *out,
                           sg_error *err)
{
    return sgi_predictor_run(p, data, rows, n, &out, 1, err);
}

void sg_predictor_free(sg_predictor *p)
{
    if (!p)
        return;
    sg_plan_free(p->plan);
    sg_batch_free(p->batch);
    sg_session_free(p->session);
    sg_free(p);
}
