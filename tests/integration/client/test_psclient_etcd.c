/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient with a real etcd: it finds servers, follows them, and initialises a job once. The
 * servers are fakes; their keys are written by the test. */
#include "run_suite.h"
#include "tests/integration/client/psclient_etcd_rig.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const float ones[4] = {1, 1, 1, 1};
static const struct fake_answer hold = {.kind = FAKE_HOLD};

static int push(const char *name, uint64_t timeout_ms)
{
    struct psclient_gradient gradient = {
        .name = name, .type = PSCLIENT_FLOAT32, .content = ones, .content_size = sizeof ones};
    return psclient_push(client, &gradient, 1, timeout_ms, NULL, &error);
}

START_TEST(servers_are_found_in_the_store)
{
    struct fake_server *server = fake_server_start(0);
    start(1);
    own(0, fake_server_address(server));

    client = open_client();

    ck_assert_uint_eq(psclient_shard_count(client), 1);
    ck_assert_int_eq(push("w", LONG_MS), PSCLIENT_OK);
    psclient_close(client);
    fake_server_stop(server);
    finish();
}
END_TEST

static void *open_in_thread(void *argument)
{
    (void)argument;
    return open_client();
}

START_TEST(open_waits_until_the_number_of_shards_is_known)
{
    pthread_t thread;
    void *opened;
    start(0);
    pthread_create(&thread, NULL, open_in_thread, NULL);

    uint32_t count;
    ck_assert_int_eq(ps_registry_desired(&registry, 3, soon(), &count, NULL), PS_OK);

    pthread_join(thread, &opened);
    ck_assert_uint_eq(psclient_shard_count(opened), 3);
    psclient_close(opened);
    finish();
}
END_TEST

START_TEST(b9_a_missing_server_1_leaves_server_0_alone)
{
    struct fake_server *server = fake_server_start(0);
    start(2);
    own(0, fake_server_address(server));
    client = open_client();

    ck_assert_int_eq(push("param_a", LONG_MS), PSCLIENT_OK);
    ck_assert_int_eq(push("param_b", 200), PSCLIENT_UNAVAILABLE);
    ck_assert_int_eq(push("param_a", LONG_MS), PSCLIENT_OK);

    psclient_close(client);
    fake_server_stop(server);
    finish();
}
END_TEST

START_TEST(b10_a_server_that_moved_is_followed)
{
    struct fake_server *first = fake_server_start(0);
    start(1);
    struct ps_claim claim = own(0, fake_server_address(first));
    client = open_client();
    ck_assert_int_eq(push("w", LONG_MS), PSCLIENT_OK);

    disown(&claim);
    fake_server_stop(first);
    struct fake_server *second = fake_server_start(0);
    own(0, fake_server_address(second));

    ck_assert_int_eq(push("w", LONG_MS), PSCLIENT_OK);
    ck_assert_uint_ge(fake_server_calls(second, PS_METHOD_PUSH), 1);
    psclient_close(client);
    fake_server_stop(second);
    finish();
}
END_TEST

static void *push_in_thread(void *argument)
{
    (void)argument;
    return (void *)(intptr_t)push("w", LONG_MS);
}

START_TEST(b10_a_push_waits_for_the_server_that_comes_back_later)
{
    struct fake_server *first = fake_server_start(0);
    pthread_t thread;
    void *status;
    start(1);
    struct ps_claim claim = own(0, fake_server_address(first));
    client = open_client();
    ck_assert_int_eq(push("w", LONG_MS), PSCLIENT_OK);
    disown(&claim);
    fake_server_stop(first);
    while (push("w", 50) != PSCLIENT_UNAVAILABLE) {
        /* until the client has heard of it */
    }

    pthread_create(&thread, NULL, push_in_thread, NULL);
    struct fake_server *second = fake_server_start(0);
    own(0, fake_server_address(second));
    pthread_join(thread, &status);

    ck_assert_int_eq((int)(intptr_t)status, PSCLIENT_OK);
    psclient_close(client);
    fake_server_stop(second);
    finish();
}
END_TEST

static void *ask_in_thread(void *argument)
{
    struct psclient_server_status status;
    (void)argument;
    return (void *)(intptr_t)psclient_server_status(client, 0, LONG_MS, &status, NULL);
}

START_TEST(b11_another_owner_at_the_same_address_gets_a_new_connection)
{
    struct fake_server *server = fake_server_start(0);
    fake_server_next(server, PS_METHOD_STATUS, 1, hold);
    pthread_t thread;
    void *status;
    start(1);
    struct ps_claim claim = own(0, fake_server_address(server));
    client = open_client();
    pthread_create(&thread, NULL, ask_in_thread, NULL);
    fake_server_await(server, PS_METHOD_STATUS, 1);

    disown(&claim);
    own(0, fake_server_address(server));
    pthread_join(thread, &status);

    ck_assert_int_eq((int)(intptr_t)status, PSCLIENT_OK);
    ck_assert_uint_eq(fake_server_calls(server, PS_METHOD_STATUS), 2); /* the second one moved */
    psclient_close(client);
    fake_server_stop(server);
    finish();
}
END_TEST

