/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/delta_pull.c: what has changed since, and never a mixture. */
#include "server/core/values/delta_pull.h"

#include "proto/digest.h"
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

#include <stdlib.h>
#include <string.h>

/* Four and a half blocks of float32. */
enum { PER_BLOCK = PS_BLOCK_BYTES / 4, BLOCKS = 5, COUNT = 4 * PER_BLOCK + PER_BLOCK / 2 };
enum { SIZE = COUNT * 4, RUN_WORDS = 2 * BLOCKS };

/* Who is kept up to date: does what docs/delta-pull.md says, and asserts what it may rely on. */
struct receiver {
    struct ps_held held;
    uint64_t digest;
    float *values;
    uint32_t runs[RUN_WORDS]; /* of the last answer */
    size_t run_count;
    size_t bytes;
    enum ps_whole whole;
};

static struct core_world world;
static struct receiver receiver;

static void init_big(void)
{
    float *values = malloc(SIZE);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)i;
    ck_assert_int_eq(
        world_init_param(&world, "big", PS_F32, values, SIZE, (struct ps_bytes){NULL, 0}), PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    free(values);
}

static void begin(void)
{
    world_init_empty(&world);
    init_big();
    receiver = (struct receiver){.held.present = true, .values = calloc(1, SIZE)};
    ck_assert_ptr_nonnull(receiver.values);
}

static void end(void)
{
    free(receiver.values);
    world_fini(&world);
}

/* One less in the first element of the block. */
static void push_into(uint32_t block)
{
    struct {
        uint32_t index;
        float value;
    } pair = {block * PER_BLOCK, 1};
    struct ps_bytes piece = {(const uint8_t *)&pair, sizeof pair};
    const struct ps_push_request request = {.name = text("big"),
                                            .dtype = PS_F32,
                                            .encoding = PS_ENCODING_TOP_K,
                                            .content = ps_view_of(&piece)};
    struct ps_push_reply reply;
    ck_assert_int_eq(ps_service_push(world.service, &request, &reply, NULL, &world.error), PS_OK);
}

static enum ps_status ask(const struct ps_held *held, uint64_t bytes_max, struct ps_pull *pull)
{
    const struct ps_pull_request request = {
        .name = text("big"), .held = *held, .bytes_max = bytes_max};
    return ps_service_pull(world.service, &request, pull, &world.error);
}

static void put_runs(const struct ps_pull *pull)
{
    size_t from = 0;
    receiver.run_count = pull->reply.delta.runs.size / 8;
    ck_assert_uint_le(receiver.run_count, BLOCKS);
    if (receiver.run_count > 0)
        memcpy(receiver.runs, pull->reply.delta.runs.data, pull->reply.delta.runs.size);
    for (size_t i = 0; i < receiver.run_count; i++) {
        size_t at = (size_t)receiver.runs[2 * i] * PS_BLOCK_BYTES;
        size_t size = (size_t)receiver.runs[2 * i + 1] * PS_BLOCK_BYTES;
        size = size < SIZE - at ? size : SIZE - at;
        ps_view_copy(pull->reply.content, from, (uint8_t *)receiver.values + at, size);
        from += size;
    }
    ck_assert_uint_eq(from, pull->reply.content.size);
    receiver.bytes = from;
}

static uint64_t digest_of(const float *values)
{
    uint64_t chain = 0;
    for (size_t at = 0; at < SIZE; at += PS_BLOCK_BYTES) {
        size_t size = SIZE - at < PS_BLOCK_BYTES ? SIZE - at : PS_BLOCK_BYTES;
        chain = ps_digest_chain(
            chain, ps_digest_block((struct ps_bytes){(const uint8_t *)values + at, size}));
    }
    return chain;
}

