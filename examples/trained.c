/* trained.c - use a model that `sealgraph train` made, from C. Arguments: its run folder and a file of rows, whose probabilities are
 * printed. Without them such a run is made first, in trained-run, on rows that say nothing before they are scaled. */
#include "models/models.h"
#include "serialize/serialize.h"

#include <string.h>

enum { ROWS = 2000, FEATURES = 2, LABELS = 2 };

/* What `train` left in `run`, on the rows of `file`: p [rows, labels], to be released with sg_free, on failure too. Columns are found
 * by name, and encoded and scaled as in training; `config` says where to compute, here as the recipe does. */
static sg_status predict_file(const char *run, const char *file, float **p, int64_t *rows, int64_t *labels,
                              sg_error *err)
{
    sg_trained *trained = NULL;
    sg_config *config = NULL;
    sg_dataset *data = NULL;
    *p = NULL;
    sg_status status = sg_trained_open(&trained, run, err);
    if (status == SG_OK)
        status = sg_config_parse(&config, trained->model->recipe, strlen(trained->model->recipe), run, err);
    if (status == SG_OK)
        status = sg_trained_read(trained, &file, 1, &data, err);
    if (status == SG_OK) {
        *rows = data->rows;
        *labels = trained->labels;
        *p = sg_calloc(*rows * *labels, sizeof **p);
        status = *p ? sg_trained_predict(trained, config, data, NULL, *rows, *p, err)
                    : sg_fail(err, SG_E_MEMORY, "out of memory for %lld rows", (long long)*rows);
    }
    sg_dataset_free(data);
    sg_config_free(config);
    sg_trained_free(trained);
    return status;
}

/* Features near 1000; label k is on where feature k is above it. */
static void make_rows(float *x, float *y)
{
    uint32_t seed = 1;
    for (int i = 0; i < ROWS * FEATURES; i++) {
        seed = seed * 1664525u + 1013904223u;
        float u = (float)(seed >> 8) * 0x1p-23f - 1;
        x[i] = 1000 + u;
        y[i] = u > 0;
    }
}

static sg_status write_rows(const char *file, const float *x, const float *y, sg_error *err)
{
    sg_dataset *data;
    SG_TRY(sg_dataset_from_arrays(&data, x, y, ROWS, FEATURES, LABELS, SG_LAYOUT_DENSE, err));
    sg_status status = sg_dataset_write(data, file, SG_DATA_ARFF, err);
    sg_dataset_free(data);
    return status;
}

/* As `sealgraph train -c recipe.yml -o run` does. */
static sg_status train(const char *recipe, const char *run, sg_error *err)
{
    sg_config *config = NULL;
    sg_training_data *data = NULL;
    sg_train_result result;
    sg_train_options options = {.size = sizeof options, .folder = run};
    sg_status status = sg_config_parse(&config, recipe, strlen(recipe), "recipe", err);
    if (status == SG_OK)
        status = sg_training_data_load(&data, config, true, err);
    if (status == SG_OK)
        status = sg_folder_remove(run, err);
    if (status == SG_OK)
        status = sg_train(config, data, &options, &result, err);
    sg_training_data_free(data);
    sg_config_free(config);
    return status;
}

/* Train, and predict the rows that are known: `share` of the labels that are told right. */
static sg_status try_it(float *share, sg_error *err)
{
    static const char recipe[] = "data: {files: [trained-rows.arff]}\n"
                                 "model: {hidden: [16]}\n"
                                 "train: {epochs: 20, lr: 0.02, metric: micro_f1}\n";
    float x[ROWS * FEATURES], y[ROWS * LABELS], *p;
    int64_t rows, labels, right = 0;
    make_rows(x, y);
    SG_TRY(write_rows("trained-rows.arff", x, y, err));
    SG_TRY(train(recipe, "trained-run", err));
    sg_status status = predict_file("trained-run", "trained-rows.arff", &p, &rows, &labels, err);
    for (int64_t i = 0; status == SG_OK && i < ROWS * LABELS; i++)
        right += (p[i] > 0.5f) == (y[i] > 0.5f);
    sg_free(p);
    *share = (float)right / (ROWS * LABELS);
    printf("trained-run: %.3f of %d labels right\n", *share, ROWS * LABELS);
    return status;
}

static sg_status print_probabilities(const char *run, const char *file, sg_error *err)
{
    float *p;
    int64_t rows, labels;
    sg_status status = predict_file(run, file, &p, &rows, &labels, err);
    for (int64_t i = 0; status == SG_OK && i < rows * labels; i++)
        printf("%.4f%c", p[i], (i + 1) % labels ? ' ' : '\n');
    sg_free(p);
    return status;
}

int main(int argc, char **argv)
{
    sg_error err = {0};
    char text[1024];
    float share = 1;
    sg_status status = argc == 3 ? print_probabilities(argv[1], argv[2], &err) : try_it(&share, &err);
    if (status != SG_OK)
        fprintf(stderr, "trained: %s\n", sg_error_format(&err, text, sizeof text));
    return status == SG_OK && share > 0.9f ? 0 : 1;
}
