/* models.h - the public header of models/: data sets and their readers, metrics, configuration, networks and energies,
 * training methods. */
#ifndef SG_MODELS_H
#define SG_MODELS_H

#include "autodiff/autodiff.h"
#include "graph/graph.h"
#include "models/option_list.h"
#include "ops/ops.h"
#include "runtime/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==================================================================================================== data sets */
/* Reading is in two steps: a reader turns files into columns and rows as they stand, the schema says how a column
 * becomes features (numbers as they are, two-valued nominals 0/1, others one-hot). A schema is stored with the
 * model, so that the same columns, found by name, give the same features at prediction. */

typedef enum sg_data_format { SG_DATA_AUTO, SG_DATA_ARFF, SG_DATA_LIBSVM, SG_DATA_XC } sg_data_format;
typedef enum sg_data_layout { SG_LAYOUT_AUTO, SG_LAYOUT_DENSE, SG_LAYOUT_SPARSE } sg_data_layout;
/* AUTO: two-valued nominals are one 0/1 feature, except in Clus files (class attribute `hierarchical`), whose published
 * sizes count every nominal value. */
typedef enum sg_nominal_rule { SG_NOMINAL_AUTO, SG_NOMINAL_BINARY, SG_NOMINAL_ONE_HOT } sg_nominal_rule;

typedef enum sg_column_kind {
    SG_COLUMN_NUMERIC,
    SG_COLUMN_BINARY,
    SG_COLUMN_ONE_HOT,
    SG_COLUMN_DROPPED
} sg_column_kind;

/* One attribute of the source that is not a label. */
typedef struct sg_column {
    char *name;
    sg_column_kind kind;
    int32_t n_values; /* declared nominal values; 0 for numbers and strings */
    char **values;
    int32_t positive; /* BINARY: the value that becomes 1 */
    int64_t first;    /* its first feature; -1 if dropped */
} sg_column;

typedef struct sg_schema {
    sg_data_format format; /* what it was read from */
    int32_t index_base;    /* LIBSVM and XC: number of the first feature */
    int32_t label_base;    /* and of the first label, where labels are numbers */
    char *relation;        /* ARFF, else "" */
    int64_t n_columns, n_features, n_labels;
    sg_column *columns;
    char **label_names;
    bool hierarchical; /* labels are class paths, closed under ancestors; label 0, "root", is always on */
    char *positive;    /* the value that means "on" in label columns; NULL: 1, yes, true, t */
} sg_schema;

void sg_schema_free(sg_schema *schema);
/* Name of encoded feature i: the attribute's name, or "name=value" for one-hot features. Returns `out`. */
const char *sg_schema_feature_name(const sg_schema *schema, int64_t feature, char *out, size_t size);

typedef struct sg_read_options {
    sg_data_format format;   /* AUTO: by name and first lines */
    const char *labels_xml;  /* MULAN label list; NULL for none */
    int64_t label_count;     /* N: the first N attributes are labels, -N: the last N; 0: not given */
    const char *positive;    /* value of a label column that means "on"; NULL: 1, yes, true, t */
    int32_t arff_index_base; /* sparse ARFF rows: 0 (standard) or 1 (Clus) */
    int32_t index_base;      /* first feature of LIBSVM rows: 0 or 1; -1: 1. XC files count from 0 */
    int32_t label_base;      /* first label of LIBSVM rows, if labels are numbers: 0 or 1. XC files count from 0 */
    int64_t features;        /* LIBSVM without header: number of features; 0: the largest index */
    int64_t labels;          /* LIBSVM without header: number of labels if they are numbers; 0: the largest */
    bool keep_blank;         /* LIBSVM: a blank line is a row with nothing on it (else an error) */
    bool close_hierarchy;    /* add the ancestors of nested XML labels (else violations are only reported) */
    sg_data_layout layout;   /* AUTO: sparse where fewer than 10 % of the values are not zero */
    sg_nominal_rule nominal;
    const sg_schema *schema; /* of a trained model: columns are matched by name, label columns may be absent */
} sg_read_options;
sg_read_options sg_read_options_default(void);

typedef struct sg_note {
    bool warning; /* else a notice */
    char *text;   /* one line, with file and line where they are known */
} sg_note;

