/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/note_writer.c: what is noted, at which pace, and what recovery makes of it. */
#include "server/core/recovery/note_writer.h"

#include "checkpoint/journal_segments.h"
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_disk.h"

#include <stdlib.h>
#include <string.h>

static const float ones[] = {1, 1, 1, 1};

static struct memory_files *disk;
static const struct ps_files *files;
static struct disk_store store;
static struct core_world old;   /* owns the claim of the store */
static struct core_world world; /* what recovers, in a higher epoch */
static struct ps_journal_writer *writer;
static struct ps_journal_writer *writer_after;
static struct ps_recovered loaded;
static struct ps_note_writer note_writer;

static void push_durably(int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(world_push(&old, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_int_eq(disk_write_journal(&old, writer, 8), PS_OK);
}

static void begin_test(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    writer = writer_after = NULL;
    disk_journal_world_init(&old, 1);
    disk_store_init(&store, &old);
    world_own(&old, store.claim.epoch);
    ck_assert_int_eq(disk_recover(&old, disk, store.claim.epoch, &writer, &loaded), PS_OK);
    ck_assert_int_eq(
        world_init_param(&old, "w", PS_F32, ones, sizeof ones, (struct ps_bytes){NULL, 0}), PS_OK);
    ck_assert_int_eq(world_finish(&old), PS_OK);
    note_writer = (struct ps_note_writer){
        .service = old.service, .files = files, .registry = &store.registry, .clock = &old.clock};
    ps_note_writer_begin(&note_writer, DISK_FOLDER, &store.claim, store.claim.epoch);
    disk_journal_world_init(&world, store.claim.epoch + 5);
}

/* Most tests want a checkpoint that recovery can begin with. */
static void begin_saved(void)
{
    begin_test();
    disk_save(&old, disk, NULL);
}

static void end_test(void)
{
    ps_journal_writer_close(writer);
    ps_journal_writer_close(writer_after);
    disk_store_fini(&store);
    world_fini(&old);
    world_fini(&world);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
}

static uint64_t noted_in_folder(void)
{
    struct ps_journal_notes notes;
    ck_assert_int_eq(ps_journal_notes_read(files, DISK_FOLDER, UINT64_MAX, &notes, NULL), PS_OK);
    return notes.highest.position;
}

static struct ps_journal_note note_in_store(void)
{
    struct ps_kv_entries entries = {0};
    struct ps_journal_note note = {0};
    enum ps_status status =
        ps_registry_read_note(&store.registry, 0, PS_DEADLINE_NEVER, &entries, NULL);
    if (status == PS_ERR_NOT_FOUND)
        return note;
    ck_assert_int_eq(status, PS_OK);
    struct ps_bytes json = {entries.entries[0].value, entries.entries[0].value_size};
    ck_assert_int_eq(ps_journal_note_read(json, &note, NULL), PS_OK);
    ps_kv_entries_release(&entries);
    return note;
}

static enum ps_status recover_with(struct ps_journal_note noted)
{
    const struct ps_recovery recovery = {.service = world.service,
                                         .files = files,
                                         .folder = DISK_FOLDER,
                                         .noted = noted,
                                         .memory = &world.memory};
    return ps_recovery_run(&recovery, &loaded, &world.error);
}

static void expect_missing(struct ps_journal_note noted, const char *words)
{
    ck_assert_int_eq(recover_with(noted), PS_ERR_CORRUPT);
    ck_assert_msg(strstr(world.error.text, words) != NULL, "%s", world.error.text);
}

static const char *newest_segment(void)
{
    static char path[PS_JOURNAL_PATH_BYTES];
    struct ps_journal_segments segments;
    ck_assert_int_eq(ps_journal_segments_init(&segments, files, DISK_FOLDER, UINT64_MAX,
                                              ps_allocator_heap(), NULL),
                     PS_OK);
    ck_assert_uint_gt(segments.count, 0);
    ck_assert_int_eq(
        ps_journal_path_write(DISK_FOLDER, segments.entries[segments.count - 1], path, NULL),
        PS_OK);
    ps_journal_segments_fini(&segments);
    return path;
}

/* Of the last record; the zeros behind it go, too. */
static void cut_journal(size_t bytes)
{
    struct ps_bytes content;
    const char *path = newest_segment();
    ck_assert(memory_files_get(disk, path, &content));
    uint8_t *copy = malloc(content.size);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, content.data, content.size);
    size_t size = content.size;
    while (size > 0 && copy[size - 1] == 0)
        size--;
    ck_assert_uint_gt(size, bytes);
    memory_files_put(disk, path, (struct ps_bytes){copy, size - bytes});
    free(copy);
}

/* ---- The pace ---- */

START_TEST(nothing_is_noted_before_the_first_checkpoint)
{
    push_durably(3);

    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), PS_DEADLINE_NEVER);
    ck_assert_uint_eq(noted_in_folder(), 0);
    disk_save(&old, disk, NULL);
    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), PS_DEADLINE_NEVER);

    ck_assert_uint_eq(noted_in_folder(), 3);
}
END_TEST

