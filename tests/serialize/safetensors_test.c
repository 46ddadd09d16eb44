/* Tensor files and checkpoints: what is written is read back, and each malformed file is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/model_files.h"

static char *folder, *path;

static int set_up(void **state)
{
    (void)state;
    folder = new_folder();
    path = file_in(folder, "t.safetensors");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sg_folder_remove(folder, NULL);
    free(path);
    free(folder);
    return 0;
}

static void test_round_trip(void **state)
{
    (void)state;
    static const float a[] = {1, -0.0f, 3, 4, 5, 6};
    static const int32_t b[] = {-7};
    static const uint8_t c[] = {1, 0, 1};
    sg_named_tensor tensors[] = {{"a", SG_F32, SG_SHAPE(2, 3), a},
                                 {"none", SG_F64, SG_SHAPE(0, 4), NULL},
                                 {"b", SG_I32, sg_shape_scalar(), b},
                                 {"c \"q\"", SG_BOOL, SG_SHAPE(3), c}};
    sg_text_pair metadata[] = {{"key", "v\xc3\xa4lue"}};
    assert_int_equal(sg_safetensors_write(path, tensors, 4, metadata, 1, NULL), SG_OK);
    sg_safetensors *file;
    assert_int_equal(sg_safetensors_read(&file, path, NULL), SG_OK);
    assert_int_equal(sg_safetensors_count(file), 4);
    assert_string_equal(sg_safetensors_metadata(file, "key"), "v\xc3\xa4lue");
    assert_null(sg_safetensors_metadata(file, "other"));
    assert_null(sg_safetensors_find(file, "other"));
    for (int i = 0; i < 4; i++) {
        const sg_named_tensor *t = sg_safetensors_find(file, tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_true(sg_shape_equal(&t->shape, &tensors[i].shape));
        size_t bytes = (size_t)sg_shape_count(&t->shape) * sg_dtype_size(t->dtype);
        if (bytes)
            assert_memory_equal(t->data, tensors[i].data, bytes);
    }
    sg_safetensors_free(file);
}

static void test_write_refusals(void **state)
{
    (void)state;
    static const float a[] = {1};
    sg_named_tensor twice[] = {{"a", SG_F32, SG_SHAPE(1), a}, {"a", SG_F32, SG_SHAPE(1), a}};
    sg_named_tensor large[] = {{"a", SG_F32, SG_SHAPE((int64_t)1 << 62), a},
                               {"b", SG_F32, SG_SHAPE((int64_t)3 << 60), a}};
    sg_text_pair latin[] = {{"key", "\xe4"}};
    assert_int_equal(sg_safetensors_write(path, large, 1, NULL, 0, NULL), SG_E_ARGUMENT);
    assert_int_equal(sg_safetensors_write(path, large + 1, 1, NULL, 0, NULL), SG_E_ARGUMENT);
    assert_int_not_equal(sg_safetensors_write(path, twice, 2, NULL, 0, NULL), SG_OK);
    assert_int_not_equal(sg_safetensors_write(path, twice, 1, latin, 1, NULL), SG_OK);
    assert_int_equal(sg_safetensors_write("/proc/none", twice, 1, NULL, 0, NULL), SG_E_IO);
}

/* A file of this header and `data` zero bytes; `stated` is the header length it claims, 0 for the true one. */
static sg_status read_header(const char *header, size_t data, uint64_t stated, sg_error *err)
{
    char bytes[2048] = {0};
    uint64_t length = stated ? stated : strlen(header);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(length >> (8 * i) & 0xff);
    memcpy(bytes + 8, header, strlen(header));
    assert_int_equal(sg_file_write(path, bytes, 8 + strlen(header) + data, NULL), SG_OK);
    sg_safetensors *file = NULL;
    sg_status status = sg_safetensors_read(&file, path, err);
    assert_true((status == SG_OK) == (file != NULL));
    sg_safetensors_free(file);
    return status;
}

