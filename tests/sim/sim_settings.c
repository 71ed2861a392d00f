/* SPDX-License-Identifier: Apache-2.0 */
/* OptimizerConfig {table {rows_max}} or {rounds {one of them}}, as the .proto numbers the fields:
 * what the server reads of it is the server's own affair. */
#include "tests/sim/sim_settings.h"

#include "base/assert.h"
#include "tests/sim/sim_rounds.h"

/* First bytes of what OptimizerConfig has: tables, rounds; in a table rows_max is the second field,
 * and in rounds workers, quorum, grace_ms, combine and late are all. A field of numbers has
 * its own number above three bits. */
#define TABLE_FIELD 0xA2
#define ROUNDS_FIELD 0x92
#define LIMIT_FIELD 2
#define FIELD_BITS 3

struct sim_new_setting sim_settings_draw(struct sim_world *world, uint32_t workers, bool combines)
{
    /* Of workers often: most of these come while a round is open, and are refused. */
    enum sim_setting kind = SIM_CHANGES_WORKERS;
    if (sim_chance(world, 500))
        kind = (enum sim_setting)sim_between(world, SIM_CHANGES_QUORUM, SIM_CHANGES_LATE);
    if (kind == SIM_CHANGES_COMBINE && combines)
        return (struct sim_new_setting){
            kind, sim_between(world, SIM_COMBINE_AVERAGE, SIM_COMBINE_WEIGHTED)};
    if (kind == SIM_CHANGES_LATE)
        return (struct sim_new_setting){kind, sim_between(world, 0, 1)};
    if (kind == SIM_CHANGES_GRACE)
        return (struct sim_new_setting){kind,
                                        sim_chance(world, 300) ? 0 : sim_between(world, 300, 5000)};
    /* All trainers are workers in most rounds; without workers every push is a version. */
    if (kind == SIM_CHANGES_WORKERS)
        return (struct sim_new_setting){
            kind, sim_chance(world, 500) ? workers : sim_between(world, 0, workers)};
    return (struct sim_new_setting){SIM_CHANGES_QUORUM, sim_between(world, 0, workers)};
}

static enum ps_status take_answer(void *self, const struct ps_call_reply *reply,
                                  struct ps_error *error)
{
    (void)self;
    (void)reply;
    (void)error;
    return PS_OK;
}

struct ps_answer_taker sim_settings_answer(void)
{
    return (struct ps_answer_taker){take_answer, NULL};
}

void sim_settings_ask(struct ps_item *item, struct sim_new_setting wish,
                      uint8_t bytes[SIM_SETTING_BYTES])
{
    bool is_limit = wish.kind == SIM_CHANGES_LIMIT;
    uint32_t field = is_limit ? LIMIT_FIELD : (uint32_t)wish.kind - SIM_CHANGES_WORKERS + 1;
    PS_ASSERT(wish.value < UINT64_C(1) << 14);
    bytes[0] = is_limit ? TABLE_FIELD : ROUNDS_FIELD;
    bytes[1] = 0x0D;
    bytes[2] = 3;
    bytes[3] = (uint8_t)(field << FIELD_BITS);
    bytes[4] = (uint8_t)(wish.value & 0x7F) | 0x80;
    bytes[5] = (uint8_t)(wish.value >> 7);
    item->config = (struct ps_bytes){bytes, SIM_SETTING_BYTES};
    item->answer = sim_settings_answer();
}

struct sim_new_setting sim_settings_read(struct ps_bytes change)
{
    PS_ASSERT(change.size == SIM_SETTING_BYTES);
    const uint8_t *bytes = change.data;
    int field = bytes[3] >> FIELD_BITS;
    return (struct sim_new_setting){
        .kind = bytes[0] == TABLE_FIELD ? SIM_CHANGES_LIMIT
                                        : (enum sim_setting)(SIM_CHANGES_WORKERS + field - 1),
        .value = (bytes[4] & 0x7FU) | (uint64_t)bytes[5] << 7};
}
