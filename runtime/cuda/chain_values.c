/* chain_values.c - the values of a chain: slots, and the lines that read them from memory. */
#include <string.h>

#include "runtime/cuda/chain_writer_internal.h"

int32_t sg_cuda_slot_add(sg_cuda_writer *w, sg_cuda_slot s)
{
    if (w->n_slots == w->capacity) {
        int32_t wider = w->capacity ? 2 * w->capacity : 32;
        sg_cuda_slot *moved = sg_realloc(w->slot, (size_t)wider * sizeof *moved);
        if (!moved) {
            w->failed = true;
            return SG_CUDA_NONE;
        }
        w->slot = moved;
        w->capacity = wider;
    }
    w->slot[w->n_slots] = s;
    return w->n_slots++;
}

int32_t sg_cuda_slot_of_input(sg_cuda_writer *w, int32_t input, const sg_shape *shape, sg_dtype dtype)
{
    sg_cuda_slot s = {.kind = SG_CUDA_SLOT_INPUT, .dtype = dtype, .shape = *shape, .input = input};
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        s.stride[i] = stride;
        stride *= shape->dim[i];
    }
    return sg_cuda_slot_add(w, s);
}

int32_t sg_cuda_slot_of_number(sg_cuda_writer *w, double number, sg_dtype dtype)
{
    return sg_cuda_slot_add(
        w, (sg_cuda_slot){.kind = SG_CUDA_SLOT_NUMBER, .dtype = dtype, .number = number, .once = true});
}

int32_t sg_cuda_slot_parameter(sg_cuda_writer *w, int32_t input)
{
    if (w->parameter[input] == SG_CUDA_NONE) {
        w->parameter[input] = w->chain->n_input;
        w->chain->input[w->chain->n_input++] = input;
    }
    return w->parameter[input];
}

const char *sg_cuda_register_type(sg_dtype dtype) { return dtype == SG_I32 ? "int" : "float"; }
const char *sg_cuda_memory_type(sg_dtype dtype)
{
    return dtype == SG_I32 ? "int" : dtype == SG_BOOL ? "unsigned char" : dtype == SG_BF16 ? "sg_bf16" : "float";
}

/* A variable of the kernel that is a part of an element's place: place / step % size. */
typedef struct digit {
    const char *name;
    int64_t step, size;
} digit;
enum { DIGITS = 3 };

static int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

/* Does each digit have a part of the axis place / inner % dim, or none? */
static bool has_digits(const digit *digits, int64_t inner, int64_t dim)
{
    for (int32_t k = 0; digits && k < DIGITS; k++) {
        const digit *d = &digits[k];
        int64_t low = most_of(inner, d->step), high = least_of(inner * dim, d->step * d->size);
        if (low < high &&
            (low % d->step != 0 || low % inner != 0 || d->step * d->size % high != 0 || inner * dim % high != 0))
            return false;
    }
    return digits != NULL;
}

/* stride times (part / by % modulus), of which neither is written if it changes nothing. */
static void put_term(sg_cuda_text *t, int32_t *terms, int64_t stride, const char *part, int64_t by, int64_t modulus)
{
    sg_cuda_put(t, "%s(index)%lld * (%s", (*terms)++ ? " + " : "", (long long)stride, part);
    if (by > 1)
        sg_cuda_put(t, " / (index)%lld", (long long)by);
    if (modulus > 0)
        sg_cuda_put(t, " %% (index)%lld", (long long)modulus);
    sg_cuda_put(t, ")");
}

static void put_place(sg_cuda_text *t, const digit *digits, const sg_cuda_places *p, const char *element)
{
    int64_t inner = 1;
    int32_t terms = 0;
    for (int32_t i = p->rank - 1; i >= 0; inner *= p->dim[i--]) {
        if (p->stride[i] == 0)
            continue;
        if (!has_digits(digits, inner, p->dim[i])) {
            put_term(t, &terms, p->stride[i], element, inner, i > 0 ? p->dim[i] : 0);
            continue;
        }
        for (int32_t k = DIGITS - 1; k >= 0; k--) {
            const digit *d = &digits[k];
            int64_t low = most_of(inner, d->step), high = least_of(inner * p->dim[i], d->step * d->size);
            if (low < high)
                put_term(t, &terms, p->stride[i] * (low / inner), d->name, low / d->step,
                         high < d->step * d->size ? high / low : 0);
        }
    }
    if (terms == 0)
        sg_cuda_put(t, "0");
}

/* const TYPE vAT = sg_read(inK[place]); */
static void put_read(sg_cuda_text *t, const digit *digits, const char *indent, const sg_cuda_slot *s, int32_t at,
                     int32_t parameter, const sg_cuda_places *p, const char *element)
{
    sg_cuda_put(t, digits ? "%sconst %s v%d = sg_read(*(in%d + " : "%sconst %s v%d = sg_read(in%d[", indent,
                sg_cuda_register_type(s->dtype), (int)at, (int)parameter);
    put_place(t, digits, p, element);
    sg_cuda_put(t, digits ? "));\n" : "]);\n");
}

