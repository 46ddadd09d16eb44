/* train_internal.h - the state of training, shared by the loop over batches (train.c), the steps of one run (train_step.c),
 * the sessions that runs share (train_team.c), several seeds (train_seeds.c), the schedule and the files. */
#ifndef SG_TRAIN_INTERNAL_H
#define SG_TRAIN_INTERNAL_H

#include <dirent.h>

#include <pthread.h>
#include <stdatomic.h>

#include "models/models.h"
#include "models/plan_batch_internal.h"
#include "runtime/runtime.h"

/* Losses: bce, energy, nce. Devices that run on by themselves are kept SGI_AHEAD batches busy before a loss is read. */
enum { SGI_LOSSES = 3, SGI_AHEAD = 2 };

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

typedef struct sgi_group sgi_group;

/* One seed. */
typedef struct sgi_run {
    sgi_group *group;
    const sg_config *config;
    const sg_train_config *c;
    const char *folder; /* NULL for runs in memory */
    DIR *lock;          /* of a seed's directory that lies elsewhere than in that of the whole */
    sg_store *store, *best_store;
    sg_dtype real;
    int32_t replica; /* in the team's session, while it is in the team */
    float *p;        /* predictions [largest part, labels] */
    sgi_progress at;
    int64_t
        sent; /* batches of the current epoch that were given to the device: at.step of them have been accounted for */
    double rates[2];       /* that the store holds; NaN: unknown */
    double epoch_start;    /* clock; 0: not begun */
    bool resumed, over;    /* over: nothing more to train */
    char *best_path;       /* folder/model */
    sg_metrics validation; /* of the epoch that has ended */
    bool best;             /* so was it */
    double seconds;        /* that it took */
    sg_shadow shadow;      /* its store then, while the team runs on */
    struct sgi_run *past;  /* the run as it was then, while its files are being written */
    bool writing;          /* they are */
    sg_train_result result;
    sg_error err; /* why a run of several left before its end; status SG_OK: it did not */
} sgi_run;

/* Runs at the same batch of the same epoch, as replicas of one session: a batch goes through all of them in one step. */
typedef struct sgi_team {
    sgi_run **run;
    int32_t n; /* 0: not open */
    sg_session *session;
    sg_plan *plan;
    sg_predictor *predictor;
    int64_t ahead; /* how many batches may be under way beside the newest */
} sgi_team;

/* Threads that do something for each of several runs. */
enum { SGI_CREW = 64 };
typedef struct sgi_crew {
    sgi_run **run;
    int32_t n;
    atomic_int next;
    void (*body)(sgi_run *run); /* may touch nothing but its run; failures are in run->err */
    pthread_t thread[SGI_CREW];
    int32_t n_threads;
} sgi_crew;

/* What runs side by side share: they see the same batches. */
struct sgi_group {
    const sg_train_config *c; /* settings; the seed is each run's own */
    sg_training_data *d;
    const sg_train_options *options;
    DIR *lock;   /* the run directory's, while this process trains */
    DIR **above; /* [n_above] those above it, and above a seed's that lies elsewhere */
    int32_t n_above;
    sg_step_options step;
    int64_t steps; /* batches an epoch */
    sg_batch *batch;
    int64_t *order;       /* training rows in the order of `order_epoch` */
    int64_t order_epoch;  /* -1: none */
    float *p, *y, *known; /* [n, largest part, labels], the others of one */
    char device[256];
    sgi_run *run;
    int32_t n;
    sgi_team team;
    sgi_crew crew;   /* writes files from the end of an epoch on until the next, or sgi_files_done */
    sgi_run **ended; /* [n] runs of the team at the end of an epoch */
    int32_t n_ended;
};

/* ---- metrics as text, and those of several runs together */
/* Mean and sample standard deviation (undefined for one) of each metric over those of n results where it is defined: metrics in
 * the order of the first; one that is undefined everywhere stays so. */
void sg_metrics_spread(const sg_metrics *const *of, int32_t n, sg_metrics *mean, sg_metrics *deviation);
/* {"seeds": [{"seed", "epoch", "best", "test"} ...], "mean": {"best", "test"}, "std": {...}} of the finished seeds, on several
 * lines; to be released with sg_free. NULL if out of memory. */
char *sg_seeds_json(const sg_seeds_result *result);
/* The same of one run, {"best", "test", "epoch"}. */
char *sgi_result_json(const sg_train_result *result);
/* {"example_f1": ..., ...}, undefined metrics null, on one line; to be released with sg_free. NULL if out of memory. */
char *sg_metrics_json(const sg_metrics *metrics);

/* ---- train.c */
/* Buffers, the store of each run, and the team of all; `run` and `n` are given, their config, c and folder set. */
sg_status sgi_group_open(sgi_group *group, const sg_config *config, sg_error *err);
void sgi_group_close(sgi_group *group);
/* Train until every run is over or the listener wants to stop. A failure is told; `alone` decides whether one run's divergence
 * is one, or only takes that run out. */
sg_status sgi_group_loop(sgi_group *group, bool alone, sg_error *err);

/* What `call` answered for a run. One run's failure stops all, except that divergence only ends that run if it has company. */
sg_status sgi_account(sgi_run *run, sg_status status, bool alone, sg_error *err);

