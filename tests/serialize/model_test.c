/* Models written and read back: the same graph, values and texts, and the same bytes. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/model_files.h"

#include "ops/ops.h"
#include "runtime/runtime.h"

static void must(sg_status status, const sg_error *err)
{
    char text[1024];
    if (status != SG_OK)
        fail_msg("%s", sg_error_format(err, text, sizeof text));
}

static void drop_folder(char *folder)
{
    sg_error err;
    must(sg_folder_remove(folder, &err), &err);
    free(folder);
}

static void round_trip(sg_dtype real)
{
    char *first = new_folder(), *second = new_folder();
    built_model built = build_model(real, 7);
    sg_model *read = NULL;
    sg_error err;
    must(sg_model_write(first, &built.model, &err), &err);
    must(sg_model_read(&read, first, &err), &err);
    assert_same_model(&built.model, read);
    must(sg_model_write(second, read, &err), &err);
    assert_same_files(first, second);
    sg_model_free(read);
    free_built(&built);
    drop_folder(first);
    drop_folder(second);
}

static void test_round_trip_f64(void **state)
{
    (void)state;
    round_trip(SG_F64);
}

static void test_round_trip_f32(void **state)
{
    (void)state;
    round_trip(SG_F32);
}

static void test_equal_models_give_equal_bytes(void **state)
{
    (void)state;
    char *first = new_folder(), *second = new_folder();
    built_model a = build_model(SG_F32, 7), b = build_model(SG_F32, 7);
    sg_error err;
    must(sg_model_write(first, &a.model, &err), &err);
    must(sg_model_write(second, &b.model, &err), &err);
    must(sg_model_write(second, &b.model, &err), &err); /* over itself */
    assert_same_files(first, second);
    free_built(&a);
    free_built(&b);
    drop_folder(first);
    drop_folder(second);
}

static void test_only_what_is_read_is_stored(void **state)
{
    (void)state;
    char *folder = new_folder();
    built_model built = build_model(SG_F32, 7);
    sg_model *read = NULL;
    sg_error err;
    must(sg_model_write(folder, &built.model, &err), &err);
    must(sg_model_read(&read, folder, &err), &err);
    assert_true(sg_store_find(built.store, "dead") >= 0);
    assert_int_equal(sg_store_find(read->store, "dead"), -1);
    static const char *names[] = {"rng", "task/b", "loop/W", "loop/decay", "loop/count", "table"};
    for (int i = 0; i < 6; i++)
        assert_true(sg_store_find(read->store, names[i]) >= 0);
    assert_int_equal(sg_store_count(read->store), 6);
    sg_model_free(read);
    free_built(&built);
    drop_folder(folder);
}

/* Names of nodes and dimensions are kept; the batch can be rebound. */
static void test_names_are_kept(void **state)
{
    (void)state;
    char *folder = new_folder();
    built_model built = build_model(SG_F64, 7);
    sg_model *read = NULL;
    sg_error err;
    must(sg_model_write(folder, &built.model, &err), &err);
    must(sg_model_read(&read, folder, &err), &err);
    assert_string_equal(sg_node_of(sg_result_value(read->graph, 0))->name, "flat");
    sg_binding batch = {"batch", 1};
    sg_status status = sg_graph_bind(built.graph, &batch, 1, NULL);
    assert_int_equal(sg_graph_bind(read->graph, &batch, 1, NULL), status);
    sg_model_free(read);
    free_built(&built);
    drop_folder(folder);
}

static void test_graph_without_store_entries(void **state)
{
    (void)state;
    char *folder = new_folder();
    sg_graph *graph = sg_graph_new();
    sg_store *store = sg_store_new(SG_F32);
    sg_value x = sg_input(graph, "x", SG_F32, sg_shape_named(SG_SHAPE(2, 3), 0, "batch"));
    sg_result(graph, "y", sg_sum(sg_exp(x), 1));
    sg_model model = {.graph = graph, .store = store}, *read = NULL;
    sg_error err;
    must(sg_model_write(folder, &model, &err), &err);
    must(sg_model_read(&read, folder, &err), &err);
    assert_int_equal(sg_store_count(read->store), 0);
    assert_string_equal(read->task, "");
    assert_null(read->thresholds);
    sg_binding batch = {"batch", 9};
    must(sg_graph_bind(read->graph, &batch, 1, &err), &err);
    assert_int_equal(sg_dim_of(sg_result_value(read->graph, 0), 0), 9);
    sg_model_free(read);
    sg_graph_free(graph);
    sg_store_free(store);
    drop_folder(folder);
}

