/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of recovery: is everything in the folder of one history (checkpoint/history.h)? Asked
 * before any file is loaded, since positions and epochs of two histories fit each other by chance.
 * Nobody but recovery_find.c and recovery_run.c includes this.
 *
 * Threads:  none inside.
 * Blocking: for the disk, where it reads the folder.
 * Errors:   said at the functions.
 * Memory:   what a survey holds is the search's.
 */
#ifndef PS_SERVER_CORE_RECOVERY_HISTORY_H
#define PS_SERVER_CORE_RECOVERY_HISTORY_H

#include "server/core/recovery/recovery_find.h"

/* Reads which histories the folder's files are of, after the pointer. Each file that is not of the
 * shard's is logged: as an error where it is in the way, and as a warning where it is void.
 *
 * PS_ERR_CORRUPT      some are in the way; the text names as many as it has room for
 * PS_ERR_NO_MEMORY, PS_ERR_IO
 */
PS_MUST_USE enum ps_status ps_recovery_see_histories(struct ps_recovery_search *search,
                                                     struct ps_error *error);

/* Is the candidate a void checkpoint of another history? It is passed over, and nothing of it is
 * missed. */
bool ps_recovery_is_strange(const struct ps_recovery_search *search,
                            const struct ps_recovery_candidate *candidate);

/* A checkpoint of that history was loaded: `*history` becomes the shard's, as far as it is known.
 *
 * PS_ERR_CORRUPT      it is not the folder's: the file is in another one, or came just now
 */
PS_MUST_USE enum ps_status ps_recovery_take_history(struct ps_recovery_search *search,
                                                    const struct ps_recovery_candidate *candidate,
                                                    const struct ps_history *loaded,
                                                    struct ps_history *history,
                                                    struct ps_error *error);

#endif
