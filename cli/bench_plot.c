/* bench_plot.c - a roofline plot as SVG, or PNG made from it.
 *
 * A device that makes F flops and moves M bytes a second can do at most min(F, M i) flops a second of work with i flops a
 * byte: a slope and a flat roof on logarithmic axes. A row below the slope is bound by memory, one below the flat part by
 * arithmetic, and its distance from the roof is what is left to gain. */
#include "cli/bench_internal.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum {
    WIDTH = 1240,
    LEFT = 80,
    TOP = 56,
    PLOT_WIDTH = 760,
    LEAST_PLOT = 560,
    LIST_LEFT = LEFT + PLOT_WIDTH + 40,
    LINE = 15,
    MOST_LABELS = 1024
};

/* Okabe and Ito's colours, told apart by everyone, and a mark of its own for each target. */
static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#E69F00", "#56B4E9", "#000000", "#666666"};
static const char *const marks[] = {"M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0Z", "M-5,-5h10v10h-10Z", "M0,-6L6,5H-6Z",
                                    "M0,-6L6,0L0,6L-6,0Z"};

typedef struct place {
    double x, y;
} place;

typedef struct plot {
    FILE *out;
    const sg_bench *bench;
    int height;                          /* of the plot: that of the list beside it */
    double x_low, x_high, y_low, y_high; /* powers of ten */
    place taken[MOST_LABELS];            /* middles of marks and labels drawn so far */
    int32_t n_taken;
} plot;

static double intensity(const sg_bench_row *r) { return r->flops / r->bytes; }
static double rate(const sg_bench_row *r) { return r->flops / (1e-6 * r->median_us); }
static bool drawn(const sg_bench_row *r) { return r->flops > 0 && r->bytes > 0 && r->median_us > 0; }

static double across(const plot *p, double x)
{
    return LEFT + PLOT_WIDTH * (log10(x) - p->x_low) / (p->x_high - p->x_low);
}

static double down(const plot *p, double y)
{
    return TOP + p->height * (p->y_high - log10(y)) / (p->y_high - p->y_low);
}

static double smaller(double a, double b) { return a < b ? a : b; }
static double roof(const sg_bench_target *t, double x) { return smaller(t->flops, t->bytes * x); }

/* Whole decades that hold every row, and the ridge and top of every roof. */
static void choose_axes(plot *p)
{
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
    for (int32_t i = 0; i < p->bench->count; i++) {
        const sg_bench_row *r = &p->bench->rows[i];
        if (!drawn(r))
            continue;
        x0 = fmin(x0, log10(intensity(r)));
        x1 = fmax(x1, log10(intensity(r)));
        y0 = fmin(y0, log10(rate(r)));
    }
    for (int32_t k = 0; k < p->bench->n_targets; k++) {
        const sg_bench_target *t = &p->bench->target[k];
        if (t->missing[0])
            continue;
        x0 = fmin(x0, log10(t->flops / t->bytes) - 1);
        x1 = fmax(x1, log10(t->flops / t->bytes) + 0.5);
        y1 = fmax(y1, log10(t->flops));
    }
    p->x_low = floor(x0);
    p->x_high = ceil(x1);
    p->y_low = floor(fmin(y0, y1 - 2));
    p->y_high = ceil(y1 + 0.1);
}

/* ---- text */

static void escaped(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        default:
            fputc(*text, out);
        }
}

static void text_at(const plot *p, double x, double y, const char *anchor, const char *text)
{
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    escaped(p->out, text);
    fputs("</text>\n", p->out);
}

/* 1e9 as "1 G"; powers of ten alone are written. */
static const char *decade(int power, char *out, size_t size)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    if (power >= 0 && power < 18)
        snprintf(out, size, "%.0f %s", pow(10, power % 3), prefixes[power / 3]);
    else
        snprintf(out, size, "1e%d", power);
    return out;
}

/* ---- parts */

