/* chain_writer_internal.h - a chain's text while it is written (chain_source.c): its values (chain_values.c), and the lines that
 * compute (chain_lines.c). */
#ifndef SG_CUDA_CHAIN_WRITER_INTERNAL_H
#define SG_CUDA_CHAIN_WRITER_INTERNAL_H

#include "runtime/cuda/chain_parts_internal.h"

enum { SG_CUDA_NONE = -1 };

typedef enum sg_cuda_slot_kind {
    SG_CUDA_SLOT_INPUT,
    SG_CUDA_SLOT_NUMBER,
    SG_CUDA_SLOT_RESULT,
    SG_CUDA_SLOT_SUM
} sg_cuda_slot_kind;

/* A value of the chain. An input has the strides of its memory by the axes of the shape it is seen in. */
typedef struct sg_cuda_slot {
    sg_cuda_slot_kind kind;
    sg_dtype dtype;
    sg_shape shape;
    int64_t stride[SG_MAX_RANK];
    int32_t input; /* operand of the node */
    double number;
    bool loaded, loaded_after; /* among the elements; among the sums */
    bool after;                /* a result among the sums */
    bool once;                 /* the same for all elements: there before them */
} sg_cuda_slot;

/* Element i of an operand of a concat is element start + i + i / run * gap of the result; run 0: there is no concat. */
typedef struct sg_cuda_place_in_whole {
    int64_t start, run, gap;
} sg_cuda_place_in_whole;

typedef struct sg_cuda_writer {
    const sg_kernel_spec *spec;
    sg_cuda_chain *chain;
    int64_t threads; /* keep the device busy */
    sg_cuda_slot *slot;
    int32_t n_slots, capacity;
    int32_t *parameter; /* of each operand, or SG_CUDA_NONE */
    bool *scattered;    /* of each operand: read at other places than the element's own */
    sg_shape space;
    sg_cuda_place_in_whole place; /* of a part of a concat */
    sg_cuda_text parts;           /* of a concat, finished */
    sg_cuda_text setup;           /* before the loop */
    sg_cuda_text loads, stores;   /* of packs */
    sg_cuda_text reads, steps;    /* of each element between */
    sg_cuda_text ends;            /* of each row, where there are sums: they are completed */
    sg_cuda_text after, zeros;    /* what one thread does with them, and the next row's beginning */
    bool *is_after;               /* of each node of a body with sums: a step on them */
    bool among_sums;              /* the step being written is one */
    sg_shape sums;                /* their shape */
    bool product;                 /* begins with a product, whose elements product.cuh or product_csr.cuh shares out */
    bool sparse;                  /* the latter */
    bool failed;                  /* out of memory */
    const sg_op *unfit;           /* no step for this one */
} sg_cuda_writer;

/* A slot's number, or SG_CUDA_NONE for want of memory. */
int32_t sg_cuda_slot_add(sg_cuda_writer *w, sg_cuda_slot s);
int32_t sg_cuda_slot_of_input(sg_cuda_writer *w, int32_t input, const sg_shape *shape, sg_dtype dtype);
int32_t sg_cuda_slot_of_number(sg_cuda_writer *w, double number, sg_dtype dtype);
/* The kernel's parameter that an operand of the node is. */
int32_t sg_cuda_slot_parameter(sg_cuda_writer *w, int32_t input);

const char *sg_cuda_register_type(sg_dtype dtype);
const char *sg_cuda_memory_type(sg_dtype dtype);

/* Into register v of this number, once. */
void sg_cuda_slot_load(sg_cuda_writer *w, int32_t at);
/* The same for an operand of a step; of one on sums into t, at the sum's place. */
void sg_cuda_slot_load_for_step(sg_cuda_writer *w, int32_t at);
/* The first letter of its name. */
char sg_cuda_slot_letter(const sg_cuda_writer *w, const sg_cuda_slot *s);

/* One node: its operands as slots (SG_CUDA_NONE for operands read for their shape alone). */
typedef struct sg_cuda_unit {
    const sg_op *op;
    const sg_attr *attr;
    int32_t n_in;
    const int32_t *in;
    const sg_shape *shape; /* of the output */
    sg_dtype dtype;
} sg_cuda_unit;

/* Its lines (chain_lines.c), and the slot of its value; SG_CUDA_NONE if it is no step, which is then `unfit`. */
int32_t sg_cuda_write_unit(sg_cuda_writer *w, const sg_cuda_unit *u);
/* The same of a sum. Threads add up as they go; the end of the row, or of the columns, joins what they have. */
int32_t sg_cuda_write_sum(sg_cuda_writer *w, int32_t of, const sg_shape *shape);
/* The value of a slot to an output. */
void sg_cuda_write_result(sg_cuda_writer *w, int32_t at, int32_t output);

#endif
