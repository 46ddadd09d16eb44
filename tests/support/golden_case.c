/* golden_case.c - see golden_case.h. */
#include "tests/support/golden_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double number_of(const json_t *item)
{
    if (!json_is_string(item))
        return json_number_value(item);
    const char *text = json_string_value(item);
    return strcmp(text, "nan") == 0 ? NAN : strcmp(text, "inf") == 0 ? INFINITY : -INFINITY;
}

sg_shape golden_shape(const json_t *tensor)
{
    const json_t *sizes = json_object_get(tensor, "shape");
    int64_t dim[SG_MAX_RANK];
    for (size_t i = 0; i < json_array_size(sizes); i++)
        dim[i] = json_integer_value(json_array_get(sizes, i));
    return sg_shape_make((int32_t)json_array_size(sizes), dim);
}

double *golden_data(const json_t *tensor)
{
    const json_t *data = json_object_get(tensor, "data");
    double *out = calloc(json_array_size(data) + 1, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < json_array_size(data); i++)
        out[i] = number_of(json_array_get(data, i));
    return out;
}

double golden_attr_real(const json_t *test, const char *name)
{
    return json_number_value(json_object_get(json_object_get(test, "attrs"), name));
}

bool golden_attr_is(const json_t *test, const char *name, const char *value)
{
    const char *text = json_string_value(json_object_get(json_object_get(test, "attrs"), name));
    return text && strcmp(text, value) == 0;
}
