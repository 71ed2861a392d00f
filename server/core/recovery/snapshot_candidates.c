/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates are rows of a table of their own, and are held as rows are: within the instant only
 * lists of pages are copied. They have holds of their own, since those of the rows end when the
 * rows are written, and sections come behind them. */
#include "server/core/recovery/snapshot_candidates.h"

#include "base/assert.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_candidates.h"
#include "server/core/requests/service_state.h"
#include "server/core/tables/row_hold.h"

#include <stdlib.h>

/* The arrays of a hold whose rows have no states. */
enum { COUNTS, KEYS, VERSIONS };

/* The candidates of one table, and where its records begin. */
struct part {
    struct ps_parameter_spec *spec; /* a reference */
    struct ps_row_hold *hold;       /* owned */
    uint64_t version;
    size_t first;
};

struct ps_snapshot_candidates {
    const struct ps_allocator *memory; /* borrowed */
    uint8_t *content;                  /* of the record that was given last */
    struct ps_bytes piece;
    size_t record_count;
    size_t count;
    struct part parts[];
};

static struct ps_row_table *candidates_of(const struct ps_parameter *parameter);
static enum ps_status add_part(struct ps_snapshot_candidates *candidates,
                               const struct ps_parameter *parameter, struct ps_error *error);
static int compare_parts(const void *a, const void *b);
static void give(void *self, size_t i, struct ps_record *record);

/* Nobody pushes while the cut is held alone. What is copied is which candidates there are, a bit
 * for each, and no count: about a tenth of a millisecond for a million. */
enum ps_status ps_snapshot_candidates_take(struct ps_service *service,
                                           struct ps_snapshot_candidates **out,
                                           struct ps_error *error)
{
    size_t tables = 0;
    *out = NULL;
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(&service->table);
         entry != NULL; entry = ps_parameter_table_next(entry))
        tables += candidates_of(ps_parameter_entry_parameter(entry)) != NULL;
    /* Of most shards always: a table without an admission has no candidates, and one whose keys all
     * have their rows has none at the moment. */
    if (tables == 0)
        return PS_OK;
    struct ps_snapshot_candidates *candidates =
        ps_zeroed(service->memory, sizeof *candidates + tables * sizeof candidates->parts[0]);
    if (candidates == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a snapshot of candidates");
    /* From here on the release ends whatever was begun. */
    candidates->memory = service->memory;
    candidates->content = ps_plain(service->memory, PS_CANDIDATES_RECORD_MAX * PS_CANDIDATE_BYTES);
    enum ps_status status = candidates->content != NULL ? PS_OK : PS_ERR_NO_MEMORY;
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(&service->table);
         entry != NULL && status == PS_OK; entry = ps_parameter_table_next(entry))
        if (candidates_of(ps_parameter_entry_parameter(entry)) != NULL)
            status = add_part(candidates, ps_parameter_entry_parameter(entry), error);
    if (status != PS_OK) {
        ps_snapshot_candidates_release(candidates);
        return ps_fail(error, status, "no memory for a snapshot of candidates");
    }
    PS_ASSERT(candidates->count == tables);
    *out = candidates;
    return PS_OK;
}

/* NULL also where all keys that were pushed to have their rows by now. */
static struct ps_row_table *candidates_of(const struct ps_parameter *parameter)
{
    PS_ASSERT(parameter->spec != NULL);
    struct ps_row_table *candidates =
        parameter->rows != NULL ? ps_row_table_candidates(parameter->rows) : NULL;
    return candidates != NULL && ps_row_table_rows(candidates) > 0 ? candidates : NULL;
}

/* The version is the one that the snapshot has of the parameter, since both are taken with the cut
 * held alone; a reader sees by it that rows and counts belong together. */
static enum ps_status add_part(struct ps_snapshot_candidates *candidates,
                               const struct ps_parameter *parameter, struct ps_error *error)
{
    struct part *part = &candidates->parts[candidates->count];
    PS_TRY(ps_row_hold_take(candidates_of(parameter), &part->hold, error));
    PS_ASSERT(ps_row_hold_row_bytes(part->hold, COUNTS) == sizeof(uint32_t));
    part->spec = ps_parameter_spec_acquire(parameter->spec);
    part->version = parameter->version;
    candidates->count++;
    return PS_OK;
}

