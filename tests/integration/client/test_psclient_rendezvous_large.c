/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the rendezvous that are larger than a message, or than a server has room for. */
#include "rendezvous_job.h"
#include "run_suite.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Servers take options from the environment, too. */
static void begin_with_room(void)
{
    (void)setenv("PSERVER_RENDEZVOUS_BYTES", "4GiB", 1);
    (void)setenv("PSERVER_RENDEZVOUS_STEP_BYTES", "4GiB", 1);
    job_begin();
}

/* What is larger than a message's small parts goes by reference, here and at the servers. */
START_TEST(large_values_and_dead_ones_come_whole)
{
    enum { COUNT = 3 << 20 };
    uint8_t *bytes = malloc(COUNT);
    uint8_t *room = malloc(COUNT);
    for (int i = 0; i < COUNT; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 1000);
    const struct psclient_tensor sent = {.dtype = 3,
                                         .element_size = 4,
                                         .rank = 3,
                                         .shape = {3, 1 << 10, 1 << 8},
                                         .content = bytes,
                                         .size = COUNT};
    job_expect_ok(psclient_rendezvous_send(job_step, "w", &sent, LONG_MS, &job_error));
    job_expect_ok(psclient_rendezvous_send(job_step, "w", &sent, LONG_MS, &job_error));
    struct psclient_tensor own = {.content = room, .size = 100};
    ck_assert_int_eq(psclient_rendezvous_recv(job_step, "w", &own, LONG_MS, &job_error),
                     PSCLIENT_INVALID);
    for (int i = 0; i < 2; i++) {
        own = (struct psclient_tensor){.content = room, .size = COUNT};
        job_expect_ok(psclient_rendezvous_recv(job_step, "w", &own, LONG_MS, &job_error));
        ck_assert_uint_eq(own.size, COUNT);
        ck_assert_mem_eq(room, bytes, COUNT);
        ck_assert_mem_eq(own.shape, sent.shape, sizeof sent.shape);
        ck_assert_int_eq(own.is_owned, 0);
    }
    job_expect_ok(psclient_rendezvous_send(
        job_step, "d",
        &(struct psclient_tensor){.element_size = 4, .rank = 1, .shape = {9}, .dead = 1}, LONG_MS,
        &job_error));
    struct psclient_tensor dead = {0};
    job_expect_ok(psclient_rendezvous_recv(job_step, "d", &dead, LONG_MS, &job_error));
    ck_assert_int_eq(dead.dead, 1);
    ck_assert_uint_eq(dead.size, 0);
    psclient_tensor_release(&dead);
    free(room);
    free(bytes);
}
END_TEST

/* Larger than any message: in parts there, in ranges back. The library's memory and the
 * caller's. */
START_TEST(a_value_is_as_large_as_the_servers_have_room_for)
{
    const size_t size = ((size_t)150 << 20) + 13;
    uint8_t *bytes = malloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 65536);
    const struct psclient_tensor sent = {
        .dtype = 3, .element_size = 1, .rank = 1, .shape = {size}, .content = bytes, .size = size};
    for (int i = 0; i < 2; i++)
        job_expect_ok(psclient_rendezvous_send(job_step, "w", &sent, LONG_MS, &job_error));
    struct psclient_tensor own = {.content = bytes, .size = size - 1};
    ck_assert_int_eq(psclient_rendezvous_recv(job_step, "w", &own, LONG_MS, &job_error),
                     PSCLIENT_INVALID);
    own = (struct psclient_tensor){.content = malloc(size), .size = size};
    struct psclient_tensor theirs = {0};
    job_expect_ok(psclient_rendezvous_recv(job_step, "w", &theirs, LONG_MS, &job_error));
    ck_assert_uint_eq(theirs.size, size);
    ck_assert(memcmp(theirs.content, bytes, size) == 0);
    psclient_tensor_release(&theirs);
    ck_assert_ptr_null(theirs.content);
    job_expect_ok(psclient_rendezvous_recv(job_step, "w", &own, LONG_MS, &job_error));
    ck_assert(memcmp(own.content, bytes, size) == 0);
    ck_assert_int_eq(own.is_owned, 0);
    free(own.content);
    free(bytes);
}
END_TEST

/* Beyond what a server takes: the job_step is named, and the rest of the job_step goes on. */
START_TEST(a_value_that_is_too_large_names_its_step)
{
    const size_t size = ((size_t)1 << 30) + 1;
    uint8_t *bytes = calloc(1, size);
    const struct psclient_tensor sent = {
        .dtype = 3, .element_size = 1, .rank = 1, .shape = {size}, .content = bytes, .size = size};
    ck_assert_int_eq(psclient_rendezvous_send(job_step, "w", &sent, 5000, &job_error),
                     PSCLIENT_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(job_error.text, "step 123"));
    job_expect_ok(job_send_text(job_step, "w", "small"));
    job_expect_text(job_step, "w", "small");
    free(bytes);
}
END_TEST

/* ---- Many, and very large ---- */

enum { MANY = 10000 };

static void send_keys(struct psclient_rendezvous *own)
{
    for (int i = 0; i < MANY; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "key %d", i * 7919 % MANY);
        if (job_send_text(own, key, key) != PSCLIENT_OK)
            exit(1);
    }
}

