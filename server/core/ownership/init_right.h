/* SPDX-License-Identifier: Apache-2.0 */
/* The right to initialise a job, asked for by a server in the name of a trainer that knows no
 * store. Everything that is known of the right lies in the store under the trainer's number, so
 * that any server can go on with what another one began.
 *
 * Threads:  that of the registry's store.
 * Blocking: until `deadline_ms`.
 * Errors:   each function lists its own; beyond these, those of etcd/kv.h.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_INIT_RIGHT_H
#define PS_SERVER_CORE_INIT_RIGHT_H

#include "etcd/registry.h"

enum ps_init_wish {
    PS_INIT_BEGIN,  /* ask for the right, or keep it */
    PS_INIT_FINISH, /* every shard was finished: the job is initialised */
    PS_INIT_ABANDON /* give it up */
};

/* What a trainer asks, and what it is told. */
struct ps_init_question {
    enum ps_init_wish wish;
    uint64_t client;        /* not 0 */
    uint64_t ttl_ms;        /* BEGIN: PS_INIT_TTL_MS_MIN to PS_INIT_TTL_MS_MAX */
    int64_t right;          /* that it was told; 0: none yet. After BEGIN: that it has now */
    int64_t lost;           /* FINISH: that it was told. After BEGIN: to be given to FINISH */
    enum ps_init_turn turn; /* after BEGIN */
    uint64_t placement; /* BEGIN: proposed; 0: nothing. After BEGIN: what is decided; 0: nothing */
};

#define PS_INIT_TTL_MS_MIN 1000
#define PS_INIT_TTL_MS_MAX (3600 * 1000)

/* PS_OK               done; of BEGIN, `question` has the answer
 * PS_ERR_STALE_EPOCH  the right that the question names is not there any more
 * PS_ERR_CONFLICT     FINISH: a shard has begun without any state since `lost` was told; the right
 *                     is still the trainer's
 */
PS_MUST_USE enum ps_status ps_init_right_ask(struct ps_registry *registry,
                                             struct ps_init_question *question,
                                             uint64_t deadline_ms, struct ps_error *error);

#endif
