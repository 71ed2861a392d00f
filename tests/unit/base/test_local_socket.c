/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and descriptors between two ends in this process. */
#include "base/local_socket.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char text[64];
static struct ps_bytes name;
static int listener, near, far;
static struct ps_error error;
static uint8_t message[64];
static size_t size;
static int passed;

static void set_up(void)
{
    uint64_t number;
    ps_random_system(&number, sizeof number);
    snprintf(text, sizeof text, "pserver-test-%016llx", (unsigned long long)number);
    name = ps_bytes_of_text(text);
    ck_assert_int_eq(ps_local_socket_listen(name, &listener, &error), PS_OK);
    ck_assert_int_eq(ps_local_socket_connect(name, &near, &error), PS_OK);
    ck_assert_int_eq(ps_local_socket_accept(listener, &far, &error), PS_OK);
}

static void tear_down(void)
{
    close(listener);
    close(near);
    close(far);
}

static enum ps_status receive(void)
{
    return ps_local_socket_receive(far, message, sizeof message, &size, &passed, &error);
}

START_TEST(a_message_arrives_whole_and_alone)
{
    ck_assert_int_eq(ps_local_socket_send(near, ps_bytes_of_text("one"), PS_NO_DESCRIPTOR, &error),
                     PS_OK);
    ck_assert_int_eq(ps_local_socket_send(near, ps_bytes_of_text("two2"), PS_NO_DESCRIPTOR, &error),
                     PS_OK);

    ck_assert_int_eq(receive(), PS_OK);
    ck_assert_uint_eq(size, 3);
    ck_assert_int_eq(passed, PS_NO_DESCRIPTOR);
    ck_assert_int_eq(receive(), PS_OK);
    ck_assert_uint_eq(size, 4);
    ck_assert_int_eq(receive(), PS_ERR_NOT_READY);
}
END_TEST

START_TEST(a_descriptor_that_is_sent_works_at_the_other_end)
{
    int ends[2];
    char byte = 0;
    ck_assert_int_eq(pipe(ends), 0);

    ck_assert_int_eq(ps_local_socket_send(near, ps_bytes_of_text("x"), ends[1], &error), PS_OK);
    close(ends[1]);

    ck_assert_int_eq(receive(), PS_OK);
    ck_assert_int_ge(passed, 0);
    ck_assert_int_eq(write(passed, "!", 1), 1);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    ck_assert_int_eq(byte, '!');
    close(passed);
    close(ends[0]);
}
END_TEST

/* Through the plain system call, as no caller of ours would. */
static void send_descriptors(const int *descriptors, size_t count)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec run = {"x", 1};
    struct msghdr head = {.msg_iov = &run,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *entry = CMSG_FIRSTHDR(&head);
    entry->cmsg_level = SOL_SOCKET;
    entry->cmsg_type = SCM_RIGHTS;
    entry->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(entry), descriptors, count * sizeof(int));
    ck_assert_int_eq(sendmsg(near, &head, 0), 1);
}

START_TEST(more_descriptors_than_one_are_refused_and_closed)
{
    for (size_t count = 2; count <= 8; count++) {
        int ends[2];
        char byte;
        ck_assert_int_eq(pipe(ends), 0);
        int many[8];
        for (size_t i = 0; i < 8; i++)
            many[i] = ends[1];
        send_descriptors(many, count);
        close(ends[1]);

        ck_assert_int_eq(receive(), PS_ERR_BAD_INPUT);

        ck_assert_int_eq(read(ends[0], &byte, 1), 0); /* no writer is left */
        close(ends[0]);
    }
}
END_TEST

START_TEST(a_message_that_is_too_long_is_refused)
{
    uint8_t longer[sizeof message + 1] = {0};
    ck_assert_int_eq(ps_local_socket_send(near, (struct ps_bytes){longer, sizeof longer},
                                          PS_NO_DESCRIPTOR, &error),
                     PS_OK);

    ck_assert_int_eq(receive(), PS_ERR_BAD_INPUT);
}
END_TEST

START_TEST(an_end_that_has_gone_is_noticed)
{
    close(near);
    ck_assert_int_eq(receive(), PS_ERR_UNAVAILABLE);
    ck_assert_int_eq(ps_local_socket_send(far, ps_bytes_of_text("x"), PS_NO_DESCRIPTOR, &error),
                     PS_ERR_UNAVAILABLE);
    near = dup(far);
}
END_TEST

START_TEST(the_kernel_says_who_is_at_the_other_end)
{
    struct ps_local_peer who;

    ck_assert_int_eq(ps_local_socket_peer(far, &who, &error), PS_OK);

    ck_assert_uint_eq(who.user, getuid());
    ck_assert_int_eq(who.process, getpid());
    ck_assert_int_eq(ps_local_socket_peer(PS_NO_DESCRIPTOR, &who, &error), PS_ERR_IO);
}
END_TEST

START_TEST(nobody_under_a_name_is_unavailable_and_a_taken_one_exists)
{
    int other;
    ck_assert_int_eq(ps_local_socket_listen(name, &other, &error), PS_ERR_EXISTS);
    ck_assert_int_eq(ps_local_socket_accept(listener, &other, &error), PS_ERR_NOT_READY);
    ck_assert_int_eq(
        ps_local_socket_connect(ps_bytes_of_text("pserver-test-nobody"), &other, &error),
        PS_ERR_UNAVAILABLE);
}
END_TEST

START_TEST(who_comes_to_a_full_queue_is_told_at_once)
{
    int many[400];
    enum ps_status status = PS_OK;
    size_t count = 0;
    while (count < 400 && status == PS_OK) {
        status = ps_local_socket_connect(name, &many[count], &error);
        count += status == PS_OK;
    }
    ck_assert_int_eq(status, PS_ERR_UNAVAILABLE);
    while (count > 0)
        close(many[--count]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local_socket");
    TCase *tests = tcase_create("local_socket");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_message_arrives_whole_and_alone);
    tcase_add_test(tests, a_descriptor_that_is_sent_works_at_the_other_end);
    tcase_add_test(tests, more_descriptors_than_one_are_refused_and_closed);
    tcase_add_test(tests, a_message_that_is_too_long_is_refused);
    tcase_add_test(tests, an_end_that_has_gone_is_noticed);
    tcase_add_test(tests, the_kernel_says_who_is_at_the_other_end);
    tcase_add_test(tests, nobody_under_a_name_is_unavailable_and_a_taken_one_exists);
    tcase_add_test(tests, who_comes_to_a_full_queue_is_told_at_once);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
