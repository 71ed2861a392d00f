/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/block_output.c: whole blocks, each written once, in order, and what a failure is. */
#include "checkpoint/block_output.h"
#include "run_suite.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <string.h>

#define BLOCK ((size_t)PS_FILE_DIRECT_BYTES)
#define PATH "folder/segment"

static struct memory_files *disk;
static struct ps_write_behind *thread;
static struct ps_block_output output;
static uint8_t bytes[64 * 1024];

/* Every write as the file saw it. */
static struct {
    size_t count;
    size_t sizes[64];
    bool aligned;
} writes;

static enum ps_status (*real_write)(void *self, struct ps_file file, uint64_t offset,
                                    struct ps_bytes content, struct ps_error *error);

static enum ps_status see_write(void *self, struct ps_file file, uint64_t offset,
                                struct ps_bytes content, struct ps_error *error)
{
    writes.aligned = writes.aligned && (uintptr_t)content.data % BLOCK == 0;
    writes.sizes[writes.count++ % 64] = content.size;
    return real_write(self, file, offset, content, error);
}

static struct ps_files seen;

static void set_up(void)
{
    disk = memory_files_create(1);
    seen = *memory_files_files(disk);
    real_write = seen.write_over;
    seen.write_over = see_write;
    memset(&writes, 0, sizeof writes);
    writes.aligned = true;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(1 + i % 251);
    ck_assert_int_eq(seen.make_folder(seen.self, "folder", NULL), PS_OK);
}

static void tear_down(void)
{
    ps_block_output_fini(&output);
    ps_write_behind_destroy(thread);
    thread = NULL;
    memory_files_destroy(disk);
}

static void begin(const struct ps_files *files, size_t buffer_bytes, bool behind)
{
    struct ps_file file;
    if (behind)
        ck_assert_int_eq(
            ps_write_behind_create(files, "writes", ps_allocator_heap(), &thread, NULL), PS_OK);
    ck_assert_int_eq(
        ps_block_output_init(&output, files, thread, buffer_bytes, ps_allocator_heap(), NULL),
        PS_OK);
    ck_assert_int_eq(files->open(files->self, PATH, PS_FILE_CREATE_DIRECT, &file, NULL), PS_OK);
    ps_block_output_open(&output, file);
}

static void put(size_t from, size_t size)
{
    ck_assert_int_eq(ps_block_output_put(&output, (struct ps_bytes){bytes + from, size}, NULL),
                     PS_OK);
}

static void flush(void)
{
    ck_assert_int_eq(ps_block_output_flush(&output, NULL), PS_OK);
    ck_assert_int_eq(ps_block_output_wait(&output, NULL), PS_OK);
}

START_TEST(a_flush_ends_with_zeros_at_the_end_of_a_block)
{
    begin(&seen, 4 * BLOCK, false);
    put(0, 100);
    flush();
    put(100, BLOCK);
    put(100, 1);
    flush();

    ck_assert(writes.aligned);
    ck_assert_uint_eq(writes.count, 2);
    ck_assert_uint_eq(writes.sizes[0], BLOCK);
    ck_assert_uint_eq(writes.sizes[1], 2 * BLOCK);
    ck_assert_uint_eq(output.size, 3 * BLOCK);
}
END_TEST

/* The name is synced as well, so that the bytes can be looked at after a crash. */
START_TEST(what_was_flushed_is_durable_and_in_order)
{
    struct ps_bytes content;
    begin(&seen, 4 * BLOCK, _i == 1);
    ck_assert_int_eq(seen.sync_folder(seen.self, "folder", NULL), PS_OK);
    put(0, 100);
    flush();
    put(100, 3 * BLOCK);
    flush();
    put(7, 1);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    ck_assert(memory_files_get(disk, PATH, &content));
    ck_assert_uint_eq(content.size, 4 * BLOCK);
    ck_assert_int_eq(memcmp(content.data, bytes, 100), 0);
    for (size_t i = 100; i < BLOCK; i++)
        ck_assert_uint_eq(content.data[i], 0);
    ck_assert_int_eq(memcmp(content.data + BLOCK, bytes + 100, 3 * BLOCK), 0);
}
END_TEST

