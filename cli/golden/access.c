/* access.c - what the tables of families read from a case and hand back (golden_internal.h). */
#include "cli/golden/runner_internal.h"

#include <string.h>

void sg_golden_refuse(sg_golden *g, const char *fmt, ...)
{
    va_list args;
    if (g->refused)
        return;
    va_start(args, fmt);
    vsnprintf(g->refusal, sizeof g->refusal, fmt, args);
    va_end(args);
    g->refused = true;
}

sg_graph *sg_golden_graph(sg_golden *g) { return g->graph; }

sg_scope sg_golden_scope(sg_golden *g) { return sg_scope_root(g->graph, g->store); }

const char *sg_golden_device(const sg_golden *g) { return sg_golden_devices[g->device]; }

/* ---- inputs */

bool sg_golden_has(const sg_golden *g, const char *input)
{
    return sg_golden_tensor_index(g, SG_GOLDEN_INPUTS, input) >= 0;
}

int32_t sg_golden_inputs(const sg_golden *g) { return g->group[SG_GOLDEN_INPUTS].n; }

static int32_t input_index(sg_golden *g, const char *input)
{
    int32_t i = sg_golden_tensor_index(g, SG_GOLDEN_INPUTS, input);
    if (i < 0)
        sg_golden_refuse(g, "the case has no input '%.80s'", input);
    return i;
}

sg_value sg_golden_in_at(sg_golden *g, int32_t index)
{
    if (index >= 0 && index < sg_golden_inputs(g))
        return g->in[index];
    sg_golden_refuse(g, "the case has no input [%d]", (int)index);
    return SG_NONE;
}

sg_value sg_golden_in(sg_golden *g, const char *input)
{
    int32_t i = input_index(g, input);
    return i < 0 ? SG_NONE : g->in[i];
}

const double *sg_golden_elements(sg_golden *g, const char *input, int64_t *count)
{
    int32_t i = input_index(g, input);
    if (count)
        *count = i < 0 ? 0 : g->group[SG_GOLDEN_INPUTS].at[i].count;
    return i < 0 ? NULL : g->group[SG_GOLDEN_INPUTS].at[i].data;
}

void sg_golden_parameter(sg_golden *g, const char *input, sg_value parameter)
{
    int32_t i = input_index(g, input), entry = sg_entry_of(parameter);
    if (i < 0 || sg_is_none(parameter))
        return;
    sg_error err = {0};
    const sg_golden_tensor *t = &g->group[SG_GOLDEN_INPUTS].at[i];
    if (entry < 0)
        sg_golden_refuse(g, "what stands for input '%.80s' is no parameter", input);
    else if (sg_store_set(g->store, sg_store_peek(g->store, entry)->name, t->data, t->count, &err) != SG_OK)
        sg_golden_refuse(g, "input '%.80s': %.160s", input, err.text);
    g->in[i] = parameter;
}

/* ---- attributes */

const json_t *sg_golden_attr(const sg_golden *g, const char *name)
{
    const json_t *value = json_object_get(g->attrs, name);
    return json_is_null(value) ? NULL : value;
}

double sg_golden_real_or(sg_golden *g, const char *name, double fallback)
{
    const json_t *value = sg_golden_attr(g, name);
    if (!value)
        return fallback;
    if (!json_is_number(value))
        sg_golden_refuse(g, "attrs.%.80s is no number", name);
    return json_number_value(value);
}

int64_t sg_golden_int_or(sg_golden *g, const char *name, int64_t fallback)
{
    const json_t *value = sg_golden_attr(g, name);
    if (!value)
        return fallback;
    if (!json_is_integer(value))
        sg_golden_refuse(g, "attrs.%.80s is no whole number", name);
    return json_integer_value(value);
}

static void require(sg_golden *g, const char *name)
{
    if (!sg_golden_attr(g, name))
        sg_golden_refuse(g, "the case has no attrs.%.80s", name);
}

double sg_golden_real(sg_golden *g, const char *name)
{
    require(g, name);
    return sg_golden_real_or(g, name, 0);
}

