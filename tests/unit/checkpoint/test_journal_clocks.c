/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_clocks.c: there and back, and what is not one. */
#include "checkpoint/journal_clocks.h"

#include "checkpoint/little_endian.h"

#include "run_suite.h"

#include <check.h>
#include <string.h>

static uint8_t bytes[PS_CLOCKS_RECORD_BYTES_MAX + 1];

static enum ps_status read_settings(size_t size, struct ps_clocks_record *clocks)
{
    return ps_clocks_record_read((struct ps_bytes){bytes, size}, clocks, NULL);
}

static enum ps_status read_clock(size_t size, struct ps_clock_record *clock)
{
    return ps_clock_record_read((struct ps_bytes){bytes, size}, clock, NULL);
}

START_TEST(settings_come_back_as_they_went)
{
    static const struct ps_clocks_record settings[] = {
        {.workers = 1},
        {.workers = 8, .consistency = 1, .staleness = 3, .straggler = 1, .ttl_ms = 30000},
        {.workers = PS_CLOCK_WORKERS_MAX,
         .consistency = PS_CLOCKS_CONSISTENCY_MAX,
         .staleness = UINT32_MAX,
         .straggler = PS_CLOCKS_STRAGGLER_MAX,
         .ttl_ms = UINT64_MAX}};
    struct ps_clocks_record read = {0};

    ck_assert_uint_eq(ps_clocks_record_write(&settings[_i], bytes), PS_CLOCKS_RECORD_BYTES);

    ck_assert_int_eq(read_settings(PS_CLOCKS_RECORD_BYTES, &read), PS_OK);
    ck_assert_mem_eq(&read, &settings[_i], sizeof read);
    for (size_t size = 0; size <= sizeof bytes; size++)
        if (size != PS_CLOCKS_RECORD_BYTES)
            ck_assert_int_eq(read_settings(size, &read), PS_ERR_CORRUPT);
}
END_TEST

/* Each of what makes the longer form needed by itself, and all of it at its bounds. */
START_TEST(tasks_come_back_as_they_went)
{
    static struct ps_clocks_record settings[] = {
        {.workers = 3, .consistency = 3, .staleness = 1, .speculation = 5},
        {.workers = 3, .task = 1, .begins = true},
        {.workers = 3, .clock = 9, .begins = true},
        {.workers = 11, .has_ranks = true, .ranks = {0x81, 0x04}},
        {.workers = PS_CLOCK_WORKERS_MAX,
         .consistency = PS_CLOCKS_CONSISTENCY_MAX,
         .speculation = PS_CLOCK_SPECULATION_MAX,
         .begins = true,
         .has_ranks = true,
         .task = UINT64_MAX,
         .clock = UINT64_MAX,
         .ranks = {[PS_CLOCK_RANKS_BYTES - 1] = 0x80}}};
    static const size_t sizes[] = {48, 48, 48, 50, PS_CLOCKS_RECORD_BYTES_MAX};
    struct ps_clocks_record read = {0};
    memset(bytes, 0, sizeof bytes);

    ck_assert_uint_eq(ps_clocks_record_write(&settings[_i], bytes), sizes[_i]);

    ck_assert_int_eq(read_settings(sizes[_i], &read), PS_OK);
    ck_assert_mem_eq(&read, &settings[_i], sizeof read);
    for (size_t size = 0; size <= sizeof bytes; size++)
        if (size != sizes[_i] && size != 24 && size != 48)
            ck_assert_int_eq(read_settings(size, &read), PS_ERR_CORRUPT);
}
END_TEST

START_TEST(ranks_beyond_the_workers_and_none_at_all_are_refused)
{
    struct ps_clocks_record settings = {.workers = 11, .has_ranks = true, .ranks = {1}};
    struct ps_clocks_record read = {.workers = 77};
    ck_assert_uint_eq(ps_clocks_record_write(&settings, bytes), 50);
    ck_assert(ps_clocks_record_has(&settings, 0) && !ps_clocks_record_has(&settings, 1));
    ck_assert(!ps_clocks_record_has(&settings, 11));

    bytes[49] = 0x08; /* rank 11 */
    ck_assert_int_eq(read_settings(50, &read), PS_ERR_CORRUPT);
    bytes[48] = bytes[49] = 0;
    ck_assert_int_eq(read_settings(50, &read), PS_ERR_CORRUPT);
    bytes[28] = 2;
    bytes[48] = 1;
    ck_assert_int_eq(read_settings(50, &read), PS_ERR_CORRUPT);
    bytes[28] = 0;
    ck_assert_int_eq(read_settings(48, &read), PS_ERR_CORRUPT); /* has a shorter form */

    ck_assert_uint_eq(read.workers, 77);
}
END_TEST

START_TEST(a_clock_comes_back_as_it_went)
{
    static const struct ps_clock_record clocks[] = {
        {0, false, 0}, {7, true, 12}, {PS_CLOCK_WORKERS_MAX - 1, true, UINT64_MAX}};
    struct ps_clock_record read = {0};

    ps_clock_record_write(&clocks[_i], bytes);

    ck_assert_int_eq(read_clock(PS_CLOCK_RECORD_BYTES, &read), PS_OK);
    ck_assert_uint_eq(read.worker, clocks[_i].worker);
    ck_assert_int_eq(read.evicted, clocks[_i].evicted);
    ck_assert_uint_eq(read.clock, clocks[_i].clock);
    for (size_t size = 0; size <= sizeof bytes; size++)
        if (size != PS_CLOCK_RECORD_BYTES)
            ck_assert_int_eq(read_clock(size, &read), PS_ERR_CORRUPT);
}
END_TEST

