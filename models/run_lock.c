/* run_lock.c - a run directory belongs to one process at a time: a second one would undo checkpoints and mix the logs.
 *
 * What is locked is the directory itself, by whatever name it is reached, and the lock ends with the process, however that ends.
 * Every directory on the way to it is locked too, shared with the other runs inside: a run that holds one of these as its own,
 * be it to train there or to move it aside, would pull this one's files away. So a run keeps out all that begin above it, and is
 * kept out by them. A file system that knows no locks does without, and so does a directory that this user may not read, which
 * locks ask for, but passing through does not. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/train_internal.h"

static bool is_same(DIR *held, const struct stat *named)
{
    struct stat st;
    return held && fstat(dirfd(held), &st) == 0 && st.st_ino == named->st_ino && st.st_dev == named->st_dev;
}

static bool is_busy(DIR *folder, int mode) { return flock(dirfd(folder), mode | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

static sg_status lock_own(const char *folder, DIR **out, sg_error *err)
{
    struct stat named;
    if (*out)
        closedir(*out);
    if (!(*out = opendir(folder)))
        return sg_fail(err, SG_E_IO, "cannot open folder %s: %s", folder, strerror(errno));
    bool mine = !is_busy(*out, LOCK_EX) && stat(folder, &named) == 0 &&
                is_same(*out, &named); /* else it was moved aside between the two calls */
    return mine ? SG_OK
                : sg_fail(err, SG_E_ARGUMENT, "%s: another process is training in this directory, or in one inside it",
                          folder);
}

static bool is_run(const char *folder)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/config.yml", folder) < (int)sizeof path && access(path, F_OK) == 0;
}

static sg_status keep(sgi_group *g, DIR *folder, sg_error *err)
{
    DIR **more = sg_calloc(g->n_above + 1, sizeof *more);
    if (!more) {
        closedir(folder);
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    }
    if (g->n_above)
        memcpy(more, g->above, (size_t)g->n_above * sizeof *more);
    sg_free(g->above);
    g->above = more;
    g->above[g->n_above++] = folder;
    return SG_OK;
}

/* A directory on the way to `own`. One that somebody has locked without training there (a script, so as to run once at a time) is
 * none of ours. */
static sg_status share(sgi_group *g, DIR *own, const char *folder, sg_error *err)
{
    struct stat named;
    if (stat(folder, &named) != 0 || is_same(own, &named) || is_same(g->lock, &named))
        return SG_OK;
    for (int32_t i = 0; i < g->n_above; i++)
        if (is_same(g->above[i], &named))
            return SG_OK;
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == EACCES ? SG_OK : sg_fail(err, SG_E_IO, "cannot open folder %s: %s", folder, strerror(errno));
    if (!is_busy(dir, LOCK_SH))
        return keep(g, dir, err);
    closedir(dir);
    return is_run(folder) ? sg_fail(err, SG_E_ARGUMENT, "another process is training in %s", folder) : SG_OK;
}

/* A directory's real path, and those of all above it. */
static sg_status share_path(sgi_group *g, DIR *own, const char *folder, sg_error *err)
{
    char *path = realpath(folder, NULL);
    sg_status status = SG_OK;
    for (char *end = path ? path + strlen(path) : NULL; status == SG_OK && end; end = strrchr(path, '/')) {
        *end = 0;
        status = share(g, own, path[0] ? path : "/", err);
        if (!path[0])
            break;
    }
    free(path);
    return status;
}

/* Links on the way have two places that must stay: their own and the one they name. */
static sg_status share_above(sgi_group *g, DIR *own, const char *folder, sg_error *err)
{
    char *part = sg_strdup(folder);
    sg_status status = part ? share_path(g, own, folder, err) : sg_fail(err, SG_E_MEMORY, "out of memory");
    for (char *slash = part ? strchr(part + 1, '/') : NULL; status == SG_OK && slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        status = share_path(g, own, part, err);
        *slash = '/';
    }
    sg_free(part);
    return status;
}

/* A seed's directory may be trained by a name that does not lead through that of the whole: where it was before it was moved here,
 * or a link's target. The lock is kept only where that can still happen: a thousand open directories would be too many. */
static sg_status lock_seed(sgi_run *run, sg_error *err)
{
    struct stat above;
    size_t size = strlen(run->folder) + 4;
    char *path = sg_alloc(size);
    if (!path)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    snprintf(path, size, "%s/..", run->folder);
    sg_status status = lock_own(run->folder, &run->lock, err);
    if (status == SG_OK && stat(path, &above) == 0 && is_same(run->group->lock, &above)) {
        closedir(run->lock);
        run->lock = NULL;
    } else if (status == SG_OK) {
        status = share_above(run->group, run->lock, run->folder, err);
    }
    sg_free(path);
    return status;
}

sg_status sgi_lock(sgi_run *run, sg_error *err)
{
    sgi_group *g = run->group;
    if (run->folder != g->options->folder)
        return lock_seed(run, err);
    SG_TRY(lock_own(run->folder, &g->lock, err));
    return share_above(g, g->lock, run->folder, err);
}

void sgi_unlock(sgi_group *g)
{
    for (int32_t i = 0; i < g->n; i++)
        if (g->run[i].lock)
            closedir(g->run[i].lock);
    for (int32_t i = 0; i < g->n_above; i++)
        closedir(g->above[i]);
    if (g->lock)
        closedir(g->lock);
    sg_free(g->above);
}