/* Of a product: the elements of all packs that a thread finishes at a time (product.cuh). */
static void put_product_read(sg_cuda_writer *w, int32_t at, int32_t parameter, const sg_cuda_places *p,
                             sg_cuda_access how)
{
    const char *name = how == SG_CUDA_ACCESS_SAME ? "SAME" : how == SG_CUDA_ACCESS_ELEMENTS ? "ELEMENTS" : "NEIGHBOURS";
    sg_cuda_put(&w->setup, "    const auto at%d = [](index i) -> index { return ", (int)at);
    put_place(&w->setup, NULL, p, "i");
    sg_cuda_put(&w->setup, "; };\n    product_hold<%s>(%d, in%d, at%d);\n", name, (int)w->chain->n_streams,
                (int)parameter, (int)at);
    sg_cuda_put(&w->loads, "        const auto p%d = product_load<%s>(%d, in%d, begin, first, at%d);\n", (int)at, name,
                (int)w->chain->n_streams++, (int)parameter, (int)at);
    w->chain->odd_streams |= sg_dtype_size(w->slot[at].dtype) != sizeof(float);
    sg_cuda_put(&w->reads, "            const %s v%d = sg_read(p%d.x[k]);\n", sg_cuda_register_type(w->slot[at].dtype),
                (int)at, (int)at);
}

/* The parts of the place of what is added up, whose pack is along `step`; NULL: the place is not given by parts. */
static const digit *digits_of(const sg_cuda_writer *w, const char *step, digit digits[DIGITS])
{
    const sg_sum_form *sum = &w->chain->sum;
    digits[0] = (digit){"column", 1, sum->inner};
    digits[1] = (digit){step, sum->inner, sum->length};
    digits[2] = (digit){"row", sum->inner * sum->length, sum->outer};
    return sum->length > 0 ? digits : NULL;
}

static void load_input(sg_cuda_writer *w, int32_t at)
{
    const sg_cuda_slot *s = &w->slot[at];
    int32_t parameter = sg_cuda_slot_parameter(w, s->input);
    sg_cuda_places p = sg_cuda_places_of(&w->space, &s->shape, s->stride);
    sg_cuda_access how = sg_cuda_access_of(&p, w->chain->pack);
    digit digits[DIGITS];
    w->scattered[s->input] |= how != SG_CUDA_ACCESS_OWN;
    w->slot[at].once = how == SG_CUDA_ACCESS_NUMBER;
    if (how == SG_CUDA_ACCESS_NUMBER) {
        put_read(&w->setup, NULL, "    ", s, at, parameter, &p, "0");
    } else if (w->product) {
        put_product_read(w, at, parameter, &p, how);
    } else if (how == SG_CUDA_ACCESS_SAME) {
        put_read(&w->loads, digits_of(w, "step", digits), "        ", s, at, parameter, &p, "first");
    } else if (how == SG_CUDA_ACCESS_ELEMENTS) {
        put_read(&w->reads, digits_of(w, "(step + k)", digits), "            ", s, at, parameter, &p, "i");
    } else {
        sg_cuda_put(&w->loads, "        const auto p%d = sg_load<V>(in%d + ", (int)at, (int)parameter);
        put_place(&w->loads, digits_of(w, "step", digits), &p, "first");
        sg_cuda_put(&w->loads, ");\n");
        sg_cuda_put(&w->reads, "            const %s v%d = sg_read(p%d.x[k]);\n", sg_cuda_register_type(s->dtype),
                    (int)at, (int)at);
    }
}

void sg_cuda_slot_load(sg_cuda_writer *w, int32_t at)
{
    sg_cuda_slot *s = &w->slot[at];
    if (s->loaded)
        return;
    s->loaded = true;
    if (s->kind == SG_CUDA_SLOT_NUMBER) {
        float real = s->dtype == SG_BOOL ? (float)(s->number != 0) : (float)s->number;
        uint32_t bits;
        memcpy(&bits, &real, sizeof bits);
        if (s->dtype == SG_I32)
            sg_cuda_put(&w->setup, "    const int v%d = (int)0x%xu;\n", (int)at, (unsigned)(int32_t)s->number);
        else
            sg_cuda_put(&w->setup, "    const float v%d = __int_as_float((int)0x%xu);\n", (int)at, (unsigned)bits);
    } else if (s->kind == SG_CUDA_SLOT_INPUT) {
        load_input(w, at);
    }
}

void sg_cuda_slot_load_for_step(sg_cuda_writer *w, int32_t at)
{
    sg_cuda_slot *s = &w->slot[at];
    if (!w->among_sums || s->kind != SG_CUDA_SLOT_INPUT) {
        sg_cuda_slot_load(w, at);
        return;
    }
    if (s->loaded_after)
        return;
    s->loaded_after = true;
    sg_cuda_places p = sg_cuda_places_of(&w->sums, &s->shape, s->stride);
    w->scattered[s->input] = true;
    sg_cuda_put(&w->after, "            const %s t%d = sg_read(in%d[", sg_cuda_register_type(s->dtype), (int)at,
                (int)sg_cuda_slot_parameter(w, s->input));
    put_place(&w->after, NULL, &p, "place");
    sg_cuda_put(&w->after, "]);\n");
}

char sg_cuda_slot_letter(const sg_cuda_writer *w, const sg_cuda_slot *s)
{
    return s->kind == SG_CUDA_SLOT_SUM ? 's' : s->kind == SG_CUDA_SLOT_INPUT && w->among_sums ? 't' : 'v';
}
