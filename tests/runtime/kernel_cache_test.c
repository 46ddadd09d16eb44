/* Compiled kernels kept on disk: the right one or none, whatever has happened to the files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "graph/graph.h"
#include "runtime/cuda/kernel_cache_internal.h"

static char base[64];

static int make_base(void **state)
{
    (void)state;
    snprintf(base, sizeof base, "/tmp/sealgraph-cache-XXXXXX");
    return mkdtemp(base) ? 0 : -1;
}

static int remove_base(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command);
}

/* A folder of a test's own, not yet there. */
static void use_folder(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s/below", base, name);
    setenv("SEALGRAPH_CACHE", path, 1);
}

static void finds(const char *key, const char *image, size_t size)
{
    size_t got = 0;
    char *found = sg_cuda_cache_read(key, &got);
    assert_non_null(found);
    assert_int_equal(got, size);
    assert_memory_equal(found, image, size);
    sg_free(found);
}

static void finds_nothing(const char *key)
{
    size_t size;
    assert_null(sg_cuda_cache_read(key, &size));
}

/* Files in the folder of the variable, and the last one's name. */
static int files(char *name, size_t size)
{
    char command[256], line[128];
    int n = 0;
    snprintf(command, sizeof command, "ls %s 2>/dev/null", getenv("SEALGRAPH_CACHE"));
    FILE *out = popen(command, "r");
    assert_non_null(out);
    while (fgets(line, sizeof line, out)) {
        line[strcspn(line, "\n")] = 0;
        if (name)
            snprintf(name, size, "%s/%.100s", getenv("SEALGRAPH_CACHE"), line);
        n++;
    }
    pclose(out);
    return n;
}

static void kept_by_key(void **state)
{
    (void)state;
    static const char one[] = "code\0of one", two[] = "of two";
    use_folder("keys");
    finds_nothing("one");
    sg_cuda_cache_write("one", one, sizeof one);
    sg_cuda_cache_write("two", two, sizeof two);
    finds("one", one, sizeof one);
    finds("two", two, sizeof two);
    finds_nothing("three");
    sg_cuda_cache_write("one", two, sizeof two); /* written anew */
    finds("one", two, sizeof two);
    assert_int_equal(files(NULL, 0), 2);
}

/* Every byte changed, every length but the right one, and a file that belongs to another key. */
static void damage_is_seen(void **state)
{
    (void)state;
    static const char image[] = "machine code";
    char path[512], other[512];
    use_folder("damage");
    sg_cuda_cache_write("key", image, sizeof image);
    assert_int_equal(files(path, sizeof path), 1);
    FILE *file = fopen(path, "rb");
    char whole[256];
    size_t n = fread(whole, 1, sizeof whole, file);
    fclose(file);
    assert_in_range(n, sizeof image + 3, sizeof whole - 1);
    for (size_t cut = 0; cut <= n + 1; cut++) {
        file = fopen(path, "wb");
        assert_int_equal(fwrite(whole, 1, cut, file), cut);
        fclose(file);
        if (cut != n)
            finds_nothing("key");
        else
            finds("key", image, sizeof image);
    }
    for (size_t at = 0; at < n; at++) {
        whole[at] ^= 4;
        file = fopen(path, "wb");
        assert_int_equal(fwrite(whole, 1, n, file), n);
        fclose(file);
        whole[at] ^= 4;
        finds_nothing("key");
    }
    sg_cuda_cache_write("key", image, sizeof image);
    finds("key", image, sizeof image);
    sg_cuda_cache_write("kez", image, sizeof image);
    char command[1100];
    snprintf(command, sizeof command, "cd %s && set -- * && cp $1 $2.saved && cp $2 $1 && mv $2.saved $2",
             getenv("SEALGRAPH_CACHE"));
    assert_int_equal(system(command), 0);
    finds_nothing("key");
    finds_nothing("kez");
    assert_int_equal(files(other, sizeof other), 2);
}

