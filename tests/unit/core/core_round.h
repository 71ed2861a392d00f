/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter of a test that is trained in rounds: "m", four float32 zeros, and its workers.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   the calls return the status and leave the text in world->error.
 * Memory:   static.
 */
#ifndef PS_TESTS_UNIT_CORE_CORE_ROUND_H
#define PS_TESTS_UNIT_CORE_CORE_ROUND_H

#include "optimizer/settings.h"
#include "tests/unit/core/core_world.h"

/* SGD with rate 1 and these rounds; valid until the next call. */
struct ps_bytes round_config(const struct ps_round_settings *rounds);

/* Initialises "m" so, and nothing else; the world is READY then. */
void round_begin(struct core_world *world, const struct ps_round_settings *rounds);

/* The worker of that rank pushes `value` in all four elements, as request `sequence` of its own, to
 * round `round`. The reply goes to world->reply. */
enum ps_status round_push(struct core_world *world, uint32_t rank, uint64_t round, float value,
                          uint64_t sequence);

/* A pull of "m" that wants `version`; `*wait` is what it waits for. */
enum ps_status round_pull(struct core_world *world, uint64_t version, struct ps_pull_wait *wait);

/* "m" has these values, all four alike, and this version. */
void round_expect(struct core_world *world, float value, uint64_t version);

#endif
