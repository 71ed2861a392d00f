/* SPDX-License-Identifier: Apache-2.0 */
/* A record of candidates becomes one for each shard that has some of its keys: they need not be put
 * together, since a server takes any number of records. Who has a key is asked as for its row
 * (table_shards.c), so that both are on one shard. */
#include "tools/psckpt/candidate_shards.h"

#include "checkpoint/journal_candidates.h"
#include "proto/digest.h"
#include "tools/psckpt/state_sections.h"
#include "tools/psckpt/table_rows.h"
#include "tools/psckpt/table_shards.h"

#include <string.h>

/* One record, read. */
struct candidates {
    struct ps_record record;
    size_t count;
    const uint8_t *keys;
    const uint8_t *counts;
    const uint8_t *versions;
};

/* A record on its way. */
struct spreading {
    const struct candidates *from;
    uint32_t shard; /* that wrote it */
    struct table_owners before;
    struct table_owners after;
    uint64_t version; /* of the joined table */
    uint8_t *content; /* of one that is made; as large as that of `from` */
};

static enum ps_status read_record(const struct ps_checkpoint_records *records, size_t i,
                                  struct candidates *candidates, struct ps_error *error);
static enum ps_status spread_record(const struct shard_state *states, size_t state_count,
                                    size_t from, const struct candidates *candidates,
                                    struct shard_state *shards, uint32_t shard_count,
                                    struct ps_error *error);
static const struct ps_checkpoint_parameter *find_table(const struct shard_state *state,
                                                        struct ps_bytes name);
static enum ps_status check_keys(const struct spreading *spreading, uint32_t shard_count,
                                 struct ps_error *error);
static enum ps_status put_part(struct spreading *spreading, struct shard_state *shards,
                               uint32_t shard, struct ps_error *error);
static void add_record(const struct candidates *candidates, uint64_t *sum);

/* Every shard has room for all records: it may be the only one. */
enum ps_status candidate_shards_merge(const struct shard_state *states, size_t state_count,
                                      struct shard_state *shards, uint32_t shard_count,
                                      struct ps_error *error)
{
    /* Rooms are given back with the state only, so that one is made for as many as may come. */
    size_t room = 0;
    for (size_t i = 0; i < state_count; i++)
        room += states[i].facts.sections[PS_CHECKPOINT_CANDIDATES].count;
    for (uint32_t i = 0; i < shard_count; i++)
        PS_TRY(state_sections_begin(&shards[i], PS_CHECKPOINT_CANDIDATES, room, error));
    for (size_t i = 0; i < state_count; i++) {
        const struct ps_checkpoint_records *records =
            &states[i].facts.sections[PS_CHECKPOINT_CANDIDATES];
        /* One after the other: what a record is made of is copied before the next is asked for,
         * since a snapshot gives all of them in one room. */
        for (size_t j = 0; j < records->count; j++) {
            struct candidates candidates;
            PS_TRY(read_record(records, j, &candidates, error));
            PS_TRY(spread_record(states, state_count, i, &candidates, shards, shard_count, error));
        }
    }
    return PS_OK;
}

/* Borrowed until the next record is asked for. */
static enum ps_status read_record(const struct ps_checkpoint_records *records, size_t i,
                                  struct candidates *candidates, struct ps_error *error)
{
    /* A giver sets what it knows of a record, and all else is zero. */
    *candidates = (struct candidates){0};
    records->give(records->self, i, &candidates->record);
    if (candidates->record.content.piece_count != 1)
        return ps_fail(error, PS_ERR_CORRUPT, "candidates without content");
    struct ps_bytes content = candidates->record.content.pieces[0];
    PS_TRY(ps_candidates_record_read(content, &candidates->count, error));
    candidates->keys = content.data;
    candidates->counts = content.data + PS_CANDIDATES_COUNTS_AT(candidates->count);
    candidates->versions = content.data + PS_CANDIDATES_VERSIONS_AT(candidates->count);
    return PS_OK;
}

/* The shard's own configuration of the table says whose the keys are: that all shards have the same
 * was looked at when their rows were joined. */
static enum ps_status spread_record(const struct shard_state *states, size_t state_count,
                                    size_t from, const struct candidates *candidates,
                                    struct shard_state *shards, uint32_t shard_count,
                                    struct ps_error *error)
{
    const struct ps_allocator *memory = states[from].memory;
    struct spreading spreading = {.from = candidates, .shard = states[from].facts.index};
    const struct ps_checkpoint_parameter *table =
        find_table(&states[from], candidates->record.name);
    if (table == NULL || table->version != candidates->record.version)
        return ps_fail(error, PS_ERR_CORRUPT, "candidates of a table that is not there");
    PS_TRY(
        table_owners_read(table, states[from].facts.shard_count, memory, &spreading.before, error));
    PS_TRY(table_owners_read(table, shard_count, memory, &spreading.after, error));
    /* The joined table has the highest version of its parts, and each key moves up by what its
     * shard was behind: which candidates go for others is decided by that age. */
    for (size_t i = 0; i < state_count; i++) {
        const struct ps_checkpoint_parameter *part = find_table(&states[i], table->name);
        if (part != NULL && part->version > spreading.version)
            spreading.version = part->version;
    }
    /* What can be refused comes before the first key is copied. */
    PS_TRY(check_keys(&spreading, shard_count, error));
    spreading.content = ps_plain(memory, candidates->count * PS_CANDIDATE_BYTES);
    if (spreading.content == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for candidates");
    /* Each shard of the new job gets a record of its own, if it has any of the keys. */
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < shard_count && status == PS_OK; i++)
        status = put_part(&spreading, &shards[i], i, error);
    ps_release(memory, spreading.content);
    return status;
}

