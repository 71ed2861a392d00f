/* SPDX-License-Identifier: Apache-2.0 */
/* A counter for each row of base/refusal.h, and the moment before which no line of its kind is
 * written again. */
#include "server/rpc/refusals.h"

#include "base/assert.h"

#include <stdio.h>

enum { QUIET_MS = 60 * 1000, WHO_BYTES_MAX = 127 };

static bool is_first_of_its_minute(struct ps_refusals *refusals, enum ps_refusal refusal);

/* Words and rows come from the same table, so no refusal is counted without a name. */
const char *ps_refusal_word(enum ps_refusal refusal)
{
    static const char *const words[PS_REFUSAL_COUNT] = {
#define ROW(name, word) [name] = (word),
        PS_REFUSAL_TABLE(ROW)
#undef ROW
    };
    PS_ASSERT(refusal < PS_REFUSAL_COUNT);
    return words[refusal];
}

/* Every row exists from the start, so that an alarm on it finds a zero and not nothing. */
void ps_refusals_init(struct ps_refusals *refusals, struct ps_metrics *metrics,
                      const struct ps_log *log, const struct ps_clock *clock)
{
    *refusals = (struct ps_refusals){.log = log, .clock = clock};
    for (int i = PS_REFUSED_NOT + 1; i < PS_REFUSAL_COUNT && metrics != NULL; i++) {
        char labels[64];
        (void)snprintf(labels, sizeof labels, "reason=\"%s\"", ps_refusal_word((enum ps_refusal)i));
        refusals->counters[i] =
            ps_metrics_counter(metrics, "ps_refused_total",
                               "What was refused, by the bound or rule that refused it.", labels);
    }
}

/* The counter first: what is counted does not depend on the log. */
void ps_refusals_note(struct ps_refusals *refusals, enum ps_refusal refusal, uint64_t amount,
                      struct ps_bytes who, const char *text)
{
    PS_ASSERT(refusal > PS_REFUSED_NOT && refusal < PS_REFUSAL_COUNT);
    ps_counter_add(refusals->counters[refusal], amount);
    if (amount == 0 || !is_first_of_its_minute(refusals, refusal))
        return;
    /* The address comes from the network, and is cut like every text of the log. It is that of the
     * first in its minute: the counter says how many there were of all. */
    char address[WHO_BYTES_MAX + 1];
    (void)snprintf(address, sizeof address, "%.*s", (int)who.size, (const char *)who.data);
    PS_LOG(refusals->log, PS_LOG_WARN, "rpc", "refused; more of this kind are only counted",
           PS_FIELD_TEXT("reason", ps_refusal_word(refusal)), PS_FIELD_TEXT("caller", address),
           PS_FIELD_TEXT("error", text));
}

/* Of two threads that come at once, the exchange lets one write. */
static bool is_first_of_its_minute(struct ps_refusals *refusals, enum ps_refusal refusal)
{
    if (refusals->clock == NULL)
        return false;
    uint_fast64_t now_ms = ps_now_ms(refusals->clock);
    uint_fast64_t quiet_ms = atomic_load(&refusals->quiet_ms[refusal]);
    return (quiet_ms == 0 || now_ms >= quiet_ms) &&
           atomic_compare_exchange_strong(&refusals->quiet_ms[refusal], &quiet_ms,
                                          now_ms + QUIET_MS);
}