/* One answer; true when it was the last. */
static bool take_one(uint64_t bytes_max)
{
    struct ps_pull pull = {0};
    ck_assert_msg(ask(&receiver.held, bytes_max, &pull) == PS_OK, "%s", world.error.text);
    const struct ps_delta *delta = &pull.reply.delta;
    ck_assert(delta->present && delta->block_bytes == PS_BLOCK_BYTES);
    ck_assert_uint_eq(pull.reply.total, COUNT);
    put_runs(&pull);
    receiver.whole = delta->whole;
    if (delta->whole != PS_WHOLE_NOT)
        receiver.held.version = 0;
    receiver.held.chain = delta->chain;
    receiver.held.target = pull.reply.version + 1;
    receiver.held.block = delta->next;
    bool last = delta->next == 0;
    if (last) {
        ck_assert_uint_eq(delta->digest, digest_of(receiver.values));
        receiver.digest = delta->digest;
        receiver.held.version = receiver.held.target;
        receiver.held.target = 0;
    }
    ps_pull_release(&pull);
    return last;
}

static void catch_up(void)
{
    while (!take_one(0))
        continue;
}

/* The receiver has what the server has. */
static void expect_same(uint64_t version)
{
    float *values = malloc(SIZE);
    size_t size;
    uint64_t present;
    ck_assert_ptr_nonnull(values);
    ck_assert_int_eq(world_pull(&world, "big", values, SIZE, &size, &present), PS_OK);
    ck_assert_uint_eq(present, version);
    ck_assert_uint_eq(receiver.held.version, version + 1);
    ck_assert_mem_eq(values, receiver.values, SIZE);
    free(values);
}

START_TEST(who_holds_nothing_gets_all)
{
    begin();
    ck_assert(take_one(0));
    ck_assert_int_eq(receiver.whole, PS_WHOLE_NOTHING_HELD);
    ck_assert_uint_eq(receiver.bytes, SIZE);
    ck_assert_uint_eq(receiver.run_count, 1);
    expect_same(0);
    end();
}
END_TEST

START_TEST(what_has_not_changed_does_not_go)
{
    begin();
    catch_up();
    uint64_t digest = receiver.digest;
    int64_t seen = world.heap.seen;
    ck_assert(take_one(0));
    ck_assert_int_eq(world.heap.seen, seen);
    ck_assert_int_eq(receiver.whole, PS_WHOLE_NOT);
    ck_assert_uint_eq(receiver.bytes, 0);
    ck_assert_uint_eq(receiver.digest, digest);
    end();
}
END_TEST

START_TEST(only_blocks_that_were_written_go)
{
    begin();
    catch_up();
    push_into(1);
    push_into(3);
    push_into(4);
    ck_assert(take_one(0));
    ck_assert_uint_eq(receiver.run_count, 2);
    const uint32_t runs[] = {1, 1, 3, 2};
    ck_assert_mem_eq(receiver.runs, runs, sizeof runs);
    ck_assert_uint_eq(receiver.bytes, 2 * PS_BLOCK_BYTES + PS_BLOCK_BYTES / 2);
    expect_same(3);
    end();
}
END_TEST

START_TEST(a_receiver_that_skipped_versions_gets_all_their_changes)
{
    begin();
    catch_up();
    for (uint32_t block = 0; block < 3; block++)
        push_into(block);
    catch_up();
    push_into(2);
    catch_up();
    ck_assert_uint_eq(receiver.bytes, PS_BLOCK_BYTES);
    expect_same(4);
    end();
}
END_TEST

START_TEST(two_receivers_do_not_disturb_each_other)
{
    begin();
    catch_up();
    struct receiver old = receiver;
    old.values = malloc(SIZE);
    ck_assert_ptr_nonnull(old.values);
    memcpy(old.values, receiver.values, SIZE);
    push_into(0);
    catch_up();
    push_into(1);
    catch_up();
    free(receiver.values);
    receiver = old;
    catch_up();
    ck_assert_uint_eq(receiver.bytes, 2 * PS_BLOCK_BYTES);
    expect_same(2);
    end();
}
END_TEST

/* The same numbers, and other contents: what a crash can do to pushes that nobody had saved. */
START_TEST(a_version_of_another_life_is_no_base)
{
    begin();
    catch_up();
    push_into(0);
    catch_up();
    ps_service_reset(world.service);
    world_own(&world, 1); /* even under the same epoch */
    ps_service_begin_empty(world.service);
    init_big();
    push_into(2);
    catch_up();
    ck_assert_int_eq(receiver.whole, PS_WHOLE_OTHER_CHAIN);
    ck_assert_uint_eq(receiver.bytes, SIZE);
    expect_same(1);
    end();
}
END_TEST

