#include "tests/support/gpu_session.h"

#include <stdio.h>
#include <stdlib.h>

static sg_session *open_session(sg_store *store, const char *precision)
{
    sg_session *session = NULL;
    sg_error err = {0};
    setenv("SEALGRAPH_MODULE_PATH", SG_BINARY_DIR, 0);
    sg_session_options options = {.size = sizeof options, .backend = "cuda", .precision = precision};
    if (sg_session_new(&session, store, &options, &err) != SG_OK) {
        printf("skipped: %s\n", err.text);
        return NULL;
    }
    return session;
}

sg_session *test_gpu_session(sg_store *store) { return open_session(store, NULL); }

bool test_gpu_is_there(const char *precision)
{
    sg_store *store = sg_store_new(SG_F32);
    sg_session *session = open_session(store, precision);
    bool there = session != NULL;
    sg_session_free(session);
    sg_store_free(store);
    return there;
}
