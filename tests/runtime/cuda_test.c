/* The kernels of a GPU on every sample of ops/samples: values and derivatives against reference, recorded runs against runs launch
 * by launch. Skipped where there is no GPU, with the reason. `cuda_test PATTERN...` runs the tests whose names match one of them;
 * SG_SHARD=i/n runs each n-th from the i-th, so that several processes share the work. */
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/autodiff.h"
#include "cli/check/op_check.h"
#include "runtime/runtime.h"

typedef struct subject {
    const sg_op_check *check;
    const sg_sample *sample;
    bool packs; /* chains take packs of elements, however few there are */
} subject;

static void holds(void **state)
{
    const subject *s = *state;
    sg_finding finding = {.passed = true, .limit = 1};
    if (s->packs)
        setenv("SEALGRAPH_CUDA_BUSY", "0", 1);
    else
        unsetenv("SEALGRAPH_CUDA_BUSY");
    sg_op_check_run(s->check, s->sample, &finding);
    if (!finding.passed)
        fail_msg("%s; error %.3g, limit %.0e", finding.text, finding.error, finding.limit);
}

static bool device_is_there(char *out, size_t size)
{
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = NULL;
    sg_error err = {0};
    sg_session_options options = {.size = sizeof options, .backend = "cuda"};
    bool there = store && sg_session_new(&session, store, &options, &err) == SG_OK;
    snprintf(out, size, "%s", there ? sg_session_describe(session) : err.text);
    sg_session_free(session);
    sg_store_free(store);
    return there;
}

static struct CMUnitTest test_of(const sg_op_check *check, const sg_sample *sample, bool packs)
{
    char name[300], sampled[256];
    subject *s = malloc(sizeof *s);
    sg_sample_name(sample, sampled, sizeof sampled);
    snprintf(name, sizeof name, "%s%s: %s", check->name, packs ? " in packs" : "", sampled);
    if (s)
        *s = (subject){check, sample, packs};
    return (struct CMUnitTest){.name = strdup(name), .test_func = holds, .initial_state = s};
}

static bool wanted(const char *name, char **patterns, int n)
{
    for (int k = 0; k < n; k++)
        if (fnmatch(patterns[k], name, 0) == 0)
            return true;
    return n == 0;
}

int main(int argc, char **argv)
{
    char text[512];
    int shard = 0, shards = 1, at = 0, n = 0;
    const char *given = getenv("SG_SHARD");
    setenv("SEALGRAPH_MODULE_PATH", SG_BINARY_DIR, 0);
    if (!device_is_there(text, sizeof text)) {
        printf("skipped: %s\n", text);
        return 77;
    }
    printf("on %s\n", text);
    sg_autodiff_start(); /* samples of derivatives are run on reference before anything is differentiated */
    if (given && (sscanf(given, "%d/%d", &shard, &shards) != 2 || shards < 1))
        return 1;
    struct CMUnitTest *tests = calloc((size_t)(2 * sg_sample_count() * sg_cuda_check_count), sizeof *tests);
    for (int32_t i = 0; tests && i < sg_sample_count(); i++)
        for (int32_t c = 0; c < 2 * sg_cuda_check_count; c++)
            if (sg_cuda_checks[c / 2].applies(sg_sample_at(i)) && (c % 2 == 0 || sg_cuda_checks[c / 2].order < 2)) {
                tests[n] = test_of(&sg_cuda_checks[c / 2], sg_sample_at(i), c % 2);
                n += wanted(tests[n].name, argv + 1, argc - 1) && at++ % shards == shard;
            }
    return _cmocka_run_group_tests("cuda", tests, (size_t)n, NULL, NULL);
}
