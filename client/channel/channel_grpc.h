/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the gRPC channel: its state, its connections, its calls. Private to
 * channel_grpc*.c, the only files of the client that know gRPC.
 *
 * Threads:  as each struct says; `side->mutex` guards what more than one thread touches.
 * Blocking: never.
 * Errors:   none but for refused allocations.
 * Memory:   flights and connections belong to the side.
 */
#ifndef PS_CLIENT_CHANNEL_GRPC_H
#define PS_CLIENT_CHANNEL_GRPC_H

#include "base/bounds.h"
#include "base/thread.h"
#include "client/channel/channel.h"
#include "client/local/device_links.h"
#include "client/local/shared_link.h"
#include "proto/codec.h"

#include <grpc/grpc.h>

#include <stdatomic.h>

/* gRPC hands a tag from one thread to another. The thread sanitizer does not see into gRPC's
 * library, so it is told: give before gRPC gets the tag, take when it comes back. */
#ifdef __SANITIZE_THREAD__
void __tsan_release(void *address);
void __tsan_acquire(void *address);
#define PS_TAG_GIVE(tag) __tsan_release(tag)
#define PS_TAG_TAKE(tag) __tsan_acquire(tag)
#else
#define PS_TAG_GIVE(tag) ((void)(tag))
#define PS_TAG_TAKE(tag) ((void)(tag))
#endif

enum ps_tag_kind {
    PS_TAG_FLIGHT = 0x666c6967,
    PS_TAG_CONNECTION = 0x636f6e6e,
    PS_TAG_REASON = 0x72656173,
    PS_TAG_KICK = 0x6b69636b
};

/* Why a connection does not come up: a call that is made to learn it, and what came of it. */
struct ps_reason {
    enum ps_tag_kind kind; /* first */
    struct ps_connection *connection;
    grpc_call *call; /* owned; NULL: nobody asks */
    grpc_metadata_array metadata;
    grpc_status_code code;
    grpc_slice details;
    bool definite;  /* it is the certificates */
    char text[128]; /* "": not known */
};

struct ps_connection {
    enum ps_tag_kind kind; /* first: what a completion queue's tag points to */
    uint32_t shard;
    char address[PS_ADDRESS_BYTES_MAX];
    bool is_unix;   /* the address is unix:PATH */
    bool is_secure; /* TLS */
    bool has_token; /* and `authorization` goes with each call */
    grpc_slice authorization;
    struct ps_channel_stamps stamps, seen; /* the files it was made of; as last looked at */
    grpc_channel *channel;                 /* owned; NULL once retired */
    void *methods[PS_METHOD_COUNT];
    struct ps_flight *flights;       /* everything not yet taken */
    struct ps_connection *next;      /* in the list of all */
    bool detached;                   /* no longer the shard's: dies with its last flight */
    bool watching;                   /* a state watch is in flight; its tag is this struct */
    grpc_connectivity_state watched; /* the state whose end it waits for */
    struct ps_shared_link *shared;   /* owned; NULL: content goes in messages only */
    struct ps_device_links *devices; /* owned; NULL as above: nothing on a device is reached */
    struct ps_reason reason;         /* of a TLS connection that is down */
};

/* Content of one call in memory that the server shares: of its push, of its pull's reply, or of
 * both in one slot, since the server pushes before it pulls. */
struct ps_shared_way {
    struct ps_shared_slot slot; /* a part of its flight's run */
    size_t push_size;           /* 0: the push's content is in the message */
    size_t pull_size;           /* 0: no room for the pull's */
    size_t room_at;             /* of an asked call: where that room begins in the slot */
    struct ps_bytes pulled;     /* once the reply was read */
};

/* One call of a flight. */
struct ps_flight_part {
    struct ps_call_part part; /* the request is borrowed until the part was taken */
    size_t head_end;          /* in a bundle's head: the content of its push comes there */
    size_t keys_at;           /* the same of the keys of its pull */
    struct ps_shared_way shared;
};

