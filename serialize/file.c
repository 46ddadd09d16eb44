/* file.c - files that are replaced whole or not at all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serialize/serialize.h"

static sg_status io_error(sg_error *err, const char *what, const char *path)
{
    return sg_fail(err, SG_E_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

/* Make the folder's entry for `path` durable. */
static sg_status sync_folder_of(const char *path, sg_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    char *folder = sg_alloc(n + 2);
    if (!folder)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    memcpy(folder, slash ? path : ".", slash ? n : 1);
    folder[slash ? n : 1] = 0;
    int fd = open(n || !slash ? folder : "/", O_RDONLY | O_DIRECTORY);
    sg_status status = fd < 0 || fsync(fd) != 0 ? io_error(err, "sync the folder of", path) : SG_OK;
    if (fd >= 0)
        close(fd);
    sg_free(folder);
    return status;
}

static sg_status write_all(int fd, const char *data, size_t size, const char *path, sg_error *err)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return io_error(err, "write", path);
        data += n;
        size -= (size_t)n;
    }
    /* Pipes and devices cannot be synced. */
    return fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? SG_OK : io_error(err, "sync", path);
}

/* What a path that is no plain file names (a pipe, a device, the file behind a link) must not be replaced by a file. */
static bool names_another(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static sg_status write_to(const char *path, const char *name, const void *data, size_t size, sg_error *err)
{
    int fd = sg_file_open(path, name);
    if (fd < 0)
        return io_error(err, "create", path);
    sg_status status = write_all(fd, data, size, path, err);
    if (close(fd) != 0 && status == SG_OK)
        status = io_error(err, "close", path);
    return status;
}

static sg_status rename_to(const char *from, const char *to, sg_error *err)
{
    return rename(from, to) == 0 ? SG_OK : io_error(err, "rename to", to);
}

/* Files that this process has begun, for when it must end at once. They come to be and go under the lock alone: what is removed at
 * such an end is all there is, and nothing comes behind it. */
typedef struct begun {
    struct begun *next;
    bool apart; /* beside their place */
    char name[];
} begun;

static begun *unfinished;
static pthread_mutex_t unfinished_lock = PTHREAD_MUTEX_INITIALIZER;

static sg_status create(const char *path, const char *name, sg_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return fd >= 0 && close(fd) == 0 ? SG_OK : io_error(err, "create", name);
}

sg_status sg_file_begin(const char *path, char **name, sg_error *err)
{
    size_t length = strlen(path) + 32;
    begun *b = sg_alloc(sizeof *b + length);
    if (!b)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    b->apart = !names_another(path);
    if (b->apart)
        snprintf(b->name, length, "%s.tmp%ld", path, (long)getpid());
    else
        snprintf(b->name, length, "%s", path);
    pthread_mutex_lock(&unfinished_lock);
    sg_status status = b->apart ? create(b->name, path, err) : SG_OK;
    if (status == SG_OK) {
        b->next = unfinished;
        unfinished = b;
    }
    pthread_mutex_unlock(&unfinished_lock);
    if (status != SG_OK) {
        sg_free(b);
        return status;
    }
    *name = b->name;
    return SG_OK;
}

int sg_file_open(const char *path, const char *name)
{
    bool apart = strcmp(path, name) != 0; /* then it is there, or was abandoned */
    return open(name, O_WRONLY | (apart ? 0 : O_CREAT) | O_TRUNC | O_CLOEXEC, 0666);
}

static void forget(const begun *b)
{
    begun **at = &unfinished;
    while (*at != b)
        at = &(*at)->next;
    *at = b->next;
}

sg_status sg_file_end(const char *path, char *name, sg_status written, sg_error *err)
{
    begun *b = (begun *)(name - offsetof(begun, name));
    pthread_mutex_lock(&unfinished_lock);
    forget(b);
    if (b->apart && written == SG_OK)
        written = rename_to(name, path, err);
    if (b->apart && written != SG_OK)
        unlink(name);
    pthread_mutex_unlock(&unfinished_lock);
    if (b->apart && written == SG_OK)
        written = sync_folder_of(path, err);
    sg_free(b);
    return written;
}

void sg_file_abandon_all(void)
{
    pthread_mutex_lock(&unfinished_lock);
    for (const begun *b = unfinished; b; b = b->next)
        if (b->apart)
            unlink(b->name);
    /* Locked for good: no other thread comes as far as to miss its file. */
}

sg_status sg_file_write(const char *path, const void *data, size_t size, sg_error *err)
{
    char *name;
    SG_TRY(sg_file_begin(path, &name, err));
    return sg_file_end(path, name, write_to(path, name, data, size, err), err);
}

/* Under the lock, as what is added to a file. */
static sg_status overwrite(int fd, const void *data, size_t size, const char *path, sg_error *err)
{
    enum { BLOCK = 512 };
    struct stat st;
    if (fstat(fd, &st) != 0)
        return io_error(err, "overwrite", path);
    if (!S_ISREG(st.st_mode) || (int64_t)size > (int64_t)st.st_blocks * BLOCK)
        return sg_fail(err, SG_E_IO, "cannot overwrite %s: it has no room for %zu bytes", path, size);
    pthread_mutex_lock(&unfinished_lock);
    bool all = pwrite(fd, data, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0 && fsync(fd) == 0;
    pthread_mutex_unlock(&unfinished_lock);
    return all ? SG_OK : io_error(err, "overwrite", path);
}

sg_status sg_file_overwrite(const char *path, const void *data, size_t size, sg_error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return io_error(err, "overwrite", path);
    sg_status status = overwrite(fd, data, size, path, err);
    if (close(fd) != 0 && status == SG_OK)
        status = io_error(err, "close", path);
    return status;
}

/* Of a file that is open at its end. Under the lock, so that an end at once comes before or behind the bytes. */
static sg_status append_to(int fd, const void *data, size_t size, const char *path, sg_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return io_error(err, "append to", path);
    pthread_mutex_lock(&unfinished_lock);
    sg_status status = write_all(fd, data, size, path, err);
    if (status != SG_OK && S_ISREG(st.st_mode) && ftruncate(fd, st.st_size) != 0)
        status = io_error(err, "undo what was added to", path);
    pthread_mutex_unlock(&unfinished_lock);
    return status;
}

sg_status sg_file_append(const char *path, const void *data, size_t size, sg_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return io_error(err, "append to", path);
    sg_status status = append_to(fd, data, size, path, err);
    if (close(fd) != 0 && status == SG_OK)
        status = io_error(err, "close", path);
    return status;
}

sg_status sg_file_rename(const char *from, const char *to, sg_error *err)
{
    SG_TRY(rename_to(from, to, err));
    return sync_folder_of(to, err);
}

/* Of a pipe or device, whose size nobody knows before its end. */
static sg_status read_stream(FILE *in, const char *path, size_t limit, char **data, size_t *size, sg_error *err)
{
    char *buffer = NULL;
    size_t got = 0, room = 0;
    for (;;) {
        if (got == room) {
            room = room ? 2 * room : 1 << 16;
            char *more = sg_realloc(buffer, room + 1);
            if (!more) {
                sg_free(buffer);
                return sg_fail(err, SG_E_MEMORY, "out of memory for %s", path);
            }
            buffer = more;
        }
        size_t n = fread(buffer + got, 1, room - got, in);
        got += n;
        if (n == 0 || got > limit)
            break;
    }
    if (got <= limit && !ferror(in)) {
        buffer[got] = 0;
        *data = buffer;
        *size = got;
        return SG_OK;
    }
    sg_free(buffer);
    return got > limit ? sg_fail_at(err, SG_E_DATA, path, 0, 0, "more than the limit of %zu bytes", limit)
                       : io_error(err, "read", path);
}

static sg_status read_open(FILE *in, const char *path, size_t limit, char **data, size_t *size, sg_error *err)
{
    struct stat st;
    if (fstat(fileno(in), &st) != 0 || S_ISDIR(st.st_mode)) {
        errno = S_ISDIR(st.st_mode) ? EISDIR : errno;
        return io_error(err, "read", path);
    }
    if (!S_ISREG(st.st_mode))
        return read_stream(in, path, limit, data, size, err);
    if (st.st_size < 0 || (uint64_t)st.st_size > limit)
        return sg_fail_at(err, SG_E_DATA, path, 0, 0, "the file has %lld bytes, over the limit of %zu",
                          (long long)st.st_size, limit);
    size_t bytes = (size_t)st.st_size;
    char *buffer = sg_alloc(bytes + 1);
    if (!buffer)
        return sg_fail(err, SG_E_MEMORY, "out of memory for %s", path);
    size_t got = fread(buffer, 1, bytes, in);
    if (ferror(in)) {
        sg_free(buffer);
        return io_error(err, "read", path);
    }
    buffer[got] = 0;
    *data = buffer;
    *size = got;
    return SG_OK;
}

sg_status sg_file_read(const char *path, size_t limit, char **data, size_t *size, sg_error *err)
{
    FILE *in = fopen(path, "rbe");
    if (!in)
        return io_error(err, "open", path);
    sg_status status = read_open(in, path, limit, data, size, err);
    fclose(in);
    return status;
}

sg_status sg_folder_make(const char *path, sg_error *err)
{
    char *part = sg_strdup(path);
    if (!part)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_status status = SG_OK;
    for (char *at = part + 1; status == SG_OK && part[0]; at++) {
        char kept = *at;
        if (kept != '/' && kept != 0)
            continue;
        *at = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            status = io_error(err, "make folder", part);
        *at = kept;
        if (!kept)
            break;
    }
    struct stat st;
    if (status == SG_OK && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
        status = sg_fail(err, SG_E_IO, "cannot make folder %s: a file is in the way", path);
    sg_free(part);
    return status;
}

/* Entries are removed by their own path; links are unlinked, never followed. */
static sg_status remove_entry(const char *folder, const char *name, sg_error *err)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = sg_alloc(size);
    struct stat st;
    if (!path)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    snprintf(path, size, "%s/%s", folder, name);
    sg_status status = SG_OK;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
        status = sg_folder_remove(path, err);
    else if (unlink(path) != 0)
        status = io_error(err, "remove", path);
    sg_free(path);
    return status;
}

sg_status sg_folder_remove(const char *path, sg_error *err)
{
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? SG_OK : io_error(err, "open folder", path);
    sg_status status = SG_OK;
    for (struct dirent *e; status == SG_OK && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status = remove_entry(path, e->d_name, err);
    closedir(dir);
    if (status == SG_OK && rmdir(path) != 0)
        status = io_error(err, "remove folder", path);
    return status;
}
