/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/table_shards.c: tables cut for other numbers of shards, and joined again. */
#include "tools/psckpt/table_shards.h"

#include "base/partition.h"
#include "proto/optimizer_config.h"
#include "rows_fixture.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tools/psckpt/joined_state.h"
#include "tools/psckpt/parameter_room.h"
#include "tools/psckpt/spread_state.h"
#include "tools/psckpt/table_rows.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS_MAX 7
#define ROWS 50

static struct rows_fixture table;
static struct ps_table_settings settings;
static char config_bytes[2048];
static struct shard_state whole;
static struct shard_state shards[SHARDS_MAX];
static struct shard_state joined;
static struct ps_error error;

/* Gives the table the configuration that `settings` are. */
static void configure(void)
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
    table.row.config = (struct ps_bytes){(const uint8_t *)config_bytes, bytes.size};
}

static uint64_t key_of(uint64_t i)
{
    return settings.partition == PS_TABLE_HASH ? i * 0x123456789abcdef : i * 3;
}

static void set_up(void)
{
    rows_fixture_init(&table, "emb");
    settings = (struct ps_table_settings){.width = 2};
    configure();
    shard_state_init(&whole, ps_allocator_heap());
    whole.parameters = &table.row;
    whole.count = 1;
    whole.facts.shard_count = 1;
}

static void fill(void)
{
    for (uint64_t i = 0; i < ROWS; i++)
        rows_fixture_put(&table, key_of(i), (float)i, (uint32_t)i);
    /* As a state promises of its tables. */
    ck_assert_int_eq(table_rows_sort(&table.row, table.arrays, ps_allocator_heap(), &error), PS_OK);
    configure();
}

static enum ps_status spread(uint32_t count, const struct ps_allocator *memory)
{
    for (uint32_t i = 0; i < count; i++)
        shard_state_init(&shards[i], memory);
    return spread_state(&whole, 1 << 20, shards, count, &error);
}

/* The tables of the shards in arrays, as a file has them that was written of their sources. */
static enum ps_status take(uint32_t count)
{
    enum ps_status status = PS_OK;
    for (uint32_t i = 0; i < count && status == PS_OK; i++)
        status = parameter_room_take_tables(&shards[i], &error);
    return status;
}

static enum ps_status join(uint32_t count, const struct ps_allocator *memory)
{
    size_t uneven = 9;
    shard_state_init(&joined, memory);
    enum ps_status status = joined_state_make(shards, count, &joined, &uneven, &error);
    ck_assert(status != PS_OK || uneven == 0);
    return status == PS_OK ? parameter_room_take_tables(&joined, &error) : status;
}

static void release(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        shard_state_fini(&shards[i]);
    shard_state_fini(&joined);
}

static void expect_joined(void)
{
    const struct ps_checkpoint_parameter *row = &joined.parameters[0];
    ck_assert_uint_eq(joined.count, 1);
    ck_assert_uint_eq(row->rows, ROWS);
    ck_assert_uint_eq(row->count, 2 * ROWS);
    ck_assert_uint_eq(row->version, 10);
    for (uint64_t at = 0; at < ROWS; at++) {
        uint64_t key;
        uint64_t i = 0;
        ps_view_copy(row->keys, at * 8, &key, sizeof key);
        while (key_of(i) != key)
            i++;
        rows_fixture_expect(row, at, key, (float)i, (uint32_t)i);
    }
}

/* Every shard has just the keys that clients will ask of it. */
static void expect_spread(uint32_t count)
{
    const struct ps_partition partition = {.kind = (enum ps_partition_kind)settings.partition,
                                           .shard_count = count,
                                           .keys_max = settings.keys_max,
                                           .chunk = settings.chunk,
                                           .bounds = settings.bounds,
                                           .bound_count = settings.bound_count};
    uint64_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_uint_eq(shards[i].count, 1);
        const struct ps_checkpoint_parameter *part = &shards[i].parameters[0];
        for (uint64_t row = 0; row < part->rows; row++, rows++) {
            uint64_t key;
            ps_view_copy(part->keys, row * 8, &key, sizeof key);
            ck_assert_uint_eq(ps_partition_shard(&partition, key), i);
        }
    }
    ck_assert_uint_eq(rows, ROWS);
}

