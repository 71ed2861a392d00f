/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of nodes and groups, as ps-lite has them: the scheduler is 1, the server of rank r is
 * 8 + 2r, the worker of rank r is 9 + 2r. Sums of 1, 2 and 4 are groups.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT.
 * Memory:   the caller's.
 */
#ifndef PS_CLIENT_PROGRAM_NODES_H
#define PS_CLIENT_PROGRAM_NODES_H

#include "base/status.h"

#include <stddef.h>

enum {
    PS_NODE_SCHEDULER_BIT = 1,
    PS_NODE_SERVERS_BIT = 2,
    PS_NODE_WORKERS_BIT = 4,
    PS_NODE_GROUPS_MAX = 7,
    PS_NODE_FIRST = 8
};

/* Apps have 16 bits, so that the mailbox of an app at one worker is an app of its own: the wire
 * knows apps and no workers that are asked. */
#define PS_PROGRAM_APP_MAX 0xffffu
#define PS_PROGRAM_RANK_MAX 0x7ffeu

/* One member of whom a request is asked. */
struct ps_program_node {
    bool is_worker;
    uint32_t rank;
};

uint32_t ps_program_node_id(struct ps_program_node node);

/* PS_ERR_BAD_INPUT: a group, or a rank that is too high. */
PS_MUST_USE enum ps_status ps_program_node_of(uint32_t id, struct ps_program_node *node,
                                              struct ps_error *error);

/* How many members a node or group has, with so many servers and workers. The scheduler has no
 * part in a job of ours, since etcd and the servers do its work: it is no member of any group. */
PS_MUST_USE enum ps_status ps_program_group_size(uint32_t id, uint32_t server_count,
                                                 uint32_t worker_count, size_t *size,
                                                 struct ps_error *error);

/* Member i of a group whose size was asked for before: servers first, both by rank. */
struct ps_program_node ps_program_group_member(uint32_t id, uint32_t server_count, size_t i);

/* The number under which requests to this app at this node are kept by a server, and which of so
 * many servers has them: a server's own, a worker's with its rank modulo their number. */
uint32_t ps_program_mailbox(uint32_t app, struct ps_program_node node);
uint32_t ps_program_mailbox_shard(struct ps_program_node node, uint32_t server_count);

#endif
