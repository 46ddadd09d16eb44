/* program.c - from nodes to the steps of a register program. */
#include "runtime/cpu/program_internal.h"

#include "ops/ops.h"

#include <string.h>

#define SG_OP(name) extern const sg_op sg_op_##name;
#include "ops/op_list.h"
#undef SG_OP

/* An op's step on float registers and on integer registers; NONE where there is none. */
enum { NONE = -1 };
typedef struct op_step {
    const sg_op *op;
    int32_t real, integer;
} op_step;

#define REAL(name, micro)                                                                                              \
    {                                                                                                                  \
        &sg_op_##name, SG_MICRO_##micro, NONE                                                                          \
    }
#define BOTH(name, micro)                                                                                              \
    {                                                                                                                  \
        &sg_op_##name, SG_MICRO_##micro, SG_MICRO_I_##micro                                                            \
    }
static const op_step op_steps[] = {
    BOTH(neg, NEG),
    BOTH(abs, ABS),
    BOTH(sign, SIGN),
    REAL(floor, FLOOR),
    REAL(exp, EXP),
    REAL(expm1, EXPM1),
    REAL(log, LOG),
    REAL(log1p, LOG1P),
    REAL(sqrt, SQRT),
    REAL(rsqrt, RSQRT),
    BOTH(square, SQUARE),
    REAL(reciprocal, RECIPROCAL),
    REAL(sin, SIN),
    REAL(cos, COS),
    REAL(tanh, TANH),
    REAL(erf, ERF),
    REAL(erfc, ERFC),
    REAL(sigmoid, SIGMOID),
    REAL(log_sigmoid, LOG_SIGMOID),
    REAL(softplus, SOFTPLUS),
    REAL(gelu, GELU),
    REAL(gelu_derivative, GELU_DERIVATIVE),
    BOTH(relu, RELU),
    REAL(leaky_relu, LEAKY_RELU),
    REAL(elu, ELU),
    REAL(clip, CLIP),
    REAL(is_finite, IS_FINITE),
    REAL(logical_not, LOGICAL_NOT),
    BOTH(add, ADD),
    BOTH(sub, SUB),
    BOTH(mul, MUL),
    REAL(div, DIV),
    REAL(pow, POW),
    BOTH(maximum, MAXIMUM),
    BOTH(minimum, MINIMUM),
    REAL(xlogy, XLOGY),
    BOTH(equal, EQUAL),
    BOTH(not_equal, NOT_EQUAL),
    BOTH(less, LESS),
    BOTH(less_equal, LESS_EQUAL),
    BOTH(greater, GREATER),
    BOTH(greater_equal, GREATER_EQUAL),
    REAL(logical_and, LOGICAL_AND),
    REAL(logical_or, LOGICAL_OR),
    BOTH(where, WHERE),
};

static bool is_view(const sg_op *op)
{
    return op == &sg_op_stop_gradient || op == &sg_op_broadcast_like || op == &sg_op_tile_axis;
}

/* Input 0 gives the shape, input 1 the generator state or the key of the draw. */
static bool is_draw(const sg_op *op)
{
    return op == &sg_op_uniform_like || op == &sg_op_normal_like || op == &sg_op_keyed_uniform;
}

/* Conversions between what registers hold; a bool register already is a float. */
static int32_t cast_step(sg_dtype from, sg_dtype to)
{
    if (from == to || (from == SG_BOOL && to == SG_F32))
        return from == SG_I32 ? SG_MICRO_I_COPY : SG_MICRO_COPY;
    if (to == SG_BOOL)
        return from == SG_I32 ? SG_MICRO_I_NONZERO : SG_MICRO_NONZERO;
    return to == SG_I32 ? SG_MICRO_I_FROM_F : SG_MICRO_F_FROM_I;
}

/* The operand whose dtype selects float or integer registers is the last one: it is a branch of `where`. */
static int32_t step_of(const sg_op *op, sg_dtype last_in, sg_dtype out)
{
    if (op == &sg_op_cast)
        return cast_step(last_in, out);
    for (size_t i = 0; i < sizeof op_steps / sizeof op_steps[0]; i++)
        if (op_steps[i].op == op)
            return last_in == SG_I32 ? op_steps[i].integer : op_steps[i].real;
    return NONE;
}

static bool has_register(sg_dtype dtype) { return dtype == SG_F32 || dtype == SG_I32 || dtype == SG_BOOL; }

