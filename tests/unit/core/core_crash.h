/* SPDX-License-Identifier: Apache-2.0 */
/* A server with a journal whose machine fails, and the one that recovers what it had: what tests of
 * recovery begin with. Included once per program.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   the test fails.
 * Memory:   static; crash_end gives everything back.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_CRASH_H
#define PS_TESTS_UNIT_CORE_CORE_CRASH_H

#include "core_disk.h"

static struct memory_files *disk;
static struct core_world before, after; /* of epoch 1, and of epoch 2 */
static struct ps_journal_writer *writer, *writer_after;
static struct ps_recovered loaded; /* by the last recovery */

/* The first has nothing yet; the second is still STARTING. */
static inline void crash_begin(void)
{
    disk = memory_files_create(1);
    writer_after = NULL;
    disk_journal_world_init(&before, 1);
    ck_assert_int_eq(disk_recover(&before, disk, 1, &writer, &loaded), PS_OK);
    disk_journal_world_init(&after, 2);
}

/* The first has the parameter "w" of 1 and 2, and a checkpoint of it. */
static inline void crash_begin_ready(void)
{
    static const float values[] = {1, 2};
    crash_begin();
    ck_assert_int_eq(
        world_init_param(&before, "w", PS_F32, values, sizeof values, config_of("sgd", 1)), PS_OK);
    ck_assert_int_eq(world_finish(&before), PS_OK);
    disk_save(&before, disk, NULL);
}

/* The journal is written, in batches of `batch` at most, the machine fails, and the second
 * recovers. */
static inline void crash_now(size_t batch)
{
    ck_assert_int_eq(disk_write_journal(&before, writer, batch), PS_OK);
    memory_files_crash(disk, MEMORY_CRASH_LOSES_ALL);
    ck_assert_int_eq(disk_recover(&after, disk, 2, &writer_after, &loaded), PS_OK);
    ps_service_check(after.service);
}

static inline void crash_end(void)
{
    ps_journal_writer_close(writer);
    ps_journal_writer_close(writer_after);
    world_fini(&before);
    world_fini(&after);
    memory_files_destroy(disk);
}

#endif
