#include "tests/support/gpu_session.h"

#include <stdio.h>
#include <stdlib.h>

sg_session *test_gpu_session(sg_store *store)
{
    sg_session *session = NULL;
    sg_error err = {0};
    setenv("SEALGRAPH_MODULE_PATH", SG_BINARY_DIR, 0);
    sg_session_options options = {.size = sizeof options, .backend = "cuda"};
    if (sg_session_new(&session, store, &options, &err) != SG_OK) {
        printf("skipped: %s\n", err.text);
        return NULL;
    }
    return session;
}
