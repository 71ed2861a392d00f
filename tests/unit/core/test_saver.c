/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/saver.c: file, pointer, sweep, in this order, whatever fails. */
#include "checkpoint/catalog.h"
#include "tests/unit/core/core_saver.h"

#include <string.h>

START_TEST(a_save_is_durable_published_and_told)
{
    struct ps_ticket ticket;
    struct ps_checkpoint_place pointer;
    ck_assert_int_eq(ps_service_want_checkpoint(world.service, &ticket, NULL), PS_OK);
    push();

    ck_assert_msg(save() == PS_OK, "%s", world.error.text);

    ck_assert_uint_eq(place.position, 1);
    ck_assert_uint_eq(place.epoch, store.claim.epoch);
    ck_assert(ps_service_satisfied(world.service, ticket));
    read_pointer(&pointer);
    ck_assert_str_eq(pointer.uuid, place.uuid);
    ck_assert_str_eq(pointer.path, place.path);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 1);
}
END_TEST

START_TEST(without_a_store_the_folder_is_enough)
{
    saver.registry = NULL;
    saver.claim = NULL;

    ck_assert_int_eq(save(), PS_OK);

    ck_assert(ps_service_last_saved(world.service, &place));
}
END_TEST

/* Instead of setup's: a service with a journal, ready, with one push that is not on disk. */
static void begin_with_journal(void)
{
    world_fini(&world);
    world_init_journal(&world);
    saver = disk_saver(&world, disk);
    saver.registry = NULL;
    ck_assert_int_eq(world_push_as(&world, "w", 1, 1, NULL), PS_OK);
}

START_TEST(a_checkpoint_waits_until_its_journal_is_as_far)
{
    struct ps_saving saving;
    begin_with_journal();
    ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);

    ck_assert_int_eq(ps_saver_may_write(&saver, &saving, NULL), PS_ERR_NOT_READY);
    ck_assert_int_eq(save(), PS_ERR_NOT_READY);
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 0);

    ck_assert_uint_eq(world_write_journal(&world), 1);
    ck_assert_int_eq(ps_saver_may_write(&saver, &saving, NULL), PS_OK);
    ck_assert_int_eq(ps_saver_write(&saver, &saving, NULL), PS_OK);
    ck_assert_uint_eq(saving.place.position, 1);
}
END_TEST

START_TEST(pushes_behind_the_snapshot_are_not_waited_for)
{
    struct ps_saving saving;
    begin_with_journal();
    ck_assert_uint_eq(world_write_journal(&world), 1);
    ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);
    ck_assert_int_eq(world_push_as(&world, "w", 1, 2, NULL), PS_OK);

    ck_assert_int_eq(ps_saver_may_write(&saver, &saving, NULL), PS_OK);

    ps_saver_give_up(&saving);
}
END_TEST

/* Nothing else would make durable what was applied. */
START_TEST(a_checkpoint_does_not_wait_for_a_journal_that_has_failed)
{
    struct ps_saving saving;
    begin_with_journal();
    ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);

    world_fail_journal(&world);

    ck_assert_int_eq(ps_saver_may_write(&saver, &saving, NULL), PS_OK);
    ps_saver_give_up(&saving);
}
END_TEST

START_TEST(a_snapshot_of_a_shard_that_was_lost_is_given_up)
{
    struct ps_saving saving;
    begin_with_journal();
    ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);

    ps_service_reset(world.service);

    ck_assert_int_eq(ps_saver_may_write(&saver, &saving, NULL), PS_ERR_UNAVAILABLE);
    ps_saver_give_up(&saving);
}
END_TEST

/* A push between any two calls of the disk. */
static void push_at_each_call(void *context, enum memory_files_operation operation,
                              const char *path)
{
    (void)context;
    (void)operation;
    (void)path;
    push();
}

