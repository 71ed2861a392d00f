/* SPDX-License-Identifier: Apache-2.0 */
/* The bench under the engine's tests. */
#include "engine_bench.h"

#include <check.h>
#include <string.h>

static void open_engine_with(struct bench *bench, uint32_t shard_count, uint64_t split_bytes,
                             uint32_t calls_per_shard_max, bool any_shard,
                             uint32_t message_calls_max, size_t range_bytes)
{
    memset(bench, 0, sizeof *bench);
    bench->heap.refuse_at = -1;
    bench->memory = fault_heap_allocator(&bench->heap);
    bench->now_ms = 1000;
    struct ps_engine_options options = {.memory = &bench->memory,
                                        .shard_count = shard_count,
                                        .split_bytes = split_bytes,
                                        .calls_per_shard_max = calls_per_shard_max,
                                        .pause_min_ms = 10,
                                        .pause_max_ms = 100,
                                        .any_shard = any_shard,
                                        .message_calls_max = message_calls_max,
                                        .ranges = {range_bytes, range_bytes, false},
                                        .seed = 5};
    memset(options.client_id.bytes, BENCH_CLIENT_BYTE, sizeof options.client_id.bytes);
    ck_assert_int_eq(ps_engine_create(&options, &bench->engine, NULL), PS_OK);
    for (uint32_t i = 0; i < shard_count; i++)
        ps_engine_member(bench->engine, i, 1);
}

static void open_engine(struct bench *bench, uint32_t shard_count, uint64_t split_bytes,
                        uint32_t calls_per_shard_max, bool any_shard, uint32_t message_calls_max)
{
    open_engine_with(bench, shard_count, split_bytes, calls_per_shard_max, any_shard,
                     message_calls_max, 0);
}

void bench_open_ranges(struct bench *bench, uint32_t shard_count, size_t range_bytes)
{
    open_engine_with(bench, shard_count, UINT64_MAX, 2, false, 4, range_bytes);
}

void bench_open(struct bench *bench, uint32_t shard_count, uint64_t split_bytes)
{
    open_engine(bench, shard_count, split_bytes, 2, false, 0);
}

void bench_open_wide(struct bench *bench, uint32_t shard_count, uint32_t calls_per_shard_max)
{
    open_engine(bench, shard_count, 1000, calls_per_shard_max, false, 0);
}

void bench_open_any(struct bench *bench, uint32_t shard_count)
{
    open_engine(bench, shard_count, 1000, 2, true, 0);
}

void bench_open_together(struct bench *bench, uint32_t shard_count, uint32_t message_calls_max)
{
    open_engine(bench, shard_count, UINT64_MAX, 2, false, message_calls_max);
}

void bench_open_wide_together(struct bench *bench, uint32_t shard_count,
                              uint32_t calls_per_shard_max, uint32_t message_calls_max)
{
    open_engine(bench, shard_count, UINT64_MAX, calls_per_shard_max, false, message_calls_max);
}

void bench_close(struct bench *bench)
{
    if (bench->batch != NULL) {
        ck_assert_ptr_eq(bench->finished, bench->batch);
        ps_engine_end(bench->engine, bench->batch);
    }
    ps_engine_destroy(bench->engine);
    ck_assert_int_eq(bench->heap.live, 0);
}

void bench_start(struct bench *bench, enum ps_method method, struct ps_item *items, size_t count,
                 uint64_t timeout_ms)
{
    bench->batch = bench_begin(bench, method, items, count, timeout_ms);
    bench_pump(bench);
}

struct ps_batch *bench_begin(struct bench *bench, enum ps_method method, struct ps_item *items,
                             size_t count, uint64_t timeout_ms)
{
    struct ps_batch *batch;
    const struct ps_batch_request request = {.method = method,
                                             .items = items,
                                             .item_count = count,
                                             .deadline_ms = bench->now_ms + timeout_ms,
                                             .init_epochs = bench->init_epochs};
    ck_assert_int_eq(ps_engine_start(bench->engine, &request, bench->now_ms, &batch, NULL), PS_OK);
    return batch;
}

void bench_pump(struct bench *bench)
{
    struct ps_engine_action action;
    ps_engine_check(bench->engine);
    while (ps_engine_next_action(bench->engine, &action)) {
        switch (action.type) {
        case PS_ENGINE_SEND:
            bench->message_count++;
            for (size_t i = 0; i < action.part_count; i++) {
                ck_assert_uint_lt(bench->sent_count, BENCH_CALLS_MAX);
                bench->sent[bench->sent_count] = action;
                bench->sent[bench->sent_count].call = action.parts[i].call;
                bench->sent[bench->sent_count++].request = action.parts[i].request;
            }
            break;
        case PS_ENGINE_CANCEL:
            bench->cancelled[bench->cancelled_count++] = action.call;
            break;
        case PS_ENGINE_FINISHED:
            ck_assert_ptr_ne(bench->finished, action.batch);
            bench->finished = action.batch;
            break;
        }
        ps_engine_check(bench->engine);
    }
}

