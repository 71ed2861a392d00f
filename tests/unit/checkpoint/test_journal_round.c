/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_round.c: there and back, and what is not one. */
#include "checkpoint/journal_round.h"

#include "checkpoint/little_endian.h"

#include "run_suite.h"

#include <check.h>

static uint8_t bytes[PS_ROUND_RECORD_BYTES_MAX + 1];

static enum ps_status read_back(size_t size, struct ps_round_record *round)
{
    return ps_round_record_read((struct ps_bytes){bytes, size}, round, NULL);
}

/* Even ranks count, odd ones are evicted: each number of workers that ends elsewhere in a byte, and
 * the most. */
START_TEST(a_round_comes_back_as_it_went)
{
    uint32_t workers = _i == 18 ? PS_ROUND_WORKERS_MAX : (uint32_t)_i;
    uint8_t counted[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)] = {0};
    uint8_t evicted[PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX)] = {0};
    for (uint32_t rank = 0; rank < workers; rank++) {
        uint8_t *set = rank % 2 == 0 ? counted : evicted;
        set[rank / 8] = (uint8_t)(set[rank / 8] | 1 << (rank % 8));
    }
    struct ps_round_record read = {0};

    size_t size = ps_round_record_write(
        &(struct ps_round_record){.workers = workers, .counted = counted, .evicted = evicted},
        bytes);

    ck_assert_uint_eq(size, 4 + 2 * PS_ROUND_SET_BYTES(workers));
    ck_assert_int_eq(read_back(size, &read), PS_OK);
    ck_assert_uint_eq(read.workers, workers);
    ck_assert_mem_eq(read.counted, counted, PS_ROUND_SET_BYTES(workers));
    ck_assert_mem_eq(read.evicted, evicted, PS_ROUND_SET_BYTES(workers));
    ck_assert_uint_eq(ps_round_set_count(read.counted, workers), (workers + 1) / 2);
    ck_assert_uint_eq(ps_round_set_count(read.evicted, workers), workers / 2);
    ck_assert(ps_round_set_has(read.counted, 0) && !ps_round_set_has(read.evicted, 0));
    for (size_t cut = 0; cut <= size + 1; cut++)
        if (cut != size)
            ck_assert_int_eq(read_back(cut, &read), PS_ERR_CORRUPT);
}
END_TEST

/* Byte by byte, so that the format cannot drift. */
START_TEST(a_round_is_exactly_these_bytes)
{
    static const uint8_t counted[] = {0x81, 0x01};
    static const uint8_t evicted[] = {0x02, 0x02};
    static const uint8_t expected[] = {10, 0, 0, 0, 0x81, 0x01, 0x02, 0x02};

    size_t size = ps_round_record_write(&(struct ps_round_record){10, counted, evicted}, bytes);

    ck_assert_uint_eq(size, sizeof expected);
    ck_assert_mem_eq(bytes, expected, sizeof expected);
}
END_TEST

START_TEST(a_round_that_says_otherwise_is_refused)
{
    static const uint8_t sets[][8] = {
        {10, 0, 0, 0, 0, 4, 0, 0},    /* the eleventh of ten counts */
        {10, 0, 0, 0, 0, 0, 0, 0x80}, /* the last bit */
        {10, 0, 0, 0, 1, 0, 1, 0},    /* counted and evicted */
        {0, 0, 0, 0, 0, 0, 0, 0},     /* nobody to count */
        {1, 4, 0, 0, 0, 0, 0, 0},     /* one more than there may be */
        {2, 0, 0, 0x80, 0, 0, 0, 0}}; /* sizes of such a number would wrap */
    struct ps_round_record read = {.workers = 77};
    memcpy(bytes, sets[_i], sizeof sets[_i]);

    ck_assert_int_eq(read_back(sizeof sets[_i], &read), PS_ERR_CORRUPT);

    ck_assert_uint_eq(read.workers, 77);
}
END_TEST

/* So many that the bytes would be there. */
START_TEST(more_workers_than_there_may_be_are_refused_with_all_their_bytes)
{
    static uint8_t many[4 + 2 * PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX + 1)];
    struct ps_round_record read;
    ps_little_put(many, 4, PS_ROUND_WORKERS_MAX + 1);

    ck_assert_int_eq(ps_round_record_read((struct ps_bytes){many, sizeof many}, &read, NULL),
                     PS_ERR_CORRUPT);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("journal_round");
    tcase_add_loop_test(tests, a_round_comes_back_as_it_went, 1, 19);
    tcase_add_test(tests, a_round_is_exactly_these_bytes);
    tcase_add_loop_test(tests, a_round_that_says_otherwise_is_refused, 0, 6);
    tcase_add_test(tests, more_workers_than_there_may_be_are_refused_with_all_their_bytes);
    Suite *suite = suite_create("journal_round");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
