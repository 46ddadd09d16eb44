/* run_files.c - the files of a run's folder by their names. */
#include <string.h>
#include <unistd.h>

#include "models/train_internal.h"
#include "serialize/serialize.h"

char *sgi_folder_path(const sgi_run *run, const char *name)
{
    size_t size = strlen(run->folder) + strlen(name) + 2;
    char *path = sg_alloc(size);
    if (path)
        snprintf(path, size, "%s/%s", run->folder, name);
    return path;
}

bool sgi_folder_has(const sgi_run *run, const char *name)
{
    char *path = sgi_folder_path(run, name);
    bool found = path && access(path, F_OK) == 0;
    sg_free(path);
    return found;
}

/* The last line of a file ends like the others, though jansson's texts do not. */
sg_status sgi_folder_write(const sgi_run *run, const char *name, const char *text, sg_error *err)
{
    size_t n = text ? strlen(text) : 0;
    char *path = sgi_folder_path(run, name), *lines = sg_alloc(n + 2);
    sg_status status = SG_OK;
    if (!path || !text || !lines) {
        status = sg_fail(err, SG_E_MEMORY, "out of memory");
    } else {
        memcpy(lines, text, n);
        if (n && text[n - 1] != '\n')
            lines[n++] = '\n';
        status = sg_file_write(path, lines, n, err);
    }
    sg_free(lines);
    sg_free(path);
    return status;
}

bool sgi_folder_finished(const sgi_run *run) { return sgi_folder_has(run, "metrics.json"); }
