/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of pserver.proto as plain structs of borrowed views. Everything above floor 2 speaks
 * in these; nobody outside proto/ sees protobuf-c. Those of its clocks are in clock_messages.h, and
 * those of the other services each in a file of its own.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   every pointer is borrowed from the bytes that were decoded (or that will be encoded).
 */
#ifndef PS_PROTO_MESSAGES_H
#define PS_PROTO_MESSAGES_H

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/encoding.h"
#include "base/shape.h"
#include "base/status.h"
#include "proto/methods.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range of a parameter, in elements. Count 0: the whole, or (of a pull) from `first` on. */
struct ps_elements {
    uint64_t first;
    uint64_t count;
};

enum ps_ack { PS_ACK_DEFAULT, PS_ACK_MEMORY, PS_ACK_LOGGED, PS_ACK_REPLICATED };

/* Who brought a request, as whoever knows the callers tells it; asked only where something is
 * counted, so that a call that counts nothing pays nothing. */
struct ps_origin {
    /* Under which key a caller's share of what all share is counted; borrowed for the call. */
    struct ps_bytes (*share)(void *self);
    /* May this caller begin with one more client id? If not, `*wait_ms` says when. */
    bool (*may_begin)(void *self, uint32_t *wait_ms);
    /* One item of a message has failed in this way; for whoever counts refusals. */
    void (*refused)(void *self, const struct ps_error *error);
    void *self;
};

struct ps_request_id {
    bool present;
    struct ps_bytes client_id;
    uint64_t session;
    uint64_t sequence;
    const struct ps_origin *origin; /* borrowed; NULL: nobody counts; not on the wire */
    uint64_t owner;            /* whose client id it has to be; 0: anybody's. Not on the wire */
    struct ps_bytes pushed_to; /* of a push: the parameter's name; else empty. Not on the wire */
};

/* Where content lies instead of in the message: in memory that both sides see. */
struct ps_shared_range {
    uint64_t segment; /* 0: nowhere */
    uint64_t offset;
    uint64_t size;
};

struct ps_init_request {
    struct ps_bytes name;
    enum ps_dtype dtype;
    struct ps_view content;
    struct ps_bytes config;
    struct ps_elements range;
    uint64_t total; /* of a range: elements of the whole parameter */
    struct ps_shape shape;
    uint32_t shard; /* 1 + index of the server it is meant for; 0: not said */
    struct ps_request_id request;
    struct ps_hold hold; /* of the content; not on the wire */
};

struct ps_init_reply {
    uint64_t epoch; /* 0: of a server that does not say */
    bool staged;    /* a range that waits for the others */
    bool existed;   /* of a definition: an equal parameter was there, and nothing changed */
};

/* What DropParam and ConfigureParam carry. */
struct ps_change_request {
    struct ps_bytes name;
    struct ps_bytes change; /* of a ConfigureParam: a serialized OptimizerConfig */
    uint32_t shard;         /* as of an init */
    struct ps_request_id request;
};

struct ps_change_reply {
    uint64_t version; /* of the parameter: its pushes */
    bool duplicate;
    uint64_t position; /* of this change in the life of the shard */
    uint64_t durable_position;
    struct ps_bytes config; /* that holds now; empty for a DropParam */
    uint64_t step;
};

struct ps_finish_request {
    uint64_t epoch;     /* under which the parameters were taken; 0: not checked */
    uint64_t placement; /* by which they were placed; 0: not said */
    uint32_t shard;     /* as of an init */
    struct ps_request_id request;
};

struct ps_device_place; /* client/calls/call.h */

