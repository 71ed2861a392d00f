/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/recovery_find.c: the order of candidates, whose they are, and what becomes of those
 * that cannot be used. What recovery makes of them is in test_recovery_run.c. */
#include "server/core/recovery/recovery_find.h"

#include "checkpoint/checkpoint_name.h"
#include "tests/support/fault_heap.h"
#include "tests/unit/core/core_disk.h"

#include <stdio.h>
#include <string.h>

static struct core_world world;
static struct memory_files *disk;
static struct ps_recovery recovery;
static struct ps_recovery_search search;
static char json[4096]; /* of the pointer */

static void setup(void)
{
    disk = memory_files_create(1);
    disk_world_init(&world, 9);
    recovery = (struct ps_recovery){.service = world.service,
                                    .files = memory_files_files(disk),
                                    .folder = DISK_FOLDER,
                                    .memory = ps_allocator_heap()};
    search = (struct ps_recovery_search){.recovery = NULL};
}

static void teardown(void)
{
    if (search.recovery != NULL)
        ps_recovery_search_fini(&search);
    world_fini(&world);
    memory_files_destroy(disk);
}

/* A file whose name says this; the content does not matter here. `number` makes the uuid. */
static struct ps_checkpoint_place put(uint64_t epoch, uint64_t position, unsigned number)
{
    struct ps_checkpoint_place place = {.epoch = epoch, .position = position};
    char name[PS_CHECKPOINT_NAME_BYTES];
    (void)snprintf(place.uuid, sizeof place.uuid, "00000000-0000-7000-8000-%012u", number);
    ps_checkpoint_name_write(epoch, position, place.uuid, "", PS_CHECKPOINT_SUFFIX, name);
    (void)snprintf(place.path, sizeof place.path, "%s/%s", DISK_FOLDER, name);
    memory_files_put(disk, place.path, ps_bytes_of_text("x"));
    return place;
}

/* The store's pointer names `place`, which may be a file of another folder. */
static void publish(const struct ps_checkpoint_place *place)
{
    struct ps_buffer buffer;
    ps_buffer_init(&buffer, ps_allocator_heap(), sizeof json);
    ps_catalog_pointer_write(place, &buffer);
    ck_assert_int_eq(ps_buffer_status(&buffer, NULL), PS_OK);
    memcpy(json, buffer.text, buffer.size + 1);
    ps_buffer_fini(&buffer);
    recovery.pointer = ps_bytes_of_text(json);
}

static void begin(void)
{
    ck_assert_int_eq(ps_recovery_search_init(&search, &recovery, NULL), PS_OK);
}

static struct ps_recovery_candidate expect_next(const struct ps_checkpoint_place *place)
{
    struct ps_recovery_candidate candidate;
    ck_assert(ps_recovery_search_next(&search, &candidate));
    ck_assert_str_eq(candidate.place.uuid, place->uuid);
    ck_assert_str_eq(candidate.place.path, place->path);
    ck_assert_uint_eq(candidate.place.position, place->position);
    return candidate;
}

static void expect_end(void)
{
    struct ps_recovery_candidate candidate;
    ck_assert(!ps_recovery_search_next(&search, &candidate));
}

START_TEST(candidates_come_by_epoch_and_then_by_position)
{
    struct ps_checkpoint_place far = put(2, 90, 1);
    struct ps_checkpoint_place late = put(4, 30, 2);
    struct ps_checkpoint_place later = put(4, 40, 3);
    begin();
    (void)expect_next(&later);
    (void)expect_next(&late);
    (void)expect_next(&far);
    expect_end();
}
END_TEST

START_TEST(a_published_file_of_another_folder_has_its_place_among_them)
{
    struct ps_checkpoint_place older = put(4, 30, 1);
    struct ps_checkpoint_place newer = put(4, 50, 2);
    struct ps_checkpoint_place elsewhere = {
        .uuid = "00000000-0000-7000-8000-000000000009", .epoch = 4, .position = 40};
    (void)snprintf(elsewhere.path, sizeof elsewhere.path, "/elsewhere/file");
    publish(&elsewhere);
    begin();
    ck_assert_ptr_nonnull(expect_next(&newer).fate);
    ck_assert_ptr_null(expect_next(&elsewhere).fate);
    ck_assert_ptr_nonnull(expect_next(&older).fate);
    expect_end();
}
END_TEST

START_TEST(a_published_file_of_the_folder_comes_once_and_with_what_the_pointer_says)
{
    struct ps_checkpoint_place place = put(4, 30, 1);
    place.crc32 = 77;
    place.bytes = 1000;
    publish(&place);
    begin();
    struct ps_recovery_candidate candidate = expect_next(&place);
    ck_assert_uint_eq(candidate.place.crc32, 77);
    ck_assert_uint_eq(candidate.place.bytes, 1000);
    expect_end();
}
END_TEST

