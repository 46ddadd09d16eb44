/* Graph construction: sharing, errors, versions, bodies, rewriting, rebinding. Uses two small operators of its own, so that
 * graph/ is tested without ops/. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static sg_status same_shape(const sg_infer_args *a)
{
    if (!sg_shape_broadcast(&a->in_shape[0], &a->in_shape[a->n_in - 1], &a->out_shape[0]))
        return sg_infer_fail(a, SG_E_SHAPE, "shapes do not broadcast");
    a->out_dtype[0] = a->in_dtype[0];
    return SG_OK;
}

static const sg_op plus = {.name = "plus",
                           .summary = "a + b",
                           .n_in = 2,
                           .n_out = 1,
                           .flags = SG_OP_ELEMENTWISE | SG_OP_COMMUTATIVE,
                           .linear = 3,
                           .infer = same_shape};
static const sg_op twice = {.name = "twice", .summary = "2 a", .n_in = 1, .n_out = 1, .infer = same_shape};

static sg_value add(sg_value a, sg_value b)
{
    return sg_build(sg_is_none(a) ? b.graph : a.graph, &plus, (sg_value[]){a, b}, 2, NULL);
}

static void equal_expressions_are_one_node(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2, 3)), y = sg_input(g, "y", SG_F32, SG_SHAPE(3));
    sg_value a = add(x, y);
    assert_true(sg_same(a, add(y, x)));
    assert_true(sg_same(x, sg_input(g, "x", SG_F32, SG_SHAPE(2, 3))));
    assert_false(sg_same(a, sg_build(g, &twice, &x, 1, NULL)));
    assert_int_equal(sg_node_count(g), 4);
    assert_int_equal(sg_dim_of(a, -1), 3);
    assert_true(sg_same(sg_scalar(g, 1), sg_scalar(g, 1)));
    assert_false(sg_same(sg_scalar(g, 0.0), sg_scalar(g, -0.0)));
    assert_false(sg_same(sg_constant(g, SG_F32, SG_SHAPE(1), (double[]){1}, 1), sg_scalar(g, 1)));
    assert_int_equal(sg_graph_verify(g, NULL), SG_OK);
    sg_graph_free(g);
}

static void first_error_is_kept_with_its_place(void **state)
{
    (void)state;
    sg_error err;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2, 3)), y = sg_input(g, "y", SG_F32, SG_SHAPE(4));
    sg_value bad = SG_AT(add, x, y);
    int line = __LINE__ - 1;
    assert_true(sg_is_none(bad));
    assert_true(sg_is_none(add(bad, x)));
    assert_true(sg_is_none(sg_input(g, "z", SG_F32, SG_SHAPE(1))));
    assert_int_equal(sg_graph_status(g, &err), SG_E_SHAPE);
    assert_string_equal(err.op, "plus");
    assert_non_null(strstr(err.text, "[2, 3]"));
    assert_non_null(strstr(err.text, "[4]"));
    assert_non_null(strstr(err.file, "graph_test.c"));
    assert_int_equal(err.line, line);
    sg_graph_free(g);
}

static void conflicting_names_are_errors(void **state)
{
    (void)state;
    sg_error err;
    sg_graph *g = sg_graph_new();
    sg_input(g, "x", SG_F32, SG_SHAPE(2));
    assert_true(sg_is_none(sg_input(g, "x", SG_F32, SG_SHAPE(3))));
    assert_int_equal(sg_graph_status(g, &err), SG_E_NAME);
    sg_graph_free(g);

    sg_store *s = sg_store_new(SG_F32);
    g = sg_graph_new();
    sg_scope root = sg_scope_root(g, s);
    sg_param(root, "W", SG_SHAPE(2), sg_init_zeros());
    assert_true(sg_is_none(sg_param(root, "W", SG_SHAPE(2), sg_init_constant(1))));
    assert_int_equal(sg_graph_status(g, &err), SG_E_NAME);
    assert_non_null(strstr(err.text, "'W'"));
    sg_graph_free(g);
    sg_store_free(s);
}

static void sizes_are_checked(void **state)
{
    (void)state;
    int64_t huge = (int64_t)1 << 40;
    sg_graph *g = sg_graph_new();
    assert_true(sg_is_none(sg_input(g, "x", SG_F32, SG_SHAPE(huge, huge))));
    assert_int_equal(sg_graph_status(g, NULL), SG_E_SHAPE);
    sg_graph_free(g);
    sg_shape empty = SG_SHAPE(huge, huge, 0);
    assert_int_equal(sg_shape_count(&empty), -1); /* its strides would overflow */
    g = sg_graph_new();
    assert_true(sg_is_none(sg_input(g, "x", SG_F32, SG_SHAPE(-1))));
    sg_graph_free(g);
}

