/* SPDX-License-Identifier: Apache-2.0 */
/* Asking for a snapshot of the whole model (etcd/registry_sets.h): what a call asks, and what the
 * thread with the store answers.
 *
 * Threads:  that of the registry's store; afterwards the caller's.
 * Blocking: until `deadline_ms`.
 * Errors:   ask: PS_ERR_BUSY while another set is under way; those of etcd/kv.h.
 * Memory:   the rows of an answer are the question's: end with ps_set_question_fini.
 */
#ifndef PS_SERVER_CORE_SET_QUESTION_H
#define PS_SERVER_CORE_SET_QUESTION_H

#include "etcd/registry_sets.h"

struct ps_set_question {
    char name[PS_SET_NAME_BYTES_MAX + 1];
    bool begins;               /* asks for the set, if nobody has; else it only looks */
    bool is_there;             /* after it: the set is under way or whole */
    bool is_whole;             /* after it */
    uint32_t shard_count;      /* after it, of a set that is there */
    struct ps_kv_entries rows; /* after it: pointers of the shards that are done */
};

PS_MUST_USE enum ps_status ps_set_question_ask(struct ps_registry *registry,
                                               struct ps_set_question *question, uint64_t unix_ns,
                                               uint64_t deadline_ms, struct ps_error *error);

/* Accepts a zeroed one. */
void ps_set_question_fini(struct ps_set_question *question);

#endif
