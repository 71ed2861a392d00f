/* A line that is written over again, at most ten times a second. */
#include "tools/psckpt/progress.h"

#include <inttypes.h>
#include <stdio.h>

#define PAUSE_MS 100

void progress_init(struct progress *progress, const struct ps_clock *clock, bool shown)
{
    *progress = (struct progress){.clock = clock, .shown = shown};
}

void progress_begin(struct progress *progress, const char *what, uint64_t total)
{
    progress->what = what;
    progress->total = total;
    progress->done = 0;
    progress->last_ms = ps_now_ms(progress->clock);
}

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
    if (progress->total == 0) {
        (void)fprintf(stderr, "\r%.60s: %" PRIu64 " MiB\033[K", progress->what,
                      progress->done >> 20);
        return;
    }
    double share = (double)progress->done / (double)progress->total;
    (void)fprintf(stderr, "\r%.60s: %3.0f %% of %" PRIu64 " MiB\033[K", progress->what,
                  (share < 1 ? share : 1) * 100, progress->total >> 20);
}

void progress_end(struct progress *progress)
{
    if (progress->dirty)
        (void)fputs("\r\033[K", stderr);
    progress->dirty = false;
}
