/* The demo's data: exactly one label on in each group, the same data for the same seed, mistakes refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "models/models.h"

static sg_dataset *make(const sg_generator *g)
{
    sg_dataset *data;
    sg_error err = {0};
    if (sg_generate(&data, g, &err) != SG_OK)
        fail_msg("%s", err.text);
    return data;
}

static sg_generator small(void)
{
    sg_generator g = sg_generator_default();
    g.rows = 300;
    return g;
}

static void one_label_a_group(void **state)
{
    (void)state;
    sg_generator g = small();
    g.flip = 0.5;
    sg_dataset *data = make(&g);
    assert_int_equal(data->rows, g.rows);
    assert_int_equal(data->features, g.features);
    assert_int_equal(data->labels, g.groups * g.size);
    for (int64_t row = 0; row < data->rows; row++) {
        assert_int_equal(data->label_indptr[row + 1] - data->label_indptr[row], g.groups);
        for (int64_t k = 0; k < g.groups; k++)
            assert_int_equal(data->label_index[data->label_indptr[row] + k] / g.size, k);
    }
    sg_dataset_free(data);
}

/* Without flips there are at most as many label sets as templates. */
static void label_sets_follow_templates(void **state)
{
    (void)state;
    sg_generator g = small();
    g.flip = 0;
    g.templates = 3;
    sg_dataset *data = make(&g);
    int64_t seen[3], n = 0;
    size_t width = (size_t)g.groups * sizeof *data->label_index;
    for (int64_t row = 0; row < data->rows; row++) {
        int64_t k = 0;
        while (k < n && memcmp(data->label_index + seen[k] * g.groups, data->label_index + row * g.groups, width) != 0)
            k++;
        assert_true(k < 3);
        if (k == n)
            seen[n++] = row;
    }
    assert_int_equal(n, 3);
    sg_dataset_free(data);
}

static void equal_seeds_equal_data(void **state)
{
    (void)state;
    sg_generator g = small();
    sg_dataset *a = make(&g), *b = make(&g);
    g.seed++;
    sg_dataset *c = make(&g);
    size_t bytes = (size_t)(a->rows * a->features) * sizeof *a->dense;
    assert_memory_equal(a->dense, b->dense, bytes);
    assert_memory_equal(a->label_index, b->label_index, (size_t)(a->rows * g.groups) * sizeof *a->label_index);
    assert_memory_not_equal(a->dense, c->dense, bytes);
    sg_dataset_free(a);
    sg_dataset_free(b);
    sg_dataset_free(c);
}

static void mistakes_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        sg_generator g = small();
        int64_t *part[] = {&g.rows, &g.features, &g.groups, &g.size, &g.templates, &g.rows};
        *part[i] = i == 5 ? INT64_MAX / 2 : 0;
        sg_dataset *data = NULL;
        sg_error err = {0};
        assert_int_equal(sg_generate(&data, &g, &err), SG_E_ARGUMENT);
        assert_true(err.text[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_label_a_group),
        cmocka_unit_test(label_sets_follow_templates),
        cmocka_unit_test(equal_seeds_equal_data),
        cmocka_unit_test(mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
