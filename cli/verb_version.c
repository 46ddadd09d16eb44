/* verb_version.c - the version, and with -v what was chosen on this machine. */
#include "cli/cli.h"
#include "runtime/runtime.h"

/* What a session on a backend would be, or why there can be none. */
typedef struct found {
    bool usable;
    char text[SG_ERROR_TEXT];
} found;

static found find_backend(const char *name)
{
    found f = {.usable = false};
    sg_error err;
    sg_session *session = NULL;
    sg_session_options options = {.size = sizeof options, .backend = name};
    sg_store *store = sg_store_new(SG_F32);
    sg_status status =
        store ? sg_session_new(&session, store, &options, &err) : sg_fail(&err, SG_E_MEMORY, "no memory");
    f.usable = status == SG_OK;
    snprintf(f.text, sizeof f.text, "%s", f.usable ? sg_session_describe(session) : err.text);
    sg_session_free(session);
    sg_store_free(store);
    return f;
}

static json_t *document_of(const found *cpu, const found *cuda, const char *module)
{
    return json_pack("{s:s,s:s,s:s,s:s,s:o,s:{s:b,s:o,s:o}}", "version", SG_VERSION, "isa", sg_cpu_isa(), "backends",
                     cuda->usable ? "cpu, reference, cuda" : "cpu, reference", "compiler", __VERSION__, "cpu",
                     sg_json_text(cpu->text), "cuda", "usable", cuda->usable, cuda->usable ? "device" : "reason",
                     sg_json_text(cuda->text), "module", sg_json_text(module));
}

static int run(sg_cli *cli)
{
    if (!cli->json)
        printf("sealgraph %s\n", SG_VERSION);
    if (!cli->json && cli->verbosity < 1)
        return SG_EXIT_OK;
    char path[4096];
    const char *module = sg_module_path("cuda", path, sizeof path);
    found cpu = find_backend("cpu"), cuda = find_backend("cuda");
    if (cli->json)
        return sg_cli_json(document_of(&cpu, &cuda, module), SG_EXIT_OK);
    printf("backends      cpu, reference%s\ninstructions  %s\ncompiler      %s\n", cuda.usable ? ", cuda" : "",
           sg_cpu_isa(), __VERSION__);
    printf("cpu           %s\ncuda          %s%s\n", cpu.text, cuda.usable ? "" : "not usable: ", cuda.text);
    if (module)
        printf("cuda module   %s\n", module);
    return SG_EXIT_OK;
}

const sg_verb sg_verb_version = {
    .name = "version",
    .arguments = "",
    .summary = "print the version; -v adds backends, instruction set and libraries",
    .description = "",
    .takes = SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .run = run,
};
