/* Dependencies from the bytes that parts touch, against all pairs compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/hazards_internal.h"

static char memory[64];

static void ends_with(sg_hazards *h, int n, ...)
{
    const int32_t *on;
    int32_t count;
    va_list args;
    sg_hazards_end(h, &on, &count);
    assert_int_equal(count, n);
    va_start(args, n);
    for (int i = 0; i < n; i++)
        assert_int_equal(on[i], va_arg(args, int));
    va_end(args);
}

static void reads(sg_hazards *h, int at, size_t bytes) { assert_true(sg_hazards_read(h, memory + at, bytes)); }
static void writes(sg_hazards *h, int at, size_t bytes) { assert_true(sg_hazards_write(h, memory + at, bytes)); }

static void test_kinds(void **state)
{
    (void)state;
    sg_hazards *h = sg_hazards_new();
    writes(h, 0, 8); /* 0 */
    ends_with(h, 0);
    writes(h, 16, 8); /* 1: elsewhere */
    ends_with(h, 0);
    reads(h, 4, 2); /* 2: after the write */
    ends_with(h, 1, 0);
    reads(h, 0, 8); /* 3: beside the other reader */
    ends_with(h, 1, 0);
    writes(h, 5, 1); /* 4: after both readers, which wait for 0 already */
    ends_with(h, 2, 3, 2);
    writes(h, 6, 2); /* 5: what 4 wrote is not touched; 2 has not read it */
    ends_with(h, 1, 3);
    reads(h, 0, 32); /* 6: all that was written; 0 is behind 4 and 5 */
    ends_with(h, 3, 5, 4, 1);
    reads(h, 0, 4);
    writes(h, 0, 4); /* 7: in place */
    ends_with(h, 1, 6);
    reads(h, 40, 0);
    writes(h, 0, 0); /* 8: nothing */
    ends_with(h, 0);
    sg_hazards_elsewhere(h);
    reads(h, 0, 4); /* 9: not what 7 wrote */
    ends_with(h, 0);
    writes(h, 0, 4); /* 10: not behind 6, but behind 9 */
    ends_with(h, 1, 9);
    sg_hazards_free(h);
}

enum { PARTS = 1500, CELLS = 64, TOUCHES = 3 };

typedef struct touched {
    uint64_t reads, writes; /* a bit a byte */
} touched;

static touched part[PARTS];
static uint64_t before[PARTS][PARTS / 64 + 1]; /* what must come first, by the parts' own dependencies */

static uint64_t next(uint64_t *seed) { return (*seed = *seed * 6364136223846793005u + 1442695040888963407u) >> 33; }

static uint64_t bits(int at, int n) { return (n == 64 ? ~0ull : (1ull << n) - 1) << at; }

static bool precedes(int a, int b) { return before[b][a / 64] >> a % 64 & 1; }

/* Every pair that touches a common byte, one of them writing, is ordered, and no part waits for one that is none of these pairs,
 * or that it need not name. */
static void test_against_pairs(void **state)
{
    (void)state;
    sg_hazards *h = sg_hazards_new();
    uint64_t seed = 1;
    for (int i = 0; i < PARTS; i++) {
        for (int k = 0; k < TOUCHES; k++) {
            int at = (int)(next(&seed) % CELLS), n = 1 + (int)(next(&seed) % 4);
            n = at + n > CELLS ? CELLS - at : n;
            bool write = next(&seed) % 3 == 0;
            *(write ? &part[i].writes : &part[i].reads) |= bits(at, n);
        }
        for (int at = 0; at < CELLS; at++)
            if (part[i].reads >> at & 1)
                reads(h, at, 1);
        for (int at = 0; at < CELLS; at++)
            if (part[i].writes >> at & 1)
                writes(h, at, 1);
        const int32_t *on;
        int32_t n;
        sg_hazards_end(h, &on, &n);
        for (int32_t k = 0; k < n; k++) {
            int j = on[k];
            assert_true((part[j].writes & (part[i].reads | part[i].writes)) || (part[j].reads & part[i].writes));
            assert_false(precedes(j, i));
            before[i][j / 64] |= 1ull << j % 64;
            for (size_t w = 0; w < sizeof before[i] / sizeof before[i][0]; w++)
                before[i][w] |= before[j][w];
        }
        for (int j = 0; j < i; j++)
            if ((part[j].writes & (part[i].reads | part[i].writes)) || (part[j].reads & part[i].writes))
                assert_true(precedes(j, i));
    }
    sg_hazards_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds), cmocka_unit_test(test_against_pairs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
