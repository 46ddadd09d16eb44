/* data_internal.h - what the readers of data sets share: files as lines, growing arrays, name tables, the table an
 * ARFF file is parsed into, and the builder that rows are added to. */
#ifndef SG_MODELS_DATA_INTERNAL_H
#define SG_MODELS_DATA_INTERNAL_H

#include "models/models.h"

/* ---- limits, so that no file asks for absurd amounts of memory before its contents justify it */
#define SG_MAX_LINE_BYTES ((int64_t)1 << 28)
#define SG_MAX_FILE_BYTES ((int64_t)1 << 36)
#define SG_MAX_COLUMNS 10000000

/* ---- growing arrays: make room for `need` items of `item` bytes in *array (void ** in disguise) */
bool sg_grow(void *array, int64_t *capacity, int64_t need, size_t item);

/* ---- text */
bool sg_is_blank(char c);                               /* space or tab */
char *sg_text_copy(const char *begin, const char *end); /* NULL if out of memory */
/* A finite decimal number that fills [begin, end) exactly: no hexadecimal, no nan, no inf, no locale. */
bool sg_text_number(const char *begin, const char *end, double *out);
bool sg_text_integer(const char *begin, const char *end, int64_t *out); /* optional sign, digits */
/* Does the text mean "on": 1 (also 1.0), yes, true, t in any case; or exactly `positive` if that is given. */
bool sg_text_positive(const char *text, const char *positive);
/* "%.9g" or shorter if fewer digits give the same float. */
const char *sg_text_float(float value, char out[32]);

/* ---- names of formats, and of what is done with features */
const char *sg_data_format_name(sg_data_format format); /* "auto", "arff", "libsvm", "xc" */
bool sg_data_format_parse(const char *name, sg_data_format *out);
const char *sg_impute_name(sg_impute impute); /* "mean", "zero", "indicator" */
bool sg_impute_parse(const char *name, sg_impute *out);
const char *sg_scaling_name(sg_scaling scaling); /* "none", "standardise", "minmax" */
bool sg_scaling_parse(const char *name, sg_scaling *out);

/* ---- name tables: text -> index, open addressing; keys are not copied and must outlive the table */
typedef struct sg_names {
    int64_t capacity, count;
    const char **key;
    int32_t *index;
} sg_names;
bool sg_names_add(sg_names *names, const char *key, int32_t index); /* false: out of memory */
int32_t sg_names_find(const sg_names *names, const char *key);      /* -1 if absent */
/* Of the longest key, of at most so many bytes, that the text begins with, followed by `end`; its length. -1 if there is none. */
int32_t sg_names_longest(const sg_names *names, const char *text, size_t most, char end, size_t *length);
void sg_names_free(sg_names *names);

/* ---- notes of a reading: warnings and notices, shown by the program */
typedef struct sg_notes {
    int32_t count;
    int64_t capacity;
    sg_note *note;
} sg_notes;
/* Out of memory loses the note and nothing else. */
void sg_note_add(sg_notes *notes, bool warning, const char *fmt, ...) SG_PRINTF(3, 4);
void sg_notes_free(sg_notes *notes);

/* ---- files as lines: plain or gzip, BOM and line ends removed, checked and turned into UTF-8 */
typedef struct sg_lines sg_lines;
/* A file is opened once and read once, so that it may be a pipe; "-" is standard input, and messages call it that. */
const char *sg_lines_name(const char *path);
sg_status sg_lines_open(sg_lines **out, const char *path, sg_notes *notes, sg_error *err);
/* `*opened`, if there is one, with notes going elsewhere from now on; else the file, opened. */
sg_status sg_lines_take(sg_lines **out, sg_lines **opened, const char *path, sg_notes *notes, sg_error *err);
/* The first character that is neither blank nor in a comment line (%), which stays unread; 0 if there is none. */
sg_status sg_lines_peek(sg_lines *lines, char *first, sg_error *err);
/* Next line, NUL-terminated, valid until the next call; *text = NULL at the end of the file. */
sg_status sg_lines_next(sg_lines *lines, char **text, int64_t *length, sg_error *err);
int64_t sg_lines_number(const sg_lines *lines); /* of the line read last, from 1 */
const char *sg_lines_path(const sg_lines *lines);
void sg_lines_close(sg_lines *lines);
/* A place in the current line: `at` points into it. Returns the status. */
sg_status sg_lines_fail(const sg_lines *lines, const char *at, sg_error *err, const char *fmt, ...) SG_PRINTF(4, 5);

/* ---- MULAN label lists */
typedef struct sg_label_list {
    int32_t count;
    int64_t capacity;
    char **name;
    int32_t *parent; /* index into name; -1 at the top */
    int64_t *line;
} sg_label_list;
sg_status sg_mulan_read(sg_label_list *out, const char *path, sg_notes *notes, sg_error *err);
void sg_mulan_free(sg_label_list *list);

/* ---- an ARFF file as it stands */
typedef enum arff_kind { ARFF_NUMERIC, ARFF_NOMINAL, ARFF_STRING, ARFF_HIERARCHICAL } arff_kind;

