/* SPDX-License-Identifier: Apache-2.0 */
/* A gradient of a parameter that is trained in rounds (docs/rounds.md): held until the others are
 * there, and then one step with all of them.
 *
 * A contribution is a record of the journal, and so is the end of a round: after a crash the same
 * contributions are there, and make the same bits. Nothing ends a round by itself: whoever
 * contributes or waits looks whether the open one is over, because its grace time is, say.
 *
 * Threads:  with the cut held shared, by any thread; alone in replay.
 * Blocking: for the parameter's contributions and for an update.
 * Errors:   said at each function.
 * Memory:   contributions.h.
 */
#ifndef PS_SERVER_CORE_CONTRIBUTE_H
#define PS_SERVER_CORE_CONTRIBUTE_H

#include "server/core/requests/service_state.h"
#include "server/core/rounds/contributions.h"

/* What came of a look at the rounds of a parameter. */
struct ps_round_effects {
    bool tells;        /* whoever waits for the parameter is to be asked again */
    bool wakes_writer; /* of the journal */
    uint64_t noted; /* position of the contribution's own record, which is what its session keeps;
                          0: none was noted */
    uint64_t again_ms; /* the open round is over then, if nobody contributes; 0: no time ends it */
};

/* The contribution of request->worker; the request is a whole gradient, and new to the sessions.
 *
 * PS_OK             held (reply->held), or the last that its round needed, or late. What is late
 *                   and counts nowhere has position 0: nothing of it was noted
 * PS_ERR_BAD_INPUT  no worker, one that is not there, no request id; an element that is not finite
 * PS_ERR_EXISTS     the worker has contributed to this round under another id
 * PS_ERR_MISMATCH   the round is not open yet; the text says which is
 * PS_ERR_TABLE_FULL, PS_ERR_OUT_OF_RANGE   as of a push of rows
 * PS_ERR_NO_MEMORY, and what ps_journal_queue_put gives
 * On failure nothing was noted. In any case `effects` are to be done, without the cut.
 */
PS_MUST_USE enum ps_status ps_contribute(struct ps_service *service, struct ps_parameter *parameter,
                                         const struct ps_push_request *request,
                                         uint32_t fingerprint, struct ps_push_reply *reply,
                                         struct ps_round_effects *effects, struct ps_error *error);

/* What somebody who waits for a version wants to know. */
struct ps_round_view {
    uint64_t version;  /* of the parameter */
    uint64_t position; /* to be durable before that version is told; 0: it is */
    uint32_t there;    /* contributions to the open round */
    uint32_t needed;
    char missing[64]; /* of whom; as ps_round_name_missing */
};

/* Ends the open round if it is over and can be ended, and looks. */
void ps_rounds_look(struct ps_service *service, struct ps_parameter *parameter,
                    struct ps_round_view *view, struct ps_round_effects *effects);

/* Does them, without the cut: tells whoever waits for `name`, and the journal's writer. */
void ps_round_effects_do(struct ps_service *service, struct ps_bytes name,
                         const struct ps_round_effects *effects);

/* ---- For replay ---- */

/* Returns what would be held of a gradient whose encoding and size fit the parameter; end it with
 * ps_contribution_release. A weight of 0 is 1.
 *
 * PS_ERR_BAD_INPUT     as a push of it would be refused
 * PS_ERR_OUT_OF_RANGE  a key of another shard
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_contribution_make(const struct ps_parameter *parameter,
                                                struct ps_gradient gradient, float weight,
                                                struct ps_contribution *one,
                                                struct ps_error *error);

/* Makes the next version of what is held, and opens the next round with that set evicted. `place`
 * as in update.h. With the lock of the contributions. */
PS_MUST_USE enum ps_status ps_round_make_version(struct ps_parameter *parameter,
                                                 const uint8_t *evicted,
                                                 struct ps_journal_place *place, uint64_t *version,
                                                 struct ps_error *error);

#endif
