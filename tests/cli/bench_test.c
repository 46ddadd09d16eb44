/* bench_test.c - `sealgraph bench` as a user runs it, on a machine without a GPU and on one with a stand-in for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <expat.h>

#include "tests/support/program.h"

/* Run `sealgraph bench ARGUMENTS` where modules are looked for in `modules`. */
static outcome bench(const char *modules, const char *arguments)
{
    char settings[512], all[1024];
    snprintf(settings, sizeof settings, "SEALGRAPH_MODULE_PATH=%s", modules);
    snprintf(all, sizeof all, "bench %s --time 1 --threads 1", arguments);
    return program_run(settings, all);
}

static const char *const no_gpu = "/nowhere";
static const char *const stand_in = SG_BINARY_DIR "/tests/mirror";

static int occurrences(const char *text, const char *part)
{
    int count = 0;
    while ((text = strstr(text, part))) {
        count++;
        text++;
    }
    return count;
}

static void bench_fails(const char *arguments, int code, const char *message)
{
    outcome_is_failure(bench(no_gpu, arguments), arguments, code, message);
}

static json_t *bench_document(const char *modules, const char *arguments)
{
    return outcome_document(bench(modules, arguments), arguments, 0);
}

static double number(json_t *row, const char *key) { return json_number_value(json_object_get(row, key)); }
static const char *text(json_t *row, const char *key) { return json_string_value(json_object_get(row, key)); }

static void mistakes(void **state)
{
    (void)state;
    bench_fails("sprint", 2, "bench what? step, predict, ops, hvp or bert, not 'sprint'");
    bench_fails("step --shape moon", 2, "bibtex|delicious|eurlexev");
    bench_fails("step --only X", 2, "bench step takes no --only (it is for ops, hvp, bert)");
    bench_fails("hvp --shape bibtex", 2, "bench hvp takes no --shape");
    bench_fails("predict --layers 2", 2, "bench predict takes no --layers (it is for bert)");
    bench_fails("step --device gpu", 2, "unknown backend 'gpu'");
    bench_fails("step --device cpu,gpu", 2, "unknown backend 'gpu'");
    bench_fails("step --device cpu:1", 2, "unknown backend 'cpu:1'");
    bench_fails("ops --device cpu --dtype f32,f16", 2, "unknown precision 'f16'");
    bench_fails("step --device cuda", 1, "no module for cuda");
    bench_fails("ops --preset moon", 2, "--preset must be one of bert|fcn|mlc");
    bench_fails("ops --order third", 2, "unknown order 'third'");
    bench_fails("ops --order ''", 2, "an order is needed");
    bench_fails("ops --plot /nowhere/roof.svg", 1, "cannot write /nowhere/roof.svg: No such file");
    bench_fails("ops --shape 4x-2", 2, "expected numbers such as 4096x768x3072");
    bench_fails("ops --shape 1x2x3x4x5", 2, "no operator takes the shape 1x2x3x4x5: 2 numbers are rows x width");
    bench_fails("ops --shape 64x32 --only nosuch", 2, "no operator whose name holds 'nosuch' takes the shape 64x32");
    bench_fails("ops --shape 4x7x3x5 --only matmul", 2,
                "nothing can be measured at the shape 4x7x3x5 (matmul/4x7x3x5: ");
    bench_fails("ops --only frobnicate", 2, "no benchmark's name holds 'frobnicate'");
    /* before the devices, which take seconds, are as much as looked for */
    bench_fails("ops --device gpu --only frobnicate --plot roof.svg", 2, "no benchmark's name holds 'frobnicate'");
    bench_fails("ops --device gpu --shape 64x32 --only nosuch", 2, "no operator whose name holds 'nosuch' takes the");
    bench_fails("ops --device gpu --order third", 2, "unknown order 'third'");
    bench_fails("hvp --device gpu --only nosuch", 2, "no benchmark's name holds 'nosuch': encoder, bibtex");
    bench_fails("bert --device gpu --only nosuch", 2, "no row's name holds 'nosuch': train, train_leading, ");
    bench_fails("bert --device gpu --layers 0", 2, "--layers must be a whole number in [1, 60], not '0'");
    bench_fails("ops --plot roof.bmp", 2, "give a name that ends in .svg or .png");
}

