/* SPDX-License-Identifier: Apache-2.0 */
/* FlexPS's cases of its channel (Create, PushTo, Wait, WaitMultipleTimes, PushToSyncAndGet,
 * SyncAndGetEmpty, SyncAndGetSome), a client for each worker; and receives that are polled. */
#include "client/flexps_channel.h"
#include "rendezvous_job.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { WORKERS = 3, ROUNDS = 20 };

struct worker {
    pthread_t thread;
    uint32_t rank;
    const char *act;
    const char *failure; /* NULL: none */
};

#define EXPECT(condition)                 \
    do {                                  \
        if (!(condition)) {               \
            worker->failure = #condition; \
            goto out;                     \
        }                                 \
    } while (0)

/* Nothing in empty rounds; in "some" worker 0 alone gets something; in "all" everybody from all. */
static size_t pushed_to(const struct worker *worker, uint32_t to)
{
    if (strcmp(worker->act, "empty") == 0 || strcmp(worker->act, "wait") == 0)
        return 0;
    if (strcmp(worker->act, "some") == 0)
        return to == 0 && worker->rank > 0 ? 1 : 0;
    return worker->rank + 1;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct psclient *client = NULL;
    struct ps_local_channel *channel = NULL;
    struct psclient_error error;
    struct ps_local_channel_messages got = {0};
    const struct psclient_options options = {.servers = job_list, .open_timeout_ms = LONG_MS};
    const struct ps_local_channel_options wish = {.name = worker->act,
                                                  .step = 55,
                                                  .worker = worker->rank,
                                                  .workers = WORKERS,
                                                  .timeout_ms = LONG_MS};
    EXPECT(psclient_open(&options, &client, &error) == PSCLIENT_OK);
    EXPECT(ps_local_channel_open(client, &wish, &channel, &error) == PSCLIENT_OK);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t next[WORKERS] = {0};
        for (uint32_t to = 0; to < WORKERS; to++) {
            for (uint64_t i = 0; i < pushed_to(worker, to); i++) {
                const uint64_t message[3] = {round, worker->rank, i};
                EXPECT(ps_local_channel_push_to(channel, to, message, sizeof message, &error) ==
                       PSCLIENT_OK);
            }
        }
        if (strcmp(worker->act, "wait") == 0) {
            EXPECT(ps_local_channel_wait(channel, &error) == PSCLIENT_OK);
            continue;
        }
        EXPECT(ps_local_channel_sync_and_get(channel, &got, &error) == PSCLIENT_OK);
        size_t expected = 0;
        for (uint32_t from = 0; from < WORKERS; from++) {
            const struct worker other = {.rank = from, .act = worker->act};
            expected += pushed_to(&other, worker->rank);
        }
        EXPECT(got.count == expected);
        for (size_t i = 0; i < got.count; i++) {
            uint64_t message[3];
            EXPECT(got.list[i].size == sizeof message);
            memcpy(message, got.list[i].content, sizeof message);
            /* Of this round, and each sender's in their order. */
            EXPECT(message[0] == round && message[1] < WORKERS);
            EXPECT(message[2] == next[message[1]]++);
        }
        ps_local_channel_messages_release(&got);
    }
out:
    ps_local_channel_messages_release(&got);
    ps_local_channel_close(channel);
    psclient_close(client);
    return NULL;
}

START_TEST(channel)
{
    static const char *const acts[] = {"wait", "empty", "some", "all"};
    struct worker workers[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.rank = i, .act = acts[_i]};
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        ck_assert_int_eq(pthread_join(workers[i].thread, NULL), 0);
        ck_assert_msg(workers[i].failure == NULL, "worker %u: %s", i, workers[i].failure);
    }
}
END_TEST

START_TEST(a_channel_is_refused_without_its_workers)
{
    struct ps_local_channel *none = NULL;
    const struct ps_local_channel_options options = {.name = "c", .worker = 2, .workers = 2};
    ck_assert_int_eq(ps_local_channel_open(job_client, &options, &none, &job_error),
                     PSCLIENT_INVALID);
}
END_TEST

