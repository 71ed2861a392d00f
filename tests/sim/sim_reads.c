/* SPDX-License-Identifier: Apache-2.0 */
/* The truth about what came in ranges: the engine put them together, out of the simulator's sight,
 * so the whole is compared when the batch is over. */
#include "tests/sim/sim_reads.h"

#include "base/assert.h"
#include "base/hash.h"
#include "client/engine/placement.h"
#include "tests/sim/sim_client.h"
#include "tests/sim/sim_replica.h"

#include <inttypes.h>
#include <string.h>

static uint64_t hash_of(struct ps_bytes name)
{
    return ps_hash_fnv1a32(name);
}

void sim_reads_note(struct sim_reads *reads, const struct ps_pull_reply *reply,
                    const struct ps_chain *chain)
{
    const struct sim_read read = {
        .name = hash_of(reply->name), .version = reply->version, .chain = *chain};
    size_t kept = reads->count < SIM_READS_MAX ? reads->count : SIM_READS_MAX;
    for (size_t i = 0; i < kept; i++) {
        const struct sim_read *it = &reads->list[i];
        if (it->name == read.name && it->version == read.version &&
            it->chain.epoch == chain->epoch && it->chain.life == chain->life)
            return;
    }
    reads->list[reads->count++ % SIM_READS_MAX] = read;
}

/* Is it what some answer's version was? Of a parameter on several shards only the lowest version is
 * known, so any version that was read of this range will do. */
static bool is_true(struct sim_client *client, struct ps_bytes name, struct ps_bytes content,
                    const uint64_t *version)
{
    const struct sim_reads *reads = &client->reads;
    size_t kept = reads->count < SIM_READS_MAX ? reads->count : SIM_READS_MAX;
    for (size_t i = 0; i < kept; i++) {
        const struct sim_read *it = &reads->list[i];
        if (it->name == hash_of(name) && (version == NULL || it->version == *version) &&
            sim_truths_has(client->world, name, &it->chain, it->version, content))
            return true;
    }
    return false;
}

static void judge_range(struct sim_client *client, const struct ps_item *item,
                        const struct ps_placement *placement, uint32_t k)
{
    char text[PS_NAME_BYTES_MAX];
    const struct ps_range range = ps_placement_range(placement, item->name, k);
    const struct ps_bytes name = {(const uint8_t *)text,
                                  ps_placement_name(placement, item->name, k, text)};
    const struct ps_bytes content = {item->destination + range.offset, range.size};
    const uint64_t *version = placement->range_count == 1 ? &item->pulled_version : NULL;
    if (!sim_is_uniform(ps_view_of(&content), ps_dtype_size(item->dtype)))
        sim_fail(client->world, "ranges: %s has a mixture as version %" PRIu64 " of %.*s",
                 client->name, item->pulled_version, (int)name.size, text);
    else if (!is_true(client, name, content, version))
        sim_fail(client->world, "ranges: %s has what never was version %" PRIu64 " of %.*s",
                 client->name, item->pulled_version, (int)name.size, text);
}

void sim_reads_judge(struct sim_client *client)
{
    for (size_t i = 0; i < client->item_count; i++) {
        const struct ps_item *item = &client->items[i];
        if (item->status != PS_OK)
            continue;
        const struct ps_layout layout = sim_client_layout(client);
        const struct ps_placement placement =
            ps_placement_of(item->size, ps_dtype_size(item->dtype), &layout);
        for (uint32_t k = 0; k < placement.range_count; k++)
            judge_range(client, item, &placement, k);
    }
}
