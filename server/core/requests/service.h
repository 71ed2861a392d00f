/* SPDX-License-Identifier: Apache-2.0 */
/* One shard of the parameter server: its parameters, its state machine, its four calls. Bytes and
 * networks are elsewhere; requests come in as structs and results go out.
 *
 *   STARTING ──begin_empty──► UNINITIALIZED ──finish──► READY ◄──┐
 *      │  ▲                                              │ ▲     │ lease proved again
 *      │  └────────────reset (ownership was lost)────────┤ │     │
 *      │                                                 └─┼──► FENCED (the lease ran out)
 *      └──recovery_fill──► RECOVERING ──recovery_finish────┘
 *   RECOVERING ──give_up_recovery──► STARTING
 *   any ──drain──► DRAINING
 *
 * FENCED is not a state that anybody sets: it is what READY and UNINITIALIZED become by themselves
 * when the clock passes the moment until which the lease is proved (promise P4).
 *
 * Threads:  every function is safe from any thread unless it says otherwise.
 * Blocking: never, but for locks held as long as one update takes. A call that must wait (a pull
 *           before initialisation is finished, a finish whose checkpoint is not on disk yet)
 *           returns PS_ERR_NOT_READY or a ticket; the caller parks it and asks again when the
 *           listener is told.
 * Errors:   texts are part of the contract (DESIGN section 5); each function lists its own.
 * Memory:   the service owns all parameters. Requests are borrowed for the call. What a pull
 *           returns holds references that must be released.
 */
#ifndef PS_SERVER_CORE_SERVICE_H
#define PS_SERVER_CORE_SERVICE_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/status.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/journal.h"
#include "proto/admin_messages.h"
#include "proto/messages.h"
#include "server/core/requests/topics.h"
#include "server/core/update/device_store.h"
#include "server/core/values/crew.h"

struct ps_service;

/* Told when something happened that parked calls or the checkpointer wait for. Called without any
 * lock held, from the thread that caused it; must not block and must not call back. */
struct ps_service_listener {
    /* Ask the parked calls that wait for these topics (a mask, topics.h) again. */
    void (*changed)(void *self, uint64_t topics);
    void (*checkpoint_wanted)(void *self); /* a ticket was given out */
    void (*journal_wanted)(void *self);    /* records are queued; may be NULL without a journal */
    void (*drain_wanted)(void *self);      /* an operator asks; may be NULL: nobody can ask */
    void *self;
};

struct ps_service_options {
    const struct ps_allocator *memory; /* borrowed; outlives the service */
    /* Borrowed; outlives the service and what its pulls hold. Where the blocks of parameters come
     * from; NULL: from `memory`. */
    const struct ps_block_source *block_source;
    /* Borrowed; outlives the service and its snapshots. Has memory touched that tables are about to
     * grow into; NULL: pushes touch it. */
    struct ps_touch_ahead *touch_ahead;
    /* Borrowed; outlives the service. Where parameters live that it supports and has room for;
     * NULL: all live on the host. */
    struct ps_device_store *device_store;
    const struct ps_clock *clock; /* borrowed; outlives the service */
    const struct ps_log *log;     /* borrowed; may be NULL */
    struct ps_metrics *metrics;   /* borrowed; may be NULL */
    uint64_t bytes_max;           /* of all values and states; 0: no limit. Beyond: PS_ERR_BUSY */
    bool saves;                   /* checkpoints are written: finish waits for the first */
    bool journals;                /* every push is queued for the journal; only with `saves` */
    enum ps_ack ack;              /* what ACK_DEFAULT means: MEMORY, or LOGGED with a journal */
    uint64_t journal_queue_bytes; /* most content that waits for the disk; 0: 64 MiB */
    /* Most of the journal's files that is kept, besides what is written while a checkpoint is: when
     * half of it was written behind the last, another is wanted. 0: twice the values and states, at
     * least 1 GiB. */
    uint64_t checkpoint_journal_bytes;
    uint64_t staging_bytes; /* most that waits in ranges for the rest of it; 0: 1 GiB (staging.h) */
    /* Of values between processes (../rendezvous/), each 0 for its default: bytes of all, 1 GiB; of
     * one step, as many; steps, 4096; keys and receives of one, 65,536; the silence after which a
     * step ends, 10 minutes. */
    uint64_t rendezvous_bytes, rendezvous_step_bytes;
    uint32_t rendezvous_steps, rendezvous_keys;
    uint64_t rendezvous_idle_ms;
    /* Of programs (../programs/), each 0 for its default: bytes of requests and answers, 1 GiB;
     * requests of one app that are not answered, 65,536. */
    uint64_t program_bytes;
    uint32_t program_requests;
    uint32_t clients_max;    /* that are remembered; 0: 16384 */
    uint64_t client_idle_ms; /* forgotten after a shorter silence: counted as early; 0: one hour */
    const char *device;      /* for status: "cpu"; borrowed */
    const char *job;         /* for status and checkpoints; "" for none; borrowed */
    /* Borrowed; outlives the service. Where the uuids of checkpoints come from in a simulation that
     * must repeat; NULL: from the system. */
    struct ps_random *random;
};

