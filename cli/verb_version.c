/* verb_version.c - the version, and with -v what was chosen on this machine. */
#include "cli/cli.h"
#include "runtime/runtime.h"

static int run(sg_cli *cli)
{
    if (cli->json)
        return sg_cli_json(
            json_pack("{s:s,s:s,s:s}", "version", SG_VERSION, "isa", sg_cpu_isa(), "backends", sg_backend_names()),
            SG_EXIT_OK);
    printf("sealgraph %s\n", SG_VERSION);
    if (cli->verbosity < 1)
        return SG_EXIT_OK;
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = NULL;
    sg_error err;
    sg_session_options options = {.size = sizeof options, .backend = "cpu"};
    printf("backends      %s\ninstructions  %s\ncompiler      %s\n", sg_backend_names(), sg_cpu_isa(), __VERSION__);
    if (store && sg_session_new(&session, store, &options, &err) == SG_OK)
        printf("session       %s\n", sg_session_describe(session));
    char module[512];
    printf("cuda module   %s\n", sg_module_describe("cuda", module, sizeof module));
    sg_session_free(session);
    sg_store_free(store);
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
