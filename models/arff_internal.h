/* arff_internal.h - between the parts of the ARFF reader that make a data set of parsed tables. */
#ifndef SG_MODELS_ARFF_INTERNAL_H
#define SG_MODELS_ARFF_INTERNAL_H

#include "models/data_internal.h"

/* Parents among the labels of a data set. */
typedef struct sg_hierarchy {
    int32_t *parent; /* [n_labels], -1 at the top; NULL if the labels are flat */
    bool close;      /* add ancestors that are off */
} sg_hierarchy;

int32_t sg_arff_find(const arff_table *table, const char *name); /* attribute by name, or -1; linear */
/* The schema of the first table's attributes; NULL if out of memory. */
sg_schema *sg_arff_schema(const arff_table *tables, int32_t n, int32_t n_labels, const sg_read_options *options,
                          sg_notes *notes);
/* Labels of a class hierarchy: "root", the declared classes, and ancestors that were not declared. */
bool sg_arff_class_labels(sg_schema *schema, const arff_attribute *classes);
sg_status sg_arff_encode(const arff_table *table, const sg_schema *schema, const sg_hierarchy *hierarchy, int32_t file,
                         sg_builder *builder, sg_error *err);

#endif
