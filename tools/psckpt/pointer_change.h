/* SPDX-License-Identifier: Apache-2.0 */
/* Another checkpoint of a shard is published, by an operator: what was there, what comes, and what
 * is given up by it.
 *
 *   plan: nobody owns the shard, and the present pointer was read
 *   set:  what is to be published, and up to where a server recovers from it
 *   say:  in words, before anything is changed
 *   make: it is published
 *
 * Threads:  one.
 * Blocking: for the store, until the deadline that `published` was opened with.
 * Errors:   those of published.h.
 * Memory:   in place.
 */
#ifndef PS_TOOLS_POINTER_CHANGE_H
#define PS_TOOLS_POINTER_CHANGE_H

#include "base/json_writer.h"
#include "checkpoint/journal_segments.h"
#include "tools/psckpt/published.h"

#include <stdio.h>

struct pointer_change {
    char job[PS_JOB_BYTES_MAX + 1];
    uint32_t index;
    bool had_pointer;
    struct ps_checkpoint_place old;
    struct ps_checkpoint_place place;
    uint64_t reached;     /* how far the shard had come, by pointer and notes */
    uint64_t position;    /* that a server comes to */
    bool journal_is_gone; /* what it had behind `old` is known to nobody */
};

/* `from` has the present pointer, `to` gets the new one; they may be one. A pointer that cannot be
 * read counts as none: it is what is to be replaced. `folder` is the shard's folder as it was,
 * and `journal` has its segments.
 *
 * PS_ERR_UNAVAILABLE  a server owns the shard in `to`
 */
PS_MUST_USE enum ps_status
pointer_change_plan(struct pointer_change *change, struct published *from, struct published *to,
                    const struct ps_checkpoint_facts *facts, const char *folder,
                    const struct ps_journal_segments *journal, struct ps_error *error);

/* To `place`, whose member `journal` is set; a server comes to `position` from there. */
void pointer_change_set(struct pointer_change *change, const struct ps_checkpoint_place *place,
                        uint64_t position);

/* How many pushes are given up, as far as the pointer knows. */
uint64_t pointer_change_given_up(const struct pointer_change *change);

/* Lines of text to `to`, or an object of `json` when that is not NULL. */
void pointer_change_say(const struct pointer_change *change, struct ps_json_writer *json, FILE *to);

/* The first half of make: the folder is told what is given up. */
PS_MUST_USE enum ps_status pointer_change_note(const struct pointer_change *change,
                                               struct ps_error *error);

/* What is missing is given up in the folder of the checkpoint, too, where the journal's reader asks
 * for it (checkpoint/journal_note.h). */
PS_MUST_USE enum ps_status pointer_change_make(const struct pointer_change *change,
                                               struct published *published, struct ps_error *error);

#endif
