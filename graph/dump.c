/* dump.c - graphs as text and as Graphviz DOT. */
#include "graph/graph_internal.h"

static void print_attr(const sg_attr *a, FILE *out)
{
    switch (a->kind) {
    case SG_ATTR_INT:
        fprintf(out, "%lld", (long long)a->i);
        break;
    case SG_ATTR_REAL:
        fprintf(out, "%g", a->f);
        break;
    case SG_ATTR_TEXT:
        fprintf(out, "\"%s\"", a->s);
        break;
    case SG_ATTR_INTS:
        fprintf(out, "[");
        for (int64_t i = 0; i < a->count && i < 8; i++)
            fprintf(out, "%s%lld", i ? ", " : "", (long long)a->ints[i]);
        fprintf(out, a->count > 8 ? ", ...]" : "]");
        break;
    case SG_ATTR_REALS:
        fprintf(out, "[");
        for (int64_t i = 0; i < a->count && i < 4; i++)
            fprintf(out, "%s%g", i ? ", " : "", a->reals[i]);
        fprintf(out, a->count > 4 ? ", ...]" : "]");
        break;
    case SG_ATTR_GRAPH:
        fprintf(out, "body");
        break;
    }
}

static void print_node(const sg_graph *g, const sg_node *node, int depth, FILE *out)
{
    char text[SG_SHAPE_TEXT];
    fprintf(out, "%*s", depth * 4, "");
    for (int32_t k = 0; k < node->n_out; k++)
        fprintf(out, "%s%%%d: %s %s", k ? ", " : "", node->out + k, sg_dtype_name(g->values[node->out + k]->dtype),
                sg_shape_format(&g->values[node->out + k]->shape, text, sizeof text));
    fprintf(out, " = %s(", node->op->name);
    for (int32_t k = 0; k < node->n_in; k++)
        fprintf(out, "%s%%%d", k ? ", " : "", node->in[k]);
    fprintf(out, ")");
    for (int32_t i = 0; i < node->op->n_attrs; i++) {
        fprintf(out, "%s%s=", i ? ", " : " {", node->op->attrs[i].name);
        print_attr(&node->attr[i], out);
    }
    fprintf(out, "%s  # %s\n", node->op->n_attrs ? "}" : "", node->name);
}

static void print_graph(const sg_graph *g, int depth, FILE *out)
{
    for (int32_t n = 0; n < g->n_nodes; n++) {
        print_node(g, g->nodes[n], depth, out);
        for (int32_t i = 0; i < g->nodes[n]->op->n_attrs; i++)
            if (g->nodes[n]->attr[i].kind == SG_ATTR_GRAPH)
                print_graph(g->nodes[n]->attr[i].graph, depth + 1, out);
    }
    for (int32_t i = 0; i < g->n_inputs; i++)
        fprintf(out, "%*s%%%d <- outer %%%d\n", depth * 4, "", g->inputs[i].inner, g->inputs[i].outer.id);
    for (int32_t i = 0; i < g->n_results; i++)
        fprintf(out, "%*sresult %s = %%%d\n", depth * 4, "", g->results[i].name, g->results[i].id);
    for (int32_t i = 0; i < g->n_versions; i++)
        if (g->versions[i].current != g->versions[i].start)
            fprintf(out, "%*s%s <- %%%d\n", depth * 4, "", sg_store_peek(sg_graph_store(g), g->versions[i].entry)->name,
                    g->versions[i].current);
}

void sg_graph_print(const sg_graph *graph, FILE *out) { print_graph(graph, 0, out); }

/* DOT's quoted strings need only the quote and the backslash escaped. */
static void print_quoted(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

/* Clusters nest loop bodies; `prefix` keeps node names of different bodies apart. */
static void dot_graph(const sg_graph *g, const char *prefix, FILE *out)
{
    char text[SG_SHAPE_TEXT];
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const sg_node *node = g->nodes[n];
        fprintf(out, "  \"%s%d\" [label=\"", prefix, n);
        print_quoted(node->name, out);
        fprintf(out, "\\n%s %s\"%s];\n", node->op->name,
                sg_shape_format(&g->values[node->out]->shape, text, sizeof text),
                node->op->flags & SG_OP_LEAF ? ", shape=box" : "");
        for (int32_t k = 0; k < node->n_in; k++)
            fprintf(out, "  \"%s%d\" -> \"%s%d\";\n", prefix, g->values[node->in[k]]->node, prefix, n);
        for (int32_t i = 0; i < node->op->n_attrs; i++) {
            if (node->attr[i].kind != SG_ATTR_GRAPH)
                continue;
            char inner[256];
            snprintf(inner, sizeof inner, "%s%d.", prefix, n);
            fprintf(out, "  subgraph \"cluster_%s\" {\n  label=\"body of ", inner);
            print_quoted(node->name, out);
            fprintf(out, "\";\n");
            dot_graph(node->attr[i].graph, inner, out);
            fprintf(out, "  }\n");
        }
    }
}

void sg_graph_print_dot(const sg_graph *graph, FILE *out)
{
    fprintf(out, "digraph sealgraph {\n  node [fontname=\"sans-serif\"];\n");
    dot_graph(graph, "n", out);
    for (int32_t i = 0; i < graph->n_results; i++) {
        fprintf(out, "  \"result%d\" [shape=oval, label=\"", i);
        print_quoted(graph->results[i].name, out);
        fprintf(out, "\"];\n  \"n%d\" -> \"result%d\";\n", graph->values[graph->results[i].id]->node, i);
    }
    fprintf(out, "}\n");
}
