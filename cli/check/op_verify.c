/* op_verify.c - all checks of one operator, and whether anything is missing for it. */
#include <math.h>
#include <string.h>

#include "cli/check/bench_internal.h"
#include "ops/ops.h"

const sg_op *sg_op_root(const sg_op *op)
{
    while (op->parent)
        op = op->parent;
    return op;
}

static void run_check(const sg_op_check *check, const sg_sample *sample, sg_op_verdict *v)
{
    sg_finding finding = {.passed = true, .limit = 1};
    sg_op_check_run(check, sample, &finding);
    v->checks++;
    v->passed = v->passed && finding.passed;
    v->cuda = v->cuda || strcmp(check->backend, "cuda") == 0;
    v->cpu = v->cpu || strcmp(check->backend, "cpu") == 0;
    v->reference = v->reference || strcmp(check->backend, "reference") == 0;
    for (int order = 0; order <= check->order; order++)
        v->order[order] = true;
    /* The ratios to the limits decide; with a limit of 0 only an error counts. */
    double ratio = finding.error > 0 ? finding.error / finding.limit : 0;
    double worst = v->worst.error > 0 ? v->worst.error / v->worst.limit : 0;
    if (v->check[0] && ratio <= worst && (v->worst.text[0] || !finding.text[0]))
        return;
    v->worst = finding;
    v->check = check->name;
    sg_sample_name(sample, v->sample, sizeof v->sample);
}

/* Has the op a sample with a derivative that a GPU can run? */
static bool differentiated(const sg_op *root)
{
    for (int32_t i = 0; i < sg_sample_count(); i++) {
        const sg_sample *s = sg_sample_at(i);
        if (strcmp(s->op, root->name) == 0 && !s->flat && !s->reference_only)
            return true;
    }
    return false;
}

static void find_gaps(const sg_op *op, bool cuda, sg_op_verdict *v)
{
    bool flat = op->flags & (SG_OP_ZERO_GRAD | SG_OP_STOP);
    if (!flat && !op->vjp && !op->vjp_op && !op->decompose && !op->parent)
        snprintf(v->gap, sizeof v->gap, "no derivative rule and no decomposition");
    else if (v->samples == 0)
        snprintf(v->gap, sizeof v->gap, "no sample in ops/samples");
    else if (!flat && !v->order[3] && !(cuda && !differentiated(sg_op_root(op))))
        snprintf(v->gap, sizeof v->gap, "no sample that is differentiated");
    else if (!v->cpu && !v->cuda)
        snprintf(v->gap, sizeof v->gap, "no sample that runs on cpu or cuda");
    v->passed = v->passed && !v->gap[0];
}

/* Does a node of `op` arise in the derivatives of its root's samples, to third order? Else what they show says nothing of it. */
static bool arises(const sg_op *op, const sg_op *root)
{
    bool found = false;
    for (int32_t i = 0; i < sg_sample_count() && !found; i++) {
        const sg_sample *sample = sg_sample_at(i);
        if (strcmp(sample->op, root->name) != 0 || sample->flat || sample->large)
            continue;
        sg_finding finding = {.passed = true, .limit = 1};
        sg_bench b;
        if (sg_bench_open(&b, sample, SG_F64, &finding)) {
            sg_bench_declare_orders(&b);
            for (int32_t k = 0; k < sg_node_count(b.graph); k++)
                found = found || sg_node_at(b.graph, k)->op == op;
        }
        sg_bench_close(&b);
    }
    return found;
}

static void check_samples(const sg_op *root, bool cuda, sg_op_verdict *v)
{
    const sg_op_check *checks = cuda ? sg_cuda_checks : sg_op_checks;
    int32_t n = cuda ? sg_cuda_check_count : sg_op_check_count;
    for (int32_t i = 0; i < sg_sample_count(); i++) {
        const sg_sample *sample = sg_sample_at(i);
        if (strcmp(sample->op, root->name) != 0)
            continue;
        v->samples++;
        for (int32_t c = 0; c < n; c++)
            if (checks[c].applies(sample))
                run_check(&checks[c], sample, v);
    }
}

void sg_op_verify(const sg_op *op, bool cuda, const sg_op_verdict *of_root, sg_op_verdict *v)
{
    const sg_op *root = sg_op_root(op);
    *v = (sg_op_verdict){.passed = true, .leaf = op->flags & SG_OP_LEAF, .through = root->name, .check = ""};
    if (v->leaf)
        return;
    if (of_root)
        *v = *of_root;
    else
        check_samples(root, cuda, v);
    find_gaps(op, cuda, v);
    if (op != root && !v->gap[0] && !arises(op, root)) {
        snprintf(v->gap, sizeof v->gap, "does not arise in the derivatives of the samples of %s", root->name);
        v->passed = false;
    }
}
