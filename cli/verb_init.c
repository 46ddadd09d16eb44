/* verb_init.c - a commented configuration to start from. */
#include "cli/cli.h"
#include "serialize/serialize.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Keys that only another choice of loss reads are left out. */
static bool is_relevant(const sg_option *option, const sg_train_config *v)
{
    bool energy = strncmp(option->key, "energy.", 7) == 0 || strncmp(option->key, "train.energy", 12) == 0 ||
                  (strncmp(option->key, "loss.", 5) == 0 && strcmp(option->key, "loss.name") != 0);
    return v->loss.name != SG_LOSS_CROSS_ENTROPY || !energy;
}

static sg_status write_config(void *user, FILE *out, sg_error *err)
{
    const sg_config *config = user;
    char value[8192];
    char section[32] = "";
    fputs("# Made by `sealgraph init`. `sealgraph train -c FILE -o DIR` trains it.\n\n", out);
    for (int32_t i = 0; i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        const char *dot = strchr(option->key, '.');
        size_t length = strcspn(option->key, ".");
        if (!is_relevant(option, sg_config_values(config)))
            continue;
        if (dot && (strlen(section) != length || strncmp(section, option->key, length) != 0)) {
            snprintf(section, sizeof section, "%.*s", (int)length, option->key);
            fprintf(out, "\n%s:\n", section);
        }
        int used = fprintf(out, "%s%s: %s", dot ? "  " : "", dot ? dot + 1 : option->key,
                           sg_config_format(config, option, value, sizeof value));
        fprintf(out, "%*s # %s%s%s%s\n", used < 36 ? 36 - used : 0, "", option->help, option->domain[0] ? "; " : "",
                option->domain, "");
    }
    (void)err;
    return SG_OK;
}

static int run(sg_cli *cli)
{
    sg_config *config;
    sg_error err;
    const char *path = sg_cli_output(cli);
    if (sg_cli_check_output(cli, &err) != SG_OK || sg_cli_one_result(cli, &err) != SG_OK ||
        sg_cli_config(cli, &config, &err) != SG_OK)
        return sg_cli_fail(cli, &err);
    sg_status status = sg_cli_write(cli, path, write_config, config, &err);
    sg_config_free(config);
    if (status != SG_OK)
        return sg_cli_fail(cli, &err);
    return cli->json ? sg_cli_json(json_pack("{s:o}", "written", sg_json_text(path)), SG_EXIT_OK) : SG_EXIT_OK;
}

const sg_verb sg_verb_init = {
    .name = "init",
    .arguments = "",
    .summary = "write a commented configuration",
    .description = "To standard output or to the file given by -o. Flags and --set fill it in:\n"
                   "  sealgraph init --loss seal-dynamic --train a.arff.gz --labels-xml a.xml -o a.yml",
    .takes = SG_TAKES_CONFIG | SG_TAKES_OUTPUT | SG_TAKES_JSON,
    .run = run,
};
