/* bench_png.c - SVG as PNG, by librsvg's program where it is installed: letters and curves want a library, and none of those that
 * draw them is worth linking into a program that draws one picture. */
#include "cli/bench_internal.h"

#include "serialize/serialize.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "rsvg-convert"

/* Runs it from `in` to `out`, or to nowhere (-1); its exit status, or -1 if it cannot be run. */
static int convert(int in, int out, const char *option)
{
    char *const arguments[] = {PROGRAM, "--zoom=2", (char *)(uintptr_t)option, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none; /* signals.c blocks some, which a child would inherit */
    pid_t child;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawnattr_init(&attr) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return -1;
    }
    sigemptyset(&none);
    bool ready = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO) == 0 &&
                 (out < 0 ? posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0)
                          : posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO)) == 0 &&
                 posix_spawnattr_setsigmask(&attr, &none) == 0 &&
                 posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK) == 0;
    extern char **environ;
    if (ready && posix_spawnp(&child, PROGRAM, &actions, &attr, arguments, environ) == 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

sg_status sgi_bench_png_ready(sg_error *err)
{
    if (convert(STDIN_FILENO, -1, "--version") == 0)
        return SG_OK;
    return sg_fail(err, SG_E_CONFIG,
                   "a plot as PNG needs the program " PROGRAM
                   " (Debian's librsvg2-bin): install it, or give a name that "
                   "ends in .svg");
}

/* Pipes and devices cannot be synced. */
static bool keep(int fd) { return fsync(fd) == 0 || errno == EINVAL || errno == EROFS; }

static sg_status convert_to(FILE *svg, const char *path, const char *name, sg_error *err)
{
    rewind(svg);
    int out = sg_file_open(path, name);
    bool good = out >= 0 && convert(fileno(svg), out, NULL) == 0 && keep(out);
    if (out >= 0)
        close(out);
    return good ? SG_OK : sg_fail(err, SG_E_IO, PROGRAM " cannot write %s", path);
}

sg_status sgi_bench_png(FILE *svg, const char *path, sg_error *err)
{
    char *name;
    if (fflush(svg) != 0 || ferror(svg))
        return sg_fail(err, SG_E_IO, "cannot write a temporary file: %s", strerror(errno));
    SG_TRY(sg_file_begin(path, &name, err));
    return sg_file_end(path, name, convert_to(svg, path, name, err), err);
}