enum ps_flight_state { PS_FLIGHT_WAITING, PS_FLIGHT_RUNNING, PS_FLIGHT_REFUSED };

struct ps_flight {
    enum ps_tag_kind kind; /* first */
    struct ps_grpc_side *side;
    struct ps_connection *connection; /* NULL: there was none */
    struct ps_flight *next, *prev;    /* in the connection */
    struct ps_flight *next_done;
    uint32_t shard;
    uint64_t deadline_ms;
    enum ps_flight_state state;
    enum ps_method method;        /* whose message this is */
    struct ps_flight_part *parts; /* owned, unless there is only `one` */
    struct ps_flight_part one;
    size_t part_count; /* 1 to PS_MESSAGE_CALLS_MAX */
    size_t parts_taken;
    bool is_bundle;  /* the message is one of several calls, though perhaps of one part */
    bool has_bundle; /* `bundle` was decoded, or could not be: then `status` says so */
    struct ps_bundle_reply bundle;
    struct ps_buffer head;        /* owned; the message without the content */
    struct ps_view content;       /* borrowed until `pins` is 0 */
    atomic_uint pins;             /* the batch, and gRPC's hold on the content */
    grpc_call *call;              /* owned while RUNNING; NULL once the batch ended */
    struct ps_shared_slot run;    /* shared memory for all contents; none: zeroed */
    struct ps_device_slot device; /* where its content is on a device; none: zeroed */
    bool is_stuck;                /* its content is there, and the server cannot be told */
    uint32_t asks;                /* for the server's local socket; ps_shared_link_asks */
    bool answered;                /* by the server itself */
    size_t as_one_bytes_max;      /* as an outcome says it */
    grpc_byte_buffer *message;
    grpc_metadata_array first_metadata, last_metadata;
    grpc_status_code code;
    grpc_slice details;
    grpc_byte_buffer *reply;
    enum ps_status status; /* what became of it, but for the reply's decoding */
    bool refused;
    uint64_t session; /* with PS_ERR_STALE_SESSION, as of an outcome */
    char text[PS_OUTCOME_TEXT_MAX];
    struct ps_bytes *pieces;   /* owned; of the reply */
    struct ps_decoded decoded; /* of the reply */
};

/* Who is in the completion queue. Never two: they would only wake each other. */
enum ps_poller { PS_POLLER_NOBODY, PS_POLLER_KEEPER, PS_POLLER_CALLER };

/* The role of the thread that polls, and how it is called back. */
struct ps_grpc_role {
    struct ps_mutex mutex;             /* guards the rest, but for `handling` and the thread */
    struct ps_condition changed;       /* for the caller who waits */
    struct ps_condition keeper_wanted; /* at the end */
    enum ps_poller poller;
    pthread_t thread;  /* of who polls */
    bool handling;     /* the poller's own: an event, outside of the queue */
    bool small;        /* the poller's own: the last flight that ended was one of few bytes */
    bool caller_waits; /* for what the keeper finds */
    bool called;       /* the next poll is to return at once */
    bool ending;
    struct ps_busy_poll busy_poll; /* of the caller who polls */
    uint64_t polls;                /* by callers, ever; and each wish to be told */
    void (*idle)(void *owner);     /* to be told that no caller polls; NULL: nobody */
    void *idle_owner;
    uint64_t (*work)(void *owner); /* what the keeper does besides; NULL: nothing */
    void *work_owner;
    uint64_t work_ms;        /* the keeper sleeps until then at the latest */
    bool roused;             /* the keeper is to come without a pause */
    struct ps_thread keeper; /* polls while no caller does */
    enum ps_tag_kind kick_tag;
    grpc_channel *kick_channel;
    grpc_call *kick; /* no call goes over it: an empty batch on it is an event at once */
    bool kicked;     /* and that event is under way */
};

struct ps_grpc_side {
    const struct ps_allocator *memory; /* borrowed */
    const struct ps_clock *clock;      /* borrowed */
    uint32_t shard_count;
    bool shares; /* memory, with servers on this host */
    atomic_uint_fast64_t shared_calls, shared_bytes, device_bytes;
    atomic_uint running; /* flights */
    grpc_completion_queue *queue;
    struct ps_channel_files files; /* texts borrowed; all NULL: neither TLS nor tokens */
    struct ps_grpc_role role;

