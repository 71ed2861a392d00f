/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/tickets.c: who waits for which checkpoint. */
#include "server/core/requests/tickets.h"
#include "tests/unit/core/core_world.h"

static struct ps_tickets tickets;
static const struct ps_checkpoint_place first_place = {.uuid = "one", .position = 1};
static const struct ps_checkpoint_place second_place = {.uuid = "two", .position = 2};

static void setup(void)
{
    ps_tickets_init(&tickets);
}

static void teardown(void)
{
    ps_tickets_check(&tickets);
    ps_tickets_fini(&tickets);
}

START_TEST(ticket_zero_is_satisfied_at_once)
{
    ck_assert(ps_tickets_satisfied(&tickets, (struct ps_ticket){0}));
    ck_assert(!ps_tickets_abandoned(&tickets, (struct ps_ticket){0}));
}
END_TEST

START_TEST(a_ticket_is_satisfied_by_a_later_snapshot_only)
{
    struct ps_ticket before = ps_tickets_newest(&tickets);
    struct ps_ticket ticket = ps_tickets_give(&tickets);
    struct ps_ticket after = ps_tickets_newest(&tickets);

    ps_tickets_save(&tickets, before, &first_place);
    ck_assert(!ps_tickets_satisfied(&tickets, ticket));
    ps_tickets_save(&tickets, after, &second_place);

    ck_assert(ps_tickets_satisfied(&tickets, ticket));
}
END_TEST

START_TEST(an_attempt_that_failed_says_why_until_one_succeeds)
{
    struct ps_error full = {.status = PS_ERR_IO, .text = "No space left on device"};
    struct ps_error why = {0};
    struct ps_ticket asked = ps_tickets_give(&tickets);
    ck_assert(!ps_tickets_failed(&tickets, asked, &why));

    ps_tickets_fail(&tickets, asked, &full);
    struct ps_ticket later = ps_tickets_give(&tickets);

    ck_assert(ps_tickets_failed(&tickets, asked, &why));
    ck_assert_int_eq(why.status, PS_ERR_IO);
    ck_assert_str_eq(why.text, full.text);
    ck_assert(!ps_tickets_failed(&tickets, later, &why));
    ck_assert(!ps_tickets_satisfied(&tickets, asked));
    ps_tickets_save(&tickets, later, &first_place);
    ck_assert(!ps_tickets_failed(&tickets, asked, &why));
}
END_TEST

START_TEST(a_failure_of_another_life_is_nobodys)
{
    struct ps_error full = {.status = PS_ERR_IO, .text = "No space left on device"};
    struct ps_error why = {0};
    struct ps_ticket before = ps_tickets_give(&tickets);
    ps_tickets_reset(&tickets);

    ps_tickets_fail(&tickets, before, &full);

    ck_assert(!ps_tickets_failed(&tickets, ps_tickets_give(&tickets), &why));
}
END_TEST

START_TEST(the_newest_place_stays_whatever_the_order)
{
    struct ps_checkpoint_place place;
    ck_assert(!ps_tickets_place(&tickets, &place));

    ps_tickets_save(&tickets, ps_tickets_newest(&tickets), &second_place);
    ps_tickets_save(&tickets, ps_tickets_newest(&tickets), &first_place);

    ck_assert(ps_tickets_place(&tickets, &place));
    ck_assert_str_eq(place.uuid, "two");
}
END_TEST

START_TEST(a_loaded_checkpoint_is_a_place_and_satisfies_nobody)
{
    struct ps_checkpoint_place place;
    struct ps_ticket ticket = ps_tickets_give(&tickets);

    ps_tickets_save(&tickets, (struct ps_ticket){0}, &first_place);

    ck_assert(ps_tickets_place(&tickets, &place));
    ck_assert(!ps_tickets_satisfied(&tickets, ticket));
}
END_TEST

START_TEST(reset_abandons_every_ticket_for_good)
{
    struct ps_checkpoint_place place;
    struct ps_ticket old = ps_tickets_give(&tickets);

    ps_tickets_reset(&tickets);
    ck_assert(ps_tickets_abandoned(&tickets, old));
    ck_assert(!ps_tickets_satisfied(&tickets, old));
    struct ps_ticket fresh = ps_tickets_give(&tickets);
    ps_tickets_save(&tickets, fresh, &first_place);

    ck_assert(!ps_tickets_satisfied(&tickets, old));
    ck_assert(ps_tickets_satisfied(&tickets, fresh));
    ck_assert(!ps_tickets_abandoned(&tickets, fresh));
    ck_assert(ps_tickets_place(&tickets, &place));
}
END_TEST

START_TEST(a_save_of_an_earlier_life_satisfies_nobody)
{
    struct ps_checkpoint_place place;
    struct ps_ticket old = ps_tickets_give(&tickets);
    ps_tickets_reset(&tickets);
    struct ps_ticket fresh = ps_tickets_give(&tickets);

    ps_tickets_save(&tickets, old, &first_place);

    ck_assert(!ps_tickets_satisfied(&tickets, old));
    ck_assert(!ps_tickets_satisfied(&tickets, fresh));
    ck_assert(!ps_tickets_place(&tickets, &place));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("tickets");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, ticket_zero_is_satisfied_at_once);
    tcase_add_test(tests, a_ticket_is_satisfied_by_a_later_snapshot_only);
    tcase_add_test(tests, an_attempt_that_failed_says_why_until_one_succeeds);
    tcase_add_test(tests, a_failure_of_another_life_is_nobodys);
    tcase_add_test(tests, the_newest_place_stays_whatever_the_order);
    tcase_add_test(tests, a_loaded_checkpoint_is_a_place_and_satisfies_nobody);
    tcase_add_test(tests, reset_abandons_every_ticket_for_good);
    tcase_add_test(tests, a_save_of_an_earlier_life_satisfies_nobody);
    return run_tests("tickets", tests);
}
