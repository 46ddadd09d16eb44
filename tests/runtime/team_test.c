/* The threads of a run: every tile runs exactly once, whatever the numbers of tiles and threads, also with more threads
 * than cores, where members fall asleep and have to be woken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/cpu/cpu_internal.h"

enum { TILES = 300, ROUNDS = 60 };

typedef struct work {
    _Atomic int count[TILES];
    _Atomic int64_t tiles;
    _Atomic int32_t top_thread;
    int32_t threads;
    bool good;
} work;

static void count_tiles(void *arg, int64_t begin, int64_t end, int32_t thread)
{
    work *w = arg;
    for (int64_t t = begin; t < end; t++)
        atomic_fetch_add(&w->count[t], 1);
    atomic_fetch_add(&w->tiles, end - begin);
    int32_t top = atomic_load(&w->top_thread);
    while (thread > top && !atomic_compare_exchange_weak(&w->top_thread, &top, thread))
        ;
}

static void pause_for(long nanoseconds)
{
    if (nanoseconds)
        nanosleep(&(struct timespec){0, nanoseconds}, NULL);
}

/* Jobs of all sizes; now and then the leader rests long enough for the members to fall asleep. */
static void jobs(void *user)
{
    work *w = user;
    w->good = true;
    for (int64_t round = 0; round < ROUNDS; round++) {
        int64_t tiles = round * round % TILES;
        for (int t = 0; t < TILES; t++)
            atomic_store(&w->count[t], 0);
        atomic_store(&w->tiles, 0);
        sg_cpu_parallel(w->threads, tiles, count_tiles, w);
        w->good = w->good && atomic_load(&w->tiles) == tiles;
        for (int t = 0; t < TILES; t++)
            w->good = w->good && atomic_load(&w->count[t]) == (t < tiles);
        pause_for(round % 20 == 0 ? 4000000 : 0);
    }
}

static void run(int32_t threads, void (*body)(void *user), void *user)
{
    sg_cpu_team *team = sg_cpu_team_new(threads);
    assert_non_null(team);
    sg_cpu_run(team, body, user);
    sg_cpu_team_free(team);
}

static void every_tile_runs_once(void **state)
{
    (void)state;
    static work w;
    for (int32_t team = 1; team <= 8; team++) {
        for (int32_t asked = 1; asked <= team + 2; asked += 3) {
            w.threads = asked;
            atomic_store(&w.top_thread, 0);
            run(team, jobs, &w);
            assert_true(w.good);
            assert_true(w.top_thread < (asked < team ? asked : team));
        }
    }
}

/* A team serves one run after the other, also when its members have fallen asleep between them. */
static void a_team_serves_many_runs(void **state)
{
    (void)state;
    static work w;
    sg_cpu_team *team = sg_cpu_team_new(4);
    assert_non_null(team);
    w.threads = 4;
    for (int run = 0; run < 20; run++) {
        sg_cpu_run(team, jobs, &w);
        assert_true(w.good);
        pause_for(run % 5 == 0 ? 6000000 : 0);
    }
    sg_cpu_team_free(team);
}

/* A child process has the team, but not its threads. */
static void a_team_outlives_a_fork(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* that sanitizer follows no threads that a child starts */
#endif
    static work w;
    sg_cpu_team *team = sg_cpu_team_new(4);
    assert_non_null(team);
    w.threads = 4;
    sg_cpu_run(team, jobs, &w);
    for (int runs = 0; runs < 2; runs++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            if (runs)
                sg_cpu_run(team, jobs, &w);
            sg_cpu_team_free(team);
            _exit(w.good ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    sg_cpu_team_free(team);
}

/* Teams that are led by several threads do not know of each other. */
static void *lead_a_team(void *user)
{
    run(3, jobs, user);
    return NULL;
}

static void teams_work_side_by_side(void **state)
{
    (void)state;
    enum { LEADERS = 3 };
    static work w[LEADERS];
    pthread_t leader[LEADERS];
    for (int i = 0; i < LEADERS; i++) {
        w[i].threads = 3;
        assert_int_equal(pthread_create(&leader[i], NULL, lead_a_team, &w[i]), 0);
    }
    for (int i = 0; i < LEADERS; i++)
        assert_int_equal(pthread_join(leader[i], NULL), 0);
    for (int i = 0; i < LEADERS; i++)
        assert_true(w[i].good);
}

/* Outside of a run there is no team, and the caller does the work. */
static void without_a_team_the_caller_works(void **state)
{
    (void)state;
    static work w;
    w.threads = 4;
    jobs(&w);
    assert_true(w.good);
    assert_int_equal(w.top_thread, 0);
}

/* A run inside a run (a plan that is run by a callback) has no team of its own; the outer one is there again after it. */
static void nested_body(void *user) { jobs(user); }
static void nested(void *user)
{
    run(3, nested_body, user);
    jobs(user);
}

static void runs_nest(void **state)
{
    (void)state;
    static work w;
    w.threads = 3;
    run(3, nested, &w);
    assert_true(w.good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_runs_once),
        cmocka_unit_test(a_team_serves_many_runs),
        cmocka_unit_test(a_team_outlives_a_fork),
        cmocka_unit_test(teams_work_side_by_side),
        cmocka_unit_test(without_a_team_the_caller_works),
        cmocka_unit_test(runs_nest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
