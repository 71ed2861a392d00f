/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/candidate_shards.c: keys that are counted go where their rows would. */
#include "tools/psckpt/candidate_shards.h"

#include "checkpoint/journal_candidates.h"
#include "proto/optimizer_config.h"
#include "rows_fixture.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tools/psckpt/state_sections.h"
#include "tools/psckpt/table_rows.h"
#include "tools/psckpt/table_shards.h"

#include <check.h>
#include <string.h>

enum { KEYS = 200, SHARDS_MAX = 7 };

static struct rows_fixture tables[SHARDS_MAX];
static struct ps_table_settings settings;
static char config_bytes[2048];
static struct shard_state from[SHARDS_MAX];
static struct shard_state to[SHARDS_MAX];
static struct ps_error error;

static uint64_t key_of(uint64_t i)
{
    return settings.partition == PS_TABLE_HASH ? i * 0x123456789abcdef : i;
}

static struct ps_bytes configure(void)
{
    struct ps_optimizer_config config;
    struct ps_buffer bytes;
    ps_optimizer_config_defaults(&config);
    ck_assert(ps_optimizer_config_choose(&config, "adagrad"));
    ps_optimizer_config_set(&config, "row_wise", 1);
    config.table = settings;
    ps_buffer_init_fixed(&bytes, config_bytes, sizeof config_bytes);
    ps_optimizer_config_encode(&config, &bytes);
    ck_assert(!bytes.failed);
    return (struct ps_bytes){(const uint8_t *)config_bytes, bytes.size};
}

/* Shards of a job, whose table "emb" has no row and is at version 10 + i on shard i. */
static void begin(enum ps_table_partition partition, uint32_t count)
{
    settings = (struct ps_table_settings){.width = 2, .admission = 9, .partition = partition};
    if (partition == PS_TABLE_RANGE)
        settings.keys_max = KEYS;
    struct ps_bytes config = configure();
    for (uint32_t i = 0; i < count; i++) {
        rows_fixture_init(&tables[i], "emb");
        tables[i].row.config = config;
        tables[i].row.version = 10 + i;
        shard_state_init(&from[i], ps_allocator_heap());
        from[i].parameters = &tables[i].row;
        from[i].count = 1;
        from[i].facts.index = i;
        from[i].facts.shard_count = count;
        ck_assert_int_eq(state_sections_begin(&from[i], PS_CHECKPOINT_CANDIDATES, 4, &error),
                         PS_OK);
    }
}

/* A record on that shard: keys first to end - 1, key i pushed to 1 + i % 8 times, last at version
 * 3 of the shard. */
static void put(uint32_t shard, uint64_t first, uint64_t end)
{
    uint8_t content[KEYS * PS_CANDIDATE_BYTES];
    size_t count = 0;
    for (uint64_t i = first; i < end; i++, count++) {
        uint64_t key = key_of(i);
        uint32_t pair[2] = {1 + (uint32_t)i % 8, 3};
        memcpy(content + 8 * count, &key, 8);
        memcpy(content + PS_CANDIDATES_COUNTS_AT(end - first) + 4 * count, &pair[0], 4);
        memcpy(content + PS_CANDIDATES_VERSIONS_AT(end - first) + 4 * count, &pair[1], 4);
    }
    const struct ps_bytes piece = {content, count * PS_CANDIDATE_BYTES};
    const struct ps_record record = {.type = PS_RECORD_CANDIDATES,
                                     .name = ps_bytes_of_text("emb"),
                                     .version = tables[shard].row.version,
                                     .content = ps_view_of(&piece)};
    ck_assert_int_eq(state_sections_put(&from[shard], PS_CHECKPOINT_CANDIDATES, &record, &error),
                     PS_OK);
}

static enum ps_status merge(uint32_t before, uint32_t after, const struct ps_allocator *memory)
{
    for (uint32_t i = 0; i < after; i++)
        shard_state_init(&to[i], memory);
    return candidate_shards_merge(from, before, to, after, &error);
}

static void release(uint32_t before, uint32_t after)
{
    for (uint32_t i = 0; i < before; i++)
        shard_state_fini(&from[i]);
    for (uint32_t i = 0; i < after; i++)
        shard_state_fini(&to[i]);
}