START_TEST(running_calls_do_not_need_etcd)
{
    struct fake_server *server = fake_server_start(0);
    start(1);
    own(0, fake_server_address(server));
    client = open_client();
    ck_assert_int_eq(push("w", LONG_MS), PSCLIENT_OK);

    etcd_process_kill(&etcd);

    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(push("w", LONG_MS), PSCLIENT_OK);
    psclient_close(client);
    fake_server_stop(server);
    finish();
}
END_TEST

START_TEST(an_etcd_that_comes_back_is_followed_again)
{
    struct fake_server *first = fake_server_start(0);
    start(1);
    struct ps_claim claim = own(0, fake_server_address(first));
    client = open_client();
    ck_assert_int_eq(push("w", LONG_MS), PSCLIENT_OK);

    etcd_process_kill(&etcd);
    etcd_process_restart(&etcd);
    disown(&claim);
    fake_server_stop(first);
    struct fake_server *second = fake_server_start(0);
    own(0, fake_server_address(second));

    ck_assert_int_eq(push("w", LONG_MS), PSCLIENT_OK);
    psclient_close(client);
    fake_server_stop(second);
    finish();
}
END_TEST

/* ---- Initialisation ---- */

static atomic_int selected_count;

static void *initialise_in_thread(void *argument)
{
    struct psclient *trainer = open_client();
    struct psclient_parameter parameter = {.name = "w",
                                           .type = PSCLIENT_FLOAT32,
                                           .content = (void *)(uintptr_t)ones,
                                           .content_size = sizeof ones};
    int selected = 0;
    (void)argument;
    ck_assert_int_eq(psclient_begin_init(trainer, LONG_MS, &selected, NULL), PSCLIENT_OK);
    if (selected == 1) {
        atomic_fetch_add(&selected_count, 1);
        ck_assert_int_eq(psclient_init(trainer, &parameter, 1, LONG_MS, NULL, NULL), PSCLIENT_OK);
        ck_assert_int_eq(psclient_finish_init(trainer, LONG_MS, NULL), PSCLIENT_OK);
    }
    psclient_close(trainer);
    return NULL;
}

START_TEST(exactly_one_of_several_trainers_is_selected)
{
    struct fake_server *server = fake_server_start(0);
    pthread_t threads[4];
    start(1);
    own(0, fake_server_address(server));

    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, initialise_in_thread, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    initialise_in_thread(NULL);

    ck_assert_int_eq(atomic_load(&selected_count), 1);
    ck_assert_uint_eq(fake_server_calls(server, PS_METHOD_INIT), 1);
    ck_assert_uint_eq(fake_server_calls(server, PS_METHOD_FINISH), 1);
    fake_server_stop(server);
    finish();
}
END_TEST

/* The lease of a lock that runs out in a test, or would if nobody kept it. */
#define LOCK_TTL_MS 5000

/* Becomes the initialiser in another process, says so, and waits to be killed. */
static void initialise_and_hang(int ready)
{
    int selected = 0;
    struct psclient *trainer = open_with_lock(LOCK_TTL_MS);
    if (psclient_begin_init(trainer, LONG_MS, &selected, NULL) == PSCLIENT_OK && selected == 1 &&
        write(ready, "x", 1) == 1) {
        for (;;)
            pause();
    }
    _exit(1);
}

START_TEST(b7_the_death_of_the_initialiser_selects_the_next)
{
    int ends[2];
    char byte;
    start(2);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        initialise_and_hang(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    struct fake_server *server = fake_server_start(0);
    struct fake_server *other = fake_server_start(0);
    const struct fake_answer exists = {.kind = FAKE_REFUSE, .status = PS_ERR_EXISTS};
    fake_server_answer(server, PS_METHOD_INIT, exists);
    fake_server_answer(server, PS_METHOD_FINISH, exists);
    own(0, fake_server_address(server));
    own(1, fake_server_address(other));

    client = open_client();
    int selected = 7;
    ck_assert_int_eq(psclient_begin_init(client, 100, &selected, &error), PSCLIENT_UNAVAILABLE);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 1);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);

    ck_assert_uint_eq(fake_server_calls(other, PS_METHOD_FINISH), 1);
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 0);
    psclient_close(client);
    fake_server_stop(server);
    fake_server_stop(other);
    finish();
}
END_TEST

