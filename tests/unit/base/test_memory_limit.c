/* SPDX-License-Identifier: Apache-2.0 */
/* base/memory_limit.c: the lowest limit of a process's control groups counts. */
#include "base/memory_limit.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define GIB ((uint64_t)1 << 30)

static struct temp_folder root;

static void set_up(void)
{
    temp_folder_init(&root);
}

static void tear_down(void)
{
    temp_folder_fini(&root);
}

/* With the folders that lead to it. */
static void write_file(const char *path, const char *text)
{
    char full[1024];
    snprintf(full, sizeof full, "%s%s", root.path, path);
    for (char *slash = strchr(full + strlen(root.path) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(a_container_of_version_2_limits)
{
    write_file("/proc/self/cgroup", "0::/\n");
    write_file("/sys/fs/cgroup/memory.max", "2147483648\n");

    ck_assert_uint_eq(ps_memory_limit_of_groups(root.path), 2 * GIB);
}
END_TEST

START_TEST(a_container_of_version_1_limits_where_its_path_is_the_hosts)
{
    write_file("/proc/self/cgroup", "12:cpu,cpuacct:/docker/abc\n9:hugetlb,memory:/docker/abc\n");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");

    ck_assert_uint_eq(ps_memory_limit_of_groups(root.path), GIB);
}
END_TEST

START_TEST(the_lowest_of_a_group_and_those_around_it_counts)
{
    write_file("/proc/self/cgroup", "0::/jobs/seven\n");
    write_file("/sys/fs/cgroup/jobs/seven/memory.max", "max\n");
    write_file("/sys/fs/cgroup/jobs/memory.max", "1073741824\n");
    write_file("/sys/fs/cgroup/memory.max", "4294967296\n");

    ck_assert_uint_eq(ps_memory_limit_of_groups(root.path), GIB);
}
END_TEST

START_TEST(no_group_and_no_limit_are_none)
{
    ck_assert_uint_eq(ps_memory_limit_of_groups(root.path), UINT64_MAX);
    write_file("/proc/self/cgroup", "0::/jobs\nnonsense\n1:name\n");
    write_file("/sys/fs/cgroup/jobs/memory.max", "max\n");
    write_file("/sys/fs/cgroup/memory.max", "\n");

    ck_assert_uint_eq(ps_memory_limit_of_groups(root.path), UINT64_MAX);
}
END_TEST

START_TEST(groups_of_other_controllers_say_nothing)
{
    write_file("/proc/self/cgroup", "3:cpu:/a\n");
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1\n");
    write_file("/sys/fs/cgroup/memory.max", "1\n");

    ck_assert_uint_eq(ps_memory_limit_of_groups(root.path), UINT64_MAX);
}
END_TEST

START_TEST(this_machine_has_memory)
{
    ck_assert_uint_gt(ps_memory_limit(), 0);
    ck_assert_uint_le(ps_memory_limit(), ps_memory_limit_of_groups(""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_limit");
    TCase *tests = tcase_create("memory_limit");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_container_of_version_2_limits);
    tcase_add_test(tests, a_container_of_version_1_limits_where_its_path_is_the_hosts);
    tcase_add_test(tests, the_lowest_of_a_group_and_those_around_it_counts);
    tcase_add_test(tests, no_group_and_no_limit_are_none);
    tcase_add_test(tests, groups_of_other_controllers_say_nothing);
    tcase_add_test(tests, this_machine_has_memory);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
