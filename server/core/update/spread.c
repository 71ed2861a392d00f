/* SPDX-License-Identifier: Apache-2.0 */
/* Parts are handed out by one counter. A fixed share for each thread would be simpler, but threads
 * of a crew begin late and are taken away, and then all would wait for the slowest. */
#include "server/core/update/spread.h"

#include "base/assert.h"
#include "server/core/values/crew.h"

/* Which part is whose is not decided here: only where the parts lie, which the bits may depend
 * on. */
void ps_spread_init(struct ps_spread *spread, const struct ps_parameter_spec *spec, uint64_t part)
{
    PS_ASSERT(part > 0);
    atomic_init(&spread->next, 0);
    PS_ASSERT(spec->count > 0);
    spread->count = spec->count;
    spread->part = part;
}

/* The counter runs beyond the end by a part for each thread that asks in vain, which cannot
 * overflow: counts are below 2^58 and threads are few. */
bool ps_spread_next(struct ps_spread *spread, struct ps_elements *part)
{
    uint64_t first = atomic_fetch_add(&spread->next, spread->part);
    if (first >= spread->count)
        return false;
    uint64_t rest = spread->count - first;
    PS_ASSERT(first % spread->part == 0 && rest > 0);
    *part = (struct ps_elements){first, rest < spread->part ? rest : spread->part};
    return true;
}

/* A crew is lent and taken back (ps_service_set_crew): there may be none at this moment. */
bool ps_spread_pays(const struct ps_parameter_spec *spec)
{
    return spec->crew != NULL && spec->crew->run != NULL &&
           ps_parameter_spec_bytes(spec) >= PS_SPREAD_BYTES_MIN;
}

/* The calling thread works, too: with a crew that has nobody to spare it does all of it. */
void ps_spread_run(const struct ps_parameter_spec *spec, void (*work)(void *argument),
                   void *argument)
{
    PS_ASSERT(work != NULL);
    if (ps_spread_pays(spec))
        spec->crew->run(spec->crew->self, work, argument);
    else
        work(argument);
}
