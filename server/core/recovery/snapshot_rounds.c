/* SPDX-License-Identifier: Apache-2.0 */
/* References within the instant, and everything else behind it: a contribution is never written
 * after it was taken, so that its blocks need no copy.
 *
 * A checkpoint without these would be wrong and not only late: the journal before it is swept, and
 * with it the records of contributions that their workers were told are held. Those never come
 * again, and the round would wait for them for ever. */
#include "server/core/recovery/snapshot_rounds.h"

#include "base/assert.h"
#include "checkpoint/journal.h"
#include "checkpoint/journal_held.h"
#include "server/core/requests/service_state.h"
#include "server/core/rounds/contributions.h"

#include <stdlib.h>
#include <string.h>

/* One record: a contribution, or who is evicted. */
struct row {
    struct ps_parameter_spec *spec; /* a reference */
    uint64_t version;
    bool is_evicted;           /* of `round`; else a contribution */
    struct ps_blocks *values;  /* a reference; NULL of the evicted and of a table */
    struct ps_held_rows *rows; /* a reference; of a table alone */
    struct ps_held_head head;
    struct ps_round round;
};

struct ps_snapshot_rounds {
    const struct ps_allocator *memory; /* borrowed */
    struct ps_bytes *pieces;           /* of the record that was given last */
    uint8_t bytes[PS_ROUND_RECORD_BYTES_MAX];
    size_t count;
    struct row rows[];
};

static void count_rows(struct ps_parameter_table *table, size_t *rows, size_t *pieces);
static bool has_state(const struct ps_parameter *parameter);
static void add_rows(struct ps_snapshot_rounds *rounds, const struct ps_parameter *parameter);
static void give(void *self, size_t i, struct ps_record *record);
static int compare_rows(const void *a, const void *b);

/* Nobody contributes while the cut is held alone, so that no lock of a round is needed. */
enum ps_status ps_snapshot_rounds_take(struct ps_service *service, struct ps_snapshot_rounds **out,
                                       struct ps_error *error)
{
    size_t rows;
    size_t pieces;
    *out = NULL;
    count_rows(&service->table, &rows, &pieces);
    /* Of most shards always. */
    if (rows == 0)
        return PS_OK;
    /* With the cut held, as the sessions are encoded: how many there are is not known before. */
    struct ps_snapshot_rounds *rounds =
        ps_zeroed(service->memory, sizeof *rounds + rows * sizeof rounds->rows[0]);
    if (rounds == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a snapshot of rounds");
    rounds->memory = service->memory;
    rounds->pieces = ps_zeroed_array(service->memory, pieces, sizeof *rounds->pieces);
    if (rounds->pieces == NULL) {
        ps_release(service->memory, rounds);
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for a snapshot of rounds");
    }
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(&service->table);
         entry != NULL; entry = ps_parameter_table_next(entry))
        if (has_state(ps_parameter_entry_parameter(entry)))
            add_rows(rounds, ps_parameter_entry_parameter(entry));
    PS_ASSERT(rounds->count == rows);
    *out = rounds;
    return PS_OK;
}

/* How many records there will be, and into how many pieces the longest may be cut. */
static void count_rows(struct ps_parameter_table *table, size_t *rows, size_t *pieces)
{
    PS_ASSERT(table != NULL);
    *rows = 0;
    /* The head of a contribution is a piece beside its blocks. */
    *pieces = 1;
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(table); entry != NULL;
         entry = ps_parameter_table_next(entry)) {
        const struct ps_parameter *parameter = ps_parameter_entry_parameter(entry);
        size_t blocks = ps_parameter_spec_bytes(parameter->spec) / PS_BLOCK_BYTES + 2;
        if (!has_state(parameter))
            continue;
        *rows += 1 + parameter->rounds->round.counted_count;
        *pieces = blocks > *pieces ? blocks : *pieces;
    }
}

/* A parameter between two rounds of which nobody is evicted begins as a new one does. */
static bool has_state(const struct ps_parameter *parameter)
{
    PS_ASSERT(parameter->spec != NULL);
    const struct ps_contributions *rounds = parameter->rounds;
    return rounds != NULL && (rounds->round.counted_count > 0 || rounds->round.evicted_count > 0);
}

/* In the order in which they are to be applied: whoever contributes is not evicted any more, so
 * that the evictions have to be there before. The version is the one that the snapshot has of the
 * parameter, since both are taken with the cut held alone. */
