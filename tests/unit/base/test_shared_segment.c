/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed memory: what is mapped, and all that is refused. */
#include "base/shared_segment.h"

#include "base/local_socket.h"
#include "run_suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE ((size_t)64 * 1024)

static struct ps_error error;

/* A memory file of SIZE bytes with these seals. */
static int make(unsigned flags, int seals)
{
    int made = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
    ck_assert_int_ge(made, 0);
    ck_assert_int_eq(ftruncate(made, (off_t)SIZE), 0);
    ck_assert_int_eq(fcntl(made, F_ADD_SEALS, seals), 0);
    return made;
}

static void expect_refused(int descriptor, uint64_t size, const char *why)
{
    struct ps_shared_segment segment = {0};

    ck_assert_int_eq(ps_shared_segment_open(descriptor, size, &segment, &error), PS_ERR_BAD_INPUT);

    ck_assert_msg(strstr(error.text, why) != NULL, "%s", error.text);
    ck_assert_ptr_null(segment.bytes);
    close(descriptor);
}

START_TEST(what_one_side_writes_the_other_reads)
{
    struct ps_shared_segment mine, theirs;
    int descriptor;
    ck_assert_int_eq(ps_shared_segment_create(SIZE, &mine, &descriptor, &error), PS_OK);
    ck_assert_int_eq(ps_shared_segment_open(descriptor, SIZE, &theirs, &error), PS_OK);
    close(descriptor);

    mine.bytes[0] = 1;
    theirs.bytes[SIZE - 1] = 2;

    ck_assert_uint_eq(theirs.bytes[0], 1);
    ck_assert_uint_eq(mine.bytes[SIZE - 1], 2);
    ps_shared_segment_close(&mine);
    ck_assert_uint_eq(theirs.bytes[0], 1);
    ps_shared_segment_close(&theirs);
    ck_assert_ptr_null(theirs.bytes);
}
END_TEST

START_TEST(its_maker_cannot_cut_it_short_afterwards)
{
    struct ps_shared_segment segment;
    int descriptor;
    ck_assert_int_eq(ps_shared_segment_create(SIZE, &segment, &descriptor, &error), PS_OK);

    ck_assert_int_ne(ftruncate(descriptor, 0), 0);
    ck_assert_int_ne(ftruncate(descriptor, (off_t)SIZE * 2), 0);
    ck_assert_int_ne(fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE), 0);

    segment.bytes[SIZE - 1] = 1;
    close(descriptor);
    ps_shared_segment_close(&segment);
}
END_TEST

START_TEST(memory_whose_size_is_not_sealed_is_refused)
{
    expect_refused(make(0, 0), SIZE, "not sealed");
    expect_refused(make(0, F_SEAL_GROW), SIZE, "not sealed");
    expect_refused(make(0, F_SEAL_SHRINK), SIZE, "not sealed");
}
END_TEST

START_TEST(memory_of_another_size_than_was_said_is_refused)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    expect_refused(make(0, seals), SIZE + 4096, "another size");
    expect_refused(make(0, seals), SIZE - 4096, "another size");
    expect_refused(make(0, seals), 0, "another size");
    expect_refused(make(0, seals), UINT64_MAX, "another size");
}
END_TEST

START_TEST(memory_that_cannot_be_written_is_refused)
{
    expect_refused(make(0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), SIZE, "shared memory");
    expect_refused(make(0, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), SIZE,
                   "shared memory");
    int writable = make(0, F_SEAL_SHRINK | F_SEAL_GROW);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", writable);
    int readable = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(readable, 0);
    expect_refused(readable, SIZE, "shared memory");
    close(writable);
}
END_TEST

START_TEST(descriptors_of_other_things_are_refused)
{
    int ends[2];
    expect_refused(open("/dev/zero", O_RDWR | O_CLOEXEC), SIZE, "something else");
    expect_refused(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), SIZE, "something else");
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    expect_refused(ends[0], SIZE, "something else");
    close(ends[1]);
    expect_refused(PS_NO_DESCRIPTOR, SIZE, "something else");
}
END_TEST

/* Its pages may be missing when they are touched, whatever its size. */
START_TEST(memory_of_large_pages_is_refused)
{
    int made = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (made < 0)
        return; /* this kernel has none */
    ck_assert_int_eq(ftruncate(made, 2 << 20), 0);
    (void)fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    expect_refused(made, 2 << 20, "something else");
}
END_TEST

START_TEST(closing_nothing_is_allowed)
{
    struct ps_shared_segment segment = {0};
    ps_shared_segment_close(&segment);
    ps_shared_segment_close(&segment);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared_segment");
    TCase *tests = tcase_create("shared_segment");
    tcase_add_test(tests, what_one_side_writes_the_other_reads);
    tcase_add_test(tests, its_maker_cannot_cut_it_short_afterwards);
    tcase_add_test(tests, memory_whose_size_is_not_sealed_is_refused);
    tcase_add_test(tests, memory_of_another_size_than_was_said_is_refused);
    tcase_add_test(tests, memory_that_cannot_be_written_is_refused);
    tcase_add_test(tests, descriptors_of_other_things_are_refused);
    tcase_add_test(tests, memory_of_large_pages_is_refused);
    tcase_add_test(tests, closing_nothing_is_allowed);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
