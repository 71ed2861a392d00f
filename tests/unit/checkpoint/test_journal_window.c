/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/journal_window.c: reading ahead, and past the buffer. */
#include "base/random.h"
#include "checkpoint/checksum.h"
#include "checkpoint/journal_window.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES ((size_t)5000000)

static struct memory_files *disk;
static uint8_t *content;
static struct ps_journal_window window;

static void set_up(void)
{
    struct ps_random random;
    disk = memory_files_create(1);
    content = malloc(FILE_BYTES);
    ck_assert_ptr_nonnull(content);
    ps_random_init(&random, 3);
    for (size_t i = 0; i < FILE_BYTES; i++)
        content[i] = (uint8_t)ps_random_next(&random);
    memory_files_put(disk, "file", (struct ps_bytes){content, FILE_BYTES});
    ck_assert_int_eq(
        ps_journal_window_init(&window, memory_files_files(disk), ps_allocator_heap(), NULL),
        PS_OK);
    ck_assert_int_eq(ps_journal_window_open(&window, "file", NULL), PS_OK);
}

static void tear_down(void)
{
    ps_journal_window_fini(&window);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
    free(content);
}

static void assert_peek(uint64_t offset, size_t size_max, size_t size)
{
    struct ps_bytes bytes;
    ck_assert_int_eq(ps_journal_window_peek(&window, offset, size_max, &bytes, NULL), PS_OK);
    ck_assert_uint_eq(bytes.size, size);
    ck_assert_int_eq(memcmp(bytes.data, content + offset, size), 0);
}

static void assert_copy(uint64_t offset, size_t size)
{
    uint8_t *to = malloc(size + 1);
    uint32_t crc32c = 0;
    ck_assert_ptr_nonnull(to);
    ck_assert_int_eq(ps_journal_window_copy(&window, offset, to, size, &crc32c, NULL), PS_OK);
    ck_assert_int_eq(memcmp(to, content + offset, size), 0);
    ck_assert_uint_eq(crc32c, ps_checksum_crc32c(0, (struct ps_bytes){content + offset, size}));
    free(to);
}

START_TEST(any_order_of_peeks_and_copies_gives_the_file)
{
    const uint64_t seed = 11;
    struct ps_random random;
    ps_random_init(&random, seed);
    for (int i = 0; i < 300; i++) {
        uint64_t offset = ps_random_below(&random, FILE_BYTES + 1);
        size_t left = FILE_BYTES - (size_t)offset;
        size_t peek = (size_t)ps_random_below(&random, PS_JOURNAL_PEEK_BYTES_MAX + 1);
        size_t copy = (size_t)ps_random_below(&random, i % 3 == 0 ? 2000000 : 5000);

        assert_peek(offset, peek, peek < left ? peek : left);
        assert_copy(offset, copy < left ? copy : left);
    }
}
END_TEST

START_TEST(small_records_are_read_in_few_calls)
{
    uint64_t before = memory_files_knobs(disk)->count[MEMORY_READ];
    for (uint64_t offset = 0; offset + 5000 < FILE_BYTES; offset += 5000) {
        assert_peek(offset, 700, 700);
        assert_copy(offset + 700, 4000);
    }
    ck_assert_uint_lt(memory_files_knobs(disk)->count[MEMORY_READ] - before, 30);
}
END_TEST

START_TEST(large_contents_are_not_read_twice)
{
    uint64_t before = memory_files_knobs(disk)->bytes_read;
    assert_peek(0, 700, 700);
    for (uint64_t offset = 0; offset + 600000 < FILE_BYTES; offset += 600000) {
        assert_peek(offset, 700, 700);
        assert_copy(offset + 100, 599900);
    }
    ck_assert_uint_lt(memory_files_knobs(disk)->bytes_read - before, FILE_BYTES + 200000);
}
END_TEST

START_TEST(a_failed_read_leaves_the_window_usable)
{
    struct ps_bytes bytes;
    uint8_t to[8];
    uint32_t crc32c = 0;
    struct memory_files_knobs *knobs = memory_files_knobs(disk);
    knobs->fail_at = knobs->seen;
    ck_assert_int_eq(ps_journal_window_peek(&window, 0, 10, &bytes, NULL), PS_ERR_IO);
    knobs->fail_at = knobs->seen;
    ck_assert_int_eq(ps_journal_window_copy(&window, 9, to, 8, &crc32c, NULL), PS_ERR_IO);

    assert_peek(0, 10, 10);
    assert_copy(9, 8);
}
END_TEST

START_TEST(a_file_that_has_become_shorter_is_an_error)
{
    struct ps_bytes bytes;
    window.file_bytes++;

    ck_assert_int_eq(ps_journal_window_peek(&window, FILE_BYTES - 9, 100, &bytes, NULL), PS_ERR_IO);
}
END_TEST

START_TEST(another_file_takes_the_place_of_the_first)
{
    memory_files_put(disk, "short", ps_bytes_of_text("abc"));
    struct ps_bytes bytes;
    assert_peek(0, 10, 10);

    ck_assert_int_eq(ps_journal_window_open(&window, "short", NULL), PS_OK);

    ck_assert_int_eq(ps_journal_window_peek(&window, 0, 10, &bytes, NULL), PS_OK);
    ck_assert(ps_bytes_equal(bytes, ps_bytes_of_text("abc")));
    ck_assert_int_eq(ps_journal_window_open(&window, "no", NULL), PS_ERR_NOT_FOUND);
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
}
END_TEST

