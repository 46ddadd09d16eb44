/* kernel_cache.c - compiled kernels in files of $SEALGRAPH_CACHE, $XDG_CACHE_HOME/sealgraph or ~/.cache/sealgraph; with
 * SEALGRAPH_CACHE=off in none.
 *
 * A file is a header, the key and the machine code, and is named by a hash of the key: the key itself decides whether it is the right
 * one, and a sum over all whether it is whole. Files are written beside their place and renamed, so that several processes may share
 * a folder. At MOST_FILES the one that was used longest ago makes room. */
#include "runtime/cuda/kernel_cache_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/graph.h"
#include "graph/random_internal.h"

enum { MOST_PATH = 4096, MOST_BYTES = 1 << 28, MOST_FILES = 1024, NAME_DIGITS = 16 };

typedef struct header {
    char magic[8];
    uint64_t key, image; /* bytes */
    uint64_t sum;        /* of both */
} header;
static const char magic[8] = "sgcubin1";

/* FNV-1a. */
static uint64_t sum_of(uint64_t sum, const char *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (unsigned char)data[i]) * 0x100000001b3u;
    return sum;
}

static header header_of(const char *key, const char *image, size_t size)
{
    header h = {.key = strlen(key), .image = size};
    memcpy(h.magic, magic, sizeof magic);
    h.sum = sum_of(sum_of(0xcbf29ce484222325u, key, h.key), image, size);
    return h;
}

/* ---- places */

/* False: nothing is kept. Relative paths in XDG_CACHE_HOME count as unset, as its specification says. */
static bool find_folder(char *out, size_t size)
{
    const char *given = getenv("SEALGRAPH_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (given && *given)
        n = strcmp(given, "off") == 0 ? -1 : snprintf(out, size, "%s", given);
    else if (xdg && *xdg == '/')
        n = snprintf(out, size, "%s/sealgraph", xdg);
    else if (home && *home == '/')
        n = snprintf(out, size, "%s/.cache/sealgraph", home);
    return n > 0 && n < (int)size;
}

static bool find_file(const char *key, char *out, size_t size)
{
    char folder[MOST_PATH];
    if (!find_folder(folder, sizeof folder))
        return false;
    int n = snprintf(out, size, "%s/%0*llx.cubin", folder, NAME_DIGITS, (unsigned long long)sg_hash_text(key));
    return n < (int)size;
}

/* The folder of a file, with those above it. */
static void make_folders(const char *file)
{
    char path[MOST_PATH];
    snprintf(path, sizeof path, "%s", file);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
}

/* ---- reading */

static bool read_all(int fd, char *to, size_t n)
{
    while (n > 0) {
        ssize_t got = read(fd, to, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        n -= (size_t)got;
    }
    return true;
}

/* The code of a kernel runs with the rights of this user, so nobody else's is taken. */
static bool is_own(int fd, const header *h)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && h->key < MOST_BYTES &&
           h->image < MOST_BYTES && (uint64_t)st.st_size == sizeof *h + h->key + h->image;
}

static char *read_open(int fd, const char *key, size_t *size)
{
    header h;
    if (!read_all(fd, (char *)&h, sizeof h) || memcmp(h.magic, magic, sizeof magic) != 0 || !is_own(fd, &h) ||
        h.key != strlen(key))
        return NULL;
    char *all = sg_alloc(h.key + h.image + 1);
    bool good = all && read_all(fd, all, h.key + h.image) && memcmp(all, key, h.key) == 0;
    if (good) {
        memmove(all, all + h.key, h.image);
        good = header_of(key, all, h.image).sum == h.sum;
    }
    if (!good) {
        sg_free(all);
        return NULL;
    }
    *size = h.image;
    futimens(fd, NULL); /* it was used now */
    return all;
}

/* Without waiting for a writer, should a pipe be in the file's place. */
char *sg_cuda_cache_read(const char *key, size_t *size)
{
    char path[MOST_PATH];
    int fd = find_file(key, path, sizeof path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (fd < 0)
        return NULL;
    char *image = read_open(fd, key, size);
    close(fd);
    return image;
}

/* ---- writing */

static bool is_ours(const char *name)
{
    return strspn(name, "0123456789abcdef") == NAME_DIGITS && strncmp(name + NAME_DIGITS, ".cubin", 6) == 0;
}

/* One comes, one goes; what a killed process left of a file it was writing gets old as well. */
static void make_room(const char *file)
{
    char folder[MOST_PATH], oldest[256] = "";
    struct timespec when = {0};
    int count = 0;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(file, '/') - file), file);
    DIR *entries = opendir(folder);
    for (const struct dirent *e = entries ? readdir(entries) : NULL; e; e = readdir(entries)) {
        struct stat st;
        if (!is_ours(e->d_name) || fstatat(dirfd(entries), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        bool older =
            st.st_mtim.tv_sec < when.tv_sec || (st.st_mtim.tv_sec == when.tv_sec && st.st_mtim.tv_nsec < when.tv_nsec);
        if (count++ == 0 || older) {
            when = st.st_mtim;
            snprintf(oldest, sizeof oldest, "%s", e->d_name);
        }
    }
    if (count > MOST_FILES)
        unlinkat(dirfd(entries), oldest, 0);
    if (entries)
        closedir(entries);
}

static bool write_all(int fd, const char *from, size_t n)
{
    while (n > 0) {
        ssize_t put = write(fd, from, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        from += put;
        n -= (size_t)put;
    }
    return true;
}

void sg_cuda_cache_write(const char *key, const char *image, size_t size)
{
    char path[MOST_PATH], beside[MOST_PATH + 8];
    if (!find_file(key, path, sizeof path))
        return;
    make_folders(path);
    snprintf(beside, sizeof beside, "%s.XXXXXX", path);
    int fd = mkstemp(beside);
    if (fd < 0)
        return;
    header h = header_of(key, image, size);
    bool good = write_all(fd, (const char *)&h, sizeof h) && write_all(fd, key, h.key) && write_all(fd, image, size);
    good &= close(fd) == 0;
    if (!good || rename(beside, path) != 0)
        unlink(beside);
    else
        make_room(path);
}
