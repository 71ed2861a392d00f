/* SPDX-License-Identifier: Apache-2.0 */
/* Copied and not held: clocks move with every iteration of every worker, and a copy of numbers is
 * made faster than a page is locked. Only the contents are kept; each names its group, of which
 * there are few. */
#include "server/core/recovery/clock_rows.h"

#include "base/assert.h"
#include "checkpoint/journal.h"
#include "server/core/requests/service_state.h"

#include <string.h>

struct row {
    uint32_t group;
    bool sets;
    uint32_t size; /* of the content: that of settings, or that of a clock */
    size_t at;     /* where it begins in the contents */
};

struct ps_clock_rows {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_bytes piece;             /* of the record that was given last */
    size_t count;
    size_t size;       /* of the contents so far */
    uint8_t *contents; /* behind the rows */
    size_t name_sizes[PS_CLOCKS_MAX];
    char names[PS_CLOCKS_MAX][PS_CLOCKS_NAME_BYTES_MAX];
    struct row rows[];
};

static size_t count_rows(const struct ps_clocks *clocks, size_t *bytes);
static void put_group(struct ps_clock_rows *rows, uint32_t index,
                      const struct ps_clock_group *group);
static void end_row(struct ps_clock_rows *rows, uint32_t index, bool sets, size_t size);
static void give(void *self, size_t i, struct ps_record *record);

/* Nobody is in between the count and the copy: clocks move with the cut held shared. */
enum ps_status ps_clock_rows_take(struct ps_service *service, struct ps_clock_rows **rows,
                                  struct ps_error *error)
{
    const struct ps_clocks *clocks = &service->clocks;
    size_t bytes = 0;
    size_t count = count_rows(clocks, &bytes);
    *rows = NULL;
    if (count == 0)
        return PS_OK;
    struct ps_clock_rows *made =
        ps_zeroed(service->memory, sizeof *made + count * sizeof(struct row) + bytes);
    /* The checkpoint is tried again later, as one that found no memory for sessions. */
    if (made == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a snapshot of clocks");
    /* Names apart, since a group has up to 4,097 rows of the same. */
    made->memory = service->memory;
    made->contents = (uint8_t *)&made->rows[count];
    /* The oldest group first, so that a shard that is recovered has them in the same order. */
    uint32_t index = clocks->count; /* counted down: the list has the newest first */
    for (const struct ps_clock_group *group = clocks->groups; group != NULL; group = group->next) {
        index--;
        memcpy(made->names[index], group->name, group->name_size);
        made->name_sizes[index] = group->name_size;
    }
    PS_ASSERT(index == 0);
    for (; index < clocks->count; index++) {
        const struct ps_bytes name = {(const uint8_t *)made->names[index], made->name_sizes[index]};
        put_group(made, index, ps_clocks_find(clocks, name));
    }
    /* Who counted and who copied agree about who is told. */
    PS_ASSERT(made->count == count && made->size <= bytes);
    *rows = made;
    return PS_OK;
}

/* Workers begin at the task's clock and are waited for: who is there says nothing, and most of them
 * do not when clocks were set for more than came. */
static bool is_told(const struct ps_clock_group *group, uint32_t rank)
{
    return ps_clock_group_has(group, rank) &&
           (group->workers[rank].is_evicted ||
            ps_clock_group_clock(group, rank) != group->settings.clock);
}

/* Counted first, so that there is one allocation: pushes wait meanwhile. */
static size_t count_rows(const struct ps_clocks *clocks, size_t *bytes)
{
    size_t count = 0;
    for (const struct ps_clock_group *group = clocks->groups; group != NULL; group = group->next) {
        count++;
        for (uint32_t rank = 0; rank < group->settings.workers; rank++)
            count += is_told(group, rank);
    }
    PS_ASSERT(count >= clocks->count);
    *bytes = clocks->count * PS_CLOCKS_RECORD_BYTES_MAX +
             (count - clocks->count) * PS_CLOCK_RECORD_BYTES;
    return count;
}

/* Settings make every worker, so that what follows says only who is elsewhere. An evicted worker is
 * told with its clock, which is what it comes back with at least. */
static void put_group(struct ps_clock_rows *rows, uint32_t index,
                      const struct ps_clock_group *group)
{
    PS_ASSERT(group != NULL && index < PS_CLOCKS_MAX);
    /* Bytes as in the journal, so that there is one codec for both. A checkpoint's clocks are set
     * where there are none, as when their task began. */
    struct ps_clocks_record settings = group->settings;
    settings.begins = settings.task > 0 || settings.clock > 0;
    end_row(rows, index, true, ps_clocks_record_write(&settings, rows->contents + rows->size));
    for (uint32_t rank = 0; rank < group->settings.workers; rank++) {
        if (!is_told(group, rank))
            continue;
        /* Where the worker stands, whatever brought it there. */
        const struct ps_clock_record clock = {.worker = rank,
                                              .evicted = group->workers[rank].is_evicted,
                                              .clock = ps_clock_group_clock(group, rank)};
        ps_clock_record_write(&clock, rows->contents + rows->size);
        end_row(rows, index, false, PS_CLOCK_RECORD_BYTES);
    }
}

/* So many bytes were written behind the rows before. */
static void end_row(struct ps_clock_rows *rows, uint32_t index, bool sets, size_t size)
{
    PS_ASSERT(size > 0);
    rows->rows[rows->count++] =
        (struct row){.group = index, .sets = sets, .size = (uint32_t)size, .at = rows->size};
    rows->size += size;
}

/* A file without clocks has no section for them, and is one that older programs read. */
struct ps_checkpoint_records ps_clock_rows_records(struct ps_clock_rows *rows)
{
    PS_ASSERT(rows == NULL || rows->count > 0);
    if (rows == NULL)
        return (struct ps_checkpoint_records){0};
    return (struct ps_checkpoint_records){.count = rows->count, .give = give, .self = rows};
}

/* The piece is the rows' own, and lives until the next record is asked for. */
static void give(void *self, size_t i, struct ps_record *record)
{
    /* Twice in order, says the writer; any order would do. */
    struct ps_clock_rows *rows = self;
    PS_ASSERT(i < rows->count);
    const struct row *row = &rows->rows[i];
    rows->piece = (struct ps_bytes){rows->contents + row->at, row->size};
    *record = (struct ps_record){
        .type = row->sets ? PS_RECORD_CLOCKS : PS_RECORD_CLOCK,
        .name = {(const uint8_t *)rows->names[row->group], rows->name_sizes[row->group]},
        .content = ps_view_of(&rows->piece)};
}

/* Once the file is written, or was given up. */
void ps_clock_rows_release(struct ps_clock_rows *rows)
{
    if (rows == NULL)
        return;
    PS_ASSERT(rows->memory != NULL);
    ps_release(rows->memory, rows);
}