/* A multi-label data set. Read the members freely, change them only through the functions below. */
typedef struct sg_dataset {
    int64_t rows, features, labels;
    bool sparse;
    float *dense;    /* [rows, features] if not sparse; NaN = missing value */
    int64_t *indptr; /* CSR if sparse: [rows + 1], columns ascending in a row; NaN = missing value */
    int32_t *columns;
    float *values;
    int64_t missing;        /* missing feature values (NaN) that are not filled in yet */
    int64_t source_missing; /* '?' cells of the source: also those of one-hot columns, which are all zero then */
    int64_t *label_indptr;  /* labels that are on: [rows + 1], ascending in a row */
    int32_t *label_index;
    int64_t *unknown_indptr; /* labels given as '?': neither on nor off; NULL if there are none */
    int32_t *unknown_index;
    bool has_labels;      /* false: the files had no label columns (prediction) */
    float *weights;       /* [rows]; NULL: all 1 */
    int32_t *source_file; /* [rows] index into files */
    int64_t *source_line; /* [rows] line of the file, from 1 */
    int32_t n_files;
    char **files;
    bool source_sparse; /* rows of the file were sparse */
    sg_schema *schema;
    int32_t n_notes;
    sg_note *notes;
} sg_dataset;

/* Read the files in order as one data set (train and test of a split file). Errors carry file, line and column. */
sg_status sg_dataset_read(sg_dataset **out, const char *const *paths, int32_t n, const sg_read_options *options,
                          sg_error *err);
void sg_dataset_free(sg_dataset *data);
/* Build from arrays (generators, tests): x [rows, features], y [rows, labels] of 0/1; copied. Columns are named x0,
 * x1..., labels l0, l1... */
sg_status sg_dataset_from_arrays(sg_dataset **out, const float *x, const float *y, int64_t rows, int64_t features,
                                 int64_t labels, sg_data_layout layout, sg_error *err);
/* The given rows, in the given order, as a data set of their own. */
sg_status sg_dataset_subset(sg_dataset **out, const sg_dataset *data, const int64_t *rows, int64_t n, sg_error *err);

/* Non-zeros that `batch` rows can have at most: the sum over the `batch` largest rows (at least 1). */
int64_t sg_dataset_max_nnz(const sg_dataset *data, int64_t batch);

/* Buffers of one batch, laid out like the plan's inputs. Either x, or the six arrays of an sg_csr. */
typedef struct sg_batch {
    int64_t rows, features, labels, capacity;
    float *x;      /* [rows, features], or NULL */
    float *values; /* [capacity] ... of sg_csr, or NULL */
    int32_t *columns, *indptr, *t_rows, *t_order, *t_indptr;
    float *y;       /* [rows, labels] 0/1; unknown labels 0 */
    float *y_known; /* [rows, labels] 1, and 0 where a label is unknown */
    float *weight;  /* [rows] instance weight; 0 for rows of padding */
} sg_batch;
/* capacity > 0: sparse arrays for so many non-zeros; 0: dense rows. */
sg_status sg_batch_new(sg_batch **out, const sg_dataset *data, int64_t rows, int64_t capacity, sg_error *err);
void sg_batch_free(sg_batch *batch);
/* Fill from the listed rows (n <= batch->rows); the rest is padding with weight 0. Allocates nothing. */
sg_status sg_dataset_batch(const sg_dataset *data, const int64_t *rows, int64_t n, sg_batch *batch, sg_error *err);

/* ---- missing values and scaling: fitted on training rows, then applied to every part and stored with the model */
typedef enum sg_impute { SG_IMPUTE_MEAN, SG_IMPUTE_ZERO, SG_IMPUTE_INDICATOR } sg_impute;
typedef enum sg_scaling { SG_SCALING_NONE, SG_SCALING_STANDARDISE, SG_SCALING_MINMAX } sg_scaling;

/* x'[j] = (x[j] - offset[j]) * scale[j] after missing x[j] became fill[j]. INDICATOR fills with the mean and appends
 * one 0/1 feature for each feature with missing values among the training rows: feature n_in + i tells that
 * flagged[i] was missing. */
typedef struct sg_preprocess {
    sg_impute impute;
    sg_scaling scaling;
    int64_t n_in, n_out;
    float *fill;           /* [n_in] */
    int32_t *flagged;      /* [n_out - n_in] */
    float *offset, *scale; /* [n_out] */
} sg_preprocess;
/* rows NULL: all rows. Standardising uses the population deviation; features that do not vary become 0. */
sg_status sg_preprocess_fit(sg_preprocess **out, const sg_dataset *data, const int64_t *rows, int64_t n,
                            sg_impute impute, sg_scaling scaling, sg_error *err);
/* In place. A sparse data set stays sparse unless an offset is not zero or a missing value is filled with one. */
sg_status sg_preprocess_apply(const sg_preprocess *p, sg_dataset *data, sg_error *err);
void sg_preprocess_free(sg_preprocess *p);

