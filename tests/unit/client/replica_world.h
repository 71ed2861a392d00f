/* SPDX-License-Identifier: Apache-2.0 */
/* A real shard with four parameters, and a replica of them that a test drives.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   asserts with Check.
 * Memory:   world_end checks that the replica has given everything back.
 */
#ifndef PS_TESTS_UNIT_CLIENT_REPLICA_WORLD_H
#define PS_TESTS_UNIT_CLIENT_REPLICA_WORLD_H

#include "client/replica/replica.h"
#include "server/core/requests/service.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"

#include <check.h>

enum { PARTS = 4, PER_BLOCK = PS_BLOCK_BYTES / 4 };

/* Elements of the parts "a" to "d": less than a block, exact blocks, more. */
extern const size_t counts[PARTS];
extern const char *const names[PARTS];

extern struct fake_clock fake;
extern struct ps_service *service;
extern struct fault_heap heap; /* the replica's */
extern struct ps_replica *replica;
extern float *contents[PARTS];
extern uint64_t answer_bytes; /* the server's limit; 0: what the replica wishes */

/* The shard, under epoch 1, and a replica that has nothing. */
void begin(void);
void end(void);

/* After ps_service_reset: the parameters again, another content. */
void begin_service(uint64_t epoch);

/* One less in these elements of a part, which rise. */
void push(size_t part, const uint32_t *elements, size_t count);
void push_one(size_t part, uint32_t element);

/* A change to an answer on its way; NULL: none. */
typedef void (*bend_fn)(struct ps_pull_result *result);

/* Asks once for all that is stale; true while something was, and there was memory to ask. */
bool turn(bend_fn bend);

/* A whole pull. */
void catch_up(void);

/* A part, or each, has what the server has. */
void expect_same(size_t part);
void expect_all_same(void);

#endif