int64_t sg_golden_int(sg_golden *g, const char *name)
{
    require(g, name);
    return sg_golden_int_or(g, name, 0);
}

bool sg_golden_flag(sg_golden *g, const char *name)
{
    const json_t *value = sg_golden_attr(g, name);
    if (value && !json_is_boolean(value))
        sg_golden_refuse(g, "attrs.%.80s is not true or false", name);
    return json_is_true(value);
}

bool sg_golden_is(const sg_golden *g, const char *name, const char *value)
{
    const char *text = json_string_value(sg_golden_attr(g, name));
    return text && strcmp(text, value) == 0;
}

int32_t sg_golden_ints(sg_golden *g, const char *name, int64_t *out, int32_t capacity)
{
    const json_t *list = sg_golden_attr(g, name);
    size_t n = json_array_size(list);
    if (list && !json_is_array(list))
        sg_golden_refuse(g, "attrs.%.80s is no list", name);
    if (n > (size_t)capacity) {
        sg_golden_refuse(g, "attrs.%.80s has more than %d numbers", name, (int)capacity);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (!json_is_integer(json_array_get(list, i)))
            sg_golden_refuse(g, "attrs.%.80s[%d] is no whole number", name, (int)i);
        out[i] = json_integer_value(json_array_get(list, i));
    }
    return (int32_t)n;
}

int32_t sg_golden_axes(sg_golden *g, const char *name, int32_t rank, int32_t out[SG_MAX_RANK])
{
    int64_t axes[SG_MAX_RANK];
    bool all = !sg_golden_attr(g, name);
    int32_t n = all ? rank : sg_golden_ints(g, name, axes, SG_MAX_RANK);
    for (int32_t i = 0; i < n; i++) {
        if (!all && (axes[i] < -SG_MAX_RANK || axes[i] >= SG_MAX_RANK))
            sg_golden_refuse(g, "attrs.%.80s[%d] is no axis", name, (int)i);
        out[i] = all ? i : (int32_t)axes[i];
    }
    return n;
}

/* ---- results */

bool sg_golden_has_output(const sg_golden *g, const char *output)
{
    return sg_golden_tensor_index(g, SG_GOLDEN_OUTPUTS, output) >= 0;
}

static int32_t output_index(sg_golden *g, const char *output)
{
    int32_t i = sg_golden_tensor_index(g, SG_GOLDEN_OUTPUTS, output);
    if (i < 0)
        sg_golden_refuse(g, "the case has no output '%.80s'", output);
    return i;
}

int64_t sg_golden_output_rows(sg_golden *g, const char *output)
{
    int32_t i = output_index(g, output);
    const sg_shape *shape = i < 0 ? NULL : &g->group[SG_GOLDEN_OUTPUTS].at[i].shape;
    return shape && shape->rank > 0 ? shape->dim[0] : 1;
}

void sg_golden_out(sg_golden *g, const char *output, sg_value value)
{
    int32_t i = output_index(g, output);
    if (i >= 0)
        g->out[i] = value;
}

void sg_golden_numbers(sg_golden *g, const char *output, const double *data, int64_t count)
{
    int32_t i = output_index(g, output);
    if (i < 0)
        return;
    const sg_golden_tensor *want = &g->group[SG_GOLDEN_OUTPUTS].at[i];
    double *copy = count == want->count ? sg_calloc(count + 1, sizeof *copy) : NULL;
    if (!copy) {
        sg_golden_refuse(g, "output '%.80s': %lld elements, expected %lld", output, (long long)count,
                         (long long)want->count);
        return;
    }
    memcpy(copy, data, (size_t)count * sizeof *copy);
    sg_free(g->numbers[i]);
    g->numbers[i] = copy;
}

/* ---- helpers */

sg_value sg_golden_number(sg_value like, double value)
{
    return sg_constant(like.graph, sg_dtype_of(like), sg_shape_scalar(), &value, 1);
}

sg_value sg_golden_reduced(sg_golden *g, sg_value losses)
{
    if (sg_golden_is(g, "reduction", "none"))
        return losses;
    return sg_golden_is(g, "reduction", "sum") ? sg_sum_all(losses) : sg_mean_all(losses);
}
