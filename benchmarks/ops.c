/* ops.c - timing single operators: at the sizes of the training step and of common layers, at those of the nets of the papers, or
 * at any other. */
#include <ctype.h>
#include <string.h>

#include "benchmarks/bench_internal.h"
#include "benchmarks/op_families_internal.h"

enum { ALWAYS = 1 << 0, BERT = 1 << 1, FCN = 1 << 2, MLC = 1 << 3 };
enum { V = 1 << 0, G = 1 << 1, H = 1 << 2 }; /* value, gradient, second order */

static const struct listed {
    const char *family, *shape;
    unsigned orders, sets;
} list[] = {
    {"matmul", "32x1836*1836x400", V, ALWAYS | MLC},
    {"matmul", "32x400*400x400", V, ALWAYS | MLC},
    {"matmul_nt", "32x400*159x400", V, ALWAYS | MLC},
    {"matmul_nt", "672x159*200x159", V, ALWAYS | MLC},
    {"matmul_tn", "32x1836*32x400", V, ALWAYS | MLC},
    {"matmul_tn", "672x200*672x159", V, ALWAYS | MLC},
    {"matmul", "4096x1836*1836x400", V, ALWAYS | MLC},
    {"matmul", "1024x1024*1024x1024", V, ALWAYS},
    {"matmul", "4096x768x768", V | G, BERT},
    {"matmul", "4096x768x3072", V | G, ALWAYS | BERT},
    {"matmul", "4096x3072x768", V | G, BERT},
    {"conv2d", "288x3x24x24,64x5x5", V, ALWAYS | FCN},
    {"conv2d_dx", "288x3x24x24,64x5x5", V, ALWAYS | FCN},
    {"conv2d_dw", "288x3x24x24,64x5x5", V, ALWAYS | FCN},
    {"conv2d", "72x64x24x24,128x5x5/2", V, ALWAYS | FCN},
    {"conv2d_dx", "72x64x24x24,128x5x5/2", V, ALWAYS | FCN},
    {"conv2d_dw", "72x64x24x24,128x5x5/2", V, ALWAYS | FCN},
    {"conv2d", "72x128x12x12,128x5x5/2", V, ALWAYS | FCN},
    {"conv2d_dx", "72x128x12x12,128x5x5/2", V, ALWAYS | FCN},
    {"conv2d_dw", "72x128x12x12,128x5x5/2", V, ALWAYS | FCN},
    {"conv2d", "288x64x24x24,2x1x1", V, ALWAYS | FCN},
    {"conv2d_dx", "288x64x24x24,2x1x1", V, ALWAYS | FCN},
    {"conv2d_dw", "288x64x24x24,2x1x1", V, ALWAYS | FCN},
    {"exp", "8192x1024", V, ALWAYS},
    {"tanh", "8192x1024", V, ALWAYS},
    {"sigmoid", "8192x1024", V, ALWAYS},
    {"softplus", "8192x1024", V, ALWAYS},
    {"gelu", "8192x1024", V, ALWAYS},
    {"relu", "8192x1024", V, ALWAYS | FCN},
    {"softmax", "8192x1024", V, ALWAYS},
    {"softplus", "672x200", V, MLC},
    {"sigmoid", "4096x159", V, MLC},
    {"bce", "32x159", V | G, MLC},
    {"bias_gelu", "4096x3072", V | G | H, BERT},
    {"softmax", "4096x128", V | G | H, BERT},
    {"lstm", "32x64x128", V | G | H, ALWAYS},
    {"crf_log_partition", "32x64x25", V | G | H, ALWAYS},
    {"crf_viterbi", "32x64x25", V, ALWAYS},
    {"attention", "16x12x256x64", V | G | H, ALWAYS | BERT},
    {"attention", "32x12x128x64", V | G | H, BERT},
    {"layer_norm", "8192x1024", V | G | H, ALWAYS},
    {"layer_norm", "4096x768", V | G | H, BERT},
    {"rms_norm", "8192x1024", V | G | H, ALWAYS},
    {"rms_norm", "4096x768", V | G | H, BERT},
    {"group_norm", "72x64x24x24", V | G | H, ALWAYS | FCN},
    {"batch_norm", "72x64x24x24", V | G | H, ALWAYS | FCN},
    {"cross_entropy", "8192x1024", G, ALWAYS},
    {"sum_rows", "8192x1024", V, ALWAYS},
    {"sum_columns", "672x200", V, ALWAYS | MLC},
    {"bias_softplus", "672x200", V | G | H, ALWAYS | MLC},
    {"gather", "30522x768x4096", V | G, BERT},
    {"bernoulli", "32x20x159", V, ALWAYS | MLC},
    {"adamw", "1000x1000", V, ALWAYS},
    {"adamw", "30522x768", V, BERT},
    {"adamw", "1836x400", V, MLC},
};

