/* verb_demo.c - a complete comparison in under a minute, without files: data whose labels depend on each other, a task-net
 * trained by cross-entropy and one trained by a learned loss, and a picture of what the loss-net learnt about the labels. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

/* The settings of both runs; flags and --set go on top. */
static const char recipe[] = "threads: 1\n" /* nets so small that a second thread would only wait */
                             "data: {fractions: [0.25, 0.25, 0.5], scaling: none}\n"
                             "model: {hidden: [100, 100], dropout: [0.3, 0]}\n"
                             "energy: {global: 64}\n"
                             "loss: {samples: 20, energy_weight: 1.5, n_energy: 3, n_task: 2}\n"
                             "train: {epochs: 40, lr: 0.002, energy_lr: 0.002, patience: 10}\n";

typedef struct demo {
    const sg_cli *cli;
    sg_generator generator;
    sg_config *config[2]; /* cross-entropy, SEAL-dynamic */
    sg_train_result result[2];
    const char *title; /* of the run going on */
    sg_progress progress;
} demo;

static void release(demo *d)
{
    for (int i = 0; i < 2; i++) {
        sg_store_free(d->result[i].store);
        sg_config_free(d->config[i]);
    }
}

/* ---- training */

static bool listen(void *user, const sg_train_event *e)
{
    demo *d = user;
    char text[96];
    if (e->moment == SG_TRAIN_STARTED)
        sg_progress_begin(&d->progress, d->cli, "batches");
    if (e->moment == SG_TRAIN_STEP) {
        snprintf(text, sizeof text, "%s  epoch %lld  bce %.3f", d->title, (long long)e->epoch, e->bce);
        sg_progress_update(&d->progress, e->done, e->done + e->left, text);
    }
    const sg_metric *f1 = e->validation ? sg_metrics_find(e->validation, "example_f1") : NULL;
    if (f1 && (e->epoch == 1 || e->epoch % 5 == 0 || d->cli->verbosity > 0))
        sg_progress_line(&d->progress, "%-18s epoch %3lld   bce %7.3f   validation F1 %.4f", d->title,
                         (long long)e->epoch, e->bce, f1->value);
    return sg_signal_caught() == 0;
}

static sg_status train_one(demo *d, int which, sg_error *err)
{
    sg_dataset *generated;
    sg_training_data *data;
    sg_train_options options = {.size = sizeof options, .listener = listen, .user = d};
    SG_TRY(sg_generate(&generated, &d->generator, err));
    SG_TRY(sg_training_data_take(&data, d->config[which], generated, err));
    sg_status status = sg_train(d->config[which], data, &options, &d->result[which], err);
    sg_progress_end(&d->progress);
    sg_training_data_free(data);
    if (status == SG_OK && !d->result[which].finished)
        return sg_fail(err, SG_E_INTERRUPTED, "stopped before the end of the demo");
    return status;
}

/* The same settings with one or the other loss. */
static sg_status configure(demo *d, sg_error *err)
{
    static const char *const losses[] = {"cross-entropy", "seal-dynamic"};
    for (int i = 0; i < 2; i++) {
        char text[sizeof recipe + 64];
        snprintf(text, sizeof text, "%s", recipe);
        char *loss = strstr(text, "loss: {");
        size_t used = (size_t)(loss - text) + strlen("loss: {");
        snprintf(text + used, sizeof text - used, "name: %s, %s", losses[i], recipe + used);
        SG_TRY(sg_cli_config_on(d->cli, "the demo's recipe", text, &d->config[i], err));
    }
    return sg_config_check_training(d->config[1], err);
}

/* ---- the picture: how the loss-net's global term ties labels together.
 *
 * S_glob(y) = <v, softplus(M y + m0)>. The second difference I_ij = S(e_i + e_j) - S(e_i) - S(e_j) + S(0) is zero if labels i
 * and j do not interact, positive if they are wanted together, negative if they exclude each other. */

typedef struct global_term {
    int64_t width, labels;
    double *M, *m0, *v;
} global_term;

static double score(const global_term *g, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < g->width; k++) {
        double a = g->m0[k];
        if (i >= 0)
            a += g->M[k * g->labels + i];
        if (j >= 0)
            a += g->M[k * g->labels + j];
        sum += g->v[k] * (a > 0 ? a + log1p(exp(-a)) : log1p(exp(a)));
    }
    return sum;
}

static double interaction(const global_term *g, int64_t i, int64_t j)
{
    return i == j ? 0 : score(g, i, j) - score(g, i, -1) - score(g, j, -1) + score(g, -1, -1);
}

static sg_status read_term(const sg_store *store, global_term *g, sg_error *err)
{
    g->M = sg_calloc(g->width * g->labels, sizeof *g->M);
    g->m0 = sg_calloc(g->width, sizeof *g->m0);
    g->v = sg_calloc(g->width, sizeof *g->v);
    if (!g->M || !g->m0 || !g->v)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    SG_TRY(sg_store_get(store, "energy/M", g->M, g->width * g->labels, err));
    SG_TRY(sg_store_get(store, "energy/m0", g->m0, g->width, err));
    return sg_store_get(store, "energy/v", g->v, g->width, err);
}

/* `gap` blanks before it; returns those before the next, so that none stand at the end of a line. */
static int draw_cell(double strength, bool color, int gap)
{
    static const char together[] = " .+#", apart[] = " .-=";
    int level = (int)(4 * fabs(strength));
    level = level > 3 ? 3 : level;
    if (color) {
        printf("%*s\033[48;5;%dm  \033[0m", gap, "",
               strength > 0 ? (int[]){234, 22, 28, 40}[level] : (int[]){234, 52, 88, 160}[level]);
        return 0;
    }
    if (level == 0)
        return gap + 2;
    printf("%*s%c", gap, "", strength > 0 ? together[level] : apart[level]);
    return 1;
}

