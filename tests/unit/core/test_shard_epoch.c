/* SPDX-License-Identifier: Apache-2.0 */
/* core/ownership/shard_epoch.c: epochs rise even when the store's history begins anew. */
#include "run_suite.h"
#include "server/core/ownership/shard_epoch.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECKPOINT(epoch) "/d/00000000000000" epoch "-0000000000000007-" UUID ".safetensors"
#define SEGMENT(epoch) "/d/00000000000000" epoch "-0000000000000008.journal"
#define UUID "3244ee01-84ea-4f13-9c36-ae66d76f7eb2"

static struct memory_files *disk;
static const struct ps_files *files;

static void setup(void)
{
    disk = memory_files_create(1);
    ck_assert_ptr_nonnull(disk);
    files = memory_files_files(disk);
    ck_assert_int_eq(files->make_folder(files->self, "/d", NULL), PS_OK);
}

static void teardown(void)
{
    memory_files_destroy(disk);
}

static void put(const char *path)
{
    struct ps_file file;
    ck_assert_int_eq(files->open(files->self, path, PS_FILE_CREATE_NEW, &file, NULL), PS_OK);
    files->close(files->self, file);
}

static uint64_t epoch_of(uint64_t claim)
{
    uint64_t epoch = 0;
    ck_assert_int_eq(ps_shard_epoch(files, "/d", claim, ps_allocator_heap(), &epoch, NULL), PS_OK);
    return epoch;
}

START_TEST(a_claim_above_all_files_is_the_epoch)
{
    put(CHECKPOINT("20"));
    put(SEGMENT("21"));

    ck_assert_uint_eq(epoch_of(0x22), 0x22);
}
END_TEST

START_TEST(a_folder_that_is_not_there_has_no_files)
{
    uint64_t epoch = 0;

    ck_assert_int_eq(ps_shard_epoch(files, "/nowhere", 5, ps_allocator_heap(), &epoch, NULL),
                     PS_OK);

    ck_assert_uint_eq(epoch, 5);
}
END_TEST

START_TEST(a_younger_store_goes_on_above_the_files)
{
    put(CHECKPOINT("20"));
    put(SEGMENT("30"));

    ck_assert_uint_eq(epoch_of(3), 0x33);
}
END_TEST

START_TEST(of_two_owners_the_later_is_above_whatever_the_earlier_wrote)
{
    put(CHECKPOINT("20"));
    uint64_t earlier = epoch_of(3);
    uint64_t later_before_files = epoch_of(5);
    put(SEGMENT("23"));
    uint64_t later_after_files = epoch_of(5);

    ck_assert_uint_eq(earlier, 0x23);
    ck_assert_uint_gt(later_before_files, earlier);
    ck_assert_uint_gt(later_after_files, earlier);
}
END_TEST

START_TEST(any_refused_allocation_is_survived)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    uint64_t epoch = 0;
    put(CHECKPOINT("20"));
    put(SEGMENT("30"));

    enum ps_status status = ps_shard_epoch(files, "/d", 3, &memory, &epoch, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shard_epoch");
    TCase *tests = tcase_create("shard_epoch");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_claim_above_all_files_is_the_epoch);
    tcase_add_test(tests, a_folder_that_is_not_there_has_no_files);
    tcase_add_test(tests, a_younger_store_goes_on_above_the_files);
    tcase_add_test(tests, of_two_owners_the_later_is_above_whatever_the_earlier_wrote);
    tcase_add_loop_test(tests, any_refused_allocation_is_survived, 0, 6);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
