/* team.c - the threads of a run.
 *
 * One OpenMP region lasts for a whole run. Its first thread leads: it goes through the steps of the plan; the others wait
 * for work that sg_cpu_parallel hands out. Entering a region for each kernel instead would put libgomp's barrier at the
 * end of each, which spins for milliseconds: on a machine that has other work to do, a thread that lost its core makes
 * all others wait for it at full speed, and steps became up to fifty times slower.
 *
 * Tiles are shared out in equal ranges; who is done early takes from the ranges of others. Which thread runs a tile has
 * no influence on what the tile computes. */
#include <limits.h>
#include <omp.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "runtime/cpu/cpu_internal.h"

enum { IDLE, CALLED, ASLEEP };

typedef struct member {
    _Alignas(64) _Atomic int state; /* of a member that is not the leader */
    sem_t wake;
    _Alignas(64) _Atomic int64_t next; /* first tile of its range that nobody took */
    int64_t end;
} member;

typedef struct team {
    int32_t size;
    member *member;     /* the leader is the first */
    sg_cpu_range_fn fn; /* NULL: the run is over */
    void *arg;
    int32_t used;                      /* members that work on the present job */
    int64_t chunk;                     /* tiles taken at once */
    _Alignas(64) _Atomic int32_t busy; /* members, without the leader, that are not done with it */
    _Atomic bool leader_asleep;
    sem_t done;
} team;

static _Thread_local team *current; /* the team that the calling thread leads */

/* --------------------------------------------------------------------------------------------------------- waiting */

/* Waking a thread takes tens of microseconds, and where programs compete for the cores a thread that slept may wait for
 * milliseconds until it is its turn. So a wait spins for a moment, then offers its core to whoever is ready, the thread it
 * waits for among them, and sleeps only when the others are idle for long. */
enum { SPIN_NANOSECONDS = 50000, YIELD_NANOSECONDS = 2000000, PAUSES = 32 };

static int64_t clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Until *value is `wanted`, for a while; true if it is. */
static bool spin(_Atomic int32_t *value, int32_t wanted)
{
    int64_t start = 0;
    for (;;) {
        for (int i = 0; i < PAUSES; i++) {
            if (atomic_load_explicit(value, memory_order_acquire) == wanted)
                return true;
            _mm_pause();
        }
        int64_t now = clock_now();
        start = start ? start : now;
        if (now - start >= YIELD_NANOSECONDS)
            return false;
        if (now - start >= SPIN_NANOSECONDS)
            sched_yield();
    }
}

static void sleep_on(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) /* interrupted by a signal */
        ;
}

static void wait_for_call(member *m)
{
    int idle = IDLE;
    if (!spin(&m->state, CALLED) && atomic_compare_exchange_strong(&m->state, &idle, ASLEEP))
        sleep_on(&m->wake);
}

static void call(member *m)
{
    if (atomic_exchange(&m->state, CALLED) == ASLEEP)
        sem_post(&m->wake);
}

static void wait_for_members(team *t)
{
    if (spin(&t->busy, 0))
        return;
    atomic_store(&t->leader_asleep, true);
    /* Either the last member sees the flag and posts, or the leader takes it back itself. */
    if (atomic_load(&t->busy) != 0 || !atomic_exchange(&t->leader_asleep, false))
        sleep_on(&t->done);
}

static void report(team *t)
{
    if (atomic_fetch_sub(&t->busy, 1) == 1 && atomic_exchange(&t->leader_asleep, false))
        sem_post(&t->done);
}

/* ------------------------------------------------------------------------------------------------------------ tiles */

static void take_range(team *t, member *from, int32_t thread)
{
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&from->next, t->chunk, memory_order_relaxed);
        if (begin >= from->end)
            return;
        t->fn(t->arg, begin, from->end - begin < t->chunk ? from->end : begin + t->chunk, thread);
    }
}

static void take_tiles(team *t, int32_t thread)
{
    for (int32_t k = 0; k < t->used; k++)
        take_range(t, &t->member[(thread + k) % t->used], thread);
}

/* A range is taken in so many pieces: small enough to share, large enough that taking them costs nothing. */
enum { PIECES = 8 };

static void share_out(team *t, int32_t used, int64_t tiles)
{
    int64_t each = tiles / used, rest = tiles % used, at = 0;
    for (int32_t k = 0; k < used; k++) {
        atomic_store_explicit(&t->member[k].next, at, memory_order_relaxed);
        t->member[k].end = at += each + (k < rest);
    }
    t->chunk = (each + PIECES - 1) / PIECES;
    t->chunk = t->chunk > 0 ? t->chunk : 1;
}

static void hand_out(team *t, int32_t used, sg_cpu_range_fn fn, void *arg)
{
    t->used = used;
    t->fn = fn;
    t->arg = arg;
    atomic_store(&t->busy, used - 1);
    for (int32_t k = 1; k < used; k++)
        call(&t->member[k]);
}

void sg_cpu_parallel(int32_t threads, int64_t tiles, sg_cpu_range_fn fn, void *arg)
{
    team *t = current;
    int64_t used = t ? t->size : 1;
    used = threads < used ? threads : used;
    used = tiles < used ? tiles : used;
    if (used <= 1) {
        if (tiles > 0)
            fn(arg, 0, tiles, 0);
        return;
    }
    share_out(t, (int32_t)used, tiles);
    hand_out(t, (int32_t)used, fn, arg);
    take_tiles(t, 0);
    wait_for_members(t);
}

/* ---------------------------------------------------------------------------------------------------------- the run */

static void serve(team *t, int32_t me)
{
    for (;;) {
        wait_for_call(&t->member[me]);
        atomic_store(&t->member[me].state, IDLE);
        bool over = !t->fn;
        if (!over)
            take_tiles(t, me);
        report(t);
        if (over)
            return;
    }
}

static void lead(team *t, void (*body)(void *user), void *user)
{
    team *outer = current;
    current = t;
    body(user);
    hand_out(t, t->size, NULL, NULL);
    wait_for_members(t);
    current = outer;
}

void sg_cpu_run(int32_t threads, void (*body)(void *user), void *user)
{
    if (threads <= 1 || omp_in_parallel()) {
        body(user);
        return;
    }
    member members[threads];
    team t = {.size = threads, .member = members};
    sem_init(&t.done, 0, 0);
    for (int32_t k = 0; k < threads; k++) {
        atomic_init(&members[k].state, IDLE);
        sem_init(&members[k].wake, 0, 0);
    }
#pragma omp parallel num_threads(threads)
    {
        /* The pool may be smaller than asked for (OMP_THREAD_LIMIT). */
#pragma omp single
        t.size = omp_get_num_threads();
        if (omp_get_thread_num() == 0)
            lead(&t, body, user);
        else
            serve(&t, omp_get_thread_num());
    }
    for (int32_t k = 0; k < threads; k++)
        sem_destroy(&members[k].wake);
    sem_destroy(&t.done);
}
