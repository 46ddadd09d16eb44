/* progress.c - how far a long run is: a bar on a terminal, a plain line now and then in a log file. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define BAR_SECONDS 0.1
#define LINE_SECONDS 30

double sg_cli_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

const char *sg_duration(double seconds, char *out, size_t size)
{
    int64_t whole = (int64_t)(seconds + 0.5);
    if (seconds < 60)
        snprintf(out, size, "%.1fs", seconds);
    else if (whole < 3600)
        snprintf(out, size, "%lldm%02llds", (long long)(whole / 60), (long long)(whole % 60));
    else
        snprintf(out, size, "%lldh%02lldm", (long long)(whole / 3600), (long long)(whole / 60 % 60));
    return out;
}

void sg_progress_begin(sg_progress *progress, const sg_cli *cli, const char *unit)
{
    const char *mode = sg_cli_value(cli, "progress"), *term = getenv("TERM");
    bool terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    *progress = (sg_progress){.mode = terminal ? SG_PROGRESS_BAR : SG_PROGRESS_PLAIN};
    if (cli->verbosity < 0 || (mode && strcmp(mode, "none") == 0))
        progress->mode = SG_PROGRESS_NONE;
    else if (mode && strcmp(mode, "bar") == 0)
        progress->mode = SG_PROGRESS_BAR;
    else if (mode && strcmp(mode, "plain") == 0)
        progress->mode = SG_PROGRESS_PLAIN;
    progress->unit = unit;
    progress->started = progress->shown = sg_cli_clock();
    progress->first = -1;
    progress->color = cli->color_err;
}

static int terminal_width(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

static void clear_bar(sg_progress *progress)
{
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    progress->drawn = false;
}

void sg_progress_update(sg_progress *progress, int64_t done, int64_t total, const char *text)
{
    enum { CELLS = 24 };
    char line[256], left[32];
    double now = sg_cli_clock(), elapsed = now - progress->started;
    double interval = progress->mode == SG_PROGRESS_BAR ? BAR_SECONDS : LINE_SECONDS;
    if (progress->first < 0)
        progress->first = done; /* what a resumed run had done before does not count as speed */
    if (progress->mode == SG_PROGRESS_NONE || now - progress->shown < interval)
        return;
    progress->shown = now;
    double rate = elapsed > 0 ? (double)(done - progress->first) / elapsed : 0;
    sg_duration(rate > 0 ? (double)(total - done) / rate : 0, left, sizeof left);
    snprintf(line, sizeof line, "%lld/%lld %s  %.1f/s  eta %s  %s", (long long)done, (long long)total, progress->unit,
             rate, left, text);
    if (progress->mode == SG_PROGRESS_PLAIN) {
        fprintf(stderr, "%s\n", line);
        return;
    }
    int filled = total > 0 ? (int)(CELLS * done / total) : 0;
    fprintf(stderr, "\r\033[K%s%.*s%s%.*s %.*s", sg_paint(progress->color, SG_STYLE_GREEN), filled,
            "########################", sg_paint(progress->color, SG_STYLE_RESET), CELLS - filled,
            "........................", terminal_width() - CELLS - 2, line);
    progress->drawn = true;
    fflush(stderr);
}

void sg_progress_line(sg_progress *progress, const char *fmt, ...)
{
    va_list args;
    if (progress->mode == SG_PROGRESS_NONE)
        return;
    va_start(args, fmt);
    clear_bar(progress);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
}

void sg_progress_end(sg_progress *progress)
{
    clear_bar(progress);
    fflush(stderr);
}
