/* SPDX-License-Identifier: Apache-2.0 */
/* psclient_finish_init with a real etcd, while servers lose what they were given. */
#include "run_suite.h"
#include "tests/integration/client/psclient_etcd_rig.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct fake_answer hold = {.kind = FAKE_HOLD};

/* The finish of a trainer, in a thread: server 0 answers it, server 1 holds it. */
struct held_finish {
    struct fake_server *servers[2];
    struct ps_claim claims[2];
    pthread_t thread;
};

static void *finish_in_thread(void *argument)
{
    static int status;
    (void)argument;
    status = psclient_finish_init(client, LONG_MS, &error);
    return &status;
}

static void begin_finish(struct held_finish *held)
{
    int selected = 0;
    start(2);
    for (uint32_t i = 0; i < 2; i++) {
        held->servers[i] = fake_server_start(0);
        held->claims[i] = own(i, fake_server_address(held->servers[i]));
    }
    fake_server_next(held->servers[1], PS_METHOD_FINISH, 1, hold);
    client = open_client();
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 1);
    pthread_create(&held->thread, NULL, finish_in_thread, NULL);
    fake_server_await(held->servers[0], PS_METHOD_FINISH, 1);
    fake_server_await(held->servers[1], PS_METHOD_FINISH, 1);
}

/* Another owner of shard 0 finds no state, as a server does between claim and address. */
static void lose_shard_0(struct held_finish *held)
{
    struct ps_kv_lease lease;
    disown(&held->claims[0]);
    ck_assert_int_eq(ps_kv_lease_grant(kv, 60000, soon(), &lease, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_claim(&registry, 2, 0, lease, soon(), &held->claims[0], NULL),
                     PS_OK);
    ck_assert_int_eq(ps_registry_forget_done(&registry, &held->claims[0], soon(), NULL), PS_OK);
    ck_assert_int_eq(ps_registry_publish_address(&registry, &held->claims[0],
                                                 fake_server_address(held->servers[0]), soon(),
                                                 NULL),
                     PS_OK);
}

/* The held call ends with its connection, and the next one is answered. */
static int end_finish(struct held_finish *held)
{
    void *status;
    disown(&held->claims[1]);
    own(1, fake_server_address(held->servers[1]));
    pthread_join(held->thread, &status);
    return *(int *)status;
}

static void close_finish(struct held_finish *held)
{
    psclient_close(client);
    fake_server_stop(held->servers[0]);
    fake_server_stop(held->servers[1]);
    finish();
}

static bool is_marked(void)
{
    struct ps_kv_entries entries = {0};
    ck_assert_int_eq(ps_kv_read(kv, "/init_ps/done", false, soon(), &entries, NULL), PS_OK);
    bool marked = entries.count == 1;
    ps_kv_entries_release(&entries);
    return marked;
}

START_TEST(a_server_that_lost_nothing_it_was_given_is_told_to_finish_again)
{
    struct held_finish held;
    begin_finish(&held);
    lose_shard_0(&held);

    ck_assert_int_eq(end_finish(&held), PSCLIENT_OK);

    ck_assert_uint_eq(fake_server_calls(held.servers[0], PS_METHOD_FINISH), 2);
    ck_assert(is_marked());
    close_finish(&held);
}
END_TEST

START_TEST(a_server_that_lost_what_it_was_given_after_it_finished_is_initialised_again)
{
    const struct fake_answer lost = {.kind = FAKE_REFUSE, .status = PS_ERR_STALE_EPOCH};
    struct held_finish held;
    int selected = 0;
    begin_finish(&held);
    fake_server_next(held.servers[0], PS_METHOD_FINISH, 1, lost);
    lose_shard_0(&held);

    ck_assert_int_eq(end_finish(&held), PSCLIENT_NOT_INITIALIZED);

    ck_assert_ptr_nonnull(strstr(error.text, "shard 0 has lost what it was given"));
    ck_assert(!is_marked());
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 1);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);
    ck_assert(is_marked());
    close_finish(&held);
}
END_TEST

START_TEST(without_the_store_no_server_is_finished)
{
    struct fake_server *server = fake_server_start(0);
    int selected = 0;
    start(1);
    own(0, fake_server_address(server));
    client = open_client();
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    etcd_process_kill(&etcd);

    ck_assert_int_eq(psclient_finish_init(client, 500, &error), PSCLIENT_UNAVAILABLE);

    ck_assert_uint_eq(fake_server_calls(server, PS_METHOD_FINISH), 0);
    psclient_close(client);
    fake_server_stop(server);
    finish();
}
END_TEST

int main(void)
{
    if (!etcd_process_available())
        return 77;
    Suite *suite = suite_create("psclient_finish");
    TCase *tests = tcase_create("psclient_finish");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_server_that_lost_nothing_it_was_given_is_told_to_finish_again);
    tcase_add_test(tests,
                   a_server_that_lost_what_it_was_given_after_it_finished_is_initialised_again);
    tcase_add_test(tests, without_the_store_no_server_is_finished);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