/* ---- train_team.c */
/* Make the team those of the group's runs that `fits` chooses, all if it is NULL; nothing may be under way. */
sg_status sgi_team_open(sgi_group *group, bool (*fits)(const sgi_run *run, const sgi_run *as), const sgi_run *as,
                        sg_error *err);
void sgi_team_close(sgi_team *team);
/* Give the group's batch to the device, for each run of the team. */
sg_status sgi_team_send(sgi_group *group, sg_error *err);
/* What every run of the team predicts for the rows of a part. */
sg_status sgi_team_predict(sgi_group *group, sg_part part, sg_error *err);
/* Begin with the runs, which may be freed, in up to so many threads. */
sg_status sgi_crew_start(sgi_crew *crew, sgi_run *const *run, int32_t n, int32_t threads, void (*body)(sgi_run *run),
                         sg_error *err);
/* Until all are done. */
void sgi_crew_wait(sgi_crew *crew);

/* ---- train_step.c */
bool sgi_tell(sgi_run *run, sg_train_moment moment, const sg_metrics *validation, bool best);
/* Rates of the batch that comes. */
sg_status sgi_set_rates(sgi_run *run, sg_error *err);
/* Account for the losses of the oldest batch under way; false in *go_on if the listener wants to stop. */
sg_status sgi_collect(sgi_run *run, bool *go_on, sg_error *err);
/* Validation of runs of the team that have reached the end of an epoch (`ended`), and their files: on a device that runs on by itself
 * these are written while the next epoch runs. */
sg_status sgi_end_epochs(sgi_group *group, bool *go_on, sg_error *err);
/* Until the files of the last epoch's end are written. */
sg_status sgi_files_done(sgi_group *group, sg_error *err);
/* Measure the best epoch and write what a finished run of the team has. */
sg_status sgi_finish(sgi_run *run, sg_error *err);

/* ---- schedule.c */
/* The rate of the task-net at a step, counted from 0 over all epochs. */
double sgi_schedule_rate(const sgi_run *run, int64_t step);
/* Account for an epoch's validation metric: the plateau rule lowers at->lr; returns whether this epoch is the best so far. */
bool sgi_schedule(sgi_progress *at, const sg_train_config *c, double metric);
/* Patience is used up. */
bool sgi_schedule_over(const sgi_progress *at, const sg_train_config *c);

/* ---- train_data.c */
/* "name sha256" a line for each file of the data, its label list and its division; to be released with sg_free. */
sg_status sgi_hash_data(const sg_config *config, char **out, sg_error *err);

/* ---- run_lock.c */
/* Keep other processes out of the run's directory, which is there, and from moving those above it. */
sg_status sgi_lock(sgi_run *run, sg_error *err);
void sgi_unlock(sgi_group *group);

/* ---- run_folder.c */
/* Decide what the folder is (new, to be resumed, finished, foreign), move it aside if forced, load the checkpoint of a run to
 * be resumed, else create it. */
sg_status sgi_folder_open(sgi_run *run, sg_error *err);
sg_status sgi_folder_checkpoint(sgi_run *run, sg_error *err);
sg_status sgi_folder_log(sgi_run *run, const sg_metrics *validation, double seconds, sg_error *err);
sg_status sgi_folder_model(sgi_run *run, sg_error *err);
sg_status sgi_folder_restore_best(sgi_run *run, sg_error *err);
/* The last file, metrics.json, of this text (NULL: out of memory), which is released: whoever is killed before it has not finished,
 * and nothing is left to do after it. */
sg_status sgi_folder_finish(sgi_run *run, char *metrics, sg_error *err);
/* run.json: "running", "interrupted", "diverged", "failed" or "finished". */
sg_status sgi_folder_status(sgi_run *run, const char *status, sg_error *err);
bool sgi_folder_finished(const sgi_run *run); /* it has a metrics.json */
/* The result of a finished run, from its metrics.json. */
sg_status sgi_folder_result(const sgi_run *run, sg_train_result *result, sg_error *err);
/* Write `text` to the file `name` of the folder, whole. */
sg_status sgi_folder_write(const sgi_run *run, const char *name, const char *text, sg_error *err);
char *sgi_folder_path(const sgi_run *run,
                      const char *name); /* of that file; to be released with sg_free. NULL: out of memory */
bool sgi_folder_has(const sgi_run *run, const char *name);
enum { SGI_TEXT_LIMIT = 1 << 28 }; /* of a file that is read whole */

/* ---- run_same.c */
/* SG_E_CONFIG if the run in the folder has other settings, threads aside, or, by its run.json, data of other hashes. */
sg_status sgi_same_settings(const sgi_run *run, sg_error *err);
sg_status sgi_same_data(const sgi_run *run, const char *hashes, sg_error *err);
/* SG_E_DATA if the unfinished run in the folder has had a checkpoint and it is gone: it would begin anew, over what is there. */
sg_status sgi_keeps_checkpoint(const sgi_run *run, sg_error *err);
/* What to do about a run that cannot go on, "use --force to keep the run as RUN.1 ...", written to `out`. */
const char *sgi_way_out(const sgi_run *run, char *out, size_t size);

#endif