typedef struct arff_attribute {
    char *name;
    arff_kind kind;
    int32_t n_values; /* nominal values, or classes of a hierarchy */
    int64_t values_capacity;
    char **values;
    sg_names lookup;
    int64_t line;
    int32_t twin;     /* earlier attribute that was declared with the same name, or -1 */
    int32_t label;    /* label number, or -1 */
    int32_t positive; /* nominal label: the value that is "on"; -1: none of them */
} arff_attribute;

/* Rows keep only what differs from the sparse default (number 0, first nominal value), so that dense and sparse rows
 * are the same thing from here on. Missing values are NaN. */
typedef struct arff_table {
    const char *path; /* the caller's; set before the header is read */
    char *relation;
    int32_t n_attributes;
    int64_t attributes_capacity;
    arff_attribute *attributes;
    int32_t hierarchy;   /* attribute of kind hierarchical, or -1 */
    int64_t counted;     /* labels are the first N attributes, or with -N the last; 0: not chosen by their number */
    bool counted_inside; /* the number is that of the relation's name */
    int64_t rows;
    bool sparse; /* some row was sparse */
    int64_t *indptr, indptr_capacity;
    int64_t *lines, lines_capacity;
    float *weights;
    int64_t weights_capacity;
    bool weighted;
    int32_t *cell_attribute;
    int64_t cell_attribute_capacity;
    double *cell_value;
    int64_t cell_value_capacity, cells;
    int64_t *class_indptr, class_indptr_capacity; /* hierarchy: classes of a row, -1 for '?' */
    int32_t *class_index;
    int64_t class_index_capacity, classes;
} arff_table;

sg_status sg_arff_header(arff_table *table, sg_lines *lines, sg_notes *notes, sg_error *err);
sg_status sg_arff_rows(arff_table *table, sg_lines *lines, int32_t index_base, sg_notes *notes, sg_error *err);
void sg_arff_free(arff_table *table);
/* Scan a quoted text that starts at *at (the quote); *at is left behind the closing quote. NULL in *out: out of
 * memory. */
bool sg_arff_quoted(const char **at, char **out);

/* Decide which attributes are labels and set attribute.label, in attribute order. `list` (may be NULL) is the XML's. */
sg_status sg_arff_choose_labels(arff_table *table, const sg_read_options *options, const sg_label_list *list,
                                sg_notes *notes, int32_t *n_labels, sg_error *err);
/* To be said where an attribute cannot be the label it was counted to be: that labels may stand at the other end; else "". */
enum { SG_COUNTED_TEXT = 128 };
const char *sg_arff_counted(const arff_table *table, char out[SG_COUNTED_TEXT]);
/* Find the value of a nominal label that is "on". */
sg_status sg_arff_label_values(arff_table *table, const char *positive, sg_error *err);

/* ---- building a data set row by row */
typedef struct sg_builder {
    sg_dataset *data;
    sg_notes notes;
    int64_t row_begin, label_begin, unknown_begin; /* where the open row starts */
    int64_t nnz, on, unknown;
    int64_t indptr_capacity, columns_capacity, values_capacity, label_indptr_capacity, label_capacity;
    int64_t unknown_indptr_capacity, unknown_capacity, weights_capacity, file_capacity, line_capacity;
    bool weighted;
    int64_t features; /* if not 0: number of features, instead of the schema's */
} sg_builder;
bool sg_builder_init(sg_builder *b, const char *const *paths, int32_t n);
bool sg_builder_value(sg_builder *b, int32_t column, float value);
bool sg_builder_label(sg_builder *b, int32_t label);
bool sg_builder_unknown(sg_builder *b, int32_t label);
/* Close the row: sorts it. `repeated` (may be NULL) receives a column given twice, or -1. */
bool sg_builder_row(sg_builder *b, int32_t file, int64_t line, float weight, int32_t *repeated);
/* Take schema and notes, choose the layout and hand the data set over. Frees the builder's contents on failure. */
sg_status sg_builder_finish(sg_builder *b, sg_schema *schema, sg_data_layout layout, sg_dataset **out, sg_error *err);
void sg_builder_free(sg_builder *b);

/* Schema and preprocessing (may be NULL) as one JSON text, for the model folder; release with sg_free. Loading checks
 * every count. */
char *sg_encoding_save(const sg_schema *schema, const sg_preprocess *p);
sg_status sg_encoding_load(const char *text, size_t size, sg_schema **schema, sg_preprocess **p, sg_error *err);

sg_schema *sg_schema_copy(const sg_schema *schema);             /* NULL if out of memory */
bool sg_dataset_has_label(const sg_dataset *data, int64_t row); /* at least one label is on */
sg_schema *sg_schema_new(int64_t n_columns, int64_t n_labels);
sg_preprocess *sg_preprocess_new(int64_t n_in, int64_t n_out); /* zeroed; NULL if out of memory */
/* Switch between the dense and the sparse form of the features. */
bool sg_dataset_make_dense(sg_dataset *data);
bool sg_dataset_make_sparse(sg_dataset *data);

/* `*opened` (or NULL) is the first file; it is NULL afterwards if it was taken. */
sg_status sg_read_arff(sg_dataset **out, const char *const *paths, int32_t n, sg_lines **opened,
                       const sg_read_options *options, sg_error *err);
sg_status sg_read_libsvm(sg_dataset **out, const char *const *paths, int32_t n, sg_lines **opened,
                         const sg_read_options *options, sg_error *err);

#endif
