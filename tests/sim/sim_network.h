/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between clients and servers, as bytes of the real codec. A call is one request and one
 * reply; a call whose request or reply is lost is heard of as a broken connection, some time later.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none: they become outcomes of calls.
 * Memory:   a message belongs to the network from sim_send on, and is borrowed by whom it reaches.
 */
#ifndef PS_TESTS_SIM_SIM_NETWORK_H
#define PS_TESTS_SIM_SIM_NETWORK_H

#include "client/calls/call.h"
#include "tests/sim/sim.h"

struct sim_message {
    uint32_t client, server; /* numbers, not nodes */
    bool is_reply;
    bool refused;               /* the server itself said no */
    uint64_t server_generation; /* the process that the connection leads to */
    uint64_t client_generation;
    uint64_t call;         /* the client's name for it */
    uint64_t attempt;      /* which of its attempts */
    uint32_t shard;        /* for whom it is meant: for the checker, no server sees it */
    struct ps_chain chain; /* of whoever answered a pull: for the checker */
    uint64_t deadline_ms;
    enum ps_method method;
    enum ps_status status;    /* replies */
    uint64_t session;         /* that the server suggests; 0: none */
    bool came_early;          /* sim_hurry: what is still on its way has been delivered */
    struct sim_message *next; /* owned: another call of the same message; of requests only */
    char text[PS_OUTCOME_TEXT_MAX];
    size_t size;
    uint8_t bytes[];
};

/* Encodes a request. The rest of the message is the caller's to fill in. */
struct sim_message *sim_message_of_request(const struct ps_call_request *request);

/* The reply to a push and pull: was there something to be pulled? (What a range makes may not be
 * known.) */
bool sim_has_pull(const struct ps_call_reply *reply);

/* Of this call alone. */
struct sim_message *sim_message_copy(const struct sim_message *message);

/* Takes the message with all of its calls. NULL is allowed. */
void sim_message_free(struct sim_message *message);

/* Encodes a reply to `request`: an empty one when `status` is not PS_OK. */
struct sim_message *sim_message_of_reply(const struct sim_message *request, enum ps_status status,
                                         const char *text, const struct ps_call_reply *reply);

/* The process that had the request is gone: its client hears that, some time later. */
void sim_break(struct sim_world *world, const struct sim_message *request);

/* One message that carries several calls: takes them, and brings all of them, at once, or none. */
void sim_send_together(struct sim_world *world, struct sim_message **messages, size_t count);

/* Takes the message and brings it, or not. */
void sim_send(struct sim_world *world, struct sim_message *message);

/* Brings a message of pushes and pulls to this server that is still on its way, if there is one: as
 * if another thread of the server had served it beside what this one does. */
void sim_hurry(struct sim_world *world, const struct sim_server *server);

#endif