START_TEST(b21_pushes_while_a_checkpoint_is_written_are_not_in_it)
{
    struct core_world recovered;
    struct ps_recovered loaded;
    push();
    memory_files_knobs(disk)->observer = push_at_each_call;

    ck_assert_int_eq(save(), PS_OK);

    memory_files_knobs(disk)->observer = NULL;
    ck_assert_uint_eq(place.position, 1);
    disk_world_init(&recovered, store.claim.epoch + 1);
    ck_assert_int_eq(disk_load(&recovered, disk, NULL, &loaded), PS_OK);
    struct ps_pull pull;
    struct ps_pull_request request = {.name = text("w")};
    ck_assert_int_eq(ps_service_pull(recovered.service, &request, &pull, NULL), PS_OK);
    ck_assert_uint_eq(pull.reply.version, 1);
    float values[4];
    ps_view_copy(pull.reply.content, 0, values, sizeof values);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq(values[i], values[0]);
    ck_assert_float_lt(values[0], 1);
    ps_pull_release(&pull);
    world_fini(&recovered);
}
END_TEST

START_TEST(two_generations_stay)
{
    struct ps_checkpoint_place pointer;
    for (int i = 0; i < 5; i++) {
        push();
        ck_assert_int_eq(save(), PS_OK);
    }

    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 2);
    ck_assert_uint_eq(disk_count(disk, ".spare"), 1);
    ck_assert_uint_eq(memory_files_file_count(disk), 3);
    read_pointer(&pointer);
    ck_assert_uint_eq(pointer.position, 5);
}
END_TEST

START_TEST(b3_a_recovered_server_saves_again)
{
    struct core_world recovered;
    struct ps_recovered loaded;
    push();
    ck_assert_int_eq(save(), PS_OK);
    disk_world_init(&recovered, store.claim.epoch + 1);
    ck_assert_int_eq(disk_load(&recovered, disk, NULL, &loaded), PS_OK);
    ck_assert_int_eq(world_push(&recovered, "w", PS_F32, saver_ones, sizeof saver_ones, NULL),
                     PS_OK);

    disk_save(&recovered, disk, &place);

    ck_assert_uint_eq(place.position, 2);
    ck_assert_uint_eq(place.epoch, store.claim.epoch + 1);
    world_fini(&recovered);
}
END_TEST

START_TEST(b8_who_lost_the_shard_publishes_nothing)
{
    struct ps_ticket ticket;
    ck_assert_int_eq(save(), PS_OK);
    ck_assert_int_eq(ps_service_want_checkpoint(world.service, &ticket, NULL), PS_OK);
    disk_store_lose(&store);
    push();

    ck_assert_int_eq(save(), PS_ERR_STALE_EPOCH);

    ck_assert(!ps_service_satisfied(world.service, ticket));
    struct ps_checkpoint_place pointer;
    read_pointer(&pointer);
    ck_assert_uint_eq(pointer.position, 0);
}
END_TEST

START_TEST(b8_who_lost_the_shard_removes_nothing_that_the_new_owner_may_use)
{
    for (int i = 0; i < 2; i++) {
        push();
        ck_assert_int_eq(save(), PS_OK);
    }
    push();
    disk_store_lose(&store);
    memory_files_knobs(disk)->count[MEMORY_REMOVE] = 0;

    ck_assert_int_eq(save(), PS_ERR_STALE_EPOCH);

    ck_assert_uint_eq(memory_files_knobs(disk)->count[MEMORY_REMOVE], 0);
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 3);
}
END_TEST

START_TEST(a_snapshot_of_an_earlier_ownership_is_not_published_under_a_later_one)
{
    struct ps_saving saving;
    ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);
    ck_assert_int_eq(ps_saver_write(&saver, &saving, NULL), PS_OK);
    struct ps_claim later = store.claim;
    later.epoch++;
    saver.claim = &later;

    enum ps_status status = ps_saver_publish(&saver, &saving, PS_DEADLINE_NEVER, &world.error);

    ck_assert_int_eq(status, PS_ERR_STALE_EPOCH);
    ck_assert(!ps_service_last_saved(world.service, &saving.place));
}
END_TEST

