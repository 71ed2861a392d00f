/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of nodes and groups. A node's number says its role and rank, so that no table of nodes is
 * needed: ranks come from the job's shards and from the group of workers.
 *
 * The numbers are kept since programs that come from ps-lite have them in their code, as the
 * receiver of a request. Its scheduler has none of its work left: who is there is in etcd, barriers
 * are met at a server, and nobody waits for a process that is one of its kind. A request to it is
 * refused in words, and not sent to somebody else. */
#include "client/programs/program_nodes.h"

#include "base/assert.h"

#include <inttypes.h>

/* Of an app's number at a worker: the bit that no app has. */
#define WORKER_MAILBOX 0x80000000u

/* Servers have even numbers, workers odd ones. */
uint32_t ps_program_node_id(struct ps_program_node node)
{
    PS_ASSERT(node.rank <= PS_PROGRAM_RANK_MAX);
    return PS_NODE_FIRST + 2 * node.rank + (node.is_worker ? 1 : 0);
}

/* Any number from 8 on is a node's, whether or not the job has it: that is judged with the sizes of
 * its groups. */
enum ps_status ps_program_node_of(uint32_t id, struct ps_program_node *node, struct ps_error *error)
{
    if (id < PS_NODE_FIRST)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%" PRIu32 " is a group and not a node", id);
    uint32_t rank = (id - PS_NODE_FIRST) / 2;
    if (rank > PS_PROGRAM_RANK_MAX)
        return ps_fail(error, PS_ERR_BAD_INPUT, "node %" PRIu32 " has too high a rank", id);
    *node = (struct ps_program_node){.is_worker = id % 2 == 1, .rank = rank};
    return PS_OK;
}

/* A node that does not exist is refused here, in words: a request to it would wait for its whole
 * time. */
enum ps_status ps_program_group_size(uint32_t id, uint32_t server_count, uint32_t worker_count,
                                     size_t *size, struct ps_error *error)
{
    struct ps_program_node node = {0};
    if (id == 0 || id == PS_NODE_SCHEDULER_BIT)
        return ps_fail(error, PS_ERR_BAD_INPUT, "group %" PRIu32 " has no members", id);
    if (id <= PS_NODE_GROUPS_MAX) {
        *size = ((id & PS_NODE_SERVERS_BIT) != 0 ? server_count : 0) +
                (size_t)((id & PS_NODE_WORKERS_BIT) != 0 ? worker_count : 0);
        if (*size == 0)
            return ps_fail(error, PS_ERR_BAD_INPUT, "group %" PRIu32 " has no members", id);
        return PS_OK;
    }
    PS_TRY(ps_program_node_of(id, &node, error));
    uint32_t count = node.is_worker ? worker_count : server_count;
    if (node.rank >= count)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "there is no %s %" PRIu32 ": the job has %" PRIu32 " of them",
                       node.is_worker ? "worker" : "server", node.rank, count);
    *size = 1;
    return PS_OK;
}

/* Servers come first, so that a request to all of a job leaves for those first who answer at
 * once. */
struct ps_program_node ps_program_group_member(uint32_t id, uint32_t server_count, size_t i)
{
    struct ps_program_node node = {0};
    if (id > PS_NODE_GROUPS_MAX) {
        enum ps_status status = ps_program_node_of(id, &node, NULL);
        PS_ASSERT(status == PS_OK && i == 0);
        return node;
    }
    size_t servers = (id & PS_NODE_SERVERS_BIT) != 0 ? server_count : 0;
    node.is_worker = i >= servers;
    node.rank = (uint32_t)(i - (node.is_worker ? servers : 0));
    return node;
}

/* The bit, then 15 bits of rank, then the app: two of them are never equal. */
uint32_t ps_program_mailbox(uint32_t app, struct ps_program_node node)
{
    PS_ASSERT(app <= PS_PROGRAM_APP_MAX);
    PS_ASSERT(node.rank <= PS_PROGRAM_RANK_MAX);
    return node.is_worker ? WORKER_MAILBOX | node.rank << 16 | app : app;
}

/* A worker's mailbox may be at any server, as long as all agree; by rank they are spread. */
uint32_t ps_program_mailbox_shard(struct ps_program_node node, uint32_t server_count)
{
    PS_ASSERT(server_count > 0);
    return node.rank % server_count;
}
