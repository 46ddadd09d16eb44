/* ops_check.c - `ops --check`: the closure test over the list of operators. */
#include "cli/check/op_check.h"
#include "cli/cli.h"
#include "ops/ops.h"
#include "runtime/runtime.h"

#include <string.h>

static const char *orders_of(const sg_op_verdict *v) { return v->order[3] ? "0-3" : v->order[0] ? "0" : "-"; }

static const char *backends_of(const sg_op_verdict *v)
{
    return v->reference && v->cpu ? "reference cpu"
           : v->reference         ? "reference"
           : v->cpu               ? "cpu"
           : v->cuda              ? "cuda"
                                  : "-";
}

/* Derivatives that are zero by contract are checked to be zero, so that every order is known. */
static bool is_flat(const sg_op *op) { return op->flags & (SG_OP_ZERO_GRAD | SG_OP_STOP); }

/* ---- for people */

static void add_row(const sg_cli *cli, sg_table *table, const sg_op *op, const sg_op_verdict *v)
{
    sg_table_cell(table, "%s", op->name);
    sg_table_cell(table, "%s", v->leaf ? "-" : is_flat(op) ? "0, then zero" : orders_of(v));
    sg_table_cell(table, "%s", backends_of(v));
    sg_table_cell(table, v->leaf ? "-" : "%d", (int)v->samples);
    sg_table_cell(table, v->check[0] ? "%.1e" : "-", v->worst.error);
    sg_table_cell(table, v->check[0] ? "%.0e" : "-", v->worst.limit);
    sg_table_cell(table, "%s", v->leaf ? "leaf" : v->passed ? "ok" : "FAILED");
    if (cli->verbosity > 0)
        sg_table_cell(table, "%s%s%s", v->check, v->check[0] ? ": " : "", v->sample);
}

static void print_fault(const sg_op *op, const sg_op_verdict *v)
{
    if (v->gap[0])
        printf("%s: %s\n", op->name, v->gap);
    if (!v->worst.passed && v->check[0])
        printf("%s: %s, sample %s: %s\n", op->name, v->check, v->sample, v->worst.text);
}

/* ---- JSON */

static json_t *document_of(const sg_op *op, const sg_op_verdict *v)
{
    json_t *orders = json_array(), *backends = json_array(), *worst = json_null();
    for (int k = 0; k < 4; k++)
        if (v->order[k])
            json_array_append_new(orders, json_integer(k));
    if (v->reference)
        json_array_append_new(backends, json_string("reference"));
    if (v->cpu)
        json_array_append_new(backends, json_string("cpu"));
    if (v->cuda)
        json_array_append_new(backends, json_string("cuda"));
    if (v->check[0])
        worst = json_pack("{s:s,s:s,s:o,s:f,s:s}", "check", v->check, "sample", v->sample, "error",
                          sg_json_number(v->worst.error), "tolerance", v->worst.limit, "what", v->worst.text);
    return json_pack("{s:s,s:b,s:b,s:b,s:s,s:o,s:o,s:i,s:i,s:o,s:s}", "op", op->name, "passed", v->passed, "leaf",
                     v->leaf, "zero_derivative", is_flat(op), "through", v->through, "orders", orders, "backends",
                     backends, "samples", (int)v->samples, "checks", (int)v->checks, "worst", worst, "gap", v->gap);
}

/* ---- the list */

typedef struct tally {
    bool cuda;
    int32_t ops, failed, checks;
    sg_table *table;
    json_t *rows;
} tally;

/* The verdict on the root of ops[i] if it came before. */
static const sg_op_verdict *known(const sg_op *const *ops, const sg_op_verdict *verdicts, int32_t i)
{
    const sg_op *root = sg_op_root(ops[i]);
    for (int32_t k = 0; k < i && root != ops[i]; k++)
        if (ops[k] == root)
            return &verdicts[k];
    return NULL;
}

