/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/file_edges.c: a block is written once, when it is whole, whoever has its bytes. */
#include "checkpoint/file_edges.h"
#include "run_suite.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <signal.h>
#include <string.h>

#define BLOCK ((size_t)PS_FILE_DIRECT_BYTES)
#define EDGES 3

static struct memory_files *disk;
static const struct ps_files *files;
static struct ps_file_edges edges;
static struct ps_file file;
static uint8_t bytes[8 * BLOCK];

static void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    ck_assert_int_eq(files->open(files->self, "a", PS_FILE_CREATE_DIRECT, &file, NULL), PS_OK);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(1 + i % 241);
    ck_assert_int_eq(ps_file_edges_init(&edges, EDGES, files, ps_allocator_heap(), NULL), PS_OK);
}

static void tear_down(void)
{
    ps_file_edges_fini(&edges);
    memory_files_destroy(disk);
}

static enum ps_status put(size_t from, size_t to)
{
    return ps_file_edges_put(&edges, file, from, (struct ps_bytes){bytes + from, to - from}, NULL);
}

static uint64_t writes(void)
{
    return memory_files_knobs(disk)->count[MEMORY_WRITE];
}

/* Blocks 1, 5 and 7, with parts in any order, of which one has none. */
START_TEST(blocks_are_written_when_they_are_whole)
{
    struct ps_bytes content;
    ck_assert_int_eq(put(5 * BLOCK + 7, 6 * BLOCK), PS_OK);
    ck_assert_int_eq(put(BLOCK, BLOCK + 100), PS_OK);
    ck_assert_int_eq(put(2 * BLOCK - 1, 2 * BLOCK), PS_OK);
    ck_assert_int_eq(put(6 * BLOCK, 6 * BLOCK), PS_OK);
    ck_assert_int_eq(put(7 * BLOCK, 7 * BLOCK + 9), PS_OK);
    ck_assert_uint_eq(writes(), 0);
    ck_assert_int_eq(put(5 * BLOCK, 5 * BLOCK + 7), PS_OK);
    ck_assert_uint_eq(writes(), 1);
    /* The place of the one that went is free. */
    ck_assert_int_eq(put(3 * BLOCK, 3 * BLOCK + 1), PS_OK);
    ck_assert_int_eq(put(3 * BLOCK + 1, 4 * BLOCK), PS_OK);
    ck_assert_int_eq(put(BLOCK + 100, 2 * BLOCK - 1), PS_OK);
    ck_assert_uint_eq(writes(), 3);
    ck_assert_int_eq(ps_file_edges_end(&edges, file, 7 * BLOCK + 9, NULL), PS_OK);

    ck_assert_uint_eq(edges.count, 0);
    ck_assert(memory_files_get(disk, "a", &content));
    ck_assert_uint_eq(content.size, 7 * BLOCK + 9);
    for (size_t i = 0; i < content.size; i++) {
        size_t block = i / BLOCK;
        bool is_there = block == 1 || block == 3 || block == 5 || block == 7;
        ck_assert_uint_eq(content.data[i], is_there ? bytes[i] : 0);
    }
}
END_TEST

START_TEST(without_an_edge_nothing_is_written)
{
    ck_assert_int_eq(ps_file_edges_end(&edges, file, 12345, NULL), PS_OK);
    ck_assert_uint_eq(writes(), 0);
}
END_TEST

START_TEST(a_failure_is_said)
{
    memory_files_knobs(disk)->fail_from = memory_files_knobs(disk)->seen;
    ck_assert_int_eq(_i == 0 ? put(0, BLOCK) : put(0, 1), _i == 0 ? PS_ERR_IO : PS_OK);
    if (_i == 1)
        ck_assert_int_eq(ps_file_edges_end(&edges, file, 1, NULL), PS_ERR_IO);
}
END_TEST

START_TEST(what_is_put_twice_aborts)
{
    (void)!put(0, 3000);
    (void)!put(1000, 3000);
}
END_TEST

START_TEST(no_memory_is_said)
{
    for (int64_t refused = 0; refused < 2; refused++) {
        struct fault_heap heap = {.refuse_at = refused};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct ps_file_edges none;
        ck_assert_int_eq(ps_file_edges_init(&none, 5, files, &memory, NULL), PS_ERR_NO_MEMORY);
        ck_assert_int_eq(heap.live, 0);
        ps_file_edges_fini(&none);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("file_edges");
    TCase *tests = tcase_create("file_edges");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, blocks_are_written_when_they_are_whole);
    tcase_add_test(tests, without_an_edge_nothing_is_written);
    tcase_add_loop_test(tests, a_failure_is_said, 0, 2);
    tcase_add_test_raise_signal(tests, what_is_put_twice_aborts, SIGABRT);
    tcase_add_test(tests, no_memory_is_said);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
