#include "tests/support/training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

sg_config *training_config(const char *recipe, const sg_setting *sets, int32_t n_sets)
{
    sg_config *config;
    sg_error err = {0};
    sg_config_request request = {.file = "recipe", .text = recipe, .sets = sets, .n_sets = n_sets};
    if (sg_config_load(&config, &request, &err) != SG_OK)
        fail_msg("%s", err.text);
    return config;
}

sg_training_data *training_data(const sg_config *config)
{
    sg_generator g = {
        .rows = 150, .features = 10, .groups = 3, .size = 3, .templates = 4, .noise = 0.2, .flip = 0.1, .seed = 5};
    sg_dataset *generated;
    sg_training_data *data = NULL;
    sg_error err = {0};
    if (sg_generate(&generated, &g, &err) != SG_OK || sg_training_data_take(&data, config, generated, &err) != SG_OK)
        fail_msg("%s", err.text);
    return data;
}
