/* models.h - the public header of models/: data sets and their readers, metrics, configuration, networks and energies,
 * training methods. */
#ifndef SG_MODELS_H
#define SG_MODELS_H

#include "graph/graph.h"
#include "ops/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==================================================================================================== data sets */
/* (section: data) */

/* ====================================================================================================== metrics */
/* (section: metrics) */

/* ================================================================================================ configuration */
/* One table of options, the SG_*_OPTIONS below, makes everything a user sees of the configuration: the struct that training
 * reads, the check of a YAML file, the names of environment variables (train.lr is SEALGRAPH_TRAIN_LR), flags, `config
 * schema`, completion and man page.
 *
 * X(section, field, TYPE, initial, domain, flag, help). The key is section.field. `initial` is the default as it would be
 * written in YAML, "" for unset. `domain` is an interval for numbers ("(0, inf)", bounds of the elements for lists) and the
 * accepted words for ENUM and WORD ("a|b"). `flag` is the named flag without dashes, "" if there is only --set.
 *
 * C type by TYPE: BOOL bool; INT int64_t; REAL double; ENUM int32_t, the index in the domain; WORD, TEXT const char *;
 * PATH const char *, NULL if unset, ${NAME} replaced from the environment; INTS sg_ints; REALS sg_reals; TEXTS, PATHS
 * sg_texts. Strings and lists live in the sg_config. */
#define SG_TASK_NAMES "mlc"
typedef enum sg_task { SG_TASK_MLC } sg_task;
#define SG_DEVICE_NAMES "cpu|reference"
typedef enum sg_device_choice { SG_DEVICE_CPU, SG_DEVICE_REFERENCE } sg_device_choice;
#define SG_FORMAT_NAMES "auto|arff|libsvm|xc"
#define SG_SCALING_NAMES "none|standard|minmax"
#define SG_IMPUTE_NAMES "none|mean|zero|indicator"
#define SG_INPUT_NAMES "auto|dense|sparse"
typedef enum sg_input_choice { SG_INPUT_AUTO, SG_INPUT_DENSE, SG_INPUT_SPARSE } sg_input_choice;
#define SG_ACTIVATION_NAMES "softplus|relu|tanh|sigmoid|gelu"
typedef enum sg_activation {
    SG_ACTIVATION_SOFTPLUS, SG_ACTIVATION_RELU, SG_ACTIVATION_TANH, SG_ACTIVATION_SIGMOID, SG_ACTIVATION_GELU
} sg_activation;
#define SG_LOSS_NAMES "cross-entropy|seal-dynamic"
typedef enum sg_loss { SG_LOSS_CROSS_ENTROPY, SG_LOSS_SEAL_DYNAMIC } sg_loss;
#define SG_METHOD_NAMES "nce"
typedef enum sg_energy_method { SG_METHOD_NCE } sg_energy_method;

/* clang-format off */
#define SG_TOP_OPTIONS(X, S)                                                                                           \
    X(S, task, ENUM, "mlc", SG_TASK_NAMES, "task", "what is predicted: mlc is multi-label classification")             \
    X(S, seed, INT, "1", "[0, inf)", "seed", "seed of initialisation, dropout and sampling")                           \
    X(S, threads, INT, "0", "[0, 4096]", "threads", "threads; 0 takes every core the process may use")                 \
    X(S, device, ENUM, "cpu", SG_DEVICE_NAMES, "device", "where to compute; reference is float64 and slow")

#define SG_DATA_OPTIONS(X)                                                                                             \
    X(data, dir, PATH, "", "", "data-dir", "folder under which relative data files are looked up")                     \
    X(data, files, PATHS, "[]", "", "files", "files whose rows are divided by data.split or data.fractions")           \
    X(data, train, PATHS, "[]", "", "train", "training files")                                                         \
    X(data, validation, PATHS, "[]", "", "validation", "validation files")                                             \
    X(data, test, PATHS, "[]", "", "test", "test files")                                                               \
    X(data, format, ENUM, "auto", SG_FORMAT_NAMES, "format", "format of the files; auto goes by name and content")     \
    X(data, labels_xml, PATH, "", "", "labels-xml", "MULAN XML file that names the labels")                            \
    X(data, labels, INT, "0", "[-1000000, 1000000]", "labels", "N: the first N attributes are labels, -N: the last N") \
    X(data, arff_index_base, INT, "0", "[0, 1]", "arff-index-base", "number of the first column in sparse ARFF rows")  \
    X(data, index_base, INT, "1", "[0, 1]", "index-base", "number of the first feature in LIBSVM files")               \
    X(data, label_base, INT, "0", "[0, 1]", "label-base", "number of the first label in LIBSVM files")                 \
    X(data, features_count, INT, "0", "[0, 100000000]", "", "features in LIBSVM files; 0 counts the training files")   \
    X(data, labels_count, INT, "0", "[0, 100000000]", "", "labels in LIBSVM files; 0 counts the training files")       \
    X(data, drop, TEXTS, "[]", "", "drop", "attributes to leave out")                                                  \
    X(data, split, PATH, "", "", "split", "file of `row TAB train|validation|test|-` lines dividing data.files")       \
    X(data, split_seed, INT, "1", "[0, inf)", "split-seed", "seed of the stratified split when there is no split file")\
    X(data, fractions, REALS, "[0.6, 0.2, 0.2]", "[0, 1]", "fractions", "train, validation, test parts of data.files") \
    X(data, dev_fraction, REAL, "0.2", "(0, 1)", "dev-fraction", "part of data.train that validates if none is given") \
    X(data, scaling, ENUM, "none", SG_SCALING_NAMES, "scaling", "scaling of numeric features, from training rows")     \
    X(data, impute, ENUM, "mean", SG_IMPUTE_NAMES, "impute", "what replaces a missing feature; none refuses them")     \
    X(data, input, ENUM, "auto", SG_INPUT_NAMES, "input", "keep the input sparse; auto does below 25 % of non-zeros")

