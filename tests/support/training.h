/* training.h - a small training run: its recipe with settings, and its data. Both fail the test if they cannot be made. */
#ifndef SG_TESTS_TRAINING_H
#define SG_TESTS_TRAINING_H

#include "models/models.h"

/* A small task and loss net; `epochs` of it. */
#define TRAINING_RECIPE(epochs)                                                                                        \
    "threads: 1\n"                                                                                                     \
    "data: {fractions: [0.6, 0.2, 0.2]}\n"                                                                             \
    "model: {hidden: [12, 10], dropout: [0.2, 0]}\n"                                                                   \
    "energy: {global: 6}\n"                                                                                            \
    "loss: {name: seal-dynamic, samples: 5, n_energy: 2, n_task: 2}\n"                                                 \
    "train: {epochs: " #epochs ", batch: 16, lr: 0.01, energy_lr: 0.01, plateau_patience: 0}\n"

sg_config *training_config(const char *recipe, const sg_setting *sets, int32_t n_sets);
/* 150 generated rows. */
sg_training_data *training_data(const sg_config *config);

#endif
