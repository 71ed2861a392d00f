/* SPDX-License-Identifier: Apache-2.0 */
/* A part says: up to this version all rows were pushed to by then. Of the joined table that can be
 * said of the lowest such version of all parts, after each has moved up by what its shard was
 * behind. It is said of the times of one part, since every part had such times a step or less
 * apart: of all times of a hundred parts most would say the same.
 *
 * The parts are of different instants, and the joined file is of the last of them: ages that were
 * said earlier are of rows that are older by now, and stay as they were said. */
#include "tools/psckpt/table_ages.h"

#include "server/core/update/row_ages_text.h"

#include <string.h>

/* Any time will do, if it is the same for all that is read and written. */
#define NOW ps_row_ages_time(0)

/* What one part says. Of a part without ages, whose rows exist all the same, nothing is known: its
 * rows are as young as any. */
struct known {
    struct ps_row_expiry expiry;
    uint64_t behind; /* versions by which its rows move up */
};

static size_t read_all(struct known *known, const struct table_part *parts, size_t count,
                       uint64_t version);
/* Times and clocks are joined alike, and apart: neither says anything of the other. */
static const struct ps_row_ages *list_of(const struct known *known, bool are_of_time);
static void join_lists(const struct known *known, size_t count, bool are_of_time,
                       struct ps_row_ages *joined);
static uint64_t before_at(const struct known *known, bool are_of_time, uint64_t at);
static uint64_t join_due(const struct known *known, size_t count);

enum ps_status table_ages_join(struct shard_state *joined, const struct table_part *parts,
                               size_t count, const struct ps_table_settings *settings,
                               struct ps_checkpoint_parameter *table, struct ps_error *error)
{
    char text[PS_ROW_AGES_TEXT_BYTES];
    struct ps_row_expiry expiry = {.due = 0};
    table->ages = (struct ps_bytes){NULL, 0};
    /* Of most tables nothing is asked: their rows stay. */
    if (settings->expire_ms == 0 && settings->expire_clocks == 0)
        return PS_OK;
    struct known *known = shard_state_room(joined, count, sizeof *known, error);
    if (known == NULL)
        return PS_ERR_NO_MEMORY;
    count = read_all(known, parts, count, table->version);
    join_lists(known, count, true, &expiry.by_time);
    join_lists(known, count, false, &expiry.by_clock);
    expiry.due = join_due(known, count);
    size_t size = ps_row_ages_text_write(&expiry, settings, NOW, text);
    if (size == 0)
        return PS_OK;
    table->ages = shard_state_copy(joined, (struct ps_bytes){(const uint8_t *)text, size}, error);
    return table->ages.data != NULL ? PS_OK : PS_ERR_NO_MEMORY;
}

/* Parts without rows say nothing that matters: they are left out, and not counted. */
static size_t read_all(struct known *known, const struct table_part *parts, size_t count,
                       uint64_t version)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ps_checkpoint_parameter *row = parts[i].row;
        const struct ps_row_ages_read read = {.time = NOW, .version = row->version};
        if (row->rows == 0)
            continue;
        /* As the rows' own clocks move (table_shards.c). */
        known[found].behind = version - row->version;
        /* Of a text that this program does not know nothing is known, as of none. */
        if (row->ages.size > 0 &&
            ps_row_ages_text_read(row->ages, &read, &known[found].expiry, NULL) != PS_OK)
            known[found].expiry = (struct ps_row_expiry){0};
        found++;
    }
    return found;
}

static const struct ps_row_ages *list_of(const struct known *known, bool are_of_time)
{
    return are_of_time ? &known->expiry.by_time : &known->expiry.by_clock;
}

/* By the times of the part that says most. Times rise in its list, and so do versions here. */
static void join_lists(const struct known *known, size_t count, bool are_of_time,
                       struct ps_row_ages *joined)
{
    const struct ps_row_ages *times = joined;
    for (size_t i = 0; i < count; i++)
        if (list_of(&known[i], are_of_time)->count > times->count)
            times = list_of(&known[i], are_of_time);
    for (size_t k = 0; times != joined && k < times->count; k++) {
        uint64_t at = times->seen[k].at;
        uint64_t before = UINT64_MAX;
        for (size_t i = 0; i < count; i++) {
            uint64_t of_part = before_at(&known[i], are_of_time, at);
            before = of_part < before ? of_part : before;
        }
        /* Of some part nothing is known that old, and its version is the table's. */
        if (before > 0)
            joined->seen[joined->count++] = (struct ps_row_age){at, before - 1};
    }
}

/* Rows of versions before that are as old as `at`; where nothing is known, those of which the part
 * has none. */
static uint64_t before_at(const struct known *known, bool are_of_time, uint64_t at)
{
    const struct ps_row_ages *list = list_of(known, are_of_time);
    uint64_t before = known->behind;
    for (size_t k = 0; k < list->count && list->seen[k].at <= at; k++)
        before = known->behind + list->seen[k].version + 1;
    return before;
}

/* What is due in every part is due in all of them; 0: nothing is due in any. Rows that were due in
 * some parts alone become due again by their ages. */
static uint64_t join_due(const struct known *known, size_t count)
{
    uint64_t before = UINT64_MAX;
    bool is_any = false;
    for (size_t i = 0; i < count; i++) {
        uint64_t of_part = known[i].behind + known[i].expiry.due;
        before = of_part < before ? of_part : before;
        is_any |= known[i].expiry.due > 0;
    }
    return is_any ? before : 0;
}
