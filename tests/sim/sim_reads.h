/* SPDX-License-Identifier: Apache-2.0 */
/* What a trainer has read in one batch: every answer to a pull is noted, and when the batch is
 * over, whatever the engine made of them must be one of the versions that the answers were of,
 * whole.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, "ranges: ...".
 * Memory:   in place; names are borrowed from the trainer's parameters.
 */
#ifndef PS_TESTS_SIM_SIM_READS_H
#define PS_TESTS_SIM_SIM_READS_H

#include "client/calls/call.h"

#include <stddef.h>
#include <stdint.h>

#define SIM_READS_MAX 256

struct sim_client;

/* An answer was of this version of this chain. */
struct sim_read {
    uint64_t name; /* hash */
    uint64_t version;
    struct ps_chain chain;
};

/* Of one batch; zero: none yet. The oldest are forgotten. */
struct sim_reads {
    size_t count;
    struct sim_read list[SIM_READS_MAX];
};

/* An answer has come; of a range, or of the whole. */
void sim_reads_note(struct sim_reads *reads, const struct ps_pull_reply *reply,
                    const struct ps_chain *chain);

/* The batch of the trainer's items, which pull, is over. */
void sim_reads_judge(struct sim_client *client);

#endif