/* ---- splits */
typedef enum sg_part { SG_TRAIN, SG_VALIDATION, SG_TEST } sg_part;
typedef struct sg_split {
    int64_t *rows[3]; /* ascending row numbers of each part */
    int64_t count[3];
    int64_t unlabelled;       /* rows left out because no label is on */
    int64_t without_label[3]; /* those of them that a split file or the order of files had put into a part */
    int64_t weightless;       /* rows with a label left out of training because their weight is 0 */
} sg_split;
void sg_split_free(sg_split *split);
/* Lines `row TAB part` with part train, validation, test or - (left out); '#' starts a comment line. Every row of
 * the data set must be there once. Rows without a label are left out of each part. Written to standard output if `path` is NULL. */
sg_status sg_split_read(sg_split *out, const char *path, const sg_dataset *data, sg_error *err);
sg_status sg_split_write(const sg_split *split, const sg_dataset *data, const char *path, sg_error *err);
/* Iterative stratification (Sechidis, Tsoumakas and Vlahavas 2011) into shares[0..2], which sum to 1 (0 = no such
 * part). */
sg_status sg_split_stratified(sg_split *out, const sg_dataset *data, const double shares[3], uint64_t seed,
                              sg_error *err);
/* Files as they come: rows of the first n_train files are training rows, the following n_validation files
 * validation, the rest test. dev_fraction > 0 moves a stratified share of the training rows to validation. */
sg_status sg_split_by_file(sg_split *out, const sg_dataset *data, int32_t n_train, int32_t n_validation,
                           double dev_fraction, uint64_t seed, sg_error *err);

/* ---- what `data info` prints */
typedef struct sg_dataset_info {
    sg_data_format format;
    bool source_sparse, sparse;
    int64_t rows, attributes, features, labels; /* attributes: source columns that are not labels */
    int64_t numeric, binary, nominal, dropped;  /* attributes by kind */
    int64_t unlabelled, weightless;             /* rows without a label, rows of weight 0; both counted in `rows` */
    int64_t never_positive;                     /* labels that are on in no row */
    int64_t missing_features, unknown_labels;   /* '?' cells */
    double cardinality, label_density, feature_density;
    const char *first_label, *last_label, *relation;
} sg_dataset_info;
sg_dataset_info sg_dataset_describe(const sg_dataset *data);

/* `data check`: everything worth a look, as notes appended to the data set (constant features, labels never or always
 * on, duplicate rows, unlabelled rows, rows of weight 0). Returns the number of notes added, -1 if out of memory. */
int32_t sg_dataset_check(sg_dataset *data);
/* One warning, appended to the notes, if labels are on in none of these rows, which are to be trained on; `rows` NULL: in none. */
void sg_dataset_note_absent(sg_dataset *data, const int64_t *rows, int64_t n);

/* `data convert`: write encoded features and labels. ARFF: -C relation, sparse rows if the data set is sparse.
 * LIBSVM: features from 1, labels from 0 (a row without either is a blank line). XC: header, both from 0. A name
 * that ends in .gz is compressed; `path` NULL is standard output. */
sg_status sg_dataset_write(const sg_dataset *data, const char *path, sg_data_format format, sg_error *err);

/* ====================================================================================================== metrics */
/* Names carry the convention: example_f1 counts a row without gold and predicted label as 0, example_f1.empty1 as 1. All are
 * defined in docs/conventions.md. What is undefined (no positive anywhere) has defined = false and is null in JSON. */
typedef struct sg_metric {
    char name[24];
    double value;
    bool defined;
} sg_metric;

#define SG_METRICS_MAX 32
typedef struct sg_metrics {
    int32_t count;
    sg_metric metric[SG_METRICS_MAX];
} sg_metrics;

/* Multi-label metrics of probabilities p and gold labels y, both [rows, labels]. A label is predicted where p >=
 * threshold (thresholds: [labels], or NULL for 0.5). known (or NULL) is 0 where a gold label is unknown: that cell
 * counts nowhere. ranking adds map.example (rows without gold label count 0; .nonempty leaves them out), map.label
 * (labels without positive left out), ap.micro, ndcg and lrap (ties as in scikit-learn), p@1, p@3, p@5 (ties: lower
 * label first; n_tied@k rows tie at the cut), which sort the scores. */
sg_status sg_metrics_multilabel(sg_metrics *out, const float *p, const float *y, const float *known, int64_t rows,
                                int64_t labels, const float *thresholds, bool ranking, sg_error *err);
