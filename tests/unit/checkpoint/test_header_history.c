/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/header_history.c: one member of a header, found without the rest. */
#include "checkpoint/header_history.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/header_format.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define UUID "01234567-89ab-7cde-8f01-23456789abcd"
#define PATH "f/c"

static struct memory_files *disk;
static const struct ps_files *files;
static struct ps_history found;

static void setup(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
    found = (struct ps_history){{9}};
}

static void teardown(void)
{
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
}

static enum ps_status look(const char *path)
{
    return ps_header_history_read(files, path, ps_allocator_heap(), &found, NULL);
}

/* A file whose header has `members` behind its checksum, which is right. */
static void put(const char *members)
{
    char head[2048] = {0};
    char digits[PS_HEADER_CHECKSUM_DIGITS + 1];
    size_t size = PS_HEADER_LENGTH_BYTES;
    size +=
        (size_t)snprintf(head + size, sizeof head - size, PS_HEADER_START "00000000%s", members);
    while (size % PS_HEADER_ALIGNMENT != 0)
        head[size++] = ' ';
    for (size_t i = 0; i < PS_HEADER_LENGTH_BYTES; i++)
        head[i] = (char)(uint8_t)((size - PS_HEADER_LENGTH_BYTES) >> (8 * i));
    struct ps_bytes bytes = {(const uint8_t *)head, size};
    (void)snprintf(digits, sizeof digits, "%08" PRIx32, ps_header_checksum(bytes));
    memcpy(head + PS_HEADER_CHECKSUM_AT, digits, PS_HEADER_CHECKSUM_DIGITS);
    memory_files_put(disk, PATH, bytes);
}

static bool is_found(const char *members)
{
    put(members);
    ck_assert_int_eq(look(PATH), PS_OK);
    char text[PS_UUID_BYTES];
    ps_history_write(&found, text);
    ck_assert_msg(text[0] == '\0' || strcmp(text, UUID) == 0, "%s", text);
    return text[0] != '\0';
}

/* What the writer writes. */
START_TEST(the_history_of_a_checkpoint_is_found)
{
    struct ps_checkpoint_facts facts = {
        .uuid = "u", .shard_count = 1, .epoch = 2, .job = "a \"job\" \\", .sessions = {NULL, 0}};
    struct ps_checkpoint_place place;
    ck_assert(ps_history_read(UUID, &facts.history));
    ck_assert_int_eq(
        ps_checkpoint_write(files, "f", &facts, NULL, 0, ps_allocator_heap(), &place, NULL), PS_OK);
    ck_assert_int_eq(look(place.path), PS_OK);
    ck_assert_mem_eq(&found, &facts.history, sizeof found);
}
END_TEST

START_TEST(it_is_found_behind_any_members)
{
    ck_assert(is_found("\",\"ps.history\":\"" UUID "\"}}"));
    ck_assert(
        is_found("\",\"a\":\"\",\"b\":\"\\\"\\\\\",\"ps.history\":\"" UUID "\",\"c\":\"d\"}}"));
    /* In the text of another member it is none. */
    ck_assert(!is_found("\",\"a\":\"\\\",\\\"ps.history\\\":\\\"" UUID "\\\"\"}}"));
    ck_assert(!is_found("\",\"ps.history\\\"\":\"" UUID "\"}}"));
}
END_TEST

START_TEST(what_says_none_or_is_laid_out_in_another_way_is_not_known)
{
    static const char *const others[] = {
        "\"}}",
        "\",\"a\":\"b\"}}",
        "\",\"ps.history\":\"\"}}",
        "\",\"ps.history\":\"" UUID "0\"}}",
        "\",\"ps.history\":7}}",
        "\",\"a\":{},\"ps.history\":\"" UUID "\"}}",
        "\", \"ps.history\":\"" UUID "\"}}",
        ("\",\"ps.history\":\"" UUID),
        "\",\"a\":\"\\",
        "\",",
        "",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert_msg(!is_found(others[i]), "%s", others[i]);
}
END_TEST

START_TEST(no_flipped_bit_of_a_header_is_believed)
{
    put("\",\"ps.history\":\"" UUID "\"}}");
    for (uint64_t bit = 0; bit < 100 * 8; bit++) {
        memory_files_flip(disk, PATH, bit);
        ck_assert_int_eq(look(PATH), PS_ERR_CORRUPT);
        ck_assert(!ps_history_known(&found));
        memory_files_flip(disk, PATH, bit);
    }
    ck_assert_int_eq(look(PATH), PS_OK);
    ck_assert(ps_history_known(&found));
}
END_TEST

START_TEST(what_cannot_be_read_is_reported)
{
    ck_assert_int_eq(look("nowhere"), PS_ERR_NOT_FOUND);
    memory_files_put(disk, PATH, ps_bytes_of_text("short"));
    ck_assert_int_eq(look(PATH), PS_ERR_CORRUPT);
    put("\"}}");
    for (int64_t i = 0; i < 4; i++) {
        memory_files_knobs(disk)->fail_at = memory_files_knobs(disk)->seen + i;
        ck_assert_int_eq(look(PATH), PS_ERR_IO);
    }
    memory_files_knobs(disk)->fail_at = -1;
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    ck_assert_int_eq(ps_header_history_read(files, PATH, &memory, &found, NULL), PS_ERR_NO_MEMORY);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("header_history");
    TCase *tests = tcase_create("header_history");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, the_history_of_a_checkpoint_is_found);
    tcase_add_test(tests, it_is_found_behind_any_members);
    tcase_add_test(tests, what_says_none_or_is_laid_out_in_another_way_is_not_known);
    tcase_add_test(tests, no_flipped_bit_of_a_header_is_believed);
    tcase_add_test(tests, what_cannot_be_read_is_reported);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
