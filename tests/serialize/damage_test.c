/* Damaged and hostile files: an error or the same model, never a crash; and memory that runs out at every call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/model_files.h"

static char *folder;
static built_model built;

static int set_up(void **state)
{
    (void)state;
    folder = new_folder();
    built = build_model(SG_F32, 7);
    return sg_model_write(folder, &built.model, NULL) == SG_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    free_built(&built);
    sg_folder_remove(folder, NULL);
    free(folder);
    return 0;
}

static void put(const char *path, const char *data, size_t size)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

static void read_damaged(void)
{
    sg_model *read = NULL;
    sg_error err;
    sg_status status = sg_model_read(&read, folder, &err);
    if (status == SG_OK) {
        assert_same_model(&built.model, read);
        sg_model_free(read);
    } else {
        assert_int_equal(status, SG_E_DATA);
        assert_null(read);
        assert_true(err.text[0] && err.file[0]);
    }
}

static void damage(const char *name, bool cut)
{
    char *path = file_in(folder, name), *good;
    size_t size;
    assert_int_equal(sg_file_read(path, 1 << 26, &good, &size, NULL), SG_OK);
    char *data = malloc(size + 1);
    assert_non_null(data);
    for (size_t i = 0; i < size; i += 1 + size / 400) {
        memcpy(data, good, size);
        data[i] ^= (char)(1 << i % 8);
        put(path, data, cut ? i : size);
        read_damaged();
    }
    put(path, good, size);
    sg_model *read = NULL;
    assert_int_equal(sg_model_read(&read, folder, NULL), SG_OK);
    sg_model_free(read);
    free(data);
    sg_free(good);
    free(path);
}

static void test_bits_of_description(void **state)
{
    (void)state;
    damage("model.pb", false);
}
static void test_bits_of_tensors(void **state)
{
    (void)state;
    damage("model.safetensors", false);
}
static void test_cut_description(void **state)
{
    (void)state;
    damage("model.pb", true);
}
static void test_cut_tensors(void **state)
{
    (void)state;
    damage("model.safetensors", true);
}

/* ---- memory */

static long calls_left;

static void *scarce(void *user, size_t bytes)
{
    (void)user;
    return calls_left-- > 0 ? malloc(bytes) : NULL;
}

static void *scarce_resize(void *user, void *old, size_t bytes)
{
    (void)user;
    return calls_left-- > 0 ? realloc(old, bytes) : NULL;
}

static void test_reading_without_memory(void **state)
{
    (void)state;
    sg_allocator few = {scarce, scarce_resize, NULL, NULL};
    sg_status status = SG_E_MEMORY;
    for (long n = 0; status != SG_OK; n++) {
        sg_model *read = NULL;
        calls_left = n;
        sg_allocator_set(&few);
        status = sg_model_read(&read, folder, NULL);
        sg_allocator_set(NULL);
        assert_true(status == SG_OK || status == SG_E_MEMORY);
        sg_model_free(read);
    }
}

static void test_writing_without_memory(void **state)
{
    (void)state;
    char *other = new_folder();
    sg_allocator few = {scarce, scarce_resize, NULL, NULL};
    sg_status status = SG_E_MEMORY;
    for (long n = 0; status != SG_OK; n++) {
        calls_left = n;
        sg_allocator_set(&few);
        status = sg_model_write(other, &built.model, NULL);
        sg_allocator_set(NULL);
        assert_true(status == SG_OK || status == SG_E_MEMORY);
    }
    assert_same_files(folder, other);
    sg_folder_remove(other, NULL);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_of_description),    cmocka_unit_test(test_bits_of_tensors),
        cmocka_unit_test(test_cut_description),        cmocka_unit_test(test_cut_tensors),
        cmocka_unit_test(test_reading_without_memory), cmocka_unit_test(test_writing_without_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
