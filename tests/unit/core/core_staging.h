/* SPDX-License-Identifier: Apache-2.0 */
/* A staging in a test, and ranges of one array to put there.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   what may fail leaves its status and text in what it returns; else the test ends.
 * Memory:   staged_begin and staged_end, which sees that nothing is left.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_STAGING_H
#define PS_TESTS_UNIT_CORE_CORE_STAGING_H

#include "core_world.h"
#include "server/core/requests/staging.h"

/* 160 KiB of float32: two parts of PART elements and a short one. */
enum { TOTAL = 40 * 1024, PART = 16 * 1024, REST = TOTAL - 2 * PART };

extern float values[TOTAL];
extern struct fault_heap heap;
extern struct ps_staging staging;

void staged_begin(uint64_t bytes_max);
void staged_end(void);

/* What one part gave. */
struct added {
    enum ps_status status;
    struct ps_added got;
    struct ps_error error;
};

/* A range of `name`, which is of `total` elements, as request `sequence` of the client. */
struct added staged_add_as(const char *client, uint64_t sequence, const char *name, uint64_t total,
                           uint64_t first, uint64_t count, uint64_t now_ms);
/* The same, brought by a caller that is known under this key. */
struct added staged_add_from(const char *share, const char *client, uint64_t sequence,
                             uint64_t total, uint64_t now_ms);
/* A range of "w", of the client "a". */
struct added staged_add_of(uint64_t session, uint64_t sequence, uint64_t first, uint64_t count,
                           uint64_t now_ms);
/* Of its first request. */
struct added staged_add(uint64_t first, uint64_t count);

/* It was the last one: what is put together are the values. */
void staged_expect_whole(const struct added *added);

#endif
