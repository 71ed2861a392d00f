/* SPDX-License-Identifier: Apache-2.0 */
/* The one rule by which a list of servers is told from seeds. It must never take one for the other:
 * parameters that were placed over half of a job's servers are found by nobody else. */
#include "client/members/seeds.h"

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
