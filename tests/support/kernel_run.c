#include "tests/support/kernel_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cpu/cpu_internal.h"
#include "tests/support/graph_run.h"
#include "tests/support/tensor_check.h"

/* ---- arrays of a test, released together */

static void *owned[4096];
static int32_t n_owned;

static void *own(size_t bytes)
{
    void *p = NULL;
    if (n_owned == (int32_t)(sizeof owned / sizeof owned[0]) || posix_memalign(&p, 64, bytes ? bytes : 1) != 0)
        fail_msg("out of memory in a test");
    owned[n_owned++] = p;
    return p;
}

void test_free_all(void)
{
    while (n_owned > 0)
        free(owned[--n_owned]);
}

double *test_array(int64_t n)
{
    double *x = own((size_t)n * sizeof *x);
    memset(x, 0, (size_t)n * sizeof *x);
    return x;
}

double *test_numbers(uint64_t stream, int64_t n)
{
    double *x = test_array(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(2 * test_uniform(stream, i) - 1);
    return x;
}

double *test_indices(uint64_t stream, int64_t n, int64_t limit)
{
    double *x = test_array(n);
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)(int64_t)(test_uniform(stream, i) * (double)limit);
    return x;
}

/* ---- running */

enum { MAX_OPERANDS = 16 };

typedef struct run {
    sg_graph *graph;
    sg_node node;
    sg_shape shape[2 * MAX_OPERANDS];
    sg_dtype dtype[2 * MAX_OPERANDS];
    void *in[MAX_OPERANDS], *out[MAX_OPERANDS];
} run;

static void *to_device(const double *data, int64_t n, sg_dtype dtype)
{
    char *x = own((size_t)n * sg_dtype_size(dtype));
    for (int64_t i = 0; i < n; i++) {
        if (dtype == SG_I32)
            ((int32_t *)x)[i] = (int32_t)data[i];
        else if (dtype == SG_BOOL)
            x[i] = data[i] != 0;
        else
            ((float *)x)[i] = (float)data[i];
    }
    return x;
}

static double *from_device(const void *x, int64_t n, sg_dtype dtype)
{
    double *data = test_array(n);
    for (int64_t i = 0; i < n; i++)
        data[i] = dtype == SG_I32    ? ((const int32_t *)x)[i]
                  : dtype == SG_BOOL ? ((const uint8_t *)x)[i]
                                     : ((const float *)x)[i];
    return data;
}

static void begin(run *r, sg_value y, double *const *data)
{
    sg_error err;
    if (sg_is_none(y)) {
        fail_msg("the graph was not built");
        return;
    }
    if (sg_graph_status(y.graph, &err) != SG_OK)
        fail_msg("%s", err.text);
    memset(r, 0, sizeof *r);
    r->graph = y.graph;
    r->node = *sg_node_of(y);
    assert_true(r->node.n_in <= MAX_OPERANDS && r->node.n_out <= MAX_OPERANDS);
    for (int32_t k = 0; k < r->node.n_in + r->node.n_out; k++) {
        bool input = k < r->node.n_in;
        sg_value v = sg_value_at(y.graph, input ? r->node.in[k] : r->node.out + k - r->node.n_in);
        r->shape[k] = *sg_shape_of(v);
        r->dtype[k] = sg_dtype_of(v);
        /* An input read for its shape alone must never be touched. */
        if (input && !(r->node.op->shape_only >> k & 1))
            r->in[k] = to_device(data[k], sg_shape_count(&r->shape[k]), r->dtype[k]);
    }
}

static bool launch(run *r, int32_t threads, sg_error *err)
{
    int32_t n_in = r->node.n_in;
    sg_kernel_spec spec = {&r->node, r->node.attr,    n_in,   r->node.n_out, r->shape, r->shape + n_in,
                           r->dtype, r->dtype + n_in, threads};
    sg_device device = {.threads = threads, .isa = sg_cpu_isa_level()};
    const sg_cpu_kernel *found = sg_cpu_find(&spec);
    if (!found) {
        fail_msg("no kernel for %s", r->node.op->name);
        return false;
    }
    sg_kernel kernel = {0};
    if (found->prepare(&device, &spec, &kernel, err) != SG_OK)
        fail_msg("%s: %s", r->node.op->name, err->text);
    void *workspace = own(kernel.workspace);
    memset(workspace, 0xff, kernel.workspace);
    for (int32_t k = 0; k < spec.n_out; k++) {
        size_t bytes = (size_t)sg_shape_count(&spec.out_shape[k]) * sg_dtype_size(spec.out_dtype[k]);
        r->out[k] = own(bytes);
        memset(r->out[k], 0xff, bytes);
    }
    sg_launch args = {.in = (const void *const *)r->in,
                      .out = r->out,
                      .workspace = workspace,
                      .state = kernel.state,
                      .threads = threads,
                      .replicas = 1};
    bool ok = kernel.launch(&args, err);
    if (kernel.release)
        kernel.release(kernel.state);
    return ok;
}

void kernel_check(sg_value y, double *const *data, double rtol)
{
    run r;
    begin(&r, y, data);
    sg_value x[MAX_OPERANDS], results[MAX_OPERANDS];
    double *want[MAX_OPERANDS];
    int32_t n_in = r.node.n_in, n_out = r.node.n_out;
    for (int32_t k = 0; k < n_in; k++)
        x[k] = sg_value_at(r.graph, r.node.in[k]);
    for (int32_t k = 0; k < n_out; k++) {
        results[k] = sg_value_at(r.graph, r.node.out + k);
        want[k] = test_array(sg_shape_count(&r.shape[n_in + k]));
    }
    graph_eval(r.graph, x, data, n_in, results, want, n_out);
    void *first[MAX_OPERANDS];
    for (int32_t threads = 1; threads <= 3; threads++) {
        sg_error err = {0};
        if (!launch(&r, threads, &err))
            fail_msg("%s: %s", r.node.op->name, err.text);
        for (int32_t k = 0; k < n_out; k++) {
            int64_t n = sg_shape_count(&r.shape[n_in + k]);
            double *got = from_device(r.out[k], n, r.dtype[n_in + k]);
            assert_tensor_close(got, want[k], n, 0, rtol * tensor_scale(want[k], n), r.node.op->name);
            if (threads == 1)
                first[k] = r.out[k];
            else
                assert_memory_equal(first[k], r.out[k], (size_t)n * sg_dtype_size(r.dtype[n_in + k]));
        }
    }
}

bool kernel_fails(sg_value y, double *const *data, char *text, size_t size)
{
    run r;
    begin(&r, y, data);
    sg_error err = {0};
    if (launch(&r, 2, &err))
        return false;
    snprintf(text, size, "%s", err.text);
    return true;
}