START_TEST(a_pointer_that_cannot_be_read_is_damage)
{
    recovery.pointer = ps_bytes_of_text("{");
    begin();
    ck_assert_uint_eq(search.damaged_count, 1);
    expect_end();
}
END_TEST

START_TEST(a_file_is_overtaken_by_a_later_epoch_that_went_on_from_less)
{
    struct ps_checkpoint_place former = put(2, 90, 1);
    struct ps_checkpoint_place before = put(2, 30, 2);
    struct ps_checkpoint_place present = put(4, 40, 3);
    begin();
    ck_assert(ps_recovery_search_is_overtaken(&search, &former));
    ck_assert(!ps_recovery_search_is_overtaken(&search, &before));
    ck_assert(!ps_recovery_search_is_overtaken(&search, &present));
}
END_TEST

START_TEST(what_was_put_aside_is_not_missed)
{
    struct ps_checkpoint_place gone = {
        .uuid = "00000000-0000-7000-8000-000000000009", .epoch = 4, .position = 40};
    struct ps_checkpoint_place other = put(4, 30, 1);
    (void)snprintf(gone.path, sizeof gone.path, DISK_FOLDER "/gone");
    publish(&gone);
    begin();
    ck_assert(ps_recovery_search_misses(&search, &gone));
    ck_assert(!ps_recovery_search_misses(&search, &other));

    memory_files_put(disk, DISK_FOLDER "/gone.damaged", ps_bytes_of_text("x"));

    ck_assert(!ps_recovery_search_misses(&search, &gone));
}
END_TEST

START_TEST(files_are_renamed_by_their_fates)
{
    (void)put(2, 90, 1);
    (void)put(4, 30, 2);
    struct ps_checkpoint_place good = put(4, 20, 3);
    struct ps_bytes content;
    begin();
    search.fates[0] = PS_FATE_DAMAGED; /* 4, 30 */
    search.fates[2] = PS_FATE_FORMER;  /* 2, 90 */

    ps_recovery_search_put_aside(&search);

    ck_assert_uint_eq(disk_count(disk, ".damaged"), 1);
    ck_assert_uint_eq(disk_count(disk, ".stale"), 1);
    ck_assert_uint_eq(disk_count(disk, PS_CHECKPOINT_SUFFIX), 1);
    ck_assert(memory_files_get(disk, good.path, &content));
}
END_TEST

START_TEST(the_list_of_damaged_names_holds_whole_names_only)
{
    static const char name[] = "0000000000000004-000000000000001e-0123456789abcdef.safetensors";
    const struct ps_error reason = {.status = PS_ERR_CORRUPT};
    begin();
    for (int i = 0; i < 5; i++)
        ps_recovery_search_note_damage(&search, name, &reason);
    ck_assert_uint_eq(search.damaged_count, 5);
    char both[sizeof search.damaged];
    (void)snprintf(both, sizeof both, "%s, %s, ...", name, name);
    ck_assert_str_eq(search.damaged, both);
}
END_TEST

START_TEST(refused_memory_leaves_nothing)
{
    (void)put(4, 30, 1);
    enum ps_status status = PS_ERR_NO_MEMORY;
    for (int refused = 0; status != PS_OK; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        const struct ps_allocator memory = fault_heap_allocator(&heap);
        ck_assert_int_lt(refused, 100);
        recovery.memory = &memory;

        search = (struct ps_recovery_search){.recovery = NULL};
        status = ps_recovery_search_init(&search, &recovery, NULL);

        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        ps_recovery_search_fini(&search);
        ck_assert_int_eq(heap.live, 0);
    }
    search.recovery = NULL;
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recovery_find");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, candidates_come_by_epoch_and_then_by_position);
    tcase_add_test(tests, a_published_file_of_another_folder_has_its_place_among_them);
    tcase_add_test(tests, a_published_file_of_the_folder_comes_once_and_with_what_the_pointer_says);
    tcase_add_test(tests, a_pointer_that_cannot_be_read_is_damage);
    tcase_add_test(tests, a_file_is_overtaken_by_a_later_epoch_that_went_on_from_less);
    tcase_add_test(tests, what_was_put_aside_is_not_missed);
    tcase_add_test(tests, files_are_renamed_by_their_fates);
    tcase_add_test(tests, the_list_of_damaged_names_holds_whole_names_only);
    tcase_add_test(tests, refused_memory_leaves_nothing);
    return run_tests("recovery_find", tests);
}
