/* plan_batch_internal.h - moving batches into plans and results out of them. */
#ifndef SG_PLAN_BATCH_INTERNAL_H
#define SG_PLAN_BATCH_INTERNAL_H

#include "models/models.h"
#include "runtime/runtime.h"

/* Copy the features of a batch to the inputs "x" or "x.values" ... of a plan whose
 * backend holds reals as `real`. */
sg_status sgi_feed_features(sg_plan *plan, sg_dtype real, const sg_batch *batch, sg_error *err);
/* The same with "y", "weight" and "known". */
sg_status sgi_feed_batch(sg_plan *plan, sg_dtype real, const sg_batch *batch, sg_error *err);
/* The first n elements of a result as floats. */
sg_status sgi_fetch_floats(sg_plan *plan, sg_dtype real, const char *name, float *out, int64_t n, sg_error *err);
/* The same of the run whose results were sent to a post. */
sg_status sgi_posted_floats(sg_plan *plan, sg_dtype real, int32_t slot, int32_t replica, const char *name, float *out,
                            int64_t n, sg_error *err);

/* Probabilities [n, labels] of the listed rows by a predictor of this step layout (evaluation mode). */
typedef struct sg_predictor sg_predictor;
sg_status sg_predictor_new(sg_predictor **out, sg_store *store, const sg_step_options *options, const char *device,
                           const char *precision, int32_t threads, sg_error *err);
sg_status sg_predictor_run(sg_predictor *p, const sg_dataset *data, const int64_t *rows, int64_t n, float *out,
                           sg_error *err);
void sg_predictor_free(sg_predictor *p);
/* A predictor that shares the session. */
sg_status sgi_predictor_on(sg_predictor **out, sg_session *session, const sg_step_options *options, sg_error *err);
/* sg_predictor_run on a session with replicas: out[r] receives what the parameters of replica r predict. */
sg_status sgi_predictor_run(sg_predictor *p, const sg_dataset *data, const int64_t *rows, int64_t n, float *const *out,
                            int32_t replicas, sg_error *err);

#endif
