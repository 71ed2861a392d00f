/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_change.c: what came, went and was configured is so again after a crash. */
#include "core_change.h"
#include "core_crash.h"
#include "server/core/recovery/recovery_apply.h"
#include "server/core/recovery/recovery_change.h"
#include "server/core/requests/service_state.h"

static const float two[] = {1, 2};
static const float ones[] = {1, 1};

static void push_ones(const char *name)
{
    ck_assert_int_eq(world_push(&before, name, PS_F32, ones, sizeof ones, NULL), PS_OK);
}

/* The journal is written, the machine fails, and another server recovers. */
static void crash_and_recover(void)
{
    crash_now(3);
    disk_expect_equal(&before, &after);
    ps_service_check(after.service);
}

START_TEST(p1_what_was_defined_and_pushed_to_comes_back)
{
    ck_assert_int_eq(change_define(&before, "x", two, 2, config_of("adam", 0.5), 1), PS_OK);
    push_ones("x");
    push_ones("w");

    crash_and_recover();

    ck_assert_uint_eq(loaded.replayed_count, 3);
    ck_assert_int_eq(change_define(&after, "x", two, 2, config_of("adam", 0.5), 1), PS_OK);
    ck_assert(!answers.defined.existed);
    ck_assert_int_eq(change_define(&after, "x", two, 2, config_of("adam", 0.5), 2), PS_OK);
    ck_assert(answers.defined.existed);
}
END_TEST

START_TEST(p1_what_was_dropped_stays_away_and_what_came_again_is_another)
{
    for (uint64_t i = 0; i < 3; i++) {
        ck_assert_int_eq(change_define(&before, "x", two, 2, config_of("sgd", 1), 3 * i + 1),
                         PS_OK);
        push_ones("x");
        ck_assert_int_eq(change_drop(&before, "x", 3 * i + 2), PS_OK);
    }
    ck_assert_int_eq(change_define(&before, "x", ones, 2, config_of("sgd", 1), 11), PS_OK);
    ck_assert_int_eq(change_drop(&before, "w", 12), PS_OK);

    crash_and_recover();

    ck_assert_int_eq(change_drop(&after, "w", 12), PS_OK);
    ck_assert(answers.changed.duplicate);
    ck_assert_int_eq(change_drop(&after, "w", 13), PS_ERR_NOT_FOUND);
    const struct ps_parameter *x = ps_parameter_table_find(&after.service->table, text("x"));
    ck_assert_uint_eq(x->spec->birth, 10);
}
END_TEST

START_TEST(p5_a_configuration_holds_from_the_same_push_on)
{
    push_ones("w");
    ck_assert_int_eq(change_configure(&before, "w", 0.5, 1), PS_OK);
    push_ones("w");
    ck_assert_int_eq(change_configure(&before, "w", 0.25, 2), PS_OK);
    push_ones("w");

    crash_and_recover();

    ck_assert_int_eq(change_configure(&after, "w", 0.25, 2), PS_OK);
    ck_assert(answers.changed.duplicate);
    ck_assert_uint_eq(answers.changed.step, 3);
}
END_TEST

START_TEST(a_checkpoint_knows_the_birth_and_the_first_configuration)
{
    ck_assert_int_eq(change_define(&before, "x", two, 2, config_of("sgd", 0.5), 1), PS_OK);
    ck_assert_int_eq(change_configure(&before, "x", 0.25, 2), PS_OK);
    push_ones("x");
    ck_assert_int_eq(disk_write_journal(&before, writer, 3), PS_OK);
    disk_save(&before, disk, NULL);

    crash_and_recover();

    ck_assert_uint_eq(loaded.replayed_count, 0);
    const struct ps_parameter *x = ps_parameter_table_find(&after.service->table, text("x"));
    ck_assert_uint_eq(x->spec->birth, 1);
    ck_assert_int_eq(change_define(&after, "x", two, 2, config_of("sgd", 0.5), 3), PS_OK);
    ck_assert_int_eq(change_define(&after, "x", two, 2, config_of("sgd", 0.25), 4), PS_OK);
    ck_assert_int_eq(change_define(&after, "x", two, 2, config_of("sgd", 1), 5), PS_ERR_EXISTS);
}
END_TEST