/* The same command with and without a GPU: there the columns are empty and say why; a GPU alone is an error. */
static void without_a_gpu(void **state)
{
    (void)state;
    outcome o = bench(no_gpu, "ops --device cpu,cuda --dtype f32,bf16 --shape 16x8x24");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "matmul_tn/16x8x24"));
    assert_non_null(strstr(o.out, "cpu f32 us"));
    assert_int_equal(occurrences(o.out, "cuda in f32, bf16: not measured: no module for cuda"), 1);
    assert_int_equal(occurrences(o.out, "cpu in bf16: not measured: no bf16 on cpu"), 1);
    assert_string_equal(o.err, "");
    outcome_release(&o);
    bench_fails("ops --device cuda --shape 16x8x24", 1, "no module for cuda");
    bench_fails("step --device cuda", 1, "no module for cuda");
    bench_fails("ops --dtype tf32 --shape 16x8x24", 1, "no TF32 on cpu");
}

static void json_of_operators(void **state)
{
    (void)state;
    json_t *all =
        bench_document(no_gpu, "ops --device cpu,cuda --only softmax --shape 40x30 --order value,gradient --json");
    json_t *rows = json_object_get(all, "rows"), *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(text(row, "name"), "softmax/40x30");
    assert_string_equal(text(row, "device"), "cpu");
    assert_string_equal(text(row, "dtype"), "f32");
    assert_true(number(row, "min_us") > 0 && number(row, "min_us") <= number(row, "median_us"));
    assert_true(number(row, "median_us") <= number(row, "max_us"));
    assert_true(number(row, "runs") >= 3 && number(row, "flops") > 0);
    assert_int_equal(number(row, "bytes"), 2 * 40 * 30 * 4);
    assert_string_equal(text(json_array_get(rows, 1), "name"), "softmax_gradient/40x30");
    assert_true(number(json_object_get(all, "machine"), "peak_flops") > 0);
    assert_non_null(text(json_array_get(json_object_get(all, "targets"), 1), "missing"));
    json_decref(all);
}

static void csv_has_every_field(void **state)
{
    (void)state;
    outcome o = bench(no_gpu, "ops --device cpu,cuda --shape 40x30 --csv");
    assert_int_equal(o.code, 0);
    int commas = -1;
    for (char *line = strtok(o.out, "\n"); line; line = strtok(NULL, "\n")) {
        int here = occurrences(line, ",");
        assert_true(commas < 0 || here == commas);
        commas = here;
    }
    assert_int_equal(commas, 16);
    assert_int_equal(text_lines(o.err), 1); /* why the GPU is missing */
    outcome_release(&o);
}

static void markdown(void **state)
{
    (void)state;
    outcome o = bench(no_gpu, "ops --only exp --shape 40x30 --markdown");
    assert_int_equal(o.code, 0);
    assert_non_null(strstr(o.out, "| exp/40x30 |"));
    assert_non_null(strstr(o.out, "| --- |"));
    outcome_release(&o);
}

static void count_tag(void *user, const char *name, const char **attributes)
{
    (void)attributes;
    *(int *)user += strcmp(name, "text") == 0;
}

static void plot_is_well_formed(void **state)
{
    (void)state;
    int texts = 0;
    outcome o = bench(no_gpu, "ops --device cpu,cuda --shape 40x30 --plot roof.svg");
    assert_int_equal(o.code, 0);
    outcome_release(&o);
    char *svg = program_file("roof.svg");
    XML_Parser parser = XML_ParserCreate(NULL);
    XML_SetUserData(parser, &texts);
    XML_SetStartElementHandler(parser, count_tag);
    assert_int_equal(XML_Parse(parser, svg, (int)strlen(svg), 1), XML_STATUS_OK);
    XML_ParserFree(parser);
    assert_true(texts > 20);
    assert_non_null(strstr(svg, "softmax/40x30"));
    free(svg);
}

