/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank a worker gets: decided from one reading of its group.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_SERVER_CORE_WORKER_CHOICE_H
#define PS_SERVER_CORE_WORKER_CHOICE_H

#include "etcd/registry_workers.h"

enum ps_worker_verdict {
    PS_WORKER_OURS,    /* the client has a place already: `row` */
    PS_WORKER_FREE,    /* it may have `rank` */
    PS_WORKER_FULL,    /* every rank is taken */
    PS_WORKER_HELD,    /* another client has the name or the rank that it must have: `row` */
    PS_WORKER_MISMATCH /* the others of the group have said another size */
};

/* What a worker wishes. */
struct ps_worker_wish {
    const char *name; /* "": none */
    uint64_t client;
    uint32_t size; /* 0: as the others say */
    uint32_t rank; /* 1 + the rank that it must be; 0: any */
};

struct ps_worker_choice {
    enum ps_worker_verdict verdict;
    uint32_t rank;
    uint32_t size;                   /* of the group, with this worker in it; 0: no end */
    const struct ps_worker_row *row; /* of what was read */
};

/* `rows` are of one group that was read alone. A client that has a place keeps it, whatever it
 * wishes now. The rank of a worker's wish goes before the one that its name had last, and that
 * before the smallest that is free. A group in which nobody is takes the size of the wish. */
struct ps_worker_choice ps_worker_choose(const struct ps_worker_rows *rows,
                                         const struct ps_worker_wish *wish);

#endif
