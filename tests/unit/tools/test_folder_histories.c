/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/folder_histories.c: a folder of one history, and one of two. */
#include "tools/psckpt/folder_histories.h"

#include "checkpoint/checkpoint.h"
#include "run_suite.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define FOLDER "/f"

static struct memory_files *disk;
static struct toolbox box;
static struct ps_history own;
static struct ps_error error;

static void setup(void)
{
    disk = memory_files_create(1);
    box = (struct toolbox){.files = memory_files_files(disk), .memory = ps_allocator_heap()};
    own = (struct ps_history){{9}};
    error = (struct ps_error){0};
}

static void teardown(void)
{
    memory_files_destroy(disk);
}

static void put(uint64_t position, uint8_t history)
{
    struct ps_checkpoint_facts facts = {
        .shard_count = 1, .epoch = 2, .position = position, .history = {{history}}, .job = ""};
    struct ps_checkpoint_place place;
    (void)snprintf(facts.uuid, sizeof facts.uuid, "u%u", (unsigned)position);
    ck_assert_int_eq(
        ps_checkpoint_write(box.files, FOLDER, &facts, NULL, 0, box.memory, &place, NULL), PS_OK);
}

START_TEST(an_empty_folder_has_none)
{
    ck_assert_int_eq(folder_histories_check(&box, FOLDER, &own, &error), PS_OK);
    ck_assert(!ps_history_known(&own));
}
END_TEST

START_TEST(one_history_is_found_beside_files_that_say_none)
{
    put(1, 0);
    put(2, 3);
    put(3, 0);
    ck_assert_int_eq(folder_histories_check(&box, FOLDER, &own, &error), PS_OK);
    ck_assert_uint_eq(own.bytes[0], 3);
}
END_TEST

START_TEST(two_are_refused_and_counted)
{
    put(1, 3);
    put(2, 3);
    put(3, 4);
    ck_assert_int_eq(folder_histories_check(&box, FOLDER, &own, &error), PS_ERR_CORRUPT);
    ck_assert_msg(strstr(error.text, FOLDER ": files of several histories") != NULL, "%s",
                  error.text);
    ck_assert_msg(strstr(error.text, "(2 of another than the newest)") != NULL, "%s", error.text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("folder_histories");
    TCase *tests = tcase_create("folder_histories");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_empty_folder_has_none);
    tcase_add_test(tests, one_history_is_found_beside_files_that_say_none);
    tcase_add_test(tests, two_are_refused_and_counted);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
