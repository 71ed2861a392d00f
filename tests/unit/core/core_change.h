/* SPDX-License-Identifier: Apache-2.0 */
/* Short ways to define, drop and configure a parameter of a shard in a test.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   the calls return the status and leave the text in world->error.
 * Memory:   none.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_CHANGE_H
#define PS_TESTS_UNIT_CORE_CORE_CHANGE_H

#include "core_world.h"
#include "server/core/requests/change.h"

/* What the last of them gave; the configuration is not kept. */
struct change_answers {
    struct ps_init_reply defined;
    struct ps_change_reply changed;
};
extern struct change_answers answers;

/* Of float32 under `config`, as the client "client" in session 1; sequence 0: without an id. */
enum ps_status change_define(struct core_world *world, const char *name, const float *values,
                             size_t count, struct ps_bytes config, uint64_t sequence);
enum ps_status change_drop(struct core_world *world, const char *name, uint64_t sequence);
/* To learning rate `rate`. */
enum ps_status change_configure(struct core_world *world, const char *name, double rate,
                                uint64_t sequence);
enum ps_status change_configure_to(struct core_world *world, const char *name,
                                   struct ps_bytes change, uint64_t sequence);

#endif
