#include "tests/support/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_TEXT = 1 << 22 };

char program_folder[64];

int program_make_folder(void **state)
{
    (void)state;
    snprintf(program_folder, sizeof program_folder, "/tmp/sealgraph-test-XXXXXX");
    return mkdtemp(program_folder) ? 0 : -1;
}

int program_remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", program_folder);
    return system(command);
}

char *program_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", program_folder, name);
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, MOST_TEXT);
    assert_non_null(text);
    if (file) {
        size_t used = fread(text, 1, MOST_TEXT - 1, file);
        text[used] = 0;
        fclose(file);
    }
    return text;
}

outcome program_run(const char *settings, const char *arguments)
{
    char command[4096];
    snprintf(command, sizeof command,
             "cd %s && { env -i PATH=/usr/bin:/bin OMP_WAIT_POLICY=passive %s %s/sealgraph %s; } >out.txt 2>err.txt",
             program_folder, settings, SG_BINARY_DIR, arguments);
    int status = system(command);
    return (outcome){WIFEXITED(status) ? WEXITSTATUS(status) : -1, program_file("out.txt"), program_file("err.txt")};
}

void outcome_release(outcome *o)
{
    free(o->out);
    free(o->err);
}

int text_lines(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

void outcome_is_failure(outcome o, const char *arguments, int code, const char *message)
{
    if (o.code != code || !strstr(o.err, message) || o.out[0] || text_lines(o.err) < 1 || text_lines(o.err) > 3)
        fail_msg("%s: code %d\nout: %s\nerr: %s", arguments, o.code, o.out, o.err);
    outcome_release(&o);
}

json_t *outcome_document(outcome o, const char *arguments, int code)
{
    json_error_t where;
    json_t *value = json_loads(o.out, JSON_REJECT_DUPLICATES, &where);
    if (!value || o.code != code)
        fail_msg("%s: code %d, %s\nout: %s\nerr: %s", arguments, o.code, value ? "" : where.text, o.out, o.err);
    outcome_release(&o);
    return value;
}

outcome run(const char *arguments) { return program_run("", arguments); }

void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", program_folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

int exists(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", program_folder, name);
    return access(path, F_OK) == 0;
}

void fails(const char *arguments, int code, const char *message)
{
    outcome_is_failure(run(arguments), arguments, code, message);
}

json_t *document(const char *arguments, int code) { return outcome_document(run(arguments), arguments, code); }

void succeeds(const char *arguments, const char *printed)
{
    outcome o = run(arguments);
    if (o.code != 0 || !strstr(o.out, printed))
        fail_msg("%s: code %d\nout: %s\nerr: %s", arguments, o.code, o.out, o.err);
    outcome_release(&o);
}

void write_data(const char *name)
{
    char path[256];
    unsigned bits = 12345;
    snprintf(path, sizeof path, "%s/%s", program_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("@relation 'toy: -C 3'\n@attribute p {0,1}\n@attribute q {0,1}\n@attribute r {0,1}\n", file);
    fputs("@attribute a numeric\n@attribute b numeric\n@attribute c numeric\n@data\n", file);
    for (int row = 0; row < 200; row++) {
        double x[3];
        for (int i = 0; i < 3; i++) {
            bits = bits * 1103515245u + 12345u;
            x[i] = (double)(bits >> 16 & 0x7fff) / 16384 - 1;
        }
        fprintf(file, "%d,%d,%d,%.4f,%.4f,%.4f\n", x[0] > 0, x[1] > 0, x[2] > 0 || x[0] <= 0, x[0], x[1], x[2]);
    }
    fclose(file);
}

void refused_before_reading(const char *arguments, const char *message)
{
    write_file("toy.arff", "@relation broken");
    fails(arguments, 2, message);
    write_data("toy.arff");
}
