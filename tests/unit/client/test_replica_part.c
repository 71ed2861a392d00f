/* SPDX-License-Identifier: Apache-2.0 */
/* client/replica/replica_part.c: answers that no shard would give. */
#include "client/replica/replica_part.h"

#include "replica_world.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static uint8_t bent[16];

static void bend_digest(struct ps_pull_result *result)
{
    if (result->reply.delta.next == 0)
        result->reply.delta.digest++;
}

START_TEST(a_wrong_digest_is_refused_and_told_when_it_stays)
{
    begin();
    catch_up();
    push_one(1, 3);
    ps_replica_begin(replica);
    for (int i = 0; i < PS_REPLICA_MISMATCHES_MAX; i++)
        ck_assert(turn(bend_digest));
    ck_assert(!turn(NULL));
    for (size_t i = 0; i < PARTS; i++) {
        ck_assert_int_eq(replica->parts[i].state, PS_PART_FAILED);
        ck_assert_int_eq(replica->parts[i].status, PS_ERR_CORRUPT);
        ck_assert_uint_eq(replica->parts[i].version, 0);
    }
    catch_up();
    expect_all_same();
    end();
}
END_TEST

static bool bent_once;

/* One bit of the first answer with content. */
static void bend_content(struct ps_pull_result *result)
{
    static struct ps_bytes pieces[2];
    if (bent_once || result->reply.content.size < sizeof bent)
        return;
    bent_once = true;
    ps_view_copy(result->reply.content, 0, bent, sizeof bent);
    bent[3] ^= 4;
    struct ps_bytes first = result->reply.content.pieces[0];
    ck_assert_uint_eq(result->reply.content.piece_count, 1);
    pieces[0] = (struct ps_bytes){bent, sizeof bent};
    pieces[1] = (struct ps_bytes){first.data + sizeof bent, first.size - sizeof bent};
    result->reply.content = (struct ps_view){pieces, 2, result->reply.content.size};
}

START_TEST(a_wrong_bit_is_found_and_the_next_answer_is_a_full_copy)
{
    begin();
    catch_up();
    push_one(2, 2 * PER_BLOCK);
    ps_replica_begin(replica);
    bent_once = false;
    while (turn(bend_content))
        continue;
    ck_assert(bent_once);
    expect_all_same();
    ck_assert_uint_eq(replica->counters.mismatches, 1);
    end();
}
END_TEST

START_TEST(who_writes_into_a_copy_is_found_out)
{
    begin();
    catch_up();
    ck_assert(ps_replica_verify(replica));
    contents[2][PER_BLOCK] = 5;
    ck_assert(!ps_replica_verify(replica));
    ck_assert(ps_replica_verify(replica)); /* what holds nothing is not looked at */
    catch_up();
    expect_all_same();
    end();
}
END_TEST

static void bend_version(struct ps_pull_result *result)
{
    result->reply.version = 0;
}
/* One more would be the mark of a part that holds nothing. */
static void bend_version_to_the_last(struct ps_pull_result *result)
{
    result->reply.version = UINT64_MAX;
    result->reply.delta.whole = PS_WHOLE_OTHER_CHAIN;
}
static void bend_chain(struct ps_pull_result *result)
{
    result->reply.delta.chain.life ^= 1;
}
static void bend_name(struct ps_pull_result *result)
{
    result->reply.name = ps_bytes_of_text("other");
}
static void bend_type(struct ps_pull_result *result)
{
    result->reply.dtype = PS_I32;
}
static void bend_total(struct ps_pull_result *result)
{
    result->reply.total++;
}
static void bend_presence(struct ps_pull_result *result)
{
    result->reply.delta.present = false;
}
static void bend_blocks(struct ps_pull_result *result)
{
    result->reply.delta.block_bytes /= 2;
}
static void bend_tiny_blocks(struct ps_pull_result *result)
{
    result->reply.delta.block_bytes = 1;
}
static void bend_runs_size(struct ps_pull_result *result)
{
    result->reply.delta.runs.size--;
}
static void bend_runs_none(struct ps_pull_result *result)
{
    result->reply.delta.runs.size = 0;
}
static void bend_runs(struct ps_pull_result *result)
{
    static const uint32_t beyond[] = {100, 1};
    result->reply.delta.runs = (struct ps_bytes){(const uint8_t *)beyond, sizeof beyond};
}
static void bend_runs_long(struct ps_pull_result *result)
{
    static const uint32_t beyond[] = {0, UINT32_MAX};
    result->reply.delta.runs = (struct ps_bytes){(const uint8_t *)beyond, sizeof beyond};
}
static void bend_runs_twice(struct ps_pull_result *result)
{
    static const uint32_t twice[] = {1, 1, 1, 1};
    result->reply.delta.runs = (struct ps_bytes){(const uint8_t *)twice, sizeof twice};
}
/* A full copy in blocks of another size, but there is no such block. */
static void bend_blocks_and_runs(struct ps_pull_result *result)
{
    result->reply.delta.whole = PS_WHOLE_OTHER_CHAIN;
    bend_blocks(result);
    bend_runs(result);
}
static void bend_next(struct ps_pull_result *result)
{
    result->reply.delta.next = UINT64_MAX;
}

