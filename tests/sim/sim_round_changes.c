/* SPDX-License-Identifier: Apache-2.0 */
/* A list in the order of time, gone through for each question: a world has some dozen changes. */
#include "tests/sim/sim_round_changes.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 32

struct sim_round_change {
    char name[NAME_BYTES];
    size_t name_size;
    uint64_t epoch, position;
    struct sim_new_setting setting;
    uint64_t version;
    uint64_t order;
};

void sim_round_changes_fini(struct sim_round_changes *changes)
{
    free(changes->list);
    *changes = (struct sim_round_changes){0};
}

void sim_round_changes_note(struct sim_round_changes *changes, struct ps_bytes name, uint64_t epoch,
                            uint64_t position, struct sim_new_setting setting, uint64_t version,
                            uint64_t order)
{
    if (changes->count == changes->capacity) {
        changes->capacity = 2 * changes->capacity + 16;
        changes->list = realloc(changes->list, changes->capacity * sizeof *changes->list);
        PS_ASSERT(changes->list != NULL);
    }
    struct sim_round_change *change = &changes->list[changes->count++];
    *change = (struct sim_round_change){.name_size = name.size,
                                        .epoch = epoch,
                                        .position = position,
                                        .setting = setting,
                                        .version = version,
                                        .order = order};
    PS_ASSERT(name.size <= sizeof change->name && order > 0);
    memcpy(change->name, name.data, name.size);
}

static void apply(const struct sim_round_change *change, struct sim_rules_now *now)
{
    struct sim_round_rules *rules = &now->rules;
    uint64_t value = change->setting.value;
    switch (change->setting.kind) {
    case SIM_CHANGES_WORKERS:
        /* Others, and all of them are waited for. */
        if (rules->workers != (uint32_t)value)
            now->workers_since = change->version;
        rules->workers = (uint32_t)value;
        break;
    case SIM_CHANGES_QUORUM:
        rules->quorum = (uint32_t)value;
        now->quorum_order = change->order;
        break;
    case SIM_CHANGES_GRACE:
        rules->grace_ms = value;
        break;
    case SIM_CHANGES_COMBINE:
        rules->combine = (enum sim_combine)value;
        break;
    case SIM_CHANGES_LATE:
        rules->late_is_next = value != 0;
        break;
    case SIM_CHANGES_LIMIT:
        PS_ASSERT(false && "only tables have a limit");
    }
}

struct sim_rules_now sim_round_changes_at(const struct sim_round_changes *changes,
                                          const struct sim_history *history, uint64_t epoch,
                                          struct ps_bytes name, const struct sim_round_rules *first)
{
    struct sim_rules_now now = {.rules = *first, .workers_since = UINT64_MAX};
    for (size_t i = 0; i < changes->count; i++) {
        const struct sim_round_change *change = &changes->list[i];
        const struct ps_bytes its = {(const uint8_t *)change->name, change->name_size};
        if (ps_bytes_equal(its, name) &&
            sim_history_survives(history, epoch, change->epoch, change->position))
            apply(change, &now);
    }
    return now;
}