bool sg_program_has(const sg_op *op, int32_t n_in, const sg_dtype *in, sg_dtype out)
{
    for (int32_t k = 0; k < n_in; k++)
        if (!has_register(in[k]))
            return false;
    if (!has_register(out))
        return false;
    if (is_view(op) || op == &sg_op_fill_like)
        return true;
    return is_draw(op) ? out == SG_F32 : n_in > 0 && step_of(op, in[n_in - 1], out) != NONE;
}

/* ---- growing a program; NONE and a message on failure */

typedef struct builder {
    sg_program *program;
    sg_error *err;
    sg_status status;
} builder;

static bool grow(void **array, int32_t n, int32_t *capacity, size_t item)
{
    if (n < *capacity)
        return true;
    int32_t wanted = *capacity ? 2 * *capacity : 16;
    void *larger = sg_realloc(*array, (size_t)wanted * item);
    if (!larger)
        return false;
    *array = larger;
    *capacity = wanted;
    return true;
}

static int32_t no_memory(builder *b)
{
    b->status = sg_fail(b->err, SG_E_MEMORY, "out of memory compiling a fused chain");
    return NONE;
}

static int32_t add_slot(builder *b, sg_chain_slot slot)
{
    sg_program *p = b->program;
    if (!grow((void **)&p->slots, p->n_slots, &p->cap_slots, sizeof *p->slots))
        return no_memory(b);
    slot.last_use = slot.buffer = slot.output = NONE;
    p->slots[p->n_slots] = slot;
    return p->n_slots++;
}

static sg_chain_step *add_step(builder *b, int32_t op)
{
    sg_program *p = b->program;
    if (!grow((void **)&p->steps, p->n_steps, &p->cap_steps, sizeof *p->steps)) {
        no_memory(b);
        return NULL;
    }
    p->steps[p->n_steps] = (sg_chain_step){.op = op, .dst = NONE, .src = {NONE, NONE, NONE}, .rng = NONE};
    return &p->steps[p->n_steps++];
}

static int32_t input_slot(builder *b, int32_t input, const sg_shape *shape, sg_dtype dtype)
{
    sg_chain_slot slot = {.kind = SG_CHAIN_INPUT, .dtype = dtype, .shape = *shape, .input = input};
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        slot.stride[i] = stride;
        stride *= shape->dim[i];
    }
    return add_slot(b, slot);
}

static int32_t number_slot(builder *b, double number, sg_dtype dtype)
{
    return add_slot(b, (sg_chain_slot){.kind = SG_CHAIN_NUMBER, .dtype = dtype, .number = number});
}

/* A slot that a step reads: inputs get a load before their first use. */
static bool use_slot(builder *b, int32_t slot)
{
    sg_chain_slot *s = &b->program->slots[slot];
    if (s->kind != SG_CHAIN_INPUT || s->loaded)
        return true;
    s->loaded = true;
    sg_chain_step *load = add_step(b, SG_CHAIN_LOAD);
    if (load)
        load->dst = slot;
    return load != NULL;
}

static int32_t emit(builder *b, int32_t op, const int32_t *src, int32_t n_src, const sg_shape *shape, sg_dtype dtype)
{
    for (int32_t k = 0; k < n_src; k++)
        if (!use_slot(b, src[k]))
            return NONE;
    int32_t dst = add_slot(b, (sg_chain_slot){.kind = SG_CHAIN_RESULT, .dtype = dtype, .shape = *shape});
    sg_chain_step *step = dst == NONE ? NULL : add_step(b, op);
    if (!step)
        return NONE;
    step->dst = dst;
    for (int32_t k = 0; k < n_src; k++)
        step->src[k] = src[k];
    return dst;
}

/* ---- nodes */

/* One node to compile: its operands as slots (NONE for operands read for their shape alone). */
typedef struct unit {
    const sg_op *op;
    const sg_attr *attr;
    int32_t n_in;
    const int32_t *in;
    const sg_shape *shape; /* of the output */
    sg_dtype dtype;
} unit;

static int32_t bad_chain(builder *b, const sg_op *op)
{
    b->status = sg_fail(b->err, SG_E_UNSUPPORTED, "op %s cannot be part of a fused chain as it stands", op->name);
    return NONE;
}