    struct ps_mutex mutex;
    struct ps_connection **routes;     /* of each shard; NULL: nobody serves it */
    struct ps_connection *connections; /* all, also detached ones */
    bool stopping;

    struct ps_mutex done_mutex; /* taken under anything: gRPC may release content anywhere */
    struct ps_flight *done_first, *done_last;
};

gpr_timespec ps_grpc_after_ms(uint64_t time_ms);

/* ---- Connections: all under the mutex, but for connect ---- */

/* A new connection, not yet anybody's; NULL when memory was refused, or a file cannot be read.
 * Outside of the mutex, as the next two. */
struct ps_connection *ps_connection_create(struct ps_grpc_side *side, uint32_t shard,
                                           const char *address);

/* Ends one that never was anybody's; NULL is allowed. */
void ps_connection_discard(struct ps_grpc_side *side, struct ps_connection *connection);

/* What is to take the connection's place, since its files have changed; NULL: nothing. By the
 * thread that has its watch. */
struct ps_connection *ps_connection_renewed(struct ps_grpc_side *side,
                                            struct ps_connection *connection);

/* Makes `connection` (NULL: none) the shard's. Calls that wait for older ones move over; those
 * that run there and may be repeated are cancelled. */
void ps_connection_replace(struct ps_grpc_side *side, uint32_t shard,
                           struct ps_connection *connection);

/* Ends a connection and the calls that run on it. */
void ps_connection_retire(struct ps_connection *connection);

/* Forgets connections that nothing needs any more. */
void ps_connection_reap(struct ps_grpc_side *side);

/* Asks to hear of the next change from `state`. */
void ps_connection_watch(struct ps_grpc_side *side, struct ps_connection *connection,
                         grpc_connectivity_state state);

void ps_connection_add(struct ps_connection *connection, struct ps_flight *flight);
void ps_connection_remove(struct ps_flight *flight);

/* Begins to ask why the connection is down, if that may be the certificates and nobody asks yet. */
void ps_reason_ask(struct ps_grpc_side *side, struct ps_connection *connection);
/* The question has ended: the text is there, if there is one. */
void ps_reason_ended(struct ps_reason *reason);

/* ---- Flights ---- */

/* The flight leaves, waits for its connection, or ends because there is none. */
void ps_flight_begin(struct ps_grpc_side *side, struct ps_flight *flight, uint32_t shard,
                     uint64_t deadline_ms);
/* Makes a flight's call, if it has one, end soon; under the mutex. */
void ps_flight_end_call(struct ps_flight *flight, grpc_status_code code, const char *text);

/* The largest content that goes over the connection in one message. */
size_t ps_connection_content_bytes_max(const struct ps_connection *connection);

/* A message with these calls, in one of two forms: the plain message of one call, or a bundle
 * (channel_grpc_bundle.c) of several, or of a push and pull in one. NULL when memory is refused. */
struct ps_flight *ps_flight_create(struct ps_grpc_side *side, const struct ps_call_part *parts,
                                   size_t part_count);
void ps_flight_destroy(struct ps_flight *flight);

/* The request of part `i`. */
const struct ps_call_request *ps_flight_request(const struct ps_flight *flight, size_t i);

/* What goes before the contents, as the parts' shared ways are now. */
void ps_flight_encode(struct ps_flight *flight, struct ps_buffer *head);

/* The outcome of part `i`; in order. */
void ps_flight_outcome(struct ps_flight *flight, size_t i, struct ps_call_outcome *outcome);

/* ---- Bundles: channel_grpc_bundle.c ---- */

void ps_bundle_encode(struct ps_flight *flight, struct ps_buffer *head);
/* The message, contents in place; pins the flight for each content that gRPC holds. */
grpc_byte_buffer *ps_bundle_message(struct ps_flight *flight);
void ps_bundle_outcome(struct ps_flight *flight, size_t i, struct ps_call_outcome *outcome);

