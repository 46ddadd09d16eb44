/* Whole files: a plain file is replaced, what stands for another file is written through. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/model_files.h"

static void holds(const char *path, const char *text)
{
    char got[64] = {0};
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, sizeof got - 1), strlen(text));
    assert_string_equal(got, text);
    close(fd);
}

static mode_t kind(const char *path)
{
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & S_IFMT;
}

static void plain_files_are_replaced(void **state)
{
    (void)state;
    char *folder = new_folder(), *path = file_in(folder, "a"), *other = file_in(folder, "b");
    assert_int_equal(sg_file_write(path, "first", 5, NULL), SG_OK);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(sg_file_write(path, "then", 4, NULL), SG_OK);
    holds(path, "then");
    holds(other, "first");
    sg_folder_remove(folder, NULL);
    free(path);
    free(other);
    free(folder);
}

static void links_stay_links(void **state)
{
    (void)state;
    char *folder = new_folder(), *path = file_in(folder, "a"), *link = file_in(folder, "link");
    assert_int_equal(sg_file_write(path, "longer than this", 16, NULL), SG_OK);
    assert_int_equal(symlink("a", link), 0);
    assert_int_equal(sg_file_write(link, "through", 7, NULL), SG_OK);
    assert_int_equal(kind(link), S_IFLNK);
    holds(path, "through");
    sg_folder_remove(folder, NULL);
    free(path);
    free(link);
    free(folder);
}

static void pipes_stay_pipes(void **state)
{
    (void)state;
    char *folder = new_folder(), *path = file_in(folder, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDWR | O_NONBLOCK);
    assert_true(reader >= 0);
    assert_int_equal(sg_file_write(path, "flows", 5, NULL), SG_OK);
    assert_int_equal(kind(path), S_IFIFO);
    holds(path, "flows");
    close(reader);
    sg_folder_remove(folder, NULL);
    free(path);
    free(folder);
}

/* Bytes are added to a file whole: where there is no room for all, none are. */
static void bytes_are_added(void **state)
{
    (void)state;
    static const char many[3000];
    struct rlimit old, small = {2048, RLIM_INFINITY};
    char *folder = new_folder(), *path = file_in(folder, "log");
    assert_int_equal(sg_file_append(path, "one\n", 4, NULL), SG_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    sg_status status = sg_file_append(path, many, sizeof many, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, SG_E_IO);
    holds(path, "one\n");
    assert_int_equal(sg_file_append(path, "two\n", 4, NULL), SG_OK);
    holds(path, "one\ntwo\n");
    assert_int_equal(sg_file_append(folder, "x", 1, NULL), SG_E_IO);
    sg_folder_remove(folder, NULL);
    free(path);
    free(folder);
}

/* In the room that a file has: one block holds a few bytes more. */
static void files_are_written_over(void **state)
{
    (void)state;
    static const char many[1 << 20];
    char *folder = new_folder(), *path = file_in(folder, "a"), *other = file_in(folder, "b"),
         *pipe = file_in(folder, "pipe");
    assert_int_equal(sg_file_write(path, "first", 5, NULL), SG_OK);
    assert_int_equal(link(path, other), 0);
    assert_int_equal(sg_file_overwrite(path, "second", 6, NULL), SG_OK);
    holds(other, "second");
    assert_int_equal(sg_file_overwrite(path, "3", 1, NULL), SG_OK);
    assert_int_equal(sg_file_overwrite(path, many, sizeof many, NULL), SG_E_IO);
    holds(other, "3");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    int reader = open(pipe, O_RDWR | O_NONBLOCK);
    assert_int_equal(sg_file_overwrite(pipe, "x", 1, NULL), SG_E_IO);
    close(reader);
    assert_int_equal(sg_file_overwrite(folder, "x", 1, NULL), SG_E_IO);
    sg_folder_remove(folder, NULL);
    free(path);
    free(other);
    free(pipe);
    free(folder);
}

/* A process that must end at once leaves no half of a file, and nothing is taken from what is whole or stands for another. */
static void begun_files_are_abandoned(void **state)
{
    (void)state;
    char *folder = new_folder(), *whole = file_in(folder, "whole"), *half = file_in(folder, "half"),
         *link = file_in(folder, "link"), *names[3];
    assert_int_equal(symlink("whole", link), 0);
    const char *const paths[] = {whole, half, link};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sg_file_begin(paths[i], &names[i], NULL), SG_OK);
        FILE *out = fopen(names[i], "w");
        assert_non_null(out);
        fputs("text", out);
        fclose(out);
    }
    assert_int_equal(sg_file_end(whole, names[0], SG_OK, NULL), SG_OK);
    assert_int_equal(access(names[1], F_OK), 0);
    pid_t child = fork();
    if (child == 0) {
        sg_file_abandon_all();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(access(names[1], F_OK), -1);
    assert_int_equal(kind(link), S_IFLNK);
    holds(whole, "text");
    assert_int_equal(sg_file_end(link, names[2], SG_OK, NULL), SG_OK);
    assert_int_equal(sg_file_end(half, names[1], SG_E_IO, NULL), SG_E_IO);
    holds(whole, "text");
    sg_folder_remove(folder, NULL);
    free(whole);
    free(half);
    free(link);
    free(folder);
}

static void *write_on(void *path)
{
    static const char text[20000];
    for (;;)
        sg_file_write(path, text, sizeof text, NULL);
    return NULL;
}

/* At whatever moment it must end, and whatever its threads are about. */
static void writers_are_abandoned(void **state)
{
    (void)state;
    char *folder = new_folder(), *paths[] = {file_in(folder, "a"), file_in(folder, "b")};
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            for (int k = 0; k < 2; k++)
                pthread_create(&thread, NULL, write_on, paths[k]);
            usleep(500 + 17 * (unsigned)i);
            sg_file_abandon_all();
            _exit(0);
        }
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        assert_null(strstr(e->d_name, ".tmp"));
    closedir(dir);
    sg_folder_remove(folder, NULL);
    free(paths[0]);
    free(paths[1]);
    free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_files_are_replaced), cmocka_unit_test(links_stay_links),
        cmocka_unit_test(pipes_stay_pipes),         cmocka_unit_test(bytes_are_added),
        cmocka_unit_test(files_are_written_over),   cmocka_unit_test(begun_files_are_abandoned),
        cmocka_unit_test(writers_are_abandoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