PS_MUST_USE enum ps_status ps_service_create(const struct ps_service_options *options,
                                             struct ps_service **service, struct ps_error *error);
void ps_service_destroy(struct ps_service *service);

/* To be set before calls arrive; one listener each is enough, so the second replaces the first.
 * `rpc` hears `changed`, `checkpointer` hears `checkpoint_wanted`. Copied. */
void ps_service_listen(struct ps_service *service, const struct ps_service_listener *listener);

/* For whoever has threads to lend to large updates, which are spread over them with the bits of one
 * thread: set before calls arrive, and taken back (NULL) when none can be in flight. Copied. Its
 * run must be safe from any thread, and its threads must have entered as below. */
void ps_service_set_crew(struct ps_service *service, const struct ps_crew *crew);

/* Call at the start of every thread that calls push: sets the floating-point mode. */
void ps_service_enter_thread(void);

/* ---- Life: called by the coordinator's driver ---- */

/* Which shard this is and under which fencing token. Before begin_*. `address` is that of the
 * process, for status: the first that is not empty stays. Copied. */
void ps_service_own(struct ps_service *service, uint32_t index, uint32_t shard_count,
                    uint64_t epoch, const char *address);

/* What the job's key says of the placement; 0: nothing. A checkpoint that says another is not
 * loaded. Behind own, before begin_*. */
void ps_service_expect_placement(struct ps_service *service, uint64_t placement);

/* The history of the shard's files (checkpoint/history.h): what recovery found, otherwise one that
 * is drawn at the first call. It holds until the shard is lost. */
struct ps_history ps_service_history(struct ps_service *service);

/* Recovery found it; one that is not known leaves the drawing to whoever asks first. */
void ps_service_keep_history(struct ps_service *service, const struct ps_history *history);

/* There is no state to load: wait for InitParam. */
void ps_service_begin_empty(struct ps_service *service);

/* Replay came to nothing, or the journal of this epoch cannot be opened: RECOVERING becomes
 * STARTING again, as empty as before the load. */
void ps_service_give_up_recovery(struct ps_service *service);

/* Ownership is proved until `until_ms` on the service's clock (PS_DEADLINE_NEVER without a store).
 * From then on every call is refused and nothing more is acknowledged; so also when the wall clock
 * has jumped against the service's by more than PS_CLOCK_JUMP_MS meanwhile: the machine may have
 * been paused as a whole, which its own clock does not count. */
void ps_service_prove(struct ps_service *service, uint64_t until_ms);

/* Why the lease could not be kept when that was tried last (NULL: it could): told to who is refused
 * because it has run out. */
void ps_service_note_unkept(struct ps_service *service, const struct ps_error *why);

/* Is it proved at this moment? */
bool ps_service_is_proved(const struct ps_service *service);

/* Ownership was lost for good: drops every parameter, back to STARTING. Pulls in flight keep what
 * they hold. */
void ps_service_reset(struct ps_service *service);

/* From now on the service says that it does not serve, and serves on: probes and load balancers are
 * to send nobody here any more before calls are refused. Any thread. */
void ps_service_announce_stop(struct ps_service *service);

/* An operator asks the server under `epoch` to end as after SIGTERM: tells the listener.
 *
 * PS_ERR_BAD_INPUT    epoch 0: nobody asks for whichever server there is
 * PS_ERR_STALE_EPOCH  this server is another one (STARTING ones have no epoch)
 * PS_ERR_UNSUPPORTED  nobody listens for it
 */
