/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions that stay on in release builds: a broken invariant stops the process at once.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none; a failure writes one line to standard error and aborts.
 * Memory:   none.
 */
#ifndef PS_BASE_ASSERT_H
#define PS_BASE_ASSERT_H

/* For what only a bug of ours can break. Never for input from outside. */
#define PS_ASSERT(condition) \
    ((condition) ? (void)0 : ps_assert_failed(#condition, __FILE__, __LINE__))

/* Writes where and what to standard error, then aborts. */
#ifdef __cplusplus
extern "C" [[noreturn]] void
#else
_Noreturn void
#endif
ps_assert_failed(const char *condition, const char *file, int line);

#endif
