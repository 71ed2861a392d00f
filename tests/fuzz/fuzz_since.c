/* SPDX-License-Identifier: Apache-2.0 */
/* Delta pulls, both ways. A replica and a shard talk as the input says, over bytes of the real
 * codec in pieces; some requests and answers are bent on the way, some answers are any bytes.
 *
 * Whatever came: what the replica holds is one version, whole, or nothing, and what was refused has
 * changed nothing of it; and when all is honest again it gets what the shard has. */
#include "fuzz_target.h"

#include "base/random.h"
#include "client/replica/replica.h"
#include "proto/bundle_codec.h"
#include "server/core/requests/service.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fault_heap.h"

#include <stdlib.h>
#include <string.h>

enum {
    PARTS = 3,
    PER_BLOCK = PS_BLOCK_BYTES / 4,
    STEPS_MAX = 48,
    TURNS_MAX = 64, /* in which an honest shard must have given everything */
    WIRE_BYTES_MAX = 1 << 20,
    PIECES_MAX = 512,
    RUNS_MAX = 4
};

/* Less than a block, exactly one, more. */
static const size_t counts[PARTS] = {5, PER_BLOCK, 3 * PER_BLOCK + 7};
static const char *const names[PARTS] = {"a", "b", "c"};

/* What is left of the input; zeros behind its end. */
struct feed {
    const uint8_t *data;
    size_t size;
};

struct world {
    struct fake_clock fake;
    struct ps_clock clock;
    struct ps_random random;
    struct ps_service *service;
    struct fault_heap heap; /* the replica's */
    struct ps_allocator memory;
    struct ps_replica *replica;
    uint64_t epoch;
    float *contents[PARTS]; /* of the replica */
    float *before[PARTS];   /* the same, before an answer */
    struct ps_replica_part parts_before[PARTS];
};

static void expect(bool condition)
{
    if (!condition)
        abort();
}

static uint8_t take_byte(struct feed *feed)
{
    if (feed->size == 0)
        return 0;
    feed->size--;
    return *feed->data++;
}

/* Most numbers are small; some are any. */
static uint64_t take_number(struct feed *feed)
{
    uint8_t first = take_byte(feed);
    if (first < 250)
        return first;
    uint64_t number = 0;
    for (int i = 0; i < 8; i++)
        number = number << 8 | take_byte(feed);
    return number;
}

/* ---- The world ---- */