static void draw_axes(const plot *p)
{
    char text[32];
    fprintf(p->out, "<g stroke=\"#dddddd\">\n");
    for (int d = (int)p->x_low; d <= (int)p->x_high; d++)
        fprintf(p->out, "<path d=\"M%.1f,%dv%d\"/>\n", across(p, pow(10, d)), TOP, p->height);
    for (int d = (int)p->y_low; d <= (int)p->y_high; d++)
        fprintf(p->out, "<path d=\"M%d,%.1fh%d\"/>\n", LEFT, down(p, pow(10, d)), PLOT_WIDTH);
    fprintf(p->out, "</g>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#444444\"/>\n",
            LEFT, TOP, PLOT_WIDTH, p->height);
    for (int d = (int)p->x_low; d <= (int)p->x_high; d++) {
        snprintf(text, sizeof text, "%g", pow(10, d));
        text_at(p, across(p, pow(10, d)), TOP + p->height + 18, "middle", text);
    }
    for (int d = (int)p->y_low; d <= (int)p->y_high; d++)
        text_at(p, LEFT - 8, down(p, pow(10, d)) + 4, "end", decade(d, text, sizeof text));
    text_at(p, LEFT + PLOT_WIDTH / 2.0, TOP + p->height + 42, "middle", "flops for each byte that must move");
    fprintf(p->out, "<text transform=\"translate(22,%d) rotate(-90)\" text-anchor=\"middle\">flops a second</text>\n",
            TOP + p->height / 2);
}

static void draw_roof(const plot *p, int32_t k)
{
    const sg_bench_target *t = &p->bench->target[k];
    double low = pow(10, p->x_low), high = pow(10, p->x_high), ridge = t->flops / t->bytes;
    double floor = pow(10, p->y_low), start = roof(t, low) < floor ? floor / t->bytes : low;
    fprintf(p->out, "<path d=\"M%.1f,%.1fL%.1f,%.1fL%.1f,%.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n",
            across(p, start), down(p, roof(t, start)), across(p, ridge), down(p, t->flops), across(p, high),
            down(p, t->flops), colours[k]);
}

static double nearness(const plot *p, place at)
{
    double nearest = INFINITY;
    for (int32_t i = 0; i < p->n_taken; i++)
        nearest = fmin(nearest, fmax(fabs(p->taken[i].x - at.x) / 14, fabs(p->taken[i].y - at.y) / 10));
    return nearest;
}

static void take(plot *p, place at)
{
    if (p->n_taken < MOST_LABELS)
        p->taken[p->n_taken++] = at;
}

static place place_of(const plot *p, const sg_bench_row *r)
{
    return (place){across(p, intensity(r)), down(p, rate(r))};
}

static void draw_mark(plot *p, const sg_bench_row *r)
{
    int32_t k = (int32_t)(r->target - p->bench->target);
    place at = place_of(p, r);
    fprintf(p->out, "<path transform=\"translate(%.1f,%.1f)\" d=\"%s\" fill=\"%s\" fill-opacity=\"0.75\"><title>", at.x,
            at.y, marks[k % 4], colours[k]);
    escaped(p->out, r->name);
    fprintf(p->out, ", %s %s: %.1f us, %.0f %% of peak</title></path>\n", r->target->device, r->target->dtype,
            r->median_us, 100 * r->peak_fraction);
    take(p, at);
}

/* The number of the row's name, where it is farthest from what is drawn already, with a thread if that is not beside the mark. */
static void draw_number(plot *p, const sg_bench_row *r, int32_t number)
{
    place mark = place_of(p, r), best = mark;
    double best_score = -INFINITY;
    for (int step = 0; step < 36; step++) {
        double angle = 2 * M_PI * (step % 12) / 12, reach = 13 + 9 * (step / 12);
        place at = {mark.x + 1.2 * reach * cos(angle), mark.y - reach * sin(angle)};
        double score = smaller(nearness(p, at), 1.3) - 0.15 * (step / 12);
        bool inside = at.x > LEFT + 8 && at.x < LEFT + PLOT_WIDTH - 8 && at.y > TOP + 6 && at.y < TOP + p->height - 6;
        if (inside && score > best_score) {
            best_score = score;
            best = at;
        }
    }
    if (hypot(best.x - mark.x, best.y - mark.y) > 18)
        fprintf(p->out, "<path d=\"M%.1f,%.1fL%.1f,%.1f\" stroke=\"#999999\" stroke-width=\"0.6\"/>\n", mark.x, mark.y,
                best.x, best.y);
    fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"10\" fill=\"%s\">%d</text>\n",
            best.x, best.y + 3.5, colours[r->target - p->bench->target], (int)number);
    take(p, best);
}

