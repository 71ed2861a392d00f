/* SPDX-License-Identifier: Apache-2.0 */
/* The disk under a test of the journal: in memory, anew for each test, and at its end nothing is
 * open.
 *
 *     tcase_add_checked_fixture(tests, set_up, tear_down);
 *
 * Tests of reading run once for each format, in two cases: with set_up_format_1 and
 * set_up_format_2.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a file that stays open fails the test.
 * Memory:   given back by tear_down.
 */
#ifndef PS_TESTS_UNIT_CHECKPOINT_JOURNAL_DISK_H
#define PS_TESTS_UNIT_CHECKPOINT_JOURNAL_DISK_H

#include "sample_journal.h"
#include "tests/support/memory_files.h"

#include <check.h>

static struct memory_files *disk;
static const struct ps_files *files;
static uint32_t disk_format; /* of `journal`; 0: the server's own writer */
static struct sample_shape small = {.epoch = 7, .content_bytes_max = 60}; /* of that format */

static inline void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
}

static inline void set_up_format_1(void)
{
    disk_format = small.format = PS_JOURNAL_FORMAT_1;
    set_up();
}

static inline void set_up_format_2(void)
{
    disk_format = small.format = PS_JOURNAL_FORMAT;
    set_up();
}

static inline void tear_down(void)
{
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
}

/* The size of segments that have about five short records, each a flush. */
static inline uint64_t short_segment(void)
{
    return disk_format == PS_JOURNAL_FORMAT ? 6 * PS_JOURNAL_BLOCK_BYTES : 800;
}

/* A journal of short records, one write each, in short segments, of an owner that went on from the
 * epoch `previous`. */
static inline void journal_from(uint64_t previous, uint64_t epoch, uint64_t first, uint64_t last)
{
    const struct sample_shape shape = {
        .epoch = epoch, .content_bytes_max = 60, .format = disk_format};
    struct journal_maker maker;
    sample_maker(&maker, files, &shape, previous, first - 1, short_segment());
    sample_make(&maker, &shape, first, last, 1);
    ck_assert_int_eq(journal_maker_end(&maker, NULL), PS_OK);
}

static inline void journal(uint64_t epoch, uint64_t first, uint64_t last)
{
    const struct sample_shape shape = {
        .epoch = epoch, .content_bytes_max = 60, .format = disk_format};
    sample_journal(files, &shape, first, last, 1, short_segment());
}

#endif
