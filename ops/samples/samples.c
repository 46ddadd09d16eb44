/* samples.c - the tables as one list, and the elements of inputs. */
#include "ops/samples/samples_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/random_internal.h"

#define X(name) &sg_samples_##name,
static const sg_sample_table *const tables[] = {SG_SAMPLE_TABLES(X)};
#undef X
enum { TABLES = sizeof tables / sizeof *tables };

int32_t sg_sample_count(void)
{
    int32_t count = 0;
    for (int32_t t = 0; t < TABLES; t++)
        count += tables[t]->count;
    return count;
}

const sg_sample *sg_sample_at(int32_t index)
{
    int32_t t = 0;
    while (index >= tables[t]->count)
        index -= tables[t++]->count;
    return &tables[t]->rows[index];
}

const char *sg_sample_name(const sg_sample *sample, char *out, size_t size)
{
    int n = snprintf(out, size, "%s", sample->op);
    for (int32_t k = 0; k < sample->n_in && n < (int)size; k++) {
        char text[SG_SHAPE_TEXT];
        sg_shape_format(&sample->in[k].shape, text, sizeof text);
        n += snprintf(out + n, size - (size_t)n, "%s%s", k ? "x" : " ", text);
    }
    if (n < (int)size)
        snprintf(out + n, size - (size_t)n, " %s", sample->note);
    return out;
}

bool sg_sample_moves(const sg_sample *sample, int32_t k)
{
    return !sample->flat && sample->in[k].dtype == SG_F32 && !sample->in[k].constant;
}

/* Element i of input k is the lattice point p(i) / 4 + k / 16 - 16 with a permutation p of 0..127: elements, also of
 * different inputs, are at least 1/16 apart. */
static double distinct(int64_t i, int32_t k)
{
    int64_t p = (i * 37 + 11) % 128;
    return (double)p / 4 + (double)k / 16 - 16;
}

static double element(const sg_sample_input *in, uint64_t stream, int64_t i, int32_t k)
{
    static const int32_t rng[4] = {1, 0, 0, 0};
    double u = (double)sg_random_uniform(stream, rng, 0, 2 * (uint64_t)i);
    double v = (double)sg_random_uniform(stream, rng, 0, 2 * (uint64_t)i + 1);
    switch (in->fill) {
    case SG_FILL_UNIFORM:
        return in->low + u * (in->high - in->low);
    case SG_FILL_AWAY:
        return (v < 0.5 ? -1 : 1) * (in->low + u * (in->high - in->low));
    case SG_FILL_FRACTION:
        return in->low + (double)(int64_t)(v * (in->high - in->low)) + 0.2 + 0.6 * u;
    case SG_FILL_DISTINCT:
        return distinct(i, k);
    case SG_FILL_INDEX:
        return in->low + (double)(int64_t)(u * (in->high - in->low));
    case SG_FILL_FLAG:
        return u < 0.5;
    case SG_FILL_GIVEN:
        return in->given[i];
    case SG_FILL_MADE:
        break;
    }
    return 0;
}

/* FNV-1a over the name, so that a new row leaves the elements of all others as they are. */
static uint64_t stream_of(const sg_sample *sample, int32_t k)
{
    char name[512];
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *at = sg_sample_name(sample, name, sizeof name); *at; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return hash + (uint64_t)k;
}

void sg_sample_elements(const sg_sample *sample, int32_t k, double *out)
{
    int64_t n = sg_shape_count(&sample->in[k].shape);
    uint64_t stream = stream_of(sample, k);
    if (sample->in[k].fill == SG_FILL_MADE) {
        sample->in[k].make(out, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)(float)element(&sample->in[k], stream, i, k);
}

void sg_sample_build(const sg_sample *sample, sg_scope scope, sg_value *in, sg_value *out)
{
    for (int32_t k = 0; k < sample->n_in; k++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", (int)k);
        in[k] = sg_input(scope.graph, name, sample->in[k].dtype, sample->in[k].shape);
    }
    sample->build(sample, scope, in, out);
}
