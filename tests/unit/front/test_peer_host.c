/* SPDX-License-Identifier: Apache-2.0 */
/* server/front/peer_host.c: one host is one host, however it came. */
#include "server/front/peer_host.h"

#include "run_suite.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

static struct ps_peer_host host(const char *address, uint16_t port)
{
    struct sockaddr_storage peer = {0};
    struct sockaddr_in *four = (struct sockaddr_in *)&peer;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)&peer;
    if (strchr(address, ':') != NULL) {
        peer.ss_family = AF_INET6;
        six->sin6_port = htons(port);
        ck_assert_int_eq(inet_pton(AF_INET6, address, &six->sin6_addr), 1);
    } else {
        peer.ss_family = AF_INET;
        four->sin_port = htons(port);
        ck_assert_int_eq(inet_pton(AF_INET, address, &four->sin_addr), 1);
    }
    return ps_peer_host_of(&peer);
}

static struct ps_peer_host local_socket(void)
{
    const struct sockaddr_storage peer = {.ss_family = AF_UNIX};
    return ps_peer_host_of(&peer);
}

START_TEST(ports_and_families_do_not_make_another_host)
{
    struct ps_peer_host first = host("10.0.0.1", 1), second = host("10.0.0.1", 2),
                        mapped = host("::ffff:10.0.0.1", 3), other = host("10.0.0.2", 1);

    ck_assert(ps_peer_host_equal(&first, &second));
    ck_assert(ps_peer_host_equal(&first, &mapped));
    ck_assert(!ps_peer_host_equal(&first, &other));
}
END_TEST

START_TEST(the_machine_itself_is_local)
{
    struct ps_peer_host four = host("127.0.0.1", 1), high = host("127.9.9.9", 1),
                        six = host("::1", 1), mapped = host("::ffff:127.0.0.1", 1),
                        file = local_socket();
    struct ps_peer_host stranger = host("128.0.0.1", 1), far = host("fe80::1", 1);

    ck_assert(ps_peer_host_is_local(&four) && ps_peer_host_is_local(&high));
    ck_assert(ps_peer_host_is_local(&six) && ps_peer_host_is_local(&mapped));
    ck_assert(ps_peer_host_is_local(&file));
    ck_assert(!ps_peer_host_is_local(&stranger) && !ps_peer_host_is_local(&far));
}
END_TEST

START_TEST(people_read_the_address)
{
    char text[PS_PEER_HOST_TEXT_MAX];
    struct ps_peer_host four = host("10.0.0.1", 1), six = host("fe80::1", 1), file = local_socket();

    ps_peer_host_text(&four, text);
    ck_assert_str_eq(text, "10.0.0.1");
    ps_peer_host_text(&six, text);
    ck_assert_str_eq(text, "fe80::1");
    ps_peer_host_text(&file, text);
    ck_assert_str_eq(text, "unix");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peer host");
    TCase *tests = tcase_create("peer host");
    tcase_add_test(tests, ports_and_families_do_not_make_another_host);
    tcase_add_test(tests, the_machine_itself_is_local);
    tcase_add_test(tests, people_read_the_address);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
