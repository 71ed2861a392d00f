/* SPDX-License-Identifier: Apache-2.0 */
/* server/http.c: real requests on a free port. */
#include "server/http.h"

#include "base/metrics.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool live;
static bool ready;
static const char *reason;
static struct ps_metrics *metrics;
static struct ps_http *http;
static struct ps_error error;

static bool is_live(void *self, struct ps_buffer *text)
{
    (void)self;
    (void)text;
    return live;
}

static bool is_ready(void *self, struct ps_buffer *text)
{
    (void)self;
    ps_buffer_append_text(text, reason);
    return ready;
}

static void render(void *self, struct ps_buffer *page)
{
    (void)self;
    ps_metrics_render(metrics, page);
}

static const struct ps_http_source source = {is_live, is_ready, render, NULL};

static struct ps_http_options options_for(const char *listen)
{
    return (struct ps_http_options){
        .listen = listen, .source = &source, .memory = ps_allocator_heap(), .title = "pserver"};
}

static void begin(void)
{
    live = true;
    ready = true;
    reason = "";
    metrics = ps_metrics_create(ps_allocator_heap());
    ps_counter_add(ps_metrics_counter(metrics, "ps_x_total", "Xs.", NULL), 7);
    const struct ps_http_options options = options_for("127.0.0.1:0");
    ck_assert_msg(ps_http_create(&options, &http, &error) == PS_OK, "%s", error.text);
}

static void end(void)
{
    ps_http_destroy(http);
    ps_metrics_destroy(metrics);
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(descriptor, 0);
    ck_assert_int_eq(connect(descriptor, (const struct sockaddr *)&address, sizeof address), 0);
    return descriptor;
}

/* Everything up to the end of the connection. */
static const char *read_all(int descriptor)
{
    static char text[262144];
    ssize_t size = 0;
    ssize_t got;
    while ((got = recv(descriptor, text + size, sizeof text - 1 - (size_t)size, 0)) > 0)
        size += got;
    text[size] = '\0';
    (void)close(descriptor);
    return text;
}

static const char *request(const char *method, const char *path)
{
    char text[512];
    int length =
        snprintf(text, sizeof text,
                 "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, path);
    int descriptor = connect_to(ps_http_port(http));
    ck_assert_int_eq(send(descriptor, text, (size_t)length, MSG_NOSIGNAL), length);
    return read_all(descriptor);
}

static const char *body_of(const char *answer)
{
    const char *gap = strstr(answer, "\r\n\r\n");
    ck_assert_msg(gap != NULL, "%s", answer);
    return gap + 4;
}

#define ASSERT_BEGINS(answer_, start_) \
    ck_assert_msg(strncmp((answer_), (start_), strlen(start_)) == 0, "%s", (answer_))

START_TEST(metrics_are_served_in_their_format)
{
    const char *answer = request("GET", "/metrics");

    ASSERT_BEGINS(answer, "HTTP/1.1 200 ");
    ck_assert_ptr_nonnull(strstr(answer, "text/plain; version=0.0.4; charset=utf-8\r\n"));
    ck_assert_ptr_nonnull(strstr(body_of(answer), "\nps_x_total 7\n"));
    ck_assert_ptr_nonnull(strstr(body_of(answer), "\nprocess_open_fds "));
}
END_TEST

START_TEST(live_says_yes_or_no)
{
    const char *answer = request("GET", "/livez");
    ASSERT_BEGINS(answer, "HTTP/1.1 200 ");
    ck_assert_str_eq(body_of(answer), "ok\n");

    live = false;
    answer = request("GET", "/livez");
    ASSERT_BEGINS(answer, "HTTP/1.1 503 ");
    ck_assert_str_eq(body_of(answer), "not ok\n");
}
END_TEST

START_TEST(ready_says_why_not)
{
    reason = "loading checkpoint";
    ready = false;

    const char *answer = request("GET", "/readyz");

    ASSERT_BEGINS(answer, "HTTP/1.1 503 ");
    ck_assert_str_eq(body_of(answer), "not ok: loading checkpoint\n");
}
END_TEST

START_TEST(index_links_to_the_pages)
{
    const char *answer = request("GET", "/");

    ASSERT_BEGINS(answer, "HTTP/1.1 200 ");
    ck_assert_ptr_nonnull(strstr(answer, "text/html"));
    ck_assert_ptr_nonnull(strstr(answer, "href=\"/metrics\""));
}
END_TEST

START_TEST(query_does_not_matter)
{
    ASSERT_BEGINS(request("GET", "/livez?verbose=1"), "HTTP/1.1 200 ");
}
END_TEST

START_TEST(head_has_no_body)
{
    const char *answer = request("HEAD", "/livez");

    ASSERT_BEGINS(answer, "HTTP/1.1 200 ");
    ck_assert_str_eq(body_of(answer), "");
}
END_TEST

START_TEST(other_paths_are_not_found)
{
    static const char *const paths[] = {"/metric", "/metrics/", "/../etc/passwd", "/livezz", "//"};

    ASSERT_BEGINS(request("GET", paths[_i]), "HTTP/1.1 404 ");
}
END_TEST

START_TEST(other_methods_are_refused)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS"};
    const char *answer = request(methods[_i], "/metrics");

    ASSERT_BEGINS(answer, "HTTP/1.1 405 ");
    ck_assert_ptr_nonnull(strstr(answer, "Allow: GET, HEAD\r\n"));
}
END_TEST

