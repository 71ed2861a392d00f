/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a message that a simulated server serves, and what the checker and the models are
 * told of it. Private to sim_server_serve.c and sim_served_notes.c.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a broken promise ends the world (sim_fail).
 * Memory:   a served message owns what is said below.
 */
#ifndef SIM_SERVED_H
#define SIM_SERVED_H

#include "proto/arena.h"
#include "proto/codec.h"
#include "tests/sim/sim_replica.h"
#include "tests/sim/sim_server_serve.h"
#include "tests/sim/sim_table_faults.h"

/* Calls that go together in one message of a simulated trainer. */
#define CALLS_MAX 16
#define PULLS_MAX (SIM_PULLS_MAX > CALLS_MAX ? SIM_PULLS_MAX : CALLS_MAX)

/* One of the calls, and which items of the bundle it has. */
struct sim_served_call {
    struct sim_message *message; /* owned, alone */
    struct ps_decoded decoded;
    size_t push, pull; /* of which it has one at least, by its method */
};

struct sim_served {
    struct sim_server *server; /* borrowed */
    struct sim_served_call calls[CALLS_MAX];
    size_t call_count;
    bool goes_on;    /* as its last step said */
    uint64_t ask_ms; /* it is asked again then; 0: it has not asked for it */
    struct ps_serve serve;
    struct ps_serve_content content; /* all of it lies in messages; told of each push */
    struct ps_error error;
    struct ps_arena texts;
    struct ps_push_request push_requests[CALLS_MAX];
    struct ps_pull_request pull_requests[PULLS_MAX];
    struct ps_push_result pushes[CALLS_MAX];
    struct ps_served_pull pulls[PULLS_MAX];
    struct ps_request_id ids[CALLS_MAX];     /* of pushes, as the trainer gave them */
    struct ps_pull_request asked[PULLS_MAX]; /* as the trainers sent them */
    struct ps_view contents[CALLS_MAX];      /* of pushes, as the trainer gave them */
    struct ps_bytes pieces[CALLS_MAX];       /* of contents that were bent */
    struct sim_bent_rows bent[CALLS_MAX];    /* ... of tables */
    size_t entries[CALLS_MAX];               /* of pushes in the checker's history */
    struct ps_chain chains[PULLS_MAX];       /* in which the pulled versions are */
    uint64_t wanted[PULLS_MAX];              /* versions that a mutation has hidden */
    size_t noted_pushes, noted_pulls;
};

/* After each step: of what the core has done since the last one. */
void sim_served_note_workers(struct sim_server *server, struct sim_served *served, bool waits);
void sim_served_note_pushes(struct sim_server *server, struct sim_served *served);
void sim_served_note_pulls(struct sim_server *server, struct sim_served *served);

#endif