void bench_at(struct bench *bench, uint64_t now_ms)
{
    bench->now_ms = now_ms;
    ps_engine_tick(bench->engine, now_ms);
    bench_pump(bench);
}

void bench_give(struct bench *bench, uint32_t i, const struct ps_call_outcome *outcome)
{
    ck_assert_uint_lt(i, bench->sent_count);
    uint64_t call = bench->sent[i].call;
    bench->sent_count--;
    memmove(&bench->sent[i], &bench->sent[i + 1], (bench->sent_count - i) * sizeof bench->sent[0]);
    if (ps_engine_outcome(bench->engine, call, outcome, bench->now_ms)) {
        bench_pump(bench);
        ps_engine_keep(bench->engine, call, outcome, bench->now_ms);
    }
    bench_pump(bench);
}

void bench_answer(struct bench *bench, uint32_t i, enum ps_status status, bool refused)
{
    struct ps_call_outcome outcome = {.status = status, .refused = refused};
    strcpy(outcome.text, ps_status_word(status));
    bench_give(bench, i, &outcome);
}

void bench_succeed(struct bench *bench, uint32_t i, uint64_t version)
{
    static const uint8_t zeros[65536];
    ck_assert_uint_lt(i, bench->sent_count);
    const struct ps_call_request *request = bench->sent[i].request;
    struct ps_call_reply reply = {.method = request->method};
    struct ps_bytes piece = {zeros, 4};
    if (request->method == PS_METHOD_PUSH)
        reply.push.version = version;
    if (request->method == PS_METHOD_PUSH_PULL) {
        reply.push_pull.push.version = version;
        reply.push_pull.pull = (struct ps_pull_reply){
            .dtype = PS_F32, .content = ps_view_of(&piece), .version = version + 1};
    }
    if (request->method == PS_METHOD_PULL)
        reply.pull = (struct ps_pull_reply){.name = request->pull.name,
                                            .dtype = PS_F32,
                                            .content = ps_view_of(&piece),
                                            .version = version};
    bench_reply(bench, i, &reply);
}

void bench_reply(struct bench *bench, uint32_t i, const struct ps_call_reply *reply)
{
    struct ps_call_outcome outcome = {.status = PS_OK, .reply = *reply};
    bench_give(bench, i, &outcome);
}

struct ps_item bench_push_item(const char *name, const float *content, size_t count)
{
    return (struct ps_item){.name = ps_bytes_of_text(name),
                            .dtype = PS_F32,
                            .content = (const uint8_t *)content,
                            .size = count * sizeof(float)};
}

struct ps_item bench_pull_item(const char *name, float *destination, size_t count)
{
    return (struct ps_item){.name = ps_bytes_of_text(name),
                            .dtype = PS_F32,
                            .destination = (uint8_t *)destination,
                            .size = count * sizeof(float)};
}

struct ps_request_id bench_id(const struct bench *bench, uint32_t i)
{
    ck_assert_uint_lt(i, bench->sent_count);
    const struct ps_call_request *request = bench->sent[i].request;
    if (request->method == PS_METHOD_INIT)
        return request->init.request;
    if (request->method == PS_METHOD_FINISH)
        return request->finish.request;
    if (request->method == PS_METHOD_PUSH_PULL)
        return request->push_pull.push.request;
    return request->method == PS_METHOD_PUSH ? request->push.request : (struct ps_request_id){0};
}

uint32_t bench_meant(const struct bench *bench, uint32_t i)
{
    ck_assert_uint_lt(i, bench->sent_count);
    const struct ps_call_request *request = bench->sent[i].request;
    if (request->method == PS_METHOD_INIT)
        return request->init.shard;
    if (request->method == PS_METHOD_FINISH)
        return request->finish.shard;
    return request->method == PS_METHOD_PUSH ? request->push.shard : request->pull.shard;
}

struct ps_bytes bench_name(const struct bench *bench, uint32_t i)
{
    ck_assert_uint_lt(i, bench->sent_count);
    const struct ps_call_request *request = bench->sent[i].request;
    if (request->method == PS_METHOD_PULL)
        return request->pull.name;
    return request->method == PS_METHOD_INIT ? request->init.name : request->push.name;
}