START_TEST(the_first_push_is_noted_at_once_and_the_rest_at_its_pace)
{
    push_durably(1);
    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), PS_DEADLINE_NEVER);
    ck_assert_uint_eq(noted_in_folder(), 1);
    ck_assert_uint_eq(note_in_store().position, 1);
    ck_assert_uint_eq(note_in_store().epoch, store.claim.epoch);
    uint64_t start_ms = ps_now_ms(&old.clock);

    push_durably(1);
    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), start_ms + PS_NOTE_FOLDER_MS);
    ck_assert_uint_eq(noted_in_folder(), 1);
    old.fake.now_ms += PS_NOTE_FOLDER_MS;
    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), start_ms + PS_NOTE_STORE_MS);

    ck_assert_uint_eq(noted_in_folder(), 2);
    ck_assert_uint_eq(note_in_store().position, 1);
    old.fake.now_ms += PS_NOTE_STORE_MS - PS_NOTE_FOLDER_MS;
    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), PS_DEADLINE_NEVER);
    ck_assert_uint_eq(note_in_store().position, 2);
}
END_TEST

START_TEST(what_waits_for_the_disk_is_not_noted)
{
    push_durably(2);
    ck_assert_int_eq(world_push(&old, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    (void)ps_note_writer_turn(&note_writer);

    ck_assert_uint_eq(noted_in_folder(), 2);
}
END_TEST

/* A journal that failed is behind what a checkpoint has: the note speaks of the journal. */
START_TEST(what_only_a_checkpoint_has_is_not_noted)
{
    push_durably(2);
    ck_assert_int_eq(world_push(&old, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    world_fail_journal(&old);
    disk_save(&old, disk, NULL);
    uint64_t position;
    uint64_t durable;
    ps_service_positions(old.service, &position, &durable);
    ck_assert_uint_eq(durable, 3);

    (void)ps_note_writer_turn(&note_writer);

    ck_assert_uint_eq(noted_in_folder(), 2);
}
END_TEST

START_TEST(a_note_that_cannot_be_put_is_tried_again)
{
    push_durably(1);
    memory_files_knobs(disk)->fail_at = memory_files_knobs(disk)->seen;
    uint64_t start_ms = ps_now_ms(&old.clock);

    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), start_ms + PS_NOTE_FOLDER_MS);

    ck_assert_uint_eq(noted_in_folder(), 0);
    old.fake.now_ms += PS_NOTE_FOLDER_MS;
    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), PS_DEADLINE_NEVER);
    ck_assert_uint_eq(noted_in_folder(), 1);
}
END_TEST

