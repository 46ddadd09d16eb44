/* signals.c - an orderly end: the first SIGINT, SIGTERM or SIGHUP sets a flag that long work looks at between steps, the second
 * ends the program at once. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    static const char message[] = "\nsealgraph: stopping after this step; once more to stop at once\n";
    if (caught)
        _exit(128 + number);
    caught = number;
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0)
        return;
}

void sg_signals_install(void)
{
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* nohup */
        sigaction(SIGHUP, &action, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file over the limit is an error of writing, like a full disk */
}

int sg_signal_caught(void) { return caught; }

bool sg_stop_requested(void *unused)
{
    (void)unused;
    return caught != 0;
}
