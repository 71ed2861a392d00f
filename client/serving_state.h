/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind `struct ps_serving`: a worker's requests and their traces, or a server
 * program's place at its mailbox. Private to the files of psclient_serving.h.
 *
 * Threads:  `lock` guards what is below it; it is taken within the client's lock, never around it.
 * Blocking: as said.
 * Errors:   ps_status.
 * Memory:   of the client's allocator, but for batches, which are the heap's.
 */
#ifndef PS_CLIENT_SERVING_STATE_H
#define PS_CLIENT_SERVING_STATE_H

#include "base/thread.h"
#include "client/client_state.h"
#include "client/program_customer.h"
#include "client/psclient_serving.h"
#include "proto/program_messages.h"

/* A request of a worker, from push_pull until its trace is forgotten. */
struct ps_serving_record {
    struct ps_serving_record *next, *prev; /* by handler */
    uint64_t first, count;                 /* handlers */
    int64_t timestamp;
    bool is_released; /* the request is over and collected */
    bool is_forgotten;
    size_t row_count;
    struct ps_serving_trace rows[]; /* of each server */
};

/* What a server program has taken and not answered. */
struct ps_serving_taken;

/* A part of a registered buffer. */
struct ps_serving_room {
    uint32_t worker;
    uint64_t key;
    uint8_t *content; /* borrowed */
    size_t size;
};

struct ps_serving {
    struct psclient *client; /* borrowed; outlives this */
    enum ps_serving_role role;
    uint32_t worker_count, server_count;
    struct ps_customer *customer; /* owned; of a worker */

    /* Of a server program. */
    uint32_t rank, mailbox, shard;
    uint64_t taker, lease_ms, host;
    bool again;
    char name[PS_PROGRAM_NAME_BYTES_MAX + 1];
    struct ps_thread thread; /* says that the program lives */

    struct ps_mutex lock;        /* PS_RANK_QUEUE */
    struct ps_condition changed; /* a take has ended, or all ends */
    uint64_t next_handler;
    struct ps_serving_record *records; /* owned: a list */
    size_t record_count;
    uint64_t turn;     /* of the take that is under way, or comes next */
    size_t room_bytes; /* of content that the last takes have brought: so much room is offered */
    bool is_taking, is_closing;
    uint64_t barriers[PS_NODE_GROUPS_MAX + 1];
    struct ps_serving_taken *taken; /* owned: a table by handle */
    struct ps_serving_room *rooms;  /* owned */
    size_t room_count;
    void *spare; /* owned: content of a batch that was released; NULL: none */
    size_t spare_size;
};

/* From the public struct to that of the wire and back. PS_ERR_BAD_INPUT: the size is not that of
 * the shape. `what` is for the text. */
PS_MUST_USE enum ps_status ps_serving_tensor_in(const struct psclient_tensor *tensor, uint64_t key,
                                                const char *what, size_t i,
                                                struct ps_program_tensor *out,
                                                struct ps_error *error);
struct psclient_tensor ps_serving_tensor_out(const struct ps_program_tensor *tensor);

/* The contents as a view of at most PS_CONTENT_PIECES_MAX pieces: of the caller's memory, or of one
 * copy when there are more. */
struct ps_serving_pieces {
    struct ps_bytes pieces[PS_CONTENT_PIECES_MAX];
    void *copy; /* owned; NULL: none was needed */
    struct ps_view view;
};
PS_MUST_USE enum ps_status ps_serving_gather(const struct ps_allocator *memory,
                                             const struct psclient_tensor *tensors, size_t count,
                                             struct ps_serving_pieces *pieces,
                                             struct ps_error *error);

/* ---- serving_worker.c ---- */

/* All requests are collected: forgets the traces. */
void ps_serving_forget_records(struct ps_serving *serving);

/* ---- serving_taker.c ---- */

/* Says that the program lives, or (`leaves`) that it goes. */
PS_MUST_USE enum ps_status ps_serving_touch(struct ps_serving *serving, bool leaves,
                                            uint64_t timeout_ms, struct ps_error *error);

/* ---- serving_taken.c: with the lock ---- */

/* Notes what a request wants. False: no memory; then nothing is checked here. */
bool ps_serving_note_taken(struct ps_serving *serving, const struct ps_program_taken *taken);

/* Are these tensors what the request wants? PS_OK also of a request that is not known here: then
 * the server says what it is. */
PS_MUST_USE enum ps_status ps_serving_check_answer(const struct ps_serving *serving,
                                                   uint64_t handle, const uint64_t *sizes,
                                                   size_t count, struct ps_error *error);

/* It was answered, or is no request any more. */
void ps_serving_drop_taken(struct ps_serving *serving, uint64_t handle);
void ps_serving_drop_all_taken(struct ps_serving *serving);

/* ---- serving_batch.c ---- */

/* A batch of what was taken, its content copied: from the requests' own views, or from shared
 * memory where all of it lies, one behind another, when that is not empty. */
PS_MUST_USE enum ps_status ps_serving_make_batch(struct ps_serving *serving,
                                                 const struct ps_program_taken *taken, size_t count,
                                                 struct ps_bytes shared,
                                                 struct ps_serving_batch **batch,
                                                 struct ps_error *error);

#endif
