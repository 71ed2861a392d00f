/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers: where the members of a job wait for each other. A meeting is named; in each of its
 * rounds the members 0 to `of` - 1 arrive, and the last to arrive lets all of them go.
 *
 *   nobody ──first member──► GATHERING ──last member──► over: who waits or comes again is told
 *      ▲                        │
 *      └──every member left─────┘
 *
 * A member is there only while a call of it waits: one that gives up was never there, so that
 * nobody is let go beside a member that has died. What a server knows of meetings is in its memory
 * alone: after its end the members come again, to the server that took over.
 *
 * Threads:  every function is safe from any thread.
 * Blocking: never.
 * Errors:   each function lists its own; what is refused has changed nothing.
 * Memory:   bounded by PS_MEETINGS_MAX and PS_MEETING_MEMBERS_TOTAL; of meetings where nobody waits
 *           the one that was left first is forgotten first.
 */
#ifndef PS_SERVER_CORE_MEETINGS_H
#define PS_SERVER_CORE_MEETINGS_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/status.h"
#include "base/thread.h"

#include <stdbool.h>
#include <stdint.h>

#define PS_MEETINGS_MAX 1024
#define PS_MEETING_NAME_BYTES_MAX 255
#define PS_MEETING_MEMBERS_MAX 8192
#define PS_MEETING_MEMBERS_TOTAL (8 * PS_MEETING_MEMBERS_MAX) /* of all meetings: 1 MiB */

enum { PS_MEETING_CHAINS = 256 };

struct ps_meeting;

/* All meetings of a server. They have nothing to do with its parameters, and outlive the loss of
 * its shard: whoever waits is sent away then, and leaves. */
struct ps_meetings {
    const struct ps_allocator *memory;            /* borrowed; outlives this */
    struct ps_mutex lock;                         /* PS_RANK_QUEUE; guards all that follows */
    struct ps_meeting *chains[PS_MEETING_CHAINS]; /* by the hash of the name */
    struct ps_meeting *idle; /* where nobody waits, the first to be left first */
    uint32_t count;
    uint32_t members; /* of all meetings */
};

/* A member arrives. */
struct ps_arrival {
    struct ps_bytes name;
    uint64_t round;
    uint32_t member; /* below `of` */
    uint32_t of;
    uint64_t token; /* the same in every repeat of one call; 0: repeats are not told from others */
};

/* The place of one call in a meeting. Zeroed: it has none. */
struct ps_meeting_place {
    struct ps_meeting *meeting; /* borrowed; kept by the place */
    uint64_t gathering;         /* which one of this meeting */
    uint32_t member;
};

/* `memory` is borrowed and outlives the meetings; nothing is taken of it before the first
 * arrival. */
void ps_meetings_init(struct ps_meetings *meetings, const struct ps_allocator *memory);

/* No call has a place any more. */
void ps_meetings_fini(struct ps_meetings *meetings);

/* PS_OK             the member may go: the round is over, by this arrival or by one whose reply was
 *                   lost. `*all_are_there` says that it is by this one: others are to be told
 * PS_ERR_NOT_READY  it waits: end with ps_meetings_leave
 * PS_ERR_MISMATCH   the members who wait have said another round, or another number of members
 * PS_ERR_BAD_INPUT  name, member or number of members
 * PS_ERR_BUSY       there are as many meetings, or members, as there may be
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_meetings_arrive(struct ps_meetings *meetings,
                                              const struct ps_arrival *arrival,
                                              struct ps_meeting_place *place, bool *all_are_there,
                                              struct ps_error *error);

/* PS_OK when the gathering is over, PS_ERR_NOT_READY when members are missing; the text says how
 * many there are, and which are not (the first few). */
PS_MUST_USE enum ps_status ps_meetings_look(struct ps_meetings *meetings,
                                            const struct ps_meeting_place *place,
                                            struct ps_error *error);

/* Takes the place, which is zeroed. Of a gathering that is not over the member is not there any
 * more, unless another call of it waits. A zeroed place is allowed. */
void ps_meetings_leave(struct ps_meetings *meetings, struct ps_meeting_place *place);

/* Asserts every invariant. */
void ps_meetings_check(struct ps_meetings *meetings);

#endif
