/* tools_test.c - commands that check and time the program itself: gradcheck, ops --check, bench. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/program.h"

/* Needs no recipe; with one it checks both losses of it. */
static void gradcheck_and_bench(void **state)
{
    (void)state;
    succeeds("gradcheck --order 1", "task  gradient");
    json_t *checked = document("gradcheck --order 3 --set loss.name=seal-dynamic --json", 0);
    json_t *losses = json_object_get(checked, "losses");
    assert_true(json_is_true(json_object_get(checked, "passed")));
    assert_int_equal(json_array_size(losses), 2);
    assert_int_equal(json_array_size(json_object_get(json_array_get(losses, 1), "worst")), 4);
    json_decref(checked);
    fails("gradcheck --order 4", 2, "--order must be a whole number in [1, 3]");
    fails("gradcheck -c absent.yml", 1, "absent.yml");
    fails("gradcheck --family losses", 2, "give --golden DIR");
    succeeds("ops --check matmul", "1 operators, 1 passed, 0 failed");
    fails("ops --check mat_mul", 2, "unknown op 'mat_mul'");
    json_t *ops = document("ops --check exp --json", 0);
    assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(ops, "ops"), 0), "orders")), 4);
    json_decref(ops);
    fails("gradcheck --golden absent", 1, "absent");
    outcome placed = run("bench bert --hidden 16 --heads 3 --layers 1 --vocab 50 --batch 2 --seq 8 --time 1");
    assert_null(strstr(placed.err, SG_SOURCE_DIR));
    outcome_is_failure(placed, "bench bert --heads 3", 2, "benchmarks/bert.c:");
    fails("bench step --shape moon", 2, "bibtex|delicious|eurlexev");
    fails("bench step --device reference", 2, "not timed");
    fails("train --set train.lr=nan -o nothing", 2, "train.lr expects a finite number");
    assert_false(exists("nothing"));
    succeeds("bench --help", "--shape");
    succeeds("demo --help", "--json");
}

#define TINY_BERT "bench bert --layers 2 --hidden 16 --heads 2 --vocab 50 --batch 2 --seq 8 --time 1 --threads 1"

/* Gradient and product agree with the decomposed graph, a product costs more, and a training step updates every weight. */
static void bench_of_bert(void **state)
{
    (void)state;
    static const char *const names[] = {"bert/gradient/B2T8", "bert/hvp/B2T8", "bert/train/B2T8",
                                        "bert/train_leading/B2T8", "bert/train_dropout/B2T8"};
    json_t *timed = document(TINY_BERT " --check --json", 0), *rows = json_object_get(timed, "rows");
    double flops[5];
    assert_int_equal(json_array_size(rows), 5);
    for (size_t i = 0; i < 5; i++) {
        json_t *row = json_array_get(rows, i);
        assert_string_equal(json_string_value(json_object_get(row, "name")), names[i]);
        assert_true(json_real_value(json_object_get(row, "examples_per_s")) > 0);
        flops[i] = json_real_value(json_object_get(row, "flops"));
        json_t *difference = json_object_get(row, "difference");
        assert_true((difference != NULL) == (i < 2));
        if (difference)
            assert_true(json_real_value(difference) < 1e-5);
    }
    assert_true(flops[1] > 2 * flops[0] && flops[1] < 4 * flops[0]);
    assert_true(flops[2] > flops[0] && flops[3] < flops[2] && flops[4] > flops[2]);
    json_decref(timed);
    succeeds(TINY_BERT " --only hvp", "bert/hvp/B2T8");
    fails(TINY_BERT " --only moon", 2, "train, train_leading, train_dropout, gradient, hvp");
    fails(TINY_BERT " --heads 3", 2, "no multiple of 3 heads");
    fails(TINY_BERT " --layers 0", 2, "--layers must be a whole number in [1, 60]");
}

/* A folder with a case that holds, one that does not and one of an op unknown here. */
static void golden_folders(void **state)
{
    (void)state;
#define CASE(name, op, out)                                                                                            \
    "{\"name\":\"" name "\",\"op\":\"" op "\",\"inputs\":{\"x\":{\"dtype\":\"float64\",\"shape\":[],\"data\":[1]}},"   \
    "\"outputs\":{\"out\":{\"dtype\":\"float64\",\"shape\":[],\"data\":[" out "]}}}"
    write_file("elementwise.json", "{\"family\":\"elementwise\",\"cases\":[" CASE("good", "neg", "-1") "]}");
    succeeds("gradcheck --golden .", "1 cases, 1 passed, 0 failed, 0 not built");
    write_file("elementwise.json", "{\"family\":\"elementwise\",\"cases\":[" CASE("good", "neg", "-1") "," CASE(
                                       "bad", "neg", "1") "," CASE("odd", "negate", "-1") "]}");
#undef CASE
    outcome o = run("gradcheck --golden . --family elementwise --device cpu");
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.out, "elementwise bad (neg)"));
    assert_non_null(strstr(o.out, "not built elementwise odd (negate)"));
    assert_non_null(strstr(o.out, "\n3 cases, 1 passed, 1 failed, 1 not built\n"));
    outcome_release(&o);
    json_t *report = document("gradcheck --golden . --json", 1);
    assert_int_equal(json_integer_value(json_object_get(report, "failed")), 1);
    json_decref(report);
    fails("gradcheck --golden . --family losses", 2, "unknown family 'losses'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradcheck_and_bench),
        cmocka_unit_test(bench_of_bert),
        cmocka_unit_test(golden_folders),
    };
    return cmocka_run_group_tests(tests, program_make_folder, program_remove_folder);
}