/* The content in place, or, up to `copied_max` bytes, a copy. */
grpc_slice ps_flight_content_slice(struct ps_flight *flight, struct ps_bytes content,
                                   size_t copied_max);
PS_MUST_USE enum ps_status ps_flight_view_reply(struct ps_flight *flight, struct ps_view *view,
                                                struct ps_error *error);
void ps_flight_outcome_failed(const struct ps_flight *flight, struct ps_call_outcome *outcome);

/* From WAITING to RUNNING; launch follows, outside of the mutex. Under the mutex. */
void ps_flight_make_call(struct ps_flight *flight);
void ps_flight_launch(struct ps_flight *flight);

/* Its batch has ended: notes what became of it and lets it go. The thread's. */
void ps_flight_ended(struct ps_flight *flight);

/* Whoever lets go last hands the flight to `take`. Any thread, under any of our locks. */
void ps_flight_drop_pin(struct ps_flight *flight);

/* ---- Shared memory: channel_grpc_shared.c ---- */

/* Moves what content can go there, and encodes the message anew; without memory for that it stays
 * as it is. Before the message is made. */
void ps_flight_share(struct ps_flight *flight);

/* As the server is told. */
struct ps_push_request ps_shared_way_push(const struct ps_shared_way *way,
                                          const struct ps_push_request *push);
struct ps_pull_request ps_shared_way_pull(const struct ps_shared_way *way,
                                          const struct ps_pull_request *pull);

/* The same of an asked call, whose content or room is there. */
void ps_shared_way_ask(const struct ps_shared_way *way, struct ps_call_request *told);

/* Can the flight not leave? Its content was to go as one through shared memory, found no room
 * there, and is more than this server takes in a message. The engine sends it again, in ranges. */
bool ps_flight_is_stranded(struct ps_flight *flight);

/* Makes the content of a reply what the server has put into our memory, if it has. */
PS_MUST_USE enum ps_status ps_shared_way_found(struct ps_shared_way *way,
                                               struct ps_pull_reply *reply, struct ps_error *error);

/* The batch has ended: lets go of slots that nothing is read from. */
void ps_flight_shared_ended(struct ps_flight *flight);
/* Lets go of all. */
void ps_flight_shared_release(struct ps_flight *flight);

/* ---- Polling ---- */

/* Starts the keeper; the queue is there. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_grpc_poll_start(struct ps_grpc_side *side, struct ps_error *error);

/* Shuts the queue and returns when it is empty. Also after a start that failed. */
void ps_grpc_poll_stop(struct ps_grpc_side *side);

/* The channel's poll. */
void ps_grpc_poll(struct ps_grpc_side *side, uint64_t timeout_ms);

/* The channel's tell_idle. Any thread, under any of our locks. */
void ps_grpc_poll_tell_idle(struct ps_grpc_side *side, void (*idle)(void *owner), void *owner);

/* The channel's employ and rouse. The same. */
void ps_grpc_poll_employ(struct ps_grpc_side *side, uint64_t (*work)(void *owner), void *owner);
void ps_grpc_poll_rouse(struct ps_grpc_side *side, uint64_t wake_ms);

/* The channel's interrupt; also when there is something to take. Any thread, under any of our
 * locks. */
void ps_grpc_poll_wake(struct ps_grpc_side *side);

/* What to do with an event of the queue; `ok` is gRPC's. */
void ps_grpc_handle(struct ps_grpc_side *side, void *tag, bool ok);

/* ---- A device's memory: channel_grpc_device.c ---- */

/* Is the flight's content, or room for it, there? */
bool ps_flight_is_of_device(struct ps_flight *flight);

/* Has the message say where, or the flight be stuck. Before the message is made. */
void ps_flight_name_device(struct ps_flight *flight);

/* What became of a stuck flight: PS_ERR_UNSUPPORTED, and nothing has left. */
void ps_flight_note_stuck(struct ps_flight *flight);

#endif
