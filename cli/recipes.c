/* recipes.c - where the recipes are that come with the program. */
#include "cli/cli.h"

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

void sg_cli_print_recipes(void)
{
    char folder[PATH_MAX], pattern[PATH_MAX + 16];
    glob_t found;
    if (!sg_cli_recipes(folder))
        return;
    snprintf(pattern, sizeof pattern, "%s/*/*.yml", folder);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        printf("%s ", found.gl_pathv[i] + strlen(folder) + 1);
    globfree(&found);
}