/* All of a record are of the shard that the table's partition says; returns how many. */
static size_t expect_record(uint32_t shard, const struct table_owners *owners,
                            const struct ps_record *record, uint64_t version, uint32_t last)
{
    size_t count;
    struct ps_bytes content = record->content.pieces[0];
    ck_assert_uint_eq(record->version, version);
    ck_assert_int_eq(ps_candidates_record_read(content, &count, &error), PS_OK);
    for (size_t i = 0; i < count; i++) {
        uint64_t key;
        uint32_t pushes;
        uint32_t pushed;
        memcpy(&key, content.data + 8 * i, 8);
        memcpy(&pushes, content.data + PS_CANDIDATES_COUNTS_AT(count) + 4 * i, 4);
        memcpy(&pushed, content.data + PS_CANDIDATES_VERSIONS_AT(count) + 4 * i, 4);
        ck_assert_uint_eq(ps_partition_shard(&owners->partition, key), shard);
        uint64_t number = 0;
        while (key_of(number) != key)
            number++;
        ck_assert_uint_eq(pushes, 1 + number % 8);
        ck_assert_uint_eq(pushed, last);
    }
    return count;
}

START_TEST(every_key_goes_to_the_shard_that_has_it)
{
    static const enum ps_table_partition kinds[] = {PS_TABLE_HASH, PS_TABLE_RANGE};
    static const uint32_t counts[] = {1, 2, 3, 7};
    uint32_t after = counts[_i % 4];
    struct table_owners owners;
    begin(kinds[_i / 4], 1);
    put(0, 0, 150);
    put(0, 150, KEYS);
    ck_assert_msg(merge(1, after, ps_allocator_heap()) == PS_OK, "%s", error.text);
    ck_assert_int_eq(table_owners_read(&tables[0].row, after, ps_allocator_heap(), &owners, &error),
                     PS_OK);
    size_t keys = 0;
    for (uint32_t i = 0; i < after; i++) {
        const struct ps_checkpoint_records *records =
            &to[i].facts.sections[PS_CHECKPOINT_CANDIDATES];
        for (size_t k = 0; k < records->count; k++) {
            struct ps_record record;
            records->give(records->self, k, &record);
            keys += expect_record(i, &owners, &record, 10, 3);
        }
    }
    ck_assert_uint_eq(keys, KEYS);
    release(1, after);
}
END_TEST

/* Both shards have written all keys: each is believed of its own. */
START_TEST(keys_of_other_shards_are_left_out_and_ages_are_kept)
{
    struct table_owners owners;
    struct ps_record record;
    begin(PS_TABLE_HASH, 2);
    put(0, 0, KEYS);
    put(1, 0, KEYS);
    ck_assert_int_eq(merge(2, 1, ps_allocator_heap()), PS_OK);
    ck_assert_int_eq(table_owners_read(&tables[0].row, 1, ps_allocator_heap(), &owners, &error),
                     PS_OK);
    const struct ps_checkpoint_records *records = &to[0].facts.sections[PS_CHECKPOINT_CANDIDATES];
    ck_assert_uint_eq(records->count, 2);
    size_t keys = 0;
    /* Shard 0 was one version behind the other. */
    for (uint32_t i = 0; i < 2; i++) {
        records->give(records->self, i, &record);
        keys += expect_record(0, &owners, &record, 11, 4 - i);
    }
    ck_assert_uint_eq(keys, KEYS);
    release(2, 1);
}
END_TEST

START_TEST(records_of_no_table_and_keys_of_no_shard_are_refused)
{
    begin(PS_TABLE_HASH, 1);
    put(0, 0, 10);
    tables[0].row.version++;
    ck_assert_int_eq(merge(1, 2, ps_allocator_heap()), PS_ERR_CORRUPT);
    release(1, 2);
    begin(PS_TABLE_RANGE, 1);
    settings.partition = PS_TABLE_RANGE;
    settings.keys_max = 5;
    tables[0].row.config = configure();
    put(0, 0, 10);
    /* The range of one shard ends where the keys do, and what is behind it is nobody's. */
    ck_assert_int_eq(merge(1, 2, ps_allocator_heap()), PS_OK);
    struct ps_checkpoint_parameter counted;
    ck_assert_int_eq(candidate_shards_table(&to[1], 1, &to[0], &tables[0].row, &counted, &error),
                     PS_OK);
    ck_assert_uint_eq(counted.rows, 5);
    release(1, 2);
}
END_TEST

