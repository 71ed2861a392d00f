/* SPDX-License-Identifier: Apache-2.0 */
/* client/engine/numbering.c: numbers in use never span more than a server remembers. */
#include "client/engine/numbering.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

static struct ps_numbering numbering;

static void take_all(void)
{
    ps_numbering_init(&numbering, 1);
    while (ps_numbering_has_room(&numbering))
        ps_numbering_take(&numbering);
    ps_numbering_check(&numbering);
}

START_TEST(sequences_begin_with_1_and_rise_by_one)
{
    ps_numbering_init(&numbering, 7);
    for (uint64_t i = 1; i <= 10; i++)
        ck_assert_uint_eq(ps_numbering_take(&numbering), i);
    ck_assert_uint_eq(numbering.session, 7);
}
END_TEST

START_TEST(there_is_room_until_the_span_is_full)
{
    take_all();
    ck_assert_uint_eq(numbering.next, PS_NUMBERING_SPAN_MAX + 1);
    ck_assert_uint_eq(PS_NUMBERING_SPAN_MAX, 192);
}
END_TEST

START_TEST(giving_back_makes_room_only_when_it_is_the_oldest)
{
    take_all();
    for (uint64_t i = 2; i <= PS_NUMBERING_SPAN_MAX; i++)
        ck_assert(!ps_numbering_give_back(&numbering, i));
    ck_assert(!ps_numbering_has_room(&numbering));

    ck_assert(ps_numbering_give_back(&numbering, 1));

    ck_assert_uint_eq(numbering.oldest, numbering.next);
    ck_assert_uint_eq(ps_numbering_take(&numbering), PS_NUMBERING_SPAN_MAX + 1);
}
END_TEST

START_TEST(giving_back_says_so_only_when_there_was_no_room)
{
    take_all();
    ck_assert(ps_numbering_give_back(&numbering, 1));
    ck_assert(!ps_numbering_give_back(&numbering, 2));
}
END_TEST

START_TEST(room_is_what_the_span_leaves)
{
    ps_numbering_init(&numbering, 1);
    ck_assert_uint_eq(ps_numbering_room(&numbering), PS_NUMBERING_SPAN_MAX);
    for (int i = 0; i < 10; i++)
        ps_numbering_take(&numbering);
    ps_numbering_give_back(&numbering, 2);
    ck_assert_uint_eq(ps_numbering_room(&numbering), PS_NUMBERING_SPAN_MAX - 10);
    ps_numbering_give_back(&numbering, 1);
    ck_assert_uint_eq(ps_numbering_room(&numbering), PS_NUMBERING_SPAN_MAX - 8);
    ps_numbering_end_session(&numbering, 0);
    ck_assert_uint_eq(ps_numbering_room(&numbering), 0);
}
END_TEST

START_TEST(a_number_is_in_use_from_taking_to_giving_back)
{
    ps_numbering_init(&numbering, 3);
    ck_assert(!ps_numbering_in_use(&numbering, 3, 1));
    ps_numbering_take(&numbering);
    ps_numbering_take(&numbering);
    ck_assert(ps_numbering_in_use(&numbering, 3, 2));
    ck_assert(!ps_numbering_in_use(&numbering, 2, 2));
    ck_assert(!ps_numbering_in_use(&numbering, 3, 3));
    ps_numbering_give_back(&numbering, 2);
    ck_assert(!ps_numbering_in_use(&numbering, 3, 2));
    ck_assert(ps_numbering_in_use(&numbering, 3, 1));
}
END_TEST

START_TEST(a_session_ends_when_all_its_numbers_are_back)
{
    ps_numbering_init(&numbering, 1);
    ps_numbering_take(&numbering);
    ps_numbering_take(&numbering);

    ps_numbering_end_session(&numbering, 0);
    ps_numbering_end_session(&numbering, 0);
    ck_assert(!ps_numbering_has_room(&numbering));
    ck_assert(!ps_numbering_give_back(&numbering, 1));
    ck_assert_uint_eq(numbering.session, 1);
    ps_numbering_check(&numbering);

    ck_assert(ps_numbering_give_back(&numbering, 2));
    ck_assert_uint_eq(numbering.session, 2);
    ck_assert_uint_eq(ps_numbering_take(&numbering), 1);
    ps_numbering_check(&numbering);
}
END_TEST