START_TEST(garbage_does_no_harm)
{
    static const char *const texts[] = {"\r\n\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n",
                                        "GET /livez HTTP/1.1\r\n: x\r\n\r\n"};
    int descriptor = connect_to(ps_http_port(http));
    ck_assert_int_gt(send(descriptor, texts[_i], strlen(texts[_i]), MSG_NOSIGNAL), 0);
    (void)close(descriptor);

    ASSERT_BEGINS(request("GET", "/livez"), "HTTP/1.1 200 ");
}
END_TEST

START_TEST(header_larger_than_a_connection_may_hold_is_refused)
{
    static char text[65536];
    memset(text, 'a', sizeof text);
    memcpy(text, "GET /livez?", 11);
    int descriptor = connect_to(ps_http_port(http));
    /* The port may hang up before it has taken everything. */
    (void)send(descriptor, text, sizeof text, MSG_NOSIGNAL);
    (void)shutdown(descriptor, SHUT_WR);
    (void)read_all(descriptor);

    ASSERT_BEGINS(request("GET", "/livez"), "HTTP/1.1 200 ");
}
END_TEST

START_TEST(silent_connections_make_room_for_who_asks)
{
    struct ps_http_options options = options_for("127.0.0.1:0");
    struct ps_http *small = NULL;
    options.connections_max = 2;
    ck_assert_int_eq(ps_http_create(&options, &small, &error), PS_OK);
    int idle[2] = {connect_to(ps_http_port(small)), connect_to(ps_http_port(small))};
    /* Both are in once each has had an answer. */
    for (int i = 0; i < 2; i++) {
        static const char ask[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        char byte;
        ck_assert_int_gt(send(idle[i], ask, sizeof ask - 1, MSG_NOSIGNAL), 0);
        ck_assert_int_eq(recv(idle[i], &byte, 1, 0), 1);
    }

    /* Many more than the limit, each of them answered while all before it say nothing more. */
    for (int i = 0; i < 20; i++) {
        static const char ask[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        char byte;
        int late = connect_to(ps_http_port(small));
        ck_assert_int_gt(send(late, ask, sizeof ask - 1, MSG_NOSIGNAL), 0);
        ck_assert_int_eq(recv(late, &byte, 1, 0), 1);
        (void)close(idle[i % 2]);
        idle[i % 2] = late;
    }
    (void)close(idle[0]);
    (void)close(idle[1]);
    ps_http_destroy(small);
}
END_TEST

START_TEST(bound_port_is_taken)
{
    char listen[32];
    (void)snprintf(listen, sizeof listen, "127.0.0.1:%u", ps_http_port(http));
    const struct ps_http_options options = options_for(listen);
    struct ps_http *second = NULL;

    ck_assert_int_eq(ps_http_create(&options, &second, &error), PS_ERR_IO);

    ck_assert_ptr_nonnull(strstr(error.text, listen));
    ck_assert_ptr_null(second);
}
END_TEST

START_TEST(addresses_that_are_none_are_refused)
{
    static const char *const bad[] = {"", "127.0.0.1", "127.0.0.1:http-", "127.0.0.1:99999",
                                      "not a host:80"};
    const struct ps_http_options options = options_for(bad[_i]);
    struct ps_http *second = NULL;

    ck_assert_int_ne(ps_http_create(&options, &second, &error), PS_OK);
    ck_assert_ptr_null(second);
}
END_TEST

START_TEST(address_without_a_host_is_every_interface)
{
    const struct ps_http_options options = options_for(":0");
    struct ps_http *second = NULL;
    ck_assert_msg(ps_http_create(&options, &second, &error) == PS_OK, "%s", error.text);

    int descriptor = connect_to(ps_http_port(second));

    (void)close(descriptor);
    ps_http_destroy(second);
}
END_TEST

START_TEST(refused_allocation_is_told)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_http_options options = options_for("127.0.0.1:0");
    struct ps_http *second = NULL;
    options.memory = &memory;

    ck_assert_int_eq(ps_http_create(&options, &second, &error), PS_ERR_NO_MEMORY);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(page_without_memory_is_an_error_of_the_server)
{
    struct fault_heap heap = {.refuse_at = 1};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_http_options options = options_for("127.0.0.1:0");
    ps_http_destroy(http);
    options.memory = &memory;
    ck_assert_int_eq(ps_http_create(&options, &http, &error), PS_OK);

    ASSERT_BEGINS(request("GET", "/metrics"), "HTTP/1.1 500 ");
    ASSERT_BEGINS(request("GET", "/metrics"), "HTTP/1.1 200 ");

    ps_http_destroy(http);
    http = NULL;
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(promtool_accepts_the_page_as_served)
{
    if (system("command -v promtool >/dev/null") != 0)
        return;

    FILE *promtool = popen("promtool check metrics 2>&1", "w");
    ck_assert_ptr_nonnull(promtool);
    ck_assert_int_ge(fputs(body_of(request("GET", "/metrics")), promtool), 0);

    ck_assert_int_eq(pclose(promtool), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("http");
    TCase *tests = tcase_create("http");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, metrics_are_served_in_their_format);
    tcase_add_test(tests, live_says_yes_or_no);
    tcase_add_test(tests, ready_says_why_not);
    tcase_add_test(tests, index_links_to_the_pages);
    tcase_add_test(tests, query_does_not_matter);
    tcase_add_test(tests, head_has_no_body);
    tcase_add_loop_test(tests, other_paths_are_not_found, 0, 5);
    tcase_add_loop_test(tests, other_methods_are_refused, 0, 4);
    tcase_add_loop_test(tests, garbage_does_no_harm, 0, 4);
    tcase_add_test(tests, header_larger_than_a_connection_may_hold_is_refused);
    tcase_add_test(tests, silent_connections_make_room_for_who_asks);
    tcase_add_test(tests, bound_port_is_taken);
    tcase_add_loop_test(tests, addresses_that_are_none_are_refused, 0, 5);
    tcase_add_test(tests, address_without_a_host_is_every_interface);
    tcase_add_test(tests, refused_allocation_is_told);
    tcase_add_test(tests, page_without_memory_is_an_error_of_the_server);
    tcase_add_test(tests, promtool_accepts_the_page_as_served);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