START_TEST(a_version_that_was_not_reached_is_no_base)
{
    begin();
    catch_up();
    receiver.held.version = 100;
    catch_up();
    ck_assert_int_eq(receiver.whole, PS_WHOLE_NEWER_THAN_HERE);
    expect_same(0);
    end();
}
END_TEST

START_TEST(a_chain_that_is_none_is_no_base)
{
    begin();
    catch_up();
    receiver.held.chain = (struct ps_chain){0};
    catch_up();
    ck_assert_int_eq(receiver.whole, PS_WHOLE_OTHER_CHAIN);
    expect_same(0);
    end();
}
END_TEST

/* Nobody can make the server read what it does not give: a base that was never given is complete
 * only after every block was given once. */
START_TEST(who_claims_a_base_that_was_never_given_gets_the_blocks)
{
    begin();
    receiver.held.version = 1;
    receiver.held.chain = world.service->chain;
    catch_up();
    ck_assert_int_eq(receiver.whole, PS_WHOLE_NOT);
    ck_assert_uint_eq(receiver.bytes, SIZE);
    expect_same(0);
    end();
}
END_TEST

START_TEST(an_answer_in_many_messages_is_one_version)
{
    begin();
    ck_assert(!take_one(PS_BLOCK_BYTES));
    ck_assert_uint_eq(receiver.bytes, PS_BLOCK_BYTES);
    ck_assert_uint_eq(receiver.held.block, 1);
    uint32_t answers = 1;
    do {
        push_into(answers % BLOCKS);
        answers++;
    } while (!take_one(PS_BLOCK_BYTES));
    ck_assert_uint_eq(answers, BLOCKS);
    ck_assert_uint_eq(receiver.held.version, 1);
    for (size_t i = 0; i < COUNT; i++)
        ck_assert(receiver.values[i] == (float)i);
    ck_assert_uint_eq(world.service->version_holds.count, 0);
    catch_up();
    expect_same(BLOCKS - 1);
    end();
}
END_TEST

START_TEST(a_sparse_answer_in_many_messages_skips_what_is_the_same)
{
    begin();
    catch_up();
    push_into(0);
    push_into(2);
    push_into(3);
    ck_assert(!take_one(PS_BLOCK_BYTES + 1));
    ck_assert_uint_eq(receiver.held.block, 2);
    push_into(4);
    ck_assert(!take_one(PS_BLOCK_BYTES));
    ck_assert(take_one(PS_BLOCK_BYTES));
    ck_assert_uint_eq(receiver.held.version, 4);
    ck_assert_uint_eq(world.service->version_holds.count, 0);
    catch_up();
    expect_same(4);
    end();
}
END_TEST

START_TEST(an_answer_whose_version_is_gone_begins_again)
{
    begin();
    struct ps_pull pull = {0};
    ck_assert(!take_one(PS_BLOCK_BYTES));
    push_into(0);
    ps_version_holds_clear(&world.service->version_holds);
    ck_assert_int_eq(ask(&receiver.held, 0, &pull), PS_ERR_CONFLICT);
    receiver.held.target = 0;
    receiver.held.block = 0;
    catch_up();
    expect_same(1);
    end();
}
END_TEST

START_TEST(an_answer_of_another_life_begins_again)
{
    begin();
    struct ps_pull pull = {0};
    ck_assert(!take_one(PS_BLOCK_BYTES));
    ps_service_reset(world.service);
    world_own(&world, 2);
    ps_service_begin_empty(world.service);
    init_big();
    ck_assert_int_eq(ask(&receiver.held, 0, &pull), PS_ERR_CONFLICT);
    end();
}
END_TEST