/* Of two shards, the first of which is a version behind: by keys, with counts and ages. */
START_TEST(candidates_of_all_shards_are_a_table_of_one_column)
{
    struct ps_checkpoint_parameter counted;
    begin(PS_TABLE_RANGE, 3);
    put(1, 5, 10);
    put(0, 3, 5);
    put(0, 0, 3);
    tables[2].row.version = 11;
    ck_assert_int_eq(candidate_shards_table(from, 2, &from[2], &tables[2].row, &counted, &error),
                     PS_OK);
    ck_assert(counted.is_table && counted.width == 1 && counted.dtype == PS_U32);
    ck_assert_uint_eq(counted.rows, 10);
    for (uint64_t i = 0; i < 10; i++) {
        uint32_t pair[2];
        ps_view_copy(counted.values, i * 4, &pair[0], 4);
        ps_view_copy(counted.clock, i * 4, &pair[1], 4);
        ck_assert_uint_eq(table_key(&counted, i), i);
        ck_assert_uint_eq(pair[0], 1 + i % 8);
        ck_assert_uint_eq(pair[1], i < 5 ? 4 : 3);
    }
    /* One key on two shards is a row of which nobody knows which is meant. */
    put(2, 9, 10);
    ck_assert_int_eq(candidate_shards_table(from, 2, &from[2], &tables[2].row, &counted, &error),
                     PS_ERR_CORRUPT);
    /* Another table has none. */
    tables[2].row.name = ps_bytes_of_text("other");
    ck_assert_int_eq(candidate_shards_table(from, 2, &from[2], &tables[2].row, &counted, &error),
                     PS_OK);
    ck_assert_uint_eq(counted.rows, 0);
    release(3, 0);
}
END_TEST

static void digest(struct shard_state *states, size_t count, uint8_t bytes[SHA256_BYTES])
{
    struct sha256 hash;
    sha256_init(&hash);
    ck_assert_int_eq(candidate_shards_add(states, count, &hash, &error), PS_OK);
    ck_assert_int_eq(sha256_end(&hash, bytes, &error), PS_OK);
}

START_TEST(the_digest_is_the_same_for_the_same_candidates)
{
    uint8_t empty[SHA256_BYTES];
    uint8_t one[SHA256_BYTES];
    uint8_t other[SHA256_BYTES];
    digest(NULL, 0, empty);
    begin(PS_TABLE_HASH, 1);
    digest(from, 1, one);
    ck_assert_mem_eq(empty, one, sizeof one);
    put(0, 0, 150);
    digest(from, 1, one);
    ck_assert_mem_ne(empty, one, sizeof one);
    ck_assert_int_eq(merge(1, 3, ps_allocator_heap()), PS_OK);
    digest(to, 3, other);
    ck_assert_mem_eq(other, one, sizeof one);
    put(0, 150, 151);
    digest(from, 1, other);
    ck_assert_mem_ne(other, one, sizeof one);
    release(1, 3);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing_behind)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    int64_t refused = 0;
    for (; status != PS_OK; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        begin(PS_TABLE_HASH, 1);
        put(0, 0, KEYS);
        shard_state_init(&from[1], &memory);
        struct ps_checkpoint_parameter counted;
        status = merge(1, 2, &memory);
        if (status == PS_OK)
            status = candidate_shards_table(from, 1, &from[1], &tables[0].row, &counted, &error);
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        release(2, 2);
        ck_assert_int_eq(heap.live, 0);
    }
    ck_assert_int_gt(refused, 8);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("candidate_shards");
    tcase_add_loop_test(tests, every_key_goes_to_the_shard_that_has_it, 0, 8);
    tcase_add_test(tests, keys_of_other_shards_are_left_out_and_ages_are_kept);
    tcase_add_test(tests, records_of_no_table_and_keys_of_no_shard_are_refused);
    tcase_add_test(tests, candidates_of_all_shards_are_a_table_of_one_column);
    tcase_add_test(tests, the_digest_is_the_same_for_the_same_candidates);
    tcase_add_test(tests, a_refused_allocation_leaves_nothing_behind);
    Suite *suite = suite_create("candidate_shards");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
