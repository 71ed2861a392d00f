/* SPDX-License-Identifier: Apache-2.0 */
/* One assertion for many elements: Check takes a microsecond for each of its own, and a sanitizer
 * ten.
 *
 * Threads:  as Check's assertions.
 * Blocking: never.
 * Errors:   the first element that is wrong, and how many are, fail the test.
 * Memory:   none.
 */
#ifndef PS_TESTS_SUPPORT_CHECK_EXPECT_EACH_H
#define PS_TESTS_SUPPORT_CHECK_EXPECT_EACH_H

#include <check.h>
#include <stddef.h>

/* The condition holds for every `index` from 0 to `count` - 1. */
#define expect_each(index, count, condition)                                                  \
    do {                                                                                      \
        size_t wrong_ = 0, first_ = 0;                                                        \
        for (size_t index = 0; index < (size_t)(count); index++)                              \
            if (!(condition) && wrong_++ == 0)                                                \
                first_ = index;                                                               \
        ck_assert_msg(wrong_ == 0, "%zu of %zu, " #index " = %zu first, are not: %s", wrong_, \
                      (size_t)(count), first_, #condition);                                   \
    } while (0)

#endif
