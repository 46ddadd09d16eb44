/* require.c - conditions that turn a metric into an exit code: --require 'test/example_f1>=0.40'. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

typedef enum comparison { AT_LEAST, AT_MOST, ABOVE, BELOW } comparison;

typedef struct condition {
    bool test; /* of the test part, else of validation */
    char metric[32];
    comparison compare;
    double bound;
} condition;

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
        char *end;
        snprintf(out->metric, sizeof out->metric, "%.*s", (int)(at - slash - 1), slash + 1);
        for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
            if (strncmp(at, signs[i].sign, strlen(signs[i].sign)) == 0) {
                const char *number = at + strlen(signs[i].sign);
                out->compare = signs[i].compare;
                out->bound = strtod(number, &end);
                if (end != number && !*end)
                    return SG_OK;
                break;
            }
    }
    return sg_fail(err, SG_E_CONFIG,
                   "--require expects PART/METRIC>=NUMBER, such as 'test/example_f1>=0.4', not '%.80s'", text);
}

sg_status sg_require_check(const sg_cli *cli, sg_error *err)
{
    condition c;
    for (int i = 0; i < cli->n_values; i++)
        if (strcmp(cli->values[i].name, "require") == 0)
            SG_TRY(parse(cli->values[i].value, &c, err));
    return SG_OK;
}

static bool holds(const condition *c, const sg_metric *metric)
{
    if (!metric || !metric->defined)
        return false;
    switch (c->compare) {
    case AT_LEAST:
        return metric->value >= c->bound;
    case AT_MOST:
        return metric->value <= c->bound;
    case ABOVE:
        return metric->value > c->bound;
    default:
        return metric->value < c->bound;
    }
}

int sg_require_hold(const sg_cli *cli, const sg_metrics *best, const sg_metrics *test)
{
    int code = SG_EXIT_OK;
    for (int i = 0; i < cli->n_values; i++) {
        condition c;
        if (strcmp(cli->values[i].name, "require") != 0 || parse(cli->values[i].value, &c, NULL) != SG_OK)
            continue;
        const sg_metric *metric = sg_metrics_find(c.test ? test : best, c.metric);
        if (holds(&c, metric))
            continue;
        if (metric && metric->defined)
            fprintf(stderr, "sealgraph: required %s, but it is %.6g\n", cli->values[i].value, metric->value);
        else
            fprintf(stderr, "sealgraph: required %s, but there is no such value\n", cli->values[i].value);
        code = SG_EXIT_REQUIRE;
    }
    return code;
}
