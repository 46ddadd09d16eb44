/* train_internal.h - the state of a training run, shared by the loop (train.c), its schedule and its files. */
#ifndef SG_TRAIN_INTERNAL_H
#define SG_TRAIN_INTERNAL_H

#include "models/models.h"
#include "models/plan_batch_internal.h"
#include "runtime/runtime.h"

enum { SGI_LOSSES = 3 }; /* bce, energy, nce */

/* Everything that a checkpoint must hold beside the store. Epochs count from 0 while training. */
typedef struct sgi_progress {
    int64_t epoch, step; /* finished epochs; batches done in the current one */
    double lr;           /* base rate of the task-net, which the plateau rule lowers */
    double best;         /* validation metric of the kept epoch */
    int64_t best_epoch;  /* from 1; 0: none yet */
    double plateau_best;
    int64_t plateau_bad;
    double sums[SGI_LOSSES]; /* of the current epoch's steps */
} sgi_progress;

typedef struct sgi_run {
    const sg_config *config;
    const sg_train_config *c;
    sg_training_data *d;
    const sg_train_options *options;
    sg_step_options step;
    sg_store *store, *best_store;
    sg_dtype real;
    sg_session *session;
    sg_plan *plan;
    sg_predictor *predictor;
    sg_batch *batch;
    int64_t steps;        /* batches an epoch */
    int64_t *order;       /* training rows in the epoch's order */
    float *p, *y, *known; /* [largest part, labels] */
    sgi_progress at;
    bool resumed;
    char *best_path; /* run/model; NULL for runs in memory */
} sgi_run;

/* ---- schedule.c */
/* The rate of the task-net at a step, counted from 0 over all epochs. */
double sgi_schedule_rate(const sgi_run *run, int64_t step);
/* Account for an epoch's validation metric: the plateau rule lowers at->lr; returns whether this epoch is the best so far. */
bool sgi_schedule(sgi_progress *at, const sg_train_config *c, double metric);
/* Patience is used up. */
bool sgi_schedule_over(const sgi_progress *at, const sg_train_config *c);

/* ---- run_folder.c */
/* Decide what the folder is (new, to be resumed, finished, foreign), move it aside if forced, load the checkpoint of a run to
 * be resumed, else create it. */
sg_status sgi_folder_open(sgi_run *run, sg_error *err);
sg_status sgi_folder_checkpoint(sgi_run *run, sg_error *err);
sg_status sgi_folder_log(sgi_run *run, const sg_metrics *validation, double seconds, sg_error *err);
sg_status sgi_folder_model(sgi_run *run, sg_error *err);
sg_status sgi_folder_restore_best(sgi_run *run, sg_error *err);
sg_status sgi_folder_finish(sgi_run *run, const sg_train_result *result, sg_error *err);
/* run.json: "running", "interrupted", "diverged", "failed" or "finished". */
sg_status sgi_folder_status(sgi_run *run, const char *status, sg_error *err);

#endif
