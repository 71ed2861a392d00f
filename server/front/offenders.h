/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that had a connection ended for what it did, and how far they are trusted after that.
 *
 * Threads:  none of its own; the lock of the door's list.
 * Blocking: never.
 * Errors:   none.
 * Memory:   fixed. With more hosts than places the oldest is forgotten, which then has to be turned
 *           away once more.
 */
#ifndef PS_SERVER_FRONT_OFFENDERS_H
#define PS_SERVER_FRONT_OFFENDERS_H

#include "base/token_bucket.h"
#include "server/front/peer_host.h"

enum {
    PS_OFFENDERS_MAX = 64,
    PS_OFFENDERS_MS = 60 * 1000, /* for which a host is remembered after its last offence */
    /* So many connections of a host may be ended at once, then so many a minute: a connection that
     * makes as many calls as it may costs some 20 ms of a processor. */
    PS_OFFENCES_AT_ONCE = 8,
    PS_OFFENCES_A_MINUTE = 240
};

/* How a newcomer of a host is met. */
enum ps_trust {
    PS_TRUST_FULL,
    PS_TRUST_LITTLE, /* it has few calls to reset at once */
    PS_TRUST_NONE    /* it is not let in for the moment */
};

struct ps_offender {
    struct ps_peer_host host;
    uint64_t until_ms; /* 0: an empty place */
    struct ps_bucket offences;
};

/* Zeroed: nobody. */
struct ps_offenders {
    struct ps_offender places[PS_OFFENDERS_MAX];
    uint32_t next; /* place to be given away */
};

/* A connection of `host` was ended. */
void ps_offenders_note(struct ps_offenders *offenders, const struct ps_peer_host *host,
                       uint64_t now_ms);

enum ps_trust ps_offenders_trust(struct ps_offenders *offenders, const struct ps_peer_host *host,
                                 uint64_t now_ms);

#endif
