/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints for tests of psckpt, made by the writer itself.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a failure stops the test.
 * Memory:   in place.
 */
#ifndef PS_TESTS_SHARD_FIXTURE_H
#define PS_TESTS_SHARD_FIXTURE_H

#include "checkpoint/checkpoint.h"

#define FIXTURE_PARAMETERS 3

/* Shard 0 of 1 with three parameters: "a" (4 x f32, sgd), "b" (3 x f64, adam: two states), "c/d"
 * (2 x i32, sgd). Element i of array s of parameter p is base + 100 p + 10 s + i. */
struct shard_fixture {
    struct ps_checkpoint_facts facts;
    struct ps_checkpoint_parameter parameters[FIXTURE_PARAMETERS];
    uint8_t configs[FIXTURE_PARAMETERS][1024];
    double bytes[FIXTURE_PARAMETERS][1 + PS_STATES_MAX][4];
    struct ps_bytes pieces[FIXTURE_PARAMETERS][1 + PS_STATES_MAX];
};

void shard_fixture_init(struct shard_fixture *fixture, int base);

/* Writes it to `folder`. */
struct ps_checkpoint_place shard_fixture_write(const struct shard_fixture *fixture,
                                               const struct ps_files *files, const char *folder);

#endif
