/* SPDX-License-Identifier: Apache-2.0 */
/* One call to one server as plain structs: what goes out, and what became of it. The engine, the
 * channel and the simulator meet here; bytes are the channel's business.
 *
 * Threads:  plain data.
 * Blocking: never.
 * Errors:   none.
 * Memory:   everything is borrowed; each user says for how long.
 */
#ifndef PS_CLIENT_CALL_H
#define PS_CLIENT_CALL_H

#include "base/device_share.h"
#include "base/status.h"
#include "proto/admin_messages.h"
#include "proto/clock_messages.h"
#include "proto/messages.h"

/* Content lies in so many pieces at most: that of an asked call, whose pieces are the caller's
 * tensors. That of a push has two at most. */
#define PS_CONTENT_PIECES_MAX 16

/* A piece of a device's memory in which the content of a push lies, or room for that of a pull.
 * Addresses in it are the device's: nothing here reads or writes there. */
struct ps_device_place {
    struct ps_device_share share;
    const uint8_t *base; /* where it begins, in this process */
    /* Copies from it to the host, for a server that cannot reach it; false: it failed. Blocks
     * while the bytes cross the bus. */
    bool (*fetch)(void *self, void *to, const uint8_t *from, size_t size);
    void *self;
};

struct ps_call_request {
    enum ps_method method; /* says which member holds; STATUS has none */
    union {
        struct ps_init_request init;     /* INIT, DEFINE */
        struct ps_change_request change; /* DROP, CONFIGURE */
        struct ps_set_clocks_request set_clocks;
        struct ps_clock_request clock;
        struct ps_finish_request finish;
        struct ps_push_request push;
        struct ps_pull_request pull;
        struct ps_list_request list;
        struct ps_since_request since;
        struct ps_save_request save;
        struct {
            struct ps_bytes ask;        /* of PS_ASKED_TABLE: the message ... */
            struct ps_view ask_content; /* ... and what follows it, which is not copied */
            size_t ask_room;            /* content that the reply may have; 0: no room is offered */
            uint64_t ask_epoch; /* ASK: the life of the server that it is for; 0: not said here */
            /* The channel's: where these two are, in shared memory. */
            struct ps_shared_range ask_shared, ask_room_shared;
        };
        struct {
            struct ps_push_request push;
            struct ps_pull_request pull; /* of the same parameter, after the push */
        } push_pull;
    };
};

/* What gives a parameter; NULL: the request gives none. */
const struct ps_init_request *ps_call_init_of(const struct ps_call_request *request);

/* The halves of a request; NULL where there is none. */
const struct ps_push_request *ps_call_push_of(const struct ps_call_request *request);
const struct ps_pull_request *ps_call_pull_of(const struct ps_call_request *request);

/* One of the calls that go in one message: all of one method (PUSH, PULL or PUSH_PULL), to one
 * shard; each has an outcome of its own. */
struct ps_call_part {
    uint64_t call;
    const struct ps_call_request *request;
};

/* Most of them. */
#define PS_MESSAGE_CALLS_MAX 64

struct ps_call_reply {
    enum ps_method method; /* says which member holds; FINISH has none */
    union {
        struct ps_init_reply init;     /* INIT, DEFINE */
        struct ps_change_reply change; /* DROP, CONFIGURE */
        struct ps_clocks_reply clocks; /* SET_CLOCKS, CLOCK */
        struct ps_push_reply push;
        struct ps_pull_reply pull;
        struct ps_status_reply status;
        struct ps_list_reply list;
        struct ps_save_reply save;
        struct ps_bundle_reply since; /* an answer to each pull */
        struct {
            struct ps_view ask;       /* of PS_ASKED_TABLE: the whole message */
            struct ps_bytes ask_room; /* shared memory that it may speak of; empty: none */
        };
        struct {
            struct ps_push_reply push;
            struct ps_pull_reply pull;
        } push_pull;
    };
};

/* The halves of a reply; NULL where there is none. */
const struct ps_push_reply *ps_call_pushed(const struct ps_call_reply *reply);
const struct ps_pull_reply *ps_call_pulled(const struct ps_call_reply *reply);

#define PS_OUTCOME_TEXT_MAX 256

struct ps_call_outcome {
    enum ps_status status;
    /* The server certainly did not apply the request: it answered with a status of its own that
     * says so (ps_retry_is_refusal), or the request never left this machine. Not set when a call
     * broke after it was sent. */
    bool refused;
    /* PUSH_PULL: the push was done, and the reply has what the server said of it, although the pull
     * behind it failed, which is what the status says. */
    bool pushed;
    bool no_bundles; /* the server knows no messages of several calls: send them one by one */
    /* The largest content that now goes to this server as one, without ranges; 0: content of that
     * size would not go through shared memory. */
    size_t as_one_bytes_max;
    uint64_t session; /* of PS_ERR_STALE_SESSION: one that may begin now; of PS_ERR_ABORTED: the
                         server's life, which is not the one that was named; 0: it did not say */
    char text[PS_OUTCOME_TEXT_MAX]; /* why it failed, for people */
    struct ps_call_reply reply;     /* holds when status is PS_OK */
};

#endif
