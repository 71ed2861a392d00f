/* SPDX-License-Identifier: Apache-2.0 */
/* Where parameters are that are known by name only: whole on some server, or in ranges on several.
 * The servers are asked, since without a size a name does not say it.
 *
 * Threads:  any.
 * Blocking: until the deadline.
 * Errors:   PS_ERR_NO_MEMORY, and those of the servers.
 * Memory:   rows are of the client's allocator, released by ps_found_params_fini.
 */
#ifndef PS_CLIENT_FIND_PARAMS_H
#define PS_CLIENT_FIND_PARAMS_H

#include "base/bounds.h"
#include "client/client_state.h"

/* A whole parameter, or one range of it. */
struct ps_found_param {
    size_t which;    /* of the names that are looked for; 0 for a prefix */
    uint32_t shard;  /* whose server has it */
    uint32_t range;  /* which of them it is; 0 is the first, or all */
    uint32_t ranges; /* of the parameter: 1 is whole */
    size_t size;     /* of the name */
    char name[PS_NAME_BYTES_MAX];
};

struct ps_found_params {
    struct ps_found_param *rows;
    size_t count, places;
};

/* A name that is looked for, and its place among the caller's. */
struct ps_sought_param {
    const char *name;
    size_t which;
};

/* Asks every server for the names, at least one and sorted by strcmp, or, without names, for all
 * that begin with the prefix. Zeroed `found` is to be released in any case. */
PS_MUST_USE enum ps_status ps_find_params(struct psclient *client,
                                          const struct ps_sought_param *names, size_t count,
                                          const char *prefix, uint64_t deadline_ms,
                                          struct ps_found_params *found, struct ps_error *error);

void ps_found_params_fini(struct psclient *client, struct ps_found_params *found);

#endif