START_TEST(a_pull_that_is_wrong_is_refused)
{
    begin();
    struct ps_pull pull = {0};
    struct ps_held held = {.present = true, .block = 1};
    ck_assert_int_eq(ask(&held, 0, &pull), PS_ERR_BAD_INPUT); /* goes on, of nothing */
    held = (struct ps_held){
        .present = true, .chain = world.service->chain, .target = 1, .block = BLOCKS + 1};
    ck_assert_int_eq(ask(&held, 0, &pull), PS_ERR_BAD_INPUT);
    held.block = UINT64_MAX;
    ck_assert_int_eq(ask(&held, 0, &pull), PS_ERR_BAD_INPUT);
    held.block = BLOCKS; /* skips what was never given */
    ck_assert_int_eq(ask(&held, 0, &pull), PS_ERR_CONFLICT);

    struct ps_pull_request request = {.name = text("big"), .held.present = true, .version = 1};
    ck_assert_int_eq(ps_service_pull(world.service, &request, &pull, NULL), PS_ERR_BAD_INPUT);
    request.version = 0;
    request.range.count = 1;
    ck_assert_int_eq(ps_service_pull(world.service, &request, &pull, NULL), PS_ERR_BAD_INPUT);
    request.range.count = 0;
    request.encoding = PS_ENCODING_FLOAT16;
    ck_assert_int_eq(ps_service_pull(world.service, &request, &pull, NULL), PS_ERR_UNSUPPORTED);
    ck_assert_uint_eq(world.service->version_holds.count, 0);
    end();
}
END_TEST

START_TEST(an_answer_without_room_is_none)
{
    begin();
    struct ps_pull pull = {0};
    ck_assert_int_eq(ask(&receiver.held, PS_BLOCK_BYTES - 1, &pull), PS_ERR_BUSY);
    ck_assert_uint_eq(world.service->version_holds.count, 0);
    catch_up();
    ck_assert_int_eq(ask(&receiver.held, 1, &pull), PS_OK); /* nothing needs no room */
    ps_pull_release(&pull);
    end();
}
END_TEST

START_TEST(an_answer_survives_a_refused_allocation)
{
    begin();
    struct ps_pull pull = {0};
    world.heap.refuse_at = world.heap.seen;
    ck_assert_int_eq(ask(&receiver.held, 0, &pull), PS_ERR_NO_MEMORY);
    ck_assert_uint_eq(world.service->version_holds.count, 0);
    world.heap.refuse_at = -1;
    catch_up();
    expect_same(0);
    end();
}
END_TEST

START_TEST(a_held_answer_keeps_its_bits_while_pushes_go_on)
{
    begin();
    struct ps_pull pull = {0};
    ck_assert_int_eq(ask(&receiver.held, 0, &pull), PS_OK);
    push_into(0);
    float first;
    ps_view_copy(pull.reply.content, 0, &first, sizeof first);
    ck_assert(first == 0);
    ps_pull_release(&pull);
    end();
}
END_TEST

/* A push in place writes the block whose digest was known. */
START_TEST(a_digest_is_forgotten_when_its_block_is_written)
{
    begin();
    catch_up();
    uint64_t digest = receiver.digest;
    push_into(0);
    catch_up();
    ck_assert_uint_ne(receiver.digest, digest);
    push_into(0);
    push_into(0);
    catch_up();
    expect_same(3);
    end();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("delta_pull");
    tcase_add_test(tests, who_holds_nothing_gets_all);
    tcase_add_test(tests, what_has_not_changed_does_not_go);
    tcase_add_test(tests, only_blocks_that_were_written_go);
    tcase_add_test(tests, a_receiver_that_skipped_versions_gets_all_their_changes);
    tcase_add_test(tests, two_receivers_do_not_disturb_each_other);
    tcase_add_test(tests, a_version_of_another_life_is_no_base);
    tcase_add_test(tests, a_version_that_was_not_reached_is_no_base);
    tcase_add_test(tests, a_chain_that_is_none_is_no_base);
    tcase_add_test(tests, who_claims_a_base_that_was_never_given_gets_the_blocks);
    tcase_add_test(tests, an_answer_in_many_messages_is_one_version);
    tcase_add_test(tests, a_sparse_answer_in_many_messages_skips_what_is_the_same);
    tcase_add_test(tests, an_answer_whose_version_is_gone_begins_again);
    tcase_add_test(tests, an_answer_of_another_life_begins_again);
    tcase_add_test(tests, a_pull_that_is_wrong_is_refused);
    tcase_add_test(tests, an_answer_without_room_is_none);
    tcase_add_test(tests, an_answer_survives_a_refused_allocation);
    tcase_add_test(tests, a_held_answer_keeps_its_bits_while_pushes_go_on);
    tcase_add_test(tests, a_digest_is_forgotten_when_its_block_is_written);
    return run_tests("delta_pull", tests);
}