static void folders(void **state)
{
    (void)state;
    char path[128];
    setenv("SEALGRAPH_CACHE", "off", 1);
    setenv("XDG_CACHE_HOME", base, 1);
    sg_cuda_cache_write("off", "x", 1);
    finds_nothing("off");
    snprintf(path, sizeof path, "%s/sealgraph", base);
    assert_int_equal(access(path, F_OK), -1);
    unsetenv("SEALGRAPH_CACHE");
    sg_cuda_cache_write("xdg", "x", 1);
    assert_int_equal(access(path, F_OK), 0);
    finds("xdg", "x", 1);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", base, 1);
    finds_nothing("xdg");
    sg_cuda_cache_write("home", "x", 1);
    snprintf(path, sizeof path, "%s/.cache/sealgraph", base);
    assert_int_equal(access(path, F_OK), 0);
    unsetenv("HOME");
    sg_cuda_cache_write("nowhere", "x", 1);
    finds_nothing("home");
    setenv("SEALGRAPH_CACHE", "/dev/null/no", 1); /* cannot be made */
    sg_cuda_cache_write("nowhere", "x", 1);
    finds_nothing("nowhere");
}

/* Others' files are not run, and a link is not followed to one. */
static void only_own_files(void **state)
{
    (void)state;
    char path[512], moved[520];
    use_folder("own");
    sg_cuda_cache_write("key", "x", 1);
    files(path, sizeof path);
    snprintf(moved, sizeof moved, "%s.moved", path);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink(moved, path), 0);
    finds_nothing("key");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(300); /* a pipe that nobody writes to is not waited for */
    finds_nothing("key");
    alarm(0);
    assert_int_equal(rename(moved, path), 0);
    finds("key", "x", 1);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        finds_nothing("key");
    }
}

/* Processes that write and read the same keys see whole files only. */
static void several_processes(void **state)
{
    (void)state;
    enum { CHILDREN = 4, ROUNDS = 200, SIZE = 20000 };
    static char image[SIZE];
    use_folder("several");
    memset(image, 'k', sizeof image);
    for (int c = 0; c < CHILDREN; c++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child > 0)
            continue;
        int wrong = 0;
        for (int i = 0; i < ROUNDS; i++) {
            size_t size = 0;
            char *found;
            sg_cuda_cache_write(i % 2 ? "a" : "b", image, sizeof image);
            found = sg_cuda_cache_read(i % 2 ? "a" : "b", &size);
            wrong += !found || size != sizeof image || memcmp(found, image, size) != 0;
            sg_free(found);
        }
        _exit(wrong != 0);
    }
    for (int c = 0; c < CHILDREN; c++) {
        int status = -1;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(files(NULL, 0), 2);
}

/* The folder does not grow without end: the one used longest ago goes, and files that are not ours stay. */
static void room_is_made(void **state)
{
    (void)state;
    enum { MOST = 1024 };
    char key[32], path[512], stranger[512];
    use_folder("room");
    sg_cuda_cache_write("first", "x", 1);
    files(path, sizeof path);
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    snprintf(stranger, sizeof stranger, "%s/notes.txt", getenv("SEALGRAPH_CACHE"));
    fclose(fopen(stranger, "w"));
    assert_int_equal(utimensat(0, stranger, old, 0), 0);
    sg_cuda_cache_write("second", "x", 1);
    assert_int_equal(utimensat(0, path, old, 0), 0);
    finds("first", "x", 1); /* used now */
    for (int i = 2; i < MOST; i++) {
        snprintf(key, sizeof key, "key %d", i);
        sg_cuda_cache_write(key, "x", 1);
    }
    assert_int_equal(files(NULL, 0), MOST + 1);
    assert_int_equal(utimensat(0, path, old, 0), 0);
    sg_cuda_cache_write("one more", "x", 1);
    assert_int_equal(files(NULL, 0), MOST + 1);
    finds_nothing("first");
    finds("second", "x", 1);
    finds("one more", "x", 1);
    assert_int_equal(access(stranger, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_by_key),    cmocka_unit_test(damage_is_seen),    cmocka_unit_test(folders),
        cmocka_unit_test(only_own_files), cmocka_unit_test(several_processes), cmocka_unit_test(room_is_made),
    };
    return cmocka_run_group_tests_name("kernel cache", tests, make_base, remove_base);
}
