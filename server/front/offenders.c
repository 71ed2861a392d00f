/* SPDX-License-Identifier: Apache-2.0 */
/* A host is shut out by its offences and not by its connections: whoever has done nothing is let in
 * as often as it comes, and an attack from beside a job costs that job's newcomers a moment. */
#include "server/front/offenders.h"

#include "base/assert.h"

#include <stddef.h>

static const struct ps_bucket_size offences = {PS_OFFENCES_AT_ONCE, PS_OFFENCES_A_MINUTE};

/* Sixty-four places are looked through for each newcomer, which costs less than its accept. */
static struct ps_offender *find(struct ps_offenders *offenders, const struct ps_peer_host *host,
                                uint64_t now_ms)
{
    for (int i = 0; i < PS_OFFENDERS_MAX; i++) {
        struct ps_offender *offender = &offenders->places[i];
        if (offender->until_ms > now_ms && ps_peer_host_equal(&offender->host, host))
            return offender;
    }
    return NULL;
}

/* An offence for which there is no token is one of a connection that was let in before: it is
 * remembered, and cannot shut the host out for longer. */
void ps_offenders_note(struct ps_offenders *offenders, const struct ps_peer_host *host,
                       uint64_t now_ms)
{
    struct ps_offender *offender = find(offenders, host, now_ms);
    if (offender == NULL) {
        offender = &offenders->places[offenders->next++ % PS_OFFENDERS_MAX];
        *offender = (struct ps_offender){.host = *host};
    }
    offender->until_ms = now_ms + PS_OFFENDERS_MS;
    (void)ps_bucket_take(&offender->offences, &offences, now_ms);
    PS_ASSERT(find(offenders, host, now_ms) == offender);
}

/* Looking costs no token: a host is not kept out for having asked. */
enum ps_trust ps_offenders_trust(struct ps_offenders *offenders, const struct ps_peer_host *host,
                                 uint64_t now_ms)
{
    struct ps_offender *offender = find(offenders, host, now_ms);
    if (offender == NULL)
        return PS_TRUST_FULL;
    return ps_bucket_wait_ms(&offender->offences, &offences, now_ms) == 0 ? PS_TRUST_LITTLE
                                                                          : PS_TRUST_NONE;
}