struct ps_push_request {
    struct ps_bytes name;
    enum ps_dtype dtype;
    struct ps_view content;
    enum ps_encoding encoding; /* of the content */
    enum ps_ack ack;
    struct ps_shared_range shared; /* the content, which is then empty above */
    struct ps_elements range;
    /* Of a contribution to a round. It is not looked at where the parameter is trained without
     * rounds, so that a trainer need not know which of the two a parameter is. */
    uint32_t worker;    /* 1 + the rank; 0: not said */
    uint64_t round;     /* the version that it shall help to make; 0: the one that is made now */
    float weight;       /* 0: 1 */
    uint32_t row_width; /* elements of a table's row, as the sender believes; 0: not said */
    uint32_t shard;     /* as of an init */
    struct ps_request_id request;
    struct ps_hold hold; /* of the content; not on the wire */
    uint64_t total;      /* of one that goes out: elements of the gradient; not on the wire */
    bool is_plain;       /* the content was looked at and has nothing to refuse; not on the wire */
    /* Where the content's address is a device's, which the host must not read; not on the wire. */
    bool on_device;                      /* of one that has come */
    const struct ps_device_place *place; /* of one that goes out; NULL: the host's */
};

struct ps_push_reply {
    uint64_t version;
    bool duplicate;
    uint64_t position;         /* of this push in the life of the shard */
    uint64_t durable_position; /* pushes up to here survive a crash */
    bool staged;               /* a range that waits for the others: nothing was applied */
    bool held;                 /* by a round that goes on and makes `version` */
    bool late;                 /* its round was over: it counts in that of `version`, or nowhere */
};

/* One life of a shard: within it a version of a parameter is one content. Of another life the same
 * version may be another content: what a crash has lost is numbered again. */
struct ps_chain {
    uint64_t epoch;
    uint64_t life; /* random; 0: none at all */
};

/* What the caller of a delta pull has. */
struct ps_held {
    bool present;     /* this is a delta pull */
    uint64_t version; /* 1 + the one that the caller has; 0: none */
    struct ps_chain chain;
    uint64_t target; /* 1 + the version whose first blocks came already; 0: none did */
    uint64_t block;  /* of that version: the first that is still to come */
    uint64_t mark;   /* of a table: as it came with what the caller has; 0: nothing did */
};

/* Why a delta has every block. */
enum ps_whole {
    PS_WHOLE_NOT,
    PS_WHOLE_NOTHING_HELD,
    PS_WHOLE_OTHER_CHAIN,
    PS_WHOLE_NEWER_THAN_HERE,
    PS_WHOLE_FORGOTTEN, /* of a table: more rows went since than are remembered */
    PS_WHOLE_COUNT
};

/* What the content of a delta pull's reply is. */
struct ps_delta {
    bool present;
    struct ps_chain chain;
    uint64_t block_bytes;
    struct ps_bytes runs; /* little-endian uint32 in pairs: first block, how many */
    enum ps_whole whole;
    uint64_t next;   /* the first block that is still to come; 0: none is */
    uint64_t digest; /* of all blocks, when none is to come: the chain of proto/digest.h; of a
                        table: of this content */
    /* Of a table, which has no blocks: the content is `gone` keys, the keys of `rows` rows, and
     * their values; `next` is a place in the table. */
    uint64_t rows;
    uint64_t gone;
    uint64_t mark; /* up to where keys that went have been told; 0: not of a table */
};

/* Who asks for a version says 1 + it, and 0 for none. */
#define PS_VERSION_MAX (UINT64_MAX - 1)