#define SG_MODEL_OPTIONS(X)                                                                                            \
    X(model, hidden, INTS, "[400, 400]", "[1, 1000000]", "hidden", "widths of the task-net's hidden layers")           \
    X(model, activation, ENUM, "softplus", SG_ACTIVATION_NAMES, "activation", "activation of both feature networks")   \
    X(model, dropout, REALS, "[0]", "[0, 1)", "dropout", "rate of each layer; a single one is for all but the last")

#define SG_ENERGY_OPTIONS(X)                                                                                           \
    X(energy, hidden, INTS, "[]", "[1, 1000000]", "", "widths of the loss-net's feature layers; empty is model.hidden")\
    X(energy, dropout, REALS, "[]", "[0, 1)", "", "dropout of those layers; empty is model.dropout")                   \
    X(energy, global, INT, "200", "[1, 1000000]", "", "width of the term that joins all labels")

#define SG_LOSS_OPTIONS(X)                                                                                             \
    X(loss, name, ENUM, "cross-entropy", SG_LOSS_NAMES, "loss", "how the task-net is trained")                         \
    X(loss, method, ENUM, "nce", SG_METHOD_NAMES, "", "how the loss-net is trained")                                   \
    X(loss, samples, INT, "20", "[1, 100000]", "", "candidates drawn for each example")                                \
    X(loss, energy_weight, REAL, "1", "[0, inf)", "", "weight of the energy in the task-net's loss")                   \
    X(loss, bce_weight, REAL, "1", "[0, inf)", "", "weight of the cross-entropy in the task-net's loss")               \
    X(loss, n_energy, INT, "1", "[1, 10000]", "", "loss-net updates before each task-net update")                      \
    X(loss, n_task, INT, "1", "[1, 10000]", "", "task-net updates on each batch")

#define SG_TRAIN_OPTIONS(X)                                                                                            \
    X(train, epochs, INT, "300", "[1, 1000000]", "epochs", "passes over the training rows, at most")                   \
    X(train, batch, INT, "32", "[1, 1000000]", "batch", "rows of a batch")                                             \
    X(train, lr, REAL, "0.001", "(0, inf)", "lr", "learning rate of the task-net")                                     \
    X(train, weight_decay, REAL, "1e-05", "[0, inf)", "", "decoupled weight decay of the task-net")                    \
    X(train, energy_lr, REAL, "0.001", "(0, inf)", "", "learning rate of the loss-net")                                \
    X(train, energy_weight_decay, REAL, "1e-05", "[0, inf)", "", "decoupled weight decay of the loss-net")             \
    X(train, clip, REAL, "10", "[0, inf)", "", "largest gradient norm of the task-net; 0 does not clip")               \
    X(train, patience, INT, "20", "[1, 1000000]", "patience", "epochs without a better validation metric that end it") \
    X(train, plateau_factor, REAL, "0.5", "(0, 1]", "", "factor on train.lr when the metric stands still")             \
    X(train, plateau_patience, INT, "5", "[0, 1000000]", "", "epochs it may stand still before that")                  \
    X(train, plateau_threshold, REAL, "0.0001", "[0, 1)", "", "relative gain that counts as better for the plateau")   \
    X(train, metric, WORD, "example_f1", SG_METRIC_NAMES, "metric", "validation metric that chooses the epoch")        \
    X(train, threshold, REAL, "0.5", "(0, 1)", "threshold", "probability from which a label is predicted")             \
    X(train, order_seed, INT, "13370", "[0, inf)", "", "seed of the order of batches, apart from seed")
#define SG_METRIC_NAMES "example_f1|micro_f1|macro_f1|subset_accuracy|map.example|map.label"

/* clang-format on */

