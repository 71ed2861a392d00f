/* SPDX-License-Identifier: Apache-2.0 */
/* client/local/unix_break.c: of sockets to one file, those whose peer reads nothing are ended. */
#include "client/local/unix_break.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct temp_folder folder;
static char path[600];
static int listener;

static struct sockaddr_un address(void)
{
    struct sockaddr_un made = {.sun_family = AF_UNIX};
    ck_assert_uint_lt(strlen(path), sizeof made.sun_path);
    memcpy(made.sun_path, path, strlen(path));
    return made;
}

static void set_up(void)
{
    temp_folder_init(&folder);
    temp_folder_path(&folder, "socket", path, sizeof path);
    struct sockaddr_un here = address();
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (const struct sockaddr *)&here, sizeof here), 0);
    ck_assert_int_eq(listen(listener, 4), 0);
}

static void tear_down(void)
{
    close(listener);
    temp_folder_fini(&folder);
}

static int connect_one(void)
{
    struct sockaddr_un there = address();
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_eq(connect(made, (const struct sockaddr *)&there, sizeof there), 0);
    return made;
}

static void fill(int descriptor)
{
    static const char bytes[4096];
    while (send(descriptor, bytes, sizeof bytes, MSG_NOSIGNAL) > 0)
        continue;
}

static bool is_ended(int descriptor)
{
    char byte;
    return recv(descriptor, &byte, 1, MSG_DONTWAIT) == 0;
}

START_TEST(only_what_is_full_and_leads_to_the_file_is_ended)
{
    int full = connect_one(), idle = connect_one();
    fill(full);

    ps_unix_break("/elsewhere/socket"); /* another service's, perhaps */
    ck_assert(!is_ended(full));
    char address[620];
    (void)snprintf(address, sizeof address, "unix:%s", path);
    ps_unix_break(address);
    ck_assert(is_ended(full));
    ck_assert(!is_ended(idle));

    close(full);
    close(idle);
}
END_TEST

START_TEST(a_full_socket_without_a_name_is_left_alone)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    fill(pair[0]);

    ps_unix_break(path);

    ck_assert(!is_ended(pair[0]));
    close(pair[0]);
    close(pair[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unix_break");
    TCase *tests = tcase_create("unix_break");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, only_what_is_full_and_leads_to_the_file_is_ended);
    tcase_add_test(tests, a_full_socket_without_a_name_is_left_alone);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
