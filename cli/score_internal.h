/* score_internal.h - what `score` is made of: predictions read and laid beside gold labels. */
#ifndef SG_CLI_SCORE_INTERNAL_H
#define SG_CLI_SCORE_INTERNAL_H

#include "cli/cli.h"
#include "models/data_internal.h"

/* [rows, labels] each. What is predicted and how cells rank are two things: a run with its own threshold, or the scores of the best
 * labels alone, do not tell the one by the other. */
typedef struct sgi_predictions {
    const sg_dataset *gold;
    const char *path;
    const sg_config *config;
    float threshold;
    bool asked;         /* for this threshold, on the command line: it counts, not "labels" */
    float *score;       /* 0 where there is none */
    float *on;          /* 0 or 1 */
    bool scored;        /* some row has scores: rankings make sense */
    bool cut;           /* some row is predicted where scores reach the threshold */
    int64_t incomplete; /* rows in which a label has no score */
    bool mixed;         /* both are data sets, of two formats: settings about either have an effect */
    sg_names labels;    /* of gold, while lines are read */
    size_t longest;     /* of their names */
} sgi_predictions;

/* ---- one line (score_lines.c): {"row": number, "labels": [names], "scores": {name: number}}, or label:score pairs; row 0 is line 1 */
typedef sg_status sgi_row_fn(sgi_predictions *s, int64_t row, const char *text, sg_error *err);
sgi_row_fn sgi_score_json_row, sgi_score_pairs_row;

/* ---- the file (score_read.c). Fills what is allocated already. */
sg_status sgi_score_read(const sg_cli *cli, sgi_predictions *s, sg_error *err);
/* --threshold where nothing has a score. */
sg_status sgi_score_no_threshold(const sgi_predictions *s, int64_t line, sg_error *err);

#endif