#define T(name, dtype, shape, from, to)                                                                                \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static void test_malformed(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        uint64_t stated;
        const char *says; /* NULL: a valid file */
    } cases[] = {
        {"{" T("a", "F32", "[2]", "0", "8") "}", 8, 0, NULL},
        {"{" T("a", "F32", "[2]", "4", "12") "," T("b", "F32", "[]", "0", "4") "}  ", 12, 0, NULL},
        {"{" T("a", "F32", "[1]", "0", "4") "," T("b", "F32", "[1]", "8", "12") "}", 12, 0, "hole"},
        {"{" T("a", "F32", "[2]", "4", "12") "}", 12, 0, "hole"},
        {"{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "4", "12") "}", 12, 0, "overlaps"},
        {"{" T("a", "F32", "[1]", "0", "4") "," T("b", "F32", "[1]", "0", "4") "}", 4, 0, "overlaps"},
        {"{" T("a", "F32", "[2]", "8", "0") "}", 8, 0, "outside"},
        {"{" T("a", "F32", "[2]", "-8", "0") "}", 8, 0, "outside"},
        {"{" T("a", "F32", "[2]", "0", "8") "}", 4, 0, "outside"},
        {"{" T("a", "F32", "[2]", "0", "8") "}", 12, 0, "after the last"},
        {"{" T("a", "F32", "[2]", "0", "4") "}", 4, 0, "another number of bytes"},
        {"{" T("a", "F32", "[4611686018427387904,4]", "0", "0") "}", 0, 0, "shape"},
        {"{" T("a", "F32", "[4611686018427387904]", "0", "0") "}", 0, 0, "another number of bytes"},
        {"{" T("a", "F32", "[-1]", "0", "0") "}", 0, 0, "shape"},
        {"{" T("a", "F32", "[1.0]", "0", "4") "}", 4, 0, "shape"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, 0, "shape"},
        {"{" T("a", "F8", "[2]", "0", "2") "}", 2, 0, "dtype"},
        {"{" T("a", "F32", "[1]", "0.0", "4") "}", 4, 0, "data_offsets"},
        {"{" T("a", "F32", "[1]", "0", "99999999999999999999") "}", 4, 0, "header"},
        {"{" T("a", "F32", "[1]", "0", "4") "," T("a", "F32", "[1]", "4", "8") "}", 8, 0, "header"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, 0, "data_offsets"},
        {"{\"a\":7}", 0, 0, "dtype"},
        {"{\"__metadata__\":{\"k\":1}}", 0, 0, "metadata"},
        {"{\"__metadata__\":[]}", 0, 0, "metadata"},
        {"[]", 0, 0, "length"},
        {"{", 0, 0, "length"},
        {"{\"a\":", 0, 0, "header"},
        {"{}", 0, UINT64_MAX, "length"},
        {"{}", 0, (uint64_t)1 << 40, "length"},
        {"{}", 0, 3, "length"},
        {"{\"a\\u0000b\":7}", 0, 0, "header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sg_error err = {0};
        sg_status status = read_header(cases[i].header, cases[i].data, cases[i].stated, &err);
        if (status != (cases[i].says ? SG_E_DATA : SG_OK) || (cases[i].says && !strstr(err.text, cases[i].says)))
            fail_msg("%s: status %d: %s", cases[i].header, (int)status, err.text);
    }
    sg_safetensors *file = NULL;
    assert_int_equal(sg_file_write(path, "1234567", 7, NULL), SG_OK);
    assert_int_equal(sg_safetensors_read(&file, path, NULL), SG_E_DATA);
    assert_int_equal(sg_safetensors_read(&file, folder, NULL), SG_E_IO);
}

/* ---- checkpoints */

