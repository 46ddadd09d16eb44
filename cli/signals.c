/* signals.c - an orderly end: the first SIGINT, SIGTERM or SIGHUP sets a flag that long work looks at between steps, the second
 * ends the program at once. Before such steps begin, and in verbs without any, the first one does: who waits for a pipe would not
 * come to look. Files begun by sg_file_begin are not left behind half written.
 *
 * A thread of its own waits for them and every other one blocks them, so no handler ever runs on the stack of a thread that
 * computes: oneDNN's matrix products up to 3.11.1 keep the stack pointer just above their operands on the heap, and the frame of
 * a handler would be written over what lies there (uxlfoundation/oneDNN issue 4845). */
#include "cli/cli.h"

#include "serialize/serialize.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static atomic_int caught;
static atomic_bool in_steps;
static sigset_t taken;

/* As the signal does by itself: who waits for the program learns which it was. */
static void die_of(int number)
{
    sg_file_abandon_all();
    pthread_sigmask(SIG_UNBLOCK, &taken, NULL);
    raise(number);
    _exit(128 + number); /* the first process of a namespace does not die of a signal */
}

/* timeout(1) and others send a signal to the process and then to its group: what comes at once is the first. */
static void wait_for_echo(void)
{
    const struct timespec at_once = {.tv_nsec = 100000000}, no_time = {0};
    nanosleep(&at_once, NULL);
    while (sigtimedwait(&taken, NULL, &no_time) > 0)
        continue;
}

static void *wait_for_signals(void *unused)
{
    (void)unused;
    static const char message[] = "\nsealgraph: stopping after this step; once more to stop at once\n";
    for (int number; sigwait(&taken, &number) == 0;) {
        if (!atomic_load(&in_steps))
            die_of(number);
        if (atomic_exchange(&caught, number)) {
            sg_file_abandon_all();
            _exit(128 + number);
        }
        struct pollfd told = {STDERR_FILENO, POLLOUT, 0}; /* a full pipe must not keep the next signal waiting */
        ssize_t written = poll(&told, 1, 0) == 1 ? write(STDERR_FILENO, message, sizeof message - 1) : 0;
        (void)written; /* there may be nobody to tell */
        wait_for_echo();
    }
    return NULL;
}

/* What is ignored (by nohup, or in the background of a script) stays so, but for what ends long work in order. */
static void take(int number, bool always)
{
    struct sigaction old;
    if (always || (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN))
        sigaddset(&taken, number);
}

void sg_signals_install(const sg_verb *verb)
{
    pthread_t thread;
    signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of writing, like a full disk */
    sigemptyset(&taken);
    take(SIGINT, verb->in_steps);
    take(SIGTERM, verb->in_steps);
    take(SIGHUP, false);
    pthread_sigmask(SIG_BLOCK, &taken, NULL);
    if (pthread_create(&thread, NULL, wait_for_signals, NULL) == 0)
        pthread_detach(thread);
    else /* out of threads: the first signal ends the program, as any other */
        pthread_sigmask(SIG_UNBLOCK, &taken, NULL);
}

void sg_signals_at_steps(void) { atomic_store(&in_steps, true); }

int sg_signal_caught(void) { return atomic_load(&caught); }

bool sg_stop_requested(void *unused)
{
    (void)unused;
    return sg_signal_caught() != 0;
}