static void begin_life(struct world *world)
{
    ps_service_own(world->service, 0, 1, ++world->epoch, "localhost:1");
    ps_service_prove(world->service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(world->service);
    for (size_t i = 0; i < PARTS; i++) {
        float *values = calloc(counts[i], sizeof *values);
        expect(values != NULL);
        values[0] = (float)world->epoch;
        const struct ps_bytes piece = {(const uint8_t *)values, counts[i] * sizeof *values};
        const struct ps_init_request request = {
            .name = ps_bytes_of_text(names[i]), .dtype = PS_F32, .content = ps_view_of(&piece)};
        expect(ps_service_init(world->service, &request, NULL, NULL) == PS_OK);
        free(values);
    }
    struct ps_ticket ticket;
    expect(ps_service_finish(world->service, NULL, &ticket, NULL) == PS_OK);
}

static void begin(struct world *world)
{
    world->fake.now_ms = 1000;
    world->clock = fake_clock_clock(&world->fake);
    ps_random_init(&world->random, 1);
    const struct ps_service_options options = {
        .memory = ps_allocator_heap(), .clock = &world->clock, .random = &world->random};
    expect(ps_service_create(&options, &world->service, NULL) == PS_OK);
    begin_life(world);
    world->heap = (struct fault_heap){.refuse_at = -1};
    world->memory = fault_heap_allocator(&world->heap);
    expect(ps_replica_create(&world->memory, PARTS, &world->replica, NULL) == PS_OK);
    for (size_t i = 0; i < PARTS; i++) {
        world->contents[i] = calloc(counts[i], sizeof(float));
        world->before[i] = calloc(counts[i], sizeof(float));
        expect(world->contents[i] != NULL && world->before[i] != NULL);
        const struct ps_replica_part part = {.name = ps_bytes_of_text(names[i]),
                                             .parameter = (uint32_t)i,
                                             .dtype = PS_F32,
                                             .content = (uint8_t *)world->contents[i],
                                             .size = counts[i] * sizeof(float)};
        expect(ps_replica_add(world->replica, &part, NULL) == PS_OK);
    }
    ps_replica_begin(world->replica);
}

static void end(struct world *world)
{
    ps_service_check(world->service);
    ps_replica_destroy(world->replica);
    expect(world->heap.live == 0);
    ps_service_destroy(world->service);
    for (size_t i = 0; i < PARTS; i++) {
        free(world->contents[i]);
        free(world->before[i]);
    }
}

static void push(struct world *world, size_t part, uint32_t element)
{
    const float one = 1;
    uint8_t content[8];
    memcpy(content, &element, 4);
    memcpy(content + 4, &one, 4);
    const struct ps_bytes piece = {content, sizeof content};
    const struct ps_push_request request = {.name = ps_bytes_of_text(names[part]),
                                            .dtype = PS_F32,
                                            .encoding = PS_ENCODING_TOP_K,
                                            .content = ps_view_of(&piece)};
    struct ps_push_reply reply;
    expect(ps_service_push(world->service, &request, &reply, NULL, NULL) == PS_OK);
}

/* ---- What is held ---- */

static void remember(struct world *world)
{
    for (size_t i = 0; i < PARTS; i++) {
        world->parts_before[i] = world->replica->parts[i];
        memcpy(world->before[i], world->contents[i], counts[i] * sizeof(float));
    }
}

static void check_held(struct world *world)
{
    ps_replica_check(world->replica);
    for (size_t i = 0; i < PARTS; i++) {
        const struct ps_replica_part *part = &world->replica->parts[i];
        const struct ps_replica_part *before = &world->parts_before[i];
        expect(part->state != PS_PART_FAILED || part->status != PS_ERR_BAD_INPUT ||
               part->version == before->version);
        if (part->version == 0)
            continue;
        if (part->state != PS_PART_FRESH || before->state == PS_PART_FRESH) {
            expect(part->version == before->version);
            expect(part->chain.life == before->chain.life);
            expect(memcmp(world->contents[i], world->before[i], part->size) == 0);
        }
    }
    expect(ps_replica_verify(world->replica));
}

/* ---- On the way ---- */

/* A byte of the message, now and then. */
static void bend_wire(struct feed *feed, struct ps_buffer *wire)
{
    for (int left = take_byte(feed) % 4; left > 0 && wire->size > 0; left--) {
        size_t at = (size_t)take_number(feed) % wire->size;
        wire->text[at] = (char)((uint8_t)wire->text[at] ^ take_byte(feed));
    }
}

static struct ps_view cut(const struct ps_buffer *wire, size_t size,
                          struct ps_bytes pieces[PIECES_MAX])
{
    size_t count = 0;
    for (size_t at = 0; at < wire->size;) {
        size_t left = wire->size - at;
        size_t run = size == 0 || size > left || count == PIECES_MAX - 1 ? left : size;
        pieces[count++] = (struct ps_bytes){(const uint8_t *)wire->text + at, run};
        at += run;
    }
    return (struct ps_view){pieces, count, wire->size};
}

static void take_runs(struct feed *feed, uint32_t runs[2 * RUNS_MAX], struct ps_delta *delta)
{
    size_t count = take_byte(feed) % (RUNS_MAX + 1);
    for (size_t i = 0; i < 2 * count; i++)
        runs[i] = (uint32_t)take_number(feed);
    delta->runs = (struct ps_bytes){(const uint8_t *)runs, 2 * count * sizeof *runs};
}

/* One field of an answer. `runs` has room for runs. */
static void bend_result(struct feed *feed, struct ps_pull_result *result,
                        uint32_t runs[2 * RUNS_MAX])
{
    struct ps_pull_reply *reply = &result->reply;
    struct ps_delta *delta = &reply->delta;
    uint8_t field = take_byte(feed) % 13;
    if (field == 11) {
        take_runs(feed, runs, delta);
        return;
    }
    uint64_t number = take_number(feed);
    switch (field) {
    case 0:
        reply->version = number;
        break;
    case 1:
        reply->total = number;
        break;
    case 2:
        reply->dtype = (enum ps_dtype)(number % PS_DTYPE_COUNT);
        break;
    case 3:
        delta->chain.epoch = number;
        break;
    case 4:
        delta->chain.life = number;
        break;
    case 5:
        delta->block_bytes = number;
        break;
    case 6:
        delta->whole = (enum ps_whole)(number % PS_WHOLE_COUNT);
        break;
    case 7:
        delta->next = number;
        break;
    case 8:
        delta->digest = number;
        break;
    case 9:
        delta->present = !delta->present;
        break;
    case 10:
        reply->name = ps_bytes_of_text(names[number % PARTS]);
        break;
    default:
        result->status =
            (struct ps_item_status){.status = (enum ps_status)(number % PS_STATUS_COUNT)};
        break;
    }
}

/* ---- The shard ---- */

struct answer {
    struct ps_pull *pulls; /* owned */
    struct ps_pull_result *results;
    size_t count;
};

static void check_given(const struct ps_pull_request *request, const struct ps_pull_reply *reply)
{
    const struct ps_delta *delta = &reply->delta;
    uint64_t bytes = 0;
    uint64_t end = 0;
    expect(delta->present && delta->chain.life != 0 && delta->block_bytes == PS_BLOCK_BYTES);
    expect(reply->content.size <= request->bytes_max && delta->runs.size % 8 == 0);
    for (size_t at = 0; at < delta->runs.size; at += 8) {
        uint32_t run[2];
        memcpy(run, delta->runs.data + at, sizeof run);
        expect(run[0] >= end && run[0] >= request->held.block && run[1] > 0);
        end = (uint64_t)run[0] + run[1];
        bytes += (uint64_t)run[1] * PS_BLOCK_BYTES;
    }
    expect(bytes >= reply->content.size && bytes < reply->content.size + PS_BLOCK_BYTES);
    expect(delta->next == 0 || delta->next >= end);
}

/* As server/core/requests/serve.c answers. */
static void serve(struct world *world, const struct ps_bundle_request *request, uint64_t bytes_max,
                  struct answer *answer)
{
    answer->count = request->pull_count;
    answer->pulls = calloc(request->pull_count + 1, sizeof *answer->pulls);
    answer->results = calloc(request->pull_count + 1, sizeof *answer->results);
    expect(answer->pulls != NULL && answer->results != NULL);
    uint64_t left = bytes_max;
    for (size_t i = 0; i < request->pull_count; i++) {
        struct ps_pull_request *pull = &request->pulls[i];
        struct ps_pull_result *result = &answer->results[i];
        pull->held.present = true;
        pull->bytes_max = left > 0 ? left : 1;
        result->status.status = ps_service_pull(world->service, pull, &answer->pulls[i], NULL);
        if (result->status.status != PS_OK)
            continue;
        check_given(pull, &answer->pulls[i].reply);
        result->reply = answer->pulls[i].reply;
        left -= result->reply.content.size;
    }
}

static void release_answer(struct answer *answer)
{
    for (size_t i = 0; i < answer->count; i++)
        ps_pull_release(&answer->pulls[i]);
    free(answer->pulls);
    free(answer->results);
}

/* False: the shard has not understood. */
static bool ask(struct world *world, struct feed *feed, const struct ps_since_request *request,
                uint64_t bytes_max, struct answer *answer)
{
    struct ps_bytes pieces[PIECES_MAX];
    struct ps_bundle_request read;
    struct ps_decoded decoded;
    struct ps_buffer wire;
    ps_buffer_init(&wire, ps_allocator_heap(), WIRE_BYTES_MAX);
    ps_encode_since(request, &wire);
    expect(!wire.failed);
    if (feed != NULL)
        bend_wire(feed, &wire);
    size_t piece_size = feed != NULL ? take_byte(feed) % 16 : 0;
    bool understood = ps_decode_bundle(cut(&wire, piece_size, pieces), ps_allocator_heap(), &read,
                                       &decoded, NULL) == PS_OK;
    if (understood) {
        serve(world, &read, bytes_max, answer);
        ps_decoded_release(&decoded);
    }
    ps_buffer_fini(&wire);
    return understood;
}

/* ---- The answer comes ---- */

static void receive(struct world *world, const struct ps_since_message *message,
                    struct ps_buffer *wire, size_t piece_size)
{
    struct ps_bytes pieces[PIECES_MAX];
    struct ps_bundle_reply reply;
    struct ps_decoded decoded;
    remember(world);
    if (ps_decode_bundle_reply(cut(wire, piece_size, pieces), ps_allocator_heap(), &reply, &decoded,
                               NULL) != PS_OK)
        return;
    (void)!ps_replica_take(message, &reply, NULL);
    ps_decoded_release(&decoded);
    check_held(world);
}

/* `feed` NULL: everything is honest. */
static void exchange(struct world *world, struct feed *feed, const struct ps_since_message *message,
                     uint64_t bytes_max)
{
    uint32_t runs[2 * RUNS_MAX];
    struct answer answer;
    struct ps_buffer wire;
    if (!ask(world, feed, &message->request, bytes_max, &answer))
        return;
    for (int left = feed != NULL && answer.count > 0 ? take_byte(feed) % 4 : 0; left > 0; left--)
        bend_result(feed, &answer.results[take_byte(feed) % answer.count], runs);
    ps_buffer_init(&wire, ps_allocator_heap(), WIRE_BYTES_MAX);
    for (size_t i = 0; i < answer.count; i++) {
        ps_encode_pull_result(&answer.results[i], &wire);
        if (answer.results[i].status.status != PS_OK)
            continue;
        for (size_t k = 0; k < answer.results[i].reply.content.piece_count; k++)
            ps_buffer_append(&wire, answer.results[i].reply.content.pieces[k]);
    }
    release_answer(&answer);
    expect(!wire.failed);
    if (feed != NULL)
        bend_wire(feed, &wire);
    receive(world, message, &wire, feed != NULL ? take_byte(feed) % 16 * 16 : 0);
    ps_buffer_fini(&wire);
}

/* An answer that is any bytes. */
static void receive_bytes(struct world *world, struct feed *feed,
                          const struct ps_since_message *message)
{
    size_t size = (size_t)take_byte(feed) * 4;
    struct ps_buffer wire;
    if (size > feed->size)
        size = feed->size;
    ps_buffer_init(&wire, ps_allocator_heap(), WIRE_BYTES_MAX);
    ps_buffer_append(&wire, (struct ps_bytes){feed->data, size});
    feed->data += size;
    feed->size -= size;
    receive(world, message, &wire, take_byte(feed) % 16);
    ps_buffer_fini(&wire);
}

enum way { WAY_HONEST, WAY_BENT, WAY_BYTES };

/* One message, if anything is stale; false: nothing is. */
static bool turn(struct world *world, struct feed *feed, enum way way, uint64_t bytes_max)
{
    struct ps_since_message *messages;
    size_t count;
    expect(ps_replica_ask(world->replica, &messages, &count, NULL) == PS_OK);
    for (size_t i = 0; i < count; i++)
        if (way == WAY_BYTES)
            receive_bytes(world, feed, &messages[i]);
        else
            exchange(world, way == WAY_BENT ? feed : NULL, &messages[i], bytes_max);
    ps_replica_release(world->replica, messages, count);
    return count > 0;
}

/* ---- The end ---- */

/* What holds blocks of another size was forged, with the right digest; a server that says so is
 * another process, under another chain. */
static void expect_same(struct world *world, size_t i)
{
    const struct ps_replica_part *part = &world->replica->parts[i];
    const struct ps_pull_request request = {.name = ps_bytes_of_text(names[i])};
    struct ps_pull pull = {0};
    if (part->block_bytes != PS_BLOCK_BYTES)
        return;
    expect(part->state == PS_PART_FRESH);
    expect(ps_service_pull(world->service, &request, &pull, NULL) == PS_OK);
    expect(part->version == pull.reply.version + 1);
    ps_view_copy(pull.reply.content, 0, (uint8_t *)world->before[i], part->size);
    expect(memcmp(world->before[i], world->contents[i], part->size) == 0);
    ps_pull_release(&pull);
}

static void step(struct world *world, struct feed *feed)
{
    uint8_t what = take_byte(feed);
    uint64_t bytes_max = (uint64_t)PS_BLOCK_BYTES * (1 + (what >> 4) % 4);
    size_t part = (what >> 4) % PARTS;
    switch (what % 8) {
    case 0:
        push(world, part, (uint32_t)(take_number(feed) * 61 % counts[part]));
        break;
    case 1:
        (void)turn(world, feed, WAY_HONEST, bytes_max);
        break;
    case 2:
    case 3:
    case 4:
        (void)turn(world, feed, WAY_BENT, bytes_max);
        break;
    case 5:
        (void)turn(world, feed, WAY_BYTES, bytes_max);
        break;
    case 6:
        ps_replica_begin(world->replica);
        break;
    default:
        world->fake.now_ms += 1000 * (uint64_t)take_byte(feed);
        if ((what & 128) == 0)
            break;
        ps_service_reset(world->service);
        begin_life(world);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct feed feed = {data, size};
    struct world world = {0};
    begin(&world);
    for (int i = 0; i < STEPS_MAX && feed.size > 0; i++)
        step(&world, &feed);
    ps_replica_begin(world.replica);
    int turns = 0;
    while (turn(&world, NULL, WAY_HONEST, PS_DELTA_BYTES_DEFAULT))
        expect(++turns < TURNS_MAX);
    for (size_t i = 0; i < PARTS; i++)
        expect_same(&world, i);
    end(&world);
    return 0;
}