static sg_store *make_store(sg_dtype real, int64_t width, const char *second, double value)
{
    sg_store *store = sg_store_new(real);
    sg_shape shape = SG_SHAPE(2, width), four = SG_SHAPE(4);
    int32_t at;
    assert_non_null(store);
    assert_int_equal(sg_store_add(store, "W", SG_F32, &shape, sg_init_constant(value), true, &at, NULL), SG_OK);
    if (second)
        assert_int_equal(sg_store_add(store, second, SG_I32, &four, sg_init_constant(value), false, &at, NULL), SG_OK);
    sg_store_initialise(store, 1);
    return store;
}

static void expect_refusal(sg_store *store, const char *says)
{
    char *text = NULL;
    double kept[8], now[8];
    sg_error err = {0};
    int64_t n = sg_shape_count(&sg_store_at(store, 0)->shape);
    assert_int_equal(sg_store_get(store, "W", kept, n, NULL), SG_OK);
    assert_int_equal(sg_checkpoint_read(path, store, &text, &err), SG_E_DATA);
    if (!strstr(err.text, says))
        fail_msg("'%s' does not say '%s'", err.text, says);
    assert_int_equal(sg_store_get(store, "W", now, n, NULL), SG_OK);
    assert_memory_equal(kept, now, (size_t)n * sizeof *kept);
    sg_store_free(store);
}

static void test_checkpoint(void **state)
{
    (void)state;
    sg_store *saved = make_store(SG_F32, 3, "t", 7), *store = make_store(SG_F32, 3, "t", 1);
    double w[6], t[4];
    char *text = NULL;
    assert_int_equal(sg_checkpoint_write(path, saved, "{\"epoch\": 3}", NULL), SG_OK);
    assert_int_equal(sg_checkpoint_read(path, store, &text, NULL), SG_OK);
    assert_string_equal(text, "{\"epoch\": 3}");
    assert_int_equal(sg_store_get(store, "W", w, 6, NULL), SG_OK);
    assert_int_equal(sg_store_get(store, "t", t, 4, NULL), SG_OK);
    assert_true(w[0] == 7 && w[5] == 7 && t[3] == 7);
    sg_free(text);
    sg_store_free(saved);
    sg_store_free(store);
    expect_refusal(make_store(SG_F32, 4, "t", 1), "[2, 3]");     /* another shape */
    expect_refusal(make_store(SG_F64, 3, "t", 1), "f64");        /* another real type */
    expect_refusal(make_store(SG_F32, 3, "u", 1), "lacks 'u'");  /* missing */
    expect_refusal(make_store(SG_F32, 3, NULL, 1), "2 tensors"); /* extra */
    assert_int_equal(sg_safetensors_write(path, NULL, 0, NULL, 0, NULL), SG_OK);
    expect_refusal(make_store(SG_F32, 3, "t", 1), "not a checkpoint");
}

/* Whatever byte is another, a run does not go on from it. */
static void test_damaged_checkpoint(void **state)
{
    (void)state;
    sg_store *saved = make_store(SG_F32, 3, "t", 7), *store = make_store(SG_F32, 3, "t", 1);
    char *bytes = NULL, *text = NULL;
    size_t size;
    assert_int_equal(sg_checkpoint_write(path, saved, "{\"epoch\": 3}", NULL), SG_OK);
    assert_int_equal(sg_file_read(path, 1 << 20, &bytes, &size, NULL), SG_OK);
    for (size_t i = 0; i < size; i++) {
        sg_error err = {0};
        bytes[i] ^= (char)(1 << i % 8);
        assert_int_equal(sg_file_write(path, bytes, size, NULL), SG_OK);
        if (sg_checkpoint_read(path, store, &text, &err) != SG_E_DATA)
            fail_msg("byte %zu: '%s'", i, err.text);
        bytes[i] ^= (char)(1 << i % 8);
    }
    sg_free(bytes);
    sg_store_free(saved);
    expect_refusal(store, ""); /* the last damage, and the store as it was */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_write_refusals),     cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_checkpoint), cmocka_unit_test(test_damaged_checkpoint),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