/* Sorted here and not within the instant, in which pushes wait. */
struct ps_checkpoint_records
ps_snapshot_candidates_records(struct ps_snapshot_candidates *candidates)
{
    if (candidates == NULL)
        return (struct ps_checkpoint_records){0};
    PS_ASSERT(candidates->count > 0);
    qsort(candidates->parts, candidates->count, sizeof candidates->parts[0], compare_parts);
    /* How many there are is known before any is read, as the header of the file needs it. */
    candidates->record_count = 0;
    for (size_t i = 0; i < candidates->count; i++) {
        struct part *part = &candidates->parts[i];
        part->first = candidates->record_count;
        candidates->record_count += (ps_row_hold_rows(part->hold) + PS_CANDIDATES_RECORD_MAX - 1) /
                                    PS_CANDIDATES_RECORD_MAX;
    }
    return (struct ps_checkpoint_records){candidates->record_count, give, candidates};
}

/* By the name, of which there are no two. */
static int compare_parts(const void *a, const void *b)
{
    const struct part *left = a;
    const struct part *right = b;
    PS_ASSERT(left->spec != NULL && right->spec != NULL);
    return ps_bytes_compare(left->spec->name, right->spec->name);
}

/* The bytes of one array of some candidates. A hold that was taken can be read: pushes that go on
 * meanwhile set aside what they write over. */
static void read_array(const struct part *part, uint32_t array, uint64_t first, size_t count,
                       uint8_t *to)
{
    size_t each = ps_row_hold_row_bytes(part->hold, array);
    enum ps_status status =
        ps_row_hold_read(part->hold, array, first * each, to, count * each, NULL);
    PS_ASSERT(status == PS_OK);
}

/* Read anew for each time it is asked for, into the one room: nothing is kept of one record when
 * the next is made. */
static void give(void *self, size_t i, struct ps_record *record)
{
    struct ps_snapshot_candidates *candidates = self;
    const struct part *part = candidates->parts;
    PS_ASSERT(i < candidates->record_count);
    /* Few tables have candidates: the part of a record is found by going along them. */
    while (part + 1 < candidates->parts + candidates->count && part[1].first <= i)
        part++;
    uint64_t first = (i - part->first) * (uint64_t)PS_CANDIDATES_RECORD_MAX;
    uint64_t left = ps_row_hold_rows(part->hold) - first;
    size_t count = left < PS_CANDIDATES_RECORD_MAX ? (size_t)left : PS_CANDIDATES_RECORD_MAX;
    /* As journal_candidates.h lays them out, one array behind the other in one piece. */
    read_array(part, KEYS, first, count, candidates->content);
    read_array(part, COUNTS, first, count, candidates->content + PS_CANDIDATES_COUNTS_AT(count));
    read_array(part, VERSIONS, first, count,
               candidates->content + PS_CANDIDATES_VERSIONS_AT(count));
    candidates->piece = (struct ps_bytes){candidates->content, count * PS_CANDIDATE_BYTES};
    *record = (struct ps_record){.type = PS_RECORD_CANDIDATES,
                                 .name = part->spec->name,
                                 .version = part->version,
                                 .content = ps_view_of(&candidates->piece)};
}

/* Also of one whose taking failed half-way: parts that were not begun are not counted. */
void ps_snapshot_candidates_release(struct ps_snapshot_candidates *candidates)
{
    if (candidates == NULL)
        return;
    PS_ASSERT(candidates->memory != NULL);
    for (size_t i = 0; i < candidates->count; i++) {
        ps_row_hold_release(candidates->parts[i].hold);
        ps_parameter_spec_release(candidates->parts[i].spec);
    }
    ps_release(candidates->memory, candidates->content);
    ps_release(candidates->memory, candidates);
}