/* Byte by byte, so that the formats cannot drift. */
START_TEST(both_are_exactly_these_bytes)
{
    static const uint8_t settings[PS_CLOCKS_RECORD_BYTES] = {
        8, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0x30, 0x75, 0, 0, 0, 0, 0, 0};
    static const uint8_t clock[PS_CLOCK_RECORD_BYTES] = {7, 0, 0, 0, 1, 0, 0, 0,
                                                         2, 1, 0, 0, 0, 0, 0, 0};

    ps_clocks_record_write(
        &(struct ps_clocks_record){
            .workers = 8, .consistency = 1, .staleness = 3, .straggler = 1, .ttl_ms = 30000},
        bytes);
    ck_assert_mem_eq(bytes, settings, sizeof settings);
    ps_clock_record_write(&(struct ps_clock_record){7, true, 258}, bytes);
    ck_assert_mem_eq(bytes, clock, sizeof clock);
}
END_TEST

START_TEST(a_number_above_its_bound_is_refused)
{
    static const struct {
        size_t at;
        uint32_t value;
    } cases[] = {{0, PS_CLOCK_WORKERS_MAX + 1},
                 {4, PS_CLOCKS_CONSISTENCY_MAX + 1},
                 {12, PS_CLOCKS_STRAGGLER_MAX + 1}};
    struct ps_clocks_record read = {.workers = 77};
    ps_clocks_record_write(&(struct ps_clocks_record){.workers = 1}, bytes);
    ps_little_put(bytes + cases[_i].at, 4, cases[_i].value);

    ck_assert_int_eq(read_settings(PS_CLOCKS_RECORD_BYTES, &read), PS_ERR_CORRUPT);

    ck_assert_uint_eq(read.workers, 77);
}
END_TEST

/* No workers, nothing else, in the short form. */
START_TEST(a_removal_is_exactly_these_bytes_and_of_a_journal_alone)
{
    static const uint8_t removal[PS_CLOCKS_RECORD_BYTES] = {0};
    struct ps_clocks_record read = {.workers = 77};

    ck_assert_uint_eq(ps_clocks_record_write(&(struct ps_clocks_record){0}, bytes),
                      PS_CLOCKS_RECORD_BYTES);

    ck_assert_mem_eq(bytes, removal, sizeof removal);
    ck_assert_int_eq(read_settings(PS_CLOCKS_RECORD_BYTES, &read), PS_OK);
    ck_assert(ps_clocks_record_removes(&read) && !ps_clocks_record_has(&read, 0));
    read.workers = 77;
    const struct ps_bytes content = {bytes, PS_CLOCKS_RECORD_BYTES};
    ck_assert_int_eq(ps_clocks_record_read_kept(content, &read, NULL), PS_ERR_CORRUPT);
    ck_assert_uint_eq(read.workers, 77);
    ck_assert_uint_eq(
        ps_clocks_record_write(&(struct ps_clocks_record){.workers = 3, .staleness = 1}, bytes),
        PS_CLOCKS_RECORD_BYTES);
    ck_assert_int_eq(ps_clocks_record_read_kept(content, &read, NULL), PS_OK);
    ck_assert(read.workers == 3 && !ps_clocks_record_removes(&read));
}
END_TEST

/* Every other byte, in each of the three forms, makes it nobody's record. */
START_TEST(clocks_of_no_workers_that_say_anything_else_are_refused)
{
    static const size_t sizes[] = {PS_CLOCKS_RECORD_BYTES, PS_CLOCKS_TASK_RECORD_BYTES,
                                   PS_CLOCKS_TASK_RECORD_BYTES + 1};
    struct ps_clocks_record read = {.workers = 77};

    for (size_t i = 0; i < 3; i++)
        for (size_t at = 4; at <= sizes[i]; at++) {
            memset(bytes, 0, sizeof bytes);
            /* Behind the last byte: all are 0, which only the shortest may be. */
            if (at < sizes[i])
                bytes[at] = 1;
            if (at < sizes[i] || i > 0)
                ck_assert_int_eq(read_settings(sizes[i], &read), PS_ERR_CORRUPT);
        }
    ck_assert_uint_eq(read.workers, 77);
}
END_TEST

START_TEST(a_clock_of_nobody_is_refused)
{
    struct ps_clock_record read = {.worker = 77};
    ps_clock_record_write(&(struct ps_clock_record){0}, bytes);

    ps_little_put(bytes, 4, PS_CLOCK_WORKERS_MAX);
    ck_assert_int_eq(read_clock(PS_CLOCK_RECORD_BYTES, &read), PS_ERR_CORRUPT);
    ps_little_put(bytes, 8, (uint64_t)2 << 32);
    ck_assert_int_eq(read_clock(PS_CLOCK_RECORD_BYTES, &read), PS_ERR_CORRUPT);

    ck_assert_uint_eq(read.worker, 77);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("journal_clocks");
    tcase_add_loop_test(tests, settings_come_back_as_they_went, 0, 3);
    tcase_add_loop_test(tests, tasks_come_back_as_they_went, 0, 5);
    tcase_add_test(tests, ranks_beyond_the_workers_and_none_at_all_are_refused);
    tcase_add_loop_test(tests, a_clock_comes_back_as_it_went, 0, 3);
    tcase_add_test(tests, both_are_exactly_these_bytes);
    tcase_add_loop_test(tests, a_number_above_its_bound_is_refused, 0, 3);
    tcase_add_test(tests, a_removal_is_exactly_these_bytes_and_of_a_journal_alone);
    tcase_add_test(tests, clocks_of_no_workers_that_say_anything_else_are_refused);
    tcase_add_test(tests, a_clock_of_nobody_is_refused);
    Suite *suite = suite_create("journal_clocks");
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
