/* Parts are handed out by one counter. */
#include "server/core/update/spread.h"

#include "base/assert.h"
#include "server/core/values/crew.h"

void ps_spread_init(struct ps_spread *spread, const struct ps_parameter_spec *spec, uint64_t part)
{
    PS_ASSERT(part > 0);
    atomic_init(&spread->next, 0);
    spread->count = spec->count;
    spread->part = part;
}

bool ps_spread_next(struct ps_spread *spread, struct ps_elements *part)
{
    uint64_t first = atomic_fetch_add(&spread->next, spread->part);
    if (first >= spread->count)
        return false;
    uint64_t rest = spread->count - first;
    *part = (struct ps_elements){first, rest < spread->part ? rest : spread->part};
    return true;
}

bool ps_spread_pays(const struct ps_parameter_spec *spec)
{
    return spec->crew != NULL && spec->crew->run != NULL &&
           ps_parameter_spec_bytes(spec) >= PS_SPREAD_BYTES_MIN;
}

void ps_spread_run(const struct ps_parameter_spec *spec, void (*work)(void *argument),
                   void *argument)
{
    if (ps_spread_pays(spec))
        spec->crew->run(spec->crew->self, work, argument);
    else
        work(argument);
}
