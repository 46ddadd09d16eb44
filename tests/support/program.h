/* program.h - the built program as a user runs it, in a folder of the test's own and with nothing of the caller's settings. */
#ifndef SG_TESTS_PROGRAM_H
#define SG_TESTS_PROGRAM_H

#include <jansson.h>

extern char program_folder[64];
/* Fixtures of a group of tests. */
int program_make_folder(void **state);
int program_remove_folder(void **state);

/* A file of the folder, ended by a 0; "" if it is not there. The caller frees it. */
char *program_file(const char *name);

typedef struct outcome {
    int code; /* -1: ended by a signal */
    char *out, *err;
} outcome;

/* Run `sealgraph ARGUMENTS`; `settings` of the environment are as in a shell. */
outcome program_run(const char *settings, const char *arguments);
void outcome_release(outcome *o);

/* The same in an empty environment. */
outcome run(const char *arguments);

/* Files of the folder: one with this text, and is it there? */
void write_file(const char *name, const char *text);
int exists(const char *name);

/* These fail the test unless it is so, and release the outcome. A failure has its code, nothing on standard output, and the message
 * in one to three lines; a document is all of standard output, and the caller's. */
void outcome_is_failure(outcome o, const char *arguments, int code, const char *message);
json_t *outcome_document(outcome o, const char *arguments, int code);
/* The same of `run`; and that it succeeds and prints this. */
void fails(const char *arguments, int code, const char *message);
json_t *document(const char *arguments, int code);
void succeeds(const char *arguments, const char *printed);
/* `fails` with 2 before toy.arff is read: it is broken meanwhile. */
void refused_before_reading(const char *arguments, const char *message);

/* An ARFF file of 200 rows whose three labels p, q, r are the signs of three features; how to train a small net on it, fast. */
void write_data(const char *name);
#define TOY_NET "--train toy.arff --test toy.arff --set model.hidden=[16] --threads 1 -q "
#define TOY TOY_NET "--lr 0.02 "

int text_lines(const char *text);

#endif
