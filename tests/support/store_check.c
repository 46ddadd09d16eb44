#include "tests/support/store_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void same_stores(const sg_store *a, const sg_store *b)
{
    assert_int_equal(sg_store_count(a), sg_store_count(b));
    for (int32_t i = 0; i < sg_store_count(a); i++) {
        const sg_entry *x = sg_store_read(a, i), *y = sg_store_read(b, sg_store_find(b, x->name));
        assert_memory_equal(x->data, y->data, (size_t)sg_shape_count(&x->shape) * 4);
    }
}