static void assignment_makes_versions(void **state)
{
    (void)state;
    sg_store *s = sg_store_new(SG_F32);
    sg_graph *g = sg_graph_new();
    sg_scope root = sg_scope_root(g, s), net = sg_scope_sub(root, "net");
    sg_value w0 = sg_param(net, "w", SG_SHAPE(3), sg_init_zeros());
    sg_value n = sg_state(root, "count", SG_F32, sg_shape_scalar(), sg_init_zeros());
    sg_value w1 = add(w0, w0);
    assert_int_equal(sg_effect_count(g), 0);
    sg_assign(w0, w1);
    assert_true(sg_same(sg_param(net, "w", SG_SHAPE(3), sg_init_zeros()), w1));
    sg_value found[4];
    assert_int_equal(sg_params(root, found, 4), 1);
    assert_true(sg_same(found[0], w1));
    assert_int_equal(sg_effect_count(g), 1);
    int32_t entry, value;
    sg_effect_at(g, 0, &entry, &value);
    assert_string_equal(sg_store_at(s, entry)->name, "net/w");
    assert_int_equal(value, w1.id);
    sg_assign(w0, w1); /* w0 is no longer current */
    assert_int_equal(sg_graph_status(g, NULL), SG_E_ARGUMENT);
    (void)n;
    sg_graph_free(g);
    sg_store_free(s);
}

/* What follows may count on what it is told, as arrays of its own are as long. */
static void parameters_without_room_fail(void **state)
{
    (void)state;
    sg_store *s = sg_store_new(SG_F32);
    sg_graph *g = sg_graph_new();
    sg_scope net = sg_scope_sub(sg_scope_root(g, s), "net");
    sg_value w = sg_param(net, "w", SG_SHAPE(3), sg_init_zeros()), found[2] = {SG_NONE, SG_NONE};
    sg_param(net, "c", SG_SHAPE(3), sg_init_zeros());
    assert_int_equal(sg_params(net, found, 2), 2);
    assert_int_equal(sg_graph_status(g, NULL), SG_OK);
    found[1] = SG_NONE;
    assert_int_equal(sg_params(net, found, 1), 1);
    assert_true(sg_same(found[0], w) && sg_is_none(found[1]));
    sg_error err;
    assert_int_equal(sg_graph_status(g, &err), SG_E_ARGUMENT);
    assert_non_null(strstr(err.text, "more than 1 parameters under 'net'"));
    assert_int_equal(sg_params(net, NULL, -1), 0);
    sg_graph_free(g);
    sg_store_free(s);
}

static void bodies_capture_values_and_entries(void **state)
{
    (void)state;
    sg_store *s = sg_store_new(SG_F32);
    sg_graph *g = sg_graph_new();
    sg_scope root = sg_scope_root(g, s);
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(3));
    sg_value w = sg_param(root, "w", SG_SHAPE(3), sg_init_zeros());
    sg_graph *outer = sg_body_new(g), *inner = sg_body_new(outer);
    sg_value carried = sg_body_state(inner, x);
    sg_value used = add(carried, x); /* x is captured through both bodies */
    sg_value p = sg_param(sg_scope_in(root, inner), "w", SG_SHAPE(3), sg_init_zeros());
    assert_false(sg_same(p, sg_capture(inner, w))); /* the entry of the iteration, not the version at the start */
    sg_assign(p, add(p, used));
    assert_int_equal(sg_body_entry_count(inner), 1);
    int32_t entry;
    sg_value start, next;
    sg_body_entry_at(inner, 0, &entry, &start, &next);
    assert_true(sg_same(start, p));
    assert_int_equal(sg_effect_count(g), 0);
    assert_int_equal(sg_body_input_count(inner), 4);
    assert_int_equal(sg_body_input_count(outer), 3);
    assert_int_equal(sg_graph_status(g, NULL), SG_OK);

    sg_graph *other = sg_graph_new();
    assert_true(sg_is_none(sg_capture(inner, sg_input(other, "y", SG_F32, SG_SHAPE(1)))));
    assert_int_equal(sg_graph_status(g, NULL), SG_E_GRAPH);
    sg_graph_free(other);
    sg_graph_free(g);
    sg_store_free(s);
}

static bool replace_twice(void *user, sg_graph *to, sg_graph *from, const sg_node *node, const sg_value *in,
                          sg_value *out)
{
    (void)user, (void)to, (void)from;
    if (node->op != &twice)
        return false;
    out[0] = add(in[0], in[0]);
    return true;
}

static void rewriting_drops_dead_nodes_and_replaces(void **state)
{
    (void)state;
    sg_store *s = sg_store_new(SG_F32);
    sg_graph *g = sg_graph_new(), *to = sg_graph_new();
    sg_scope root = sg_scope_root(g, s);
    sg_value x = sg_input(g, "x", SG_F32, SG_SHAPE(2)), w = sg_param(root, "w", SG_SHAPE(2), sg_init_zeros());
    sg_value y = sg_named(sg_build(g, &twice, &x, 1, NULL), "doubled");
    add(y, y); /* dead */
    sg_result(g, "y", y);
    sg_assign(w, add(w, y));
    assert_int_equal(sg_graph_rewrite(g, to, replace_twice, NULL, NULL, NULL), SG_OK);
    assert_int_equal(sg_node_count(to), 4);
    assert_int_equal(sg_result_count(to), 1);
    assert_string_equal(sg_result_name(to, 0), "y");
    assert_ptr_equal(sg_node_of(sg_result_value(to, 0))->op, &plus);
    assert_int_equal(sg_effect_count(to), 1);
    assert_int_equal(sg_graph_verify(to, NULL), SG_OK);
    sg_graph_free(g);
    sg_graph_free(to);
    sg_store_free(s);
}

