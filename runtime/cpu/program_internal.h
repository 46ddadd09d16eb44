/* program_internal.h - a fused chain as a small register program, run tile by tile.
 *
 * The iteration space is the shape that all elementwise results share (and that row sums run over). A slot is a value: an
 * input read through a view, a number, or the result of an instruction. Slots that must be materialised get a tile buffer; the
 * buffers are shared by linear scan, so that all of them stay in the first-level cache. */
#ifndef SG_CPU_PROGRAM_INTERNAL_H
#define SG_CPU_PROGRAM_INTERNAL_H

#include "runtime/cpu/cpu_internal.h"
#include "runtime/cpu/micro_internal.h"

typedef enum sg_chain_slot_kind { SG_CHAIN_INPUT, SG_CHAIN_NUMBER, SG_CHAIN_RESULT } sg_chain_slot_kind;

/* How an input looks over the iteration space. PLAIN: element i is element i of the memory. SINGLE: one element for all.
 * ROWS: rank axes (outermost first, neighbours merged) with a stride each; the innermost stride is 0 or 1. */
typedef enum sg_chain_view_kind { SG_VIEW_PLAIN, SG_VIEW_SINGLE, SG_VIEW_ROWS } sg_chain_view_kind;

typedef struct sg_chain_view {
    sg_chain_view_kind kind;
    int32_t rank;
    int64_t dim[SG_MAX_RANK], stride[SG_MAX_RANK];
} sg_chain_view;

typedef struct sg_chain_slot {
    sg_chain_slot_kind kind;
    sg_dtype dtype;
    sg_shape shape;
    int64_t stride[SG_MAX_RANK]; /* of an input, by axis of `shape` */
    sg_chain_view view;          /* of an input, over the iteration space */
    int32_t input;               /* operand of the node */
    double number;
    int32_t last_use; /* instruction index */
    int32_t buffer;   /* tile buffer, or -1 */
    int32_t output;   /* node output that the instruction writes directly, or -1 */
    bool loaded;      /* while compiling: an instruction before loads it */
} sg_chain_slot;

/* Micro-operations and, above them, what needs more than pointers. */
enum { SG_CHAIN_LOAD = SG_MICRO_COUNT, SG_CHAIN_UNIFORM, SG_CHAIN_NORMAL, SG_CHAIN_KEYED };

typedef struct sg_chain_step {
    int32_t op;
    int32_t dst, src[3]; /* slots */
    float imm[2];
    uint64_t stream; /* draws: stream, and the input that holds seed and step */
    int32_t rng;
} sg_chain_step;

/* What leaves the program besides what instructions write directly. */
typedef struct sg_chain_leaving {
    int32_t slot, output;
    bool row_sum;
} sg_chain_leaving;

typedef struct sg_program {
    sg_shape space;
    int64_t count;      /* elements of the space */
    int64_t row;        /* elements of a row: what row sums add up, or the longest stretch without a seam */
    int64_t empty_rows; /* row sums of a space without elements: how many zeros */
    int32_t n_slots, n_steps, n_leaving, n_sums, n_buffers, n_in, n_out;
    int32_t cap_slots, cap_steps, cap_leaving;
    sg_chain_slot *slots;
    sg_chain_step *steps;
    sg_chain_leaving *leaving;
    int32_t *alias; /* n_out entries */
    char name[40];
} sg_program;

/* The program of a node: a fused body, or one elementwise op, cast, broadcast, fill or draw. */
sg_status sg_program_compile(const sg_kernel_spec *spec, sg_program **out, sg_error *err);
void sg_program_free(sg_program *program);

/* Can this op, with these dtypes, be a step of a program (alone or in a fused body)? Shapes are not looked at. */
bool sg_program_has(const sg_op *op, int32_t n_in, const sg_dtype *in, sg_dtype out);

/* Buffers, views and rows of a program whose steps are complete (program_layout.c). */
void sg_program_layout(sg_program *program);

#endif