/* One after the other: there are few tables that count keys, and this is asked once a record. */
static const struct ps_checkpoint_parameter *find_table(const struct shard_state *state,
                                                        struct ps_bytes name)
{
    for (size_t i = 0; i < state->count; i++)
        if (state->parameters[i].is_table && ps_bytes_equal(state->parameters[i].name, name))
            return &state->parameters[i];
    return NULL;
}

/* The arrays lie at any address. */
static uint64_t key_at(const struct candidates *candidates, size_t i)
{
    uint64_t key;
    memcpy(&key, candidates->keys + i * sizeof key, sizeof key);
    return key;
}

/* A server keeps whatever it is sent of hashed keys, so there may be some of others. */
static bool is_own(const struct spreading *spreading, uint64_t key)
{
    return ps_partition_shard(&spreading->before.partition, key) == spreading->shard;
}

/* A range partition has no shard for keys that were let in before it was made smaller. */
static enum ps_status check_keys(const struct spreading *spreading, uint32_t shard_count,
                                 struct ps_error *error)
{
    for (size_t i = 0; i < spreading->from->count; i++) {
        uint64_t key = key_at(spreading->from, i);
        if (is_own(spreading, key) &&
            ps_partition_shard(&spreading->after.partition, key) >= shard_count)
            return ps_fail(error, PS_ERR_CORRUPT, "candidates: no shard has the key %llu",
                           (unsigned long long)key);
    }
    return PS_OK;
}

/* Once through the record for each shard: so nothing has to be sorted. First how many there are,
 * since the arrays follow each other. */
static enum ps_status put_part(struct spreading *spreading, struct shard_state *to, uint32_t shard,
                               struct ps_error *error)
{
    const struct candidates *from = spreading->from;
    /* Clocks are the low bits of versions, and wrap as those do. */
    uint32_t behind = (uint32_t)(spreading->version - from->record.version);
    size_t count = 0;
    for (size_t pass = 0; pass < 2; pass++) {
        size_t at = 0;
        for (size_t i = 0; i < from->count; i++) {
            uint64_t key = key_at(from, i);
            uint32_t version;
            /* Asked in both passes: a hash costs less than a list of answers would. */
            if (!is_own(spreading, key) ||
                ps_partition_shard(&spreading->after.partition, key) != shard)
                continue;
            if (pass == 1) {
                memcpy(&version, from->versions + i * sizeof version, sizeof version);
                version += behind;
                memcpy(spreading->content + at * sizeof key, &key, sizeof key);
                memcpy(spreading->content + PS_CANDIDATES_COUNTS_AT(count) + at * sizeof version,
                       from->counts + i * sizeof version, sizeof version);
                memcpy(spreading->content + PS_CANDIDATES_VERSIONS_AT(count) + at * sizeof version,
                       &version, sizeof version);
            }
            at++;
        }
        count = at;
    }
    /* A record without keys is one that no server writes. */
    if (count == 0)
        return PS_OK;
    const struct ps_bytes piece = {spreading->content, count * PS_CANDIDATE_BYTES};
    const struct ps_record record = {.type = PS_RECORD_CANDIDATES,
                                     .name = from->record.name,
                                     .version = spreading->version,
                                     .content = ps_view_of(&piece)};
    return state_sections_put(to, PS_CHECKPOINT_CANDIDATES, &record, error);
}

/* Number and sum stand behind a word that no other part of a digest begins with, so that two states
 * never give one string of bytes. Of a state without candidates the digest is what it was before
 * there were any. */
enum ps_status candidate_shards_add(const struct shard_state *states, size_t state_count,
                                    struct sha256 *hash, struct ps_error *error)
{
    uint64_t count = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < state_count; i++) {
        const struct ps_checkpoint_records *records =
            &states[i].facts.sections[PS_CHECKPOINT_CANDIDATES];
        for (size_t j = 0; j < records->count; j++) {
            struct candidates candidates;
            PS_TRY(read_record(records, j, &candidates, error));
            add_record(&candidates, &sum);
            count += candidates.count;
        }
    }
    /* As if nobody had ever heard of candidates. */
    if (count == 0)
        return PS_OK;
    sha256_add(hash, ps_bytes_of_text("candidates"));
    sha256_add_number(hash, count, 8);
    sha256_add_number(hash, sum, 8);
    return PS_OK;
}