PS_MUST_USE enum ps_status ps_service_want_drain(struct ps_service *service, uint64_t epoch,
                                                 struct ps_error *error);

/* Refuses every new call with PS_ERR_UNAVAILABLE "shutting down"; snapshots still work. */
void ps_service_drain(struct ps_service *service);

/* What is in memory is lost: from now on nothing is acknowledged and every call is refused, for the
 * rest of the service's life. Never blocks; any thread, with any lock. */
void ps_service_break(struct ps_service *service);

/* "broken", "starting", "recovering", "uninitialized", "ready", "fenced", "draining". Static. */
const char *ps_service_state_name(const struct ps_service *service);

/* May clients be sent here? Its shard is loaded, the lease proved, and it is not going away: the
 * one answer of gRPC's health service and of /readyz. One that waits for its first InitParam may
 * be visited, since whoever is to initialise it has to reach it. */
bool ps_service_is_serving(const struct ps_service *service);

/* ---- The four calls ---- */

/* On PS_OK `*reply` has the epoch under which the parameter was taken; `reply` may be NULL.
 *
 * PS_ERR_EXISTS       "pserver already initialized"
 * PS_ERR_BAD_INPUT    name, type, length, content or config; the text says which. Nothing changed
 * PS_ERR_BUSY         bytes_max would be passed; the text has the numbers
 * PS_ERR_STALE_SESSION  as for a push
 * PS_ERR_UNAVAILABLE  starting, recovering, fenced or draining
 * PS_ERR_NOT_OWNER    the request is meant for another server (as for all four calls: it says for
 *                     which, and the service owns another shard). Nothing changed
 *
 * A request id that was applied before is PS_OK and changes nothing, also once initialisation is
 * over. A range of a parameter is staged as one of a push is: reply->staged.
 */
PS_MUST_USE enum ps_status ps_service_init(struct ps_service *service,
                                           const struct ps_init_request *request,
                                           struct ps_init_reply *reply, struct ps_error *error);

/* Something to wait for; 0 is satisfied at once. */
struct ps_ticket {
    uint64_t number;
};

/* The reply, whatever its status, is to be sent when `*ticket` is satisfied: then the first
 * checkpoint is durable.
 *
 * PS_ERR_EXISTS       "pserver already initialized"
 * PS_ERR_STALE_EPOCH  it is not, and the request's epoch is neither 0 nor ours: whatever was taken
 *                     under that one is lost. Nothing changed; *ticket is 0
 * PS_ERR_UNAVAILABLE  starting, fenced or draining; *ticket is 0
 * and for its request id what ps_service_init says.
 *
 * request             borrowed; NULL: without a request id
 */
PS_MUST_USE enum ps_status ps_service_finish(struct ps_service *service,
                                             const struct ps_finish_request *request,
                                             struct ps_ticket *ticket, struct ps_error *error);

/* PS_ERR_NOT_READY    "pserver not fully initialized"
 * PS_ERR_NOT_FOUND    "parameter: NAME does not exist"
 * PS_ERR_BAD_INPUT    type or length differ (texts of the reference), a non-finite element
 * PS_ERR_OUT_OF_RANGE add with overflow=fail would overflow; nothing changed
 * PS_ERR_UNSUPPORTED  an acknowledgement level that this server does not offer
 * PS_ERR_UNAVAILABLE  starting, fenced or draining, or the journal has failed. When the lease ran
 *                     out during the update it may have been applied, but it will not survive
 * PS_ERR_BUSY         the journal's queue is full, or the same request is being applied at this
 *                     moment; nothing changed
 * PS_ERR_STALE_SESSION  the request's session is over, or its sequence is older than what is
 *                     remembered: nobody can tell whether it was applied. error->session is one
 *                     that the client may begin
 * PS_ERR_ID_REUSED    another request was applied under this id; nothing changed
 *
 * A range of a gradient is staged until the others of the same request id are there; then all of
 * them are this push. Until then: PS_OK and reply->staged, for which ps_service_acknowledge waits
 * for nothing. What can be wrong with it beyond the above: staging.h.
 *
 * A request id that was applied before is answered with the first version and duplicate = true.
 * On PS_OK the reply may only be sent when ps_service_acknowledge says so for `*wait` (which may be
 * NULL in tests that wait for nothing).
 */
