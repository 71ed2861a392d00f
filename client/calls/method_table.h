/* SPDX-License-Identifier: Apache-2.0 */
/* What a client knows of each call: one row for each method, and nothing about methods elsewhere.
 *
 * Threads:  constants.
 * Blocking: never.
 * Errors:   as each function of a row says.
 * Memory:   none.
 */
#ifndef PS_CLIENT_METHOD_TABLE_H
#define PS_CLIENT_METHOD_TABLE_H

#include "client/calls/call.h"
#include "proto/codec.h"

struct ps_method_row {
    bool reads;    /* changes nothing, so that it may be repeated at will */
    bool numbered; /* its request has an id, under which the server does it once */
    /* Done once, and answered when that is durable: a server that then says "unavailable" may have
     * done it, and what may have been done is never asked for under another number. */
    bool once;
    bool pushes;
    bool pulls;
    bool is_asked;        /* of PS_ASKED_TABLE: the message travels as bytes */
    bool shares;          /* asked: its content and its reply's may go through shared memory */
    bool names_parameter; /* it goes to the shard of a parameter, not to a given server */

    /* Where the request's id is in struct ps_call_request, and for which shard's server the request
     * says that it is meant; 0: nowhere. */
    size_t id_at;
    size_t shard_at[2];

    /* The message that carries several such calls; PS_METHOD_COUNT: there is none. */
    enum ps_method bundle;

    /* The plain message of one call, without the content that follows it; NULL: it is empty, or the
     * method has no plain message. */
    void (*encode)(const struct ps_call_request *request, struct ps_buffer *head);

    /* The plain reply into the member of `reply` that is the method's; NULL: it is empty. Statuses
     * of proto/codec.h. */
    enum ps_status (*decode)(struct ps_view bytes, const struct ps_allocator *memory,
                             struct ps_call_reply *reply, struct ps_decoded *decoded,
                             struct ps_error *error);
};

const struct ps_method_row *ps_method_row(enum ps_method method);

/* The id of a request; NULL when its method has none. */
struct ps_request_id *ps_call_request_id(struct ps_call_request *request);

/* Writes into the request for which shard's server it is meant, if its method can say that. */
void ps_call_name_shard(struct ps_call_request *request, uint32_t shard);

#endif
