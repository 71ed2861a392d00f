/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of shards are found wherever a server puts them. */
#include "tools/psckpt/shard_folders.h"

#include "run_suite.h"
#include "shard_fixture.h"
#include "tests/support/fault_heap.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct temp_folder temp;
static struct shard_folders folders;

static void set_up(void)
{
    temp_folder_init(&temp);
}

static void tear_down(void)
{
    shard_folders_fini(&folders);
    temp_folder_fini(&temp);
}

static const char *at(const char *name)
{
    static char text[1024];
    return temp_folder_path(&temp, name, text, sizeof text);
}

static void make(const char *name)
{
    const struct ps_files *files = ps_files_real();
    ck_assert_int_eq(files->make_folder(files->self, at(name), NULL), PS_OK);
}

static enum ps_status find(const char *name)
{
    const struct toolbox box = {.files = ps_files_real(), .memory = ps_allocator_heap()};
    return shard_folders_init(&folders, &box, at(name), NULL);
}

START_TEST(shards_of_a_data_folder_come_by_index)
{
    make("data/shard-10");
    make("data/shard-2");
    make("data/store");

    ck_assert_int_eq(find("data"), PS_OK);

    ck_assert_uint_eq(folders.count, 2);
    ck_assert_uint_eq(folders.rows[0].index, 2);
    ck_assert_uint_eq(folders.rows[1].index, 10);
}
END_TEST

START_TEST(shards_of_jobs_are_found_one_level_down)
{
    make("data/shard-0");
    make("data/blue/shard-0");

    ck_assert_int_eq(find("data"), PS_OK);

    ck_assert_uint_eq(folders.count, 2);
    ck_assert_str_eq(folders.rows[0].job, "");
    ck_assert_str_eq(folders.rows[1].job, "blue");
}
END_TEST

START_TEST(one_shard_folder_is_taken_as_it_is)
{
    make("data/shard-3");

    ck_assert_int_eq(find("data/shard-3"), PS_OK);

    ck_assert_uint_eq(folders.count, 1);
    ck_assert(folders.rows[0].is_named);
    ck_assert_uint_eq(folders.rows[0].index, 3);
}
END_TEST

START_TEST(a_folder_of_any_name_with_a_checkpoint_is_a_shard)
{
    struct shard_fixture fixture;
    shard_fixture_init(&fixture, 0);
    (void)shard_fixture_write(&fixture, ps_files_real(), at("copy"));

    ck_assert_int_eq(find("copy"), PS_OK);

    ck_assert_uint_eq(folders.count, 1);
    ck_assert(!folders.rows[0].is_named);
}
END_TEST

START_TEST(names_that_only_look_like_shards_are_passed_over)
{
    make("data/shard-");
    make("data/shard-01");
    make("data/shard-1x");
    make("data/shard-99999");
    make("data/shard-4096");

    ck_assert_int_eq(find("data"), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_said_so)
{
    ck_assert_int_eq(find("none"), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(one_shard_is_chosen_by_its_number)
{
    make("data/shard-1");
    make("data/shard-2");
    make("data/blue/shard-1");
    ck_assert_int_eq(find("data"), PS_OK);

    ck_assert_int_eq(shard_folders_choose(&folders, NULL, NULL), PS_OK);
    ck_assert_uint_eq(folders.count, 3);
    ck_assert_int_eq(shard_folders_choose(&folders, "1", NULL), PS_OK);
    ck_assert_uint_eq(folders.count, 2);
    ck_assert_uint_eq(folders.rows[1].index, 1);
    ck_assert_int_eq(shard_folders_choose(&folders, "01", NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(shard_folders_choose(&folders, "", NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(shard_folders_choose(&folders, "2", NULL), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(any_refused_allocation_is_reported_and_leaves_nothing)
{
    make("data/shard-0");
    make("data/shard-1");
    for (int64_t n = 0;; n++) {
        struct fault_heap heap = {.refuse_at = n};
        struct ps_allocator memory = fault_heap_allocator(&heap);

        const struct toolbox poor = {.files = ps_files_real(), .memory = &memory};
        enum ps_status status = shard_folders_init(&folders, &poor, at("data"), NULL);

        ck_assert_int_eq(status, heap.seen > n ? PS_ERR_NO_MEMORY : PS_OK);
        shard_folders_fini(&folders);
        ck_assert_int_eq(heap.live, 0);
        if (status == PS_OK)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shard_folders");
    TCase *tcase = tcase_create("find");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, shards_of_a_data_folder_come_by_index);
    tcase_add_test(tcase, shards_of_jobs_are_found_one_level_down);
    tcase_add_test(tcase, one_shard_folder_is_taken_as_it_is);
    tcase_add_test(tcase, a_folder_of_any_name_with_a_checkpoint_is_a_shard);
    tcase_add_test(tcase, names_that_only_look_like_shards_are_passed_over);
    tcase_add_test(tcase, a_folder_that_is_not_there_is_said_so);
    tcase_add_test(tcase, one_shard_is_chosen_by_its_number);
    tcase_add_test(tcase, any_refused_allocation_is_reported_and_leaves_nothing);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
