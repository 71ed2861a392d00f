/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of a server's other thread (sim_server_jobs.c, sim_server_save.c): events that stand behind
 * each other, each of which takes its time.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_TESTS_SIM_SIM_SERVER_JOBS_H
#define PS_TESTS_SIM_SIM_SERVER_JOBS_H

#include "tests/sim/sim_server.h"

#define SIM_JOB_STORE_MS 3000  /* most that one job waits for the store */
#define SIM_JOB_FOLDER "/data" /* on every volume */

/* False when the process is gone; a paused one goes on with `run` later. */
bool sim_job_may_run(struct sim_server *server, sim_event_fn run, uint64_t generation, uint64_t b);

/* What comes next, behind what the disk takes. */
void sim_job_post(struct sim_server *server, sim_event_fn run);

/* The coordinator hears of the result when the store's answers would have come. */
void sim_job_tell(struct sim_server *server, sim_event_fn tell, enum ps_status status);

/* The first event of a save; `server->publishes` is set. */
void sim_save_begin(struct sim_world *world, void *subject, uint64_t generation, uint64_t b);

#endif
