/* SPDX-License-Identifier: Apache-2.0 */
/* The compiler extensions that this project allows itself, each behind a name of ours.
 *
 * Threads:  none.
 * Blocking: none.
 * Errors:   none.
 * Memory:   none.
 */
#ifndef PS_BASE_ATTRIBUTES_H
#define PS_BASE_ATTRIBUTES_H

/* The caller must look at the result. */
#define PS_MUST_USE __attribute__((warn_unused_result))

/* `format` and the first variable argument are checked like printf's. */
#define PS_PRINTF(format_index, first_index) \
    __attribute__((format(printf, format_index, first_index)))

/* Part of libpsclient's public symbols; everything else stays hidden. */
#define PS_EXPORT __attribute__((visibility("default")))

/* Has the processor fetch the line at `address` into its cache, whatever it is; nothing waits. */
#define PS_PREFETCH(address) __builtin_prefetch(address)

/* Before a loop whose turns do not depend on each other, whatever its pointers look like: one turn
 * may write where it has read itself, and no other turn reads or writes there. */
#ifdef __clang__
#define PS_TURNS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PS_TURNS_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Built with -fsanitize=address or thread: 1, otherwise 0. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PS_SANITIZED 1
#endif
#endif
#ifndef PS_SANITIZED
#define PS_SANITIZED 0
#endif

#define PS_ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