struct ps_push_wait {
    uint64_t position;        /* to become durable first; 0: nothing */
    uint64_t lagging;         /* to be written first, or the journal to catch up; 0: nothing */
    uint64_t generation;      /* of the shard in this process */
    struct ps_device_due due; /* of the device, to be done first */
};
PS_MUST_USE enum ps_status ps_service_push(struct ps_service *service,
                                           const struct ps_push_request *request,
                                           struct ps_push_reply *reply, struct ps_push_wait *wait,
                                           struct ps_error *error);

/* The same for a range of a gradient whose caller wants the values that come of it. Where the range
 * was applied ahead of the rest (update.h), `*made` has them: its content is theirs, its version
 * the one that they will be part of. They are not a version's yet: they hold if the push gets that
 * version in the end. Otherwise `*made`, which was zeroed but for reply.encoding, that they are
 * wanted in, is left alone. NULL: not wanted. */
struct ps_pull;
PS_MUST_USE enum ps_status ps_service_push_range(struct ps_service *service,
                                                 const struct ps_push_request *request,
                                                 struct ps_push_reply *reply,
                                                 struct ps_push_wait *wait, struct ps_pull *made,
                                                 struct ps_error *error);

/* One wait for both: `*all` becomes what `one` needs as well, if both are of the same
 * generation. */
void ps_push_wait_join(struct ps_push_wait *all, const struct ps_push_wait *one);

/* Pushes or pulls of these names come next, PS_EXPECTED_NAMES_MAX at most: what they read first is
 * fetched for all of them at once. Changes nothing. */
void ps_service_expect(struct ps_service *service, const struct ps_bytes *names, size_t count);

/* Gives back what clients have begun and left, and lets rows go that are old: to be called from
 * time to time. Each call is bounded in its work; true: there is more, come again at once. */
bool ps_service_sweep(struct ps_service *service);

/* Bytes of the gradient that this push would apply now: of a range that completes its push, those
 * of all ranges; of another range 0. A guess, for who decides where it is done. */
uint64_t ps_service_push_work(struct ps_service *service, const struct ps_push_request *request);

/* Bytes that a request makes the server read and write beyond those that it brings or that go out
 * as they lie: an encoding that is made of values, a gradient that names few elements under a rule
 * that touches all. 0 in most cases, and then cheap; asked before anything is done. `*reply_bytes`:
 * the content of the pull's reply, where it has to be made first; else 0. */
uint64_t ps_service_extra_push_work(struct ps_service *service,
                                    const struct ps_push_request *request);
uint64_t ps_service_extra_pull_work(struct ps_service *service,
                                    const struct ps_pull_request *request, uint64_t *reply_bytes);

/* Bytes of an update that this pull would have to wait for: 0 when none is under way. As good a
 * guess. */
uint64_t ps_service_pull_work(struct ps_service *service, const struct ps_pull_request *request);

/* May the reply to a push be sent now? Asked after the push, and again whenever the listener was
 * told `changed`. The first time it waits for the device, if there is one: as long as an update
 * takes.
 *
 * PS_OK               yes; reply->durable_position is brought up to date
 * PS_ERR_NOT_READY    not yet: park
 * PS_ERR_UNAVAILABLE  never: the journal or the device failed, the lease ran out or the shard was
 *                     lost. The client repeats the request, here or at the next owner, and is told
 *                     then
 */
PS_MUST_USE enum ps_status ps_service_acknowledge(struct ps_service *service,
                                                  const struct ps_push_wait *wait,
                                                  struct ps_push_reply *reply,
                                                  struct ps_error *error);

/* One consistent version of one parameter. The reply's view and name stay valid, whatever happens
 * to the parameter, until ps_pull_release. */
struct ps_pull {
    struct ps_pull_reply reply;
    void *held;           /* private: what keeps the view alive */
    void *encoded;        /* the same, when the reply is in another encoding than the values */
    void *spec;           /* the same of the name alone: the values are in the caller's room */
    struct ps_bytes *cut; /* private: of a range */
};

