/* SPDX-License-Identifier: Apache-2.0 */
/* Values that come in parts. A part here is of a few bytes: what is asked of their sizes is the
 * codec's to ask. */
#include "rendezvous_world.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

static bool is_whole;
static uint64_t total;

/* A part of a value of `total` bytes. */
static enum ps_status send_of_total(const char *key, uint64_t token, const char *text,
                                    uint64_t offset)
{
    const struct ps_rendezvous_of of = {.step = WORLD_STEP, .now_ms = world_now_ms};
    const struct ps_rendezvous_sent sent = {.key = ps_bytes_of_text(key),
                                            .token = token,
                                            .total = total,
                                            .offset = offset,
                                            .value = world_value(text)};
    uint64_t epoch = 0;
    bool wakes;
    enum ps_status status =
        ps_rendezvous_send(&world, &of, &sent, &epoch, &is_whole, &wakes, &world_error);
    ps_rendezvous_check(&world);
    return status;
}

static enum ps_status send_part(const char *key, uint64_t token, const char *text, uint64_t offset)
{
    total = 10;
    return send_of_total(key, token, text, offset);
}

static uint64_t bytes_held(void)
{
    uint64_t steps, bytes;
    ps_rendezvous_look(&world, &steps, &bytes);
    return bytes;
}

START_TEST(a_value_is_sent_with_its_last_part_in_any_order)
{
    static const char *const texts[] = {"01", "23456", "789"};
    static const uint64_t offsets[] = {0, 2, 7};
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    char text[WORLD_TEXT_BYTES];
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_ERR_NOT_READY);
        int part = orders[_i][i];
        ck_assert_int_eq(send_part("foo", 9, texts[part], offsets[part]), PS_OK);
        ck_assert_int_eq(is_whole, i == 2);
    }
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "0123456789");
    ck_assert_uint_eq(bytes_held(), 0);
}
END_TEST

START_TEST(a_part_that_is_repeated_adds_nothing)
{
    char text[WORLD_TEXT_BYTES];
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    ck_assert(!is_whole);
    ck_assert_int_eq(send_part("foo", 9, "56789", 5), PS_OK);
    ck_assert(is_whole);
    /* Also when all of it was received: whoever repeats hears that it is whole. */
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    ck_assert(is_whole);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_ERR_NOT_READY);
}
END_TEST