/* The store would take it: the key is ours, by a later claim. */
START_TEST(a11_what_was_made_before_the_shard_was_lost_and_won_back_is_not_published)
{
    struct ps_saving saving;
    struct ps_checkpoint_place pointer;
    struct ps_kv_lease lease;
    ck_assert_int_eq(save(), PS_OK);
    push();
    ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);
    ck_assert_int_eq(ps_saver_write(&saver, &saving, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_revoke(store.kv, store.claim.lease, PS_DEADLINE_NEVER, NULL),
                     PS_OK);
    ck_assert_int_eq(ps_kv_lease_grant(store.kv, 1000000, PS_DEADLINE_NEVER, &lease, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_claim(&store.registry, 1, UINT32_MAX, lease, PS_DEADLINE_NEVER,
                                       &store.claim, NULL),
                     PS_OK);

    ck_assert_int_eq(ps_saver_publish(&saver, &saving, PS_DEADLINE_NEVER, &world.error),
                     PS_ERR_STALE_EPOCH);

    read_pointer(&pointer);
    ck_assert_uint_eq(pointer.position, 0);
}
END_TEST

/* A store that never answers. */
static enum ps_status refuse_commit(struct ps_kv *kv, const struct ps_kv_transaction *transaction,
                                    uint64_t deadline_ms, bool *done, int64_t *revision,
                                    struct ps_error *error)
{
    (void)kv;
    (void)transaction;
    (void)deadline_ms;
    (void)done;
    (void)revision;
    return ps_fail(error, PS_ERR_UNAVAILABLE, "nobody answers");
}

static enum ps_status refuse_read(struct ps_kv *kv, const char *key, bool prefix,
                                  uint64_t deadline_ms, struct ps_kv_entries *entries,
                                  struct ps_error *error)
{
    (void)kv;
    (void)key;
    (void)prefix;
    (void)deadline_ms;
    (void)entries;
    return ps_fail(error, PS_ERR_UNAVAILABLE, "nobody answers");
}

START_TEST(while_the_store_is_down_files_stay_and_do_not_pile_up)
{
    static const struct ps_kv_methods methods = {.read = refuse_read, .commit = refuse_commit};
    struct ps_kv dead = {&methods};
    struct ps_registry registry = {.kv = &dead};
    struct ps_checkpoint_place published;
    struct ps_bytes content;
    struct ps_ticket ticket;
    ck_assert_int_eq(save(), PS_OK);
    published = place;
    ck_assert_int_eq(ps_service_want_checkpoint(world.service, &ticket, NULL), PS_OK);
    saver.registry = &registry;

    for (int i = 0; i < 6; i++) {
        push();
        ck_assert_int_eq(save(), PS_ERR_UNAVAILABLE);
    }

    ck_assert(!ps_service_satisfied(world.service, ticket));
    ck_assert(memory_files_get(disk, published.path, &content));
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 3);
    saver.registry = &store.registry;
    ck_assert_int_eq(save(), PS_OK);
    ck_assert(ps_service_satisfied(world.service, ticket));
}
END_TEST

START_TEST(there_is_nothing_to_save_before_finish)
{
    struct core_world empty;
    world_init_empty(&empty);
    struct ps_saver early = disk_saver(&empty, disk);

    ck_assert_int_eq(ps_saver_save(&early, PS_DEADLINE_NEVER, &place, NULL), PS_ERR_NOT_READY);

    ck_assert_uint_eq(memory_files_file_count(disk), 0);
    world_fini(&empty);
}
END_TEST

