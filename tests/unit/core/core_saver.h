/* SPDX-License-Identifier: Apache-2.0 */
/* A shard with one parameter, its disk, its store and its saver, for the tests of saving. One test
 * process has one of it.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   failed assertions.
 * Memory:   from saver_rig_setup to saver_rig_teardown.
 */
#ifndef PS_TESTS_UNIT_CORE_SAVER_H
#define PS_TESTS_UNIT_CORE_SAVER_H

#include "tests/unit/core/core_disk.h"

extern const float saver_ones[4]; /* a gradient */

extern struct core_world world;
extern struct memory_files *disk;
extern struct disk_store store;
extern struct ps_saver saver;
extern struct ps_checkpoint_place place; /* of the last save */

void saver_rig_setup(void);
void saver_rig_teardown(void);

void push(void);
enum ps_status save(void);

/* What the store's pointer says. */
void read_pointer(struct ps_checkpoint_place *pointer);

#endif
