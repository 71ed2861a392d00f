/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the ages of a table's rows, as a checkpoint says them: refused, or what a server can
 * look at from then on, and would write so that it is read as the same. */
#include "fuzz_target.h"

#include "server/core/update/row_ages_text.h"

#include <stdlib.h>
#include <string.h>

#define VERSION 1000

static const struct ps_table_settings both = {.expire_ms = 1600, .expire_clocks = 4};

/* Time goes on: what may go has versions that there are, and ever later ones. */
static void look(struct ps_row_ages ages, uint64_t span, uint64_t now)
{
    uint64_t before = 0;
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t next = ps_row_ages_look(&ages, span, now + i * (span / 8), VERSION + i);
        if (next > VERSION + i + 1 || (next > 0 && next < before))
            abort();
        before = next > 0 ? next : before;
    }
}

static bool is_same(const struct ps_row_ages *a, const struct ps_row_ages *b)
{
    return a->count == b->count && memcmp(a->seen, b->seen, a->count * sizeof a->seen[0]) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ps_row_ages_read read = {ps_row_ages_time(50000), 0, VERSION};
    struct ps_row_expiry expiry = {.due = 0}, again = {.due = 0};
    char text[PS_ROW_AGES_TEXT_BYTES];
    struct ps_error why;
    /* The header's reader lets no longer one through. */
    if (size > PS_CHECKPOINT_AGES_MAX ||
        ps_row_ages_text_read((struct ps_bytes){data, size}, &read, &expiry, &why) != PS_OK)
        return 0;
    if (expiry.due > VERSION + 1)
        abort();
    look(expiry.by_time, both.expire_ms, read.time);
    look(expiry.by_clock, both.expire_clocks, 7);
    size_t length = ps_row_ages_text_write(&expiry, &both, read.time, text);
    if (ps_row_ages_text_read((struct ps_bytes){(const uint8_t *)text, length}, &read, &again,
                              &why) != PS_OK ||
        again.due != expiry.due || !is_same(&again.by_time, &expiry.by_time) ||
        !is_same(&again.by_clock, &expiry.by_clock))
        abort();
    return 0;
}
