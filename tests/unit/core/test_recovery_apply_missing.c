/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_apply.c on a state that was put together: it has some records already, and
 * lacks parameters. */
#include "server/core/recovery/recovery_apply.h"
#include "tests/unit/core/core_disk.h"

static struct memory_files *disk;
static struct core_world before;
static struct core_world after;
static struct ps_recovered loaded;
static uint64_t sequence; /* of the request of the next record; 0: it has none */

static void begin_test(void)
{
    static const float values[] = {1, 2, 3, 4};
    sequence = 0;
    disk = memory_files_create(1);
    disk_world_init(&before, 1);
    ps_service_begin_empty(before.service);
    ck_assert_int_eq(
        world_init_param(&before, "w", PS_F32, values, sizeof values, (struct ps_bytes){NULL, 0}),
        PS_OK);
    ck_assert_int_eq(world_finish(&before), PS_OK);
    disk_save(&before, disk, NULL);
    disk_world_init(&after, 2);
    ck_assert_int_eq(disk_load_only(&after, disk, NULL, &loaded), PS_OK);
}

static void end_test(void)
{
    world_fini(&before);
    world_fini(&after);
    memory_files_destroy(disk);
}

static enum ps_status replay_missing(const char *name, uint64_t position, uint64_t version)
{
    static const float ones[] = {1, 1, 1, 1};
    const struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
    const struct ps_record record = {.type = PS_RECORD_PUSH,
                                     .position = position,
                                     .epoch = 1,
                                     .client_id = text(sequence > 0 ? "client" : ""),
                                     .session = sequence > 0,
                                     .sequence = sequence,
                                     .name = text(name),
                                     .dtype = PS_F32,
                                     .version = version,
                                     .content = ps_view_of(&piece)};
    return ps_recovery_apply_missing(after.service, &record, &after.error);
}

START_TEST(what_is_there_already_or_has_no_parameter_counts_and_changes_nothing)
{
    float values[4];
    size_t size;
    uint64_t version;

    ck_assert_int_eq(replay_missing("gone", 1, 1), PS_OK);
    ck_assert_int_eq(replay_missing("w", 2, 1), PS_OK);
    ck_assert_int_eq(replay_missing("w", 3, 1), PS_OK);

    ps_recovery_finish(after.service, 3);
    ck_assert_int_eq(world_pull(&after, "w", values, sizeof values, &size, &version), PS_OK);
    ck_assert_uint_eq(version, 1);
    ck_assert_float_eq(values[0], 0);
    ps_service_check(after.service);
}
END_TEST

/* The sessions are of a part of the state that was before it. */
START_TEST(the_request_of_what_is_there_already_is_known_and_not_applied_again)
{
    float values[4];
    size_t size;
    uint64_t version;
    struct ps_push_reply reply;
    ck_assert_int_eq(replay_missing("w", 1, 1), PS_OK);

    sequence = 7;
    ck_assert_int_eq(replay_missing("w", 2, 1), PS_OK);
    ps_recovery_finish(after.service, 2);

    ck_assert_int_eq(world_push_as(&after, "w", 1, 7, &reply), PS_OK);
    ck_assert(reply.duplicate);
    ck_assert_uint_eq(reply.version, 1);
    ck_assert_int_eq(world_pull(&after, "w", values, sizeof values, &size, &version), PS_OK);
    ck_assert_uint_eq(version, 1);
    ck_assert_float_eq(values[0], 0);
}
END_TEST

START_TEST(a_record_behind_a_gap_is_corrupt)
{
    ck_assert_int_eq(replay_missing("w", 1, 2), PS_ERR_CORRUPT);

    ps_service_give_up_recovery(after.service);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("replay_missing");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, what_is_there_already_or_has_no_parameter_counts_and_changes_nothing);
    tcase_add_test(tests, the_request_of_what_is_there_already_is_known_and_not_applied_again);
    tcase_add_test(tests, a_record_behind_a_gap_is_corrupt);
    return run_tests("replay_missing", tests);
}
