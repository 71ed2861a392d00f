/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/acknowledge.c and journal_queue.c: a journal that fails, and works again. */
#include "server/core/update/device_store.h"
#include "tests/unit/core/core_world.h"

#include <string.h>

static struct core_world world;

static void begin_test(void)
{
    world_init_journal(&world);
}

static void end_test(void)
{
    world_fini(&world);
}

static const float once[] = {0, 1, 2, 3};

START_TEST(p1_after_a_failure_nothing_is_acknowledged_and_pushes_are_refused)
{
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);

    world_fail_journal(&world);

    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(world.error.text, "journal failed: the disk is gone");
    ck_assert_int_eq(world_push_with(&world, PS_ACK_MEMORY, 2), PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(world.error.text, "journal failed: the disk is gone");
    /* The repeat is known, and no more durable than before. */
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    ck_assert(world.reply.duplicate);
    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_UNAVAILABLE);
    ck_assert(ps_service_journal_failed(world.service));
    world_expect_f32(&world, "w", once, 4);
}
END_TEST

/* What the device says instead of "done" when a push waits for it; PS_OK: it is asked. The linker
 * calls this for the one of the core. */
static enum ps_status device_says = PS_OK;
enum ps_status __real_ps_device_store_wait(struct ps_device_store *store, struct ps_device_due due,
                                           struct ps_error *why);
enum ps_status __wrap_ps_device_store_wait(struct ps_device_store *store, struct ps_device_due due,
                                           struct ps_error *why);

enum ps_status __wrap_ps_device_store_wait(struct ps_device_store *store, struct ps_device_due due,
                                           struct ps_error *why)
{
    if (device_says == PS_OK)
        return __real_ps_device_store_wait(store, due, why);
    return ps_fail(why, device_says, "the device has no memory for a batch");
}

/* It is applied and in the journal's queue: no word may say that nothing happened. */
START_TEST(whatever_the_device_says_what_was_applied_is_not_refused)
{
    static const enum ps_status statuses[] = {PS_ERR_NO_MEMORY, PS_ERR_BUSY, PS_ERR_IO,
                                              PS_ERR_NOT_READY, PS_ERR_UNAVAILABLE};
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    device_says = statuses[_i];

    enum ps_status status = world_acknowledge(&world);

    device_says = PS_OK;
    ck_assert_int_eq(status, PS_ERR_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(world.error.text, "no memory for a batch"));
}
END_TEST

START_TEST(what_was_durable_before_a_failure_is_acknowledged_after_it)
{
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    struct ps_push_wait early = world.wait;
    world_write_journal(&world);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 2, NULL), PS_OK);
    world_fail_journal(&world);

    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_UNAVAILABLE);
    world.wait = early;
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

START_TEST(a_failed_journal_works_again_when_what_failed_was_written_after_all)
{
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    struct ps_push_wait failed = world.wait;
    world_fail_journal(&world);
    ck_assert(ps_service_journal_failed(world.service));

    ck_assert_uint_eq(world_write_journal(&world), 1);

    ck_assert(!ps_service_journal_failed(world.service));
    world.wait = failed;
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 2, NULL), PS_OK);
    ck_assert_int_eq(world_acknowledge(&world), PS_ERR_NOT_READY);
    ck_assert_uint_eq(world_write_journal(&world), 1);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

START_TEST(records_that_failed_wait_before_those_behind_them)
{
    struct ps_record records[4];
    const struct ps_error why = {.status = PS_ERR_IO, .text = "no"};
    for (uint64_t i = 1; i <= 3; i++)
        ck_assert_int_eq(world_push_as(&world, "w", 1, i, NULL), PS_OK);
    for (size_t count = 1; count <= 3; count++) {
        ck_assert_uint_eq(ps_service_journal_take(world.service, records, count), count);
        ps_service_journal_written(world.service, UINT64_MAX, PS_ERR_IO, &why);
        ps_service_check(world.service);
    }

    ck_assert_uint_eq(ps_service_journal_take(world.service, records, 4), 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(records[i].position, i + 1);
    ps_service_journal_written(world.service, UINT64_MAX, PS_OK, NULL);
    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
}
END_TEST

/* It does not wait for the journal; what it has is durable. */
START_TEST(a_checkpoint_acknowledges_what_a_failed_journal_could_not_write)
{
    const struct ps_checkpoint_place place = {.uuid = "u", .path = "/p", .position = 1};
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
    world_fail_journal(&world);

    ps_service_saved(world.service, (struct ps_ticket){0}, &place);

    ck_assert_int_eq(world_acknowledge(&world), PS_OK);
    ck_assert_int_eq(world_push_with(&world, PS_ACK_MEMORY, 2), PS_ERR_UNAVAILABLE);
    ck_assert_uint_eq(world_write_journal(&world), 1);
    ck_assert_int_eq(world_push_with(&world, PS_ACK_MEMORY, 2), PS_OK);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("acknowledge_failed");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, p1_after_a_failure_nothing_is_acknowledged_and_pushes_are_refused);
    tcase_add_loop_test(tests, whatever_the_device_says_what_was_applied_is_not_refused, 0, 5);
    tcase_add_test(tests, what_was_durable_before_a_failure_is_acknowledged_after_it);
    tcase_add_test(tests, a_failed_journal_works_again_when_what_failed_was_written_after_all);
    tcase_add_test(tests, records_that_failed_wait_before_those_behind_them);
    tcase_add_test(tests, a_checkpoint_acknowledges_what_a_failed_journal_could_not_write);
    return run_tests("acknowledge_failed", tests);
}