/* A delta pull (request->held) is answered as delta_pull.h says: with the blocks that have changed
 * since the version held, all of them when that is of another life of the shard. While some did
 * not fit into one answer, the version stays readable for a while, as with ranges.
 *
 * A range is of the present version, which then stays readable for a while, or of the one that the
 * request names (version_holds.h).
 *
 * PS_ERR_CONFLICT     that version is gone: begin again
 * PS_ERR_BUSY         of a delta pull: not one block fits into bytes_max
 * PS_ERR_OUT_OF_RANGE the parameter takes more than one message: ask for ranges
 * PS_ERR_BAD_INPUT    a range beyond the parameter's end
 * PS_ERR_NOT_READY    not initialised yet, or the version that is waited for (at_least_version) is
 *                     still to come: park and ask again
 * PS_ERR_NOT_FOUND    "parameter: NAME does not exist"
 * PS_ERR_UNAVAILABLE  starting, fenced or draining
 * and for a request that names an encoding what ps_encoded_values_create says.
 */
PS_MUST_USE enum ps_status ps_service_pull(struct ps_service *service,
                                           const struct ps_pull_request *request,
                                           struct ps_pull *pull, struct ps_error *error);

/* For what a pull waits that was told PS_ERR_NOT_READY. */
struct ps_pull_wait {
    uint32_t topic;    /* another client has to bring something; PS_TOPIC_LIFE: the shard is not
                          initialised */
    uint64_t again_ms; /* to be asked by then, too; 0: only when the topic has changed */
    /* Of a pull that is timed by clocks, whatever it was told; not for callers. */
    bool evicted;      /* somebody is not waited for any more: others are to be asked */
    bool announced;    /* the worker has said what it reads: the same */
    bool wakes_writer; /* of the journal, which has that */
};

/* The same for a caller that can wait: `*wait` is written with PS_ERR_NOT_READY, whose text says
 * what is missing. */
PS_MUST_USE enum ps_status ps_service_pull_or_wait(struct ps_service *service,
                                                   const struct ps_pull_request *request,
                                                   struct ps_pull *pull, struct ps_pull_wait *wait,
                                                   struct ps_error *error);

/* Any thread, any time, also after the service is gone. Accepts a zeroed struct. */
void ps_pull_release(struct ps_pull *pull);

/* ---- Operators' calls ---- */

/* Texts in the reply live as long as the service; the uuid is copied into `uuid`. */
void ps_service_status(struct ps_service *service, struct ps_status_reply *reply, char uuid[37]);

/* By which number the parameters of this shard have come here (docs/placement.md); 0 while the
 * shard is not initialised. */
uint64_t ps_service_placement(struct ps_service *service);

/* Rows sorted by name; on PS_OK release with ps_service_list_release. */
PS_MUST_USE enum ps_status ps_service_list(struct ps_service *service,
                                           const struct ps_list_request *request,
                                           struct ps_list_reply *reply, struct ps_error *error);
void ps_service_list_release(struct ps_service *service, struct ps_list_reply *reply);

/* `pushes` were acknowledged once and are not in the state: adds them to what metrics and status
 * show of this process, and logs it as an error. 0 changes nothing. */
void ps_service_note_lost(struct ps_service *service, uint64_t pushes);

/* Brings what is counted elsewhere up to date in the metrics; before they are shown, by one thread.
 */
void ps_service_count(struct ps_service *service);

/* ---- Checkpoints ---- */

/* Would a checkpoint be written if somebody wanted one now? The failures of the next. */
PS_MUST_USE enum ps_status ps_service_can_save(struct ps_service *service, struct ps_error *error);

/* Wants a checkpoint of the state as it is now or later. PS_ERR_UNSUPPORTED when this server saves
 * none, PS_ERR_NOT_READY before initialisation is finished. */
PS_MUST_USE enum ps_status ps_service_want_checkpoint(struct ps_service *service,
                                                      struct ps_ticket *ticket,
                                                      struct ps_error *error);

/* True when the checkpoint that was saved last, `*place`, has the state as it is now, under the
 * same epoch: neither a push nor anything else that a checkpoint holds came since. `*ticket` is the
 * newest that it covers. Both may be NULL. */
bool ps_service_has_nothing_new(struct ps_service *service, struct ps_ticket *ticket,
                                struct ps_checkpoint_place *place);