/* Names in the order in which they first appear, from 1; 0 for a row whose name came before. */
static int32_t number_of(const sg_bench *b, int32_t row, bool *first)
{
    int32_t number = 0;
    for (int32_t i = 0; i <= row; i++) {
        bool fresh = true;
        for (int32_t k = 0; k < i; k++)
            fresh = fresh && strcmp(b->rows[k].name, b->rows[i].name) != 0;
        number += fresh && i < row;
        if (strcmp(b->rows[i].name, b->rows[row].name) == 0) {
            *first = i == row;
            return number + (i == row);
        }
    }
    return number;
}

static int32_t draw_targets(const plot *p)
{
    int32_t line = 0;
    for (int32_t k = 0; k < p->bench->n_targets; k++) {
        const sg_bench_target *t = &p->bench->target[k];
        char text[160];
        if (t->missing[0])
            continue;
        double y = TOP + 6 + LINE * 1.3 * line++;
        fprintf(p->out, "<path transform=\"translate(%d,%.1f)\" d=\"%s\" fill=\"%s\"/>\n", LIST_LEFT, y, marks[k % 4],
                colours[k]);
        snprintf(text, sizeof text, "%s %s: %.3g TFLOP/s, %.3g GB/s", t->device, t->dtype, t->flops / 1e12,
                 t->bytes / 1e9);
        text_at(p, LIST_LEFT + 14, y + 4, "start", text);
    }
    return line;
}

static void draw_list(const plot *p, int32_t line)
{
    fputs("<g font-size=\"11\">\n", p->out);
    for (int32_t i = 0; i < p->bench->count; i++) {
        bool first;
        char text[120];
        int32_t number = number_of(p->bench, i, &first);
        if (!first)
            continue;
        snprintf(text, sizeof text, "%d  %s%s", (int)number, p->bench->rows[i].name,
                 drawn(&p->bench->rows[i]) ? "" : " (no flops)");
        text_at(p, LIST_LEFT - 5, TOP + 20 + LINE * (1.3 * line + number), "start", text);
    }
    fputs("</g>\n", p->out);
}

static void draw(plot *p)
{
    int32_t names = 0;
    bool first;
    for (int32_t i = 0; i < p->bench->count; i++)
        names += (number_of(p->bench, i, &first), first);
    p->height = 20 + LINE * (names + 2 * p->bench->n_targets);
    p->height = p->height > LEAST_PLOT ? p->height : LEAST_PLOT;
    int height = TOP + p->height + 80;
    fprintf(p->out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n"
            "<title>Roofline of sealgraph bench</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, height, WIDTH, height);
    fprintf(p->out, "<text x=\"%d\" y=\"32\" font-size=\"17\">Work done against the limits measured</text>\n", LEFT);
    draw_axes(p);
    for (int32_t k = 0; k < p->bench->n_targets; k++)
        if (!p->bench->target[k].missing[0])
            draw_roof(p, k);
    for (int32_t i = 0; i < p->bench->count; i++)
        if (drawn(&p->bench->rows[i]))
            draw_mark(p, &p->bench->rows[i]);
    for (int32_t i = 0; i < p->bench->count; i++)
        if (drawn(&p->bench->rows[i]))
            draw_number(p, &p->bench->rows[i], number_of(p->bench, i, &first));
    draw_list(p, draw_targets(p));
    fputs("</svg>\n", p->out);
}

static sg_status write_svg(void *bench, FILE *out, sg_error *err)
{
    plot *p = sg_calloc(1, sizeof *p);
    if (!p)
        return sg_fail(err, SG_E_MEMORY, "out of memory");
    p->out = out;
    p->bench = bench;
    choose_axes(p);
    draw(p);
    sg_free(p);
    return SG_OK;
}

static sg_status write_png(const sg_bench *bench, const char *path, sg_error *err)
{
    FILE *svg = tmpfile();
    if (!svg)
        return sg_fail(err, SG_E_IO, "cannot write a temporary file: %s", strerror(errno));
    sg_status status = write_svg((void *)(uintptr_t)bench, svg, err);
    if (status == SG_OK)
        status = sgi_bench_png(svg, path, err);
    fclose(svg);
    return status;
}

bool sgi_bench_plot_ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

sg_status sgi_bench_plot(const sg_bench *bench, const char *path, sg_error *err)
{
    if (sgi_bench_plot_ends_in(path, ".png"))
        return write_png(bench, path, err);
    return sg_cli_replace(path, write_svg, (void *)(uintptr_t)bench, err);
}
