/* SPDX-License-Identifier: Apache-2.0 */
/* A call in ranges without an engine: what leaves piles up here, and the test answers range by
 * range.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   asserts with Check.
 * Memory:   in place.
 */
#ifndef PS_TESTS_UNIT_CLIENT_RANGES_RIG_H
#define PS_TESTS_UNIT_CLIENT_RANGES_RIG_H

#include "client/ranges/ranges_call.h"

/* Of the parameter, and of one range. */
#define RIG_COUNT 1000
#define RIG_RANGE 100

struct ranges_rig {
    struct ps_ranges_options options;
    float gradient[RIG_COUNT];
    float destination[RIG_COUNT];
    float came[RIG_COUNT]; /* content of answers */
    struct ps_bytes content;
    struct ps_bytes piece;
    struct ps_call_request request;
    struct ps_ranges_call ranges;
    uint32_t sent[PS_RANGES_WINDOW]; /* that wait for an answer, the oldest first */
    size_t sent_count;
    size_t cancelled_count;
};

/* Begins a call of that method, with an id where it has one. */
void ranges_rig_begin(struct ranges_rig *rig, enum ps_method method);
/* Begins it anew, with whatever the test has changed in its request. */
void ranges_rig_again(struct ranges_rig *rig);

/* The request of the oldest range that waits for an answer. */
const struct ps_call_request *ranges_rig_oldest(const struct ranges_rig *rig);

/* Answers the oldest range, and notes what leaves then. */
void ranges_rig_give(struct ranges_rig *rig, const struct ps_call_outcome *outcome);
void ranges_rig_stage(struct ranges_rig *rig);
void ranges_rig_push(struct ranges_rig *rig, uint64_t version);
void ranges_rig_fail(struct ranges_rig *rig, enum ps_status status, bool refused);

/* Answers it with values of that version, each element its own number; of a range of a push, that
 * is what it makes, and the push is only staged unless `pushed` is its version. */
void ranges_rig_pull(struct ranges_rig *rig, uint64_t version);
void ranges_rig_early(struct ranges_rig *rig, uint64_t version, bool staged);

/* All of the destination is what ranges_rig_pull and ranges_rig_early bring. */
void ranges_rig_assert_pulled(const struct ranges_rig *rig);

#endif
