/* SPDX-License-Identifier: Apache-2.0 */
/* One version, of one life, of all ranges, and the push got it: else nothing is believed. */
#include "client/ranges/early_values.h"

/* After ranges were overtaken once, asking again would most likely be in vain again. */
void ps_early_values_reset(struct ps_early_values *early)
{
    *early = (struct ps_early_values){0};
}

/* One range that is missing makes all others useless, since values of two versions are a
 * mixture. */
void ps_early_values_miss(struct ps_early_values *early)
{
    early->asks = false;
    early->missing = true;
}

/* Two ranges of different versions are a mixture. The same number in another life of the shard is
 * another version: what the first life had was lost. */
bool ps_early_values_note(struct ps_early_values *early, const struct ps_pull_reply *reply,
                          bool fits)
{
    /* The first answer sets the measure, whichever range it is of: answers come in any order. */
    if (early->version == 0) {
        early->version = reply->version + 1;
        early->life = reply->life;
    }
    bool is_same = early->version == reply->version + 1 && early->life == reply->life;
    early->missing = early->missing || !fits || !is_same;
    return !early->missing;
}

/* The push says its version last. Until then the values are of a version that no parameter has. */
bool ps_early_values_holds(const struct ps_early_values *early, const struct ps_push_reply *push)
{
    return early->asked && !early->missing && early->version == push->version + 1;
}