static int32_t tile_view(builder *b, const unit *u)
{
    const sg_chain_slot *x = &b->program->slots[u->in[0]];
    if (x->kind == SG_CHAIN_NUMBER)
        return u->in[0];
    if (x->kind != SG_CHAIN_INPUT)
        return bad_chain(b, u->op);
    sg_chain_slot view = {.kind = SG_CHAIN_INPUT, .dtype = x->dtype, .shape = *u->shape, .input = x->input};
    int32_t axis = (int32_t)u->attr[0].i;
    for (int32_t i = 0; i < u->shape->rank; i++)
        view.stride[i] = i == axis ? 0 : x->stride[i < axis ? i : i - 1];
    return add_slot(b, view);
}

static int32_t draw_step(builder *b, const unit *u)
{
    int32_t rng = u->in[1];
    if (rng == NONE || b->program->slots[rng].kind != SG_CHAIN_INPUT)
        return bad_chain(b, u->op);
    bool keyed = u->op == &sg_op_keyed_uniform;
    int32_t op = keyed ? SG_CHAIN_KEYED : u->op == &sg_op_uniform_like ? SG_CHAIN_UNIFORM : SG_CHAIN_NORMAL;
    int32_t dst = emit(b, op, NULL, 0, u->shape, u->dtype);
    if (dst != NONE) {
        sg_chain_step *step = &b->program->steps[b->program->n_steps - 1];
        step->stream = keyed ? 0 : (uint64_t)u->attr[0].i;
        step->rng = b->program->slots[rng].input;
    }
    return dst;
}

static int32_t compile_unit(builder *b, const unit *u)
{
    if (u->op == &sg_op_fill_like)
        return number_slot(b, u->attr[0].f, u->dtype);
    if (u->op == &sg_op_tile_axis)
        return tile_view(b, u);
    if (is_view(u->op))
        return u->in[0];
    if (is_draw(u->op))
        return draw_step(b, u);
    sg_dtype last = b->program->slots[u->in[u->n_in - 1]].dtype;
    int32_t op = step_of(u->op, last, u->dtype);
    if (op == NONE)
        return bad_chain(b, u->op);
    int32_t dst = emit(b, op, u->in, u->n_in, u->shape, u->dtype);
    if (dst != NONE && u->op != &sg_op_cast) {
        sg_chain_step *step = &b->program->steps[b->program->n_steps - 1];
        for (int32_t k = 0; k < u->op->n_attrs && k < 2; k++)
            step->imm[k] = (float)u->attr[k].f;
    }
    return dst;
}

/* ---- results */

/* Make `slot` node output `output`: written directly by its step where that is possible. */
static bool leave(builder *b, int32_t slot, int32_t output, const sg_shape *shape)
{
    sg_chain_slot *s = &b->program->slots[slot];
    bool direct = s->dtype != SG_BOOL;
    if (s->kind != SG_CHAIN_RESULT || (direct && s->output != NONE)) {
        slot = emit(b, s->dtype == SG_I32 ? SG_MICRO_I_COPY : SG_MICRO_COPY, &slot, 1, shape, s->dtype);
        if (slot == NONE)
            return false;
        s = &b->program->slots[slot];
    }
    if (direct) {
        s->output = output;
        return true;
    }
    sg_program *p = b->program;
    if (!grow((void **)&p->leaving, p->n_leaving, &p->cap_leaving, sizeof *p->leaving))
        return no_memory(b) != NONE;
    p->leaving[p->n_leaving++] = (sg_chain_leaving){slot, output, false};
    return true;
}

static bool leave_sum(builder *b, int32_t slot, int32_t output)
{
    sg_program *p = b->program;
    if (!use_slot(b, slot))
        return false;
    if (!grow((void **)&p->leaving, p->n_leaving, &p->cap_leaving, sizeof *p->leaving))
        return no_memory(b) != NONE;
    p->leaving[p->n_leaving++] = (sg_chain_leaving){slot, output, true};
    p->n_sums++;
    return true;
}

/* ---- bodies */

/* Elements of a sum. They are neighbours, but axes of size 1 may stand behind or between those that are summed. */
static int64_t summed_count(const sg_shape *shape, const sg_attr *axes)
{
    int64_t n = 1;
    for (int64_t i = 0; i < axes->count; i++)
        n *= shape->dim[axes->ints[i]];
    return n;
}

