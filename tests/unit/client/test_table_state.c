/* SPDX-License-Identifier: Apache-2.0 */
/* client/table_state.c: options to configurations, and tables of those. */
#include "client/table_state.h"

#include "proto/optimizer_config.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <string.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct psclient client;
static struct ps_error error;
static char room[4096];
static struct ps_buffer config;
static const struct ps_bytes name = {(const uint8_t *)"emb", 3};

static void begin(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    client = (struct psclient){.memory = &memory, .shard_count = 3};
    ps_buffer_init_fixed(&config, room, sizeof room);
}

static void end(void)
{
    ck_assert_int_eq(heap.live, 0);
}

static struct ps_bytes bytes(void)
{
    return (struct ps_bytes){(const uint8_t *)config.text, config.size};
}

START_TEST(every_option_is_told)
{
    static const uint64_t bounds[] = {0, UINT64_MAX};
    const struct psclient_table_options options = {.width = 16,
                                                   .rows_max = 1000,
                                                   .init = PSCLIENT_ROWS_UNIFORM,
                                                   .full = PSCLIENT_ROWS_OLDEST,
                                                   .low = -0.5,
                                                   .high = 0.25,
                                                   .seed = 7,
                                                   .admission = 2,
                                                   .candidates_max = 77,
                                                   .partition = PSCLIENT_ROWS_GIVEN,
                                                   .expire_ms = 60000,
                                                   .expire_clocks = 4,
                                                   .clocks = "epoch",
                                                   .keys_max = 99,
                                                   .chunk = 5,
                                                   .bounds = bounds,
                                                   .bound_count = 2};
    struct ps_optimizer_config told;

    ps_table_wish_encode(&options, &config);

    ck_assert_int_eq(ps_optimizer_config_decode(bytes(), &memory, &told, &error), PS_OK);
    ck_assert_uint_eq(told.table.width, 16);
    ck_assert_uint_eq(told.table.rows_max, 1000);
    ck_assert_int_eq(told.table.init, PS_TABLE_UNIFORM);
    ck_assert_int_eq(told.table.full, PS_TABLE_OLDEST);
    ck_assert_double_eq(told.table.low, -0.5);
    ck_assert_double_eq(told.table.high, 0.25);
    ck_assert_uint_eq(told.table.seed, 7);
    ck_assert_uint_eq(told.table.admission, 2);
    ck_assert_uint_eq(told.table.candidates_max, 77);
    ck_assert_int_eq(told.table.partition, PS_TABLE_GIVEN);
    ck_assert_uint_eq(told.table.expire_ms, 60000);
    ck_assert_uint_eq(told.table.expire_clocks, 4);
    ck_assert_str_eq(told.table.clocks, "epoch");
    ck_assert_uint_eq(told.table.keys_max, 99);
    ck_assert_uint_eq(told.table.chunk, 5);
    ck_assert_uint_eq(told.table.bound_count, 2);
    ck_assert_mem_eq(told.table.bounds, bounds, sizeof bounds);
}
END_TEST

/* OptimizerConfig {optimizer: Adam}, and the table behind it. */
START_TEST(the_rule_stays_what_it_was)
{
    static const uint8_t adam[] = {0x08, 4};
    const struct psclient_table_options options = {.width = 3};
    struct ps_optimizer_config told;

    ps_buffer_append(&config, (struct ps_bytes){adam, sizeof adam});
    ps_table_wish_encode(&options, &config);

    ck_assert_int_eq(ps_optimizer_config_decode(bytes(), &memory, &told, &error), PS_OK);
    ck_assert_str_eq(told.optimizer, "adam");
    ck_assert_uint_eq(told.table.width, 3);
    ck_assert_uint_eq(told.table.chunk, 1);
}
END_TEST

START_TEST(a_table_is_what_its_configuration_says)
{
    const struct psclient_table_options options = {
        .width = 3, .partition = PSCLIENT_ROWS_RANGES, .keys_max = 9, .chunk = 2};
    struct psclient_table *table = NULL;
    ps_table_wish_encode(&options, &config);

    ck_assert_int_eq(ps_table_create(&client, name, PS_F64, bytes(), &table, &error), PS_OK);

    ck_assert_str_eq(psclient_table_name(table), "emb");
    ck_assert_uint_eq(psclient_table_width(table), 3);
    ck_assert_int_eq(psclient_table_type(table), PSCLIENT_FLOAT64);
    ck_assert_uint_eq(psclient_table_row_bytes(table), 24);
    ck_assert_uint_eq(psclient_table_shard(table, 8), 2);
    ck_assert_uint_eq(psclient_table_shard(table, 9), 3);
    ps_table_destroy(table);
}
END_TEST

START_TEST(what_is_not_a_table_of_this_job_is_refused)
{
    static const uint64_t bounds[] = {4};
    const struct psclient_table_options given = {
        .width = 3, .partition = PSCLIENT_ROWS_GIVEN, .bounds = bounds, .bound_count = 1};
    const struct psclient_table_options wide = {.width = PS_TABLE_WIDTH_MAX + 1};
    struct psclient_table *table = NULL;

    ck_assert_int_eq(ps_table_create(&client, name, PS_F32, bytes(), &table, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "is not a table"));
    ps_table_wish_encode(&given, &config);
    ck_assert_int_eq(ps_table_create(&client, name, PS_F32, bytes(), &table, &error),
                     PS_ERR_BAD_INPUT);
    ps_buffer_clear(&config);
    ps_table_wish_encode(&wide, &config);
    ck_assert_int_eq(ps_table_create(&client, name, PS_F32, bytes(), &table, &error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_null(table);
}
END_TEST

START_TEST(refused_memory_leaves_nothing_behind)
{
    const struct psclient_table_options options = {.width = 3};
    enum ps_status status = PS_ERR_NO_MEMORY;
    struct psclient_table *table = NULL;
    ps_table_wish_encode(&options, &config);

    for (int64_t at = 0; status == PS_ERR_NO_MEMORY; at++) {
        heap.seen = 0;
        heap.refuse_at = at;
        status = ps_table_create(&client, name, PS_F32, bytes(), &table, &error);
        ck_assert_int_eq(heap.live > 0, status == PS_OK);
    }

    ck_assert_int_eq(status, PS_OK);
    ps_table_destroy(table);
}
END_TEST

START_TEST(a_place_of_reads_needs_a_worker)
{
    const struct psclient_table_options options = {.width = 3};
    struct psclient_table *table = NULL;
    struct psclient_error why;
    char text[80] = {0};
    ps_table_wish_encode(&options, &config);
    ck_assert_int_eq(ps_table_create(&client, name, PS_F32, bytes(), &table, &error), PS_OK);
    memset(text, 'x', PS_CLOCKS_NAME_BYTES_MAX + 1);

    ck_assert_int_eq(psclient_table_at(table, "epoch", 0, 1, &why), PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_table_at(table, text, 1, 1, &why), PSCLIENT_INVALID);
    ck_assert_int_eq(psclient_table_at(table, text + 1, 1, 1, &why), PSCLIENT_OK);
    ck_assert_int_eq(psclient_table_at(table, NULL, 0, 0, &why), PSCLIENT_OK);
    ps_table_destroy(table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table state");
    TCase *tests = tcase_create("state");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, every_option_is_told);
    tcase_add_test(tests, the_rule_stays_what_it_was);
    tcase_add_test(tests, a_table_is_what_its_configuration_says);
    tcase_add_test(tests, what_is_not_a_table_of_this_job_is_refused);
    tcase_add_test(tests, refused_memory_leaves_nothing_behind);
    tcase_add_test(tests, a_place_of_reads_needs_a_worker);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
