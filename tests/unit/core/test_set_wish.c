/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/set_wish.c and what the saver makes of it: a snapshot that begins behind the wish,
 * a row beside the pointer, and files of sets that stay. */
#include "server/core/recovery/set_wish.h"

#include "checkpoint/catalog.h"
#include "tests/unit/core/core_saver.h"

#include <stdio.h>
#include <string.h>

static struct ps_set_wish wish;

static void setup(void)
{
    saver_rig_setup();
    ps_set_wish_init(&wish, world.service, 2, 0);
    saver.wish = &wish;
}

static void teardown(void)
{
    ps_set_wish_fini(&wish);
    saver_rig_teardown();
}

static struct ps_set ask_for(const char *name, uint32_t shard_count)
{
    struct ps_set set;
    bool is_whole = false;
    struct ps_set asked = {.shard_count = shard_count, .asked_unix_ns = 7};
    (void)snprintf(asked.name, sizeof asked.name, "%s", name);
    ck_assert_int_eq(
        ps_registry_want_set(&store.registry, &asked, PS_DEADLINE_NEVER, &set, &is_whole, NULL),
        PS_OK);
    return set;
}

static void look(void)
{
    ck_assert_int_eq(ps_set_wish_look(&wish, &store.registry, PS_DEADLINE_NEVER, NULL), PS_OK);
}

static bool is_whole(const char *name)
{
    struct ps_set set;
    ck_assert_int_eq(ps_registry_whole_set(&store.registry, name, PS_DEADLINE_NEVER, &set, NULL),
                     PS_OK);
    return set.revision != 0;
}

/* Uuid of this shard's row. */
static void read_row(const char *name, struct ps_checkpoint_place *row)
{
    struct ps_kv_entries entries;
    ck_assert_int_eq(
        ps_registry_set_row(&store.registry, name, 0, PS_DEADLINE_NEVER, &entries, NULL), PS_OK);
    ck_assert_int_eq(ps_catalog_pointer_read(
                         (struct ps_bytes){entries.entries[0].value, entries.entries[0].value_size},
                         ps_allocator_heap(), row, NULL),
                     PS_OK);
    ps_kv_entries_release(&entries);
}

static void read_set_of_file(const char *path, char set[PS_SET_NAME_BYTES_MAX + 1])
{
    struct ps_checkpoint_reader *reader;
    ck_assert_int_eq(
        ps_checkpoint_open(memory_files_files(disk), path, ps_allocator_heap(), &reader, NULL),
        PS_OK);
    (void)snprintf(set, PS_SET_NAME_BYTES_MAX + 1, "%s", ps_checkpoint_reader_facts(reader)->set);
    ps_checkpoint_close(reader);
}

static void save_set(const char *name)
{
    (void)ask_for(name, 1);
    look();
    ck_assert_msg(save() == PS_OK, "%s", world.error.text);
    look();
    ck_assert(is_whole(name));
}

START_TEST(what_is_asked_for_is_saved_named_and_made_whole)
{
    struct ps_checkpoint_place row;
    char set[PS_SET_NAME_BYTES_MAX + 1];
    push();

    save_set("s");

    read_row("s", &row);
    ck_assert_str_eq(row.uuid, place.uuid);
    ck_assert_uint_eq(row.position, 1);
    read_set_of_file(row.path, set);
    ck_assert_str_eq(set, "s");
    push();
    ck_assert_int_eq(save(), PS_OK);
    read_set_of_file(place.path, set);
    ck_assert_str_eq(set, "");
}
END_TEST

START_TEST(a_snapshot_that_began_before_the_wish_is_not_of_the_set)
{
    struct ps_saving saving;
    struct ps_kv_entries entries;
    ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);
    (void)ask_for("s", 1);
    look();
    push();

    ck_assert_int_eq(ps_saver_write(&saver, &saving, NULL), PS_OK);
    ck_assert_int_eq(ps_saver_publish(&saver, &saving, PS_DEADLINE_NEVER, NULL), PS_OK);

    ck_assert_int_eq(
        ps_registry_set_row(&store.registry, "s", 0, PS_DEADLINE_NEVER, &entries, NULL),
        PS_ERR_NOT_FOUND);
    look();
    ck_assert_int_eq(save(), PS_OK);
    look();
    ck_assert(is_whole("s"));
    ck_assert_uint_eq(place.position, 1);
}
END_TEST

START_TEST(with_nothing_new_another_file_is_written_that_names_the_set)
{
    ck_assert_int_eq(save(), PS_OK);
    struct ps_checkpoint_place before = place;

    save_set("s");

    ck_assert_str_ne(place.uuid, before.uuid);
    ck_assert_uint_eq(place.position, before.position);
}
END_TEST

START_TEST(looking_again_wants_one_checkpoint)
{
    struct ps_ticket first = ps_service_newest_ticket(world.service);
    (void)ask_for("s", 1);

    look();
    look();
    look();

    ck_assert_uint_eq(ps_service_newest_ticket(world.service).number, first.number + 1);
}
END_TEST

START_TEST(a_set_that_was_given_up_leaves_a_plain_checkpoint)
{
    struct ps_saving saving;
    struct ps_checkpoint_place pointer;
    (void)ask_for("s", 1);
    look();
    ck_assert_int_eq(ps_saver_begin(&saver, &saving, NULL), PS_OK);
    ck_assert_int_eq(ps_saver_write(&saver, &saving, NULL), PS_OK);
    (void)ask_for("t", 2); /* of another number of shards: takes its place */

    ck_assert_int_eq(ps_saver_publish(&saver, &saving, PS_DEADLINE_NEVER, NULL), PS_OK);

    read_pointer(&pointer);
    ck_assert_str_eq(pointer.uuid, saving.place.uuid);
    look();
    ck_assert(!is_whole("s"));
}
END_TEST