static const bend_fn bends[] = {bend_version,
                                bend_chain,
                                bend_name,
                                bend_type,
                                bend_total,
                                bend_presence,
                                bend_blocks,
                                bend_tiny_blocks,
                                bend_runs,
                                bend_runs_size,
                                bend_runs_none,
                                bend_runs_long,
                                bend_next,
                                bend_runs_twice,
                                bend_blocks_and_runs,
                                bend_version_to_the_last};
enum { BENDS = sizeof bends / sizeof bends[0] };

static int bend_number;

static void bend_part(struct ps_pull_result *result)
{
    if (ps_bytes_equal(result->reply.name, ps_bytes_of_text("c")))
        bends[bend_number](result);
}

START_TEST(an_answer_that_does_not_fit_fails_its_part_and_changes_nothing)
{
    begin();
    catch_up();
    const uint32_t elements[] = {PER_BLOCK, 2 * PER_BLOCK};
    push(2, elements, 2);
    catch_up();
    float *before = malloc(replica->parts[2].size);
    ck_assert_ptr_nonnull(before);
    memcpy(before, contents[2], replica->parts[2].size);
    uint64_t version = replica->parts[2].version;
    push(2, elements, 2);
    push_one(0, 0);
    bend_number = _i;
    ps_replica_begin(replica);
    while (turn(bend_part))
        continue;
    ck_assert_int_eq(replica->parts[2].state, PS_PART_FAILED);
    ck_assert_int_eq(replica->parts[2].status, PS_ERR_BAD_INPUT);
    ck_assert(replica->parts[2].text[0] != 0);
    ck_assert_uint_eq(replica->parts[2].version, version);
    ck_assert_mem_eq(before, contents[2], replica->parts[2].size);
    expect_same(0);
    free(before);
    catch_up();
    expect_all_same();
    end();
}
END_TEST

static void bend_answer(struct ps_pull_result *result)
{
    result->status.status = PS_ERR_NOT_FOUND;
    result->status.text = ps_bytes_of_text("parameter: nobody does not exist");
}

START_TEST(a_part_that_is_not_there_fails_alone)
{
    begin();
    ck_assert(turn(bend_answer));
    ck_assert(!turn(NULL));
    ck_assert_int_eq(replica->parts[1].status, PS_ERR_NOT_FOUND);
    ck_assert_str_eq(replica->parts[1].text, "parameter: nobody does not exist");
    end();
}
END_TEST

static void bend_to_unavailable(struct ps_pull_result *result)
{
    result->status.status = PS_ERR_UNAVAILABLE;
}

START_TEST(a_server_that_cannot_answer_now_is_asked_again)
{
    begin();
    ck_assert(turn(bend_to_unavailable));
    ck_assert(!replica->advanced);
    ck_assert(turn(NULL));
    ck_assert(replica->advanced);
    while (turn(NULL))
        continue;
    expect_all_same();
    end();
}
END_TEST

START_TEST(an_answer_of_another_length_is_none)
{
    begin();
    struct ps_since_message *messages;
    size_t count;
    ck_assert_int_eq(ps_replica_ask(replica, &messages, &count, NULL), PS_OK);
    ck_assert_uint_eq(count, 1);
    const struct ps_bundle_reply reply = {.pull_count = 0};
    ck_assert_int_eq(ps_replica_take(&messages[0], &reply, NULL), PS_ERR_BAD_INPUT);
    ps_replica_fail(&messages[0], PS_ERR_BAD_INPUT, "");
    ps_replica_release(replica, messages, count);
    ck_assert(!turn(NULL));
    catch_up();
    expect_all_same();
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replica_part");
    TCase *tests = tcase_create("replica_part");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_wrong_digest_is_refused_and_told_when_it_stays);
    tcase_add_test(tests, a_wrong_bit_is_found_and_the_next_answer_is_a_full_copy);
    tcase_add_test(tests, who_writes_into_a_copy_is_found_out);
    tcase_add_loop_test(tests, an_answer_that_does_not_fit_fails_its_part_and_changes_nothing, 0,
                        BENDS);
    tcase_add_test(tests, a_part_that_is_not_there_fails_alone);
    tcase_add_test(tests, a_server_that_cannot_answer_now_is_asked_again);
    tcase_add_test(tests, an_answer_of_another_length_is_none);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
