/* SPDX-License-Identifier: Apache-2.0 */
/* One number says which process uses gRPC, and how often: a fork copies both halves as they are at
 * one moment, and no lock can be in the hands of a thread that the child does not have. It is of
 * the whole process because gRPC's state is; several clients of one process share it. */
#include "client/channel/grpc_process.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <stdint.h>
#include <unistd.h>

#define USERS_MASK ((uint64_t)UINT32_MAX)
#define PROCESS_SHIFT 32

/* The process's id above, its users below; 0 users: nobody's. */
static _Atomic uint64_t owner;

static uint64_t this_process(void)
{
    return (uint64_t)(uint32_t)getpid() << PROCESS_SHIFT;
}

/* An owner without users is one that ended its gRPC: whoever comes next may have it. */
bool ps_grpc_process_enter(void)
{
    uint64_t mine = this_process();
    uint64_t now = atomic_load(&owner);
    uint64_t next;
    do {
        uint64_t users = now & USERS_MASK;
        PS_ASSERT(users < USERS_MASK);
        if (users > 0 && (now & ~USERS_MASK) != mine)
            return false;
        next = mine | (users + 1);
    } while (!atomic_compare_exchange_weak(&owner, &now, next));
    return true;
}

/* In a child nobody leaves: what the parent had is the parent's. */
void ps_grpc_process_leave(void)
{
    uint64_t before = atomic_fetch_sub(&owner, 1);
    PS_ASSERT((before & USERS_MASK) > 0);
    PS_ASSERT((before & ~USERS_MASK) == this_process());
}