static void check_one(const sg_cli *cli, const sg_op *op, const sg_op_verdict *of_root, sg_op_verdict *v, tally *t)
{
    sg_op_verify(op, t->cuda, of_root, v);
    t->ops += !v->leaf;
    t->failed += !v->passed;
    t->checks += of_root ? 0 : v->checks;
    if (cli->json)
        json_array_append_new(t->rows, document_of(op, v));
    else
        add_row(cli, t->table, op, v);
}

static void print_report(const sg_cli *cli, const tally *t, const sg_op *const *ops, const sg_op_verdict *verdicts,
                         int32_t n)
{
    sg_table_print(t->table, stdout, cli->color_out);
    for (int32_t i = 0; i < n; i++)
        if (!verdicts[i].passed)
            print_fault(ops[i], &verdicts[i]);
    printf("%d operators, %d passed, %d failed; %d checks\n", (int)t->ops, (int)(t->ops - t->failed), (int)t->failed,
           (int)t->checks);
}

static sg_status check_all(const sg_cli *cli, const sg_op *const *ops, int32_t n, bool cuda, int *code, sg_error *err)
{
    const char *titles = cli->verbosity > 0 ? "op|orders|backends|>samples|>worst error|>tolerance|result|where"
                                            : "op|orders|backends|>samples|>worst error|>tolerance|result";
    tally t = {.cuda = cuda, .table = sg_table_new(titles), .rows = json_array()};
    sg_op_verdict *verdicts = sg_calloc(n, sizeof *verdicts);
    sg_status status = verdicts && t.table && t.rows ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    sg_signals_at_steps();
    for (int32_t i = 0; status == SG_OK && i < n; i++) {
        check_one(cli, ops[i], known(ops, verdicts, i), &verdicts[i], &t);
        if (sg_signal_caught())
            status = sg_fail(err, SG_E_INTERRUPTED, "interrupted");
    }
    *code = t.failed ? SG_EXIT_RUNTIME : SG_EXIT_OK;
    if (status == SG_OK && cli->json)
        *code = sg_cli_json(json_pack("{s:b,s:O}", "passed", t.failed == 0, "ops", t.rows), *code);
    else if (status == SG_OK)
        print_report(cli, &t, ops, verdicts, n);
    sg_free(verdicts);
    sg_table_free(t.table);
    json_decref(t.rows);
    return status;
}

/* With --device cuda, only what a GPU adds; it must be there. */
static sg_status choose_device(const sg_cli *cli, bool *cuda, sg_error *err)
{
    const char *device = sg_cli_value(cli, "device");
    *cuda = device && strcmp(device, "cuda") == 0;
    if (device && !*cuda)
        return sg_fail(err, SG_E_CONFIG, "ops --check --device %.40s: only cuda can be checked by itself", device);
    sg_store *store = *cuda ? sg_store_new(SG_F32) : NULL;
    sg_session *session = NULL;
    sg_session_options options = {.size = sizeof options, .backend = "cuda"};
    sg_status status = *cuda ? sg_session_new(&session, store, &options, err) : SG_OK;
    sg_session_free(session);
    sg_store_free(store);
    return status;
}

int sg_ops_check(const sg_cli *cli)
{
    sg_error err;
    int code = SG_EXIT_OK;
    int32_t n = cli->n_arguments == 1 ? 1 : sg_op_count();
    const sg_op **ops = sg_calloc(n, sizeof *ops);
    sg_status status = ops ? SG_OK : sg_fail(&err, SG_E_MEMORY, "out of memory");
    for (int32_t i = 0; status == SG_OK && i < n; i++) {
        ops[i] = cli->n_arguments == 1 ? sg_op_find(cli->arguments[0]) : sg_op_at(i);
        if (!ops[i])
            status = sg_fail(&err, SG_E_CONFIG, "unknown op '%.80s'", cli->arguments[0]);
    }
    bool cuda = false;
    if (status == SG_OK)
        status = choose_device(cli, &cuda, &err);
    if (status == SG_OK)
        status = check_all(cli, ops, n, cuda, &code, &err);
    sg_free(ops);
    return status == SG_OK ? code : sg_cli_fail(cli, &err);
}
