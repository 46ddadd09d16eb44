/* table.c - aligned columns for people. */
#include "cli/cli.h"

#include <string.h>

enum { MOST_COLUMNS = 32 };

struct sg_table {
    int columns;
    bool right[MOST_COLUMNS];
    int64_t count, capacity; /* cells, the titles first */
    char **cells;
    bool failed; /* out of memory: printed as far as it got */
};

static void add(sg_table *table, const char *text, size_t length)
{
    if (table->count == table->capacity) {
        int64_t capacity = table->capacity ? 2 * table->capacity : 64;
        char **cells = sg_realloc(table->cells, (size_t)capacity * sizeof *cells);
        if (!cells) {
            table->failed = true;
            return;
        }
        table->cells = cells;
        table->capacity = capacity;
    }
    char *cell = sg_alloc(length + 1);
    if (!cell) {
        table->failed = true;
        return;
    }
    memcpy(cell, text, length);
    cell[length] = 0;
    table->cells[table->count++] = cell;
}

sg_table *sg_table_new(const char *titles)
{
    sg_table *table = sg_calloc(1, sizeof *table);
    for (const char *at = titles; table && *at && table->columns < MOST_COLUMNS;) {
        bool right = *at == '>';
        size_t span = strcspn(at, "|");
        add(table, at + right, span - right);
        table->right[table->columns++] = right;
        at += span + (at[span] == '|');
    }
    return table;
}

void sg_table_cell(sg_table *table, const char *fmt, ...)
{
    char text[512];
    va_list args;
    if (!table || table->failed)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    add(table, text, strlen(text));
}

/* Columns on the terminal: bytes that do not continue a UTF-8 character. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void print_row(const sg_table *table, int64_t row, const int *width, FILE *out)
{
    for (int c = 0; c < table->columns; c++) {
        int64_t i = row * table->columns + c;
        const char *cell = i < table->count ? table->cells[i] : "";
        int pad = width[c] - width_of(cell);
        bool last = c + 1 == table->columns;
        fprintf(out, "%*s%s%*s", table->right[c] ? pad : 0, "", cell, table->right[c] || last ? 0 : pad, "");
        fputs(last ? "\n" : "  ", out);
    }
}

void sg_table_print(const sg_table *table, FILE *out, bool color)
{
    int width[MOST_COLUMNS] = {0};
    if (!table)
        return;
    for (int64_t i = 0; i < table->count; i++)
        if (width_of(table->cells[i]) > width[i % table->columns])
            width[i % table->columns] = width_of(table->cells[i]);
    int64_t rows = (table->count + table->columns - 1) / table->columns;
    for (int64_t row = 0; row < rows; row++) {
        fputs(row == 0 ? sg_paint(color, SG_STYLE_BOLD) : "", out);
        print_row(table, row, width, out);
        fputs(row == 0 ? sg_paint(color, SG_STYLE_RESET) : "", out);
    }
}

static void print_markdown_row(const sg_table *table, int64_t row, FILE *out)
{
    for (int c = 0; c < table->columns; c++) {
        int64_t i = row * table->columns + c;
        fprintf(out, "| %s ", i < table->count ? table->cells[i] : "");
    }
    fputs("|\n", out);
}

void sg_table_print_markdown(const sg_table *table, FILE *out)
{
    for (int64_t row = 0; table && row * table->columns < table->count; row++) {
        print_markdown_row(table, row, out);
        for (int c = 0; row == 0 && c < table->columns; c++)
            fprintf(out, "| %s%s", table->right[c] ? "---: " : "--- ", c + 1 == table->columns ? "|\n" : "");
    }
}

void sg_table_free(sg_table *table)
{
    for (int64_t i = 0; table && i < table->count; i++)
        sg_free(table->cells[i]);
    if (table)
        sg_free(table->cells);
    sg_free(table);
}
