/* golden_test.c - every family with a table against shared/golden on both devices (skipped where that folder is absent), and the
 * runner itself: wrong numbers are found, mistakes in files are told with their place. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/golden/golden.h"
#include "cli/golden/golden_internal.h"
#include "tests/support/data_files.h"

/* ---- the families */

static void print_faults(const sg_golden_report *report)
{
    for (int32_t i = 0; i < report->n_results; i++) {
        const sg_golden_result *r = &report->results[i];
        if (r->verdict == SG_GOLDEN_NOT_BUILT)
            print_error("%s (%s): not built\n", r->name, r->op);
        for (int d = 0; d < SG_GOLDEN_DEVICES; d++)
            if (r->on[d].ran && !r->on[d].passed)
                print_error("%s (%s) on %s: %s\n", r->name, r->op, sg_golden_devices[d], r->on[d].text);
    }
}

static void family_passes(void **state)
{
    const char *name = *state, *folder = shared_file(0, "golden");
    sg_golden_options options = {.folder = folder, .families = name, .devices = {true, true}};
    sg_golden_report report;
    sg_error err;
    if (!folder)
        skip();
    if (sg_golden_run(&options, &report, &err) != SG_OK)
        fail_msg("%s: %s", err.file, err.text);
    print_faults(&report);
    sg_golden_count total = sg_golden_total(&report);
    assert_true(total.cases > 0);
    assert_int_equal(total.by_verdict[SG_GOLDEN_PASSED], total.cases);
    sg_golden_report_free(&report);
}

/* ---- the runner on cases of its own */

/* clang-format off */
#define TENSOR(shape, data) "{\"dtype\":\"float64\",\"shape\":[" shape "],\"data\":[" data "]}"
#define FILE_OF(cases) "{\"family\":\"elementwise\",\"cases\":[" cases "]}"
/* square at (1, -2) with cotangent (3, 1), tangent (0.5, 2): vjp 2 x c, jvp 2 x t, hvp 2 c t, third 0. */
#define SQUARE(out, vjp, hvp, third)                                                                                   \
    "{\"name\":\"s\",\"op\":\"square\",\"inputs\":{\"x\":" TENSOR("2", "1,-2") "},"                                    \
    "\"outputs\":{\"out\":" TENSOR("2", out) "},\"cotangent\":{\"out\":" TENSOR("2", "3,1") "},"                       \
    "\"tangent\":{\"x\":" TENSOR("2", "0.5,2") "},\"vjp\":{\"x\":" TENSOR("2", vjp) "},"                               \
    "\"jvp\":{\"out\":" TENSOR("2", "1,-8") "},\"hvp\":{\"x\":" TENSOR("2", hvp) "},"                                  \
    "\"third\":{\"x\":" TENSOR("2", third) "}}"
/* clang-format on */

static sg_status run_text(const char *text, bool reference, bool cpu, sg_golden_report *report, sg_error *err)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", data_text(0, "elementwise.json", text));
    *strrchr(folder, '/') = 0;
    sg_golden_options options = {.folder = folder, .families = "elementwise", .devices = {reference, cpu}};
    return sg_golden_run(&options, report, err);
}

static void expect(const char *text, sg_golden_verdict verdict, const char *said)
{
    sg_golden_report report;
    sg_error err = {0};
    assert_int_equal(run_text(text, true, false, &report, &err), SG_OK);
    assert_int_equal(report.n_results, 1);
    assert_int_equal(report.results[0].verdict, verdict);
    if (!strstr(report.results[0].on[SG_GOLDEN_REFERENCE].text, said))
        fail_msg("'%s' does not contain '%s'", report.results[0].on[SG_GOLDEN_REFERENCE].text, said);
    sg_golden_report_free(&report);
}

static void wrong_numbers_are_found(void **state)
{
    (void)state;
    expect(FILE_OF(SQUARE("1,4", "6,-4", "3,4", "0,0")), SG_GOLDEN_PASSED, "");
    expect(FILE_OF(SQUARE("1,4.000000001", "6,-4", "3,4", "0,0")), SG_GOLDEN_FAILED, "output 'out' [1]");
    expect(FILE_OF(SQUARE("1,\"nan\"", "6,-4", "3,4", "0,0")), SG_GOLDEN_FAILED, "output 'out' [1]");
    expect(FILE_OF(SQUARE("1,4", "6,4", "3,4", "0,0")), SG_GOLDEN_FAILED, "vjp 'x' [1]");
    expect(FILE_OF(SQUARE("1,4", "6,-4", "3.00000001,4", "0,0")), SG_GOLDEN_FAILED, "hvp");
    expect(FILE_OF(SQUARE("1,4", "6,-4", "3,4", "1e-7,0")), SG_GOLDEN_FAILED, "third 'x' [0]");
}