START_TEST(p4_who_lost_the_shard_notes_nothing_in_the_store)
{
    push_durably(1);
    (void)ps_note_writer_turn(&note_writer);
    disk_store_lose(&store);
    push_durably(1);
    old.fake.now_ms += PS_NOTE_STORE_MS;

    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), PS_DEADLINE_NEVER);

    ck_assert_uint_eq(note_in_store().position, 1);
    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), PS_DEADLINE_NEVER);
}
END_TEST

START_TEST(a_shard_that_is_lost_in_this_process_is_not_noted)
{
    push_durably(1);
    ps_service_reset(old.service);

    ck_assert_uint_eq(ps_note_writer_turn(&note_writer), PS_DEADLINE_NEVER);

    ck_assert_uint_eq(noted_in_folder(), 0);
}
END_TEST

/* ---- Recovery ---- */

START_TEST(p1_a_journal_that_was_cut_short_is_damage_and_says_how_much)
{
    push_durably(3);
    (void)ps_note_writer_turn(&note_writer);
    cut_journal(1);

    expect_missing((struct ps_journal_note){0}, "at least 1 acknowledged pushes are missing");
    ck_assert_uint_eq(disk_count(disk, ".damaged"), 0);
}
END_TEST

START_TEST(p1_a_newest_segment_that_is_gone_is_damage)
{
    push_durably(8);
    push_durably(8);
    (void)ps_note_writer_turn(&note_writer);
    ck_assert_int_eq(files->remove(files->self, newest_segment(), NULL), PS_OK);

    expect_missing((struct ps_journal_note){0}, "acknowledged pushes are missing");
}
END_TEST

START_TEST(p1_a_folder_that_went_back_is_damage_by_the_note_in_the_store)
{
    push_durably(3);
    note_writer.registry = NULL;
    (void)ps_note_writer_turn(&note_writer);
    const struct ps_journal_note later = {store.claim.epoch, 8};
    const struct ps_journal_note of_a_later_epoch = {store.claim.epoch + 2, 4};

    expect_missing(later, "at least 5 acknowledged pushes are missing");
    expect_missing(of_a_later_epoch, "at least 1 acknowledged pushes are missing");
}
END_TEST

START_TEST(p1_a_folder_without_anything_is_not_empty_when_something_was_noted)
{
    const struct ps_journal_note noted = {store.claim.epoch, 8};
    for (size_t i = memory_files_file_count(disk); i > 0; i--)
        ck_assert_int_eq(files->remove(files->self, memory_files_path(disk, i - 1), NULL), PS_OK);
    ck_assert_int_eq(recover_with((struct ps_journal_note){0}), PS_ERR_NOT_FOUND);

    expect_missing(noted, "at least 8 acknowledged pushes are missing");
}
END_TEST

START_TEST(an_undamaged_journal_is_never_missed)
{
    for (int i = 0; i < 40; i++) {
        push_durably(1 + i % 3);
        if (i % 4 == 0)
            disk_save(&old, disk, NULL);
        old.fake.now_ms += PS_NOTE_FOLDER_MS / 3;
        (void)ps_note_writer_turn(&note_writer);
    }
    old.fake.now_ms += PS_NOTE_STORE_MS;
    (void)ps_note_writer_turn(&note_writer);

    ck_assert_msg(recover_with(note_in_store()) == PS_OK, "%s", world.error.text);
    ck_assert_uint_eq(loaded.position, noted_in_folder());
    ck_assert_uint_eq(loaded.missing_count, 0);
    ps_service_give_up_recovery(world.service);
}
END_TEST

/* The former owner does not know yet, and goes on into its own files, with notes. */
START_TEST(p4_what_a_former_owner_notes_after_a_takeover_says_nothing)
{
    push_durably(3);
    (void)ps_note_writer_turn(&note_writer);
    ck_assert_int_eq(disk_recover(&world, disk, store.claim.epoch + 5, &writer_after, &loaded),
                     PS_OK);
    push_durably(8);
    old.fake.now_ms += PS_NOTE_FOLDER_MS;
    (void)ps_note_writer_turn(&note_writer);
    ck_assert_uint_eq(noted_in_folder(), 11);
    struct core_world third;
    struct ps_journal_writer *third_writer = NULL;
    disk_journal_world_init(&third, store.claim.epoch + 9);

    ck_assert_int_eq(disk_recover(&third, disk, store.claim.epoch + 9, &third_writer, &loaded),
                     PS_OK);

    ck_assert_uint_eq(loaded.position, 3);
    ps_journal_writer_close(third_writer);
    world_fini(&third);
}
END_TEST