START_TEST(a_set_of_another_number_of_shards_is_not_saved_for)
{
    struct ps_set set;
    (void)ask_for("s", 3);

    look();

    ck_assert(!ps_set_wish_take(&wish, &set));
}
END_TEST

START_TEST(files_of_the_newest_sets_stay_and_older_ones_go)
{
    struct ps_checkpoint_place rows[3];
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        push();
        save_set(names[i]);
        rows[i] = place;
    }
    for (int i = 0; i < 4; i++) {
        push();
        ck_assert_int_eq(save(), PS_OK);
    }

    const struct ps_files *files = memory_files_files(disk);
    ck_assert_int_eq(ps_checkpoint_verify(files, rows[0].path, ps_allocator_heap(), NULL),
                     PS_ERR_NOT_FOUND);
    ck_assert_int_eq(ps_checkpoint_verify(files, rows[1].path, ps_allocator_heap(), NULL), PS_OK);
    ck_assert_int_eq(ps_checkpoint_verify(files, rows[2].path, ps_allocator_heap(), NULL), PS_OK);
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 4);
}
END_TEST

static enum ps_status refuse_read(struct ps_kv *kv, const char *key, bool prefix,
                                  uint64_t deadline_ms, struct ps_kv_entries *entries,
                                  struct ps_error *error)
{
    (void)kv, (void)key, (void)prefix, (void)deadline_ms, (void)entries;
    return ps_fail(error, PS_ERR_UNAVAILABLE, "no store");
}

START_TEST(while_the_store_is_down_the_files_of_sets_stay_and_others_do_not_pile_up)
{
    static const struct ps_kv_methods methods = {.read = refuse_read};
    struct ps_kv dead = {&methods};
    struct ps_registry registry = {.kv = &dead};
    push();
    save_set("a");
    struct ps_checkpoint_place row = place;
    push();
    ck_assert_int_eq(save(), PS_OK);

    saver.registry = &registry;
    for (int i = 0; i < 6; i++) {
        push();
        ck_assert_int_eq(save(), PS_ERR_UNAVAILABLE);
    }

    ck_assert_int_eq(
        ps_checkpoint_verify(memory_files_files(disk), row.path, ps_allocator_heap(), NULL), PS_OK);
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 4);
}
END_TEST

START_TEST(before_the_store_has_said_which_files_are_of_sets_none_goes)
{
    static const struct ps_kv_methods methods = {.read = refuse_read};
    struct ps_kv dead = {&methods};
    struct ps_registry registry = {.kv = &dead};
    saver.registry = &registry;
    for (int i = 0; i < 6; i++) {
        push();
        ck_assert_int_eq(save(), PS_ERR_UNAVAILABLE);
    }
    ck_assert_uint_eq(disk_count(disk, ".safetensors"), 6);
}
END_TEST

START_TEST(the_owner_of_shard_0_asks_by_the_interval_behind_the_newest_set)
{
    struct ps_set set;
    save_set("by-hand"); /* at the beginning of time */
    wish.interval_ms = world.fake.now_ms + 5000;
    look();
    ck_assert(!ps_set_wish_take(&wish, &set));
    uint64_t due_ms = ps_set_wish_due_ms(&wish);
    ck_assert_uint_ge(due_ms, world.fake.now_ms + 5000);
    ck_assert_uint_le(due_ms, world.fake.now_ms + 5001);

    world.fake.now_ms = due_ms - 1;
    look();
    look();
    ck_assert(!ps_set_wish_take(&wish, &set));
    world.fake.now_ms = due_ms;
    look(); /* asks */
    look(); /* finds it wanted */

    ck_assert(ps_set_wish_take(&wish, &set));
    ck_assert_int_eq(save(), PS_OK);
    look();
    ck_assert(is_whole(set.name));
}
END_TEST

START_TEST(a_lost_shard_ends_the_wish_of_its_ticket_and_is_asked_again)
{
    struct ps_ticket before;
    (void)ask_for("s", 1);
    look();
    before = ps_service_newest_ticket(world.service);
    ps_service_reset(world.service);
    look();

    struct ps_set set;
    ck_assert(ps_set_wish_take(&wish, &set));
    ck_assert_uint_gt(ps_service_newest_ticket(world.service).number, before.number);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("set_wish");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_is_asked_for_is_saved_named_and_made_whole);
    tcase_add_test(tests, a_snapshot_that_began_before_the_wish_is_not_of_the_set);
    tcase_add_test(tests, with_nothing_new_another_file_is_written_that_names_the_set);
    tcase_add_test(tests, looking_again_wants_one_checkpoint);
    tcase_add_test(tests, a_set_that_was_given_up_leaves_a_plain_checkpoint);
    tcase_add_test(tests, a_set_of_another_number_of_shards_is_not_saved_for);
    tcase_add_test(tests, files_of_the_newest_sets_stay_and_older_ones_go);
    tcase_add_test(tests, while_the_store_is_down_the_files_of_sets_stay_and_others_do_not_pile_up);
    tcase_add_test(tests, before_the_store_has_said_which_files_are_of_sets_none_goes);
    tcase_add_test(tests, the_owner_of_shard_0_asks_by_the_interval_behind_the_newest_set);
    tcase_add_test(tests, a_lost_shard_ends_the_wish_of_its_ticket_and_is_asked_again);
    return run_tests("set_wish", tests);
}
