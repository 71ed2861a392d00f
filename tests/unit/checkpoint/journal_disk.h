/* The disk under a test of the journal: in memory, anew for each test, and at its end nothing is
 * open.
 *
 *     tcase_add_checked_fixture(tests, set_up, tear_down);
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

static inline void set_up(void)
{
    disk = memory_files_create(1);
    files = memory_files_files(disk);
}

static inline void tear_down(void)
{
    ck_assert_uint_eq(memory_files_open_count(disk), 0);
    memory_files_destroy(disk);
}

/* A journal of short records, one write each, in segments of 800 bytes. */
static inline void journal(uint64_t epoch, uint64_t first, uint64_t last)
{
    const struct sample_shape shape = {.epoch = epoch, .content_bytes_max = 60};
    sample_journal(files, &shape, first, last, 1, 800);
}

#endif
