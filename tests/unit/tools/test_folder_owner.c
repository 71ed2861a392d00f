/* SPDX-License-Identifier: Apache-2.0 */
/* Who is given what: as root with a folder of another user's, and without a need for it. */
#include "tools/psckpt/folder_owner.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define USER 65532u

static struct temp_folder folder;
static char path[600];

static void begin(void)
{
    temp_folder_init(&folder);
}

static void end(void)
{
    temp_folder_fini(&folder);
}

/* The file of that name, made by this process. */
static const char *make(const char *name)
{
    FILE *file = fopen(temp_folder_path(&folder, name, path, sizeof path), "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static unsigned owner_of(const char *name)
{
    struct stat about;
    char of[600];
    ck_assert_int_eq(lstat(temp_folder_path(&folder, name, of, sizeof of), &about), 0);
    return about.st_uid;
}

START_TEST(in_a_folder_of_ones_own_nobody_is_given_anything)
{
    struct folder_owner owner;
    (void)make("mine");

    folder_owner_look(&owner, folder.path);

    ck_assert(!owner.is_another);
    ck_assert_uint_eq(folder_owner_give(&owner, folder.path), 0);
    ck_assert_uint_eq(owner_of("mine"), geteuid());
}
END_TEST

START_TEST(a_file_and_a_path_without_anything_are_no_folders)
{
    struct folder_owner owner;
    folder_owner_look(&owner, make("file"));
    ck_assert(!owner.is_another);
    folder_owner_look(&owner, "/dev/null/nothing");
    ck_assert(!owner.is_another);
    owner = (struct folder_owner){true, USER, USER};
    ck_assert_uint_eq(folder_owner_give(&owner, "/dev/null/nothing"), 0);
}
END_TEST

/* Elsewhere it would need rights that few test runs have. */
START_TEST(what_is_roots_in_anothers_folder_is_given_to_it)
{
    struct folder_owner owner;
    char below[600];
    if (geteuid() != 0)
        return;
    ck_assert_int_eq(mkdir(temp_folder_path(&folder, "shard-0", below, sizeof below), 0700), 0);
    (void)make("shard-0/made");
    ck_assert_int_eq(chown(make("third"), 77, 77), 0);
    ck_assert_int_eq(chown(folder.path, USER, USER), 0);
    folder_owner_look(&owner, folder.path);
    ck_assert(owner.is_another);

    ck_assert_uint_eq(folder_owner_give(&owner, folder.path), 2);

    ck_assert_uint_eq(owner_of("shard-0"), USER);
    ck_assert_uint_eq(owner_of("shard-0/made"), USER);
    ck_assert_uint_eq(owner_of("third"), 77);
    ck_assert_uint_eq(folder_owner_give(&owner, folder.path), 0);
}
END_TEST

START_TEST(a_file_with_two_names_and_what_a_link_names_stay_roots)
{
    const struct folder_owner owner = {true, USER, USER};
    char to[600];
    if (geteuid() != 0)
        return;
    (void)make("a");
    ck_assert_int_eq(link(path, temp_folder_path(&folder, "b", to, sizeof to)), 0);
    ck_assert_int_eq(symlink("/etc/passwd", temp_folder_path(&folder, "c", to, sizeof to)), 0);

    /* The folder itself is root's here, and the one thing that is given. */
    ck_assert_uint_eq(folder_owner_give(&owner, folder.path), 1);

    ck_assert_uint_eq(owner_of("a"), 0);
    ck_assert_uint_eq(owner_of("c"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("folder_owner");
    TCase *tcase = tcase_create("folder_owner");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, in_a_folder_of_ones_own_nobody_is_given_anything);
    tcase_add_test(tcase, a_file_and_a_path_without_anything_are_no_folders);
    tcase_add_test(tcase, what_is_roots_in_anothers_folder_is_given_to_it);
    tcase_add_test(tcase, a_file_with_two_names_and_what_a_link_names_stay_roots);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
