/* require.c - conditions that turn a metric into an exit code: --require 'test/example_f1>=0.40'. */
#include "cli/cli.h"
#include "models/data_internal.h"

#include <math.h>
#include <string.h>

typedef enum comparison { AT_LEAST, AT_MOST, ABOVE, BELOW } comparison;

typedef struct condition {
    bool test; /* of the test part, else of validation */
    char metric[32];
    comparison compare;
    double bound;
} condition;

/* A misspelt name would be told after hours of training. What metrics there are is found by computing them all, of two rows in which
 * everything is there that makes one: a row and a label without anything, and scores that tie. */
static sg_status check_name(const condition *c, sg_error *err)
{
    enum { ROWS = 2, LABELS = 7 };
    const float p[ROWS * LABELS] = {1, 1, 1, 1, 1, 1}, y[ROWS * LABELS] = {1};
    sg_metrics all;
    SG_TRY(sg_metrics_multilabel(&all, p, y, NULL, ROWS, LABELS, NULL, true, err));
    const char *nearest = NULL;
    int32_t least = 3; /* further off is another word */
    for (int32_t i = 0; i < all.count; i++) {
        int32_t distance = sg_edit_distance(c->metric, all.metric[i].name, least);
        if (distance == 0)
            return SG_OK;
        if (distance < least) {
            least = distance;
            nearest = all.metric[i].name;
        }
    }
    if (nearest)
        return sg_fail(err, SG_E_CONFIG, "--require: unknown metric '%s' (did you mean '%s'?)", c->metric, nearest);
    return sg_fail(err, SG_E_CONFIG, "--require: unknown metric '%s'", c->metric);
}

static sg_status parse(const char *text, condition *out, sg_error *err)
{
    static const struct {
        const char *sign;
        comparison compare;
    } signs[] = {{">=", AT_LEAST}, {"<=", AT_MOST}, {">", ABOVE}, {"<", BELOW}};
    const char *slash = strchr(text, '/'), *at = strpbrk(text, "<>");
    size_t part = slash ? (size_t)(slash - text) : 0;
    out->test = part == 4 && memcmp(text, "test", 4) == 0;
    bool validation = (part == 3 && (!memcmp(text, "val", 3) || !memcmp(text, "dev", 3))) ||
                      (part == 4 && memcmp(text, "best", 4) == 0) ||
                      (part == 10 && memcmp(text, "validation", 10) == 0);
    if (at && slash && slash < at && (size_t)(at - slash) <= sizeof out->metric && (out->test || validation)) {
        snprintf(out->metric, sizeof out->metric, "%.*s", (int)(at - slash - 1), slash + 1);
        for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
            if (strncmp(at, signs[i].sign, strlen(signs[i].sign)) == 0) {
                const char *number = at + strlen(signs[i].sign);
                out->compare = signs[i].compare;
                if (sg_text_number(number, number + strlen(number), &out->bound))
                    return check_name(out, err);
                break;
            }
    }
    return sg_fail(err, SG_E_CONFIG,
                   "--require expects PART/METRIC>=NUMBER, such as 'test/example_f1>=0.4', not '%.80s'", text);
}

sg_status sg_require_check(const sg_cli *cli, bool validation, sg_error *err)
{
    condition c;
    for (int i = 0; i < cli->n_values; i++) {
        if (strcmp(cli->values[i].name, "require") != 0)
            continue;
        SG_TRY(parse(cli->values[i].value, &c, err));
        if (!c.test && !validation)
            return sg_fail(err, SG_E_CONFIG, "--require '%.80s': %s has test metrics alone", cli->values[i].value,
                           cli->verb->name);
    }
    return SG_OK;
}

sg_status sg_require_rows(const sg_cli *cli, int64_t test_rows, sg_error *err)
{
    condition c;
    for (int i = 0; test_rows == 0 && i < cli->n_values; i++) {
        if (strcmp(cli->values[i].name, "require") != 0)
            continue;
        SG_TRY(parse(cli->values[i].value, &c, err));
        if (c.test)
            return sg_fail(err, SG_E_CONFIG, "--require '%.80s': there are no test rows", cli->values[i].value);
    }
    return SG_OK;
}

/* A mean of ratios is rounded: 0.4 may be 0.39999999999999997. */
#define TIE 1e-12

static bool holds(const condition *c, const sg_metric *metric)
{
    if (!metric || !metric->defined)
        return false;
    bool equal = fabs(metric->value - c->bound) <= TIE * fabs(c->bound);
    switch (c->compare) {
    case AT_LEAST:
        return equal || metric->value > c->bound;
    case AT_MOST:
        return equal || metric->value < c->bound;
    case ABOVE:
        return !equal && metric->value > c->bound;
    default:
        return !equal && metric->value < c->bound;
    }
}

int sg_require_hold(const sg_cli *cli, const sg_metrics *best, const sg_metrics *test)
{
    int code = SG_EXIT_OK;
    for (int i = 0; i < cli->n_values; i++) {
        condition c;
        char digits[32];
        if (strcmp(cli->values[i].name, "require") != 0 || parse(cli->values[i].value, &c, NULL) != SG_OK)
            continue;
        const sg_metric *metric = sg_metrics_find(c.test ? test : best, c.metric);
        if (holds(&c, metric))
            continue;
        if (metric && metric->defined)
            fprintf(stderr, "sealgraph: required %s, but it is %s\n", cli->values[i].value,
                    sg_json_digits(metric->value, digits));
        else
            fprintf(stderr, "sealgraph: required %s, but there is no such value\n", cli->values[i].value);
        code = SG_EXIT_REQUIRE;
    }
    return code;
}
