/* SPDX-License-Identifier: Apache-2.0 */
/* An engine on a bench: what it sends piles up here, and the test answers call by call.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   asserts with Check.
 * Memory:   all from a counting heap.
 */
#ifndef PS_TESTS_UNIT_CLIENT_ENGINE_BENCH_H
#define PS_TESTS_UNIT_CLIENT_ENGINE_BENCH_H

#include "client/engine/engine.h"
#include "tests/support/fault_heap.h"

#define BENCH_CALLS_MAX 4096

/* Every byte of the client id. */
#define BENCH_CLIENT_BYTE 0xc1

struct bench {
    struct fault_heap heap;
    struct ps_allocator memory;
    struct ps_engine *engine;
    struct ps_batch *batch;    /* the last one started */
    struct ps_batch *finished; /* the last one that was announced as finished */
    uint64_t now_ms;
    uint64_t *init_epochs;                         /* for the batches; NULL: none */
    struct ps_engine_action sent[BENCH_CALLS_MAX]; /* in flight, in order */
    uint32_t sent_count;
    uint32_t message_count; /* ever; a message has one call or more */
    uint64_t cancelled[BENCH_CALLS_MAX];
    uint32_t cancelled_count;
};

/* An engine over `shard_count` shards that all have a server of epoch 1. */
void bench_open(struct bench *bench, uint32_t shard_count, uint64_t split_bytes);
/* The same with another bound on the calls in flight of one batch and shard. */
void bench_open_wide(struct bench *bench, uint32_t shard_count, uint32_t calls_per_shard_max);
/* The same with an engine whose requests do not say for whom they are meant. */
void bench_open_any(struct bench *bench, uint32_t shard_count);
/* The same with so many small calls in one message. */
void bench_open_together(struct bench *bench, uint32_t shard_count, uint32_t message_calls_max);
/* Both. */
void bench_open_wide_together(struct bench *bench, uint32_t shard_count,
                              uint32_t calls_per_shard_max, uint32_t message_calls_max);
/* The same; content above `range_bytes` goes in ranges of so many bytes. */
void bench_open_ranges(struct bench *bench, uint32_t shard_count, size_t range_bytes);
/* Ends the batch and checks that nothing leaked. */
void bench_close(struct bench *bench);

/* Starts a batch with this many milliseconds to go and collects its actions. */
void bench_start(struct bench *bench, enum ps_method method, struct ps_item *items, size_t count,
                 uint64_t timeout_ms);

/* The same without collecting; the batch is the caller's to end. */
struct ps_batch *bench_begin(struct bench *bench, enum ps_method method, struct ps_item *items,
                             size_t count, uint64_t timeout_ms);

/* Collects actions. */
void bench_pump(struct bench *bench);

/* Moves time to `now_ms`, ticks and collects. */
void bench_at(struct bench *bench, uint64_t now_ms);

/* Answers the i-th call in flight, which is then no longer in flight, and collects. */
void bench_answer(struct bench *bench, uint32_t i, enum ps_status status, bool refused);
/* The same with success: `version` for a push or pull; a pull gets `content` (or zeros). */
void bench_succeed(struct bench *bench, uint32_t i, uint64_t version);
void bench_give(struct bench *bench, uint32_t i, const struct ps_call_outcome *outcome);
void bench_reply(struct bench *bench, uint32_t i, const struct ps_call_reply *reply);

/* Items of float32. */
struct ps_item bench_push_item(const char *name, const float *content, size_t count);
struct ps_item bench_pull_item(const char *name, float *destination, size_t count);

/* The id of the i-th call in flight. */
struct ps_request_id bench_id(const struct bench *bench, uint32_t i);

/* For which server the i-th call in flight says that it is. */
uint32_t bench_meant(const struct bench *bench, uint32_t i);

/* The name in the i-th call in flight. */
struct ps_bytes bench_name(const struct bench *bench, uint32_t i);

#endif
