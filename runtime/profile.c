/* profile.c - what a plan costs, before and after running it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/elements_internal.h"
#include "runtime/plan_internal.h"

int64_t sg_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void sg_profile_record(sg_plan *plan, sg_step *step, int64_t start)
{
    int64_t duration = sg_clock() - start;
    step->calls++;
    step->nanoseconds += duration;
    if (plan->n_events < plan->event_capacity) /* the first runs tell the story; a full buffer just stops */
        plan->event[plan->n_events++] = (sg_event){step, start - plan->epoch, duration};
}

/* ------------------------------------------------------------------------------------------------------ before a
 * run */

static void describe_frame(const sg_frame *frame, double times, sg_plan_info *info)
{
    for (int32_t i = 0; i < frame->n_steps; i++) {
        const sg_step *step = &frame->step[i];
        if (step->body) {
            describe_frame(step->body, times * (double)step->count, info);
            continue;
        }
        sg_cost cost = sg_node_cost(frame->graph, step->node);
        info->nodes++;
        info->fused += step->node->op == &sg_op_fused;
        info->flops += times * cost.flops;
        info->bytes += times * cost.bytes;
    }
}

static size_t port_bytes(const sg_plan *plan, const sg_port *port, int32_t n)
{
    size_t bytes = 0;
    for (int32_t k = 0; k < n; k++)
        bytes += plan->buffer[port[k].buffer].bytes;
    return bytes;
}

sg_plan_info sg_plan_describe(const sg_plan *plan)
{
    sg_plan_info info = {.arena_bytes = plan->pinned_bytes + plan->scratch_bytes,
                         .temporary_bytes = plan->scratch_bytes};
    for (int32_t k = 0; k < plan->n_entries; k++)
        info.store_bytes += plan->buffer[plan->entry[k].buffer].bytes;
    info.input_bytes = port_bytes(plan, plan->input, plan->n_inputs);
    info.result_bytes = port_bytes(plan, plan->result, plan->n_results);
    describe_frame(plan->top, 1, &info);
    return info;
}

static int32_t frame_copies(const sg_frame *frame)
{
    int32_t n = frame->save.count + frame->commit.count;
    for (int32_t i = 0; i < frame->n_steps; i++)
        n += frame->step[i].body ? frame->step[i].start.count + frame_copies(frame->step[i].body) : 0;
    return n;
}

int32_t sg_plan_copy_count(const sg_plan *plan) { return frame_copies(plan->top); }

static void print_place(const sg_plan *plan, const sg_buffer *b, FILE *out)
{
    if (b->place == SG_PLACE_ENTRY)
        fprintf(out, " @ %s", sg_store_peek(plan->session->replica[0].store, b->entry)->name);
    else
        fprintf(out, " @ %s+%zu (%zu bytes)", b->place == SG_PLACE_ARENA ? "arena" : "pinned", b->offset, b->bytes);
}

static void print_copies(const sg_plan *plan, const char *what, const sg_copies *copies, int32_t indent, FILE *out)
{
    for (int32_t k = 0; k < copies->count; k++)
        fprintf(out, "%*s%s copy of %zu bytes\n", (int)indent, "", what, plan->buffer[copies->item[k].to].bytes);
}

static void print_frame(const sg_plan *plan, const sg_frame *frame, int32_t indent, FILE *out)
{
    for (int32_t i = 0; i < frame->n_steps; i++) {
        const sg_step *step = &frame->step[i];
        const sg_node *node = step->node;
        fprintf(out, "%*s%-24s %-16s (", (int)indent, "", node->name, node->op->name);
        char text[SG_SHAPE_TEXT];
        for (int32_t k = 0; k < node->n_in; k++)
            fprintf(out, "%s%s", k ? ", " : "", sg_shape_format(&step->spec.in_shape[k], text, sizeof text));
        fprintf(out, ") ->");
        for (int32_t k = 0; k < node->n_out; k++) {
            const sg_buffer *b = &plan->buffer[step->out[k]];
            fprintf(out, " %s", sg_shape_format(&step->spec.out_shape[k], text, sizeof text));
            print_place(plan, b, out);
        }
        if (!step->body) {
            fprintf(out, " by %s\n", step->kernel.name);
            continue;
        }
        fprintf(out, ", %lld times:\n", (long long)step->count);
        print_copies(plan, "start", &step->start, indent + 2, out);
        print_frame(plan, step->body, indent + 2, out);
    }
    print_copies(plan, "save", &frame->save, indent, out);
    print_copies(plan, "commit", &frame->commit, indent, out);
}