static void add_rows(struct ps_snapshot_rounds *rounds, const struct ps_parameter *parameter)
{
    const struct ps_contributions *from = parameter->rounds;
    PS_ASSERT(from != NULL && from->memory != NULL);
    rounds->rows[rounds->count++] = (struct row){.spec = ps_parameter_spec_acquire(parameter->spec),
                                                 .version = parameter->version,
                                                 .is_evicted = true,
                                                 .round = from->round};
    for (uint32_t rank = 0; rank < from->round.workers; rank++) {
        const struct ps_contribution *one = &from->held[rank];
        if (!ps_contribution_is_held(one))
            continue;
        rounds->rows[rounds->count++] =
            (struct row){.spec = ps_parameter_spec_acquire(parameter->spec),
                         .version = parameter->version,
                         .values = one->values != NULL ? ps_blocks_acquire(one->values) : NULL,
                         .rows = one->rows != NULL ? ps_held_rows_acquire(one->rows) : NULL,
                         .head = {rank, one->weight}};
    }
}

/* Sorted here and not within the instant, in which pushes wait. */
struct ps_checkpoint_records ps_snapshot_rounds_records(struct ps_snapshot_rounds *rounds)
{
    if (rounds == NULL)
        return (struct ps_checkpoint_records){0};
    PS_ASSERT(rounds->count > 0);
    qsort(rounds->rows, rounds->count, sizeof rounds->rows[0], compare_rows);
    return (struct ps_checkpoint_records){rounds->count, give, rounds};
}

/* By the name; of one parameter the evicted first, then by rank. No two are equal: a rank has one
 * contribution, and the evicted are one row. */
static int compare_rows(const void *a, const void *b)
{
    const struct row *left = a;
    const struct row *right = b;
    PS_ASSERT(left->spec != NULL && right->spec != NULL);
    int order = ps_bytes_compare(left->spec->name, right->spec->name);
    if (order != 0)
        return order;
    if (left->is_evicted != right->is_evicted)
        return left->is_evicted ? -1 : 1;
    return left->head.worker < right->head.worker ? -1 : 1;
}

/* Nobody counts in the record that says who is evicted: it makes no version. It is there also when
 * nobody is evicted, so that a reader knows of how many workers the contributions are. */
static size_t write_evicted(struct ps_snapshot_rounds *rounds, const struct ps_round *round)
{
    PS_ASSERT(round->evicted_count < round->workers);
    static const uint8_t nobody[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)];
    const struct ps_round_record evicted = {round->workers, nobody, round->evicted};
    return ps_round_record_write(&evicted, rounds->bytes);
}

/* The content of a contribution is its head, and then the blocks as they lie: nothing is copied but
 * where they begin, and the writer takes them one after the other. The array of pieces and the
 * bytes of the head are the same for all records, of which one is looked at at a time. */
static void give(void *self, size_t i, struct ps_record *record)
{
    struct ps_snapshot_rounds *rounds = self;
    const struct row *row = &rounds->rows[i];
    PS_ASSERT(i < rounds->count);
    *record = (struct ps_record){.name = row->spec->name, .version = row->version};
    if (row->is_evicted) {
        record->type = PS_RECORD_ROUND;
        rounds->pieces[0] = (struct ps_bytes){rounds->bytes, write_evicted(rounds, &row->round)};
        record->content = ps_view_of(&rounds->pieces[0]);
        return;
    }
    struct ps_view values =
        row->rows != NULL ? ps_view_of(&row->rows->content) : ps_blocks_view(row->values);
    PS_ASSERT(row->head.weight > 0);
    record->type = PS_RECORD_HELD;
    record->encoding = row->rows != NULL ? PS_ENCODING_ROWS : PS_ENCODING_NATIVE;
    record->dtype = row->spec->dtype;
    ps_held_head_write(&row->head, rounds->bytes);
    rounds->pieces[0] = (struct ps_bytes){rounds->bytes, PS_HELD_HEAD_BYTES};
    memcpy(&rounds->pieces[1], values.pieces, values.piece_count * sizeof values.pieces[0]);
    record->content =
        (struct ps_view){rounds->pieces, 1 + values.piece_count, PS_HELD_HEAD_BYTES + values.size};
}

/* What nobody else holds any more, since its round has ended, goes here. */
void ps_snapshot_rounds_release(struct ps_snapshot_rounds *rounds)
{
    if (rounds == NULL)
        return;
    PS_ASSERT(rounds->pieces != NULL);
    for (size_t i = 0; i < rounds->count; i++) {
        ps_blocks_release(rounds->rows[i].values);
        ps_held_rows_release(rounds->rows[i].rows);
        ps_parameter_spec_release(rounds->rows[i].spec);
    }
    ps_release(rounds->memory, rounds->pieces);
    ps_release(rounds->memory, rounds);
}
