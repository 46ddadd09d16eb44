/* verb_ops.c - the registry of operators. */
#include "cli/cli.h"

#include <string.h>

static const struct {
    uint32_t flag;
    const char *name;
} flag_names[] = {
    {SG_OP_ELEMENTWISE, "elementwise"},
    {SG_OP_COMPOSITE, "composite"},
    {SG_OP_RANDOM, "random"},
    {SG_OP_ZERO_GRAD, "zero-grad"},
    {SG_OP_LEAF, "leaf"},
    {SG_OP_COMMUTATIVE, "commutative"},
    {SG_OP_STOP, "stop"},
};
static const char *const kinds[] = {"int", "real", "text", "ints", "reals", "graph"};

static json_t *document_of(const sg_op *op)
{
    json_t *flags = json_array(), *attributes = json_array(), *linear = json_array();
    for (size_t i = 0; i < sizeof flag_names / sizeof flag_names[0]; i++)
        if (op->flags & flag_names[i].flag)
            json_array_append_new(flags, json_string(flag_names[i].name));
    for (int32_t i = 0; i < op->n_attrs; i++)
        json_array_append_new(attributes,
                              json_pack("{s:s,s:s}", "name", op->attrs[i].name, "kind", kinds[op->attrs[i].kind]));
    for (int32_t i = 0; i < 32; i++)
        if (op->linear >> i & 1)
            json_array_append_new(linear, json_integer(i));
    return json_pack("{s:s,s:s,s:o,s:i,s:o,s:o,s:o}", "name", op->name, "summary", op->summary ? op->summary : "",
                     "inputs", op->n_in == SG_VARIADIC ? json_null() : json_integer(op->n_in), "outputs",
                     (int)op->n_out, "flags", flags, "linear", linear, "attributes", attributes);
}

static void arity(const sg_op *op, char *out, size_t size)
{
    if (op->n_in == SG_VARIADIC)
        snprintf(out, size, "n -> %d", (int)op->n_out);
    else
        snprintf(out, size, "%d -> %d", (int)op->n_in, (int)op->n_out);
}

static void flags_of(const sg_op *op, char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; i < sizeof flag_names / sizeof flag_names[0]; i++)
        if (op->flags & flag_names[i].flag) {
            size_t used = strlen(out);
            snprintf(out + used, size - used, "%s%s", used ? " " : "", flag_names[i].name);
        }
}

static void describe(const sg_op *op)
{
    char text[256];
    arity(op, text, sizeof text);
    printf("%s   %s\n%s\n", op->name, text, op->summary ? op->summary : "");
    flags_of(op, text, sizeof text);
    printf("flags       %s\n", text[0] ? text : "-");
    for (int32_t i = 0; i < op->n_attrs; i++)
        printf("attribute   %s (%s)\n", op->attrs[i].name, kinds[op->attrs[i].kind]);
    for (int32_t i = 0; i < 32; i++)
        if (op->linear >> i & 1)
            printf("linear in   input %d\n", (int)i);
}

static int list(const sg_cli *cli)
{
    char text[256];
    sg_table *table = sg_table_new("op|inputs|flags|what it computes");
    for (int32_t i = 0; i < sg_op_count(); i++) {
        const sg_op *op = sg_op_at(i);
        sg_table_cell(table, "%s", op->name);
        arity(op, text, sizeof text);
        sg_table_cell(table, "%s", text);
        flags_of(op, text, sizeof text);
        sg_table_cell(table, "%s", text);
        sg_table_cell(table, "%s", op->summary ? op->summary : "");
    }
    sg_table_print(table, stdout, cli->color_out);
    sg_table_free(table);
    return SG_EXIT_OK;
}

static int run(sg_cli *cli)
{
    sg_error err;
    if (sg_cli_has(cli, "check"))
        return sg_ops_check(cli);
    if (sg_cli_needs(cli, "device", "check", &err) != SG_OK || sg_cli_needs(cli, "verbose", "check", &err) != SG_OK)
        return sg_cli_usage_error(cli, &err);
    if (cli->n_arguments == 1) {
        const sg_op *op = sg_op_find(cli->arguments[0]);
        if (!op) {
            sg_fail(&err, SG_E_CONFIG, "unknown op '%.80s'", cli->arguments[0]);
            return sg_cli_usage_error(cli, &err);
        }
        if (cli->json)
            return sg_cli_json(document_of(op), SG_EXIT_OK);
        describe(op);
        return SG_EXIT_OK;
    }
    if (!cli->json)
        return list(cli);
    json_t *ops = json_array();
    for (int32_t i = 0; i < sg_op_count(); i++)
        json_array_append_new(ops, document_of(sg_op_at(i)));
    return sg_cli_json(json_pack("{s:o}", "ops", ops), SG_EXIT_OK);
}

static const sg_flag flags[] = {
    {"check", 0, NULL, NULL, "run the closure test on all of them, or on NAME"},
    {"device", 0, "NAME", NULL, "with --check: cuda checks the kernels of a GPU against reference"},
    {NULL, 0, NULL, NULL, NULL},
};

const sg_verb sg_verb_ops = {
    .name = "ops",
    .arguments = "[NAME]",
    .offer = SG_OFFER_OPS,
    .summary = "list the operators, explain one, or check them",
    .description =
        "--check holds every operator to what its samples show: values, gradients, Hessian products and third "
        "derivatives\n"
        "against central differences in float64; forward mode against reverse mode; rules linear in the cotangent; "
        "fused\n"
        "operators against their decomposition; and orders 0 to 3 on cpu against reference. The error shown is the "
        "one\n"
        "nearest to its limit. Exit code 1 if one is beyond, or an operator has no sample or no rule. -v names the\n"
        "sample behind each figure.",
    .takes = SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .max_arguments = 1,
    .flags = flags,
    .in_steps = true,
    .run = run,
};
