/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the content of a record of rounds, of clocks, or of rows that expired: refused, or
 * written again as they were. */
#include "fuzz_target.h"

#include "checkpoint/journal_clocks.h"
#include "checkpoint/journal_held.h"
#include "checkpoint/journal_round.h"
#include "checkpoint/journal_rows.h"

#include <stdlib.h>
#include <string.h>

static void expect_same(const uint8_t *written, size_t size, struct ps_bytes content)
{
    if (size > content.size || memcmp(written, content.data, size) != 0)
        abort();
}

/* Key by key, as a replay has room for some at a time. */
static void read_expired(struct ps_bytes content)
{
    uint8_t written[PS_EXPIRE_RECORD_HEAD_BYTES];
    struct ps_expire_record expired;
    if (ps_expire_record_read(content, &expired, NULL) != PS_OK)
        return;
    ps_expire_record_write(&expired, written);
    expect_same(written, sizeof written, content);
    for (uint32_t i = 0; i < expired.count; i++) {
        uint64_t key;
        ps_expire_keys_read(content, i, 1, &key);
        ps_expire_keys_write(&key, 1, written);
        if (memcmp(written, content.data + PS_EXPIRE_RECORD_HEAD_BYTES + i * sizeof key,
                   sizeof key) != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t written[PS_ROUND_RECORD_BYTES_MAX + PS_CLOCKS_RECORD_BYTES_MAX];
    struct ps_bytes content = {data, size};
    struct ps_held_head held;
    struct ps_bytes gradient;
    struct ps_round_record round;
    struct ps_clocks_record clocks;
    struct ps_clock_record clock;
    struct ps_sweep_record sweep;
    read_expired(content);
    if (ps_sweep_record_read(content, &sweep, NULL) == PS_OK) {
        ps_sweep_record_write(&sweep, written);
        expect_same(written, size, content);
    }
    if (ps_held_head_read(content, &held, &gradient, NULL) == PS_OK) {
        ps_held_head_write(&held, written);
        expect_same(written, size - gradient.size, content);
    }
    if (ps_round_record_read(content, &round, NULL) == PS_OK)
        expect_same(written, ps_round_record_write(&round, written), content);
    if (ps_clocks_record_read(content, &clocks, NULL) == PS_OK) {
        expect_same(written, ps_clocks_record_write(&clocks, written), content);
    }
    if (ps_clock_record_read(content, &clock, NULL) == PS_OK) {
        ps_clock_record_write(&clock, written);
        expect_same(written, size, content);
    }
    return 0;
}