/* More than both buffers hold, in pieces of odd sizes. */
START_TEST(what_is_larger_than_the_buffers_goes_in_several_writes)
{
    struct ps_bytes content;
    begin(&seen, 2 * BLOCK, _i == 1);
    for (size_t at = 0; at < sizeof bytes; at += 1021)
        put(at, at + 1021 < sizeof bytes ? 1021 : sizeof bytes - at);
    flush();

    ck_assert(memory_files_get(disk, PATH, &content));
    ck_assert_uint_eq(content.size, sizeof bytes);
    ck_assert_int_eq(memcmp(content.data, bytes, sizeof bytes), 0);
    ck_assert(writes.aligned);
    for (size_t i = 0; i < writes.count; i++)
        ck_assert_uint_eq(writes.sizes[i] % BLOCK, 0);
    /* One sync for all: the last write has filled its buffer, so nothing is left but that. */
    ck_assert_uint_eq(memory_files_knobs(disk)->count[MEMORY_SYNC], 1);
}
END_TEST

/* Written by the thread: the buffers alternate, and the one at work is not touched. */
START_TEST(a_large_flush_is_written_while_the_next_is_filled)
{
    struct ps_bytes content;
    static uint8_t large[3][512 * 1024];
    begin(&seen, 128 * BLOCK, true);
    for (size_t i = 0; i < 3; i++) {
        memset(large[i], (int)(i + 1), sizeof large[i]);
        ck_assert_int_eq(
            ps_block_output_put(&output, (struct ps_bytes){large[i], sizeof large[i]}, NULL),
            PS_OK);
        ck_assert_int_eq(ps_block_output_flush(&output, NULL), PS_OK);
    }
    ck_assert_int_eq(ps_block_output_wait(&output, NULL), PS_OK);

    ck_assert(memory_files_get(disk, PATH, &content));
    ck_assert_uint_eq(content.size, 3 * sizeof large[0]);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(memcmp(content.data + i * sizeof large[i], large[i], sizeof large[i]), 0);
}
END_TEST

/* Each write and each sync in turn; said by flush or by the wait, and closing does not hang. */
START_TEST(a_failure_is_said_once)
{
    struct fault_files fault = {
        .under = memory_files_files(disk), .calls = FAULT_WRITE | FAULT_SYNC, .fail_at = _i % 4};
    struct ps_files faulty = fault_files_files(&fault);
    enum ps_status status = PS_OK;
    begin(&faulty, 96 * BLOCK, _i >= 4);
    for (size_t i = 0; i < 2 && status == PS_OK; i++) {
        for (size_t part = 0; part < 5; part++)
            put(0, sizeof bytes);
        status = ps_block_output_flush(&output, NULL);
        if (status == PS_OK)
            status = ps_block_output_wait(&output, NULL);
    }

    ck_assert_int_eq(status, PS_ERR_IO);
    ps_block_output_close(&output);
    ck_assert_int_eq(fault.open, 0);
}
END_TEST

/* As the last piece of a checkpoint: the file ends where its content does. */
START_TEST(the_end_has_no_zeros)
{
    struct ps_bytes content;
    size_t room = 0;
    begin(&seen, 2 * BLOCK, _i == 1);
    put(0, BLOCK + 5);
    uint8_t *to = ps_block_output_room(&output, &room);
    ck_assert_uint_eq(room, BLOCK - 5);
    memset(to, 9, 3);
    ck_assert_int_eq(ps_block_output_made(&output, 3, NULL), PS_OK);

    ck_assert_int_eq(ps_block_output_end(&output, NULL), PS_OK);

    ck_assert(memory_files_get(disk, PATH, &content));
    ck_assert_uint_eq(content.size, BLOCK + 8);
    ck_assert_int_eq(memcmp(content.data, bytes, BLOCK + 5), 0);
    ck_assert_uint_eq(content.data[BLOCK + 7], 9);
    ck_assert_uint_eq(memory_files_knobs(disk)->count[MEMORY_SYNC], 0);
}
END_TEST

