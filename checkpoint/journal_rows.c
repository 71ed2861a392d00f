/* SPDX-License-Identifier: Apache-2.0 */
/* A content that is longer than its numbers say is one that a later version has written, which this
 * one must not take for its own. */
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

/* ---- By keys ---- */

/* Where the numbers of the head lie; the version is in front. */
enum { COUNTS_AT = 8, COUNT_AT = 12 };

/* Whoever writes has looked: a record without keys would be replayed for nothing, for ever. */
void ps_expire_record_write(const struct ps_expire_record *expire,
                            uint8_t to[PS_EXPIRE_RECORD_HEAD_BYTES])
{
    PS_ASSERT(expire->before_version > 0);
    PS_ASSERT(expire->count > 0 && expire->count <= PS_EXPIRE_RECORD_KEYS_MAX);
    ps_little_put(to, 8, expire->before_version);
    ps_little_put(to + COUNTS_AT, 4, expire->counts ? 1 : 0);
    ps_little_put(to + COUNT_AT, 4, expire->count);
}

/* Apart from the head, since a journal's record takes both as they are and puts them together. */
void ps_expire_keys_write(const uint64_t *keys, uint32_t count, uint8_t *to)
{
    PS_ASSERT(count <= PS_EXPIRE_RECORD_KEYS_MAX);
    for (uint32_t i = 0; i < count; i++)
        ps_little_put(to + i * sizeof *keys, sizeof *keys, keys[i]);
}

/* Whether the table has such keys is nobody's affair: their rows may have gone another way. */
enum ps_status ps_expire_record_read(struct ps_bytes content, struct ps_expire_record *expire,
                                     struct ps_error *error)
{
    if (content.size < PS_EXPIRE_RECORD_HEAD_BYTES)
        return ps_fail(error, PS_ERR_CORRUPT, "rows that expired in %zu bytes", content.size);
    /* In 64 bits, so that no count is too large to be compared. */
    uint64_t before = ps_little_take(content.data, 8);
    uint64_t counts = ps_little_take(content.data + COUNTS_AT, 4);
    uint64_t count = ps_little_take(content.data + COUNT_AT, 4);
    if (before == 0 || counts > 1 || count == 0 || count > PS_EXPIRE_RECORD_KEYS_MAX ||
        content.size - PS_EXPIRE_RECORD_HEAD_BYTES != count * sizeof(uint64_t))
        return ps_fail(error, PS_ERR_CORRUPT, "rows that expired in %zu bytes", content.size);
    *expire = (struct ps_expire_record){before, counts == 1, (uint32_t)count};
    return PS_OK;
}

/* A reader has room for some at a time, whatever the writer had. */
void ps_expire_keys_read(struct ps_bytes content, uint32_t first, uint32_t count, uint64_t *keys)
{
    const uint8_t *from = content.data + PS_EXPIRE_RECORD_HEAD_BYTES + first * sizeof *keys;
    PS_ASSERT(PS_EXPIRE_RECORD_HEAD_BYTES + ((size_t)first + count) * sizeof *keys <= content.size);
    for (uint32_t i = 0; i < count; i++)
        keys[i] = ps_little_take(from + i * sizeof *keys, sizeof *keys);
}