/* Mean interaction of two different labels of one group, and of labels of different groups. */
static void mean_interactions(const global_term *g, int64_t size, double *within, double *across)
{
    double sum[2] = {0, 0}, pairs[2] = {0, 0};
    for (int64_t i = 0; i < g->labels; i++)
        for (int64_t j = 0; j < i; j++) {
            int same = i / size == j / size;
            sum[same] += interaction(g, i, j);
            pairs[same]++;
        }
    *within = pairs[1] > 0 ? sum[1] / pairs[1] : 0;
    *across = pairs[0] > 0 ? sum[0] / pairs[0] : 0;
}

static void draw(const demo *d, const global_term *g)
{
    enum { GROUPS = 4 };
    int64_t size = d->generator.size;
    int64_t shown = d->generator.groups < GROUPS ? g->labels : GROUPS * size;
    double largest = 1e-12;
    for (int64_t i = 0; i < shown; i++)
        for (int64_t j = 0; j < shown; j++)
            largest = fmax(largest, fabs(interaction(g, i, j)));
    double within, across;
    mean_interactions(g, size, &within, &across);
    printf("\nwhat the loss-net learnt: how it scores pairs of labels, the first %lld of %lld in groups of %lld\n"
           "%s: wanted together, %s: kept apart; mean within a group %+.3f, across groups %+.3f\n\n",
           (long long)shown, (long long)g->labels, (long long)size, d->cli->color_out ? "green" : "+ #",
           d->cli->color_out ? "red" : "- =", within, across);
    for (int64_t i = 0; i < shown; i++) {
        int gap = 2;
        for (int64_t j = 0; j < shown; j++)
            gap = draw_cell(interaction(g, i, j) / largest, d->cli->color_out, gap + (j > 0 && j % size == 0));
        fputs((i + 1) % size == 0 && i + 1 < shown ? "\n\n" : "\n", stdout);
    }
}

static sg_status picture(const demo *d, sg_error *err)
{
    const sg_train_config *v = sg_config_values(d->config[1]);
    global_term g = {.width = v->energy.global, .labels = d->generator.groups * d->generator.size};
    sg_status status = read_term(d->result[1].store, &g, err);
    if (status == SG_OK)
        draw(d, &g);
    sg_free(g.M);
    sg_free(g.m0);
    sg_free(g.v);
    return status;
}

/* ---- the report */

static double test_f1(const demo *d, int which)
{
    const sg_metric *metric = sg_metrics_find(&d->result[which].test, "example_f1");
    return metric && metric->defined ? metric->value : NAN;
}

static sg_status run_both(demo *d, sg_error *err)
{
    static const char *const titles[] = {"cross-entropy", "SEAL-dynamic NCE"};
    SG_TRY(configure(d, err));
    sg_cli_log(d->cli, "data", "generated: %lld rows, %lld features, %lld groups of %lld labels, one on in each",
               (long long)d->generator.rows, (long long)d->generator.features, (long long)d->generator.groups,
               (long long)d->generator.size);
    sg_signals_at_steps();
    for (int i = 0; i < 2; i++) {
        d->title = titles[i];
        SG_TRY(train_one(d, i, err));
    }
    return d->cli->json ? SG_OK : picture(d, err);
}

static int report(const demo *d)
{
    double ce = test_f1(d, 0), seal = test_f1(d, 1);
    if (d->cli->json)
        return sg_cli_json(json_pack("{s:{s:o},s:{s:o},s:o}", "cross_entropy", "example_f1", sg_json_number(ce),
                                     "seal_dynamic_nce", "example_f1", sg_json_number(seal), "gain",
                                     sg_json_number(seal - ce)),
                           SG_EXIT_OK);
    printf("\ntest example-F1\n  cross-entropy      %.4f   (epoch %lld)\n  SEAL-dynamic NCE   %.4f   (epoch %lld)\n"
           "  gain              %+.4f\n",
           ce, (long long)d->result[0].epoch, seal, (long long)d->result[1].epoch, seal - ce);
    return SG_EXIT_OK;
}

static int run(sg_cli *cli)
{
    demo d = {.cli = cli, .generator = sg_generator_default()};
    sg_error err;
    d.generator.size = 8;
    d.generator.noise = 1; /* features alone leave nearly half of the F1 open */
    int code = run_both(&d, &err) == SG_OK ? report(&d) : sg_cli_fail(cli, &err);
    release(&d);
    return code;
}

static const sg_flag flags[] = {
    {"progress", 0, "MODE", "auto|bar|plain|none", "how progress is shown"},
    {NULL, 0, NULL, NULL, NULL},
};

const sg_verb sg_verb_demo = {
    .name = "demo",
    .arguments = "",
    .summary = "compare cross-entropy with a learned loss on generated data, in under a minute",
    .description = "Needs no files. Settings can be changed by flags and --set. -v tells every epoch.",
    .takes = SG_TAKES_SETTINGS | SG_TAKES_JSON | SG_TAKES_VERBOSE,
    .reads = SG_READS_DEVICE "|seed|data.split_seed|data.fractions|data.scaling|model.*|energy.*|train.*|loss.method|"
                             "loss.samples|loss.energy_weight|loss.bce_weight|loss.n_energy|loss.n_task|",
    .flags = flags,
    .in_steps = true,
    .run = run,
};