static void there_and_back(uint32_t count)
{
    ck_assert_msg(spread(count, ps_allocator_heap()) == PS_OK, "%s", error.text);
    ck_assert_int_eq(take(count), PS_OK);
    expect_spread(count);
    ck_assert_msg(join(count, ps_allocator_heap()) == PS_OK, "%s", error.text);
    expect_joined();
    release(count);
}

START_TEST(hashed_rows_go_where_clients_ask_for_them_and_come_back)
{
    fill();
    there_and_back((uint32_t)_i);
}
END_TEST

START_TEST(ranges_are_those_of_the_new_number_of_shards)
{
    settings.partition = PS_TABLE_RANGE;
    settings.keys_max = 3 * ROWS;
    settings.chunk = 4;
    fill();
    there_and_back((uint32_t)_i);
}
END_TEST

START_TEST(given_bounds_are_of_their_number_of_shards)
{
    settings.partition = PS_TABLE_GIVEN;
    settings.bound_count = 2;
    settings.bounds[0] = 30;
    settings.bounds[1] = 31;
    fill();
    there_and_back(3);

    ck_assert_int_eq(spread(2, ps_allocator_heap()), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "table emb: 2 bounds for 2 shards"));
    release(2);
}
END_TEST

START_TEST(a_table_without_rows_is_on_every_shard)
{
    ck_assert_int_eq(spread(3, ps_allocator_heap()), PS_OK);
    ck_assert_int_eq(take(3), PS_OK);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(shards[i].parameters[0].rows, 0);
        ck_assert(shards[i].parameters[0].is_table);
    }
    ck_assert_int_eq(join(3, ps_allocator_heap()), PS_OK);
    ck_assert_uint_eq(joined.parameters[0].rows, 0);
    release(3);
}
END_TEST

START_TEST(rows_of_keys_that_nobody_asks_a_shard_for_are_left_out)
{
    fill();
    ck_assert_int_eq(spread(2, ps_allocator_heap()), PS_OK);
    ck_assert_int_eq(take(2), PS_OK);
    /* The first shard says that it is the second, whose keys it does not have, and the other way
     * round. */
    shards[0].facts.index = 1;
    shards[1].facts.index = 0;
    ck_assert_int_eq(join(2, ps_allocator_heap()), PS_OK);
    ck_assert_uint_eq(joined.parameters[0].rows, 0);
    release(2);
}
END_TEST

START_TEST(rows_keep_their_age_when_parts_have_other_versions)
{
    fill();
    ck_assert_int_eq(spread(2, ps_allocator_heap()), PS_OK);
    ck_assert_int_eq(take(2), PS_OK);
    /* Ten versions later on one of two shards. */
    shards[1].parameters[0].version = 20;
    shards[1].parameters[0].step = 15;
    ck_assert_int_eq(join(2, ps_allocator_heap()), PS_OK);

    const struct ps_checkpoint_parameter *row = &joined.parameters[0];
    const struct ps_partition partition = {.shard_count = 2};
    ck_assert_uint_eq(row->version, 20);
    ck_assert_uint_eq(row->step, 15);
    for (uint64_t at = 0; at < ROWS; at++) {
        uint64_t key;
        uint32_t i = 0;
        ps_view_copy(row->keys, at * 8, &key, sizeof key);
        while (key_of(i) != key)
            i++;
        rows_fixture_expect(row, at, key, (float)i,
                            i + (ps_partition_shard(&partition, key) == 0 ? 10 : 0));
    }
    release(2);
}
END_TEST

START_TEST(parts_that_do_not_fit_together_are_corrupt)
{
    fill();
    ck_assert_int_eq(spread(2, ps_allocator_heap()), PS_OK);
    ck_assert_int_eq(take(2), PS_OK);
    shards[1].facts.index = 0;
    ck_assert_int_eq(join(2, ps_allocator_heap()), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "parameter emb is there twice"));
    shard_state_fini(&joined);
    shards[1].facts.index = 1;
    shards[1].parameters[0].config.size--;
    ck_assert_int_eq(join(2, ps_allocator_heap()), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "shards 0 and 1 differ"));
    release(2);
}
END_TEST

