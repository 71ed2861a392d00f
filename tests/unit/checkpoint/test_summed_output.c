/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/summed_output.c: what is put is in the file, and in both sums once. */
#include "checkpoint/checksum.h"
#include "checkpoint/summed_output.h"
#include "run_suite.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <string.h>

static uint8_t bytes[300 * 1000];

/* Larger than a step, larger than the buffers, and made in place. */
START_TEST(sums_are_those_of_the_file_and_of_each_array)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    struct ps_block_output blocks;
    struct ps_file file;
    struct ps_bytes content;
    uint32_t first = 0, second = 0;
    size_t room = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 11 + i / 257);
    ck_assert_int_eq(files->make_folder(files->self, "folder", NULL), PS_OK);
    ck_assert_int_eq(files->open(files->self, "folder/a", PS_FILE_CREATE_DIRECT, &file, NULL),
                     PS_OK);
    ck_assert_int_eq(ps_block_output_init(&blocks, files, NULL, (size_t)25 * PS_FILE_DIRECT_BYTES,
                                          ps_allocator_heap(), NULL),
                     PS_OK);
    ps_block_output_open(&blocks, file);
    struct ps_summed_output output;
    ck_assert_int_eq(ps_summed_output_init(&output, &blocks, 0, ps_allocator_heap(), NULL), PS_OK);

    const struct ps_bytes all = {bytes, sizeof bytes};
    ck_assert_int_eq(ps_summed_output_put(&output, all, &first, NULL), PS_OK);
    uint8_t *to = ps_block_output_room(&blocks, &room);
    ck_assert_uint_ge(room, 9);
    memcpy(to, "123456789", 9);
    ck_assert_int_eq(ps_summed_output_made(&output, (struct ps_bytes){to, 9}, &second, NULL),
                     PS_OK);
    ck_assert_int_eq(ps_block_output_end(&blocks, NULL), PS_OK);

    ck_assert(memory_files_get(disk, "folder/a", &content));
    ck_assert_uint_eq(content.size, sizeof bytes + 9);
    ck_assert_int_eq(memcmp(content.data, bytes, sizeof bytes), 0);
    ck_assert_uint_eq(first, ps_checksum_crc32c(0, all));
    /* The check value of CRC-32C. */
    ck_assert_uint_eq(second, 0xE3069283u);
    ck_assert_uint_eq(ps_summed_output_crc32(&output), ps_checksum_crc32(0, content));
    ck_assert_uint_eq(output.bytes, content.size);
    ps_summed_output_fini(&output);
    ps_block_output_fini(&blocks);
    memory_files_destroy(disk);
}
END_TEST

/* As the head of a file, which is not summed, and keys, whose sum comes later. */
START_TEST(parts_that_are_left_out_have_sums_of_their_own)
{
    struct memory_files *disk = memory_files_create(1);
    const struct ps_files *files = memory_files_files(disk);
    struct ps_block_output blocks;
    struct ps_summed_output output;
    struct ps_file file;
    uint32_t unused = 0;
    size_t parts[3];
    const size_t ends[] = {100, 1100, 1100, 1500, 1507};
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 5 + i / 97);
    ck_assert_int_eq(files->open(files->self, "a", PS_FILE_CREATE_NEW, &file, NULL), PS_OK);
    ck_assert_int_eq(ps_block_output_init(&blocks, files, NULL, 0, ps_allocator_heap(), NULL),
                     PS_OK);
    ps_block_output_open(&blocks, file);
    ck_assert_int_eq(ps_summed_output_init(&output, &blocks, 3, ps_allocator_heap(), NULL), PS_OK);

    ck_assert_int_eq(
        ps_summed_output_put(&output, (struct ps_bytes){(const uint8_t *)"head", 4}, &unused, NULL),
        PS_OK);
    ps_summed_output_begin(&output);
    ck_assert_int_eq(
        ps_summed_output_put(&output, (struct ps_bytes){bytes, ends[0]}, &unused, NULL), PS_OK);
    for (size_t i = 0; i < 3; i++)
        parts[i] = ps_summed_output_leave_out(&output, ends[i + 1] - ends[i]);
    ck_assert_int_eq(ps_summed_output_put(&output,
                                          (struct ps_bytes){bytes + ends[3], ends[4] - ends[3]},
                                          &unused, NULL),
                     PS_OK);
    for (size_t i = 3; i-- > 0;)
        output.parts[parts[i]].crc32 =
            ps_checksum_crc32(0, (struct ps_bytes){bytes + ends[i], ends[i + 1] - ends[i]});

    ck_assert_uint_eq(output.bytes, 4 + ends[4]);
    ck_assert_uint_eq(ps_summed_output_crc32(&output),
                      ps_checksum_crc32(0, (struct ps_bytes){bytes, ends[4]}));
    ps_summed_output_fini(&output);
    ps_block_output_fini(&blocks);
    memory_files_destroy(disk);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("summed_output");
    TCase *tests = tcase_create("summed_output");
    tcase_add_test(tests, sums_are_those_of_the_file_and_of_each_array);
    tcase_add_test(tests, parts_that_are_left_out_have_sums_of_their_own);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