START_TEST(the_lock_is_kept_for_longer_than_its_lease)
{
    struct fake_server *server = fake_server_start(0);
    int selected = 0, other_selected = 0;
    start(1);
    own(0, fake_server_address(server));
    client = open_with_lock(LOCK_TTL_MS);
    struct psclient *other = open_client();
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 1);

    /* Two leases long, the other one waits in vain. */
    ck_assert_int_eq(psclient_begin_init(other, 9 * LOCK_TTL_MS / 4, &other_selected, &error),
                     PSCLIENT_UNAVAILABLE);

    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);
    psclient_close(other);
    psclient_close(client);
    fake_server_stop(server);
    finish();
}
END_TEST

/* Another trainer may be giving parameters at this moment. */
START_TEST(without_the_lock_no_server_is_finished)
{
    struct fake_server *server = fake_server_start(0);
    start(1);
    own(0, fake_server_address(server));
    client = open_client();

    ck_assert_int_ne(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);

    ck_assert_ptr_nonnull(strstr(error.text, "no longer the owner of the lock"));
    ck_assert_uint_eq(fake_server_calls(server, PS_METHOD_FINISH), 0);
    psclient_close(client);
    fake_server_stop(server);
    finish();
}
END_TEST

static atomic_bool has_returned;

static void *wait_for_lock(void *argument)
{
    static int status;
    int selected;
    status = psclient_begin_init(argument, LONG_MS, &selected, NULL);
    atomic_store(&has_returned, true);
    return &status;
}

START_TEST(a_wait_for_the_lock_can_be_cancelled)
{
    struct fake_server *server = fake_server_start(0);
    pthread_t thread;
    void *status;
    int selected = 0;
    start(1);
    own(0, fake_server_address(server));
    client = open_client();
    struct psclient *second = open_client();
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    pthread_create(&thread, NULL, wait_for_lock, second);

    while (!atomic_load(&has_returned)) {
        psclient_cancel_init(second);
        (void)usleep(1000);
    }
    pthread_join(thread, &status);

    ck_assert_int_eq(*(int *)status, PSCLIENT_UNAVAILABLE);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);
    ck_assert_int_eq(psclient_begin_init(second, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 0);
    psclient_close(second);
    psclient_close(client);
    fake_server_stop(server);
    finish();
}
END_TEST

START_TEST(closing_gives_the_lock_up)
{
    int selected = 0;
    start(1);
    client = open_client();
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 1);
    psclient_close(client);

    client = open_client();
    selected = 0;
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 1);
    psclient_close(client);
    finish();
}
END_TEST

START_TEST(finishing_with_a_lost_lock_says_begin_again)
{
    struct fake_server *server = fake_server_start(0);
    int selected = 0;
    start(1);
    own(0, fake_server_address(server));
    client = open_client();
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_NOT_INITIALIZED);
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    const char *const arguments[] = {"del", "--prefix", "/init_ps/lock/", NULL};
    ck_assert_int_eq(etcd_process_ctl(&etcd, arguments), 0);

    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_NOT_INITIALIZED);

    ck_assert_str_eq(error.text,
                     "no longer the owner of the lock, which passes on when nobody keeps "
                     "it for 240000 ms: go on from psclient_begin_init");
    ck_assert_int_eq(psclient_begin_init(client, LONG_MS, &selected, &error), PSCLIENT_OK);
    ck_assert_int_eq(selected, 1);
    ck_assert_int_eq(psclient_finish_init(client, LONG_MS, &error), PSCLIENT_OK);
    psclient_close(client);
    fake_server_stop(server);
    finish();
}
END_TEST

int main(void)
{
    if (!etcd_process_available())
        return 77;
    Suite *suite = suite_create("psclient_etcd");
    TCase *tests = tcase_create("psclient_etcd");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, servers_are_found_in_the_store);
    tcase_add_test(tests, open_waits_until_the_number_of_shards_is_known);
    tcase_add_test(tests, b9_a_missing_server_1_leaves_server_0_alone);
    tcase_add_test(tests, b10_a_server_that_moved_is_followed);
    tcase_add_test(tests, b10_a_push_waits_for_the_server_that_comes_back_later);
    tcase_add_test(tests, b11_another_owner_at_the_same_address_gets_a_new_connection);
    tcase_add_test(tests, running_calls_do_not_need_etcd);
    tcase_add_test(tests, an_etcd_that_comes_back_is_followed_again);
    tcase_add_test(tests, exactly_one_of_several_trainers_is_selected);
    tcase_add_test(tests, b7_the_death_of_the_initialiser_selects_the_next);
    tcase_add_test(tests, the_lock_is_kept_for_longer_than_its_lease);
    tcase_add_test(tests, without_the_lock_no_server_is_finished);
    tcase_add_test(tests, a_wait_for_the_lock_can_be_cancelled);
    tcase_add_test(tests, closing_gives_the_lock_up);
    tcase_add_test(tests, finishing_with_a_lost_lock_says_begin_again);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