/* True while the journal has grown beyond checkpoint_journal_bytes: a save is to hurry. */
bool ps_service_journal_presses(struct ps_service *service);

/* True when a checkpoint that covers the ticket has been saved. */
bool ps_service_satisfied(const struct ps_service *service, struct ps_ticket ticket);

/* True when the state that the ticket was given for is gone (ps_service_reset): it will never be
 * satisfied, and who waits for it is to be told PS_ERR_UNAVAILABLE. */
bool ps_service_abandoned(const struct ps_service *service, struct ps_ticket ticket);

/* Whoever waits, and does not want to wait for a better day, is told why the last attempt at the
 * ticket failed: true, and `*why`. False while there was none, and after one that succeeded. */
bool ps_service_save_failed(struct ps_service *service, struct ps_ticket ticket,
                            struct ps_error *why);

/* May the reply that waits for the ticket be sent now? Asked again whenever the listener was told
 * `changed`.
 *
 * PS_OK               yes: the checkpoint is durable
 * PS_ERR_NOT_READY    not yet: park
 * PS_ERR_UNAVAILABLE  never: the state that the ticket was given for is gone
 */
PS_MUST_USE enum ps_status ps_service_await_checkpoint(struct ps_service *service,
                                                       struct ps_ticket ticket,
                                                       struct ps_error *error);

/* The same for the reply to a finish, which is not kept waiting by an attempt that failed:
 * PS_ERR_UNAVAILABLE then says why, while the server goes on trying. */
PS_MUST_USE enum ps_status ps_service_await_finish(struct ps_service *service,
                                                   struct ps_ticket ticket, struct ps_error *error);

/* The newest ticket: a save that begins now is to satisfy it. */
struct ps_ticket ps_service_newest_ticket(struct ps_service *service);

/* A save that was to satisfy tickets up to `ticket` came to nothing: tells the listener. */
void ps_service_not_saved(struct ps_service *service, struct ps_ticket ticket,
                          const struct ps_error *why);

/* A snapshot is durable and published: satisfies its tickets, tells the listener. */
void ps_service_saved(struct ps_service *service, struct ps_ticket ticket,
                      const struct ps_checkpoint_place *place);

/* Where the newest saved checkpoint is. False when there is none yet. */
bool ps_service_last_saved(struct ps_service *service, struct ps_checkpoint_place *place);

/* Recovery found this checkpoint named in the store ("": none), which may be another than the one
 * that was loaded: the store goes on naming it until this owner has published one. */
void ps_service_note_named(struct ps_service *service, const char uuid[37]);
void ps_service_named(struct ps_service *service, char uuid[37]);

/* ---- The journal: between pushes and the one thread (or simulator) that writes it ---- */

/* Takes the next queued records, in order; they stay queued, and their content in place, until
 * ps_service_journal_written. More may be taken before that. One taker at a time. 0: nothing is
 * queued. */
size_t ps_service_journal_take(struct ps_service *service, struct ps_record *records,
                               size_t record_count_max);

/* What became of records that were taken. PS_OK: those up to `position` are durable, replies may
 * go; there is at least one. Otherwise the journal has failed: nothing more is acknowledged and
 * pushes are refused, until the records, which all wait again and are taken first, were written
 * after all; `position` says nothing then. */
void ps_service_journal_written(struct ps_service *service, uint64_t position,
                                enum ps_status status, const struct ps_error *why);

/* Has it failed, and is what failed still to be written? */
bool ps_service_journal_failed(struct ps_service *service);

/* How far the journal of this epoch is durable, for a note beside it (note_writer.h). False while
 * there is nothing to note: no journal, or no checkpoint yet that recovery could begin with. */
bool ps_service_journal_note(struct ps_service *service, struct ps_journal_note *note);

/* True when pushes are kept in a journal: what it writes must be what was applied. */
bool ps_service_journals(const struct ps_service *service);

/* The last position given out, and the last that is durable, in the journal or in a checkpoint; 0
 * before the first checkpoint is saved, since recovery could not begin. */
void ps_service_positions(struct ps_service *service, uint64_t *position, uint64_t *durable);

/* Asserts every invariant; tests and the simulator call it after every event. */
void ps_service_check(const struct ps_service *service);

#endif