/* The part of `ranking` alone, behind the metrics that are there: where sets are not what the scores say. */
sg_status sg_metrics_add_rankings(sg_metrics *out, const float *p, const float *y, const float *known, int64_t rows,
                                  int64_t labels, sg_error *err);
const sg_metric *sg_metrics_find(const sg_metrics *metrics, const char *name); /* NULL if absent */

/* One label's counts, for per-label reports. f1 is 0 where undefined. */
typedef struct sg_label_report {
    int64_t tp, fp, fn;
    double precision, recall, f1;
} sg_label_report;
sg_status sg_metrics_per_label(sg_label_report *out, const float *p, const float *y, const float *known, int64_t rows,
                               int64_t labels, const float *thresholds, sg_error *err);

/* Best sequence of BIO tags for `words` words: the highest sum of scores [words, n_tags] among the sequences in which I-x
 * follows B-x or I-x. Tags are named "O", "B-x" or "I-x"; `last_tag_must_be_o` is the rule of the SEAL code for word pieces,
 * whose last one is [SEP]. Ties go to the lowest tag, from the last word on. `path` [words] and `score` are filled; no
 * allowed sequence, or another tag name, is SG_E_DATA. */
sg_status sg_bio_decode(const double *scores, int64_t words, const char *const *tags, int32_t n_tags,
                        bool last_tag_must_be_o, int32_t *path, double *score, sg_error *err);

/* ================================================================================================ configuration */
/* The settings, their words and what they mean are in option_list.h. Strings and lists live in the sg_config. */
typedef struct sg_ints {
    int64_t count;
    const int64_t *at;
} sg_ints;
typedef struct sg_reals {
    int64_t count;
    const double *at;
} sg_reals;
typedef struct sg_texts {
    int64_t count;
    const char *const *at;
} sg_texts;

#define SG_OPTION_TYPE_MAP(X)                                                                                          \
    X(BOOL, bool)                                                                                                      \
    X(INT, int64_t)                                                                                                    \
    X(REAL, double)                                                                                                    \
    X(ENUM, int32_t)                                                                                                   \
    X(WORD, const char *)                                                                                              \
    X(TEXT, const char *)                                                                                              \
    X(PATH, const char *)                                                                                              \
    X(INTS, sg_ints)                                                                                                   \
    X(REALS, sg_reals)                                                                                                 \
    X(PATHS, sg_texts)
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
    struct {
        SG_DATA_OPTIONS(X)
    } data;
    struct {
        SG_MODEL_OPTIONS(X)
    } model;
    struct {
        SG_ENERGY_OPTIONS(X)
    } energy;
    struct {
        SG_LOSS_OPTIONS(X)
    } loss;
    struct {
        SG_TRAIN_OPTIONS(X)
    } train;
#undef X
} sg_train_config;

/* A resolved configuration and where each value came from. */
typedef struct sg_config sg_config;

/* A setting from the command line. `label` names it in messages ("--lr", "--set"). Later ones win. */
typedef struct sg_setting {
    const char *label, *key, *value;
} sg_setting;

/* Resolve: defaults < extends < `file` < SEALGRAPH_* (if `environment`) < `sets` < `flags`. `file` NULL reads none; "-" is
 * standard input. With `text` the YAML is in memory and `file` only its name. A mistake is SG_E_CONFIG with file, line and
 * column of the value or key, or the name of the setting; a file that cannot be read is SG_E_IO. */
typedef struct sg_config_request {
    const char *file, *text;
    const char *
        recipes; /* folder in which a relative file, also one of extends, is looked up if it is nowhere else; or NULL */
    const sg_setting *sets;
    int32_t n_sets;
    const sg_setting *flags;
    int32_t n_flags;
    bool environment;
    bool (*reads)(const void *user, const char *key); /* variables of other keys are left alone; NULL: all are taken */
    const void *user;
} sg_config_request;
sg_status sg_config_load(sg_config **out, const sg_config_request *request, sg_error *err);
/* From YAML text in memory (a recipe stored in a model folder), called `name` in messages. */
sg_status sg_config_parse(sg_config **out, const char *text, size_t size, const char *name, sg_error *err);
void sg_config_free(sg_config *config);
const sg_train_config *sg_config_values(const sg_config *config);
/* The session option `backend` that the key `device` stands for, and the real type of a store for it. */
const char *sg_config_backend(const sg_train_config *values);
sg_dtype sg_config_real(const sg_train_config *values);
/* "default", "bibtex.yml:12:7", "SEALGRAPH_SEED", "--set", "--lr". */
const char *sg_config_origin(const sg_config *config, const char *key);
/* The resolved configuration as YAML, every key, numbers so that they read back equal; with the origins as comments. */
sg_status sg_config_write_yaml(const sg_config *config, FILE *out, bool origins);
/* The same in a string to be released with sg_free; NULL if out of memory. */
char *sg_config_yaml(const sg_config *config);
/* Read what a configuration names and divide it. data.files: by data.split, else stratified into data.fractions by
 * data.split_seed. data.train, data.validation, data.test: as given; without data.validation a stratified data.dev_fraction
 * of the training rows; with `split` NULL not divided. Preprocessing is not applied. */
