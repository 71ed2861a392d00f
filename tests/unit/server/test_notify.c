/* SPDX-License-Identifier: Apache-2.0 */
/* server/notify.c: messages to the service manager, over real datagram sockets. */
#include "server/notify.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct temp_folder folder;
static char path[600];
static int manager = -1;
static struct ps_notify notify;
static struct ps_error error;

static void begin(void)
{
    temp_folder_init(&folder);
    temp_folder_path(&folder, "notify", path, sizeof path);
}

static void end(void)
{
    ps_notify_fini(&notify);
    (void)close(manager);
    temp_folder_fini(&folder);
}

/* A manager that listens at `name`: a path, or "@name". */
static void listen_at(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(name);
    memcpy(address.sun_path, name, size);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(manager, 0);
    ck_assert_int_eq(bind(manager, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)),
                     0);
}

/* The next message; empty when there is none. A datagram between two sockets of one machine is
 * there as soon as it was sent. */
static const char *heard(void)
{
    static char text[1000];
    ssize_t size = recv(manager, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    return text;
}

START_TEST(messages_arrive_in_order)
{
    listen_at(path);
    ck_assert_int_eq(ps_notify_init(&notify, path, NULL, NULL, &error), PS_OK);

    ps_notify_ready(&notify);
    ps_notify_status(&notify, "serving shard 3");
    ps_notify_watchdog(&notify);
    ps_notify_stopping(&notify);

    ck_assert_str_eq(heard(), "READY=1");
    ck_assert_str_eq(heard(), "STATUS=serving shard 3");
    ck_assert_str_eq(heard(), "WATCHDOG=1");
    ck_assert_str_eq(heard(), "STOPPING=1");
    ck_assert_str_eq(heard(), "");
}
END_TEST

START_TEST(abstract_sockets_are_reached)
{
    char name[64];
    (void)snprintf(name, sizeof name, "@pserver-test-notify-%d", (int)getpid());
    listen_at(name);
    ck_assert_int_eq(ps_notify_init(&notify, name, NULL, NULL, &error), PS_OK);

    ps_notify_ready(&notify);

    ck_assert_str_eq(heard(), "READY=1");
}
END_TEST

START_TEST(status_stays_one_line_of_bounded_length)
{
    char long_text[1000];
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    listen_at(path);
    ck_assert_int_eq(ps_notify_init(&notify, path, NULL, NULL, &error), PS_OK);

    ps_notify_status(&notify, "a\nREADY=1");
    ps_notify_status(&notify, long_text);

    ck_assert_str_eq(heard(), "STATUS=a READY=1");
    ck_assert_uint_eq(strlen(heard()), strlen("STATUS=") + 255);
}
END_TEST

START_TEST(without_a_manager_nothing_happens)
{
    ck_assert_int_eq(ps_notify_init(&notify, _i == 0 ? NULL : "", "1000000", NULL, &error), PS_OK);

    ps_notify_ready(&notify);
    ps_notify_status(&notify, "unheard");

    ck_assert_int_eq(notify.descriptor, -1);
    ck_assert_uint_eq(notify.watchdog_ms, 0);
}
END_TEST

START_TEST(manager_that_is_gone_does_no_harm)
{
    ck_assert_int_eq(ps_notify_init(&notify, path, NULL, NULL, &error), PS_OK);

    ps_notify_ready(&notify);
    ps_notify_stopping(&notify);
}
END_TEST

START_TEST(manager_that_does_not_listen_blocks_nobody)
{
    listen_at(path);
    ck_assert_int_eq(ps_notify_init(&notify, path, NULL, NULL, &error), PS_OK);

    for (int i = 0; i < 10000; i++)
        ps_notify_watchdog(&notify);

    ck_assert_str_eq(heard(), "WATCHDOG=1");
}
END_TEST

START_TEST(addresses_that_are_none_are_refused)
{
    char long_path[200];
    memset(long_path, 'x', sizeof long_path);
    long_path[0] = '/';
    long_path[sizeof long_path - 1] = '\0';
    const char *const bad[] = {"relative", "@", "/", "vsock:2:1234", long_path};

    ck_assert_int_eq(ps_notify_init(&notify, bad[_i], NULL, NULL, &error), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "NOTIFY_SOCKET="));
    ck_assert_int_eq(notify.descriptor, -1);
}
END_TEST

struct watchdog {
    const char *us;
    bool ours;
    bool others;
    uint64_t ms;
};

static const struct watchdog watchdogs[] = {
    {"30000000", false, false, 15000},
    {"30000000", true, false, 15000},
    {"30000000", false, true, 0},
    {"1", false, false, 1},
    {"0", false, false, 0},
    {"", false, false, 0},
    {"x", false, false, 0},
    {NULL, true, false, 0},
};

START_TEST(watchdog_is_due_at_half_its_limit)
{
    const struct watchdog *watchdog = &watchdogs[_i];
    char pid[32];
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid() + (watchdog->others ? 1 : 0));

    ck_assert_int_eq(ps_notify_init(&notify, path, watchdog->us,
                                    watchdog->ours || watchdog->others ? pid : NULL, &error),
                     PS_OK);

    ck_assert_uint_eq(notify.watchdog_ms, watchdog->ms);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("notify");
    TCase *tests = tcase_create("notify");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, messages_arrive_in_order);
    tcase_add_test(tests, abstract_sockets_are_reached);
    tcase_add_test(tests, status_stays_one_line_of_bounded_length);
    tcase_add_loop_test(tests, without_a_manager_nothing_happens, 0, 2);
    tcase_add_test(tests, manager_that_is_gone_does_no_harm);
    tcase_add_test(tests, manager_that_does_not_listen_blocks_nobody);
    tcase_add_loop_test(tests, addresses_that_are_none_are_refused, 0, 5);
    tcase_add_loop_test(tests, watchdog_is_due_at_half_its_limit, 0,
                        (int)PS_ARRAY_COUNT(watchdogs));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
