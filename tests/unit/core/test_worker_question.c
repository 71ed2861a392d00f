/* SPDX-License-Identifier: Apache-2.0 */
/* Places of workers, asked for by any server, each with the store alone. */
#include "server/core/ownership/worker_question.h"

#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ps_error error;

static struct ps_worker_question worker(uint64_t client, const char *name)
{
    struct ps_worker_question question = {.task = PS_WORKER_JOIN, .group = "workers"};
    question.worker = (struct ps_worker){.client = client, .ttl_ms = TTL_MS};
    strcpy(question.worker.name, name);
    strcpy(question.worker.host, "node-1");
    return question;
}

static enum ps_status ask(struct ps_registry *server, struct ps_worker_question *question)
{
    struct ps_worker_reading reading = {0};
    enum ps_status status =
        ps_worker_question_ask(server, ps_allocator_heap(), &reading, question, soon(), &error);
    ps_worker_reading_end(&reading);
    return status;
}

/* The rank that it has afterwards. */
static uint32_t join(struct ps_worker_question *question)
{
    enum ps_status status = ask(&registry, question);
    ck_assert_msg(status == PS_OK, "%s", error.text);
    ck_assert(question->has_joined);
    return question->place;
}

static enum ps_status keep(struct ps_worker_question *question)
{
    question->rank = 1 + question->place;
    return ask(&registry, question);
}

static enum ps_status leave(uint64_t client)
{
    struct ps_worker_question question = worker(client, "");
    question.task = PS_WORKER_LEAVE;
    return ask(&registry, &question);
}

START_TEST(ranks_are_given_in_order_and_come_free)
{
    struct ps_worker_question first = worker(1, "a");
    struct ps_worker_question second = worker(2, "");
    struct ps_worker_question third = worker(3, "c");
    ck_assert_uint_eq(join(&first), 0);
    ck_assert_uint_eq(join(&second), 1);
    ck_assert_uint_eq(second.count, 2);
    ck_assert_int_ne(first.incarnation, second.incarnation);
    ck_assert_int_eq(leave(1), PS_OK);
    ck_assert_int_eq(leave(1), PS_OK);
    ck_assert_uint_eq(join(&third), 0);
    assert_key("/workers/workers/names/0", "c");
    assert_key("/workers/workers/names/1", NULL);
    assert_key("/workers/workers/size", "0");
}
END_TEST

START_TEST(a_call_that_is_repeated_finds_its_own_place)
{
    struct ps_worker_question first = worker(1, "a");
    struct ps_worker_question again = worker(1, "a");
    ck_assert_uint_eq(join(&first), 0);
    ck_assert_uint_eq(join(&again), 0);
    ck_assert_int_eq(again.incarnation, first.incarnation);
    ck_assert_uint_eq(count_keys("/workers/workers/ranks/"), 1);
}
END_TEST

START_TEST(who_is_silent_for_its_time_has_lost_its_place)
{
    struct ps_worker_question first = worker(1, "a");
    struct ps_worker_question second = worker(2, "b");
    (void)join(&first);
    fake.now_ms += TTL_MS / 2;
    ck_assert_int_eq(keep(&first), PS_OK);
    ck_assert(first.has_joined);
    fake.now_ms += TTL_MS / 2 + 1;
    ck_assert_int_eq(keep(&first), PS_OK);
    ck_assert_uint_eq(join(&second), 1);

    fake.now_ms += TTL_MS + 1;

    ck_assert_int_eq(keep(&first), PS_ERR_STALE_EPOCH);
    ck_assert_str_eq(error.text, "rank 0 of group workers is not this client's any more");
}
END_TEST

