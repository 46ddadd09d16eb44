/* option_list.h - one table of options, SG_*_OPTIONS, makes everything a user sees of the configuration: the struct that training
 * reads, the check of a YAML file, the names of environment variables (train.lr is SEALGRAPH_TRAIN_LR), flags, `config
 * schema`, completion and man page.
 *
 * X(section, field, TYPE, initial, domain, flag, help). The key is section.field. `initial` is the default as it would be
 * written in YAML, "" for unset. `domain` is an interval for numbers ("(0, inf)", bounds of the elements for lists) and the
 * accepted words for ENUM and WORD ("a|b"; in "cuda:N" N stands for a whole number). `flag` is the named flag without dashes, ""
 * if there is only --set.
 *
 * C type by TYPE: BOOL bool; INT int64_t; REAL double; ENUM int32_t, the index in the domain; WORD const char *; TEXT,
 * PATH const char *, NULL if unset; INTS sg_ints; REALS sg_reals; PATHS sg_texts. In paths ${NAME} is replaced from the
 * environment. */
#ifndef SG_OPTION_LIST_H
#define SG_OPTION_LIST_H

#define SG_TASK_NAMES "mlc"
typedef enum sg_task { SG_TASK_MLC } sg_task;
#define SG_DEVICE_NAMES "cpu|reference|cuda|cuda:N"
#define SG_SCHEDULE_NAMES "plateau|constant|linear|cosine"
typedef enum sg_schedule {
    SG_SCHEDULE_PLATEAU,
    SG_SCHEDULE_CONSTANT,
    SG_SCHEDULE_LINEAR,
    SG_SCHEDULE_COSINE
} sg_schedule;
#define SG_FORMAT_NAMES "auto|arff|libsvm|xc"
#define SG_SCALING_NAMES "auto|none|standardise|minmax"
#define SG_IMPUTE_NAMES "mean|zero|indicator"
#define SG_LAYOUT_NAMES "auto|dense|sparse"
#define SG_NOMINAL_NAMES "auto|binary|one-hot"
#define SG_ACTIVATION_NAMES "softplus|relu|tanh|sigmoid|gelu"
typedef enum sg_activation {
    SG_ACTIVATION_SOFTPLUS,
    SG_ACTIVATION_RELU,
    SG_ACTIVATION_TANH,
    SG_ACTIVATION_SIGMOID,
    SG_ACTIVATION_GELU
} sg_activation;
#define SG_LOSS_NAMES "cross-entropy|seal-dynamic"
typedef enum sg_loss { SG_LOSS_CROSS_ENTROPY, SG_LOSS_SEAL_DYNAMIC } sg_loss;
#define SG_METHOD_NAMES "nce"
typedef enum sg_energy_method { SG_METHOD_NCE } sg_energy_method;

/* clang-format off */
#define SG_TOP_OPTIONS(X, S)                                                                                           \
    X(S, task, ENUM, "mlc", SG_TASK_NAMES, "task", "what is predicted: mlc is multi-label classification")             \
    X(S, seed, INT, "1", "[0, inf)", "seed", "seed of initialisation, dropout and sampling")                           \
    X(S, seeds, INTS, "[]", "[0, inf)", "seeds", "several seeds side by side: a list, or one number N for seed ... seed+N-1") \
    X(S, threads, INT, "0", "[0, 1024]", "threads", "threads; 0 takes every core the process may use, at most 16")     \
    X(S, device, WORD, "cpu", SG_DEVICE_NAMES, "device", "where to compute; cuda:1 is the second GPU, reference is float64 and slow") \
    X(S, precision, WORD, "f32", "f32|tf32|bf16", "precision", "on cuda, tf32 rounds the operands of products and bf16 also activations; weights and losses stay f32")

