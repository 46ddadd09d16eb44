#include "tests/support/random_graph.h"

#include "ops/ops.h"
#include "tests/support/graph_run.h"

static int32_t pick(uint64_t seed, int64_t *draw, int32_t n) { return (int32_t)(test_uniform(seed, (*draw)++) * n); }

static sg_value random_node(int64_t side, uint64_t seed, int64_t *draw, const sg_value *known, int32_t n)
{
    sg_value a = known[n - 1 - pick(seed, draw, n < 6 ? n : 6)], b = known[pick(seed, draw, n)];
    switch (pick(seed, draw, 9)) {
    case 0:
        return sg_add(a, b);
    case 1:
        return sg_mul(a, b);
    case 2:
        return sg_tanh(a);
    case 3:
        return sg_sub(sg_sigmoid(a), b);
    case 4:
        return sg_matmul(sg_tanh(a), sg_sigmoid(b));
    case 5:
        return sg_reshape(sg_neg(a), SG_SHAPE(side, side));
    case 6:
        return sg_mul(a, sg_softmax(b, -1));
    case 7:
        return sg_transpose(a, SG_AXES(1, 0));
    default:
        return sg_add(a, sg_sum(b, 0));
    }
}

random_graph random_graph_new(uint64_t seed, int64_t side, sg_dtype real)
{
    random_graph r = {.store = sg_store_new(real), .graph = sg_graph_new()};
    sg_scope scope = sg_scope_root(r.graph, r.store);
    sg_value known[64];
    int64_t draw = 1000;
    known[0] = r.x = sg_input(r.graph, "x", SG_F32, SG_SHAPE(side, side));
    known[1] = sg_param(scope, "a", SG_SHAPE(side, side), sg_init_normal(0, 1));
    known[2] = sg_param(scope, "b", SG_SHAPE(side, side), sg_init_normal(0, 1));
    int32_t n = 3;
    while (n < 40)
        known[n] = random_node(side, seed, &draw, known, n), n++;
    for (int32_t k = 0; k < 3; k++) {
        char name[16];
        snprintf(name, sizeof name, "y%d", (int)k);
        sg_result(r.graph, name, r.y[k] = known[n - 1 - 3 * k]);
    }
    /* both entries move, to values that may be views, ancestors of one another, or old versions */
    sg_assign(known[1], sg_tanh(known[pick(seed, &draw, n)]));
    sg_assign(known[2], known[pick(seed, &draw, n)]);
    sg_store_initialise(r.store, seed);
    return r;
}

void random_graph_free(random_graph *r)
{
    sg_graph_free(r->graph);
    sg_store_free(r->store);
}
