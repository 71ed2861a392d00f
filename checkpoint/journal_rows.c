/* SPDX-License-Identifier: Apache-2.0 */
/* One number. A record of more is one that a later version has written, which this one must not
 * take for its own. */
#include "checkpoint/journal_rows.h"

#include "base/assert.h"
#include "checkpoint/little_endian.h"

/* Before version 0 there is no push, and so no row: who sweeps before it has gone wrong. */
void ps_sweep_record_write(const struct ps_sweep_record *sweep, uint8_t to[PS_SWEEP_RECORD_BYTES])
{
    PS_ASSERT(sweep->before_version > 0);
    ps_little_put(to, PS_SWEEP_RECORD_BYTES, sweep->before_version);
}

/* A sweep of nothing is written by nobody. Whether the table was ever at such a version is asked by
 * whoever has the table. */
enum ps_status ps_sweep_record_read(struct ps_bytes content, struct ps_sweep_record *sweep,
                                    struct ps_error *error)
{
    /* Numbers of a later version may be longer; this one reads what it has written. */
    PS_ASSERT(sweep != NULL);
    uint64_t before = content.size == PS_SWEEP_RECORD_BYTES
                          ? ps_little_take(content.data, PS_SWEEP_RECORD_BYTES)
                          : 0;
    if (before == 0)
        return ps_fail(error, PS_ERR_CORRUPT, "a sweep of %zu bytes", content.size);
    sweep->before_version = before;
    return PS_OK;
}
