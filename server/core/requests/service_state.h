/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the service share: its state, and who guards what.
 *
 * Threads:  the cut orders them. Pushes hold it shared for as long as they last, whatever changes
 *           the table or the phase holds it alone, and so does a snapshot: at that moment no push
 *           is half done, so what it sees is one instant.
 * Blocking: for locks.
 * Errors:   said at each function.
 * Memory:   the service owns all of it.
 */
#ifndef PS_SERVER_CORE_SERVICE_STATE_H
#define PS_SERVER_CORE_SERVICE_STATE_H

#include "base/bounds.h"
#include "base/thread.h"
#include "server/core/clocks/clocks.h"
#include "server/core/rendezvous/rendezvous.h"
#include "server/core/requests/core_metrics.h"
#include "server/core/requests/meetings.h"
#include "server/core/requests/program_calls.h"
#include "server/core/requests/service.h"
#include "server/core/requests/staging.h"
#include "server/core/requests/tickets.h"
#include "server/core/sessions/sessions.h"
#include "server/core/update/parameter_table.h"
#include "server/core/values/journal_queue.h"
#include "server/core/values/version_holds.h"

#include <stdatomic.h>

enum ps_phase { PS_PHASE_STARTING, PS_PHASE_UNINITIALIZED, PS_PHASE_RECOVERING, PS_PHASE_READY };

/* A handler of this process. */
struct ps_service_program {
    uint32_t app;
    struct ps_program_handler handler;
};

struct ps_service {
    const struct ps_allocator *memory;          /* borrowed; outlives this */
    const struct ps_block_source *block_source; /* borrowed; outlives all blocks; may be NULL */
    struct ps_touch_ahead *touch_ahead;         /* borrowed; outlives all tables; may be NULL */
    struct ps_device_store *device_store;       /* borrowed; outlives this; may be NULL */
    struct ps_crew crew;                        /* for large updates; its run may be NULL */
    const struct ps_clock *clock;               /* borrowed; outlives this */
    const struct ps_log *log;                   /* borrowed; may be NULL */
    struct ps_core_metrics metrics;
    uint64_t bytes_max;          /* UINT64_MAX: no limit */
    struct ps_row_room row_room; /* what tables take; counts for bytes_max, too */
    bool saves;
    uint64_t header_bytes;      /* of a checkpoint's header, besides the parameters */
    uint64_t journal_bytes_max; /* 0: by the shard's size */
    enum ps_ack ack;            /* what PS_ACK_DEFAULT means; never that itself */
    const char *device;         /* borrowed */
    const char *job;            /* borrowed */
    struct ps_random *random;   /* borrowed; may be NULL; used with the cut held alone */
    uint64_t started_ms;
    uint64_t launches_counted; /* of the device; whoever shows the metrics */
    uint64_t copies_counted;   /* the same of copies */
    uint64_t direct_counted;   /* of bytes */
    uint64_t in_place_counted; /* of bytes */
    uint64_t waits_counted;    /* and of waits */
    uint64_t evicted_counted;  /* of rows; the same */
    uint64_t expired_counted;
    struct ps_service_listener listener; /* set before calls arrive */

    struct ps_mutex fence_lock; /* PS_RANK_LEAF; guards these four */
    char fence_reason[160];     /* why the lease could not be kept; empty: it could, or why not */
    uint64_t aging_until_ms;    /* when rows cease to age, unless more is proved */
    uint64_t not_aged_ms;       /* for so long nothing was proved, since the first proof */

    struct ps_rwlock cut; /* PS_RANK_TABLE */

    /* Changed only with the cut held alone. */
    struct ps_parameter_table table;
    /* Of the table but for rows, and what InitParam calls in flight have reserved. */
    uint64_t bytes_used;
    uint64_t table_changes; /* parameters that came or went while READY; never set back */
    /* Of rounds and clocks also with the cut held shared. */
    _Atomic uint64_t
        position_at_begin; /* less the versions at that time, and what the journal has that made
                                   no version: see ps_service_check */
    struct ps_ticket finish_ticket; /* of the finish that began READY; 0 after a load */
    uint32_t index;
    uint32_t shard_count;
    uint64_t job_placement; /* as the store has it; 0: not known */
    uint64_t placement;     /* that the finish or the checkpoint said; 0: neither did */
    char named_uuid[37]; /* of the checkpoint that the store named when the state was recovered */
    uint64_t epoch;
    struct ps_history history; /* of the shard's files; not known until it is found or drawn */
    struct ps_chain chain;     /* of this life; delta pulls */
    char address[PS_ADDRESS_BYTES_MAX];

