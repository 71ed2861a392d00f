/* SPDX-License-Identifier: Apache-2.0 */
/* tools/pace_choice.c: options into rounds or clocks. */
#include "base/alloc.h"
#include "base/bounds.h"
#include "run_suite.h"
#include "tools/pace_choice.h"

#include <check.h>
#include <string.h>

static struct ps_buffer rounds;
static struct psclient_clocks clocks;
static struct ps_error error;

static enum ps_status choose(struct ps_pace_choice choice)
{
    if (choice.consistency == NULL)
        choice.consistency = "asp";
    ps_buffer_init(&rounds, ps_allocator_heap(), 128);
    return ps_pace_choose(&choice, &rounds, &clocks, &error);
}

static void refuse(struct ps_pace_choice choice, const char *words)
{
    ck_assert_int_eq(choose(choice), PS_ERR_BAD_INPUT);
    ck_assert_msg(strstr(error.text, words) != NULL, "%s", error.text);
    ps_buffer_fini(&rounds);
}

START_TEST(without_a_wish_nothing_holds_workers_together)
{
    ck_assert_int_eq(choose((struct ps_pace_choice){.workers = 4}), PS_OK);
    ck_assert_uint_eq(rounds.size, 0);
    ck_assert_uint_eq(clocks.workers, 0);
    ps_buffer_fini(&rounds);
}
END_TEST

/* RoundConfig in field 210, every number of it: a change leaves nothing of earlier rounds. */
START_TEST(rounds_say_all_of_their_numbers)
{
    static const uint8_t expected[] = {0x92, 0x0d, 10, 0x08, 4, 0x10, 3, 0x18, 7, 0x20, 0, 0x28, 1};
    const struct ps_pace_choice wish = {.workers = 4, .sync = 3, .grace_ms = 7, .late_next = true};
    ck_assert_int_eq(choose(wish), PS_OK);
    ck_assert_uint_eq(rounds.size, sizeof expected);
    ck_assert_mem_eq(rounds.text, expected, sizeof expected);
    ps_buffer_fini(&rounds);
}
END_TEST

START_TEST(consistency_makes_clocks)
{
    ck_assert_int_eq(choose((struct ps_pace_choice){.workers = 4, .consistency = "ssp:3"}), PS_OK);
    ck_assert_uint_eq(clocks.workers, 4);
    ck_assert_int_eq(clocks.consistency, PSCLIENT_SSP);
    ck_assert_uint_eq(clocks.staleness, 3);
    ck_assert_int_eq(clocks.straggler, PSCLIENT_STRAGGLER_WAIT);
    ps_buffer_fini(&rounds);

    ck_assert_int_eq(
        choose((struct ps_pace_choice){.workers = 2, .consistency = "bsp", .grace_ms = 9}), PS_OK);
    ck_assert_int_eq(clocks.consistency, PSCLIENT_BSP);
    ck_assert_int_eq(clocks.straggler, PSCLIENT_STRAGGLER_EVICT);
    ck_assert_uint_eq(clocks.ttl_ms, 9);
    ps_buffer_fini(&rounds);
}
END_TEST

START_TEST(what_cannot_be_is_said)
{
    static const char *const wrong[] = {"",       "ssp",    "ssp:",  "ssp:x",
                                        "ssp:3x", "ssp:-1", "bsp:1", "ssp:99999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuse((struct ps_pace_choice){.workers = 4, .consistency = wrong[i]}, "asp, bsp, or ssp");
    refuse((struct ps_pace_choice){.workers = 3, .sync = 4}, "--sync 4 of 3 workers");
    refuse((struct ps_pace_choice){.workers = 4, .grace_ms = 1}, "give --sync or --consistency");
    refuse((struct ps_pace_choice){.workers = 4, .sync = 1, .consistency = "bsp"}, "exclude");
    refuse((struct ps_pace_choice){.workers = 4, .sync = 1, .pipeline = true}, "--pipeline");
    refuse((struct ps_pace_choice){.workers = 4, .consistency = "bsp", .pipeline = true},
           "--pipeline");
    refuse((struct ps_pace_choice){.workers = PS_ROUND_WORKERS_MAX + 1, .sync = 1}, "--sync: more");
    refuse((struct ps_pace_choice){.workers = PS_CLOCK_WORKERS_MAX + 1, .consistency = "bsp"},
           "--consistency: more");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pace_choice");
    TCase *tests = tcase_create("pace_choice");
    tcase_add_test(tests, without_a_wish_nothing_holds_workers_together);
    tcase_add_test(tests, rounds_say_all_of_their_numbers);
    tcase_add_test(tests, consistency_makes_clocks);
    tcase_add_test(tests, what_cannot_be_is_said);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
