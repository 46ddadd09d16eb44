/* memory_peak.c - how fast a device moves bytes: large copies, the best of a few. */
#include <string.h>

#include "runtime/plan_internal.h"

/* Beyond every cache, where there is room; what travels to the host is less, since it is slower. */
enum { MOST_COPIED = 512 << 20, MOST_MOVED = 64 << 20, CALLS = 4, RUNS = 4 };

typedef struct blocks {
    sg_session *session;
    size_t copied, moved; /* bytes */
    void *a, *b, *host;
} blocks;

static sg_status copy(const blocks *m, sg_error *err)
{
    return m->session->apart->copy(m->session->device, m->b, m->a, m->copied, 1, err);
}

static sg_status upload(const blocks *m, sg_error *err)
{
    return m->session->apart->upload(m->session->device, m->a, m->host, m->moved, err);
}

static sg_status download(const blocks *m, sg_error *err)
{
    return m->session->apart->download(m->session->device, m->host, m->a, m->moved, err);
}

static sg_status rate(const blocks *m, sg_status (*move)(const blocks *, sg_error *), double bytes, double *best,
                      sg_error *err)
{
    const sg_apart *apart = m->session->apart;
    for (int run = 0; run < RUNS; run++) {
        SG_TRY(apart->wait(m->session->device, err));
        int64_t start = sg_clock();
        for (int call = 0; call < CALLS; call++)
            SG_TRY(move(m, err));
        SG_TRY(apart->wait(m->session->device, err));
        double reached = CALLS * bytes / (1e-9 * (double)(sg_clock() - start));
        *best = reached > *best ? reached : *best;
    }
    return SG_OK;
}

static sg_status measure(const blocks *m, sg_memory_peak *out, sg_error *err)
{
    if (!m->a || !m->b || !m->host)
        return sg_fail(err, SG_E_MEMORY, "out of memory measuring the bandwidth of %s", m->session->backend->name);
    memset(m->host, 0, m->moved);
    SG_TRY(m->session->apart->fill(m->session->device, m->a, 0, m->copied, err));
    SG_TRY(rate(m, copy, 2.0 * (double)m->copied, &out->copy, err));
    SG_TRY(rate(m, upload, (double)m->moved, &out->upload, err));
    return rate(m, download, (double)m->moved, &out->download, err);
}

sg_status sg_measure_memory(sg_session *s, sg_memory_peak *out, sg_error *err)
{
    *out = (sg_memory_peak){0};
    if (!s->apart) {
        out->copy = sg_measure_peak(s->threads).bytes;
        return SG_OK;
    }
    blocks m = {.session = s};
    size_t room = s->apart->available(s->device) / 8;
    m.copied = room < MOST_COPIED ? room : MOST_COPIED;
    m.moved = m.copied < MOST_MOVED ? m.copied : MOST_MOVED;
    m.a = s->backend->allocate(s->device, m.copied);
    m.b = s->backend->allocate(s->device, m.copied);
    m.host = s->apart->allocate_host(s->device, m.moved);
    sg_status status = measure(&m, out, err);
    if (m.host)
        s->apart->release_host(s->device, m.host);
    if (m.b)
        s->backend->release(s->device, m.b);
    if (m.a)
        s->backend->release(s->device, m.a);
    return status;
}
