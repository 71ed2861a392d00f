/* SPDX-License-Identifier: Apache-2.0 */
/* proto/table_config.c: tables in configurations. */
#include "proto/optimizer_config.h"

#include "base/bounds.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static enum ps_status decode(const void *bytes, size_t size, struct ps_optimizer_config *config,
                             struct ps_error *error)
{
    return ps_optimizer_config_decode((struct ps_bytes){bytes, size}, ps_allocator_heap(), config,
                                      error);
}

/* Configurations without tables are the bytes that they were before there were any. */
START_TEST(a_table_comes_back_and_is_absent_where_there_is_none)
{
    struct ps_optimizer_config sent;
    struct ps_optimizer_config got;
    struct ps_buffer bytes;
    ps_optimizer_config_defaults(&sent);
    ck_assert_uint_eq(sent.table.width, 0);
    ps_buffer_init(&bytes, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);
    ps_optimizer_config_encode(&sent, &bytes);
    ck_assert_ptr_null(memmem(bytes.text, bytes.size, "\xa2\x0d", 2));
    ps_buffer_clear(&bytes);
    sent.table = (struct ps_table_settings){.width = PS_TABLE_WIDTH_MAX,
                                            .rows_max = UINT64_MAX,
                                            .init = PS_TABLE_NORMAL,
                                            .low = -0.5,
                                            .high = 2,
                                            .seed = 7,
                                            .full = PS_TABLE_OLDEST,
                                            .admission = 3,
                                            .candidates_max = 9,
                                            .expire_ms = 4,
                                            .expire_clocks = 5,
                                            .clocks = "epochs",
                                            .partition = PS_TABLE_GIVEN,
                                            .keys_max = 6,
                                            .chunk = 8,
                                            .bound_count = PS_TABLE_BOUNDS_MAX};
    for (uint32_t i = 0; i < PS_TABLE_BOUNDS_MAX; i++)
        sent.table.bounds[i] = UINT64_MAX - 100 + i;

    ps_optimizer_config_encode(&sent, &bytes);
    ck_assert_int_eq(decode(bytes.text, bytes.size, &got, NULL), PS_OK);

    ck_assert_mem_eq(&got.table, &sent.table, sizeof got.table);
    ps_buffer_fini(&bytes);
}
END_TEST

/* OptimizerConfig{table{...}}: an enum of a later version, a longer name, one bound too many. */
START_TEST(what_has_no_room_is_refused)
{
    uint8_t bytes[4 + 2 * (PS_TABLE_BOUNDS_MAX + 1)] = {0xa2, 0x0d, 2, 0x18};
    struct ps_optimizer_config got;
    struct ps_error error = {.text = ""};
    bytes[4] = 4;
    ck_assert_int_eq(decode(bytes, 5, &got, &error), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "Init"));

    uint8_t clocks[6 + PS_CLOCKS_NAME_BYTES_MAX + 1] = {0xa2, 0x0d, 2 + 65, 0x5a, 65};
    memset(clocks + 5, 'c', 65);
    ck_assert_int_eq(decode(clocks, 5 + 65, &got, &error), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "table.clocks"));

    for (uint8_t i = 0; i <= PS_TABLE_BOUNDS_MAX; i++)
        memcpy(bytes + 4 + 2 * i, (uint8_t[]){0x70, i}, 2);
    /* 64 bounds of two bytes; the length takes two bytes. */
    bytes[2] = 0x80;
    bytes[3] = 1;
    ck_assert_int_eq(decode(bytes, sizeof bytes, &got, &error), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "table.bounds"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table config");
    TCase *tests = tcase_create("table config");
    tcase_add_test(tests, a_table_comes_back_and_is_absent_where_there_is_none);
    tcase_add_test(tests, what_has_no_room_is_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