/* A file of two blocks: something up to `end`, then zeros. */
static void open_blocks(size_t end)
{
    static uint8_t blocks[2 * PS_JOURNAL_BLOCK_BYTES];
    memset(blocks, 0x55, sizeof blocks);
    memset(blocks + end, 0, sizeof blocks - end);
    memory_files_put(disk, "blocks", (struct ps_bytes){blocks, sizeof blocks});
    ck_assert_int_eq(ps_journal_window_open(&window, "blocks", NULL), PS_OK);
}

static uint64_t behind_zeros(uint32_t format, uint64_t offset)
{
    window.life = (struct ps_journal_life){.format = format};
    ck_assert_int_eq(ps_journal_window_pass_zeros(&window, &offset, NULL), PS_OK);
    return offset;
}

START_TEST(zeros_are_passed_over_up_to_the_next_block)
{
    const uint64_t block = PS_JOURNAL_BLOCK_BYTES;
    open_blocks(1000);
    ck_assert_uint_eq(behind_zeros(PS_JOURNAL_FORMAT, 1000), block);
    ck_assert_uint_eq(behind_zeros(PS_JOURNAL_FORMAT, 992), 992);
    ck_assert_uint_eq(behind_zeros(PS_JOURNAL_FORMAT, block), block);
    ck_assert_uint_eq(behind_zeros(PS_JOURNAL_FORMAT, block + 8), 2 * block);
    ck_assert_uint_eq(behind_zeros(PS_JOURNAL_FORMAT, 2 * block), 2 * block);
    ck_assert_uint_eq(behind_zeros(PS_JOURNAL_FORMAT_1, 1000), 1000);
    ck_assert_uint_eq(behind_zeros(0, 1000), 1000);
    window.file_bytes = 2 * block - 1;
    ck_assert_uint_eq(behind_zeros(PS_JOURNAL_FORMAT, block + 8), block + 8);
}
END_TEST

START_TEST(a_head_is_one_of_the_files_life)
{
    static const struct ps_journal_life life = {PS_JOURNAL_FORMAT, 5};
    uint8_t bytes[PS_JOURNAL_HEAD_BYTES_MAX] = {0};
    struct ps_record record = {
        .type = PS_RECORD_PUSH, .position = 9, .epoch = 7, .name = ps_bytes_of_text("w")};
    struct ps_journal_head head = {0};
    enum ps_journal_verdict verdict = PS_JOURNAL_BAD;
    size_t size = ps_journal_head_write(&record, &life, 8, 0, bytes);
    memory_files_put(disk, "head", (struct ps_bytes){bytes, size});
    ck_assert_int_eq(ps_journal_window_open(&window, "head", NULL), PS_OK);

    ck_assert_int_eq(ps_journal_window_head(&window, 0, &head, &verdict, NULL), PS_OK);
    ck_assert_int_eq(verdict, PS_JOURNAL_BAD);
    window.life = life;
    ck_assert_int_eq(ps_journal_window_head(&window, 0, &head, &verdict, NULL), PS_OK);
    ck_assert_int_eq(verdict, PS_JOURNAL_GOOD);
    ck_assert_uint_eq(head.record.position, 9);
    ck_assert_int_eq(ps_journal_window_head(&window, size, &head, &verdict, NULL), PS_OK);
    ck_assert_int_eq(verdict, PS_JOURNAL_BAD);
    ck_assert_int_eq(ps_journal_window_open(&window, "head", NULL), PS_OK);
    ck_assert_uint_eq(window.life.format, 0);
}
END_TEST

START_TEST(what_was_read_ahead_is_forgotten_when_asked)
{
    struct ps_bytes bytes;
    open_blocks(PS_JOURNAL_BLOCK_BYTES);
    ck_assert_int_eq(ps_journal_window_peek(&window, 0, 1, &bytes, NULL), PS_OK);
    memory_files_flip(disk, "blocks", 8 * 100);
    ck_assert_int_eq(ps_journal_window_peek(&window, 100, 1, &bytes, NULL), PS_OK);
    ck_assert_uint_eq(bytes.data[0], 0x55);

    ps_journal_window_forget(&window);

    ck_assert_int_eq(ps_journal_window_peek(&window, 100, 1, &bytes, NULL), PS_OK);
    ck_assert_uint_eq(bytes.data[0], 0x54);
}
END_TEST

START_TEST(a_window_without_memory_is_none)
{
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_journal_window refused;

    ck_assert_int_eq(ps_journal_window_init(&refused, memory_files_files(disk), &memory, NULL),
                     PS_ERR_NO_MEMORY);
    ps_journal_window_fini(&refused);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal_window");
    TCase *tests = tcase_create("journal_window");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, any_order_of_peeks_and_copies_gives_the_file);
    tcase_add_test(tests, small_records_are_read_in_few_calls);
    tcase_add_test(tests, large_contents_are_not_read_twice);
    tcase_add_test(tests, a_failed_read_leaves_the_window_usable);
    tcase_add_test(tests, a_file_that_has_become_shorter_is_an_error);
    tcase_add_test(tests, another_file_takes_the_place_of_the_first);
    tcase_add_test(tests, zeros_are_passed_over_up_to_the_next_block);
    tcase_add_test(tests, a_head_is_one_of_the_files_life);
    tcase_add_test(tests, what_was_read_ahead_is_forgotten_when_asked);
    tcase_add_test(tests, a_window_without_memory_is_none);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
