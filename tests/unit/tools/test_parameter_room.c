/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/parameter_room.c: from files and sources to a state, and on into a digest. */
#include "tools/psckpt/parameter_room.h"

#include "base/clock.h"
#include "rows_fixture.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"
#include "tools/psckpt/plain_tensors.h"
#include "tools/psckpt/state_digest.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct rows_fixture table;
static struct ps_checkpoint_facts facts = {
    .uuid = "u-1", .shard_count = 1, .epoch = 1, .position = 2, .job = ""};
static struct progress quiet;
static struct ps_error error;

static void set_up(void)
{
    progress_init(&quiet, ps_clock_real(), false);
    rows_fixture_init(&table, "t");
    rows_fixture_put(&table, 30, 3, 7);
    rows_fixture_put(&table, 10, 1, 8);
    rows_fixture_put(&table, 20, 2, 9);
}

static void expect_sorted(const struct ps_checkpoint_parameter *found)
{
    ck_assert_uint_eq(found->rows, 3);
    rows_fixture_expect(found, 0, 10, 1, 8);
    rows_fixture_expect(found, 1, 20, 2, 9);
    rows_fixture_expect(found, 2, 30, 3, 7);
}

/* Writes the table, and reads the file into a state. */
static void read_back(struct shard_state *state, const struct ps_allocator *memory,
                      enum ps_status *status)
{
    struct memory_files *disk = memory_files_create(1);
    struct ps_checkpoint_place place;
    const struct toolbox box = {memory_files_files(disk), memory, &quiet};
    ck_assert_int_eq(ps_checkpoint_write(box.files, "ck", &facts, &table.row, 1,
                                         ps_allocator_heap(), &place, &error),
                     PS_OK);
    shard_state_init(state, memory);
    *status = shard_state_read(state, &box, place.path, &error);
    memory_files_destroy(disk);
}

START_TEST(rows_of_a_file_are_sorted_in_a_state)
{
    struct shard_state state;
    enum ps_status status;
    read_back(&state, ps_allocator_heap(), &status);

    ck_assert_msg(status == PS_OK, "%s", error.text);
    ck_assert_uint_eq(state.count, 1);
    expect_sorted(&state.parameters[0]);
    shard_state_fini(&state);
}
END_TEST

/* The clock is the last array of the file. With the state it is wanted whole: an older file may
 * have all of it. */
START_TEST(rows_without_a_whole_clock_are_as_if_pushed_to_last)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    struct ps_checkpoint_place place;
    struct ps_checkpoint_reader *reader = NULL;
    struct parameter_room room;
    struct shard_state state;
    bool has_sessions = true;
    ck_assert_int_eq(ps_checkpoint_write(files, "ck", &facts, &table.row, 1, ps_allocator_heap(),
                                         &place, &error),
                     PS_OK);
    memory_files_flip(disk, place.path, 8 * (place.bytes - 1));
    ck_assert_int_eq(ps_checkpoint_open_damaged(files, place.path, ps_allocator_heap(), &reader,
                                                &has_sessions, &error),
                     PS_OK);
    shard_state_init(&state, ps_allocator_heap());
    ck_assert_int_eq(parameter_room_make(&room, &state, ps_checkpoint_parameter(reader, 0), &error),
                     PS_OK);

    ck_assert_int_eq(parameter_room_read(&room, reader, 0, true, &error), PS_ERR_CORRUPT);
    ck_assert_int_eq(parameter_room_read(&room, reader, 0, false, &error), PS_OK);

    for (size_t i = 0; i < 3; i++) {
        uint32_t clock = 0;
        memcpy(&clock, room.arrays[room.count - 1] + i * sizeof clock, sizeof clock);
        ck_assert_uint_eq(clock, table.row.version);
    }
    shard_state_fini(&state);
    ps_checkpoint_close(reader);
    memory_files_destroy(disk);
}
END_TEST

static enum ps_status read_fixture(void *self, uint32_t array, uint64_t offset, void *to,
                                   size_t size, struct ps_error *failure)
{
    const struct rows_fixture *from = self;
    (void)failure;
    memcpy(to, from->arrays[array] + offset, size);
    return PS_OK;
}

START_TEST(rows_of_a_source_are_copied_and_sorted)
{
    struct ps_checkpoint_parameter row = table.row;
    struct parameter_room room;
    struct shard_state state;
    row.source = (struct ps_checkpoint_source){read_fixture, &table};
    shard_state_init(&state, ps_allocator_heap());

    ck_assert_int_eq(parameter_room_make(&room, &state, &row, &error), PS_OK);
    ck_assert_int_eq(parameter_room_copy(&room, &row, &error), PS_OK);
    ck_assert_int_eq(parameter_room_settle(&room, &row, ps_allocator_heap(), &row, &error), PS_OK);

    expect_sorted(&row);
    ck_assert(row.source.read == NULL);
    ck_assert_uint_eq(room.size, 3 * (8 + 4 + 8 + 4));
    shard_state_fini(&state);
}
END_TEST

static void digest_of(uint8_t digest[SHA256_BYTES])
{
    struct shard_state state;
    enum ps_status status;
    read_back(&state, ps_allocator_heap(), &status);
    ck_assert_int_eq(status, PS_OK);
    ck_assert_int_eq(state_digest(&state, 1, false, digest, &error), PS_OK);
    shard_state_fini(&state);
}

START_TEST(a_digest_is_that_of_the_rows_whatever_their_order)
{
    uint8_t digests[4][SHA256_BYTES];
    digest_of(digests[0]);
    rows_fixture_init(&table, "t");
    rows_fixture_put(&table, 10, 1, 8);
    rows_fixture_put(&table, 30, 3, 7);
    rows_fixture_put(&table, 20, 2, 9);
    digest_of(digests[1]);
    table.clocks[1]++;
    digest_of(digests[2]);
    table.clocks[1]--;
    table.keys[1]++;
    digest_of(digests[3]);

    ck_assert_mem_eq(digests[0], digests[1], SHA256_BYTES);
    ck_assert_mem_ne(digests[0], digests[2], SHA256_BYTES);
    ck_assert_mem_ne(digests[0], digests[3], SHA256_BYTES);
}
END_TEST

START_TEST(a_refused_allocation_leaves_a_state_that_is_released)
{
    enum ps_status status = PS_ERR_NO_MEMORY;
    for (int refused = 0; status == PS_ERR_NO_MEMORY; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct shard_state state;
        read_back(&state, &memory, &status);
        shard_state_fini(&state);
        ck_assert_int_eq(heap.live, 0);
    }
    ck_assert_int_eq(status, PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parameter_room");
    TCase *tests = tcase_create("parameter_room");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, rows_of_a_file_are_sorted_in_a_state);
    tcase_add_test(tests, rows_without_a_whole_clock_are_as_if_pushed_to_last);
    tcase_add_test(tests, rows_of_a_source_are_copied_and_sorted);
    tcase_add_test(tests, a_digest_is_that_of_the_rows_whatever_their_order);
    tcase_add_test(tests, a_refused_allocation_leaves_a_state_that_is_released);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
