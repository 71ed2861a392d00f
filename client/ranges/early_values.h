/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranges of a push bring back of the pull behind it (docs/wire.md, "What a range makes"),
 * and whether it may be believed: no parameter has that version yet when they say it.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the caller's.
 */
#ifndef PS_CLIENT_EARLY_VALUES_H
#define PS_CLIENT_EARLY_VALUES_H

#include "proto/messages.h"

/* Of all ranges together, each of which is sent once. Zero: none has asked. */
struct ps_early_values {
    bool asks;        /* further ranges ask for it */
    bool asked;       /* a range did, and it is not settled what holds */
    bool missing;     /* some range brought nothing, or of another version or life */
    uint64_t version; /* 1 + that of the first; 0: none came */
    uint64_t life;    /* of the shard, with that one */
};

/* Back to zero: all ranges leave once more, and none asks. */
void ps_early_values_reset(struct ps_early_values *early);

/* A range is answered, and has brought nothing: the others need not ask either. */
void ps_early_values_miss(struct ps_early_values *early);

/* A range has brought that, which `fits` when it is all of what was asked for. True: its content
 * may be kept. */
bool ps_early_values_note(struct ps_early_values *early, const struct ps_pull_reply *reply,
                          bool fits);

/* All ranges are answered, and the whole push so: is what they brought the version that it got? */
bool ps_early_values_holds(const struct ps_early_values *early, const struct ps_push_reply *push);

#endif