static const char *const suffixes[] = {"", "_gradient", "_hvp"};
static const char *const order_names[] = {"value", "gradient", "hvp"};

/* The numbers of "32x1836*1836x400", or 0. */
static int32_t read_numbers(const char *text, int64_t *out)
{
    int32_t n = 0;
    while (*text) {
        int64_t value = 0;
        if (!isdigit((unsigned char)*text) || n == SG_OP_NUMBERS)
            return 0;
        for (; isdigit((unsigned char)*text); text++)
            if ((value = 10 * value + *text - '0') > (int64_t)1 << 31)
                return 0;
        out[n++] = value;
        if (*text && !(strchr("x*,/", *text++) && *text))
            return 0;
    }
    return n;
}

static const sg_op_family *find_family(const char *name)
{
    const sg_op_family *f = sg_op_families;
    while (f->name && strcmp(f->name, name) != 0)
        f++;
    return f->name ? f : NULL;
}

static sg_dtype dtype_of(const sg_bench_target *t) { return strcmp(t->dtype, "bf16") == 0 ? SG_BF16 : SG_F32; }

static sg_status on_target(sg_bench *bench, const char *name, const sg_op_family *family, int order,
                           const sg_op_bench *shape, const sg_bench_target *t, sg_error *err)
{
    sg_op_bench b = *shape;
    sg_bench_case c = {
        .name = name, .graph = sg_graph_new(), .store = sg_store_new(SG_F32), .feed = sg_bench_fill, .typed = true};
    sg_status status = c.graph && c.store ? SG_OK : sg_fail(err, SG_E_MEMORY, "out of memory");
    if (status == SG_OK) {
        b.graph = c.graph;
        b.store = c.store;
        b.dtype = dtype_of(t);
        sg_op_bench_build(&b, family, order);
        sg_store_initialise(c.store, 1);
        status = sg_graph_status(c.graph, err);
    }
    if (status == SG_OK)
        status = sg_bench_time_on(bench, &c, t, err);
    sg_store_free(c.store);
    sg_graph_free(c.graph);
    return status;
}

/* A row that a target cannot give is a remark, not the end of the table. */
static sg_status one_op(sg_bench *bench, const sg_op_family *family, int order, const char *text, sg_error *err)
{
    char name[80];
    sg_op_bench shape = {0};
    snprintf(name, sizeof name, "%s%s/%s", family->name, suffixes[order], text);
    shape.n_d = read_numbers(text, shape.d);
    SG_TRY(sg_bench_go_on(bench, err));
    for (int32_t k = 0; k < bench->n_targets; k++) {
        const sg_bench_target *t = &bench->target[k];
        if (t->missing[0])
            continue;
        if ((family->flags & SG_OP_F32_ONLY) && dtype_of(t) != SG_F32) {
            SG_TRY(sg_bench_add_remark(bench, name, t, "offered in f32 alone", err));
            continue;
        }
        sg_error why = {0};
        if (on_target(bench, name, family, order, &shape, t, &why) != SG_OK)
            SG_TRY(sg_bench_add_remark(bench, name, t, why.text, err));
    }
    return SG_OK;
}

static sg_status orders(sg_bench *bench, const sg_bench_ops_options *o, const sg_op_family *family, const char *shape,
                        unsigned listed, int32_t *count, sg_error *err)
{
    for (int order = 0; order < 3; order++) {
        char name[80];
        snprintf(name, sizeof name, "%s%s/%s", family->name, suffixes[order], shape);
        bool wanted = (listed & 1u << order) && !(order > 0 && (family->flags & SG_OP_VALUE_ONLY));
        if (!wanted || (o->only && !strstr(name, o->only)))
            continue;
        SG_TRY(one_op(bench, family, order, shape, err));
        ++*count;
    }
    return SG_OK;
}

