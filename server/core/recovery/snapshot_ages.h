/* SPDX-License-Identifier: Apache-2.0 */
/* How old the rows of a snapshot's tables were at its instant, as the texts that a checkpoint keeps
 * (row_ages_text.h).
 *
 * Threads:  reserve with the cut held, take with the cut held alone; the rest belongs to whoever
 *           has the snapshot.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   about 2.3 KiB for each table whose rows expire, until the release.
 */
#ifndef PS_SERVER_CORE_SNAPSHOT_AGES_H
#define PS_SERVER_CORE_SNAPSHOT_AGES_H

#include "base/bytes.h"
#include "server/core/requests/service.h"
#include "server/core/values/parameter_spec.h"

struct ps_snapshot_ages;

/* Returns room for the tables that expire now in `*ages`, NULL where there are none; end it with
 * ps_snapshot_ages_release. */
PS_MUST_USE enum ps_status ps_snapshot_ages_reserve(struct ps_service *service,
                                                    struct ps_snapshot_ages **ages,
                                                    struct ps_error *error);

/* The instant: of tables that found no room, since they were configured to expire after the
 * reservation, nothing is known yet. `ages` may be NULL. */
void ps_snapshot_ages_take(struct ps_service *service, struct ps_snapshot_ages *ages);

/* Makes the texts; behind it ps_snapshot_ages_of may be asked. NULL is allowed. */
void ps_snapshot_ages_settle(struct ps_snapshot_ages *ages);

/* Of the table of that spec, which the snapshot holds; empty: nothing is known. Borrowed from
 * `ages`, which may be NULL. */
struct ps_bytes ps_snapshot_ages_of(const struct ps_snapshot_ages *ages,
                                    const struct ps_parameter_spec *spec);

/* NULL is allowed. */
void ps_snapshot_ages_release(struct ps_snapshot_ages *ages);

#endif
