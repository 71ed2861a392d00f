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
    struct ps_summed_output output = {.blocks = &blocks};

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
    ck_assert_uint_eq(output.crc32, ps_checksum_crc32(0, content));
    ck_assert_uint_eq(output.bytes, content.size);
    ps_block_output_fini(&blocks);
    memory_files_destroy(disk);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("summed_output");
    TCase *tests = tcase_create("summed_output");
    tcase_add_test(tests, sums_are_those_of_the_file_and_of_each_array);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
