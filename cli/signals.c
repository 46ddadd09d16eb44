/* signals.c - an orderly end: the first SIGINT, SIGTERM or SIGHUP sets a flag that long work looks at between steps, the second
 * ends the program at once. Verbs that look at no flag are left alone: one that waits for a pipe must end at the first.
 *
 * A thread of its own waits for them and every other one blocks them, so no handler ever runs on the stack of a thread that
 * computes: oneDNN's matrix products up to 3.11.1 keep the stack pointer just above their operands on the heap, and the frame of
 * a handler would be written over what lies there (uxlfoundation/oneDNN issue 4845). */
#include "cli/cli.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int caught;

static void *wait_for_signals(void *set)
{
    static const char message[] = "\nsealgraph: stopping after this step; once more to stop at once\n";
    for (int number; sigwait(set, &number) == 0;) {
        if (atomic_exchange(&caught, number))
            _exit(128 + number);
        if (write(STDERR_FILENO, message, sizeof message - 1) < 0)
            continue; /* nobody to tell */
    }
    return NULL;
}

void sg_signals_install(const sg_verb *verb)
{
    static sigset_t set;
    struct sigaction hangup;
    pthread_t thread;
    signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of writing, like a full disk */
    if (!verb->in_steps)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) /* nohup */
        sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&thread, NULL, wait_for_signals, &set) == 0)
        pthread_detach(thread);
    else
        pthread_sigmask(SIG_UNBLOCK, &set, NULL); /* out of threads: the first signal ends the program, as any other */
}

int sg_signal_caught(void) { return atomic_load(&caught); }

bool sg_stop_requested(void *unused)
{
    (void)unused;
    return sg_signal_caught() != 0;
}
