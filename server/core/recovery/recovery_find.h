/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of recovery: which checkpoints there are, in the order in which they are tried, and what
 * is known of those that cannot be used. Nobody but recovery_run.c includes this.
 *
 * Threads:  none inside.
 * Blocking: for the disk, but for the functions that only look at the lists.
 * Errors:   said at the functions.
 * Memory:   a search owns its lists until fini.
 */
#ifndef PS_SERVER_CORE_RECOVERY_FIND_H
#define PS_SERVER_CORE_RECOVERY_FIND_H

#include "checkpoint/catalog.h"
#include "checkpoint/history_survey.h"
#include "checkpoint/journal_segments.h"
#include "server/core/recovery/recovery_run.h"
#include "server/core/recovery/recovery_verdict.h"

/* What came of a file of the folder. */
enum ps_recovery_fate { PS_FATE_NONE, PS_FATE_DAMAGED, PS_FATE_FORMER };

struct ps_recovery_search {
    const struct ps_recovery *recovery; /* borrowed */
    struct ps_catalog catalog;
    struct ps_journal_segments segments;
    struct ps_history_survey survey;      /* which histories the files are of */
    struct ps_checkpoint_place published; /* of the pointer; zeroed: there is none to be read */
    bool pointer_is_open;         /* its file is not in the catalog, and was not tried yet */
    size_t next;                  /* entry of the catalog that was not tried yet */
    enum ps_recovery_fate *fates; /* one per entry of the catalog */

    bool pointer_is_absent;       /* the file that the pointer names is not there */
    size_t damaged_count;         /* candidates that could not be used */
    char damaged[180];            /* their names, as many as fit whole: two and ", ..." */
    enum ps_recovery_cause cause; /* of a failure that people can do something about */
    uint64_t needed;              /* position that recovery must reach */
    uint64_t known;               /* position that it should reach, of epochs without a journal */
    struct ps_error journal;      /* what was wrong with the journal behind the newest candidate */
    struct ps_error stop;         /* why nothing else was tried */
};

/* One checkpoint to try. */
struct ps_recovery_candidate {
    const char *name; /* for the log; points into the candidate or the search */
    struct ps_checkpoint_place place;
    enum ps_recovery_fate *fate; /* NULL: not a file of the folder */
};

/* Lists the folder and reads the pointer. `search` is zeroed by the caller and ended by fini, also
 * after a failure.
 *
 * PS_ERR_CORRUPT      files of another history are in the way (recovery_history.h)
 * PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_recovery_search_init(struct ps_recovery_search *search,
                                                   const struct ps_recovery *recovery,
                                                   struct ps_error *error);
void ps_recovery_search_fini(struct ps_recovery_search *search);

/* The next candidate, from the newest to the oldest; false when all were given. */
bool ps_recovery_search_next(struct ps_recovery_search *search,
                             struct ps_recovery_candidate *candidate);

/* Did a later owner begin before `place` was written? Then it is a former owner's, and whatever it
 * has beyond that beginning was never acknowledged under a lease. */
bool ps_recovery_search_is_overtaken(const struct ps_recovery_search *search,
                                     const struct ps_checkpoint_place *place);

/* Is `place` the published checkpoint, and was it not put aside before? For a file that is not
 * there: its absence is a loss then. */
bool ps_recovery_search_misses(const struct ps_recovery_search *search,
                               const struct ps_checkpoint_place *place);

/* `name` cannot be used: logged and counted. */
void ps_recovery_search_note_damage(struct ps_recovery_search *search, const char *name,
                                    const struct ps_error *reason);

/* Renames files by their fates, so that they neither count nor vanish. To be called when another
 * one was loaded: until then nothing is known to be better. */
void ps_recovery_search_put_aside(const struct ps_recovery_search *search);

#endif
