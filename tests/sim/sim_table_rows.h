/* SPDX-License-Identifier: Apache-2.0 */
/* A model of every shard's tables: each push that was applied, each sweep, by its place in the
 * shard's history, and the rows that come of those that survive in an owner's past. It calls
 * nothing of the product's tables or rules.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   sim_fail, "rows: ...".
 * Memory:   its own, from the C library.
 */
#ifndef PS_TESTS_SIM_SIM_TABLE_ROWS_H
#define PS_TESTS_SIM_SIM_TABLE_ROWS_H

#include "checkpoint/checkpoint.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/sim_settings.h"
#include "tests/sim/sim_tables.h"

#define SIM_TABLE_RATE 0.125
#define SIM_TABLE_MOMENTUM_FACTOR 0.5
#define SIM_TABLE_EPSILON 0.0625

struct sim_rows;
struct sim_table_copy;
struct sim_moments;
struct sim_leases;

struct sim_rows *sim_rows_create(void);
void sim_rows_destroy(struct sim_rows *rows);

/* The model's table of that owner, with everything that is known of its past. NULL: it is no table,
 * or nobody will hear of what this owner has. */
struct sim_table_copy *sim_rows_copy(const struct sim_world *world, uint32_t index, uint64_t epoch,
                                     struct ps_bytes name);

/* The copy goes on to a version that its server has: of a table in rounds those end that are over.
 * Fails where one of them has fewer contributions than it needs. */
void sim_rows_reach(const struct sim_world *world, const struct sim_server *server,
                    struct sim_table_copy *copy, uint64_t version);

/* The world has this table. */
void sim_rows_know(struct sim_world *world, uint32_t i, const struct sim_table *table);
const struct sim_table *sim_rows_table(const struct sim_world *world, uint32_t i);

/* The server has taken that definition of the table; not for the first time: nothing happens. */
void sim_rows_defined(struct sim_server *server, struct ps_bytes name, struct ps_bytes config,
                      uint64_t position);

/* The server has the table no more, since just now. */
void sim_rows_dropped(struct sim_server *server, struct ps_bytes name, uint64_t position);

/* The server has another limit of rows for the table, or other rules of rounds, for the first
 * time. */
void sim_rows_changed(struct sim_server *server, struct ps_bytes name, uint64_t position,
                      struct sim_new_setting change);

/* The server has refused a change: a round is open. */
void sim_rows_unchanged(struct sim_server *server, struct ps_bytes name,
                        struct sim_new_setting change);

/* The server has applied the push as its trainer sent it. */
void sim_rows_pushed(struct sim_server *server, const struct ps_push_request *request,
                     const struct ps_push_reply *reply);

/* The server has refused the push for the number of rows. */
void sim_rows_refused(struct sim_server *server, const struct ps_push_request *request);

/* The server's coordinator has a turn. Between a look at rows that may go and the moment at which
 * they do, pushes come by, as lanes bring them. */
void sim_rows_turn(struct sim_server *server);

/* The server's coordinator has had its turn: rows may have expired. */
void sim_rows_turned(struct sim_server *server);

/* The minimum of the workers' clocks, as the server has it. */
uint64_t sim_rows_clock(const struct sim_server *server);

/* For how long shards could be pushed to (sim_table_leases.h). */
struct sim_leases *sim_rows_leases(const struct sim_world *world);

/* Is it in the midst of a sweep? */
bool sim_rows_sweep(const struct sim_server *server);

/* What went of each key with that turn: enum sim_gone (sim_table_copy.h). */
void sim_rows_expired(struct sim_server *server, struct ps_bytes name, const uint8_t *gone);

/* The server answers so. */
void sim_rows_pulled(struct sim_server *server, const struct ps_pull_request *request,
                     const struct ps_pull_reply *reply);

/* No shard of a table in ranges takes a key of another: fails where one of these is. */
void sim_rows_look_at_keys(struct sim_server *server, const struct sim_table *about, uint32_t shard,
                           struct ps_view keys, size_t count);

/* What was given to those who follow tables (sim_table_follow.h). */
struct sim_moments *sim_rows_moments(const struct sim_world *world);

/* Hashes of answers: the newest are known again. */
void sim_rows_note_answer(const struct sim_world *world, uint64_t hash);
bool sim_rows_knows_answer(const struct sim_world *world, uint64_t hash);

/* Does the server's table have workers whose rounds make its versions? */
bool sim_rows_are_in_rounds(const struct sim_server *server, struct ps_bytes name);

/* Does a contribution that came too late count in the next round of the server's table? */
bool sim_rows_count_late(const struct sim_server *server, struct ps_bytes name);

/* Did the key have a row when the server was looked at last? */
bool sim_rows_has(struct sim_server *server, struct ps_bytes name, uint64_t key);

/* The trainer has got these rows: did a server give them? */
void sim_rows_judge(struct sim_client *client, const struct ps_item *item);

/* A parameter in a state of the shard's owner: of a table, are its rows the model's? */
void sim_rows_state(struct sim_world *world, const struct sim_server *server, uint32_t index,
                    uint64_t epoch, const struct ps_checkpoint_parameter *parameter);

/* The server's state has been looked at: are all tables there that must be? */
void sim_rows_complete(struct sim_world *world, const struct sim_server *server, uint32_t index,
                       uint64_t epoch);

/* The same for equal rows in any order. */
uint64_t sim_rows_hash(const struct ps_checkpoint_parameter *parameter);

#endif