sg_status sg_config_read_data(const sg_config *config, sg_dataset **data, sg_split *split, sg_error *err);
/* The same for any files, without a division: `config` says how to read them. */
sg_status sg_config_read_files(const sg_config *config, const char *const *files, int64_t count, sg_dataset **data,
                               sg_error *err);
/* ======================================================================================= networks and energies */
/* The networks of feature-based multi-label classification (MLC). Weights of feature layers are [in, out], so that a sparse
 * row gathers contiguous rows of the first one; label tables G, b and M are [labels or global, width]. */

/* A batch of feature rows: dense [B, D], or sparse (then `dense` is SG_NONE). */
typedef struct sg_features {
    sg_value dense;
    sg_csr csr;
} sg_features;
static inline sg_features sg_features_dense(sg_value x)
{
    return (sg_features){x, {SG_NONE, SG_NONE, SG_NONE, SG_NONE, SG_NONE, SG_NONE}};
}
static inline sg_features sg_features_sparse(sg_csr x) { return (sg_features){SG_NONE, x}; }

/* Sizes of a task-net or loss-net. Pointers are read while building only. */
typedef struct sg_mlc_sizes {
    int64_t inputs, labels;
    int32_t layers;
    const int64_t *hidden; /* [layers] */
    const double *dropout; /* [layers] rate after each layer's activation, or NULL */
    sg_activation activation;
    int64_t global; /* width of the loss-net's global term */
} sg_mlc_sizes;

/* T(x) = a_n with a_0 = x and a_k = Drop(act(a_{k-1} W_k + c_k)): every layer has a bias and an activation, the last one too.
 * Entries layer1/W, layer1/c, ...; draws only where `train`. -> [B, hidden of the last layer] */
sg_value sg_feature_mlp(sg_scope scope, sg_features x, const sg_mlc_sizes *sizes, bool train);
/* Logits z = G T(x), without bias. Entries features/..., G. -> [B, L] */
sg_value sg_mlc_task(sg_scope scope, sg_features x, const sg_mlc_sizes *sizes, bool train);
/* Score of label vectors y [B, K, L], entries in [0, 1]; high is good (the energy is its negative):
 * S(x, y) = sum_i y_i <b_i, T(x)> + <v, softplus(M y + m0)>. T(x) is computed once for the K candidates of a row. -> [B, K] */
sg_value sg_mlc_score(sg_scope scope, sg_features x, sg_value y, const sg_mlc_sizes *sizes, bool train);
/* Parameters of the two nets: h(d+1) + (n-1)h(h+1) + Lh, and mL + 2m more for the loss-net. */
int64_t sg_mlc_task_parameters(const sg_mlc_sizes *sizes);
int64_t sg_mlc_score_parameters(const sg_mlc_sizes *sizes);

/* Sizes of a BERT encoder, post-LN, with the exact GELU. */
typedef struct sg_bert_sizes {
    int64_t vocabulary, positions, types; /* rows of the three embeddings */
    int64_t hidden, heads, intermediate;  /* hidden is a multiple of heads */
    int32_t layers;
    int64_t leading;                   /* pieces of each row whose states are wanted, the first ones; 0: all */
    double eps;                        /* of layer normalisation; 0: 1e-12 */
    double dropout, attention_dropout; /* of sums and of probabilities, where `train` */
} sg_bert_sizes;

/* Encoder of word pieces: ids, types I32 [B, T] (at most `positions` columns) and mask BOOL [B, T], true for what is no padding;
 * types and mask may be absent (a zeroed value). Entries embeddings/word_embeddings/weight, .. and
 * encoder/layer/0/attention/self/query/weight, ..: the names of the published checkpoints. -> [B, T, hidden], or
 * [B, leading, hidden]: where a classifier reads the first piece alone, the last layer attends to all pieces but computes that one. */
