/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_clock.c: clocks that are replayed are those that were, and records that do
 * not fit are refused. */
#include "server/core/recovery/recovery_clock.h"

#include "core_clocks.h"
#include "core_crash.h"
#include "server/core/recovery/recovery_apply.h"

#include <stdio.h>
#include <string.h>

/* Three workers, of which the last is evicted at 0. */
static void train(void)
{
    ck_assert_int_eq(clocks_set(&before, 3, 1, 100, 1), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 0, 4, 2), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 1, 4, 3), PS_OK);
    before.fake.now_ms += 100;
    ck_assert_int_eq(clocks_say(&before, 1, 4, 4), PS_OK);
    ck_assert_int_eq(clocks_read(&before, 0, 4), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 1, 5, 5), PS_OK);
}

static void expect_trained(void)
{
    ck_assert_uint_eq(clocks_of(&after, 0), 4);
    ck_assert_uint_eq(clocks_of(&after, 1), 5);
    ck_assert(clocks_evicted(&after, 2) && !clocks_evicted(&after, 0));
    ck_assert_uint_eq(after.service->clocks.groups->settings.staleness, 1);
    /* Nobody is evicted for the time without a server: all have been heard of by now. */
    ck_assert_uint_eq(
        ps_clock_group_silent_ms(after.service->clocks.groups, 0, ps_now_ms(&after.clock)), 0);
}

START_TEST(clocks_come_back_out_of_the_journal)
{
    train();
    crash_now(2);
    expect_trained();
    ck_assert_int_eq(clocks_say(&after, 1, 5, 5), PS_OK);
    ck_assert(clocks_reply.duplicate);
}
END_TEST

START_TEST(clocks_come_back_out_of_a_checkpoint)
{
    train();
    ck_assert_int_eq(disk_write_journal(&before, writer, 2), PS_OK);
    disk_save(&before, disk, NULL);
    crash_now(2);
    ck_assert_uint_eq(loaded.replayed_count, 0);
    expect_trained();
    ck_assert_int_eq(clocks_say(&after, 2, 1, 6), PS_OK);
    ck_assert_uint_eq(clocks_reply.clock, 4);
}
END_TEST

START_TEST(clocks_come_back_out_of_both)
{
    ck_assert_int_eq(clocks_set(&before, 2, 0, 0, 1), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 0, 1, 2), PS_OK);
    ck_assert_int_eq(disk_write_journal(&before, writer, 2), PS_OK);
    disk_save(&before, disk, NULL);
    ck_assert_int_eq(clocks_say(&before, 0, 2, 3), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 1, 1, 4), PS_OK);
    ck_assert_int_eq(clocks_set(&before, 3, 0, 0, 5), PS_OK);
    crash_now(2);
    ck_assert_uint_eq(clocks_of(&after, 0), 2);
    ck_assert_uint_eq(clocks_of(&after, 1), 1);
    ck_assert_uint_eq(clocks_of(&after, 2), 1);
}
END_TEST

/* A checkpoint nowhere, before the task, in it, and behind all: the clocks are the same. */
START_TEST(tasks_come_back_out_of_either)
{
    const int saved_at = _i;
    int step = 0;
#define SAVE_HERE()                                                      \
    if (++step == saved_at) {                                            \
        ck_assert_int_eq(disk_write_journal(&before, writer, 2), PS_OK); \
        disk_save(&before, disk, NULL);                                  \
    }
    ck_assert_int_eq(clocks_begin(&before, 1, 0, 0, 1), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 0, 40, 2), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 1, 41, 3), PS_OK);
    SAVE_HERE();
    ck_assert_int_eq(clocks_begin(&before, 2, 7, 0x05, 4), PS_OK);
    SAVE_HERE();
    ck_assert_int_eq(clocks_say(&before, 2, 9, 5), PS_OK);
    ck_assert_int_eq(clocks_begin(&before, 2, 0, 0x07, 6), PS_OK); /* rank 1 comes */
    SAVE_HERE();
    ck_assert_int_eq(clocks_begin(&before, 2, 0, 0x06, 7), PS_OK); /* rank 0 goes */
    SAVE_HERE();
#undef SAVE_HERE
    crash_now(2);

    ck_assert_uint_eq(clocks_of(&after, 1), 7);
    ck_assert_uint_eq(clocks_of(&after, 2), 9);
    ck_assert(!ps_clock_group_has(after.service->clocks.groups, 0));
    ck_assert_int_eq(clocks_say_in(&after, 1, 1, 99), PS_ERR_MISMATCH);
    ck_assert_int_eq(clocks_begin(&after, 1, 0, 0, 8), PS_ERR_MISMATCH);
    ck_assert_int_eq(clocks_begin(&after, 2, 0, 0x06, 9), PS_OK);
    ck_assert_uint_eq(clocks_of(&after, 2), 9);
}
END_TEST

