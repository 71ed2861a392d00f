/* SPDX-License-Identifier: Apache-2.0 */
/* Plain files are whole or absent, and come back as they went; names fit every file system. */
#include "tools/psckpt/tensor_file.h"

#include "run_suite.h"
#include "shard_fixture.h"
#include "tests/support/fault_files.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"
#include "tools/psckpt/tensor_reader.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct memory_files *disk;
static struct progress progress;
static struct toolbox box;
static struct shard_fixture fixture;
static struct tensor_target target;
static struct ps_error error;

static void set_up(void)
{
    disk = memory_files_create(1);
    progress_init(&progress, ps_clock_real(), false);
    shard_fixture_init(&fixture, 7);
    box = (struct toolbox){memory_files_files(disk), ps_allocator_heap(), &progress};
    target = (struct tensor_target){.box = &box, .folder = "out"};
    ck_assert_int_eq(box.files->make_folder(box.files->self, "out", NULL), PS_OK);
}

static void tear_down(void)
{
    memory_files_destroy(disk);
}

static enum ps_status write_all(void)
{
    return tensor_file_safetensors(&target, "all.safetensors", fixture.parameters,
                                   FIXTURE_PARAMETERS, &error);
}

static const char *name_of(const char *parameter)
{
    static char name[TENSOR_FILE_NAME_BYTES];
    ck_assert_int_eq(tensor_file_name(ps_bytes_of_text(parameter), ".npy", name, NULL), PS_OK);
    return name;
}

START_TEST(what_was_written_is_read_back)
{
    struct shard_state state;
    shard_state_init(&state, ps_allocator_heap());

    ck_assert_int_eq(write_all(), PS_OK);
    ck_assert_int_eq(tensor_reader_read(&state, &box, "out/all.safetensors", &error), PS_OK);

    ck_assert_uint_eq(state.count, FIXTURE_PARAMETERS);
    for (size_t i = 0; i < state.count; i++) {
        const struct ps_checkpoint_parameter *row = &fixture.parameters[i];
        ck_assert(ps_bytes_equal(state.parameters[i].name, row->name));
        ck_assert_int_eq(state.parameters[i].dtype, row->dtype);
        ck_assert(ps_bytes_equal(state.parameters[i].values.pieces[0], row->values.pieces[0]));
    }
    shard_state_fini(&state);
}
END_TEST

START_TEST(a_file_that_is_there_is_not_written_over)
{
    ck_assert_int_eq(write_all(), PS_OK);
    ck_assert_int_eq(write_all(), PS_ERR_EXISTS);
}
END_TEST

START_TEST(any_failed_call_of_the_disk_leaves_a_whole_file_or_none)
{
    for (int64_t n = 0;; n++) {
        memory_files_destroy(disk);
        set_up();
        struct fault_files fault = {
            .under = memory_files_files(disk), .calls = FAULT_CHANGES, .fail_at = n, .tears = true};
        struct ps_files failing = fault_files_files(&fault);
        struct ps_bytes content;
        box.files = &failing;

        enum ps_status status = write_all();

        ck_assert_int_eq(fault.open, 0);
        bool there = memory_files_get(disk, "out/all.safetensors", &content);
        if (status == PS_OK || there) {
            struct shard_state state;
            shard_state_init(&state, ps_allocator_heap());
            box.files = memory_files_files(disk);
            ck_assert_int_eq(tensor_reader_read(&state, &box, "out/all.safetensors", &error),
                             PS_OK);
            shard_state_fini(&state);
        }
        ck_assert(there || memory_files_file_count(disk) == 0);
        if (!fault.fired)
            break;
    }
}
END_TEST

START_TEST(any_refused_allocation_is_reported_and_leaves_nothing)
{
    for (int64_t n = 0;; n++) {
        struct fault_heap heap = {.refuse_at = n};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        box.memory = &memory;

        enum ps_status status = write_all();

        ck_assert_int_eq(status, heap.seen > n ? PS_ERR_NO_MEMORY : PS_OK);
        ck_assert_int_eq(heap.live, 0);
        if (status == PS_OK)
            break;
        ck_assert_uint_eq(memory_files_file_count(disk), 0);
    }
}
END_TEST

START_TEST(names_of_files_hold_no_folder_and_nothing_hidden)
{
    ck_assert_str_eq(name_of("layer_1-w"), "layer_1-w.npy");
    ck_assert_str_eq(name_of("a/b"), "a%2Fb.npy");
    ck_assert_str_eq(name_of(".."), "%2E..npy");
    ck_assert_str_eq(name_of("w#0/2"), "w%230%2F2.npy");
    ck_assert_str_eq(name_of("%2F"), "%252F.npy");
    ck_assert_str_eq(name_of("\xc3\xb6"), "%C3%B6.npy");
}
END_TEST

START_TEST(long_names_stay_different_and_fit)
{
    char a[PS_NAME_BYTES_MAX + 1];
    char first[TENSOR_FILE_NAME_BYTES];
    memset(a, '/', PS_NAME_BYTES_MAX);
    a[PS_NAME_BYTES_MAX] = '\0';
    strcpy(first, name_of(a));
    a[PS_NAME_BYTES_MAX - 1] = 'x';

    ck_assert_str_ne(name_of(a), first);
    ck_assert_uint_lt(strlen(first), TENSOR_FILE_NAME_BYTES);
    ck_assert_str_eq(first + strlen(first) - 4, ".npy");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tensor_file");
    TCase *tcase = tcase_create("plain");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, what_was_written_is_read_back);
    tcase_add_test(tcase, a_file_that_is_there_is_not_written_over);
    tcase_add_test(tcase, any_failed_call_of_the_disk_leaves_a_whole_file_or_none);
    tcase_add_test(tcase, any_refused_allocation_is_reported_and_leaves_nothing);
    tcase_add_test(tcase, names_of_files_hold_no_folder_and_nothing_hidden);
    tcase_add_test(tcase, long_names_stay_different_and_fit);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
