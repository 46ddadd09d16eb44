/* sha256.c - SHA-256 of memory and of files. */
#include <errno.h>
#include <nettle/sha2.h>
#include <string.h>

#include "serialize/model_internal.h"

enum { CHUNK = 1 << 16 };

void sgi_sha256(const void *data, size_t size, uint8_t out[SG_SHA256_BYTES])
{
    struct sha256_ctx hash;
    sha256_init(&hash);
    sha256_update(&hash, size, data);
    sha256_digest(&hash, SG_SHA256_BYTES, out);
}

static sg_status hash_stream(FILE *in, uint8_t *buffer, const char *path, uint8_t *out, sg_error *err)
{
    struct sha256_ctx hash;
    sha256_init(&hash);
    for (size_t n; (n = fread(buffer, 1, CHUNK, in)) > 0;)
        sha256_update(&hash, n, buffer);
    if (ferror(in))
        return sg_fail(err, SG_E_IO, "cannot read %s: %s", path, strerror(errno));
    sha256_digest(&hash, SG_SHA256_BYTES, out);
    return SG_OK;
}

sg_status sgi_sha256_file(const char *path, uint8_t out[SG_SHA256_BYTES], sg_error *err)
{
    FILE *in = fopen(path, "rbe");
    if (!in)
        return sg_fail(err, SG_E_IO, "cannot open %s: %s", path, strerror(errno));
    uint8_t *buffer = sg_alloc(CHUNK);
    sg_status status = buffer ? hash_stream(in, buffer, path, out, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_free(buffer);
    fclose(in);
    return status;
}

void sgi_sha256_text(const uint8_t digest[SG_SHA256_BYTES], char out[SG_SHA256_TEXT])
{
    for (int i = 0; i < SG_SHA256_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

sg_status sg_file_sha256(const char *path, char out[SG_SHA256_TEXT], sg_error *err)
{
    uint8_t digest[SG_SHA256_BYTES];
    SG_TRY(sgi_sha256_file(path, digest, err));
    sgi_sha256_text(digest, out);
    return SG_OK;
}
