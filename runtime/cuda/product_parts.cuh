// product_parts.cuh - numbers of float32 as three of bfloat16, for the tensor cores.
//
// bfloat16 has the exponents of float32 and 8 of its 24 digits. x = h + m + l: h is x cut off after 8 digits (rounding would make
// the largest numbers infinite), m is the rest x - h rounded to 8 digits, l what then remains. Both differences are exact. The rest
// is a multiple of the last digit of x and less than 2^16 of them; rounding it to 8 digits leaves at most 2^7 of them, which 8
// digits hold. So l is exact and the sum is x. In the product
//
//     x y = h h' + (h m' + m h') + (h l' + m m' + l h') + (m l' + l m' + l l')
//
// the terms of the last bracket are left out: |m| < 2^-7 |x| and |l| <= 2^-16 |x|, so they are less than 2^-22 |x y|, of either
// sign, and mostly much less. The others are exact in the tensor cores, which add them up in float32 but cut off instead of
// rounding. Each 16 terms are added up there from zero, small ones first, and go to the sum by an ordinary addition: so the
// error made by cutting off, which always has one sign, does not grow with K.
//
// Numbers that bfloat16 holds (labels, counts, rows with one 1) have no rests m and l: products with those are zero, and may be left
// out.
//
// Where x is infinite or not a number, x - h is not a number; so is then every sum that x is in. product.cuh computes what is
// not finite again, term by term.

constexpr bool SPLITS_NUMBERS = true;

__device__ __forceinline__ unsigned pack_bf16(float low, float high)
{
    unsigned r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

// Two numbers in three parts; in each word the first is the lower half.
__device__ __forceinline__ void split_pair(float x, float y, unsigned &h, unsigned &m, unsigned &l)
{
    unsigned u = __float_as_uint(x), v = __float_as_uint(y);
    h = __byte_perm(u, v, 0x7632);
    x -= __uint_as_float(u & 0xffff0000u);
    y -= __uint_as_float(v & 0xffff0000u);
    m = pack_bf16(x, y);
    x -= __uint_as_float(m << 16);
    y -= __uint_as_float(m & 0xffff0000u);
    l = __byte_perm(__float_as_uint(x), __float_as_uint(y), 0x7632);
}

// add(p, q), part p of the left operand times part q of the right, in the order in which they are added up. Where the left or the right
// operand has no rests, its first parts are all.
template <bool LEFT, bool RIGHT, class ADD> __device__ __forceinline__ void each_product(ADD add)
{
    if constexpr (LEFT)
        add(2, 0);
    if constexpr (RIGHT)
        add(0, 2);
    if constexpr (LEFT && RIGHT)
        add(1, 1);
    if constexpr (LEFT)
        add(1, 0);
    if constexpr (RIGHT)
        add(0, 1);
    add(0, 0);
}

// c [16, 8] += x [16, 16] y [16, 8].
__device__ __forceinline__ void multiply_add(float (&c)[4], const unsigned (&x)[4], unsigned y0, unsigned y1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1));
}
