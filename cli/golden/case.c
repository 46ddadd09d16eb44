/* case.c - a case from JSON: every tensor is checked before it is used, so that a mistake in a file is told with its place. */
#include "cli/golden/runner_internal.h"

#include <math.h>
#include <string.h>

const char *const sg_golden_group_keys[SG_GOLDEN_GROUP_COUNT] = {
#define X(id, key) key,
    SG_GOLDEN_GROUPS(X)
#undef X
};

static sg_status bad(const sg_golden *g, sg_error *err, const char *where, const char *name, const char *what)
{
    return sg_fail_at(err, SG_E_DATA, g->file, 0, 0, "case '%.80s': %s%s%.80s %s", g->name, where, name[0] ? "." : "",
                      name, what);
}

/* ---- one tensor */

static bool kind_of(const char *text, sg_golden_kind *out)
{
    static const char *const names[] = {"float64", "int64", "bool", "string"};
    for (int i = 0; i < 4; i++)
        if (text && strcmp(text, names[i]) == 0) {
            *out = (sg_golden_kind)i;
            return true;
        }
    return false;
}

static bool shape_of(const json_t *sizes, sg_shape *out)
{
    int64_t dim[SG_MAX_RANK];
    if (!json_is_array(sizes) || json_array_size(sizes) > SG_MAX_RANK)
        return false;
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        const json_t *size = json_array_get(sizes, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return false;
        dim[i] = json_integer_value(size);
    }
    *out = sg_shape_make((int32_t)json_array_size(sizes), dim);
    return sg_shape_count(out) >= 0;
}