START_TEST(a_configuration_of_another_width_is_corrupt)
{
    settings.width = 3;
    fill();
    ck_assert_int_eq(spread(2, ps_allocator_heap()), PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "width 3"));
    release(2);
}
END_TEST

START_TEST(more_rows_than_a_shard_may_have_are_refused)
{
    settings.rows_max = 20;
    fill();
    ck_assert_int_eq(spread(2, ps_allocator_heap()), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "rows_max is 20"));
    release(2);
}
END_TEST

/* A limit that was lowered leaves what was there before (psctl set). */
START_TEST(a_shard_may_have_as_many_rows_as_the_fullest_of_before)
{
    fill();
    ck_assert_int_eq(spread(2, ps_allocator_heap()), PS_OK);
    ck_assert_int_eq(take(2), PS_OK);
    settings.rows_max = 3;
    configure();
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_gt(shards[i].parameters[0].rows, settings.rows_max);
        shards[i].parameters[0].config = table.row.config;
    }
    shard_state_init(&joined, ps_allocator_heap());
    size_t uneven = 0;
    ck_assert_int_eq(joined_state_make(shards, 2, &joined, &uneven, &error), PS_OK);
    struct shard_state again[4];
    for (uint32_t count = 1; count <= 4; count++) {
        for (uint32_t i = 0; i < count; i++)
            shard_state_init(&again[i], ps_allocator_heap());
        enum ps_status status = spread_state(&joined, 1 << 20, again, count, &error);
        /* One shard has no room for what two had. */
        ck_assert_int_eq(status, count == 1 ? PS_ERR_BAD_INPUT : PS_OK);
        for (uint32_t i = 0; i < count; i++)
            shard_state_fini(&again[i]);
    }
    release(2);
}
END_TEST

/* Any bytes, in any order, are those of the arrays. */
START_TEST(a_source_is_read_in_any_pieces)
{
    fill();
    ck_assert_int_eq(spread(2, ps_allocator_heap()), PS_OK);
    struct ps_checkpoint_source sources[2] = {shards[0].parameters[0].source,
                                              shards[1].parameters[0].source};
    ck_assert_int_eq(take(2), PS_OK);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t array = 0; array < ps_array_count(&table.row); array++) {
            const struct ps_checkpoint_parameter *part = &shards[i].parameters[0];
            const uint8_t *expected = table_array(part, array);
            uint8_t bytes[64];
            for (uint64_t end = ps_array_bytes(part, array); end > 0;) {
                size_t size = (size_t)(end % 37 + 1 < end ? end % 37 + 1 : end);
                end -= size;
                ck_assert_int_eq(sources[i].read(sources[i].self, array, end, bytes, size, &error),
                                 PS_OK);
                ck_assert_mem_eq(bytes, expected + end, size);
            }
        }
    release(2);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    fill();
    for (int refused = 0; status == PS_ERR_NO_MEMORY; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        status = spread(3, &memory);
        if (status == PS_OK)
            status = take(3);
        if (status == PS_OK)
            status = join(3, &memory);
        release(3);
        ck_assert_int_eq(heap.live, 0);
    }
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table_shards");
    TCase *tests = tcase_create("table_shards");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_loop_test(tests, hashed_rows_go_where_clients_ask_for_them_and_come_back, 1,
                        SHARDS_MAX + 1);
    tcase_add_loop_test(tests, ranges_are_those_of_the_new_number_of_shards, 1, SHARDS_MAX + 1);
    tcase_add_test(tests, given_bounds_are_of_their_number_of_shards);
    tcase_add_test(tests, a_table_without_rows_is_on_every_shard);
    tcase_add_test(tests, rows_of_keys_that_nobody_asks_a_shard_for_are_left_out);
    tcase_add_test(tests, rows_keep_their_age_when_parts_have_other_versions);
    tcase_add_test(tests, parts_that_do_not_fit_together_are_corrupt);
    tcase_add_test(tests, a_configuration_of_another_width_is_corrupt);
    tcase_add_test(tests, more_rows_than_a_shard_may_have_are_refused);
    tcase_add_test(tests, a_shard_may_have_as_many_rows_as_the_fullest_of_before);
    tcase_add_test(tests, a_source_is_read_in_any_pieces);
    tcase_add_test(tests, a_refused_allocation_leaves_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
