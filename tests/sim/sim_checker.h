/* SPDX-License-Identifier: Apache-2.0 */
/* The promises, looked at after every event. What is seen to be broken goes to sim_fail, with the
 * number of the promise (DESIGN section 2) in front.
 *
 *   P3  a checkpoint equals the state of one position in the shard's history, when it was written
 *       and when it is loaded; damage is never loaded; once one was published there is always a
 *       whole one
 *   P4  the store agrees with every acknowledgement about who owns the shard; epochs rise; the
 *       pointer is moved by the owner only, and never back
 *   P6  messages, files and memory stay within stated numbers
 * and with a journal (sim_checker_history.c):
 *   P1  every acknowledged push is in what a later owner begins with
 *   P2  no id is applied twice in the history that survives; a repeated one gets the first version
 *   P5  what was recovered equals, bit for bit, the state that the shard had when the last of its
 *       pushes had been applied; positions rise by one
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail.
 * Memory:   its own, from the C library.
 */
#ifndef PS_TESTS_SIM_SIM_CHECKER_H
#define PS_TESTS_SIM_SIM_CHECKER_H

#include "server/core/recovery/recovery_run.h"
#include "tests/sim/sim_server.h"

struct sim_history; /* of one shard */
struct sim_history *sim_checker_history(const struct sim_world *world, uint32_t index);

struct sim_states; /* sim_states.h: of all shards */
struct sim_states *sim_checker_states(const struct sim_world *world);

struct sim_rounds; /* sim_rounds.h: of all shards */
struct sim_rounds *sim_checker_rounds(const struct sim_world *world);

struct sim_rows; /* sim_table_rows.h: of all shards */
struct sim_rows *sim_checker_rows(const struct sim_world *world);

struct sim_told; /* sim_clocks_told.h: of all shards */
struct sim_told *sim_checker_told(const struct sim_world *world);

struct sim_checker *sim_checker_create(struct sim_world *world);
void sim_checker_destroy(struct sim_checker *checker);

void sim_checker_after_event(struct sim_world *world);

/* The server's coordinator has a new claim. */
void sim_checker_claimed(struct sim_world *world, const struct sim_server *server);

/* Claims seen so far. */
uint64_t sim_checker_claims(const struct sim_world *world);

/* The server has handled a call: remembers the state it is in. */
void sim_checker_state(struct sim_world *world, const struct sim_server *server);

/* The server has filled itself from a checkpoint. */
void sim_checker_loaded(struct sim_world *world, const struct sim_server *server,
                        const struct ps_recovered *recovered);

/* The server begins under its claim, with what was loaded: P1, P5. */
void sim_checker_began(struct sim_world *world, const struct sim_server *server,
                       const struct ps_recovered *recovered);

#define SIM_NO_ENTRY SIZE_MAX

/* The server took a push, or knew it: P2. Its entry in the shard's history. */
size_t sim_checker_pushed(struct sim_world *world, const struct sim_server *server,
                          const struct ps_push_request *request, const struct ps_push_reply *reply);

/* The server took a definition, a drop or a configuration, or knew it: P2. `position` is what it is
 * at. Its entry in the shard's history. */
size_t sim_checker_changed(struct sim_world *world, const struct sim_server *server,
                           enum ps_method method, struct ps_bytes name,
                           const struct ps_request_id *id, uint64_t position, bool duplicate);

/* What the service remembers of ids after it has taken pushes: the last of them gives its id to
 * nothing else, and named clients have as many pushes as the history. P2. */
void sim_checker_ids(struct sim_world *world, const struct sim_server *server);

/* Under its mutations: what a recovery brings back of ids is less than it should be. */
void sim_forget_ids(const struct sim_server *server);

/* The push is acknowledged: from now on it has to survive. */
void sim_checker_acknowledged(struct sim_world *world, const struct sim_server *server,
                              size_t entry);

/* The server has written a checkpoint file, which a service of its own loads (sim_states.c). */
void sim_checker_wrote(struct sim_world *world, const struct sim_server *server);

/* A reply leaves the server. */
void sim_checker_replied(struct sim_world *world, const struct sim_server *server,
                         const struct sim_message *request, enum ps_status status);

/* Something was written to the store. */
void sim_checker_store_changed(struct sim_world *world);

/* Something happened to the files of a shard. */
void sim_checker_disk_changed(struct sim_world *world, uint32_t index);

/* The checkpoints of a shard. */
struct sim_files_view {
    bool is_published; /* the shard has a pointer to one of them */
    size_t whole_count, damaged_count;
    size_t usable_count; /* whole ones but those that came late, after a later owner's of less */
    char newest[256];    /* path of the newest whole one; "" without */
};
void sim_checker_look_at_files(struct sim_world *world, uint32_t index,
                               struct sim_files_view *view);

#endif