START_TEST(a_place_that_was_taken_anew_is_another_one)
{
    struct ps_worker_question first = worker(1, "a");
    (void)join(&first);
    fake.now_ms += TTL_MS + 1;
    struct ps_worker_question again = worker(1, "a");
    ck_assert_uint_eq(join(&again), 0);
    ck_assert_int_gt(again.incarnation, first.incarnation);
    ck_assert_int_eq(keep(&first), PS_ERR_STALE_EPOCH);
    /* A stranger that guesses the incarnation keeps nothing. */
    again.worker.client = 7;
    ck_assert_int_eq(keep(&again), PS_ERR_STALE_EPOCH);
    again.rank = 0;
    ck_assert_int_eq(ask(&registry, &again), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(a_second_process_of_a_name_hears_who_has_it)
{
    struct ps_worker_question first = worker(1, "a");
    struct ps_worker_question second = worker(2, "a");
    (void)join(&first);
    ck_assert_int_eq(ask(&registry, &second), PS_ERR_EXISTS);
    ck_assert_str_eq(error.text, "rank 0 of group workers is held by a on node-1, which has not "
                                 "been silent for 10000 ms yet");
    ck_assert_int_eq(second.holder, first.incarnation);
    ck_assert_uint_eq(second.holder_ttl_ms, TTL_MS);
    fake.now_ms += TTL_MS + 1;
    ck_assert_uint_eq(join(&second), 0);
}
END_TEST

START_TEST(who_is_there_for_longer_than_it_could_be_silent_lives)
{
    struct ps_worker_patience patience = {0};
    struct ps_worker_question question = {.holder = 5, .holder_ttl_ms = 10000};
    ck_assert_uint_eq(ps_worker_patience_ms(&patience, &question, 1000), 12000);
    ck_assert_uint_eq(ps_worker_patience_ms(&patience, &question, 12999), 1);
    ck_assert_uint_eq(ps_worker_patience_ms(&patience, &question, 13000), 0);
    ck_assert_uint_eq(ps_worker_patience_ms(&patience, &question, 14000), 0);
    /* Another one has a time of its own. */
    question.holder = 6;
    ck_assert_uint_eq(ps_worker_patience_ms(&patience, &question, 14000), 12000);
}
END_TEST

START_TEST(a_full_group_lets_nobody_in_and_takes_no_other_size)
{
    struct ps_worker_question first = worker(1, "");
    struct ps_worker_question second = worker(2, "");
    first.size = 1;
    (void)join(&first);
    ck_assert_int_eq(ask(&registry, &second), PS_OK);
    ck_assert(!second.has_joined);
    ck_assert_uint_eq(second.group_size, 1);
    second.size = 2;
    ck_assert_int_eq(ask(&registry, &second), PS_ERR_MISMATCH);
    ck_assert_int_eq(leave(1), PS_OK);
    ck_assert_uint_eq(join(&second), 0);
    assert_key("/workers/workers/size", "2");
}
END_TEST

/* Whatever is lost, the client has one place in the end, and no other client has it. */
START_TEST(an_answer_of_the_store_that_is_lost_costs_no_place)
{
    struct ps_worker_question first = worker(1, "a");
    struct ps_worker_question second = worker(2, "b");
    lossy_kv_init(&lossy, kv, _i % 2 == 0 ? LOSSY_BEFORE : LOSSY_AFTER, (unsigned)_i / 2);
    enum ps_status status = ask(&lossy_registry, &first);
    ck_assert(status == PS_OK || status == PS_ERR_TIMEOUT);
    first.incarnation = 0;
    ck_assert_uint_eq(join(&first), 0);
    ck_assert_uint_eq(join(&second), 1);
    ck_assert_uint_eq(count_keys("/workers/workers/ranks/"), 2);
}
END_TEST

/* As the thread of a server asks them: many questions, and one reading. */
START_TEST(many_who_come_together_have_places_of_their_own)
{
    struct ps_worker_reading reading = {0};
    struct ps_worker_question others = worker(1000, "other");
    for (uint32_t i = 0; i < 100; i++) {
        struct ps_worker_question question = worker(1 + i, "");
        (void)snprintf(question.worker.name, sizeof question.worker.name, "w%u", i);
        question.size = 100;
        /* In the middle somebody joins through another server, and somebody leaves. */
        if (i == 50)
            ck_assert_uint_eq(join(&others), 50);
        if (i == 60)
            question.task = PS_WORKER_LEAVE;
        if (i == 60)
            question.worker.client = 1 + 7;
        ck_assert_int_eq(ps_worker_question_ask(&registry, ps_allocator_heap(), &reading, &question,
                                                soon(), &error),
                         PS_OK);
        if (i == 60)
            continue;
        ck_assert(question.has_joined);
        ck_assert_uint_eq(question.place, i < 50 ? i : i < 60 ? i + 1 : i == 61 ? 7 : i - 1);
    }
    ps_worker_reading_end(&reading);
    ck_assert_uint_eq(count_keys("/workers/workers/ranks/"), 99);
}
END_TEST

START_TEST(groups_that_nobody_is_in_make_room)
{
    struct ps_worker_question question = worker(1, "a");
    for (int i = 0; i < PS_WORKER_GROUPS_MAX; i++) {
        (void)snprintf(question.group, sizeof question.group, "g%d", i);
        question.incarnation = 0;
        (void)join(&question);
    }
    (void)strcpy(question.group, "more");
    question.incarnation = 0;
    ck_assert_int_eq(ask(&registry, &question), PS_ERR_BUSY);

    struct ps_worker_question gone = worker(1, "");
    gone.task = PS_WORKER_LEAVE;
    (void)strcpy(gone.group, "g3");
    ck_assert_int_eq(ask(&registry, &gone), PS_OK);
    ck_assert_uint_eq(join(&question), 0);
    ck_assert_uint_eq(count_keys("/workers/g3/"), 0);
    ck_assert_uint_eq(count_keys("/workers/g4/"), 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker question");
    TCase *tests = tcase_create("question");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, ranks_are_given_in_order_and_come_free);
    tcase_add_test(tests, a_call_that_is_repeated_finds_its_own_place);
    tcase_add_test(tests, who_is_silent_for_its_time_has_lost_its_place);
    tcase_add_test(tests, a_place_that_was_taken_anew_is_another_one);
    tcase_add_test(tests, a_second_process_of_a_name_hears_who_has_it);
    tcase_add_test(tests, who_is_there_for_longer_than_it_could_be_silent_lives);
    tcase_add_test(tests, a_full_group_lets_nobody_in_and_takes_no_other_size);
    tcase_add_loop_test(tests, an_answer_of_the_store_that_is_lost_costs_no_place, 0, 4);
    tcase_add_test(tests, many_who_come_together_have_places_of_their_own);
    tcase_add_test(tests, groups_that_nobody_is_in_make_room);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
