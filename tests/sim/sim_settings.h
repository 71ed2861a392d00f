/* SPDX-License-Identifier: Apache-2.0 */
/* What trainers configure in the midst of a run: the limit of a table, and how the rounds of a
 * table or of a parameter go on. A change sets one thing on one shard; settings of shards have
 * nothing to do with each other.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   none: what became of it is the server's affair, and the models'.
 * Memory:   the caller's.
 */
#ifndef PS_TESTS_SIM_SIM_SETTINGS_H
#define PS_TESTS_SIM_SIM_SETTINGS_H

#include "base/bytes.h"
#include "client/engine/engine.h"
#include "tests/sim/sim.h"

/* Of an encoded change. */
#define SIM_SETTING_BYTES 6

enum sim_setting {
    SIM_CHANGES_LIMIT,
    SIM_CHANGES_WORKERS, /* those of rounds in the order of their fields */
    SIM_CHANGES_QUORUM,
    SIM_CHANGES_GRACE,
    SIM_CHANGES_COMBINE,
    SIM_CHANGES_LATE
};
struct sim_new_setting {
    enum sim_setting kind;
    uint64_t value; /* rows_max, workers, quorum, grace_ms, enum sim_combine, late_is_next */
};

/* Something else for rounds that began with so many workers; `combines`: how they are combined may
 * be changed, too. */
struct sim_new_setting sim_settings_draw(struct sim_world *world, uint32_t workers, bool combines);

/* Makes the item, whose name and shard are set, one that configures this; `bytes` are borrowed
 * until the batch is over. */
void sim_settings_ask(struct ps_item *item, struct sim_new_setting wish,
                      uint8_t bytes[SIM_SETTING_BYTES]);

/* What a server was asked for. */
struct sim_new_setting sim_settings_read(struct ps_bytes change);

/* For answers in which there is nothing to know. */
struct ps_answer_taker sim_settings_answer(void);

#endif