/* All of them are under way before the first value is sent, and take no more than some calls. */
START_TEST(ten_thousand_receives_on_as_many_keys_wait_at_once)
{
    static char texts[MANY][32];
    static const char *keys[MANY];
    static struct psclient_tensor got[MANY];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "key %d", i);
        keys[i] = texts[i];
        got[i] = (struct psclient_tensor){0};
    }
    pid_t child = job_in_child("send_keys");
    job_expect_ok(psclient_rendezvous_recv_many(job_step, keys, got, MANY, LONG_MS, &job_error));
    job_expect_end(child);
    for (int i = 0; i < MANY; i++) {
        ck_assert_uint_eq(got[i].size, strlen(texts[i]));
        ck_assert_mem_eq(got[i].content, texts[i], got[i].size);
        psclient_tensor_release(&got[i]);
    }
}
END_TEST

/* A number in each place that a range could be mixed up at. */
static void stamp(uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i + sizeof i <= size; i += 4096)
        memcpy(bytes + i, &i, sizeof i);
}

static bool is_stamped(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i + sizeof i <= size; i += 4096)
        if (memcmp(bytes + i, &i, sizeof i) != 0)
            return false;
    return true;
}

/* 1 GiB, and 3 GiB: beyond what numbers of 32 bits hold. Run by name (PS_LARGE_TENSORS=1), since a
 * machine needs three times as much memory. */
START_TEST(tensors_of_gibibytes_come_whole)
{
    const size_t size = ((size_t)(_i == 0 ? 1 : 3) << 30) + 12345;
    struct psclient_tensor got = {0};
    uint8_t *bytes = malloc(size);
    stamp(bytes, size);
    const struct psclient_tensor sent = {
        .dtype = 3, .element_size = 1, .rank = 1, .shape = {size}, .content = bytes, .size = size};
    job_expect_ok(psclient_rendezvous_send(job_step, "w", &sent, LONG_MS, &job_error));
    free(bytes);
    job_expect_ok(psclient_rendezvous_recv(job_step, "w", &got, LONG_MS, &job_error));
    ck_assert_uint_eq(got.size, size);
    ck_assert(is_stamped(got.content, size));
    psclient_tensor_release(&got);
}
END_TEST

/* ---- Senders that die ---- */

/* Dies while the parts of a value are on their way: some server may have some of them. */
static void *kill_soon(void *unused)
{
    (void)usleep(20000);
    (void)kill(getpid(), SIGKILL);
    return unused;
}

static void send_and_die(struct psclient_rendezvous *own)
{
    pthread_t killer;
    const size_t size = (size_t)400 << 20;
    const struct psclient_tensor sent = {.dtype = 3,
                                         .element_size = 1,
                                         .rank = 1,
                                         .shape = {size},
                                         .content = calloc(1, size),
                                         .size = size};
    if (pthread_create(&killer, NULL, kill_soon, NULL) != 0)
        exit(1);
    (void)psclient_rendezvous_send(own, "w", &sent, LONG_MS, &job_error);
    (void)pause();
}

/* The receiver gets the whole value or none, and hears so by its deadline; the step goes on. */
START_TEST(a_sender_that_is_killed_between_parts_leaves_a_value_or_none)
{
    int status = 0;
    struct psclient_tensor got = {0};
    pid_t child = job_in_child("send_and_die");
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    int result = psclient_rendezvous_recv(job_step, "w", &got, 500, &job_error);
    ck_assert(result == PSCLIENT_OK || result == PSCLIENT_UNKNOWN);
    ck_assert(result != PSCLIENT_OK || got.size == (size_t)400 << 20);
    psclient_tensor_release(&got);
    job_expect_ok(job_send_text(job_step, "w", "of another"));
    job_expect_text(job_step, "w", "of another");
    job_expect_ok(psclient_rendezvous_cleanup(job_step, LONG_MS, &job_error));
}
END_TEST

int main(int count, char **arguments)
{
    if (count == 3)
        return job_run_child(arguments[2],
                             strcmp(arguments[1], "send_keys") == 0 ? send_keys : send_and_die);
    Suite *suite = suite_create("psclient_rendezvous_large");
    TCase *tests = tcase_create("psclient_rendezvous_large");
    tcase_add_checked_fixture(tests, job_begin, job_end);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, large_values_and_dead_ones_come_whole);
    tcase_add_test(tests, a_value_is_as_large_as_the_servers_have_room_for);
    tcase_add_test(tests, a_value_that_is_too_large_names_its_step);
    tcase_add_test(tests, ten_thousand_receives_on_as_many_keys_wait_at_once);
    tcase_add_test(tests, a_sender_that_is_killed_between_parts_leaves_a_value_or_none);
    suite_add_tcase(suite, tests);
    /* Not counted as passed where it did not run. */
    if (getenv("PS_LARGE_TENSORS") != NULL) {
        TCase *gibibytes = tcase_create("gibibytes");
        tcase_add_checked_fixture(gibibytes, begin_with_room, job_end);
        tcase_set_timeout(gibibytes, 300);
        tcase_add_loop_test(gibibytes, tensors_of_gibibytes_come_whole, 0, 2);
        suite_add_tcase(suite, gibibytes);
    }
    return run_suite(suite);
}
