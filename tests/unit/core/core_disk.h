/* SPDX-License-Identifier: Apache-2.0 */
/* A disk in memory and a store in memory beside a core_world, for the tests of recovery and saving.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   statuses are returned; what must not fail is asserted.
 * Memory:   in place; the fini functions give everything back.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_DISK_H
#define PS_TESTS_UNIT_CORE_CORE_DISK_H

#include "checkpoint/journal.h"
#include "server/core/recovery/recovery_run.h"
#include "server/core/recovery/saver.h"
#include "tests/support/memory_files.h"
#include "tests/unit/core/core_world.h"

/* Where the tests keep checkpoints. */
#define DISK_FOLDER "/data/0"

/* A saver without a store. */
struct ps_saver disk_saver(struct core_world *world, struct memory_files *disk);

/* Saves and asserts that it worked; says where if `place` is not NULL. */
void disk_save(struct core_world *world, struct memory_files *disk,
               struct ps_checkpoint_place *place);

/* A world that owns shard 0 of 1 under `epoch`, still STARTING. */
void disk_world_init(struct core_world *world, uint64_t epoch);

/* Loads into such a world; `pointer` may be NULL. */
enum ps_status disk_load(struct core_world *world, struct memory_files *disk, const char *pointer,
                         struct ps_recovered *recovered);

/* The same up to RECOVERING, with a sink (may be NULL) and no ps_recovery_finish. */
enum ps_status disk_load_only(struct core_world *world, struct memory_files *disk,
                              const struct ps_replay_sink *sink, struct ps_recovered *recovered);

/* ---- With a journal, in the order in which a server does it ---- */

/* A journaling world that owns shard 0 of 1 under `epoch`, still STARTING. */
void disk_journal_world_init(struct core_world *world, uint64_t epoch);

/* Loads, opens the journal of the epoch, begins (empty when there was nothing). After a failure the
 * world is STARTING and there is no writer. Segments are full at 1 KiB. */
enum ps_status disk_recover(struct core_world *world, struct memory_files *disk, uint64_t epoch,
                            struct ps_journal_writer **writer, struct ps_recovered *recovered);

/* Writes what is queued, in batches of `batch` at most; PS_OK when all of it is durable. */
enum ps_status disk_write_journal(struct core_world *world, struct ps_journal_writer *writer,
                                  size_t batch);

/* Asserts that two worlds have the same parameters, bit for bit, with states and counters. */
void disk_expect_equal(struct core_world *a, struct core_world *b);

/* One byte in the middle of the data of `path` changes. */
void disk_damage(struct memory_files *disk, const char *path);

/* How many files of the disk end with `ending`. */
size_t disk_count(const struct memory_files *disk, const char *ending);

/* A job's registry on a store in memory, with shard 0 of 1 claimed. */
struct disk_store {
    struct ps_kv_hub *hub;
    struct ps_kv *kv;
    struct ps_registry registry;
    struct ps_claim claim;
};
void disk_store_init(struct disk_store *store, struct core_world *world);
void disk_store_fini(struct disk_store *store);
/* Another server owns the shard from now on. */
void disk_store_lose(struct disk_store *store);

#endif