/* ---- Receives that are begun and polled ---- */

START_TEST(a_receive_is_begun_and_polled)
{
    const char *const keys[] = {"a", "b"};
    struct psclient_tensor got[2] = {{0}, {0}};
    struct psclient_receive *receive = NULL;
    int is_over = 1;
    job_expect_ok(
        psclient_rendezvous_recv_begin(job_step, keys, got, 2, LONG_MS, &receive, &job_error));
    job_expect_ok(psclient_rendezvous_recv_poll(receive, 0, &is_over, &job_error));
    ck_assert_int_eq(is_over, 0);
    job_expect_ok(job_send_text(job_step, "b", "second"));
    job_expect_ok(job_send_text(job_step, "a", "first"));
    job_expect_ok(psclient_rendezvous_recv_poll(receive, LONG_MS, &is_over, &job_error));
    ck_assert_int_eq(is_over, 1);
    ck_assert_mem_eq(got[0].content, "first", 5);
    ck_assert_mem_eq(got[1].content, "second", 6);
    psclient_rendezvous_recv_end(receive);
    psclient_tensor_release(&got[0]);
    psclient_tensor_release(&got[1]);
}
END_TEST

/* Others of the handle wait on, and the value is theirs. */
START_TEST(a_receive_that_is_ended_early_takes_nothing)
{
    const char *const key = "a";
    struct psclient_tensor got[2] = {{0}, {0}};
    struct psclient_receive *first = NULL;
    struct psclient_receive *second = NULL;
    int is_over = 0;
    job_expect_ok(
        psclient_rendezvous_recv_begin(job_step, &key, &got[0], 1, LONG_MS, &first, &job_error));
    job_expect_ok(
        psclient_rendezvous_recv_begin(job_step, &key, &got[1], 1, LONG_MS, &second, &job_error));
    psclient_rendezvous_recv_end(first);
    job_expect_ok(job_send_text(job_step, "a", "hello"));
    job_expect_ok(psclient_rendezvous_recv_poll(second, LONG_MS, &is_over, &job_error));
    ck_assert_int_eq(is_over, 1);
    ck_assert_ptr_null(got[0].content);
    ck_assert_mem_eq(got[1].content, "hello", 5);
    psclient_rendezvous_recv_end(second);
    psclient_tensor_release(&got[1]);
}
END_TEST

START_TEST(a_receive_that_failed_says_why_when_it_is_polled)
{
    const char *const key = "a";
    struct psclient_tensor got = {0};
    struct psclient_receive *receive = NULL;
    int is_over = 0;
    job_expect_ok(
        psclient_rendezvous_recv_begin(job_step, &key, &got, 1, LONG_MS, &receive, &job_error));
    job_expect_ok(psclient_rendezvous_abort(job_step, "fantasia!", LONG_MS, &job_error));
    ck_assert_int_eq(psclient_rendezvous_recv_poll(receive, LONG_MS, &is_over, &job_error),
                     PSCLIENT_ABORTED);
    ck_assert_int_eq(is_over, 1);
    ck_assert_str_eq(job_error.text, "fantasia!");
    psclient_rendezvous_recv_end(receive);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flexps_channel");
    TCase *tests = tcase_create("flexps_channel");
    tcase_add_checked_fixture(tests, job_begin, job_end);
    tcase_set_timeout(tests, 200);
    tcase_add_loop_test(tests, channel, 0, 4);
    tcase_add_test(tests, a_channel_is_refused_without_its_workers);
    tcase_add_test(tests, a_receive_is_begun_and_polled);
    tcase_add_test(tests, a_receive_that_is_ended_early_takes_nothing);
    tcase_add_test(tests, a_receive_that_failed_says_why_when_it_is_polled);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
