/* SPDX-License-Identifier: Apache-2.0 */
/* The crew of a server: threads that live as long as the work does.
 *
 * Threads:  as said in server/core/values/crew.h; the calling thread works, too.
 * Blocking: until the work is done.
 * Errors:   threads that the system refuses are done without.
 * Memory:   none.
 */
#ifndef PS_SERVER_THREAD_CREW_H
#define PS_SERVER_THREAD_CREW_H

#include "server/core/values/crew.h"

#include <stdint.h>

/* More find the memory's bandwidth used up. */
#define PS_CREW_THREADS_MAX 8

/* How many threads this machine can run at once, at most PS_CREW_THREADS_MAX. */
uint32_t ps_crew_thread_count(void);

/* `*thread_count` (1 to PS_CREW_THREADS_MAX) is borrowed; outlives the crew. */
struct ps_crew ps_thread_crew(uint32_t *thread_count);

#endif
