/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader has got hold of, as a reply: whole, a range of it, a delta, or a copy in another
 * encoding.
 *
 * Threads:  any; no lock is held, and none is needed: what is held does not change.
 * Blocking: never; digests and encodings take as long as the content is large.
 * Errors:   said at the function.
 * Memory:   the pull keeps what it points to until ps_pull_release.
 */
#ifndef PS_SERVER_CORE_PULL_REPLY_H
#define PS_SERVER_CORE_PULL_REPLY_H

#include "server/core/requests/service_state.h"

/* What a reader has got hold of: one of the three, when all went well. */
struct ps_pull_reading {
    struct ps_blocks *values;         /* a reference */
    struct ps_encoded_values *rows;   /* owned: of a table, a copy of what was asked for */
    struct ps_parameter_spec *copied; /* a reference: the device brings them to the caller's room */
    struct ps_delta delta;            /* of a table */
    uint64_t version;
    struct ps_device_due ready; /* to be done before they are read */
    enum ps_status told;        /* may they be, though a round has ended meanwhile? */
};

/* Takes what `reading` holds, also on a failure, and says in `*pull` what goes out of it, of which
 * version and in which life. A version that is not read to its end stays readable for the rest
 * (version_holds.h). PS_ERR_BAD_INPUT, PS_ERR_OUT_OF_RANGE: there is no such range, or no message
 * takes it. PS_ERR_UNSUPPORTED, PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_pull_reply_make(struct ps_service *service,
                                              const struct ps_pull_request *request,
                                              const struct ps_chain *chain,
                                              const struct ps_pull_reading *reading,
                                              struct ps_pull *pull, struct ps_error *error);

/* Gives back what `reading` holds, of a pull that is not answered. */
void ps_pull_reading_release(struct ps_pull_reading *reading);

#endif
