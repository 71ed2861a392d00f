/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of libpserver share. Private to them.
 *
 * Threads:  said at the functions.
 * Blocking: never.
 * Errors:   NULL when memory was refused.
 * Memory:   a request owns what it was given for it.
 */
#ifndef PS_SERVER_PROGRAM_PARTS_H
#define PS_SERVER_PROGRAM_PARTS_H

#include "server/core/requests/program_calls.h"
#include "server/program/pserver_program.h"

/* One request in the hands of a handler. */
struct pserver_request {
    struct ps_service *service;         /* borrowed */
    struct ps_program_request *request; /* a reference */
    void **gathered; /* of each tensor that did not lie as it must; may be NULL */
    uint8_t *room;   /* for the answer; NULL: none was asked for */
    uint64_t room_size;
    void *room_block; /* owned; NULL: the room is the worker's */
};

struct pserver_request *ps_handled_request_create(struct ps_service *service,
                                                  struct ps_program_request *request);

/* Where the content of a tensor begins that the request has: in whatever pieces the network has cut
 * it, at whatever addresses. */
struct ps_view_cursor ps_handled_request_content(const struct pserver_request *request,
                                                 size_t index);

/* A tensor that the request has, but for where it lies. */
void ps_handled_request_describe(const struct pserver_request *request, size_t index,
                                 struct pserver_tensor *tensor);

/* The handler that the service calls: `self` is a struct ps_program_entry. */
struct ps_program_entry {
    pserver_handler handler;
    void *self;
};
void ps_program_entry_handle(void *self, struct ps_service *service,
                             struct ps_program_request *request);

/* ---- Ready-made ---- */

struct ps_value_store;

struct ps_value_store *ps_value_store_create(enum pserver_ready_made which,
                                             enum pserver_element element);
/* NULL is allowed. */
void ps_value_store_destroy(struct ps_value_store *store);
/* A pserver_handler. */
void ps_value_store_handle(void *store, struct pserver_request *request);

#endif
