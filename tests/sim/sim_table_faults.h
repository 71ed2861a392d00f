/* SPDX-License-Identifier: Apache-2.0 */
/* What the mutations of tables do to requests, answers, records and checkpoints. Without its
 * mutation each does nothing.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the caller's, as said.
 */
#ifndef PS_TESTS_SIM_SIM_TABLE_FAULTS_H
#define PS_TESTS_SIM_SIM_TABLE_FAULTS_H

#include "checkpoint/journal.h"
#include "server/core/recovery/saver.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/sim_tables.h"

/* A content of its own for a push of rows. */
struct sim_bent_rows {
    uint8_t bytes[(SIM_TABLE_BATCH_MAX + 1) * (1 + SIM_TABLE_WIDTH_MAX) * 8];
    struct ps_bytes piece;
};

void sim_rows_bend_push(const struct sim_server *server, struct ps_push_request *request,
                        struct sim_bent_rows *bent);

void sim_rows_bend_pull(struct sim_server *server, const struct ps_pull_request *request,
                        struct ps_pull_reply *reply);

/* `piece` is what the record's content views then; `bent` has room for it. */
void sim_rows_bend_expiry(enum sim_mutation mutation, struct ps_record *record, uint8_t *bent,
                          struct ps_bytes *piece);

/* The same for a contribution of rows, and for the end of a round of rows. */
void sim_rows_bend_round(enum sim_mutation mutation, struct ps_record *record, uint8_t *bent,
                         struct ps_bytes *piece);

/* A world begins: from here on servers judge rounds as its mutation wants it. */
void sim_rows_begin(enum sim_mutation mutation);

/* Writes the checkpoint with the rows of now. */
PS_MUST_USE enum ps_status sim_rows_write_late(const struct ps_saver *saver,
                                               struct ps_saving *saving);

/* Writes it without the keys that are counted until they get a row. */
PS_MUST_USE enum ps_status sim_rows_write_uncounted(const struct ps_saver *saver,
                                                    struct ps_saving *saving);

/* Was a push refused because its table has as many rows as it may? */
bool sim_is_full(const struct ps_item_status *status);

#endif
