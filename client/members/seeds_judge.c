/* SPDX-License-Identifier: Apache-2.0 */
/* What seeds have said, understood. Here is the one rule by which a list of servers is told from
 * seeds. It must never take one for the other:
 * parameters that were placed over half of a job's servers are found by nobody else. */
#include "client/members/seeds.h"

#include <string.h>

/* Servers that are alone are a list, in the order in which their caller gave them: nothing moves
 * there, and none knows of the others. */
enum ps_seeds_verdict ps_seeds_judge(bool unsupported, bool alone, uint32_t shard_count,
                                     uint32_t seed_count)
{
    if (unsupported)
        return PS_SEEDS_LIST;
    if (shard_count == 0)
        return PS_SEEDS_OPEN;
    return alone && (seed_count > 1 || shard_count == 1) ? PS_SEEDS_LIST : PS_SEEDS_CLUSTER;
}

/* Without the revision, which is the caller's to say: of several answers the known one is put
 * together. */
enum ps_status ps_seeds_members(const struct ps_cluster_reply *known,
                                const struct ps_allocator *memory, struct ps_members *members,
                                struct ps_error *error)
{
    struct ps_members made = {
        .memory = memory, .shard_count = known->shard_count, .placement = known->placement};
    made.rows = ps_zeroed_array(memory, known->shard_count, sizeof *made.rows);
    if (made.rows == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for %u servers", known->shard_count);
    for (uint32_t i = 0; i < known->shard_count; i++) {
        made.rows[i].epoch = known->rows[i].epoch;
        memcpy(made.rows[i].address, known->rows[i].address, sizeof made.rows[i].address);
    }
    *members = made;
    return PS_OK;
}