sg_value sg_bert_encoder(sg_scope scope, sg_value ids, sg_value types, sg_value mask, const sg_bert_sizes *sizes,
                         bool train);
/* tanh(W h_0 + b) of the first piece: entries pooler/dense/weight, bias. hidden [B, T, H] -> [B, H] */
sg_value sg_bert_pooler(sg_scope scope, sg_value hidden, const sg_bert_sizes *sizes);
/* Its parts. Embeddings -> [B, T, hidden]; the layers alone, on x [B, T, hidden]; self-attention of x, or of its leading pieces,
 * without output projection, entries query/weight, query/bias, key/.., value/.. */
sg_value sg_bert_embeddings(sg_scope scope, sg_value ids, sg_value types, const sg_bert_sizes *sizes, bool train);
sg_value sg_bert_layers(sg_scope scope, sg_value x, sg_value mask, const sg_bert_sizes *sizes, bool train);
sg_value sg_bert_attention(sg_scope scope, sg_value x, sg_value mask, const sg_bert_sizes *sizes, bool train);

/* log P_N(y) = sum_i y_i log p_i + (1 - y_i) log(1 - p_i) of independent Bernoullis with logits z [B, L], each logarithm
 * clamped below at -100; y [B, K, L]. -> [B, K] */
sg_value sg_log_bernoulli(sg_value z, sg_value y);
/* Ranking loss of noise-contrastive estimation (Ma and Collins 2018; gold in the denominator), per row:
 * -log(e^{r_0} / sum_k e^{r_k}), r = score - log_noise, column 0 the gold. [B, 1 + K] -> [B] */
sg_value sg_nce_ranking_loss(sg_value score, sg_value log_noise);

/* The factor on a base learning rate at step 0, 1, ...: step / warmup while step < warmup; then 1 (plateau, constant), or down
 * to 0 at `total`, straight (linear) or as (1 + cos pi x) / 2 over the part x that is done (cosine). 0 from `total` on. */
double sg_schedule_factor(sg_schedule schedule, int64_t warmup, int64_t total, int64_t step);

/* One optimiser step on values p with gradients g: p, moments and step count are assigned. `scope` holds the moments. */
typedef struct sg_adam_options {
    double beta1, beta2, eps, weight_decay;
    bool decoupled; /* AdamW; false: Adam */
} sg_adam_options;
sg_adam_options sg_adam_defaults(double weight_decay); /* AdamW 0.9, 0.999, 1e-8 */
void sg_adam_step(sg_scope scope, const sg_value *p, const sg_value *g, int32_t n, sg_value lr,
                  const sg_adam_options *options);

/* ---- one training step on a batch, as one graph: sampling, n_task x (n_energy loss-net updates, one task-net update).
 *
 * SEAL-dynamic with NCE (spec of the released code): the batch stays fixed while the loops run; each update draws its own
 * candidates and dropout masks. The loss-net minimises sum_b w_b nce_b; the task-net minimises
 * sum_b w_b (energy_weight * -S(x, p) + bce_weight * sum_i BCE(z_i, y_i)) / sum_b w_b, p = sigmoid(z) from a new forward pass,
 * with gradients clipped at norm `clip` (0: not). loss = SG_LOSS_CROSS_ENTROPY leaves the loss-net out. */
typedef struct sg_step_options {
    sg_loss loss;
    int64_t batch, capacity; /* rows; non-zeros of sparse input, 0: dense input */
    bool known;              /* an input "known" masks unknown labels */
    sg_mlc_sizes task, energy;
    int64_t samples, n_energy, n_task;
    double energy_weight, bce_weight, clip;
    sg_adam_options task_adam, energy_adam;
} sg_step_options;
/* Inputs: "x" (or the six of a CSR input "x"), "y" [B, L], "weight" [B], "known" [B, L] if asked. Store scalars task/lr and
 * energy/lr are the learning rates. Results, averaged over the updates of the step: "bce", "energy" (mean over rows), and
 * "nce" (mean over rows). The entry "rng" advances by one. */
sg_status sg_step_build(sg_graph *graph, sg_store *store, const sg_step_options *options, sg_error *err);
/* Product with the Hessian of the task-net's loss in its parameters, loss-net and draws fixed: inputs as for a step and
 * "v:NAME" for each parameter task/..., results "hv:NAME". */
sg_status sg_hvp_build(sg_graph *graph, sg_store *store, const sg_step_options *options, sg_error *err);
/* Prediction: inputs "x" as above, result "p" [B, L] = sigmoid(z). */
sg_status sg_predict_build(sg_graph *graph, sg_store *store, const sg_step_options *options, sg_error *err);

