/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the content of a record of rounds or clocks: refused, or written again as they
 * were. */
#include "fuzz_target.h"

#include "checkpoint/journal_clocks.h"
#include "checkpoint/journal_held.h"
#include "checkpoint/journal_round.h"

#include <stdlib.h>
#include <string.h>

static void expect_same(const uint8_t *written, size_t size, struct ps_bytes content)
{
    if (size > content.size || memcmp(written, content.data, size) != 0)
        abort();
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