static bool compile_node(builder *b, sg_graph *body, const sg_node *node, int32_t *slot_of, int32_t *next_input)
{
    const sg_shape *shape = sg_shape_of(sg_value_at(body, node->out));
    sg_dtype dtype = sg_dtype_of(sg_value_at(body, node->out));
    if (node->op == &sg_op_constant && node->attr[0].count == 1)
        return (slot_of[node->out] = number_slot(b, node->attr[0].reals[0], dtype)) != NONE;
    if (node->op->flags & SG_OP_LEAF)
        return (slot_of[node->out] = input_slot(b, (*next_input)++, shape, dtype)) != NONE;
    if (node->op == &sg_op_sum)
        return true; /* stands at the end of a chain: handled with the results */
    int32_t in[3] = {NONE, NONE, NONE};
    if (node->n_in > 3)
        return bad_chain(b, node->op) != NONE;
    for (int32_t k = 0; k < node->n_in; k++)
        in[k] = slot_of[node->in[k]];
    unit u = {node->op, node->attr, node->n_in, in, shape, dtype};
    return (slot_of[node->out] = compile_unit(b, &u)) != NONE;
}

static bool compile_results(builder *b, sg_graph *body, const int32_t *slot_of)
{
    sg_program *p = b->program;
    for (int32_t j = 0; j < sg_result_count(body); j++) {
        sg_value v = sg_result_value(body, j);
        const sg_node *node = sg_node_of(v);
        if (node->op == &sg_op_sum) {
            p->space = *sg_shape_of(sg_value_at(body, node->in[0]));
            p->row = summed_count(&p->space, &node->attr[0]);
            p->empty_rows = sg_shape_count(sg_shape_of(v));
            if (!leave_sum(b, slot_of[node->in[0]], j))
                return false;
        } else {
            p->space = *sg_shape_of(v);
            if (!leave(b, slot_of[v.id], j, sg_shape_of(v)))
                return false;
        }
    }
    return true;
}

static bool compile_body(builder *b, sg_graph *body)
{
    int32_t *slot_of = sg_calloc(sg_value_count(body) + 1, sizeof *slot_of), next_input = 0;
    if (!slot_of)
        return no_memory(b) != NONE;
    bool good = true;
    for (int32_t n = 0; good && n < sg_node_count(body); n++)
        good = compile_node(b, body, sg_node_at(body, n), slot_of, &next_input);
    good = good && compile_results(b, body, slot_of);
    sg_free(slot_of);
    return good;
}

static bool compile_single(builder *b, const sg_kernel_spec *spec)
{
    int32_t in[3] = {NONE, NONE, NONE};
    for (int32_t k = 0; k < spec->n_in; k++)
        if (!(spec->node->op->shape_only >> k & 1) &&
            (in[k] = input_slot(b, k, &spec->in_shape[k], spec->in_dtype[k])) == NONE)
            return false;
    unit u = {spec->node->op, spec->attr, spec->n_in, in, &spec->out_shape[0], spec->out_dtype[0]};
    int32_t slot = compile_unit(b, &u);
    b->program->space = spec->out_shape[0];
    return slot != NONE && leave(b, slot, 0, &spec->out_shape[0]);
}

void sg_program_free(sg_program *program)
{
    if (!program)
        return;
    sg_free(program->slots);
    sg_free(program->steps);
    sg_free(program->leaving);
    sg_free(program->alias);
    sg_free(program);
}

static int32_t count_computing(const sg_program *p)
{
    int32_t n = p->n_sums;
    for (int32_t i = 0; i < p->n_steps; i++)
        n += p->steps[i].op != SG_CHAIN_LOAD;
    return n;
}

sg_status sg_program_compile(const sg_kernel_spec *spec, sg_program **out, sg_error *err)
{
    sg_program *program = sg_calloc(1, sizeof *program);
    builder b = {program, err, SG_OK};
    if (program) {
        program->row = -1;
        program->n_in = spec->n_in;
        program->n_out = spec->n_out;
        program->alias = sg_calloc(spec->n_out, sizeof *program->alias);
    }
    if (!program || !program->alias) {
        sg_program_free(program);
        return sg_fail(err, SG_E_MEMORY, "out of memory compiling a fused chain");
    }
    bool fused = spec->node->op == &sg_op_fused;
    if (!(fused ? compile_body(&b, spec->attr[0].graph) : compile_single(&b, spec))) {
        sg_program_free(program);
        return b.status;
    }
    sg_program_layout(program);
    if (fused)
        snprintf(program->name, sizeof program->name, "fused %d ops", count_computing(program));
    else
        snprintf(program->name, sizeof program->name, "cpu %s", spec->node->op->name);
    *out = program;
    return SG_OK;
}
