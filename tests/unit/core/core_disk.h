/* A disk in memory and a store in memory beside a core_world, for the tests of recovery and saving.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   statuses are returned; what must not fail is asserted.
 * Memory:   in place; the fini functions give everything back.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_DISK_H
#define PS_TESTS_UNIT_CORE_CORE_DISK_H

#include "server/core/loader.h"
#include "server/core/saver.h"
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
                         struct ps_loaded *loaded);

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