/* A state of parts: what it has of the name is older than the record, newer, or of another
 * birth. */
START_TEST(of_a_state_of_parts_only_what_is_missing_is_applied)
{
    static const struct {
        enum ps_record_type type;
        uint64_t position, version;
        bool is_missing;
    } cases[] = {{PS_RECORD_PUSH, 5, 4, false},     {PS_RECORD_PUSH, 11, 3, false},
                 {PS_RECORD_PUSH, 11, 4, true},     {PS_RECORD_DEFINE, 10, 0, false},
                 {PS_RECORD_DEFINE, 12, 0, false},  {PS_RECORD_DROP, 9, 3, false},
                 {PS_RECORD_DROP, 11, 3, true},     {PS_RECORD_CONFIGURE, 11, 2, false},
                 {PS_RECORD_CONFIGURE, 11, 3, true}};
    struct ps_parameter *w = ps_parameter_table_find(&before.service->table, text("w"));
    /* For as long as it takes to ask. */
    w->spec->birth = 10;
    w->version = 3;

    const struct ps_record record = {.type = cases[_i].type,
                                     .name = text("w"),
                                     .position = cases[_i].position,
                                     .version = cases[_i].version};
    struct ps_record other = record;
    other.name = text("other");

    ck_assert_int_eq(ps_recovery_is_missing(before.service, &record), cases[_i].is_missing);
    ck_assert_int_eq(ps_recovery_is_missing(before.service, &other),
                     record.type == PS_RECORD_DEFINE);
    w->version = 0;
}
END_TEST

/* Applies a record to a shard that is RECOVERING at the checkpoint. */
static enum ps_status replay(struct ps_record record)
{
    struct ps_replay_sink none = {0};
    (void)none;
    ck_assert_int_eq(disk_load_only(&after, disk, NULL, &loaded), PS_OK);
    record.position = 1;
    record.epoch = 1;
    return ps_recovery_apply(after.service, &record, &after.error);
}

START_TEST(a_change_that_does_not_fit_the_state_is_damage)
{
    static const uint8_t broken[24] = {255};
    static const struct ps_bytes piece = {broken, sizeof broken};
    const struct ps_record records[] = {
        {.type = PS_RECORD_DROP, .name = text("x")},
        {.type = PS_RECORD_DROP, .name = text("w"), .version = 7},
        {.type = PS_RECORD_CONFIGURE, .name = text("x")},
        {.type = PS_RECORD_CONFIGURE, .name = text("w"), .content = ps_view_of(&piece)},
        {.type = PS_RECORD_DEFINE, .name = text("x"), .content = ps_view_of(&piece)},
        {.type = PS_RECORD_DEFINE, .name = text("x")}};

    ck_assert_int_eq(replay(records[_i]), PS_ERR_CORRUPT);

    ck_assert_ptr_nonnull(strstr(after.error.text, "position 1 does not fit"));
    ps_service_check(after.service);
    ps_service_give_up_recovery(after.service);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_change");
    tcase_add_checked_fixture(tests, crash_begin_ready, crash_end);
    tcase_add_test(tests, p1_what_was_defined_and_pushed_to_comes_back);
    tcase_add_test(tests, p1_what_was_dropped_stays_away_and_what_came_again_is_another);
    tcase_add_test(tests, p5_a_configuration_holds_from_the_same_push_on);
    tcase_add_test(tests, a_checkpoint_knows_the_birth_and_the_first_configuration);
    tcase_add_loop_test(tests, of_a_state_of_parts_only_what_is_missing_is_applied, 0, 9);
    tcase_add_loop_test(tests, a_change_that_does_not_fit_the_state_is_damage, 0, 6);
    return run_tests("recovery_change", tests);
}