#define SG_DATA_OPTIONS(X)                                                                                             \
    X(data, dir, PATH, "", "", "data-dir", "folder under which, and nowhere else, relative data files are looked up")  \
    X(data, files, PATHS, "[]", "", "files", "files whose rows are divided by data.split or data.fractions")           \
    X(data, train, PATHS, "[]", "", "train", "training files")                                                         \
    X(data, validation, PATHS, "[]", "", "validation", "validation files")                                             \
    X(data, test, PATHS, "[]", "", "test", "test files")                                                               \
    X(data, format, ENUM, "auto", SG_FORMAT_NAMES, "format", "format of the files; auto goes by name and content")     \
    X(data, labels_xml, PATH, "", "", "labels-xml", "MULAN XML file that names the labels")                            \
    X(data, labels, INT, "0", "[-1000000, 1000000]", "labels", "N: the first N attributes are labels, -N: the last N") \
    X(data, positive, TEXT, "", "", "positive", "value of a label column that means on; unset: 1, yes, true or t")      \
    X(data, arff_index_base, INT, "0", "[0, 1]", "arff-index-base", "number of the first column in sparse ARFF rows")  \
    X(data, index_base, INT, "-1", "[-1, 1]", "index-base", "first feature of LIBSVM rows; -1: 1 (XC files count from 0)")\
    X(data, label_base, INT, "0", "[0, 1]", "label-base", "first label of LIBSVM rows, where labels are numbers")               \
    X(data, features_count, INT, "0", "[0, 100000000]", "", "features of LIBSVM rows; 0: the largest index")           \
    X(data, labels_count, INT, "0", "[0, 100000000]", "", "labels of LIBSVM rows; 0: the largest number")              \
    X(data, keep_blank, BOOL, "false", "", "keep-blank", "a blank LIBSVM line is a row without features and labels")   \
    X(data, close_hierarchy, BOOL, "false", "", "close-hierarchy", "add the ancestors of nested XML labels")           \
    X(data, nominal, ENUM, "auto", SG_NOMINAL_NAMES, "nominal", "encoding of two-valued nominal attributes")           \
    X(data, split, PATH, "", "", "split", "file of `row TAB train|validation|test|-` lines dividing data.files")       \
    X(data, split_seed, INT, "1", "[0, inf)", "split-seed", "seed of the stratified split when there is no split file")\
    X(data, fractions, REALS, "[0.6, 0.2, 0.2]", "[0, 1]", "fractions", "train, validation, test parts of data.files") \
    X(data, dev_fraction, REAL, "0.2", "(0, 1)", "dev-fraction", "part of data.train that validates if none is given") \
    X(data, scaling, ENUM, "auto", SG_SCALING_NAMES, "scaling", "from training rows; auto standardises dense numbers")  \
    X(data, impute, ENUM, "mean", SG_IMPUTE_NAMES, "impute", "what replaces a missing feature")                        \
    X(data, layout, ENUM, "auto", SG_LAYOUT_NAMES, "layout", "rows in memory; auto is sparse below 10 % of non-zeros")

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
    X(train, weight_decay, REAL, "1.0e-05", "[0, inf)", "", "decoupled weight decay of the task-net")                  \
    X(train, energy_lr, REAL, "0.001", "(0, inf)", "", "learning rate of the loss-net")                                \
    X(train, energy_weight_decay, REAL, "1.0e-05", "[0, inf)", "", "decoupled weight decay of the loss-net")           \
    X(train, clip, REAL, "10", "[0, inf)", "", "largest gradient norm of the task-net; 0 does not clip")               \
    X(train, patience, INT, "20", "[1, 1000000]", "patience", "epochs without a better validation metric that end it") \
    X(train, schedule, ENUM, "plateau", SG_SCHEDULE_NAMES, "schedule", "how train.lr moves; linear and cosine end at 0")   \
    X(train, warmup, INT, "0", "[0, 1000000000]", "", "steps over which train.lr rises from 0")                         \
    X(train, plateau_factor, REAL, "0.5", "(0, 1]", "", "factor on train.lr when the metric stands still")             \
    X(train, plateau_patience, INT, "5", "[0, 1000000]", "", "epochs it may stand still before that")                  \
    X(train, plateau_threshold, REAL, "0.0001", "[0, 1)", "", "relative gain that counts as better for the plateau")   \
    X(train, metric, WORD, "example_f1", SG_METRIC_NAMES, "metric", "validation metric that chooses the epoch")        \
    X(train, threshold, REAL, "0.5", "(0, 1)", "threshold", "probability from which a label is predicted")             \
    X(train, order_seed, INT, "13370", "[0, inf)", "", "seed of the order of batches, apart from seed")
#define SG_METRIC_NAMES "example_f1|micro_f1|macro_f1|subset_accuracy|map.example|map.label"

/* clang-format on */

#endif
