/* SPDX-License-Identifier: Apache-2.0 */
/* What a mailbox is made of: apps, and in them requests, takers, workers and senders. A handler in
 * this process reads of a request what does not change; everything else is the mailbox's.
 *
 * Threads:  with the mailbox's lock held, but for what is said to stay.
 * Blocking: never.
 * Errors:   none.
 * Memory:   a request is counted: by the mailbox while it is in a table, by calls and handlers.
 */
#ifndef PS_SERVER_CORE_PROGRAM_REQUEST_H
#define PS_SERVER_CORE_PROGRAM_REQUEST_H

#include "server/core/programs/mailbox.h"

/* uthash takes its memory from `memory`, which is in scope wherever an entry comes or goes, and a
 * refusal leaves the table as it was and sets `refused`. */
#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) ps_plain(memory, (size))
#define uthash_free(pointer, size) ps_release(memory, (pointer))
#define uthash_nonfatal_oom(entry) (refused = true)
#include <uthash.h>

#define PS_PROGRAM_WHY_BYTES 200

enum ps_program_state {
    PS_PROGRAM_HELD,    /* one before it in its sender's order has not come */
    PS_PROGRAM_WAITING, /* for somebody to take it */
    PS_PROGRAM_TAKEN,
    PS_PROGRAM_ENDED
};

/* By which a repeat is known. No padding: it is a key. */
struct ps_program_token {
    uint64_t token, app;
};

struct ps_program_request {
    UT_hash_handle hh;       /* of the mailbox, by the handle */
    UT_hash_handle hh_token; /* of the mailbox, by the token, if it has one */
    /* Of the sender that holds it, the app where it waits, the taker that has it, or the mailbox
     * that keeps it. */
    struct ps_program_request *next, *prev;
    struct ps_program_request *worker_next, *worker_prev; /* while it waits */
    struct ps_program_request *ended_next, *ended_prev;   /* of its sender, once it is kept */
    enum ps_program_state state;
    uint32_t references;
    uint32_t calls; /* that wait for it */
    bool is_parked; /* one of them is to be told */
    bool is_in_tables;
    bool is_kept, has_answer; /* an ended one, and what is left of its answer */
    bool is_again;            /* another taker had it before */
    /* These stay. */
    uint64_t handle;
    struct ps_program_token token;
    struct ps_program_asked asked;
    struct ps_program_room room;
    struct ps_parcel *question; /* a reference; until it ends */
    /* ... */
    struct ps_app *app;
    struct ps_program_worker *worker; /* until it ends */
    struct ps_program_sender *sender; /* NULL: nobody numbers it */
    uint64_t order, seq;
    uint64_t taker, turn; /* that has it, or had it */
    uint64_t came_ms, ended_ms;
    uint64_t came_ns, taken_ns, ended_ns;
    /* Of an ended one; they stay. */
    uint64_t answer_token;
    enum ps_status status;
    char why[PS_PROGRAM_WHY_BYTES];
    struct ps_parcel *answer; /* a reference */
    uint64_t room_size;
};

/* The requests of one worker that wait, in their order. */
struct ps_program_worker {
    UT_hash_handle hh; /* of the app, by the rank */
    uint32_t rank;
    uint32_t open; /* its requests that are not answered */
    struct ps_program_request *waiting;
};

struct ps_program_sender {
    UT_hash_handle hh; /* of the app, by the id */
    uint64_t id;
    uint64_t next; /* all before it have come */
    uint64_t from; /* all before it are over for the sender */
    uint32_t open; /* its requests that are in a table */
    uint64_t heard_ms;
    struct ps_program_request *held;  /* by their order */
    struct ps_program_request *ended; /* that are kept */
};

struct ps_program_taker {
    UT_hash_handle hh; /* of the app, by the id */
    uint64_t id;
    uint64_t turn, serial;
    uint32_t calls; /* that wait */
    uint64_t heard_ms, lease_ms;
    bool again;
    uint32_t taken_count;
    struct ps_program_request *taken;
    uint32_t name_size;
    char name[PS_PROGRAM_NAME_BYTES_MAX];
};

struct ps_app {
    UT_hash_handle hh; /* of the mailbox, by the number */
    uint32_t id;
    struct ps_program_request *waiting; /* of all workers, in the order of taking */
    struct ps_program_request *handled; /* that the handler has */
    struct ps_program_worker *workers;
    struct ps_program_sender *senders;
    struct ps_program_taker *takers;
    uint32_t request_count; /* that are not answered */
    uint32_t known_count;   /* that are in a table */
    uint32_t waiting_count, handled_count;
    uint64_t seq;
    uint64_t bytes, answered, failed;
    bool has_handler, is_running;
};

#endif
