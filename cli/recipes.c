/* recipes.c - where the recipes are that come with the program, and which there are. */
#include "cli/cli.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the program's folder: where `make install` puts them, and in the sources around a build folder. */
static const char *const places[] = {"../" SG_DATADIR "/sealgraph/recipes", "../models/recipes"};

const char *sg_cli_recipes(char out[PATH_MAX])
{
    char program[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    char *slash = strrchr(program, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%.*s/%s", (int)(slash - program), program, places[i]);
        if (realpath(path, out))
            return out;
    }
    return NULL;
}

/* What a recipe is stands in its first line, a comment. */
static void read_summary(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "r");
    out[0] = 0;
    if (!file)
        return;
    if (!fgets(out, (int)size, file) || out[0] != '#')
        out[0] = 0;
    fclose(file);
    out[strcspn(out, "\r\n")] = 0;
    size_t start = strspn(out, "# ");
    memmove(out, out + start, strlen(out + start) + 1);
}

sg_status sg_cli_each_recipe(sg_recipe_fn *visit, void *user, sg_error *err)
{
    char folder[PATH_MAX], pattern[PATH_MAX + 16], summary[256];
    glob_t found;
    if (!sg_cli_recipes(folder))
        return sg_fail(err, SG_E_IO, "this program has no recipes beside it: `make install` puts them there");
    snprintf(pattern, sizeof pattern, "%s/*/*.yml", folder);
    int failed = glob(pattern, 0, NULL, &found);
    if (failed == GLOB_NOMATCH)
        return sg_fail_at(err, SG_E_IO, folder, 0, 0, "there are no recipes, FOLDER/NAME.yml, in the program's folder");
    if (failed)
        return sg_fail_at(err, SG_E_IO, folder, 0, 0, "cannot list the program's recipes: %s", strerror(errno));
    for (size_t i = 0; i < found.gl_pathc; i++) {
        read_summary(found.gl_pathv[i], summary, sizeof summary);
        visit(user, found.gl_pathv[i] + strlen(folder) + 1, summary);
    }
    globfree(&found);
    return SG_OK;
}

/* ---- a name that is none */

typedef struct guess {
    const char *name;
    char best[256];
    int32_t distance;
} guess;

/* With or without its .yml. */
static void consider(void *user, const char *name, const char *summary)
{
    enum { FARTHEST = 2 };
    guess *g = user;
    size_t n = strlen(name) - strlen(".yml");
    char bare[sizeof g->best];
    (void)summary;
    snprintf(bare, sizeof bare, "%.*s", (int)n, name);
    int32_t whole = sg_edit_distance(g->name, name, FARTHEST), part = sg_edit_distance(g->name, bare, FARTHEST);
    int32_t distance = whole < part ? whole : part;
    if (distance > FARTHEST || (g->best[0] && distance >= g->distance))
        return;
    snprintf(g->best, sizeof g->best, "%s", name);
    g->distance = distance;
}

sg_status sg_cli_recipe_is_absent(const char *name, sg_error *err)
{
    const sg_error had = *err;
    guess g = {.name = name};
    if (sg_cli_each_recipe(consider, &g, err) != SG_OK) {
        *err = had;
        return had.status;
    }
    return sg_fail(err, had.status, "%.400s, `sealgraph config recipes` lists them%s%.60s%s", had.text,
                   g.best[0] ? " (did you mean '" : "", g.best, g.best[0] ? "'?)" : "");
}
