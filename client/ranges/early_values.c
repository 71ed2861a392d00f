/* One version, of one life, of all ranges, and the push got it: else nothing. */
#include "client/ranges/early_values.h"

void ps_early_values_miss(struct ps_early_values *made)
{
    made->asks = false;
    made->missing = true;
}

bool ps_early_values_note(struct ps_early_values *made, const struct ps_pull_reply *reply,
                          bool fits)
{
    if (made->version == 0) {
        made->version = reply->version + 1;
        made->life = reply->life;
    }
    made->missing =
        made->missing || !fits || made->version != reply->version + 1 || made->life != reply->life;
    return !made->missing;
}

bool ps_early_values_holds(const struct ps_early_values *made, const struct ps_push_reply *push)
{
    return made->asked && !made->missing && made->version == push->version + 1;
}