START_TEST(parts_that_do_not_fit_together_are_refused)
{
    char text[WORLD_TEXT_BYTES];
    ck_assert_int_eq(send_part("foo", 0, "01234", 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(send_part("foo", 9, "34567", 3), PS_OK);
    ck_assert_int_eq(send_part("foo", 9, "0123", 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(send_part("foo", 9, "789", 7), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(send_part("foo", 9, "3456", 3), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(send_part("bar", 9, "012", 0), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(send_part("foo", 9, "012", 0), PS_OK);
    ck_assert_int_eq(send_part("foo", 9, "89", 8), PS_OK);
    ck_assert(is_whole);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "0123456789");
}
END_TEST

/* Two senders that each had half of their values in would otherwise wait for each other. */
START_TEST(a_value_counts_whole_from_its_first_part)
{
    world_end();
    struct ps_rendezvous_bounds bounds = world_bounds();
    bounds.step_bytes_max = sizeof(struct ps_held_value) + ps_step_key_bytes(3) + 10 + 5;
    world_begin_with(ps_allocator_heap(), &bounds);
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    ck_assert_int_eq(send_part("bar", 8, "01234", 0), PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(world_error.text, "step "));
    ck_assert_int_eq(send_part("foo", 9, "56789", 5), PS_OK);
    ck_assert(is_whole);
}
END_TEST

/* Any number is said quickly: none may wrap around into what there is room for. */
START_TEST(no_value_is_larger_than_the_bound)
{
    static const uint64_t totals[] = {UINT64_MAX, UINT64_MAX - 100, UINT64_C(1) << 63};
    world_end();
    struct ps_rendezvous_bounds bounds = world_bounds();
    bounds.bytes_max = 1000;
    world_begin_with(ps_allocator_heap(), &bounds);
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    total = totals[_i];
    ck_assert_int_eq(send_of_total("bar", 8, "01234", 0), PS_ERR_BUSY);
}
END_TEST

START_TEST(an_end_of_the_step_drops_what_is_not_whole)
{
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    ck_assert_uint_gt(bytes_held(), 10);
    if (_i == 0)
        world_abort(WORLD_STEP, "why");
    else
        world_cleanup(WORLD_STEP);
    ck_assert_uint_eq(bytes_held(), 0);
    ck_assert_int_eq(send_part("foo", 9, "56789", 5), _i == 0 ? PS_ERR_ABORTED : PS_OK);
    ck_assert(!is_whole);
}
END_TEST

/* A sender that was killed between two parts leaves room that nobody else would get. */
START_TEST(what_is_not_whole_and_not_gone_on_with_is_let_go)
{
    char text[WORLD_TEXT_BYTES];
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    ck_assert(!ps_rendezvous_sweep(&world, world_now_ms + PS_STEP_STAGED_MS));
    ck_assert_uint_gt(bytes_held(), 10);
    ck_assert(!ps_rendezvous_sweep(&world, world_now_ms + PS_STEP_STAGED_MS + 1));
    ck_assert_uint_eq(bytes_held(), 0);
    /* One that was only slow sends all parts again. */
    ck_assert_int_eq(send_part("foo", 9, "56789", 5), PS_OK);
    ck_assert(!is_whole);
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    ck_assert(is_whole);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_str_eq(text, "0123456789");
}
END_TEST

START_TEST(a_strict_step_takes_one_value_of_a_key)
{
    ck_assert_int_eq(world_step_begin(WORLD_STEP, "s", true), PS_OK);
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    ck_assert_int_eq(send_part("foo", 9, "56789", 5), PS_OK);
    ck_assert_int_eq(send_part("foo", 8, "01234", 0), PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "Duplicated send: foo");
}
END_TEST

/* A receive of one value, asked for ranges of it. */
START_TEST(a_receiver_reads_ranges_of_what_it_has)
{
    struct ps_receiving receiving = {0};
    const struct ps_rendezvous_of of = {.step = WORLD_STEP, .now_ms = world_now_ms};
    const struct ps_rendezvous_wish wishes[] = {
        {.id = 5, .key = ps_bytes_of_text("foo"), .offset = 4, .count = 3},
        {.id = 5, .key = ps_bytes_of_text("foo"), .offset = 10},
        {.id = 5, .key = ps_bytes_of_text("foo"), .offset = 11},
        {.id = 6, .key = ps_bytes_of_text("foo"), .offset = 1}};
    struct ps_rendezvous_asked asked = {.wishes = wishes, .wish_count = 4, .range_bytes = 4};
    bool wakes;
    ck_assert_int_eq(send_part("foo", 9, "01234", 0), PS_OK);
    ck_assert_int_eq(send_part("foo", 9, "56789", 5), PS_OK);
    const struct ps_rendezvous_wish first = {.id = 5, .key = ps_bytes_of_text("foo")};
    asked.wishes = &first;
    asked.wish_count = 1;
    ck_assert_int_eq(ps_rendezvous_receive(&world, &of, &asked, &receiving, &wakes, &world_error),
                     PS_OK);
    ck_assert_int_eq(ps_rendezvous_collect(&world, &receiving, 1, 1000, false, &world_error),
                     PS_OK);
    ck_assert_uint_eq(receiving.rows[0].count, 4);
    ps_rendezvous_release(&world, &receiving);

    asked.wishes = wishes;
    asked.wish_count = 4;
    ck_assert_int_eq(ps_rendezvous_receive(&world, &of, &asked, &receiving, &wakes, &world_error),
                     PS_OK);
    ck_assert_int_eq(ps_rendezvous_collect(&world, &receiving, 4, 1000, false, &world_error),
                     PS_OK);
    ck_assert_int_eq(receiving.rows[0].status, PS_OK);
    ck_assert_uint_eq(receiving.rows[0].offset, 4);
    ck_assert_uint_eq(receiving.rows[0].count, 3);
    ck_assert_int_eq(receiving.rows[1].status, PS_OK);
    ck_assert_uint_eq(receiving.rows[1].count, 0);
    ck_assert_int_eq(receiving.rows[2].status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(receiving.rows[3].status, PS_ERR_CANCELLED);
    ps_rendezvous_release(&world, &receiving);
    world_done(WORLD_STEP, 5);
    ck_assert_uint_eq(bytes_held(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous_staged");
    TCase *tests = tcase_create("rendezvous_staged");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_loop_test(tests, a_value_is_sent_with_its_last_part_in_any_order, 0, 6);
    tcase_add_test(tests, a_part_that_is_repeated_adds_nothing);
    tcase_add_test(tests, parts_that_do_not_fit_together_are_refused);
    tcase_add_test(tests, a_value_counts_whole_from_its_first_part);
    tcase_add_loop_test(tests, no_value_is_larger_than_the_bound, 0, 3);
    tcase_add_loop_test(tests, an_end_of_the_step_drops_what_is_not_whole, 0, 2);
    tcase_add_test(tests, what_is_not_whole_and_not_gone_on_with_is_let_go);
    tcase_add_test(tests, a_strict_step_takes_one_value_of_a_key);
    tcase_add_test(tests, a_receiver_reads_ranges_of_what_it_has);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