    /* Read from any thread without the cut. */
    _Atomic uint32_t phase; /* enum ps_phase; written with the cut held alone */
    _Atomic bool leaving;   /* announced, calls are still served */
    _Atomic bool draining;
    _Atomic bool broken;
    _Atomic uint64_t proved_until_ms;
    _Atomic int64_t proved_offset_ms; /* of the wall clock, when it was proved */
    _Atomic uint64_t shard_bytes;     /* values and states of the table */
    _Atomic uint64_t push_count;
    _Atomic uint64_t pull_count;
    _Atomic uint64_t lost_count;
    _Atomic uint64_t awaited; /* topics of names that some pull may wait for (pull_wait.h) */

    struct ps_tickets tickets;
    struct ps_clocks clocks;         /* by which reads of workers are timed; its own lock */
    struct ps_meetings meetings;     /* live on whatever becomes of the shard */
    struct ps_rendezvous rendezvous; /* lost with the shard; its own lock */
    struct ps_mailbox mailbox;       /* lost with the shard; its own lock */
    /* Handlers of this process; written before calls arrive. */
    struct ps_service_program programs[PS_PROGRAM_HANDLERS_MAX];
    uint32_t program_count;
    struct ps_sessions sessions;   /* requests are under way only with the cut held */
    struct ps_journal_queue queue; /* positions are given out only with the cut held shared */
    struct ps_staging staging;
    struct ps_version_holds version_holds;
};

/* May a call be answered now? Looks at the clock.
 *
 * PS_ERR_UNAVAILABLE  draining, starting or fenced; the text says which
 */
PS_MUST_USE enum ps_status ps_service_admit(const struct ps_service *service,
                                            struct ps_error *error);

/* The same for a request that is meant for a given server: 1 + its index, 0 when it does not say.
 * With the cut held.
 *
 * PS_ERR_NOT_OWNER    we own another shard; nothing changed
 */
PS_MUST_USE enum ps_status ps_service_admit_for(const struct ps_service *service, uint32_t shard,
                                                struct ps_error *error);

/* Is the shard ours at this moment? The same but for draining: what was applied may still be
 * acknowledged then. PS_ERR_UNAVAILABLE. */
PS_MUST_USE enum ps_status ps_service_owns(const struct ps_service *service,
                                           struct ps_error *error);

/* Would this gradient fit the parameter?
 *
 * PS_ERR_BAD_INPUT    type or length differ, in the words of the contract; an encoding that the
 *                     parameter's type does not allow
 */
PS_MUST_USE enum ps_status ps_service_check_gradient(const struct ps_parameter_spec *spec,
                                                     enum ps_dtype dtype, enum ps_encoding encoding,
                                                     uint64_t bytes, struct ps_error *error);

/* Are rows that are pushed as wide as the table's? The length alone does not tell: eight rows of
 * one float32 are as long as four of four. `row_width` is what the sender says, 0 where it says
 * nothing, as clients of before the field do. What is no table is judged by
 * ps_service_check_gradient.
 *
 * PS_ERR_BAD_INPUT    of another width; the text has both and what to do
 */
PS_MUST_USE enum ps_status ps_service_check_row_width(const struct ps_parameter_spec *spec,
                                                      uint32_t row_width, struct ps_error *error);

/* Are hashed keys of a table this shard's? Of `count` keys, 8 bytes each, with which `keys` begins,
 * some are looked at, spread evenly: of a client that counts other shards than there are, most keys
 * are another shard's, and its rows would be written and read where nobody else looks for them.
 *
 * PS_ERR_OUT_OF_RANGE   one is another shard's; the text names it, and both shards
 */
PS_MUST_USE enum ps_status ps_service_check_keys(const struct ps_parameter_spec *spec,
                                                 struct ps_view keys, size_t count,
                                                 struct ps_error *error);

/* May a gradient of this parameter come in ranges, if `range` is one? PS_ERR_BAD_INPUT: the
 * parameter is a table. */
PS_MUST_USE enum ps_status ps_service_check_push_range(const struct ps_parameter_spec *spec,
                                                       struct ps_elements range,
                                                       struct ps_error *error);

/* Is the request one that its parameter can answer: rows by keys of a table, elements of any
 * other?
 *
 * PS_ERR_BAD_INPUT     keys of what is no table, bytes that are not keys, a range, an encoding
 * PS_ERR_OUT_OF_RANGE  more than one message takes
 */
PS_MUST_USE enum ps_status ps_service_check_pull(const struct ps_parameter_spec *spec,
                                                 const struct ps_pull_request *request,
                                                 struct ps_error *error);

