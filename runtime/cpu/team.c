/* team.c - the threads of a device.
 *
 * The caller of a run leads: it goes through the steps of the plan. The other members wait for tiles that sg_cpu_parallel hands out, in
 * this run and in the next. Who is done early takes tiles from the ranges of others, so that all are done even if a member never comes,
 * and the leader waits only for those that are at work. An OpenMP region ends with a barrier instead, for every thread: on a machine that has
 * other work to do, a thread that lost its core gets it again after some milliseconds, and steps of small nets became
 * seven to seventeen times slower than with one thread.
 *
 * Which thread runs a tile has no influence on what the tile computes. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cpu/cpu_internal.h"

enum { IDLE, CALLED, WORKING, ASLEEP };

typedef struct member {
    _Alignas(64) _Atomic int state; /* of a member that is not the leader */
    sem_t wake;
    pthread_t thread;
    sg_cpu_team *team;
    _Alignas(64) _Atomic int64_t next; /* first tile of its range that nobody took */
    int64_t end;
} member;

struct sg_cpu_team {
    int32_t size, started; /* members wanted; members there are, the leader among them */
    member *member;        /* the leader is the first */
    pid_t process;         /* that the other members are threads of */
    sg_cpu_range_fn fn;    /* NULL: the team is over */
    void *arg;
    int32_t used;                      /* members that are called to the present job */
    int64_t chunk;                     /* tiles taken at once */
    _Alignas(64) _Atomic int32_t busy; /* members, without the leader, that were called to it and are not done */
    _Atomic bool leader_asleep;
    sem_t done;
};

/* The team that the calling thread leads; does it do a tile for another? */
static _Thread_local sg_cpu_team *current;
static _Thread_local bool serving;

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

/* A call may have been taken back. */
static bool come(member *m)
{
    int called = CALLED;
    return atomic_compare_exchange_strong(&m->state, &called, WORKING);
}

static void wait_for_call(member *m)
{
    while (!come(m)) {
        int idle = IDLE;
        if (!spin(&m->state, CALLED) && atomic_compare_exchange_strong(&m->state, &idle, ASLEEP))
            sleep_on(&m->wake);
    }
}

static void call(member *m)
{
    if (atomic_exchange(&m->state, CALLED) == ASLEEP)
        sem_post(&m->wake);
}

/* From members that have not come: all tiles are taken. */
static void take_calls_back(sg_cpu_team *t)
{
    for (int32_t k = 1; k < t->used; k++) {
        int called = CALLED;
        if (atomic_compare_exchange_strong(&t->member[k].state, &called, IDLE))
            atomic_fetch_sub(&t->busy, 1);
    }
}

/* Either the last member sees the flag and posts, or the leader takes it back itself. A member that was the last of an earlier
 * job may be so late that it sees the flag of this one: then the leader wakes too early, and waits again. */
static void wait_for_members(sg_cpu_team *t)
{
    while (!spin(&t->busy, 0)) {
        atomic_store(&t->leader_asleep, true);
        if (atomic_load(&t->busy) != 0 || !atomic_exchange(&t->leader_asleep, false))
            sleep_on(&t->done);
    }
}

static void report(sg_cpu_team *t)
{
    if (atomic_fetch_sub(&t->busy, 1) == 1 && atomic_exchange(&t->leader_asleep, false))
        sem_post(&t->done);
}

/* ------------------------------------------------------------------------------------------------------------ tiles */

static void take_range(sg_cpu_team *t, member *from, int32_t thread)
{
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&from->next, t->chunk, memory_order_relaxed);
        if (begin >= from->end)
            return;
        t->fn(t->arg, begin, from->end - begin < t->chunk ? from->end : begin + t->chunk, thread);
    }
}

static void take_tiles(sg_cpu_team *t, int32_t thread)
{
    for (int32_t k = 0; k < t->used; k++)
        take_range(t, &t->member[(thread + k) % t->used], thread);
}

/* A range is taken in so many pieces: small enough to share, large enough that taking them costs nothing. */
enum { PIECES = 8 };

static void share_out(sg_cpu_team *t, int32_t used, int64_t tiles)
{
    int64_t each = tiles / used, rest = tiles % used, at = 0;
    for (int32_t k = 0; k < used; k++) {
        atomic_store_explicit(&t->member[k].next, at, memory_order_relaxed);
        t->member[k].end = at += each + (k < rest);
    }
    t->chunk = (each + PIECES - 1) / PIECES;
    t->chunk = t->chunk > 0 ? t->chunk : 1;
}

static void hand_out(sg_cpu_team *t, int32_t used, sg_cpu_range_fn fn, void *arg)
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
    sg_cpu_team *t = current;
    int64_t used = t ? t->started : 1;
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
    take_calls_back(t);
    wait_for_members(t);
}

/* --------------------------------------------------------------------------------------------------------- the team */

static void *serve(void *user)
{
    member *me = user;
    sg_cpu_team *t = me->team;
    serving = true;
    for (;;) {
        wait_for_call(me);
        if (!t->fn)
            return NULL;
        take_tiles(t, (int32_t)(me - t->member));
        atomic_store(&me->state, IDLE);
        report(t);
    }
}

sg_cpu_team *sg_cpu_team_new(int32_t threads)
{
    sg_cpu_team *t = sg_alloc_aligned(sizeof *t);
    member *all = sg_alloc_aligned((size_t)threads * sizeof *all);
    if (!t || !all) {
        sg_free_aligned(t);
        sg_free_aligned(all);
        return NULL;
    }
    *t = (sg_cpu_team){.size = threads, .started = 1, .member = all, .process = getpid()};
    sem_init(&t->done, 0, 0);
    return t;
}

/* A child of fork() has the team, but not its threads. */
static void forget_lost(sg_cpu_team *t)
{
    if (t->process == getpid())
        return;
    t->process = getpid();
    t->started = 1;
}

/* With the first run, so that a device that only compiles has none. Signals are for the program's own threads. If the system
 * gives fewer threads than wanted, the team is smaller. */
static void start(sg_cpu_team *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; t->started < t->size; t->started++) {
        member *m = &t->member[t->started];
        *m = (member){.team = t};
        sem_init(&m->wake, 0, 0);
        if (pthread_create(&m->thread, NULL, serve, m) != 0) {
            sem_destroy(&m->wake);
            t->size = t->started;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void sg_cpu_team_free(sg_cpu_team *t)
{
    if (!t)
        return;
    forget_lost(t);
    hand_out(t, t->started, NULL, NULL);
    for (int32_t k = 1; k < t->started; k++) {
        pthread_join(t->member[k].thread, NULL);
        sem_destroy(&t->member[k].wake);
    }
    sem_destroy(&t->done);
    sg_free_aligned(t->member);
    sg_free_aligned(t);
}

void sg_cpu_run(sg_cpu_team *t, void (*body)(void *user), void *user)
{
    if (t->size <= 1 || current || serving) {
        body(user);
        return;
    }
    forget_lost(t);
    if (t->started < t->size)
        start(t);
    current = t;
    body(user);
    current = NULL;
}
