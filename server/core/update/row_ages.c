/* SPDX-License-Identifier: Apache-2.0 */
/* A span is cut into steps, and of each step one version is kept: so a table of any age costs the
 * same few numbers. Rows go when the version of the step in which they were pushed to is old enough
 * as a whole; the price is that they may live one step longer. */
#include "server/core/update/row_ages.h"

#include "base/assert.h"

#include <string.h>

/* The oldest go until the first of what is left is younger than the span: all rows of versions up
 * to the last that went are old enough. */
static uint64_t take_old(struct ps_row_ages *ages, uint64_t span, uint64_t now)
{
    uint64_t before = 0;
    size_t old = 0;
    while (old < ages->count && now - ages->seen[old].at >= span)
        before = ages->seen[old++].version + 1;
    PS_ASSERT(old <= ages->count);
    ages->count -= old;
    memmove(ages->seen, ages->seen + old, ages->count * sizeof ages->seen[0]);
    return before;
}

/* Looked at more often than a step there is nothing to note. Full, which only a span that has grown
 * makes it, the newest stands for the present: its rows go later than they might. */
static void note(struct ps_row_ages *ages, uint64_t span, uint64_t now, uint64_t version)
{
    uint64_t step = span / PS_ROW_AGE_STEPS > 0 ? span / PS_ROW_AGE_STEPS : 1;
    size_t room = sizeof ages->seen / sizeof ages->seen[0];
    struct ps_row_age *newest = ages->count > 0 ? &ages->seen[ages->count - 1] : NULL;
    PS_ASSERT(newest == NULL || newest->at <= now);
    /* A clock stands still while pushes come: they are all of that moment. */
    if (newest != NULL && now == newest->at)
        newest->version = version;
    if (newest != NULL && now - newest->at < step)
        return;
    size_t place = ages->count < room ? ages->count++ : room - 1;
    ages->seen[place] = (struct ps_row_age){.at = now, .version = version};
}

uint64_t ps_row_ages_look(struct ps_row_ages *ages, uint64_t span, uint64_t now, uint64_t version)
{
    PS_ASSERT(span > 0);
    /* Clocks that were removed, or set anew, stand lower. How far the former ones were says nothing
     * of these: rows would stay until they come past that, which may be never. So all rows begin to
     * age here, and none goes early. */
    if (ages->count > 0 && now < ages->seen[ages->count - 1].at)
        ages->count = 0;
    uint64_t before = take_old(ages, span, now);
    note(ages, span, now, version);
    return before;
}
