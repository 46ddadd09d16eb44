/* store_check.h - comparing stores in tests. */
#ifndef SG_TESTS_STORE_CHECK_H
#define SG_TESTS_STORE_CHECK_H

#include "graph/graph.h"

/* Two stores of 4-byte numbers have entries of the same names, with the same bits. */
void same_stores(const sg_store *a, const sg_store *b);

#endif
