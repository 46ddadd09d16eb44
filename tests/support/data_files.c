/* Small data files for tests. */
#include "tests/support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#define MAX_FILES 512

static char folder[512], path_of[4][1024], made[MAX_FILES][768];
static int made_count;
char data_message[1024];
sg_error data_error;

static const char *new_path(int slot, const char *name)
{
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%s/test-files-XXXXXX", SG_BINARY_DIR);
        assert_non_null(mkdtemp(folder));
    }
    snprintf(path_of[slot], sizeof path_of[slot], "%s/%s", folder, name);
    if (made_count < MAX_FILES)
        snprintf(made[made_count++], sizeof made[0], "%.511s/%.200s", folder, name);
    return path_of[slot];
}

const char *data_file(int slot, const char *name, const void *bytes, size_t size)
{
    FILE *file = fopen(new_path(slot, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path_of[slot];
}

const char *data_text(int slot, const char *name, const char *text)
{
    return data_file(slot, name, text, strlen(text));
}

const char *data_gzip(int slot, const char *name, const char *text, size_t cut)
{
    const char *path = new_path(slot, name);
    gzFile file = gzopen(path, "wb9");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    if (cut)
        assert_int_equal(truncate(path, status.st_size - (off_t)cut), 0);
    return path;
}

void data_files_remove(void)
{
    for (int i = 0; i < made_count; i++)
        unlink(made[i]);
    made_count = 0;
    if (folder[0])
        rmdir(folder);
    folder[0] = '\0';
}

const char *shared_file(int slot, const char *relative)
{
    const char *root = getenv("SG_SHARED");
    snprintf(path_of[slot], sizeof path_of[slot], "%s/%s", root ? root : SG_SOURCE_DIR "/../shared", relative);
    return access(path_of[slot], R_OK) == 0 ? path_of[slot] : NULL;
}

sg_dataset *data_read(const char *path, const sg_read_options *options)
{
    sg_dataset *data;
    memset(&data_error, 0, sizeof data_error);
    data_message[0] = '\0';
    if (sg_dataset_read(&data, &path, 1, options, &data_error) == SG_OK)
        return data;
    sg_error local = data_error;
    const char *slash = strrchr(local.file, '/');
    if (slash)
        memmove(local.file, slash + 1, strlen(slash));
    sg_error_format(&local, data_message, sizeof data_message);
    assert_null(data);
    return NULL;
}

bool data_noted(const sg_dataset *data, const char *text)
{
    for (int32_t i = 0; i < data->n_notes; i++)
        if (strstr(data->notes[i].text, text))
            return true;
    return false;
}