START_TEST(the_next_session_is_the_highest_that_the_server_named)
{
    ps_numbering_init(&numbering, 5);
    ps_numbering_take(&numbering);
    ps_numbering_end_session(&numbering, 900);
    ps_numbering_end_session(&numbering, 700);
    ps_numbering_give_back(&numbering, 1);
    ck_assert_uint_eq(numbering.session, 900);

    ps_numbering_take(&numbering);
    ps_numbering_end_session(&numbering, 0);
    ps_numbering_give_back(&numbering, 1);
    ck_assert_uint_eq(numbering.session, 901);
}
END_TEST

/* Of a client whose clock is an hour ahead of the server's. */
START_TEST(a_session_that_is_too_far_ahead_is_followed_by_the_one_that_was_named)
{
    ps_numbering_init(&numbering, 5000);
    ps_numbering_take(&numbering);
    ps_numbering_take(&numbering);
    ps_numbering_end_session(&numbering, 1400);
    ps_numbering_give_back(&numbering, 1);
    ps_numbering_end_session(&numbering, 1401);
    ps_numbering_give_back(&numbering, 2);
    ck_assert_uint_eq(numbering.session, 1401);
    ck_assert_uint_eq(ps_numbering_take(&numbering), 1);
    ps_numbering_check(&numbering);
}
END_TEST

START_TEST(any_order_keeps_the_span)
{
    struct ps_random random;
    uint64_t in_use[PS_NUMBERING_SPAN_MAX];
    size_t count = 0;
    uint64_t last = 0;
    ps_random_init(&random, (uint64_t)_i);
    ps_numbering_init(&numbering, 1);
    for (int i = 0; i < 1500; i++) {
        uint64_t session = numbering.session;
        if (ps_random_below(&random, 2) == 0 && ps_numbering_has_room(&numbering)) {
            in_use[count++] = ps_numbering_take(&numbering);
            ck_assert_uint_eq(in_use[count - 1], last + 1);
            last = in_use[count - 1];
        } else if (count > 0) {
            if (ps_random_below(&random, 500) == 0)
                ps_numbering_end_session(&numbering, 0);
            size_t k = ps_random_below(&random, count);
            ps_numbering_give_back(&numbering, in_use[k]);
            in_use[k] = in_use[--count];
        }
        ps_numbering_check(&numbering);
        if (numbering.session != session) {
            ck_assert_uint_eq(count, 0);
            last = 0;
        }
        for (size_t k = 0; k < count; k++) {
            ck_assert_uint_le(last - in_use[k] + 1, PS_NUMBERING_SPAN_MAX);
            ck_assert(ps_numbering_in_use(&numbering, numbering.session, in_use[k]));
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("numbering");
    TCase *tests = tcase_create("numbering");
    tcase_add_test(tests, sequences_begin_with_1_and_rise_by_one);
    tcase_add_test(tests, there_is_room_until_the_span_is_full);
    tcase_add_test(tests, giving_back_makes_room_only_when_it_is_the_oldest);
    tcase_add_test(tests, giving_back_says_so_only_when_there_was_no_room);
    tcase_add_test(tests, room_is_what_the_span_leaves);
    tcase_add_test(tests, a_number_is_in_use_from_taking_to_giving_back);
    tcase_add_test(tests, a_session_ends_when_all_its_numbers_are_back);
    tcase_add_test(tests, the_next_session_is_the_highest_that_the_server_named);
    tcase_add_test(tests, a_session_that_is_too_far_ahead_is_followed_by_the_one_that_was_named);
    tcase_add_loop_test(tests, any_order_keeps_the_span, 0, 20);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
