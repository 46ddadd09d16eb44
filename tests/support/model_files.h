/* model_files.h - a small model with every kind of attribute and loop, and folders for it. */
#ifndef SG_TEST_MODEL_FILES_H
#define SG_TEST_MODEL_FILES_H

#include "serialize/serialize.h"

/* A new empty folder under the system's temporary folder; release with sg_folder_remove and free. */
char *new_folder(void);
char *file_in(const char *folder, const char *name); /* release with free */
bool is_in(const char *folder, const char *name);    /* is it there? */
char *text_in(const char *folder, const char *name); /* what it holds, ended by a 0; release with sg_free */

/* A model over a fresh graph and store. The graph reads only some of the store's entries; it draws, has nested loops,
 * assigns entries inside and outside of them, and has nodes that nothing uses. Release with free_built. */
typedef struct built_model {
    sg_model model;
    sg_graph *graph;
    sg_store *store;
} built_model;
built_model build_model(sg_dtype real, uint64_t seed);
void free_built(built_model *built);

/* Evaluate `model` (all results and effects) on fixed inputs; release with sg_free. `n` receives the numbers. NULL on error. */
double *evaluate_model(const sg_model *model, int64_t *n);
/* Everything a model holds is the same, values included. */
void assert_same_model(const sg_model *a, const sg_model *b);
/* The file of this name has the same bytes in both folders; so have the files of a model. */
void assert_same_file(const char *folder_a, const char *folder_b, const char *name);
void assert_same_files(const char *folder_a, const char *folder_b);

#endif