/* A picture that fails at the end (no room) takes no results with it; standard output stays one document. */
static void plot_that_fails(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof path, "%s/full.svg", program_folder);
    assert_int_equal(symlink("/dev/full", path), 0);
    outcome o = bench(no_gpu, "ops --shape 40x30 --only softmax --order value,value --plot full.svg --json");
    json_t *value = json_loads(o.out, 0, NULL);
    assert_int_equal(o.code, 1);
    assert_int_equal(json_array_size(json_object_get(value, "rows")), 1);
    assert_non_null(strstr(o.err, "cannot write full.svg"));
    json_decref(value);
    outcome_release(&o);
}

/* A picture that is not written whole leaves the one that was there, and nothing beside it. */
static void plot_over_another(void **state)
{
    (void)state;
    static const char *const ends[] = {"svg", "png"};
    bool png = system("PATH=/usr/bin:/bin rsvg-convert --version >/dev/null 2>&1") == 0;
    for (int i = 0; i < 1 + png; i++) {
        char command[512], name[16];
        snprintf(name, sizeof name, "old.%s", ends[i]);
        write_file(name, "KEEP\n");
        snprintf(
            command, sizeof command,
            "cd %s && (mkdir -p apart && rm -f apart/* && mv %s apart/ && ulimit -f 1 && exec %s/sealgraph bench "
            "ops --shape 40x30 --only softmax --time 1 --threads 1 --plot apart/%s) >out.txt 2>err.txt; test $? = 1 "
            "&& test \"$(ls -A apart)\" = %s && test \"$(cat apart/%s)\" = KEEP",
            program_folder, name, SG_BINARY_DIR, name, name, name);
        if (system(command) != 0)
            fail_msg("%s", command);
    }
    bench_fails("ops --shape 40x30 --only softmax --plot apart.svg/", 2, "give a name that ends");
    char command[256];
    snprintf(command, sizeof command, "mkdir %s/folder.svg", program_folder);
    assert_int_equal(system(command), 0);
    bench_fails("ops --shape 40x30 --only softmax --plot folder.svg", 2, "folder.svg is a directory");
}

