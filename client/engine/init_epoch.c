/* SPDX-License-Identifier: Apache-2.0 */
/* What a trainer knows about who took its parameters. Without this a server that was replaced in
 * the middle of an initialisation would be told to finish, and would serve half of a model. */
#include "client/engine/init_epoch.h"

#include "base/assert.h"

#include <stdbool.h>
#include <stddef.h>

/* At the beginning of each try: what an earlier one knew says nothing about this one. */
void ps_init_epochs_begin(uint64_t *epochs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        epochs[i] = PS_INIT_EPOCH_NONE;
}

/* Parameters that two owners took are not all with either of them, so no epoch can be named. A
 * server that says 0 is older than epochs and is not held to them. */
void ps_init_epoch_taken(uint64_t *known, uint64_t epoch)
{
    PS_ASSERT(known != NULL);
    if (epoch == 0 || *known == epoch)
        return;
    bool first = *known == PS_INIT_EPOCH_NONE || *known == PS_INIT_EPOCH_LOST;
    *known = first ? epoch : PS_INIT_EPOCH_MIXED;
}

/* Taken before, nobody knows under which owner. */
void ps_init_epoch_exists(uint64_t *known)
{
    PS_ASSERT(known != NULL);
    *known = PS_INIT_EPOCH_MIXED;
}

/* One shard has lost its parameters. All of them are initialised anew, so what is known of the
 * others holds no longer either. */
void ps_init_epochs_lost(uint64_t *epochs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (epochs[i] != PS_INIT_EPOCH_NONE)
            epochs[i] = PS_INIT_EPOCH_LOST;
    }
}

/* The engine hands every outcome to this function; only three of them say anything here. */
void ps_init_epochs_note(uint64_t *epochs, uint32_t count, uint32_t shard, enum ps_method method,
                         const struct ps_call_outcome *outcome)
{
    if (epochs == NULL)
        return;
    PS_ASSERT(shard < count);
    if (method == PS_METHOD_INIT && outcome->status == PS_OK)
        ps_init_epoch_taken(&epochs[shard], outcome->reply.init.epoch);
    if (method == PS_METHOD_INIT && outcome->status == PS_ERR_EXISTS)
        ps_init_epoch_exists(&epochs[shard]);
    if (method == PS_METHOD_FINISH && outcome->status == PS_ERR_STALE_EPOCH)
        ps_init_epochs_lost(epochs, count);
}