/* Can this server promise what the client asks for? PS_ERR_UNSUPPORTED: no; the text says what it
 * can. */
PS_MUST_USE enum ps_status ps_service_check_acknowledgement(const struct ps_service *service,
                                                            enum ps_ack ack,
                                                            struct ps_error *error);

/* Is this a name that a parameter may have?
 *
 * PS_ERR_BAD_INPUT    empty, too long, no UTF-8, or reserved
 */
PS_MUST_USE enum ps_status ps_service_check_name(struct ps_bytes name, struct ps_error *error);

/* Is there nothing in the request of a table but what a table has? PS_ERR_BAD_INPUT. */
PS_MUST_USE enum ps_status ps_service_check_table(const struct ps_init_request *request,
                                                  uint32_t width, struct ps_error *error);

/* Could the name and the type be so? PS_ERR_BAD_INPUT, with a text for each. */
PS_MUST_USE enum ps_status ps_service_check_head(const struct ps_init_request *request,
                                                 struct ps_error *error);

/* Could the name, the type, the content and the shape of a whole parameter be so? `*count` becomes
 * how many elements it has. PS_ERR_BAD_INPUT, with a text for each. */
PS_MUST_USE enum ps_status ps_service_check_init(const struct ps_init_request *request,
                                                 uint64_t *count, struct ps_error *error);

/* How much of a name from outside "%.*s" may print. */
int ps_service_name_width(struct ps_bytes name);

/* Nothing is proved yet. */
void ps_service_begin_fence(struct ps_service *service);

/* The time in which rows age (row_ages.h), any thread. It stands still while nothing is proved:
 * nobody could push meanwhile, however long that is. A server that was stopped for a night so finds
 * its rows as old as they were in the evening, as one that was started again does. */
uint64_t ps_service_row_time(const struct ps_service *service);

/* The time in microseconds since 1970, in which sessions are counted. */
uint64_t ps_service_unix_us(const struct ps_service *service);

enum ps_phase ps_service_phase(const struct ps_service *service);

/* What counts for --memory-bytes at this moment. With the cut held. */
uint64_t ps_service_bytes_counted(const struct ps_service *service);

/* Content of one message, at most: gRPC counts its bytes in 32 bits, and some clients in 31. What
 * would be more is refused before memory is asked for it. */
#define PS_REPLY_BYTES_MAX (((size_t)2 << 30) - ((size_t)1 << 20))

/* Makes `*pull` a range of `values`, in that encoding; what it keeps of them it takes a reference
 * to. False: it cannot be had, without memory or in that encoding, and `*pull` is left alone. */
bool ps_pull_made(struct ps_blocks *values, uint64_t version, struct ps_elements range,
                  enum ps_encoding encoding, struct ps_pull *pull);

/* Tell the listener, without any lock held. */
void ps_service_tell_changed(const struct ps_service *service, uint64_t topics);
void ps_service_tell_checkpoint_wanted(const struct ps_service *service);
void ps_service_tell_journal_wanted(const struct ps_service *service);

/* Are the pushes up to `position` of this generation in the journal on disk?
 *
 * PS_OK               they are, or the journal has failed, or there is none
 * PS_ERR_NOT_READY    not yet
 * PS_ERR_UNAVAILABLE  that generation is over
 */
PS_MUST_USE enum ps_status ps_service_journal_covers(struct ps_service *service,
                                                     uint64_t generation, uint64_t position,
                                                     struct ps_error *error);

/* The journal was written or a checkpoint saved: wants a checkpoint when there is too much behind
 * the last. Without any lock held. */
void ps_service_watch_journal(struct ps_service *service);

/* A life of the shard begins, with the cut held alone: what versions meant before is over. */
void ps_service_begin_chain(struct ps_service *service);

/* ps_service_history with the cut held alone. */
struct ps_history ps_service_draw_history(struct ps_service *service);

/* A number that tells one life of what nobody saves (rendezvous, mailbox) from the next. */
uint32_t ps_service_new_life(const struct ps_service *service);

/* Sets the gauge of what is durable. */
void ps_service_count_durable(struct ps_service *service);

/* Sets the gauges of what is staged and held. */
void ps_service_count_ranges(struct ps_service *service);

/* Sets the gauges of the table; with the cut held. */
void ps_service_count_table(struct ps_service *service);

/* Sets the gauges of clocks; with their lock, or with the cut held alone. */
void ps_service_count_clocks(struct ps_service *service);

/* Sets the gauge of the clients that are remembered, and counts those forgotten since. */
void ps_service_count_clients(struct ps_service *service);

#endif
