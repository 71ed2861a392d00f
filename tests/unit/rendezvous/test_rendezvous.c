/* SPDX-License-Identifier: Apache-2.0 */
/* Steps come and go: tokens, epochs, lifetimes, bounds. */
#include "rendezvous_world.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <stdio.h>
#include <string.h>

static char text[WORLD_TEXT_BYTES];
static struct ps_receiving calls[8];

static enum ps_status begin_receive(int call, const char *key)
{
    return world_ask(WORLD_STEP, 100 + (uint64_t)call, key, &calls[call]);
}

START_TEST(a_send_that_is_repeated_adds_nothing)
{
    ck_assert_int_eq(world_send_to(WORLD_STEP, "foo", "hello", 7), PS_OK);
    ck_assert_int_eq(world_send_to(WORLD_STEP, "foo", "hello", 7), PS_OK);
    ck_assert_int_eq(world_send_to(9, "foo", "of another step", 7), PS_OK);

    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_OK);
    ck_assert_int_eq(world_poll(WORLD_STEP, "foo", text), PS_ERR_NOT_READY);
    ck_assert_int_eq(world_poll(9, "foo", text), PS_OK);
}
END_TEST

START_TEST(a_step_that_was_cleaned_up_is_another_one)
{
    const char *moved = "step 123: the server of shard 0 is another one";
    uint64_t epoch;
    bool wakes;
    struct ps_rendezvous_of of = {.step = WORLD_STEP, .now_ms = 1};
    ck_assert_int_eq(world_send_value(&of, "foo", 1, world_value("x"), &epoch, &wakes, NULL),
                     PS_OK);
    of.epoch = epoch;
    ck_assert_int_eq(world_send_value(&of, "foo", 2, world_value("x"), &epoch, &wakes, NULL),
                     PS_OK);
    world_cleanup(WORLD_STEP);

    ck_assert_int_eq(
        world_send_value(&of, "foo", 3, world_value("x"), &epoch, &wakes, &world_error),
        PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "Cleanup 123");
    ps_rendezvous_lose(&world, 78);
    ck_assert_int_eq(
        world_send_value(&of, "foo", 4, world_value("x"), &epoch, &wakes, &world_error),
        PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, moved);
    ck_assert_int_eq(world_send("foo", "of the new one"), PS_OK);
}
END_TEST

START_TEST(whoever_waits_hears_that_the_shard_was_lost)
{
    ps_rendezvous_own(&world, 2);
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ps_rendezvous_lose(&world, 5);

    ck_assert_int_eq(world_look(&calls[0], text), PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "step 123: the server of shard 2 is another one");
}
END_TEST

START_TEST(a_step_that_nobody_uses_ends_after_its_lifetime)
{
    ck_assert_int_eq(begin_receive(0, "foo"), PS_OK);
    ck_assert(!ps_rendezvous_sweep(&world, world_now_ms + 600000));

    ck_assert(ps_rendezvous_sweep(&world, world_now_ms + 600001));
    ck_assert_int_eq(world_look(&calls[0], text), PS_ERR_ABORTED);
    ck_assert_str_eq(world_error.text, "step 123: nobody has used it for 600 s");
}
END_TEST

START_TEST(bytes_keys_and_steps_are_bounded)
{
    struct ps_rendezvous_bounds bounds = world_bounds();
    uint64_t each = sizeof(struct ps_held_value) + 1;
    world_end();
    bounds.step_bytes_max = 2 * each + ps_step_key_bytes(1);
    bounds.bytes_max = 3 * each + 3 * ps_step_key_bytes(1);
    bounds.steps_max = 2;
    bounds.step_entries_max = 3;
    world_begin_with(ps_allocator_heap(), &bounds);

    ck_assert_int_eq(world_send_to(1, "a", "x", 0), PS_OK);
    ck_assert_int_eq(world_send_to(1, "a", "x", 0), PS_OK);
    ck_assert_int_eq(world_send_to(1, "a", "x", 0), PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(world_error.text, "step 1: "));
    ck_assert_int_eq(world_send_to(2, "a", "x", 0), PS_OK);
    ck_assert_int_eq(world_send_to(2, "a", "x", 0), PS_ERR_BUSY);
    ck_assert_int_eq(world_send_to(3, "a", "x", 0), PS_ERR_BUSY);
    ck_assert_int_eq(world_ask(2, 1, "b", &calls[0]), PS_OK);
    ck_assert_int_eq(world_ask(2, 2, "c", &calls[1]), PS_ERR_BUSY);
    ck_assert_int_eq(world_poll(1, "a", text), PS_OK);
    ck_assert_int_eq(world_send_to(1, "a", "x", 0), PS_OK);
    ps_rendezvous_release(&world, &calls[0]);
}
END_TEST

/* Of a value without content its key is all that there is; a strict step keeps that to its end. */
START_TEST(keys_count_as_bytes_do)
{
    struct ps_rendezvous_bounds bounds = world_bounds();
    uint64_t each = sizeof(struct ps_held_value) + ps_step_key_bytes(3);
    char key[4] = "k00";
    world_end();
    bounds.bytes_max = 20 * each;
    world_begin_with(ps_allocator_heap(), &bounds);
    for (int i = 0; i < 20; i++) {
        key[2] = (char)('a' + i);
        ck_assert_int_eq(world_send_to(1, key, "", 0), PS_OK);
    }
    ck_assert_uint_eq(world.bytes, 20 * each);
    ck_assert_int_eq(world_send_to(2, "k99", "", 0), PS_ERR_BUSY);
    world_cleanup(1);
    ck_assert_uint_eq(world.bytes, 0);
    ck_assert_int_eq(world_send_to(2, "k99", "", 0), PS_OK);
}
END_TEST

START_TEST(sending_and_receiving_survive_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    const struct ps_rendezvous_bounds bounds = world_bounds();
    const struct ps_rendezvous_of of = {.step = WORLD_STEP, .now_ms = 1};
    uint64_t epoch;
    bool wakes;
    bool failed = false;
    world_end();
    world_begin_with(&memory, &bounds);

    struct ps_held_value *value = world_value("x");
    if (value == NULL || world_send_value(&of, "a", 1, value, &epoch, &wakes, NULL) != PS_OK)
        failed = true;
    ps_rendezvous_check(&world);
    if (world_ask(WORLD_STEP, 1, "b", &calls[0]) != PS_OK)
        failed = true;
    ps_rendezvous_check(&world);
    ps_rendezvous_release(&world, &calls[0]);

    ck_assert_int_eq(failed, heap.seen > _i);
    world_end();
    ck_assert_int_eq(heap.live, 0);
    world_begin();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous");
    TCase *tests = tcase_create("rendezvous");
    tcase_add_checked_fixture(tests, world_begin, world_end);
    tcase_add_test(tests, a_send_that_is_repeated_adds_nothing);
    tcase_add_test(tests, a_step_that_was_cleaned_up_is_another_one);
    tcase_add_test(tests, whoever_waits_hears_that_the_shard_was_lost);
    tcase_add_test(tests, a_step_that_nobody_uses_ends_after_its_lifetime);
    tcase_add_test(tests, bytes_keys_and_steps_are_bounded);
    tcase_add_test(tests, keys_count_as_bytes_do);
    tcase_add_loop_test(tests, sending_and_receiving_survive_any_refused_allocation, 0, 16);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