/* ===================================================================================================== training */
/* Everything a run reads, ready to batch. */
typedef struct sg_training_data {
    sg_dataset *data; /* preprocessed */
    sg_split split;
    sg_preprocess *preprocess; /* fitted on the training rows */
    char *sha256;              /* of the source files, "name sha256" lines; "" for generated data, or if not hashed */
} sg_training_data;
/* Read, split and preprocess what the configuration names. Files that are `hashed`, as those of a run should be, are read a second time,
 * and must be plain; others may be pipes. */
sg_status sg_training_data_load(sg_training_data **out, const sg_config *config, bool hashed, sg_error *err);
/* Take over a data set made in memory (`data` is released also on failure) and split it by data.fractions. */
sg_status sg_training_data_take(sg_training_data **out, const sg_config *config, sg_dataset *data, sg_error *err);
void sg_training_data_free(sg_training_data *data);

/* Sizes and step options of a configuration on a data set: what `train` builds; shared by gradcheck, graph and bench. The
 * returned pointers belong to `config`. */
sg_step_options sg_step_options_of(const sg_train_config *config, const sg_dataset *data);

/* What a run tells while it goes on. */
typedef enum sg_train_moment {
    SG_TRAIN_STARTED, /* sizes are known; `resumed` tells whether a checkpoint was found */
    SG_TRAIN_STEP,    /* after each batch; on a device that runs ahead, when its losses are known */
    SG_TRAIN_EPOCH    /* after validation; `validation` holds its metrics */
} sg_train_moment;
typedef struct sg_train_event {
    sg_train_moment moment;
    int64_t seed;
    int32_t run, runs;       /* which of how many runs side by side */
    int64_t epoch, step;     /* epochs from 1; batches done in this epoch */
    int64_t epochs, steps;   /* at most; batches an epoch */
    double bce, energy, nce; /* means over the epoch so far; NaN where there is no such loss */
    double lr, seconds;      /* task-net's rate; time of this epoch so far */
    double best_value;       /* of train.metric up to now, also before a resume; NaN: no epoch is done */
    int64_t done, left;      /* batches of all runs: done, and at most to come (a run that is over has none) */
    const sg_metrics *validation;
    bool best, resumed;
    int64_t task_parameters, energy_parameters, rows[3], features, labels;
    const char *device;
} sg_train_event;
/* Return false to stop after this step with everything saved. */
typedef bool (*sg_train_listener)(void *user, const sg_train_event *event);

typedef struct sg_train_options {
    size_t size;        /* sizeof(sg_train_options) */
    const char *folder; /* run directory, one process at a time; NULL keeps the run in memory (demo) */
    bool force;         /* move an existing directory to NAME.1 (.2 ...) instead of resuming or refusing */
    sg_train_listener listener;
    void *user;
    const char *const *argv; /* for run.json */
    int argc;
} sg_train_options;

typedef struct sg_train_result {
    bool finished; /* false: stopped by the listener, to be resumed by the same call */
    int64_t epoch; /* best one, from 1 */
    sg_metrics best,
        test;        /* validation metrics of that epoch; test metrics of its parameters (count 0: no test rows) */
    sg_store *store; /* in-memory runs: the store with the best parameters, released by the caller; else NULL */
} sg_train_result;

/* Train as configured. The run directory gets config.yml, run.json, metrics.jsonl, checkpoint.safetensors after each epoch,
 * model/ at each best epoch and metrics.json at the end; it is made only when everything before the first step succeeded. An
 * unfinished directory is resumed bit for bit (SG_E_DATA if its checkpoint is damaged, or gone again), a finished one refused
 * (SG_E_ARGUMENT), both without `force`. SG_E_DIVERGED if a loss is not finite. */
sg_status sg_train(const sg_config *config, sg_training_data *data, const sg_train_options *options,
                   sg_train_result *result, sg_error *err);
/* What the finished run in a directory ended with, from its metrics.json. */
sg_status sg_train_result_read(const char *folder, sg_train_result *result, sg_error *err);
/* Would sg_train or sg_train_seeds refuse the directory, as it is now, for files that the configuration names? What that takes no
 * data set to know is told here, before one is read. */
sg_status sg_train_check_folder(const sg_config *config, const sg_train_options *options, sg_error *err);

/* ---- several seeds of a recipe side by side: the same data in the same order, each seed with a store, a session and a plan of
 * its own, so the bits of each are those that it has alone. On a GPU their work runs at the same time. */
