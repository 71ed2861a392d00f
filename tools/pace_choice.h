/* SPDX-License-Identifier: Apache-2.0 */
/* How far the workers of a run may be apart, in the words of pstrain's options: rounds, clocks, or
 * nothing that holds them together.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT, with what is wrong for people.
 * Memory:   rounds are appended to the caller's buffer.
 */
#ifndef PS_TOOLS_PACE_CHOICE_H
#define PS_TOOLS_PACE_CHOICE_H

#include "base/buffer.h"
#include "base/status.h"
#include "client/psclient.h"

#include <stdbool.h>

struct ps_pace_choice {
    uint64_t workers;        /* in all processes together */
    uint64_t sync;           /* workers that a round waits for; 0: no rounds */
    uint64_t grace_ms;       /* before rounds and clocks do not wait any longer; 0: for ever */
    const char *consistency; /* "asp", "bsp" or "ssp:S" */
    bool late_next;          /* what comes late counts in the next round, instead of nowhere */
    bool pipeline;
};

/* `rounds` gets the fields of an OptimizerConfig that say the rounds, and stays empty without any:
 * a change for psclient_configure. `clocks->workers` is 0 where there are no clocks. */
PS_MUST_USE enum ps_status ps_pace_choose(const struct ps_pace_choice *choice,
                                          struct ps_buffer *rounds, struct psclient_clocks *clocks,
                                          struct ps_error *error);

#endif
