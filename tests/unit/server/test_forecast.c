/* SPDX-License-Identifier: Apache-2.0 */
/* server/forecast.c: the largest shard of a folder. */
#include "server/forecast.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UUID "0f47ac10-58cc-4372-a567-0e02b2c3d479"

static struct temp_folder folder;
static const struct ps_files *files;

static void begin(void)
{
    temp_folder_init(&folder);
    files = ps_files_real();
}

static void end(void)
{
    temp_folder_fini(&folder);
}

/* A file of `size` bytes in shard `shard`; only its name says that it is a checkpoint. */
static void put(const char *shard, const char *name, size_t size)
{
    static const uint8_t zeros[4096] = {0};
    char path[1024];
    struct ps_file file;
    temp_folder_path(&folder, shard, path, sizeof path);
    ck_assert_int_eq(files->make_folder(files->self, path, NULL), PS_OK);
    (void)snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", name);
    ck_assert_int_eq(files->open(files->self, path, PS_FILE_CREATE_NEW, &file, NULL), PS_OK);
    ck_assert_int_eq(files->write(files->self, file, (struct ps_bytes){zeros, size}, NULL), PS_OK);
    files->close(files->self, file);
}

static uint64_t forecast(void)
{
    return ps_forecast_bytes(files, folder.path, ps_allocator_heap());
}

START_TEST(a_folder_without_shards_needs_nothing)
{
    ck_assert_uint_eq(forecast(), 0);
    put("shard-0", "0000000000000001-0000000000000001.journal", 100);
    put("other", "0000000000000001-0000000000000001-" UUID ".safetensors", 100);
    ck_assert_uint_eq(forecast(), 0);
}
END_TEST

START_TEST(a_folder_that_is_not_there_needs_nothing)
{
    ck_assert_uint_eq(ps_forecast_bytes(files, "/nowhere/at/all", ps_allocator_heap()), 0);
}
END_TEST

START_TEST(the_newest_checkpoint_of_a_shard_counts)
{
    put("shard-0", "0000000000000001-0000000000000001-" UUID ".safetensors", 900);
    put("shard-0", "0000000000000002-0000000000000001-" UUID ".safetensors", 300);

    ck_assert_uint_eq(forecast(), 300);
}
END_TEST

START_TEST(the_largest_shard_counts)
{
    put("shard-0", "0000000000000001-0000000000000001-" UUID ".safetensors", 300);
    put("shard-7", "0000000000000001-0000000000000001-" UUID ".safetensors", 700);
    put("shard-9", "0000000000000001-0000000000000001-" UUID ".safetensors", 500);

    ck_assert_uint_eq(forecast(), 700);
}
END_TEST

START_TEST(a_refused_allocation_counts_as_nothing)
{
    put("shard-0", "0000000000000001-0000000000000001-" UUID ".safetensors", 300);
    struct fault_heap heap = {.refuse_at = 0};
    struct ps_allocator memory = fault_heap_allocator(&heap);

    ck_assert_uint_eq(ps_forecast_bytes(files, folder.path, &memory), 0);

    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forecast");
    TCase *tests = tcase_create("forecast");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_folder_without_shards_needs_nothing);
    tcase_add_test(tests, a_folder_that_is_not_there_needs_nothing);
    tcase_add_test(tests, the_newest_checkpoint_of_a_shard_counts);
    tcase_add_test(tests, the_largest_shard_counts);
    tcase_add_test(tests, a_refused_allocation_counts_as_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
