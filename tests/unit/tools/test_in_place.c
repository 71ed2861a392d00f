/* SPDX-License-Identifier: Apache-2.0 */
/* A shard's folder is exchanged: on a real disk, since folders are renamed. */
#include "tools/psckpt/in_place.h"

#include "run_suite.h"
#include "shard_fixture.h"
#include "tests/support/fault_files.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct temp_folder temp;
static struct progress progress;
static struct shard_state state;
static struct ps_checkpoint_place old;
static char kept[SHARD_FOLDER_PATH_BYTES];
static struct ps_checkpoint_place place;

static const char *at(const char *name)
{
    static char text[512];
    return temp_folder_path(&temp, name, text, sizeof text);
}

static void set_up(void)
{
    struct shard_fixture fixture;
    temp_folder_init(&temp);
    progress_init(&progress, ps_clock_real(), false);
    shard_fixture_init(&fixture, 0);
    old = shard_fixture_write(&fixture, ps_files_real(), at("shard-0"));
    const struct toolbox box = {ps_files_real(), ps_allocator_heap(), &progress};
    shard_state_init(&state, ps_allocator_heap());
    ck_assert_int_eq(shard_state_read(&state, &box, old.path, NULL), PS_OK);
}

static void tear_down(void)
{
    shard_state_fini(&state);
    temp_folder_fini(&temp);
}

static bool is_there(const char *path)
{
    const struct ps_files *files = ps_files_real();
    struct ps_file file;
    if (files->open(files->self, path, PS_FILE_READ, &file, NULL) != PS_OK)
        return false;
    files->close(files->self, file);
    return true;
}

START_TEST(the_new_folder_has_the_state_and_the_old_one_stays)
{
    ck_assert_int_eq(in_place_write(&state, ps_files_real(), at("shard-0"), kept, &place, NULL),
                     PS_OK);

    ck_assert_str_eq(kept, at("shard-0.before-1"));
    ck_assert(is_there(place.path));
    ck_assert(!is_there(old.path));
    ck_assert_int_eq(strncmp(place.path, at("shard-0/"), strlen(at("shard-0/"))), 0);
    ck_assert_str_eq(state.place.path, place.path);
}
END_TEST

START_TEST(a_second_time_the_next_number_is_taken)
{
    ck_assert_int_eq(in_place_write(&state, ps_files_real(), at("shard-0"), kept, &place, NULL),
                     PS_OK);
    ck_assert_int_eq(in_place_write(&state, ps_files_real(), at("shard-0"), kept, &place, NULL),
                     PS_OK);

    ck_assert_str_eq(kept, at("shard-0.before-2"));
}
END_TEST

START_TEST(a_failed_call_leaves_the_old_files_under_one_of_two_names)
{
    for (int64_t n = 0;; n++) {
        struct fault_files fault = {.under = ps_files_real(), .calls = FAULT_ANY, .fail_at = n};
        struct ps_files failing = fault_files_files(&fault);
        const char *name = strrchr(old.path, '/');
        char before[1200];

        enum ps_status status = in_place_write(&state, &failing, at("shard-0"), kept, &place, NULL);

        (void)snprintf(before, sizeof before, "%s%s", kept, name);
        ck_assert(is_there(old.path) || is_there(before));
        if (!fault.fired) {
            ck_assert_int_eq(status, PS_OK);
            break;
        }
        tear_down();
        set_up();
    }
}
END_TEST

START_TEST(what_a_broken_off_repair_left_is_not_overwritten)
{
    struct shard_fixture fixture;
    shard_fixture_init(&fixture, 1);
    (void)shard_fixture_write(&fixture, ps_files_real(), at("shard-0.new"));

    ck_assert_int_eq(in_place_write(&state, ps_files_real(), at("shard-0"), kept, &place, NULL),
                     PS_ERR_EXISTS);

    ck_assert(is_there(old.path));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("in_place");
    TCase *tcase = tcase_create("in_place");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_new_folder_has_the_state_and_the_old_one_stays);
    tcase_add_test(tcase, a_second_time_the_next_number_is_taken);
    tcase_add_test(tcase, a_failed_call_leaves_the_old_files_under_one_of_two_names);
    tcase_add_test(tcase, what_a_broken_off_repair_left_is_not_overwritten);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
