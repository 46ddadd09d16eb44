/* config_internal.h - what the files of the configuration share: unparsed values with their places, and the owner of
 * everything a configuration points to. */
#ifndef SG_CONFIG_INTERNAL_H
#define SG_CONFIG_INTERNAL_H

#include "models/models.h"

/* ---- the table of options, and single settings, as the program shows them */

/* One row of the table. */
typedef struct sg_option {
    const char *key; /* "train.lr" */
    sg_option_type type;
    const char *initial, *domain;
    const char *flag; /* "" if it has none */
    const char *help;
    size_t offset; /* in sg_train_config */
} sg_option;
int32_t sg_option_count(void);
const sg_option *sg_option_at(int32_t index);
const sg_option *sg_option_find(const char *key); /* NULL if unknown */
/* The key at the smallest edit distance, NULL if none is near enough to be a slip of the pen. */
const char *sg_option_nearest(const char *key);
/* The name of the environment variable of an option, "SEALGRAPH_TRAIN_LR", written to `out`; returns `out`. */
const char *sg_option_environment(const sg_option *option, char *out, size_t size);

/* An error about the value of `key`, placed where that value came from. For checks that need the data or the model. */
sg_status sg_config_fail(const sg_config *config, const char *key, sg_error *err, const char *fmt, ...) SG_PRINTF(4, 5);
/* Settings of the command line that others leave without effect are SG_E_CONFIG: those about reading files, and files of a format;
 * about the division of the data that `config` names; about training. */
sg_status sg_config_check_reading(const sg_config *config, sg_error *err);
sg_status sg_config_check_format(const sg_config *config, sg_data_format format, sg_error *err);
sg_status sg_config_check_parts(const sg_config *config, sg_error *err);
sg_status sg_config_check_training(const sg_config *config, sg_error *err);
/* One value as YAML would show it, written to `out`; returns `out`. */
const char *sg_config_format(const sg_config *config, const sg_option *option, char *out, size_t size);
/* The whole of it, to be released with sg_free; NULL if out of memory. */
char *sg_config_value_text(const sg_config *config, const sg_option *option);
/* `file` if absolute, "-" or data.dir is unset, else data.dir/file; to be released with sg_free; NULL if out of memory. */
char *sg_config_data_path(const sg_config *config, const char *file);
/* Names of the data's files in the order they are read in; the list is to be released with sg_free. */
sg_status sg_config_data_files(const sg_config *config, const char ***files, int64_t *count, sg_error *err);
/* A JSON Schema (draft 2020-12) of the YAML file. */
void sg_config_write_schema(FILE *out);

/* ---- reading */

/* Where a setting was written: a place in a file, or (`line` 0) the name of a variable or flag. */
typedef struct sg_place {
    const char *source;
    int64_t line, column;
} sg_place;

/* A scalar as it was written. Quoted text is never a number, a boolean or null. */
typedef struct sg_scalar_text {
    const char *text;
    bool quoted;
    sg_place place;
} sg_scalar_text;

/* A scalar or a flat list of scalars, not yet typed. */
typedef struct sg_raw_value {
    bool list;
    int64_t count;
    const sg_scalar_text *items;
    sg_place place;
} sg_raw_value;

typedef struct sg_config_block sg_config_block;

struct sg_config {
    sg_train_config values;
    sg_place *places;     /* one an option; source NULL for defaults */
    const char **origins; /* the same as text */
    sg_config_block *blocks;
};

/* Zeroed memory that lives as long as the configuration; NULL if out of memory. */
void *sg_config_alloc(sg_config *config, int64_t count, size_t size);
const char *sg_config_text(sg_config *config, const char *text, size_t length);

/* An error at a place: file, line and column, or "--set: ..." when the place is not in a file. */
sg_status sg_config_fail_at(sg_place place, sg_error *err, const char *fmt, ...) SG_PRINTF(3, 4);
sg_status sg_config_no_memory(sg_error *err);

/* null, ~ or nothing, as they stand. */
bool sg_config_is_null(const sg_scalar_text *item);
/* Type and check a value and store it in the configuration. */
sg_status sg_config_assign(sg_config *config, const sg_option *option, const sg_raw_value *value, sg_error *err);
/* Split the text of a flag or variable into a value: lists are `a, b` or `[a, b]`. */
sg_status sg_config_split(sg_config *config, const sg_option *option, const char *text, sg_place place,
                          sg_raw_value *out, sg_error *err);
/* "unknown key 'trian.lr' (did you mean 'train.lr'?)". */
sg_status sg_config_unknown(const char *key, sg_place place, sg_error *err);

/* Apply a YAML file with everything it extends. `name` is a path, which may lead on from the folder `recipes` (or NULL), or "-". */
sg_status sg_config_read_file(sg_config *config, const char *name, const char *recipes, sg_error *err);
sg_status sg_config_read_text(sg_config *config, const char *text, size_t size, const char *name, sg_error *err);

int32_t sg_option_index(const sg_option *option);
bool sg_option_is_list(const sg_option *option);
bool sg_option_is_section(const char *name);
/* The number of words in an "a|b|c" domain and the index of one of them, -1 if absent. */
int32_t sg_domain_find(const char *domain, const char *word);
const char *sg_domain_word(const char *domain, int32_t index, char *out, size_t size);
/* The two ends of "(0, inf)" and whether they belong to it. */
typedef struct sg_interval {
    double low, high;
    bool open_low, open_high;
} sg_interval;
sg_interval sg_domain_interval(const char *domain);
/* Insertions, deletions and substitutions from a to b, at most `limit` + 1. */
int32_t sg_edit_distance(const char *a, const char *b, int32_t limit);

#endif