/* A sum, since candidates stand in the order of pages. The bytes are those of the record, which are
 * little-endian on every machine. */
static void add_record(const struct candidates *candidates, uint64_t *sum)
{
    /* The name as a hash of it, so that each row is of one length. */
    uint8_t row[8 + PS_CANDIDATE_BYTES];
    const uint64_t name = ps_digest_xxh64(candidates->record.name);
    memcpy(row, &name, sizeof name);
    for (size_t i = 0; i < candidates->count; i++) {
        memcpy(row + 8, candidates->keys + 8 * i, 8);
        memcpy(row + 16, candidates->counts + 4 * i, 4);
        memcpy(row + 20, candidates->versions + 4 * i, 4);
        *sum += ps_digest_xxh64((struct ps_bytes){row, sizeof row});
    }
}

/* ---- As a table ---- */

/* A table of one column that is made of records: for its size first, then for its rows. */
struct counted_rows {
    const struct ps_checkpoint_parameter *table; /* that counts them */
    uint64_t rows;                               /* so far */
    uint64_t rows_max;                           /* with room in the arrays; 0: they are counted */
    uint64_t *keys;
    uint32_t *counts;
    uint32_t *clocks;
};

/* Of another table a record is passed over. Ages are those in the versions of the shard: one whose
 * table is at a lower version than the joined one has keys that look older than they are, and each
 * of them is as much younger there. */
static enum ps_status take_records(const struct shard_state *state, struct counted_rows *rows,
                                   struct ps_error *error)
{
    const struct ps_checkpoint_records *records = &state->facts.sections[PS_CHECKPOINT_CANDIDATES];
    for (size_t j = 0; j < records->count; j++) {
        struct candidates from;
        PS_TRY(read_record(records, j, &from, error));
        if (!ps_bytes_equal(from.record.name, rows->table->name))
            continue;
        uint32_t behind = (uint32_t)(rows->table->version - from.record.version);
        for (size_t i = 0; i < from.count && rows->rows_max > 0; i++) {
            uint64_t at = rows->rows + i;
            rows->keys[at] = key_at(&from, i);
            memcpy(&rows->counts[at], from.counts + i * sizeof rows->counts[0],
                   sizeof rows->counts[0]);
            memcpy(&rows->clocks[at], from.versions + i * sizeof rows->clocks[0],
                   sizeof rows->clocks[0]);
            rows->clocks[at] += behind;
        }
        rows->rows += from.count;
    }
    return PS_OK;
}

/* Once for the number, once for the rows: records are given one at a time, and none of them says
 * how many others there are. */
static enum ps_status take_all(const struct shard_state *states, size_t state_count,
                               const struct shard_state *joined, struct counted_rows *rows,
                               struct ps_error *error)
{
    rows->rows = 0;
    for (size_t i = 0; i < state_count; i++)
        PS_TRY(take_records(&states[i], rows, error));
    return take_records(joined, rows, error);
}

/* So everything that knows what to do with rows knows what to do with what is counted. The rooms
 * are those of the joined state, which outlives whatever is compared. */
enum ps_status candidate_shards_table(const struct shard_state *states, size_t state_count,
                                      struct shard_state *joined,
                                      const struct ps_checkpoint_parameter *table,
                                      struct ps_checkpoint_parameter *counted,
                                      struct ps_error *error)
{
    struct counted_rows rows = {.table = table};
    *counted = (struct ps_checkpoint_parameter){.name = table->name,
                                                .dtype = PS_U32,
                                                .version = table->version,
                                                .is_table = true,
                                                .width = 1};
    PS_TRY(take_all(states, state_count, joined, &rows, error));
    rows.rows_max = rows.rows;
    rows.keys = shard_state_room(joined, (size_t)rows.rows, sizeof *rows.keys, error);
    rows.counts = shard_state_room(joined, (size_t)rows.rows, sizeof *rows.counts, error);
    rows.clocks = shard_state_room(joined, (size_t)rows.rows, sizeof *rows.clocks, error);
    /* A table without rows has pieces, too. */
    struct ps_bytes *pieces = shard_state_room(joined, 3, sizeof *pieces, error);
    if (rows.keys == NULL || rows.counts == NULL || rows.clocks == NULL || pieces == NULL)
        return PS_ERR_NO_MEMORY;
    PS_TRY(take_all(states, state_count, joined, &rows, error));
    counted->count = counted->rows = rows.rows;
    /* In the order of a table's arrays without states: values, keys, clock. None of them needs more
     * than its own alignment. */
    uint8_t *arrays[PS_CHECKPOINT_ARRAYS_MAX] = {(uint8_t *)rows.counts, (uint8_t *)rows.keys,
                                                 (uint8_t *)rows.clocks};
    for (uint32_t array = 0; array < 3; array++) {
        pieces[array] = (struct ps_bytes){arrays[array], (size_t)ps_array_bytes(counted, array)};
        ps_array_set_view(counted, array, ps_view_of(&pieces[array]));
    }
    return table_rows_sort(counted, arrays, joined->memory, error);
}
