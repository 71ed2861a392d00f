/* Looks at the files of access every second, in a thread of its own: certificates, tokens, roles.
 *
 * Threads:  init and fini belong to one thread.
 * Blocking: fini waits for a look at work.
 * Errors:   PS_ERR_NO_MEMORY when the system refuses a thread.
 * Memory:   in place; the access is borrowed and outlives it.
 */
#ifndef PS_SERVER_ACCESS_RELOAD_H
#define PS_SERVER_ACCESS_RELOAD_H

#include "security/access.h"
#include "server/errand_thread.h"

struct ps_access_reload {
    struct ps_access *access; /* borrowed */
    struct ps_errand_thread errand;
};

/* Without files there is no thread. */
PS_MUST_USE enum ps_status ps_access_reload_init(struct ps_access_reload *reload,
                                                 struct ps_access *access, struct ps_error *error);

/* Accepts a zeroed one. */
void ps_access_reload_fini(struct ps_access_reload *reload);

#endif
