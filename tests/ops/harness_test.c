/* harness_test.c - every check of cli/check on every sample of ops/samples. `harness_test PATTERN` runs the tests whose name
 * matches, for example 'differences: matmul*'. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/check/op_check.h"
#include "ops/ops.h"

typedef struct subject {
    const sg_op_check *check;
    const sg_sample *sample;
} subject;

static void holds(void **state)
{
    const subject *s = *state;
    sg_finding finding = {.passed = true, .limit = 1};
    sg_op_check_run(s->check, s->sample, &finding);
    if (!finding.passed)
        fail_msg("%s; error %.3g, limit %.0e", finding.text, finding.error, finding.limit);
}

/* ---- closure: what no sample shows */

static bool has_sample(const char *op, bool differentiated)
{
    for (int32_t i = 0; i < sg_sample_count(); i++)
        if (strcmp(sg_sample_at(i)->op, op) == 0 && !(differentiated && sg_sample_at(i)->flat))
            return true;
    return false;
}

static void every_op_has_a_sample(void **state)
{
    (void)state;
    int32_t missing = 0;
    for (int32_t i = 0; i < sg_op_count(); i++) {
        const sg_op *op = sg_op_at(i);
        if (op->flags & SG_OP_LEAF)
            continue;
        while (
            op->parent) /* derivative composites arise when the samples of what they differentiate are differentiated */
            op = op->parent;
        bool differentiable = !(op->flags & (SG_OP_ZERO_GRAD | SG_OP_STOP));
        if (!has_sample(op->name, differentiable)) {
            print_error("operator '%s' has no %ssample\n", op->name, differentiable ? "differentiated " : "");
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

/* Operators that only arise inside rules: each has rules of its own or a zero derivative by contract. */
static void rules_are_closed(void **state)
{
    (void)state;
    int32_t open = 0;
    for (int32_t i = 0; i < sg_op_count(); i++) {
        const sg_op *op = sg_op_at(i);
        if (op->flags & (SG_OP_LEAF | SG_OP_ZERO_GRAD | SG_OP_STOP) || op->vjp || op->vjp_op || op->decompose)
            continue;
        print_error("operator '%s' has no vjp and no decomposition\n", op->name);
        open++;
    }
    assert_int_equal(open, 0);
}

/* The verdict that `sealgraph ops --check` prints, where it is to fail and where it is not. */
static void gaps_are_found(void **state)
{
    (void)state;
    sg_op unknown = {.name = "nobody", .n_in = 1, .n_out = 1};
    sg_op_verdict verdict;
    sg_op_verify(&unknown, false, NULL, &verdict);
    assert_false(verdict.passed);
    assert_non_null(strstr(verdict.gap, "no derivative rule"));
    unknown.vjp = sg_op_find("mul")->vjp;
    sg_op_verify(&unknown, false, NULL, &verdict);
    assert_false(verdict.passed);
    assert_non_null(strstr(verdict.gap, "no sample"));
    sg_op_verify(sg_op_find("neg"), false, NULL, &verdict);
    assert_true(verdict.passed && verdict.order[3] && verdict.reference && verdict.cpu && verdict.samples > 0);
}

/* The checks themselves: a builder whose derivative is wrong, or that is not what its sample says, does not pass. */
static void wrong_build(const sg_sample *s, sg_scope scope, const sg_value *in, sg_value *out)
{
    (void)s, (void)scope;
    out[0] = sg_add(sg_stop_gradient(sg_square(in[0])), in[0]); /* derivative 1, difference quotient 2 x + 1 */
}

static void wrong_rules_are_found(void **state)
{
    (void)state;
    sg_sample sample = *sg_sample_at(0);
    sample.op = "square";
    sample.build = wrong_build;
    for (int32_t i = 0; i < sg_op_check_count; i++) {
        sg_finding finding = {.passed = true, .limit = 1};
        bool fails = strcmp(sg_op_checks[i].name, "differences") == 0;
        sg_op_check_run(&sg_op_checks[i], &sample, &finding);
        if (finding.passed == fails)
            fail_msg("%s: %s", sg_op_checks[i].name, finding.text);
    }
}

/* ---- the list */

int main(int argc, char **argv)
{
    int32_t n = 0, samples = sg_sample_count();
    size_t most = (size_t)samples * (size_t)sg_op_check_count;
    struct CMUnitTest *tests = calloc(most + 4, sizeof *tests);
    subject *subjects = calloc(most, sizeof *subjects);
    if (!tests || !subjects)
        return 1;
    for (int32_t i = 0; i < samples; i++)
        for (int32_t c = 0; c < sg_op_check_count; c++) {
            char name[320], what[256];
            subjects[n] = (subject){&sg_op_checks[c], sg_sample_at(i)};
            if (!sg_op_checks[c].applies(sg_sample_at(i)))
                continue;
            snprintf(name, sizeof name, "%s: %s", sg_op_checks[c].name,
                     sg_sample_name(sg_sample_at(i), what, sizeof what));
            tests[n] = (struct CMUnitTest){strdup(name), holds, NULL, NULL, &subjects[n]};
            n++;
        }
    int32_t named = n;
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(every_op_has_a_sample);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(rules_are_closed);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(gaps_are_found);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(wrong_rules_are_found);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = _cmocka_run_group_tests("ops/harness", tests, (size_t)n, NULL, NULL);
    for (int32_t i = 0; i < named; i++)
        free((char *)tests[i].name);
    free(tests);
    free(subjects);
    return failed;
}
