/* SPDX-License-Identifier: Apache-2.0 */
/* proto/round_config.c: rounds in configurations. */
#include "proto/optimizer_config.h"

#include "base/bounds.h"
#include "run_suite.h"

#include <check.h>

static enum ps_status decode(const void *bytes, size_t size, struct ps_optimizer_config *config,
                             struct ps_error *error)
{
    return ps_optimizer_config_decode((struct ps_bytes){bytes, size}, ps_allocator_heap(), config,
                                      error);
}

/* Configurations without rounds are the bytes that they were before there were any. */
START_TEST(rounds_come_back_and_are_absent_where_there_are_none)
{
    struct ps_optimizer_config sent;
    struct ps_optimizer_config got;
    struct ps_buffer bytes;
    ps_optimizer_config_defaults(&sent);
    ck_assert_uint_eq(sent.rounds.workers, 0);
    ps_buffer_init(&bytes, ps_allocator_heap(), PS_CONFIG_BYTES_MAX);
    ps_optimizer_config_encode(&sent, &bytes);
    size_t without = bytes.size;
    ps_buffer_clear(&bytes);
    sent.rounds = (struct ps_config_rounds){4, 3, 2000, 2, 1};

    ps_optimizer_config_encode(&sent, &bytes);
    ck_assert_int_eq(decode(bytes.text, bytes.size, &got, NULL), PS_OK);

    ck_assert_uint_gt(bytes.size, without);
    ck_assert_mem_eq(&got.rounds, &sent.rounds, sizeof got.rounds);
    /* OptimizerConfig{rounds{combine: 3}} */
    const uint8_t unknown[] = {0x92, 0x0d, 2, 0x20, 3};
    ck_assert_int_eq(decode(unknown, sizeof unknown, &got, NULL), PS_ERR_BAD_INPUT);
    ps_buffer_fini(&bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("round config");
    TCase *tests = tcase_create("round config");
    tcase_add_test(tests, rounds_come_back_and_are_absent_where_there_are_none);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