static void named_dimensions_rebind_or_stay(void **state)
{
    (void)state;
    sg_error err;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x", SG_F32, sg_shape_named(SG_SHAPE(4, 3), 0, "batch"));
    sg_value fixed = sg_input(g, "f", SG_F32, SG_SHAPE(4, 1));
    sg_value y = add(x, x);
    assert_int_equal(sg_graph_bind(g, (sg_binding[]){{"batch", 9}}, 1, &err), SG_OK);
    assert_int_equal(sg_dim_of(y, 0), 9);
    assert_int_equal(sg_graph_bind(g, (sg_binding[]){{"batch", 4}}, 1, &err), SG_OK);
    sg_value z = add(y, fixed);
    assert_int_equal(sg_graph_bind(g, (sg_binding[]){{"batch", 9}}, 1, &err), SG_E_SHAPE);
    assert_non_null(strstr(err.node, "plus"));
    assert_int_equal(sg_dim_of(y, 0), 4);
    assert_int_equal(sg_dim_of(z, 0), 4);
    sg_graph_free(g);
}

/* ---- allocation failures: every allocation of a small session of calls fails once, and nothing crashes or leaks */

typedef struct counter {
    long until, live;
} counter;

static void *count_allocate(void *user, size_t bytes)
{
    counter *c = user;
    if (c->until-- == 0)
        return NULL;
    void *p = malloc(bytes);
    c->live += p != NULL;
    return p;
}

static void *count_resize(void *user, void *old, size_t bytes)
{
    counter *c = user;
    if (c->until-- == 0)
        return NULL;
    void *p = realloc(old, bytes);
    c->live += !old && p;
    return p;
}

static void count_release(void *user, void *old)
{
    ((counter *)user)->live -= old != NULL;
    free(old);
}

static bool build_something(void)
{
    bool good = false;
    sg_store *s = sg_store_new(SG_F32);
    sg_graph *g = s ? sg_graph_new() : NULL, *to = g ? sg_graph_new() : NULL;
    if (to) {
        sg_scope root = sg_scope_sub(sg_scope_root(g, s), "deep");
        sg_value x = sg_input(g, "x", SG_F32, sg_shape_named(SG_SHAPE(2), 0, "batch"));
        sg_value w = sg_param(root, "w", SG_SHAPE(2), sg_init_normal(0, 1));
        sg_graph *body = sg_body_new(g);
        if (body)
            add(sg_body_state(body, x), w);
        sg_result(g, "y", add(x, w));
        sg_assign(w, add(w, w));
        sg_draw_stream(root);
        good = sg_graph_status(g, NULL) == SG_OK && sg_graph_rewrite(g, to, NULL, NULL, NULL, NULL) == SG_OK &&
               sg_graph_bind(g, (sg_binding[]){{"batch", 2}}, 1, NULL) == SG_OK && sg_graph_verify(g, NULL) == SG_OK;
    }
    sg_graph_free(g);
    sg_graph_free(to);
    sg_store_free(s);
    return good;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    bool good = false;
    int failures = 0;
    for (long n = 0; !good && n < 10000; n++) {
        counter c = {n, 0};
        sg_allocator_set(&(sg_allocator){count_allocate, count_resize, count_release, &c});
        good = build_something();
        sg_allocator_set(NULL);
        assert_int_equal(c.live, 0);
        failures += !good;
    }
    assert_true(good);
    assert_true(failures > 20);
}

static void dumps_name_every_node(void **state)
{
    (void)state;
    sg_graph *g = sg_graph_new();
    sg_value x = sg_input(g, "x\"y", SG_F32, SG_SHAPE(2));
    sg_result(g, "out", sg_named(add(x, x), "sum"));
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    sg_graph_print(g, f);
    sg_graph_print_dot(g, f);
    fclose(f);
    assert_non_null(strstr(text, "= plus(%0, %0)"));
    assert_non_null(strstr(text, "result out = %1"));
    assert_non_null(strstr(text, "label=\"x\\\"y"));
    free(text);
    sg_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_expressions_are_one_node),
        cmocka_unit_test(first_error_is_kept_with_its_place),
        cmocka_unit_test(conflicting_names_are_errors),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(parameters_without_room_fail),
        cmocka_unit_test(assignment_makes_versions),
        cmocka_unit_test(bodies_capture_values_and_entries),
        cmocka_unit_test(rewriting_drops_dead_nodes_and_replaces),
        cmocka_unit_test(named_dimensions_rebind_or_stay),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(dumps_name_every_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