/* The zeros are as long as a buffer here. Only what comes to their end writes others. */
START_TEST(small_flushes_go_into_blocks_that_are_there)
{
    struct ps_bytes content;
    begin(&seen, 4 * BLOCK, false);
    ck_assert_int_eq(seen.sync_folder(seen.self, "folder", NULL), PS_OK);
    ps_block_output_go_ahead(&output, 0);
    for (size_t i = 0; i < 6; i++) {
        put(i, 100);
        flush();
        ck_assert(memory_files_get(disk, PATH, &content));
        ck_assert_uint_eq(content.size, i < 4 ? 5 * BLOCK : 9 * BLOCK);
    }
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);

    ck_assert(memory_files_get(disk, PATH, &content));
    ck_assert_uint_eq(content.size, 9 * BLOCK);
    for (size_t i = 0; i < content.size; i++) {
        bool of_a_flush = i / BLOCK < 6 && i % BLOCK < 100;
        ck_assert_uint_eq(content.data[i], of_a_flush ? bytes[i / BLOCK + i % BLOCK] : 0);
    }
}
END_TEST

START_TEST(large_flushes_make_the_file_grow_by_themselves)
{
    struct ps_bytes content;
    begin(&seen, 96 * BLOCK, _i == 1);
    ps_block_output_go_ahead(&output, 0);
    put(0, sizeof bytes);
    put(0, 1);
    flush();

    ck_assert(memory_files_get(disk, PATH, &content));
    ck_assert_uint_eq(content.size, sizeof bytes + BLOCK);
}
END_TEST

/* As a disk has it that is nearly full. */
START_TEST(a_disk_without_room_for_zeros_may_have_some_for_what_counts)
{
    struct ps_bytes content;
    begin(&seen, 4 * BLOCK, false);
    memory_files_knobs(disk)->bytes_max = 3 * BLOCK;
    ps_block_output_go_ahead(&output, 0);
    for (size_t i = 0; i < 3; i++) {
        put(i, 100);
        flush();
    }

    ck_assert(memory_files_get(disk, PATH, &content));
    ck_assert_uint_eq(content.size, 3 * BLOCK);
    put(0, 1);
    ck_assert_int_eq(ps_block_output_flush(&output, NULL), PS_ERR_IO);
}
END_TEST

START_TEST(no_memory_is_said)
{
    for (int64_t refused = 0; refused < 1; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);

        ck_assert_int_eq(ps_block_output_init(&output, &seen, NULL, 0, &memory, NULL),
                         PS_ERR_NO_MEMORY);

        ck_assert_int_eq(heap.live, 0);
        output = (struct ps_block_output){0};
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("block_output");
    TCase *tests = tcase_create("block_output");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_flush_ends_with_zeros_at_the_end_of_a_block);
    tcase_add_loop_test(tests, what_was_flushed_is_durable_and_in_order, 0, 2);
    tcase_add_loop_test(tests, what_is_larger_than_the_buffers_goes_in_several_writes, 0, 2);
    tcase_add_test(tests, a_large_flush_is_written_while_the_next_is_filled);
    tcase_add_loop_test(tests, a_failure_is_said_once, 0, 8);
    tcase_add_loop_test(tests, the_end_has_no_zeros, 0, 2);
    tcase_add_test(tests, small_flushes_go_into_blocks_that_are_there);
    tcase_add_loop_test(tests, large_flushes_make_the_file_grow_by_themselves, 0, 2);
    tcase_add_test(tests, a_disk_without_room_for_zeros_may_have_some_for_what_counts);
    tcase_add_test(tests, no_memory_is_said);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