static void cases_that_cannot_be_built(void **state)
{
    (void)state;
    expect(FILE_OF("{\"name\":\"a\",\"op\":\"no such op\",\"inputs\":{},\"outputs\":{}}"), SG_GOLDEN_NOT_BUILT, "");
    expect(FILE_OF("{\"name\":\"a\",\"op\":\"exp\",\"attrs\":{\"expression\":\"exp(exp(x))\"},\"inputs\":{},"
                   "\"outputs\":{}}"),
           SG_GOLDEN_NOT_BUILT, "");
    expect(FILE_OF("{\"name\":\"a\",\"op\":\"elu\",\"inputs\":{\"x\":" TENSOR("1", "1") "},\"outputs\":{}}"),
           SG_GOLDEN_FAILED, "no attrs.alpha");
    expect(FILE_OF("{\"name\":\"a\",\"op\":\"exp\",\"inputs\":{},\"outputs\":{}}"), SG_GOLDEN_FAILED, "no input 'x'");
    expect(FILE_OF("{\"name\":\"a\",\"op\":\"exp\",\"inputs\":{\"x\":" TENSOR(
               "1", "0") "},\"outputs\":{\"out\":" TENSOR("1,1", "1") "}}"),
           SG_GOLDEN_FAILED, "shape [1], expected [1, 1]");
}

static void what_float32_cannot_hold_is_skipped(void **state)
{
    (void)state;
    sg_golden_report report;
    sg_error err = {0};
    const char *text = FILE_OF("{\"name\":\"a\",\"op\":\"neg\",\"inputs\":{\"x\":" TENSOR(
        "1", "1e200") "},\"outputs\":{\"out\":" TENSOR("1", "-1e200") "}}");
    assert_int_equal(run_text(text, false, true, &report, &err), SG_OK);
    assert_int_equal(report.results[0].verdict, SG_GOLDEN_SKIPPED);
    assert_int_equal(sg_golden_total(&report).cases, 0);
    sg_golden_report_free(&report);
    assert_int_equal(run_text(text, true, true, &report, &err), SG_OK);
    assert_int_equal(report.results[0].verdict, SG_GOLDEN_PASSED);
    sg_golden_report_free(&report);
}

static void mistakes_in_files_are_placed(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } mistakes[] = {
        {"{\"family\":\"elementwise\",\n\"cases\":[", "2:"},
        {"[]", "no list \"cases\""},
        {"{\"family\":\"linear\",\"cases\":[]}", "says it is family 'linear', not 'elementwise'"},
        {FILE_OF("{\"op\":\"exp\"}"), "has no name"},
        {FILE_OF("{\"name\":\"a\"}"), "case 'a' has no op"},
        {FILE_OF("{\"name\":\"a\",\"op\":\"exp\"}"), "case 'a': inputs is missing"},
        {FILE_OF("{\"name\":\"a\",\"op\":\"exp\",\"inputs\":{\"x\":" TENSOR("2", "1") "},\"outputs\":{}}"),
         "case 'a': inputs.x has 1 elements for shape [2]"},
        {FILE_OF("{\"name\":\"a\",\"op\":\"exp\",\"inputs\":{\"x\":" TENSOR("-2", "1") "},\"outputs\":{}}"),
         "inputs.x has no shape"},
        {FILE_OF(
             "{\"name\":\"a\",\"op\":\"exp\",\"inputs\":{\"x\":" TENSOR("4611686018427387904,4", "") "},"
                                                                                                     "\"outputs\":{}}"),
         "inputs.x has no shape"},
        {FILE_OF("{\"name\":\"a\",\"op\":\"exp\",\"inputs\":{\"x\":" TENSOR("1", "\"NaN\"") "},\"outputs\":{}}"),
         "inputs.x has an element [0] that is no number"},
        {FILE_OF("{\"name\":\"a\",\"op\":\"exp\",\"inputs\":{\"x\":{\"dtype\":\"int64\",\"shape\":[],\"data\":"
                 "[2147483648]}},\"outputs\":{}}"),
         "whole number of 32 bits"},
        {FILE_OF(
             "{\"name\":\"a\",\"op\":\"exp\",\"inputs\":{},\"outputs\":{},\"tangent\":{\"x\":" TENSOR("", "1") "}}"),
         "tangent.x is not in inputs"},
        {FILE_OF("{\"name\":\"a\",\"op\":\"exp\",\"inputs\":{},\"outputs\":{},\"tol\":\"lax\"}"), "tol is not one of"},
        {FILE_OF("{\"name\":\"a\",\"op\":\"x\",\"inputs\":{},\"outputs\":{}},"
                 "{\"name\":\"a\",\"op\":\"x\",\"inputs\":{},\"outputs\":{}}"),
         "two cases are named 'a'"},
    };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        sg_golden_report report;
        sg_error err = {0};
        char text[1024];
        assert_int_equal(run_text(mistakes[i].text, true, true, &report, &err), SG_E_DATA);
        sg_error_format(&err, text, sizeof text);
        if (!strstr(text, mistakes[i].said) || !strstr(text, "elementwise.json"))
            fail_msg("'%s' does not contain '%s'", text, mistakes[i].said);
        sg_golden_report_free(&report);
    }
}

static int remove_files(void **state)
{
    (void)state;
    data_files_remove();
    return 0;
}

int main(void)
{
#define X(name) {"family " #name, family_passes, NULL, NULL, (void *)(uintptr_t) #name},
    const struct CMUnitTest tests[] = {
        SG_GOLDEN_FAMILIES(X) cmocka_unit_test(wrong_numbers_are_found),
        cmocka_unit_test(cases_that_cannot_be_built),
        cmocka_unit_test(what_float32_cannot_hold_is_skipped),
        cmocka_unit_test(mistakes_in_files_are_placed),
    };
#undef X
    return cmocka_run_group_tests(tests, NULL, remove_files);
}
