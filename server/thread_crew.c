/* SPDX-License-Identifier: Apache-2.0 */
/* Threads for a while: started for one piece of work and ended with it, so that a server which
 * recovers once in a month keeps none for that. A thread that is refused makes fewer; the caller's
 * own always works. */
#include "server/thread_crew.h"

#include "base/assert.h"
#include "base/thread.h"

#include <unistd.h>

/* Returns when the last of them has come back, so that what they worked on may be on the caller's
 * stack. */
static void run(void *self, void (*work)(void *argument), void *argument)
{
    uint32_t thread_count = *(const uint32_t *)self;
    struct ps_thread threads[PS_CREW_THREADS_MAX] = {0};
    PS_ASSERT(thread_count >= 1 && thread_count <= PS_CREW_THREADS_MAX);
    for (uint32_t i = 1; i < thread_count; i++)
        if (ps_thread_start(&threads[i], "loader", work, argument, NULL) != PS_OK)
            break;
    work(argument);
    for (uint32_t i = 1; i < thread_count; i++)
        ps_thread_join(&threads[i]);
}

struct ps_crew ps_thread_crew(uint32_t *thread_count)
{
    return (struct ps_crew){run, thread_count};
}

/* Processors that are online, which a container's limit may be below: more threads than that cost
 * little. */
uint32_t ps_crew_thread_count(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online < 1)
        return 1;
    return online < PS_CREW_THREADS_MAX ? (uint32_t)online : PS_CREW_THREADS_MAX;
}