/* Reals may also be "inf", "-inf" and "nan"; int64 has to fit the 32 bits of indices here. */
static bool number_of(const json_t *item, sg_golden_kind kind, double *out)
{
    static const struct {
        const char *text;
        double value;
    } special[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
    *out = json_number_value(item);
    if (kind == SG_GOLDEN_BOOLS)
        return json_is_integer(item) && (*out == 0 || *out == 1);
    if (kind == SG_GOLDEN_INTS)
        return json_is_integer(item) && *out >= INT32_MIN && *out <= INT32_MAX;
    for (size_t i = 0; json_is_string(item) && i < sizeof special / sizeof *special; i++)
        if (strcmp(json_string_value(item), special[i].text) == 0) {
            *out = special[i].value;
            return true;
        }
    return json_is_number(item);
}

static sg_status read_data(const sg_golden *g, const char *group, sg_golden_tensor *t, const json_t *data,
                           sg_error *err)
{
    char text[128], shape[SG_SHAPE_TEXT];
    if (!json_is_array(data))
        return bad(g, err, group, t->name, "has no list \"data\"");
    if ((int64_t)json_array_size(data) != t->count) {
        snprintf(text, sizeof text, "has %lld elements for shape %.60s", (long long)json_array_size(data),
                 sg_shape_format(&t->shape, shape, sizeof shape));
        return bad(g, err, group, t->name, text);
    }
    if (t->kind == SG_GOLDEN_TEXTS)
        return SG_OK;
    t->data = sg_calloc(t->count + 1, sizeof *t->data);
    if (!t->data)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    for (int64_t i = 0; i < t->count; i++)
        if (!number_of(json_array_get(data, (size_t)i), t->kind, &t->data[i])) {
            snprintf(text, sizeof text, "has an element [%lld] that is no %s", (long long)i,
                     t->kind == SG_GOLDEN_REALS  ? "number"
                     : t->kind == SG_GOLDEN_INTS ? "whole number of 32 bits"
                                                 : "0 or 1");
            return bad(g, err, group, t->name, text);
        }
    return SG_OK;
}

static sg_status read_tensor(const sg_golden *g, const char *group, const char *name, const json_t *json,
                             sg_golden_tensor *t, sg_error *err)
{
    t->name = name;
    if (!json_is_object(json))
        return bad(g, err, group, name, "is no tensor {dtype, shape, data}");
    if (!kind_of(json_string_value(json_object_get(json, "dtype")), &t->kind))
        return bad(g, err, group, name, "has no dtype of float64, int64, bool, string");
    if (!shape_of(json_object_get(json, "shape"), &t->shape))
        return bad(g, err, group, name, "has no shape of at most 8 sizes");
    t->count = sg_shape_count(&t->shape);
    return read_data(g, group, t, json_object_get(json, "data"), err);
}

/* ---- groups */

static sg_status read_group(sg_golden *g, int group, const json_t *json, sg_error *err)
{
    const char *key = sg_golden_group_keys[group], *name;
    json_t *tensor, *tensors = json_object_get(json, key);
    sg_golden_tensors *list = &g->group[group];
    if (!tensors && group > SG_GOLDEN_OUTPUTS)
        return SG_OK;
    if (!json_is_object(tensors))
        return bad(g, err, key, "", tensors ? "is no object of tensors" : "is missing");
    list->at = sg_calloc((int64_t)json_object_size(tensors) + 1, sizeof *list->at);
    if (!list->at)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    json_object_foreach(tensors, name, tensor)
    {
        SG_TRY(read_tensor(g, key, name, tensor, &list->at[list->n], err));
        list->n++;
    }
    return SG_OK;
}

/* Each tensor of `group` belongs to one of `base`, has its shape, and is real. */
static sg_status agree(const sg_golden *g, int group, int base, sg_error *err)
{
    char text[160];
    for (int32_t i = 0; i < g->group[group].n; i++) {
        const sg_golden_tensor *t = &g->group[group].at[i], *of = sg_golden_tensor_find(g, base, t->name);
        snprintf(text, sizeof text, !of ? "is not in %s" : "has not the shape of %s", sg_golden_group_keys[base]);
        if (!of || !sg_shape_equal(&t->shape, &of->shape))
            return bad(g, err, sg_golden_group_keys[group], t->name, text);
        if (t->kind != SG_GOLDEN_REALS || of->kind != SG_GOLDEN_REALS)
            return bad(g, err, sg_golden_group_keys[group], t->name, "is not float64");
    }
    return SG_OK;
}

static sg_status check_groups(const sg_golden *g, sg_error *err)
{
    SG_TRY(agree(g, SG_GOLDEN_COTANGENT, SG_GOLDEN_OUTPUTS, err));
    SG_TRY(agree(g, SG_GOLDEN_TANGENT, SG_GOLDEN_INPUTS, err));
    SG_TRY(agree(g, SG_GOLDEN_JVP, SG_GOLDEN_COTANGENT, err));
    SG_TRY(agree(g, SG_GOLDEN_VJP, SG_GOLDEN_TANGENT, err));
    SG_TRY(agree(g, SG_GOLDEN_HVP, SG_GOLDEN_TANGENT, err));
    SG_TRY(agree(g, SG_GOLDEN_THIRD, SG_GOLDEN_TANGENT, err));
    for (int group = SG_GOLDEN_VJP; group < SG_GOLDEN_GROUP_COUNT; group++)
        if (g->group[group].n && !g->group[SG_GOLDEN_COTANGENT].n)
            return bad(g, err, sg_golden_group_keys[group], "", "needs a cotangent");
    return SG_OK;
}

sg_status sg_golden_case_open(sg_golden *g, const json_t *json, const char *file, sg_error *err)
{
    const char *tol = json_string_value(json_object_get(json, "tol"));
    *g = (sg_golden){.file = file, .attrs = json_object_get(json, "attrs"), .tol = tol ? tol : ""};
    g->name = json_string_value(json_object_get(json, "name"));
    g->op = json_string_value(json_object_get(json, "op"));
    if (!g->name || !g->op)
        return sg_fail_at(err, SG_E_DATA, file, 0, 0, "case '%.80s' has no %s", g->name ? g->name : "?",
                          g->name ? "op" : "name");
    if (g->attrs && !json_is_object(g->attrs))
        return bad(g, err, "attrs", "", "is no object");
    if (tol && strcmp(tol, "relative") != 0 && strcmp(tol, "absolute") != 0 && strcmp(tol, "loose") != 0)
        return bad(g, err, "tol", "", "is not one of relative, absolute, loose");
    for (int group = 0; group < SG_GOLDEN_GROUP_COUNT; group++)
        SG_TRY(read_group(g, group, json, err));
    return check_groups(g, err);
}

void sg_golden_case_close(sg_golden *g)
{
    for (int group = 0; group < SG_GOLDEN_GROUP_COUNT; group++) {
        for (int32_t i = 0; g->group[group].at && i <= g->group[group].n; i++)
            sg_free(g->group[group].at[i].data); /* one more than counted: read halfway */
        sg_free(g->group[group].at);
    }
}

int32_t sg_golden_tensor_index(const sg_golden *g, int group, const char *name)
{
    for (int32_t i = 0; i < g->group[group].n; i++)
        if (strcmp(g->group[group].at[i].name, name) == 0)
            return i;
    return -1;
}

const sg_golden_tensor *sg_golden_tensor_find(const sg_golden *g, int group, const char *name)
{
    int32_t i = sg_golden_tensor_index(g, group, name);
    return i < 0 ? NULL : &g->group[group].at[i];
}