typedef struct sg_seed_result {
    int64_t seed;
    bool diverged; /* it left; its result is not finished */
    sg_train_result result;
} sg_seed_result;
typedef struct sg_seeds_result {
    bool finished; /* every seed is */
    int32_t count;
    sg_seed_result *seed; /* [count] */
    sg_metrics mean_best, mean_test, deviation_best,
        deviation_test; /* sample standard deviation; over finished seeds */
} sg_seeds_result;
void sg_seeds_result_free(sg_seeds_result *result);

/* The seeds of a configuration: key seeds as a list, or the N from seed on that its single number asks for; seed alone if it is
 * empty. To be released with sg_free. SG_E_CONFIG if one is there twice or there are too many. */
sg_status sg_config_seeds(const sg_config *config, int64_t **out, int32_t *count, sg_error *err);
/* Train them. The run directory gets config.yml, run.json, a directory seed-N for each, which is what sg_train makes of that seed
 * alone, and metrics.json at the end. Resumed and refused like a single run; seeds that are finished are not trained again. If
 * a seed diverges the others go on, and SG_E_DIVERGED is the answer then. */
sg_status sg_train_seeds(const sg_config *config, sg_training_data *data, const sg_train_options *options,
                         sg_seeds_result *result, sg_error *err);
/* What the finished run in a directory, of the seeds that its configuration has, ended with; SG_E_DATA if one is not there any more. */
sg_status sg_seeds_result_read(const sg_config *config, const char *folder, sg_seeds_result *result, sg_error *err);

/* ---- trained models in use */
/* A model folder (or a run directory, then its model/), with what its recipe and encoding say. */
typedef struct sg_trained {
    struct sg_model *model;
    char *folder; /* the model folder */
    sg_schema *schema;
    sg_preprocess *preprocess; /* NULL if the model has none */
    int64_t labels;
    float *thresholds; /* [labels] */
} sg_trained;
sg_status sg_trained_open(sg_trained **out, const char *folder, sg_error *err);
/* The same, also of a folder that sg_model_write made of another graph: `schema` is NULL then, and it is good for a look alone. */
sg_status sg_trained_open_any(sg_trained **out, const char *folder, sg_error *err);
void sg_trained_free(sg_trained *trained);
/* Are the files that the configuration names those the model was trained with? SG_E_CONFIG if a hash in run.json, beside the model
 * folder, is another; what has no run.json or cannot be hashed, such as a pipe, passes. */
sg_status sg_trained_check_data(const sg_trained *trained, const sg_config *config, sg_error *err);
/* Files for the model: columns are found by name, label columns may be missing; blank lines and indices are as in its training;
 * preprocessed. */
sg_status sg_trained_read(const sg_trained *trained, const char *const *files, int32_t n, sg_dataset **data,
                          sg_error *err);
/* Probabilities [n, labels] of the listed rows (NULL: the first n) of preprocessed data. `config` says device and threads. */
sg_status sg_trained_predict(const sg_trained *trained, const sg_config *config, const sg_dataset *data,
                             const int64_t *rows, int64_t n, float *p, sg_error *err);
/* Gold labels of the listed rows (NULL: the first n) as numbers: y [n, labels] 0/1, known [n, labels] 0 where unknown. */
void sg_dataset_gold(const sg_dataset *data, const int64_t *rows, int64_t n, float *y, float *known);

/* The demo's data: rows whose labels come in `groups` of `size`, exactly one on in each; a hidden template picks which, so
 * that groups agree. Features are noisy sums of label prototypes: each label alone is ambiguous, the set is not. */
typedef struct sg_generator {
    int64_t rows, features, groups, size, templates;
    double noise; /* deviation of the feature noise; a prototype has norm about 1 */
    double flip;  /* chance that a group leaves its template */
    uint64_t seed;
} sg_generator;
sg_generator sg_generator_default(void);
sg_status sg_generate(sg_dataset **out, const sg_generator *generator, sg_error *err);

/* A compiled product as the map that sg_solve, sg_lanczos and the like take: v is fed to the input `in`, the plan runs, the
 * result `out` is fetched (sg_unflatten and sg_flatten make one vector of several tensors). Runs allocate nothing. `product`
 * must outlive the map. */
typedef struct sg_plan_product {
    sg_plan *plan;
    const char *in, *out;
} sg_plan_product;
sg_linear_map sg_plan_map(sg_plan_product *product);

#ifdef __cplusplus
}
#endif

#ifndef SG_NO_LOCATION
#include "models/location.h"
#endif
#endif
