/* verb_config.c - `config show`, `config schema` and `config recipes`. */
#include "cli/cli.h"

#include <string.h>

static json_t *value_document(const sg_config *config, const sg_option *option)
{
    char text[8192];
    sg_config_format(config, option, text, sizeof text);
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL); /* numbers, lists of numbers, true, null */
    if (value || option->type < SG_OPTION_PATHS)
        return value ? value : sg_json_text(text);
    const sg_texts *paths = (const sg_texts *)((const char *)sg_config_values(config) + option->offset);
    value = json_array();
    for (int64_t i = 0; i < paths->count; i++)
        json_array_append_new(value, sg_json_text(paths->at[i]));
    return value;
}

static int show_json(const sg_config *config, bool origins)
{
    json_t *document = json_object();
    for (int32_t i = 0; i < sg_option_count(); i++) {
        const sg_option *option = sg_option_at(i);
        json_t *value = value_document(config, option);
        if (origins)
            value =
                json_pack("{s:o,s:o}", "value", value, "origin", sg_json_text(sg_config_origin(config, option->key)));
        json_object_set_new(document, option->key, value);
    }
    return sg_cli_json(document, SG_EXIT_OK);
}

static int show(sg_cli *cli)
{
    sg_config *config;
    sg_error err;
    bool origins = sg_cli_has(cli, "origin");
    if (sg_cli_config(cli, &config, &err) != SG_OK)
        return sg_cli_fail(cli, &err);
    int code = SG_EXIT_OK;
    if (cli->json)
        code = show_json(config, origins);
    else
        sg_config_write_yaml(config, stdout, origins);
    sg_config_free(config);
    return code;
}

static int schema(sg_cli *cli)
{
    (void)cli;
    sg_config_write_schema(stdout);
    return SG_EXIT_OK;
}

/* ---- recipes */

static void add_row(void *table, const char *name, const char *summary)
{
    sg_table_cell(table, "%s", name);
    sg_table_cell(table, "%s", summary);
}

static void add_object(void *recipes, const char *name, const char *summary)
{
    json_array_append_new(recipes,
                          json_pack("{s:o,s:o}", "name", sg_json_text(name), "summary", sg_json_text(summary)));
}

static int list_json(const sg_cli *cli, const char *folder)
{
    sg_error err;
    json_t *recipes = json_array();
    if (sg_cli_each_recipe(add_object, recipes, &err) == SG_OK)
        return sg_cli_json(json_pack("{s:o,s:o}", "folder", sg_json_text(folder), "recipes", recipes), SG_EXIT_OK);
    json_decref(recipes);
    return sg_cli_fail(cli, &err);
}

static int recipes(sg_cli *cli)
{
    sg_error err;
    char folder[PATH_MAX] = "";
    sg_cli_recipes(folder);
    if (cli->json)
        return list_json(cli, folder);
    sg_table *table = sg_table_new("recipe|what it trains");
    sg_status status = table ? sg_cli_each_recipe(add_row, table, &err) : sg_fail(&err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK) {
        sg_table_print(table, stdout, cli->color_out);
        sg_cli_log(cli, "recipes", "%s", folder);
    }
    sg_table_free(table);
    return status == SG_OK ? SG_EXIT_OK : sg_cli_fail(cli, &err);
}

static const sg_flag show_flags[] = {
    {"origin", 0, NULL, NULL, "tell where each value came from"},
    {NULL, 0, NULL, NULL, NULL},
};

const sg_verb sg_verb_config_show = {
    .name = "config show",
    .arguments = "",
    .summary = "print the resolved configuration",
    .description =
        "Every key, as YAML that can be used as a configuration. Order of sources: defaults, extends, file,\n"
        "SEALGRAPH_* variables, --set or a named flag; later ones win.",
    .takes = SG_TAKES_CONFIG | SG_TAKES_JSON,
    .flags = show_flags,
    .run = show,
};

const sg_verb sg_verb_config_schema = {
    .name = "config schema",
    .arguments = "",
    .summary = "print a JSON Schema of configuration files",
    .description = "",
    .takes = SG_TAKES_JSON, /* which it is */
    .run = schema,
};

const sg_verb sg_verb_config_recipes = {
    .name = "config recipes",
    .arguments = "",
    .summary = "list the recipes that come with the program",
    .description = "By the names that -c takes, and `extends` in a file of one's own:\n"
                   "  sealgraph config show -c bibtex/cross-entropy.yml",
    .takes = SG_TAKES_JSON,
    .run = recipes,
};
