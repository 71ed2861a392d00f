/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the rendezvous that are larger than a message, or than a server has room for. */
#include "rendezvous_job.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

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
    ck_assert_int_eq(psclient_rendezvous_send(job_step, "w", &sent, 300, &job_error),
                     PSCLIENT_EXHAUSTED);
    ck_assert_ptr_nonnull(strstr(job_error.text, "step 123"));
    job_expect_ok(job_send_text(job_step, "w", "small"));
    job_expect_text(job_step, "w", "small");
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("psclient_rendezvous_large");
    TCase *tests = tcase_create("psclient_rendezvous_large");
    tcase_add_checked_fixture(tests, job_begin, job_end);
    tcase_set_timeout(tests, 200);
    tcase_add_test(tests, large_values_and_dead_ones_come_whole);
    tcase_add_test(tests, a_value_is_as_large_as_the_servers_have_room_for);
    tcase_add_test(tests, a_value_that_is_too_large_names_its_step);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
