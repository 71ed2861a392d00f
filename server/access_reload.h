/* SPDX-License-Identifier: Apache-2.0 */
/* The access that the options ask for, and a thread that looks at its files every second:
 * certificates, tokens, roles.
 *
 * Threads:  init and fini belong to one thread.
 * Blocking: init reads the files; fini waits for a look at work.
 * Errors:   those of the files (security/access.h); PS_ERR_NO_MEMORY when the system refuses a
 *           thread.
 * Memory:   in place; what init is given is borrowed and outlives it.
 */
#ifndef PS_SERVER_ACCESS_RELOAD_H
#define PS_SERVER_ACCESS_RELOAD_H

#include "security/access.h"
#include "server/errand_thread.h"
#include "server/pserver_options.h"

struct ps_access_reload {
    struct ps_access *access; /* owned */
    /* Everybody beyond this host may come in, and nobody has said that this is meant. */
    bool is_open;
    struct ps_errand_thread errand;
};

/* Reads the files, and warns of what they leave open. Without files there is no thread. After a
 * failure fini is allowed, and not needed. */
PS_MUST_USE enum ps_status
ps_access_reload_init(struct ps_access_reload *reload, const struct ps_pserver_options *options,
                      const struct ps_log *log, struct ps_metrics *metrics, struct ps_error *error);

/* Accepts a zeroed one. */
void ps_access_reload_fini(struct ps_access_reload *reload);

#endif
