/* SPDX-License-Identifier: Apache-2.0 */
/* A line that is written over again, at most ten times a second. Long commands read terabytes; a
 * line that moves tells a waiting person that the disk is still at work and how long it will take.
 * The line goes to standard error, and only when that is a terminal. */
#include "tools/psckpt/progress.h"

#include <inttypes.h>
#include <stdio.h>

#define PAUSE_MS 100

/* A log has no use for the line, so the caller asks isatty once. */
void progress_init(struct progress *progress, const struct ps_clock *clock, bool shown)
{
    *progress = (struct progress){.clock = clock, .shown = shown};
}

/* The first line appears a tenth of a second later: short commands show none at all. */
void progress_begin(struct progress *progress, const char *what, uint64_t total)
{
    progress->what = what;
    progress->total = total;
    progress->done = 0;
    progress->last_ms = ps_now_ms(progress->clock);
}

/* The clock is asked at every part of a megabyte or so, which costs nothing beside reading it.
 * Counting goes on without a terminal, which costs one addition. */
void progress_add(struct progress *progress, uint64_t bytes)
{
    progress->done += bytes;
    if (!progress->shown)
        return;
    uint64_t now = ps_now_ms(progress->clock);
    if (now - progress->last_ms < PAUSE_MS)
        return;
    progress->last_ms = now;
    progress->dirty = true;
    /* How much there will be is not always known: a journal is read to its end. */
    if (progress->total == 0) {
        (void)fprintf(stderr, "\r%.60s: %" PRIu64 " MiB\033[K", progress->what,
                      progress->done >> 20);
        return;
    }
    double share = (double)progress->done / (double)progress->total;
    (void)fprintf(stderr, "\r%.60s: %3.0f %% of %" PRIu64 " MiB\033[K", progress->what,
                  /* A file may grow while it is read. */
                  (share < 1 ? share : 1) * 100, progress->total >> 20);
}

/* Called more than once by nested work; only a line that stands there is taken away. */
void progress_end(struct progress *progress)
{
    if (progress->dirty)
        (void)fputs("\r\033[K", stderr);
    progress->dirty = false;
}
