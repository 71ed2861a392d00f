/* SPDX-License-Identifier: Apache-2.0 */
/* What holds between the options of pserver, once each of them is read.
 *
 * Threads:  one, at start.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT with a sentence that names the option and what is allowed.
 * Memory:   none.
 */
#ifndef PS_SERVER_PSERVER_RULES_H
#define PS_SERVER_PSERVER_RULES_H

#include "server/pserver_options.h"

/* Refuses what contradicts itself, and fills in what follows from other options. */
PS_MUST_USE enum ps_status ps_pserver_rules_check(struct ps_pserver_options *options,
                                                  struct ps_error *error);

#endif
