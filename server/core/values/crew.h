/* SPDX-License-Identifier: Apache-2.0 */
/* Who does work that many can do at once: a server lends threads, a test or a tool does it alone.
 *
 * Threads:  run is called by one thread at a time, unless the one who lends says otherwise.
 * Blocking: run, until the work is done.
 * Errors:   none: with fewer threads it only takes longer.
 * Memory:   borrowed for the call.
 */
#ifndef PS_SERVER_CORE_CREW_H
#define PS_SERVER_CORE_CREW_H

struct ps_crew {
    /* Calls work(argument) at least once, perhaps in several threads at the same time, and returns
     * when every call has. Each call takes what the others have not taken yet, until all is done.
     */
    void (*run)(void *self, void (*work)(void *argument), void *argument);
    void *self;
};

#endif
