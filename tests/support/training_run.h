/* training_run.h - the small run of training.h in a folder, and what a listener heard of it. All fail the test if something goes wrong
 * that is not asked for. */
#ifndef SG_TESTS_TRAINING_RUN_H
#define SG_TESTS_TRAINING_RUN_H

#include "models/models.h"

typedef struct ears {
    int64_t stop_epoch, stop_step; /* stop after this step; 0: never */
    double first, best;            /* validation F1 */
    double known;                  /* the best one that the start of the run told; NaN: none */
    int64_t done, left;            /* batches that it told */
    bool resumed;
    const char *other;  /* a directory that somebody else wants meanwhile; NULL: none */
    bool given;         /* and got */
    const char *forced; /* one where somebody else trains with `force` after the first step; NULL: none */
    sg_status answer;   /* that this got */
} ears;

typedef struct run_outcome {
    sg_status status;
    sg_train_result result;
    sg_error err;
} run_outcome;

/* Train TRAINING_RECIPE(6), one key of it changed, in a folder (NULL: in memory). `heard` may be NULL. */
run_outcome train_in(const char *folder, const char *key, const char *value, bool force, ears *heard);
/* The same without force, to the end. */
void finishes(const char *folder, const char *key, const char *value, ears *heard);

/* Two run folders hold the same results and models. */
void same_runs(const char *a, const char *b);

#endif