/* A checkpoint nowhere, before the removal, and behind it. */
START_TEST(removals_come_back_out_of_either)
{
    const int saved_at = _i;
    int step = 0;
#define SAVE_HERE()                                                      \
    if (++step == saved_at) {                                            \
        ck_assert_int_eq(disk_write_journal(&before, writer, 2), PS_OK); \
        disk_save(&before, disk, NULL);                                  \
    }
    train();
    SAVE_HERE();
    ck_assert_int_eq(clocks_remove(&before, 6), PS_OK);
    uint64_t position = clocks_reply.position;
    SAVE_HERE();
    crash_now(2);

    ck_assert_uint_eq(after.service->clocks.count, 0);
    ck_assert_int_eq(clocks_remove(&after, 6), PS_OK);
    ck_assert(clocks_reply.duplicate);
    ck_assert_uint_eq(clocks_reply.position, position);
    ck_assert_int_eq(clocks_say(&after, 0, 5, 7), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(clocks_set(&after, 3, 1, 100, 8), PS_OK);
    ck_assert_uint_eq(clocks_of(&after, 1), 0);
    ck_assert(!clocks_evicted(&after, 2));
}
END_TEST

START_TEST(clocks_that_were_set_anew_come_back_as_those)
{
    train();
    if (_i == 1) {
        ck_assert_int_eq(disk_write_journal(&before, writer, 2), PS_OK);
        disk_save(&before, disk, NULL);
    }
    ck_assert_int_eq(clocks_remove(&before, 6), PS_OK);
    ck_assert_int_eq(clocks_set(&before, 2, 0, 0, 7), PS_OK);
    ck_assert_int_eq(clocks_say(&before, 1, 1, 8), PS_OK);
    crash_now(2);

    ck_assert_uint_eq(clocks_of(&after, 0), 0);
    ck_assert_uint_eq(clocks_of(&after, 1), 1);
    ck_assert(!ps_clock_group_has(after.service->clocks.groups, 2));
    ck_assert_uint_eq(after.service->clocks.groups->settings.staleness, 0);
}
END_TEST

/* All places are taken, one is given back and taken by a name that another thread might replay. */
START_TEST(a_place_that_was_given_back_is_there_in_a_replay_too)
{
    char name[8];
    struct ps_set_clocks_request request = {.workers = 1};
    for (int i = 0; i < PS_CLOCKS_MAX + 20; i++) {
        if (i >= PS_CLOCKS_MAX) {
            snprintf(name, sizeof name, "%d", i - PS_CLOCKS_MAX);
            const struct ps_set_clocks_request removal = {.name = text(name), .removes = true};
            ck_assert_int_eq(ps_service_set_clocks(before.service, &removal, &clocks_reply,
                                                   &before.wait, &before.error),
                             PS_OK);
        }
        snprintf(name, sizeof name, "%d", i);
        request.name = text(name);
        ck_assert_int_eq(ps_service_set_clocks(before.service, &request, &clocks_reply,
                                               &before.wait, &before.error),
                         PS_OK);
        ck_assert_int_eq(disk_write_journal(&before, writer, 2), PS_OK);
    }
    crash_now(2);

    ck_assert_uint_eq(after.service->clocks.count, PS_CLOCKS_MAX);
    ck_assert_ptr_null(ps_clocks_find(&after.service->clocks, text("19")));
    ck_assert_ptr_nonnull(ps_clocks_find(&after.service->clocks, text("83")));
}
END_TEST

/* Clocks that are kept and are none: such a file is not what a server wrote. */
START_TEST(a_removal_in_a_checkpoint_is_refused)
{
    static const uint8_t removal[PS_CLOCKS_RECORD_BYTES] = {0};
    const struct ps_bytes content = {removal, sizeof removal};
    const struct ps_record record = {
        .type = PS_RECORD_CLOCKS, .name = text("c"), .content = ps_view_of(&content)};
    ck_assert_int_eq(clocks_set(&before, 2, 0, 0, 1), PS_OK);

    ck_assert_int_eq(ps_recovery_clock_state(before.service, &record, &before.error),
                     PS_ERR_CORRUPT);

    ck_assert_uint_eq(before.service->clocks.count, 1);
}
END_TEST

/* Of clocks that are not there, of a worker beyond them, of settings that cannot be, and no bytes
 * at all. */
START_TEST(records_that_do_not_fit_are_refused)
{
    uint8_t settings[PS_CLOCKS_RECORD_BYTES];
    uint8_t clock[PS_CLOCK_RECORD_BYTES];
    ps_clocks_record_write(&(struct ps_clocks_record){.workers = 1, .straggler = 1}, settings);
    ps_clock_record_write(&(struct ps_clock_record){.worker = 7}, clock);
    const struct ps_bytes contents[] = {
        {clock, sizeof clock}, {settings, sizeof settings}, {clock, sizeof clock}, {settings, 3}};
    const enum ps_record_type types[] = {PS_RECORD_CLOCK, PS_RECORD_CLOCKS, PS_RECORD_CLOCK,
                                         PS_RECORD_CLOCKS};
    ck_assert_int_eq(clocks_set(&before, 2, 0, 0, 1), PS_OK);
    for (size_t i = 0; i < 4; i++) {
        const struct ps_record record = {.type = types[i],
                                         .name = text(i == 0 ? "other" : "c"),
                                         .content = ps_view_of(&contents[i])};
        ck_assert_int_ne(ps_recovery_clock_state(before.service, &record, &before.error), PS_OK);
        ck_assert(ps_recovery_clock_fits(before.service, &record) ==
                  (types[i] == PS_RECORD_CLOCKS));
    }
    ps_service_check(before.service);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_clock");
    tcase_add_checked_fixture(tests, crash_begin_ready, crash_end);
    tcase_add_test(tests, clocks_come_back_out_of_the_journal);
    tcase_add_test(tests, clocks_come_back_out_of_a_checkpoint);
    tcase_add_test(tests, clocks_come_back_out_of_both);
    tcase_add_loop_test(tests, tasks_come_back_out_of_either, 0, 5);
    tcase_add_loop_test(tests, removals_come_back_out_of_either, 0, 3);
    tcase_add_loop_test(tests, clocks_that_were_set_anew_come_back_as_those, 0, 2);
    tcase_add_test(tests, a_place_that_was_given_back_is_there_in_a_replay_too);
    tcase_add_test(tests, a_removal_in_a_checkpoint_is_refused);
    tcase_add_test(tests, records_that_do_not_fit_are_refused);
    return run_tests("recovery_clock", tests);
}