void sg_plan_print(const sg_plan *plan, FILE *out) { print_frame(plan, plan->top, 0, out); }

/* ------------------------------------------------------------------------------------------------------- after a
 * run */

typedef struct line {
    const sg_step *step;
    sg_cost cost;
} line;

static int32_t collect(const sg_frame *frame, line *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < frame->n_steps; i++) {
        const sg_step *step = &frame->step[i];
        if (step->body)
            n += collect(step->body, out ? out + n : NULL);
        else if (out)
            out[n++] = (line){step, sg_node_cost(frame->graph, step->node)};
        else
            n++;
    }
    return n;
}

static int slower_first(const void *a, const void *b)
{
    const line *x = a, *y = b;
    if (x->step->nanoseconds != y->step->nanoseconds)
        return x->step->nanoseconds < y->step->nanoseconds ? 1 : -1;
    return x->step->begin - y->step->begin;
}

/* Per second of kernel time; 0 before the first run. */
static double rate(double amount, const sg_step *step)
{
    return step->nanoseconds ? amount * (double)step->calls / (double)step->nanoseconds : 0;
}

void sg_plan_profile_print(const sg_plan *plan, FILE *out)
{
    int32_t n = collect(plan->top, NULL);
    line *lines = sg_calloc(n + 1, sizeof *lines);
    if (!lines)
        return;
    collect(plan->top, lines);
    qsort(lines, (size_t)n, sizeof *lines, slower_first);
    double total = 0;
    for (int32_t i = 0; i < n; i++)
        total += (double)lines[i].step->nanoseconds;
    fprintf(out, "%-28s %-24s %9s %12s %7s %9s %9s\n", "node", "kernel", "calls", "total ms", "share", "Gflop/s",
            "GB/s");
    for (int32_t i = 0; i < n; i++) {
        const sg_step *s = lines[i].step;
        fprintf(out, "%-28.28s %-24.24s %9lld %12.3f %6.1f%% %9.2f %9.2f\n", s->node->name, s->kernel.name,
                (long long)s->calls, (double)s->nanoseconds / 1e6, total ? 100 * (double)s->nanoseconds / total : 0,
                rate(lines[i].cost.flops, s), rate(lines[i].cost.bytes, s));
    }
    fprintf(out, "%-28s %-24s %9s %12.3f\n", "total", "", "", total / 1e6);
    sg_free(lines);
}

static void write_json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

/* Trace event format, complete events; times in microseconds. Loops enclose the steps of their bodies. */
static void write_events(const sg_plan *plan, FILE *out)
{
    fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [", out);
    for (int64_t i = 0; i < plan->n_events; i++) {
        const sg_event *e = &plan->event[i];
        fprintf(out, "%s\n{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"ts\": %.3f, \"dur\": %.3f, \"cat\": ", i ? "," : "",
                (double)e->start / 1e3, (double)e->duration / 1e3);
        write_json_text(out, e->step->node->op->name);
        fputs(", \"name\": ", out);
        write_json_text(out, e->step->node->name);
        fputs(", \"args\": {\"kernel\": ", out);
        write_json_text(out, e->step->kernel.name ? e->step->kernel.name : "loop");
        fputs("}}", out);
    }
    fputs("\n]}\n", out);
}

sg_status sg_plan_profile_trace(const sg_plan *plan, FILE *out, sg_error *err)
{
    if (!plan->event)
        return sg_fail(err, SG_E_ARGUMENT, "no trace: the session was made without the option 'profile'");
    write_events(plan, out);
    return SG_OK;
}