START_TEST(saving_survives_any_refused_allocation)
{
    ck_assert_int_eq(save(), PS_OK);
    int64_t live = world.heap.live;
    bool refused = true;

    for (int64_t refuse = 0; refused; refuse++) {
        struct core_world recovered;
        struct ps_recovered loaded;
        ck_assert_int_lt(refuse, 300);
        world.heap.refuse_at = world.heap.seen + refuse;
        enum ps_status status = save();
        refused = world.heap.seen > world.heap.refuse_at;
        world.heap.refuse_at = -1;
        /* A refused allocation of the sweep costs an old file, not the save. */
        ck_assert(status == PS_OK || (refused && status == PS_ERR_NO_MEMORY));
        ck_assert_int_eq(world.heap.live, live);
        disk_world_init(&recovered, store.claim.epoch + 1);
        ck_assert_int_eq(disk_load(&recovered, disk, NULL, &loaded), PS_OK);
        world_fini(&recovered);
    }
}
END_TEST

/* The machine stops at the n-th call of the disk, and everything not synced may be lost: what was
 * published is there, whole, and what is loaded is never older. */
START_TEST(b4_b5_a_crash_at_any_step_leaves_the_published_checkpoint)
{
    bool crashed = true;
    for (int64_t step = 0; crashed; step++) {
        struct ps_checkpoint_place pointer;
        struct core_world recovered;
        struct ps_recovered loaded;
        struct memory_files_knobs *knobs = memory_files_knobs(disk);
        ck_assert_int_lt(step, 200);
        push();
        ck_assert_int_eq(save(), PS_OK);
        push();

        knobs->seen = 0;
        knobs->fail_from = step;
        enum ps_status status = save();
        crashed = knobs->seen > step;
        knobs->fail_from = -1;
        memory_files_crash(disk, (enum memory_crash)(_i));

        ck_assert(crashed || status == PS_OK);
        read_pointer(&pointer);
        disk_world_init(&recovered, store.claim.epoch + 1);
        ck_assert_msg(disk_load(&recovered, disk, NULL, &loaded) == PS_OK, "step %d: %s", (int)step,
                      recovered.error.text);
        ck_assert_uint_ge(loaded.place.position, pointer.position);
        ck_assert_uint_eq(loaded.damaged_count, 0);
        world_fini(&recovered);
        saver_rig_teardown();
        saver_rig_setup();
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("saver");
    tcase_add_checked_fixture(tests, saver_rig_setup, saver_rig_teardown);
    tcase_add_test(tests, a_save_is_durable_published_and_told);
    tcase_add_test(tests, without_a_store_the_folder_is_enough);
    tcase_add_test(tests, a_checkpoint_waits_until_its_journal_is_as_far);
    tcase_add_test(tests, pushes_behind_the_snapshot_are_not_waited_for);
    tcase_add_test(tests, a_checkpoint_does_not_wait_for_a_journal_that_has_failed);
    tcase_add_test(tests, a_snapshot_of_a_shard_that_was_lost_is_given_up);
    tcase_add_test(tests, b21_pushes_while_a_checkpoint_is_written_are_not_in_it);
    tcase_add_test(tests, two_generations_stay);
    tcase_add_test(tests, b3_a_recovered_server_saves_again);
    tcase_add_test(tests, b8_who_lost_the_shard_publishes_nothing);
    tcase_add_test(tests, b8_who_lost_the_shard_removes_nothing_that_the_new_owner_may_use);
    tcase_add_test(tests, a_snapshot_of_an_earlier_ownership_is_not_published_under_a_later_one);
    tcase_add_test(tests,
                   a11_what_was_made_before_the_shard_was_lost_and_won_back_is_not_published);
    tcase_add_test(tests, while_the_store_is_down_files_stay_and_do_not_pile_up);
    tcase_add_test(tests, there_is_nothing_to_save_before_finish);
    tcase_add_test(tests, saving_survives_any_refused_allocation);
    tcase_add_loop_test(tests, b4_b5_a_crash_at_any_step_leaves_the_published_checkpoint, 0, 3);
    return run_tests("saver", tests);
}
