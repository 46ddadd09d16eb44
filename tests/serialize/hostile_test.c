/* Model files that lie: the description is changed and its digest made right again, so that every check behind the digest is
 * reached. Reading must refuse, or give a graph that keeps every invariant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/random_internal.h"
#include "tests/support/model_files.h"

enum { ROUNDS = 4000, DIGEST = 32 };

typedef struct description {
    char *folder, *path, *scratch; /* the model, its model.pb, a file to take digests of */
    char *bytes;
    size_t size, digest_at, inner_at;
} description;

static void put(const char *path, const char *data, size_t size)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

/* File = {format = 1, sha256 = 2 (32 bytes), model = 3}: find the second and third field. */
static void locate(description *d)
{
    d->digest_at = 2 + (size_t)d->bytes[1] + 2;
    assert_int_equal(d->bytes[d->digest_at - 2], 2 << 3 | 2);
    assert_int_equal(d->bytes[d->digest_at - 1], DIGEST);
    size_t at = d->digest_at + DIGEST;
    assert_int_equal(d->bytes[at++], 3 << 3 | 2);
    while (d->bytes[at++] & 0x80)
        ;
    d->inner_at = at;
}

static void seal(const description *d, char *data)
{
    char hex[65];
    put(d->scratch, data + d->inner_at, d->size - d->inner_at);
    assert_int_equal(sg_file_sha256(d->scratch, hex, NULL), SG_OK);
    for (int i = 0; i < DIGEST; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        data[d->digest_at + (size_t)i] = (char)strtol(pair, NULL, 16);
    }
}

static int refused, accepted;

static void read_lie(const description *d, char *data)
{
    sg_model *model = NULL;
    sg_error err = {0};
    seal(d, data);
    put(d->path, data, d->size);
    sg_status status = sg_model_read(&model, d->folder, &err);
    if (status == SG_OK) {
        assert_int_equal(sg_graph_verify(model->graph, NULL), SG_OK);
        sg_model_free(model);
        accepted++;
        return;
    }
    assert_int_equal(status, SG_E_DATA);
    assert_null(model);
    assert_true(err.text[0] && err.file[0]);
    refused++;
}

/* One to three bytes become another value, a small number, or the largest of its size. */
static void mutate(const description *d, char *data, uint64_t round)
{
    static const int32_t rng[4] = {11, 0, 0, 0};
    sg_draw draw = sg_draw_make(1, rng, round);
    uint32_t changes = 1 + sg_random_bits(draw, 0) % 3;
    memcpy(data, d->bytes, d->size);
    for (uint32_t k = 0; k < changes; k++) {
        size_t at = d->inner_at + sg_random_bits(draw, 3 * k + 1) % (d->size - d->inner_at);
        uint32_t how = sg_random_bits(draw, 3 * k + 2) % 4, value = sg_random_bits(draw, 3 * k + 3);
        uint32_t flipped = (uint8_t)data[at] ^ 1u << value % 8;
        data[at] = (char)(how == 0 ? value : how == 1 ? value % 8 : how == 2 ? 0xffu : flipped);
    }
}

static void open_description(description *d, const built_model *built)
{
    *d = (description){.folder = new_folder()};
    assert_int_equal(sg_model_write(d->folder, &built->model, NULL), SG_OK);
    d->path = file_in(d->folder, "model.pb");
    d->scratch = file_in(d->folder, "inner");
    assert_int_equal(sg_file_read(d->path, 1 << 26, &d->bytes, &d->size, NULL), SG_OK);
    locate(d);
}

static void close_description(description *d)
{
    sg_folder_remove(d->folder, NULL);
    sg_free(d->bytes);
    free(d->path);
    free(d->scratch);
    free(d->folder);
}

static void lies_are_refused_or_harmless(void **state)
{
    (void)state;
    description d;
    built_model built = build_model(SG_F32, 7);
    open_description(&d, &built);
    char *data = malloc(d.size);
    assert_non_null(data);
    memcpy(data, d.bytes, d.size);
    read_lie(&d, data);
    assert_int_equal(accepted, 1); /* sealing an unchanged description keeps it valid */
    for (uint64_t round = 0; round < ROUNDS; round++) {
        mutate(&d, data, round);
        read_lie(&d, data);
    }
    assert_true(refused > ROUNDS / 10); /* the changes reach what is checked */
    free(data);
    close_description(&d);
    free_built(&built);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lies_are_refused_or_harmless)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
