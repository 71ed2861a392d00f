/* SPDX-License-Identifier: Apache-2.0 */
/* The shard answers as server/core/requests/serve.c does. */
#include "replica_world.h"

#include <stdlib.h>
#include <string.h>

enum { ASKED = 1024 };

const size_t counts[PARTS] = {5, PER_BLOCK, 3 * PER_BLOCK + 7, 9 * PER_BLOCK};
const char *const names[PARTS] = {"a", "b", "c", "d"};

struct fake_clock fake = {.now_ms = 1000};
static struct ps_clock clock_;
struct ps_service *service;
struct fault_heap heap;
static struct ps_allocator memory;
struct ps_replica *replica;
float *contents[PARTS];
uint64_t answer_bytes; /* the server's limit; 0: the replica's wish */

void begin_service(uint64_t epoch)
{
    ps_service_own(service, 0, 1, epoch, "localhost:1");
    ps_service_prove(service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(service);
    for (size_t i = 0; i < PARTS; i++) {
        float *values = calloc(counts[i], sizeof *values);
        ck_assert_ptr_nonnull(values);
        values[0] = (float)epoch;
        const struct ps_bytes piece = {(const uint8_t *)values, counts[i] * sizeof *values};
        const struct ps_init_request request = {
            .name = ps_bytes_of_text(names[i]), .dtype = PS_F32, .content = ps_view_of(&piece)};
        ck_assert_int_eq(ps_service_init(service, &request, NULL, NULL), PS_OK);
        free(values);
    }
    struct ps_ticket ticket;
    ck_assert_int_eq(ps_service_finish(service, NULL, &ticket, NULL), PS_OK);
}

void begin(void)
{
    clock_ = fake_clock_clock(&fake);
    const struct ps_service_options options = {.memory = ps_allocator_heap(), .clock = &clock_};
    ck_assert_int_eq(ps_service_create(&options, &service, NULL), PS_OK);
    begin_service(1);
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    answer_bytes = 0;
    ck_assert_int_eq(ps_replica_create(&memory, PARTS, &replica, NULL), PS_OK);
    for (size_t i = 0; i < PARTS; i++) {
        contents[i] = calloc(counts[i], sizeof *contents[i]);
        ck_assert_ptr_nonnull(contents[i]);
        const struct ps_replica_part part = {.name = ps_bytes_of_text(names[i]),
                                             .parameter = (uint32_t)i,
                                             .dtype = PS_F32,
                                             .content = (uint8_t *)contents[i],
                                             .size = counts[i] * sizeof *contents[i]};
        ck_assert_int_eq(ps_replica_add(replica, &part, NULL), PS_OK);
    }
    ps_replica_begin(replica);
}

void end(void)
{
    ps_replica_check(replica);
    ps_replica_destroy(replica);
    ck_assert_int_eq(heap.live, 0);
    ps_service_destroy(service);
    for (size_t i = 0; i < PARTS; i++)
        free(contents[i]);
}

/* One less in these elements of a part, which rise. */
void push(size_t part, const uint32_t *elements, size_t count)
{
    uint8_t content[64 * 8];
    ck_assert_uint_le(count, 64);
    for (size_t i = 0; i < count; i++) {
        const float one = 1;
        memcpy(content + 4 * i, &elements[i], 4);
        memcpy(content + 4 * (count + i), &one, 4);
    }
    const struct ps_bytes piece = {content, 8 * count};
    const struct ps_push_request request = {.name = ps_bytes_of_text(names[part]),
                                            .dtype = PS_F32,
                                            .encoding = PS_ENCODING_TOP_K,
                                            .content = ps_view_of(&piece)};
    struct ps_push_reply reply;
    ck_assert_int_eq(ps_service_push(service, &request, &reply, NULL, NULL), PS_OK);
}

void push_one(size_t part, uint32_t element)
{
    push(part, &element, 1);
}

/* As server/core/requests/serve.c answers. */
static void serve(const struct ps_since_request *request, struct ps_pull_result *results,
                  struct ps_pull *pulls)
{
    uint64_t left = answer_bytes > 0 ? answer_bytes : request->bytes_max;
    for (size_t i = 0; i < request->pull_count; i++) {
        struct ps_pull_request pull = request->pulls[i];
        pull.bytes_max = left > 0 ? left : 1;
        results[i] = (struct ps_pull_result){.status.status =
                                                 ps_service_pull(service, &pull, &pulls[i], NULL)};
        results[i].reply = pulls[i].reply;
        if (results[i].status.status == PS_OK)
            left -= pulls[i].reply.content.size;
    }
}

/* Asks once for all that is stale; true while something was, and there was memory to ask. */
bool turn(bend_fn bend)
{
    static struct ps_pull_result results[ASKED];
    static struct ps_pull pulls[ASKED];
    struct ps_since_message *messages;
    size_t count;
    enum ps_status status = ps_replica_ask(replica, &messages, &count, NULL);
    if (status == PS_ERR_NO_MEMORY && heap.refuse_at >= 0)
        return false;
    ck_assert_int_eq(status, PS_OK);
    for (size_t i = 0; i < count; i++) {
        const struct ps_since_request *request = &messages[i].request;
        memset(pulls, 0, request->pull_count * sizeof *pulls);
        serve(request, results, pulls);
        for (size_t k = 0; bend != NULL && k < request->pull_count; k++)
            bend(&results[k]);
        const struct ps_bundle_reply reply = {.pulls = results, .pull_count = request->pull_count};
        ck_assert_int_eq(ps_replica_take(&messages[i], &reply, NULL), PS_OK);
        for (size_t k = 0; k < request->pull_count; k++)
            ps_pull_release(&pulls[k]);
    }
    ps_replica_release(replica, messages, count);
    ps_replica_check(replica);
    return count > 0;
}

void catch_up(void)
{
    ps_replica_begin(replica);
    while (turn(NULL))
        continue;
}

/* Part `i` has what the server has. */
void expect_same(size_t i)
{
    struct ps_pull pull = {0};
    const struct ps_pull_request request = {.name = ps_bytes_of_text(names[i])};
    uint8_t *values = malloc(replica->parts[i].size);
    ck_assert_ptr_nonnull(values);
    ck_assert_int_eq(ps_service_pull(service, &request, &pull, NULL), PS_OK);
    ps_view_copy(pull.reply.content, 0, values, replica->parts[i].size);
    ck_assert_int_eq(replica->parts[i].state, PS_PART_FRESH);
    ck_assert_uint_eq(replica->parts[i].version, pull.reply.version + 1);
    ck_assert_mem_eq(values, contents[i], replica->parts[i].size);
    ps_pull_release(&pull);
    free(values);
}

void expect_all_same(void)
{
    for (size_t i = 0; i < PARTS; i++)
        expect_same(i);
}