typedef struct sg_ints { int64_t count; const int64_t *at; } sg_ints;
typedef struct sg_reals { int64_t count; const double *at; } sg_reals;
typedef struct sg_texts { int64_t count; const char *const *at; } sg_texts;

#define SG_OPTION_TYPE_MAP(X)                                                                                          \
    X(BOOL, bool) X(INT, int64_t) X(REAL, double) X(ENUM, int32_t) X(WORD, const char *) X(TEXT, const char *)         \
    X(PATH, const char *) X(INTS, sg_ints) X(REALS, sg_reals) X(TEXTS, sg_texts) X(PATHS, sg_texts)
typedef enum sg_option_type {
#define X(name, type) SG_OPTION_##name,
    SG_OPTION_TYPE_MAP(X)
#undef X
} sg_option_type;
#define X(name, type) typedef type sg_option_c_##name;
SG_OPTION_TYPE_MAP(X)
#undef X

/* The resolved settings, as training code reads them: config->train.lr, config->model.hidden.at[0]. After sg_config_load
 * model.dropout and energy.dropout have one rate a layer and energy.hidden is never empty. */
typedef struct sg_train_config {
#define X(section, field, TYPE, initial, domain, flag, help) sg_option_c_##TYPE field;
    SG_TOP_OPTIONS(X, )
    struct { SG_DATA_OPTIONS(X) } data;
    struct { SG_MODEL_OPTIONS(X) } model;
    struct { SG_ENERGY_OPTIONS(X) } energy;
    struct { SG_LOSS_OPTIONS(X) } loss;
    struct { SG_TRAIN_OPTIONS(X) } train;
#undef X
} sg_train_config;

/* One row of the table. */
typedef struct sg_option {
    const char *key;             /* "train.lr" */
    sg_option_type type;
    const char *initial, *domain;
    const char *flag;            /* "" if it has none */
    const char *help;
    size_t offset;               /* in sg_train_config */
} sg_option;
int32_t sg_option_count(void);
const sg_option *sg_option_at(int32_t index);
const sg_option *sg_option_find(const char *key);            /* NULL if unknown */
/* The key at the smallest edit distance, NULL if none is near enough to be a slip of the pen. */
const char *sg_option_nearest(const char *key);
/* The name of the environment variable of an option, "SEALGRAPH_TRAIN_LR", written to `out`; returns `out`. */
const char *sg_option_environment(const sg_option *option, char *out, size_t size);

/* A resolved configuration and where each value came from. */
typedef struct sg_config sg_config;

/* A setting from the command line. `label` names it in messages ("--lr", "--set"). Later ones win. */
typedef struct sg_setting {
    const char *label, *key, *value;
} sg_setting;

/* Resolve: defaults < extends < `file` < SEALGRAPH_* (if `environment`) < `sets` < `flags`. `file` NULL reads none; "-" is
 * standard input. A mistake is SG_E_CONFIG with file, line and column of the value or key, or the name of the setting. */
typedef struct sg_config_request {
    const char *file;
    const sg_setting *sets;
    int32_t n_sets;
    const sg_setting *flags;
    int32_t n_flags;
    bool environment;
} sg_config_request;
sg_status sg_config_load(sg_config **out, const sg_config_request *request, sg_error *err);
/* From YAML text in memory (a recipe stored in a model folder), called `name` in messages. */
sg_status sg_config_parse(sg_config **out, const char *text, size_t size, const char *name, sg_error *err);
void sg_config_free(sg_config *config);
const sg_train_config *sg_config_values(const sg_config *config);
/* "default", "bibtex.yml:12:7", "SEALGRAPH_SEED", "--set", "--lr". */
const char *sg_config_origin(const sg_config *config, const char *key);
/* An error about the value of `key`, placed where that value came from. For checks that need the data or the model. */
sg_status sg_config_fail(const sg_config *config, const char *key, sg_error *err, const char *fmt, ...) SG_PRINTF(4, 5);
/* The resolved configuration as YAML, every key, numbers so that they read back equal; with the origins as comments. */
sg_status sg_config_write_yaml(const sg_config *config, FILE *out, bool origins);
/* The same in a string to be released with sg_free; NULL if out of memory. */
char *sg_config_yaml(const sg_config *config);
/* One value as YAML would show it, written to `out`; returns `out`. */
const char *sg_config_format(const sg_config *config, const sg_option *option, char *out, size_t size);
/* `file` if absolute or data.dir is unset, else data.dir/file; to be released with sg_free; NULL if out of memory. */
char *sg_config_data_path(const sg_config *config, const char *file);
/* A JSON Schema (draft 2020-12) of the YAML file. */
void sg_config_write_schema(FILE *out);

/* ======================================================================================= networks and energies */
/* (section: nets) */

/* ===================================================================================================== training */
/* (section: training) */

#ifdef __cplusplus
}
#endif
#endif