static sg_status read_orders(const char *text, unsigned fallback, unsigned *out, sg_error *err)
{
    *out = text ? 0 : fallback;
    for (size_t n; text && *text; text += n + (text[n] == ',')) {
        unsigned named = 0;
        n = strcspn(text, ",");
        for (int k = 0; k < 3; k++)
            if (strlen(order_names[k]) == n && strncmp(order_names[k], text, n) == 0)
                named = 1u << k;
        if (!named)
            return sg_fail(err, SG_E_CONFIG, "unknown order '%.*s': value, gradient or hvp", (int)n, text);
        *out |= named;
    }
    return *out ? SG_OK : sg_fail(err, SG_E_CONFIG, "an order is needed: value, gradient or hvp");
}

static sg_status read_set(const char *name, unsigned *out, sg_error *err)
{
    static const char *const names[] = {"bert", "fcn", "mlc"};
    *out = ALWAYS;
    for (int k = 0; name && k < 3; k++)
        if (strcmp(name, names[k]) == 0)
            *out = BERT << k;
    return !name || *out != ALWAYS ? SG_OK : sg_fail(err, SG_E_CONFIG, "unknown preset '%s': bert, fcn or mlc", name);
}

/* One shape for every operator that takes as many numbers. */
static sg_status at_shape(sg_bench *bench, const sg_bench_ops_options *o, int32_t *count, sg_error *err)
{
    int64_t d[SG_OP_NUMBERS];
    unsigned wanted;
    int32_t n = read_numbers(o->shape, d);
    if (n == 0 || strlen(o->shape) > 48)
        return sg_fail(err, SG_E_CONFIG, "--shape %.60s: expected numbers such as 4096x768x3072", o->shape);
    SG_TRY(read_orders(o->order, V, &wanted, err));
    for (const sg_op_family *f = sg_op_families; f->name; f++)
        if (n >= f->least && n <= f->most && (o->only || !(f->flags & SG_OP_BY_NAME)))
            SG_TRY(orders(bench, o, f, o->shape, wanted, count, err));
    return SG_OK;
}

/* A shape that gave no row: why it did not, and what would. */
static sg_status no_row(const sg_bench *bench, const sg_bench_ops_options *o, sg_error *err)
{
    static const char taken[] = "2 numbers are rows x width, 3 MxKxN, 4 MxK*KxN or attention's BxHxTxD, 7 or 8 a "
                                "convolution NxCxHxW,OxKxK/STRIDE";
    if (!bench->n_remarks && o->only)
        return sg_fail(err, SG_E_CONFIG, "no operator whose name holds '%.60s' takes the shape %s: %s", o->only,
                       o->shape, taken);
    if (!bench->n_remarks)
        return sg_fail(err, SG_E_CONFIG, "no operator takes the shape %s: %s", o->shape, taken);
    const sg_bench_remark *first = &bench->remarks[0];
    return sg_fail(err, SG_E_CONFIG, "nothing can be measured at the shape %s (%s: %.150s): %s", o->shape, first->name,
                   first->text, taken);
}

/* `count`: of the rows that are wanted, on any target. */
static sg_status every_op(sg_bench *bench, const sg_bench_ops_options *o, int32_t *count, sg_error *err)
{
    unsigned set, wanted;
    *count = 0;
    SG_TRY(read_set(o->preset, &set, err));
    SG_TRY(read_orders(o->order, V | G | H, &wanted, err));
    if (o->shape)
        return at_shape(bench, o, count, err);
    for (size_t k = 0; k < sizeof list / sizeof list[0]; k++)
        if (list[k].sets & set)
            SG_TRY(orders(bench, o, find_family(list[k].family), list[k].shape, list[k].orders & wanted, count, err));
    return SG_OK;
}

sg_status sg_bench_ops_check(const sg_bench_ops_options *o, sg_error *err)
{
    sg_bench none = {0}; /* without a target nothing is measured */
    int32_t count;
    SG_TRY(every_op(&none, o, &count, err));
    if (count)
        return SG_OK;
    return o->shape ? no_row(&none, o, err)
                    : sg_fail(err, SG_E_CONFIG, "no benchmark's name holds '%s'", o->only ? o->only : "");
}

sg_status sg_bench_ops(sg_bench *bench, const sg_bench_ops_options *o, sg_error *err)
{
    int32_t count;
    SG_TRY(sg_bench_ops_check(o, err));
    SG_TRY(every_op(bench, o, &count, err));
    return bench->count || !o->shape ? SG_OK : no_row(bench, o, err);
}