struct ps_pull_request {
    struct ps_bytes name;
    enum ps_encoding encoding;     /* that the reply shall have */
    struct ps_shared_range shared; /* room for the content, if it fits */
    size_t size_wish;     /* bytes that the caller expects; 0: not known; not on the wire */
    uint8_t *destination; /* room for them, where content may be put as it comes; NULL: none */
    enum ps_dtype dtype;  /* of the elements there; like the destination not on the wire */
    bool as_is;           /* they are of the encoding instead, and put there as they come */
    struct ps_elements range;
    uint64_t version; /* 1 + the one that is wanted; 0: the present one */
    uint64_t life;    /* in which it is wanted: that of a chain; 0: in any */
    bool of_push;     /* of a range: what the push at the same place of the message makes of it */
    struct ps_held held;
    bool with_shape; /* the reply shall tell it */
    /* Room for it in a device's memory; all of these are not on the wire. */
    uint8_t *room;                       /* NULL: none */
    size_t room_size;                    /* of one that has come */
    const struct ps_device_place *place; /* of one that goes out: where that is */
    /* What the pull waits for, both of these: a version, by which a synchronous trainer comes to
     * its next round, and clocks that allow the worker to read. */
    uint64_t at_least_version; /* 0: as it is */
    uint32_t worker;           /* 1 + the rank of who reads at a clock; 0: nobody does */
    uint64_t clock;            /* that the worker is at */
    struct ps_bytes clocks;    /* of which clocks; at most PS_CLOCKS_NAME_BYTES_MAX */
    struct ps_view keys; /* of a table: 8 bytes each; empty: none. Behind the head on the wire */
    uint64_t bytes_max;  /* of a delta pull: most content; 0: PS_DELTA_BYTES_DEFAULT. Not on the
                           wire: of the whole message there */
    uint32_t shard;      /* as of an init */
};

struct ps_pull_reply {
    struct ps_bytes name;
    enum ps_dtype dtype;
    struct ps_view content;
    uint64_t version;
    enum ps_encoding encoding;    /* of the content */
    uint64_t shared_size;         /* bytes of it that lie in the request's shared range; 0: none */
    struct ps_elements range;     /* count 0: whole */
    uint64_t total;               /* of a range or a delta: elements of the whole parameter */
    uint64_t life;                /* of a range: the chain's */
    const struct ps_shape *shape; /* that is told; NULL: none is, as in every decoded reply */
    struct ps_delta delta;
};

/* What became of one item of a bundle. */
struct ps_item_status {
    enum ps_status status;
    bool from_server;     /* of a decoded one: the server has said so, in a word that we know */
    struct ps_bytes text; /* why it failed */
    uint64_t retry_ms;    /* when to try again; 0: nothing is known */
    uint64_t session;     /* of a stale one: another that may begin now; 0: not said */
};

struct ps_push_result {
    struct ps_item_status status;
    struct ps_push_reply reply; /* holds when the status is PS_OK */
};

struct ps_pull_result {
    struct ps_item_status status;
    struct ps_pull_reply reply; /* holds when the status is PS_OK */
};

/* Many requests in one message: what SendGrads, GetParams and PushPull carry. */
struct ps_bundle_request {
    uint64_t bytes_max;             /* of delta pulls: most content of the answer; 0: not said */
    struct ps_push_request *pushes; /* each with the id that it counts under */
    size_t push_count;
    struct ps_pull_request *pulls;
    size_t pull_count;
};

/* What GetParamsSince carries. */
struct ps_since_request {
    const struct ps_pull_request *pulls; /* delta pulls */
    size_t pull_count;
    uint64_t bytes_max; /* most content of the answer; 0: PS_DELTA_BYTES_DEFAULT */
    uint32_t shard;     /* of all pulls, as of an init */
};

struct ps_bundle_reply {
    struct ps_push_result *pushes; /* in the order of the requests */
    size_t push_count;
    struct ps_pull_result *pulls;
    size_t pull_count;
};

/* What LastApplied carries. */
struct ps_applied_request {
    struct ps_request_id id; /* only the client's id is on the wire */
    bool begins;             /* ends the client's session, and begins the next one */
    struct ps_bytes after;
    uint32_t limit; /* rows; 0: not said */
    uint32_t shard; /* as of an init */
};

/* Pushes of one client to one parameter. */
struct ps_applied_row {
    struct ps_bytes name;
    uint64_t pushes;
    uint64_t version; /* after the last of them */
};

struct ps_applied_reply {
    bool is_known; /* the server remembers the client */
    bool is_whole; /* the rows have every push of the client that is in the state */
    uint64_t session;
    uint64_t sequence;
    uint64_t used_us;
    uint64_t begun; /* the session that has begun; 0: none */
    const struct ps_applied_row *rows;
    size_t row_count;
    bool more;
};

#endif