START_TEST(the_next_owner_takes_the_notes_over)
{
    push_durably(3);
    (void)ps_note_writer_turn(&note_writer);
    ck_assert_int_eq(disk_recover(&world, disk, store.claim.epoch + 5, &writer_after, &loaded),
                     PS_OK);
    note_writer.service = world.service;
    note_writer.registry = NULL;
    note_writer.clock = &world.clock;
    ps_note_writer_begin(&note_writer, DISK_FOLDER, &store.claim, store.claim.epoch + 5);

    (void)ps_note_writer_turn(&note_writer);

    ck_assert_uint_eq(disk_count(disk, PS_JOURNAL_NOTE_SUFFIX), 1);
    struct ps_journal_notes notes;
    ck_assert_int_eq(ps_journal_notes_read(files, DISK_FOLDER, UINT64_MAX, &notes, NULL), PS_OK);
    ck_assert_uint_eq(notes.highest.epoch, store.claim.epoch + 5);
    ck_assert_uint_eq(notes.highest.position, 3);
}
END_TEST

START_TEST(what_an_operator_gave_up_is_counted_as_lost)
{
    push_durably(3);
    (void)ps_note_writer_turn(&note_writer);
    cut_journal(1);
    const struct ps_journal_note in_store = {store.claim.epoch, 5};
    expect_missing(in_store, "at least 3 acknowledged pushes are missing");
    ck_assert_int_eq(ps_journal_give_up(files, DISK_FOLDER, 3, 2, NULL), PS_OK);

    ck_assert_msg(recover_with(in_store) == PS_OK, "%s", world.error.text);

    ck_assert_uint_eq(loaded.position, 2);
    ck_assert_uint_eq(loaded.missing_count, 3);
    ck_assert_uint_eq(atomic_load(&world.service->lost_count), 3);
    ps_service_give_up_recovery(world.service);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("note_writer");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, nothing_is_noted_before_the_first_checkpoint);
    tcase_add_test(tests, p1_a_folder_without_anything_is_not_empty_when_something_was_noted);
    int failed = run_tests("note_writer", tests);

    TCase *saved = tcase_create("note_writer_saved");
    tcase_add_checked_fixture(saved, begin_saved, end_test);
    tcase_add_test(saved, the_first_push_is_noted_at_once_and_the_rest_at_its_pace);
    tcase_add_test(saved, what_waits_for_the_disk_is_not_noted);
    tcase_add_test(saved, what_only_a_checkpoint_has_is_not_noted);
    tcase_add_test(saved, a_note_that_cannot_be_put_is_tried_again);
    tcase_add_test(saved, p4_who_lost_the_shard_notes_nothing_in_the_store);
    tcase_add_test(saved, a_shard_that_is_lost_in_this_process_is_not_noted);
    tcase_add_test(saved, p1_a_journal_that_was_cut_short_is_damage_and_says_how_much);
    tcase_add_test(saved, p1_a_newest_segment_that_is_gone_is_damage);
    tcase_add_test(saved, p1_a_folder_that_went_back_is_damage_by_the_note_in_the_store);
    tcase_add_test(saved, an_undamaged_journal_is_never_missed);
    tcase_add_test(saved, p4_what_a_former_owner_notes_after_a_takeover_says_nothing);
    tcase_add_test(saved, the_next_owner_takes_the_notes_over);
    tcase_add_test(saved, what_an_operator_gave_up_is_counted_as_lost);
    return failed != 0 ? failed : run_tests("note_writer_saved", saved);
}
