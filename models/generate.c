/* generate.c - the demo's data: labels that are ambiguous one by one and clear together.
 *
 * There are `groups` groups of `size` labels; in every row exactly one label of each group is on. Which one is told by one of
 * `templates` hidden patterns, except that each group leaves the pattern with chance `flip` for a label of its own. The
 * features are the sum of the prototypes (random unit directions) of the labels that are on, plus white noise. Cross-entropy
 * fits each label's probability alone and so is left below one half wherever the noise hides it; a loss that knows that
 * groups hold exactly one label and that patterns recur can decide. */
#include <math.h>

#include "graph/random_internal.h"
#include "models/models.h"

sg_generator sg_generator_default(void)
{
    return (sg_generator){
        .rows = 2000, .features = 60, .groups = 8, .size = 5, .templates = 12, .noise = 0.35, .flip = 0.1, .seed = 1};
}

enum { DRAW_PROTOTYPE, DRAW_TEMPLATE, DRAW_ROW, DRAW_NOISE };

typedef struct source {
    int32_t rng[4];
} source;

static int64_t below(const source *s, int kind, uint64_t row, uint64_t i, int64_t n)
{
    int64_t v = (int64_t)((double)sg_random_uniform((uint64_t)kind, s->rng, row, i) * (double)n);
    return v < n ? v : n - 1;
}

static void row_labels(const sg_generator *g, const source *s, int64_t row, float *y)
{
    int64_t pattern = below(s, DRAW_ROW, (uint64_t)row, 0, g->templates);
    for (int64_t k = 0; k < g->groups; k++) {
        bool leaves = sg_random_uniform(DRAW_ROW, s->rng, (uint64_t)row, (uint64_t)(1 + 2 * k)) < g->flip;
        int64_t pick = leaves ? below(s, DRAW_ROW, (uint64_t)row, (uint64_t)(2 + 2 * k), g->size)
                              : below(s, DRAW_TEMPLATE, (uint64_t)pattern, (uint64_t)k, g->size);
        y[k * g->size + pick] = 1;
    }
}

static void row_features(const sg_generator *g, const source *s, int64_t row, const float *y, float *x)
{
    double scale = 1 / sqrt((double)g->features);
    for (int64_t j = 0; j < g->features; j++) {
        double v = g->noise * sg_random_normal(DRAW_NOISE, s->rng, (uint64_t)row, (uint64_t)j);
        for (int64_t i = 0; i < g->groups * g->size; i++)
            if (y[i] > 0)
                v += scale * sg_random_normal(DRAW_PROTOTYPE, s->rng, (uint64_t)i, (uint64_t)j);
        x[j] = (float)v;
    }
}

sg_status sg_generate(sg_dataset **out, const sg_generator *g, sg_error *err)
{
    int64_t labels, cells, values;
    if (g->rows < 1 || g->features < 1 || g->groups < 1 || g->size < 1 || g->templates < 1)
        return sg_fail(err, SG_E_ARGUMENT, "a generator needs at least one row, feature, group, label and template");
    if (!isfinite(g->noise) || g->noise < 0 || !(g->flip >= 0 && g->flip <= 1))
        return sg_fail(err, SG_E_ARGUMENT, "a generator's noise must be in [0, inf) and flip in [0, 1], not %g and %g",
                       g->noise, g->flip);
    if (!sg_mul_ok(g->groups, g->size, &labels) || !sg_mul_ok(g->rows, labels, &cells) ||
        !sg_mul_ok(g->rows, g->features, &values))
        return sg_fail(err, SG_E_ARGUMENT, "the generated data set would be too large");
    float *x = sg_calloc(values, sizeof *x), *y = sg_calloc(cells, sizeof *y);
    sg_status status = x && y ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    source s = {{(int32_t)(uint32_t)g->seed, (int32_t)(uint32_t)(g->seed >> 32), 0, 0}};
    for (int64_t row = 0; status == SG_OK && row < g->rows; row++) {
        row_labels(g, &s, row, y + row * labels);
        row_features(g, &s, row, y + row * labels, x + row * g->features);
    }
    if (status == SG_OK)
        status = sg_dataset_from_arrays(out, x, y, g->rows, g->features, labels, SG_LAYOUT_DENSE, err);
    sg_free(x);
    sg_free(y);
    return status;
}
