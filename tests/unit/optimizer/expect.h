/* SPDX-License-Identifier: Apache-2.0 */
/* A test runner of thirty lines, for machines that have a C compiler and nothing else.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   counted and printed; the program's exit status says whether there were any.
 * Memory:   none.
 */
#ifndef PS_TESTS_OPTIMIZER_EXPECT_H
#define PS_TESTS_OPTIMIZER_EXPECT_H

#include <stdio.h>

struct expect {
    const char *test;
    int failures;
};

typedef void expect_test_fn(struct expect *expect);

#define EXPECT(expect, condition)                                                      \
    do {                                                                               \
        if (!(condition)) {                                                            \
            (expect)->failures++;                                                      \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, (expect)->test, #condition); \
        }                                                                              \
    } while (0)

#define EXPECT_RUN(expect, test) expect_run(expect, #test, test)

static inline void expect_run(struct expect *expect, const char *name, expect_test_fn *test)
{
    int before = expect->failures;
    expect->test = name;
    test(expect);
    printf("%s %s\n", expect->failures == before ? "ok  " : "FAIL", name);
}

/* What main returns. */
static inline int expect_end(const struct expect *expect)
{
    printf("%d failure(s)\n", expect->failures);
    return expect->failures == 0 ? 0 : 1;
}

#endif