static void test_write_refusals(void **state)
{
    (void)state;
    char *folder = new_folder(), *file = file_in(folder, "file"), *below = file_in(folder, "file/model");
    built_model built = build_model(SG_F32, 7);
    sg_store *other = sg_store_new(SG_F32);
    sg_error err;
    must(sg_file_write(file, "x", 1, &err), &err);
    assert_int_equal(sg_model_write(file, &built.model, &err), SG_E_IO);
    assert_int_equal(sg_model_write(below, &built.model, &err), SG_E_IO);
    sg_model wrong = built.model;
    wrong.store = other;
    assert_int_equal(sg_model_write(folder, &wrong, &err), SG_E_ARGUMENT);
    wrong = built.model;
    wrong.labels = NULL;
    assert_int_equal(sg_model_write(folder, &wrong, &err), SG_E_ARGUMENT);
    sg_store_at(built.store, sg_store_find(built.store, "task/b"))->ready = false;
    assert_int_equal(sg_model_write(folder, &built.model, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "task/b"));
    sg_store_free(other);
    free_built(&built);
    free(file);
    free(below);
    drop_folder(folder);
}

static void test_unwritable_folder(void **state)
{
    (void)state;
    built_model built = build_model(SG_F32, 7);
    sg_error err;
    assert_int_equal(sg_model_write("/proc/sealgraph-model", &built.model, &err), SG_E_IO);
    assert_non_null(strstr(err.text, "/proc/sealgraph-model"));
    sg_model *read = NULL;
    assert_int_equal(sg_model_read(&read, "/proc/sealgraph-model", &err), SG_E_IO);
    assert_null(read);
    free_built(&built);
}

static void copy_file(const char *from_folder, const char *from, const char *to_folder, const char *to)
{
    char *source = file_in(from_folder, from), *target = file_in(to_folder, to), *data;
    size_t size;
    sg_error err;
    must(sg_file_read(source, SIZE_MAX >> 1, &data, &size, &err), &err);
    must(sg_file_write(target, data, size, &err), &err);
    sg_free(data);
    free(source);
    free(target);
}

/* Files of two models do not mix; but a description that was not renamed before a crash is found. */
static void test_pairs(void **state)
{
    (void)state;
    char *first = new_folder(), *second = new_folder(), *new_name = file_in(first, "model.pb.new");
    built_model a = build_model(SG_F32, 7), b = build_model(SG_F32, 8);
    sg_model *read = NULL;
    sg_error err;
    must(sg_model_write(first, &a.model, &err), &err);
    must(sg_model_write(second, &b.model, &err), &err);
    assert_int_equal(access(new_name, F_OK), -1);
    copy_file(second, "model.safetensors", first, "model.safetensors");
    assert_int_equal(sg_model_read(&read, first, &err), SG_E_DATA);
    assert_non_null(strstr(err.text, "do not belong together"));
    assert_non_null(strstr(err.file, "model.pb"));
    copy_file(second, "model.pb", first, "model.pb.new");
    must(sg_model_read(&read, first, &err), &err);
    assert_same_model(&b.model, read);
    sg_model_free(read);
    must(sg_model_write(first, &a.model, &err), &err); /* and is cleared away by the next writing */
    assert_int_equal(access(new_name, F_OK), -1);
    free_built(&a);
    free_built(&b);
    free(new_name);
    drop_folder(first);
    drop_folder(second);
}

static void test_sha256(void **state)
{
    (void)state;
    char *folder = new_folder(), *path = file_in(folder, "abc"), digest[65];
    sg_error err;
    must(sg_file_write(path, "abc", 3, &err), &err);
    must(sg_file_sha256(path, digest, &err), &err); /* the example of FIPS 180-4 */
    assert_string_equal(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(sg_file_sha256("/nowhere/abc", digest, &err), SG_E_IO);
    free(path);
    drop_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_f64),
        cmocka_unit_test(test_round_trip_f32),
        cmocka_unit_test(test_equal_models_give_equal_bytes),
        cmocka_unit_test(test_only_what_is_read_is_stored),
        cmocka_unit_test(test_names_are_kept),
        cmocka_unit_test(test_graph_without_store_entries),
        cmocka_unit_test(test_write_refusals),
        cmocka_unit_test(test_unwritable_folder),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_sha256),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