/* A picture, or what is missing to make one before anything is measured. */
static void plot_as_png(void **state)
{
    (void)state;
    static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    unsigned char head[24] = {0};
    bench_fails("ops --shape 40x30 --only softmax --plot /nowhere/roof.png",
                system("PATH=/usr/bin:/bin rsvg-convert --version >/dev/null 2>&1") == 0 ? 1 : 2, "");
    if (system("PATH=/usr/bin:/bin rsvg-convert --version >/dev/null 2>&1") != 0)
        skip();
    outcome o = bench(no_gpu, "ops --shape 40x30 --only softmax --plot roof.png");
    assert_int_equal(o.code, 0);
    outcome_release(&o);
    char path[128];
    snprintf(path, sizeof path, "%s/roof.png", program_folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    assert_memory_equal(head, signature, sizeof signature);
    assert_int_equal(head[18] << 8 | head[19], 2 * 1240); /* pixels across */
}

/* With the stand-in both devices are measured, in both arithmetics that it offers, and transfers show. */
static void two_devices(void **state)
{
    (void)state;
    json_t *all =
        bench_document(stand_in, "ops --device cpu,cuda --dtype f32,tf32 --shape 64x64x64 --only matmul/ --json");
    json_t *rows = json_object_get(all, "rows");
    assert_int_equal(json_array_size(rows), 3);
    assert_string_equal(text(json_array_get(rows, 1), "device"), "cuda");
    assert_string_equal(text(json_array_get(rows, 2), "dtype"), "tf32");
    assert_non_null(json_object_get(json_array_get(rows, 1), "transfer_us"));
    assert_null(json_object_get(json_array_get(rows, 0), "transfer_us"));
    json_decref(all);
}

static outcome version(const char *modules, const char *arguments)
{
    char settings[512];
    snprintf(settings, sizeof settings, "SEALGRAPH_MODULE_PATH=%s", modules);
    return program_run(settings, arguments);
}

/* A GPU counts where it can be used; else what was found is told, and what is missing. */
static void version_tells_what_is_usable(void **state)
{
    (void)state;
    outcome o = version(stand_in, "--version -v");
    assert_non_null(strstr(o.out, "backends      cpu, reference, cuda\n"));
    assert_non_null(strstr(o.out, "cuda module   " SG_BINARY_DIR "/tests/mirror/sealgraph-cuda.so"));
    outcome_release(&o);
    o = version(no_gpu, "--version -v");
    assert_non_null(strstr(o.out, "backends      cpu, reference\n"));
    assert_non_null(strstr(o.out, "cuda          not usable: no module for cuda"));
    assert_null(strstr(o.out, "cuda module"));
    outcome_release(&o);
    write_file("sealgraph-cuda.so", "no library");
    o = version(program_folder, "--version -v");
    assert_non_null(strstr(o.out, "backends      cpu, reference\n"));
    assert_non_null(strstr(o.out, "cuda          not usable: cannot load the module"));
    assert_non_null(strstr(o.out, "/sealgraph-cuda.so\n"));
    outcome_release(&o);
    json_t *found = outcome_document(version(program_folder, "version --json"), "version --json", 0);
    json_t *cuda = json_object_get(found, "cuda");
    assert_string_equal(text(found, "backends"), "cpu, reference");
    assert_true(json_is_false(json_object_get(cuda, "usable")));
    assert_true(text(cuda, "reason") && text(cuda, "module"));
    json_decref(found);
}

/* `SETTINGS record.sh ARGUMENTS` into the folder `kept`, of which `ls` then is this. */
static void records(const char *settings, const char *arguments, int code, const char *files)
{
    char command[1024];
    snprintf(command, sizeof command,
             "cd %s && env -i PATH=/usr/bin:/bin SEALGRAPH=%s/sealgraph SEALGRAPH_MODULE_PATH=/nowhere MILLISECONDS=1 "
             "THREADS=1 CARD='A Card' DATE=2026-01-01 OUT=%s/kept %s sh %s/benchmarks/record.sh %s >out.txt 2>err.txt; "
             "test $? = %d && test \"$(ls -A kept 2>/dev/null | tr '\\n' ' ')\" = '%s'",
             program_folder, SG_BINARY_DIR, program_folder, settings, SG_SOURCE_DIR, arguments, code, files);
    if (system(command) != 0)
        fail_msg("%s", command);
}

/* Results are kept when there are any, and not on a machine that lacks the GPU they should come from. */
static void records_are_whole(void **state)
{
    (void)state;
    if (system("PATH=/usr/bin:/bin python3 --version >/dev/null 2>&1") != 0)
        skip();
    records("", "ops", 1, "");
    char *err = program_file("err.txt");
    assert_non_null(strstr(err, "no GPU: no module for cuda"));
    free(err);
    records("DEVICES=cpu", "bert", 1, "");
    records("DEVICES=cpu", "sprint", 2, "");
    json_t *measured = bench_document(no_gpu, "ops --only softmax --shape 40x30 --json");
    char path[128];
    snprintf(path, sizeof path, "%s/ops.json", program_folder);
    assert_int_equal(json_dump_file(measured, path, 0), 0);
    json_decref(measured);
    snprintf(path, sizeof path, "FROM=%s", program_folder);
    records(path, "", 0, "a-card-2026-01-01.json a-card-2026-01-01.md ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes),
        cmocka_unit_test(without_a_gpu),
        cmocka_unit_test(json_of_operators),
        cmocka_unit_test(csv_has_every_field),
        cmocka_unit_test(markdown),
        cmocka_unit_test(plot_is_well_formed),
        cmocka_unit_test(plot_that_fails),
        cmocka_unit_test(plot_over_another),
        cmocka_unit_test(plot_as_png),
        cmocka_unit_test(two_devices),
        cmocka_unit_test(version_tells_what_is_usable),
        cmocka_unit_test(records_are_whole),
    };
    return cmocka_run_group_tests(tests, program_make_folder, program_remove_folder);
}
