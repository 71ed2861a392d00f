/* SPDX-License-Identifier: Apache-2.0 */
/* A server that has run out of descriptors serves again when there are some. */
#include "server/front/front.h"

#include "rig.h"
#include "run_suite.h"

#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DESCRIPTORS = 64, CONNECTIONS = 150, WAIT_MS = 120000 };

/* The peer process: connects far too often, says so, holds on until told, and ends. */
struct flood {
    pid_t process;
    int to;
    int from;
};

static void flood_run(int in, int out)
{
    uint16_t port;
    char word;
    if (read(in, &port, sizeof port) != (ssize_t)sizeof port)
        _exit(1);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < CONNECTIONS; i++) {
        int connection = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(connection, (struct sockaddr *)&address, sizeof address);
    }
    (void)!write(out, "c", 1);
    (void)!read(in, &word, 1);
    _exit(0);
}

/* Before gRPC starts: it does not survive a fork. */
static struct flood flood_start(void)
{
    int down[2];
    int up[2];
    ck_assert_int_eq(pipe(down), 0);
    ck_assert_int_eq(pipe(up), 0);
    pid_t process = fork();
    ck_assert_int_ge(process, 0);
    if (process == 0) {
        (void)close(down[1]);
        (void)close(up[0]);
        flood_run(down[0], up[1]);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    return (struct flood){process, down[1], up[0]};
}

static void flood_connect(struct flood *flood, uint16_t port)
{
    char word;
    ck_assert_int_eq(write(flood->to, &port, sizeof port), sizeof port);
    ck_assert_int_eq(read(flood->from, &word, 1), 1);
}

static void flood_end(struct flood *flood)
{
    int status;
    (void)close(flood->to);
    (void)close(flood->from);
    ck_assert_int_eq(waitpid(flood->process, &status, 0), flood->process);
    ck_assert_int_eq(status, 0);
}

static void wait_for_drops(void)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    uint64_t deadline_ms = ps_deadline_after(ps_clock_real(), WAIT_MS);
    while (ps_front_count().dropped == 0 && ps_time_left_ms(ps_clock_real(), deadline_ms) > 0)
        (void)nanosleep(&pause, NULL);
    ck_assert_uint_gt(ps_front_count().dropped, 0);
}

/* Whoever shows the metrics asks, as often as he likes. */
static void expect_counted(struct rig *rig)
{
    const struct ps_counter *dropped =
        ps_metrics_counter(rig->metrics, "ps_rpc_dropped_connections_total", "", NULL);
    for (int i = 0; i < 2; i++) {
        uint64_t least = ps_front_count().dropped;
        ps_rpc_server_count(rig->server);
        ck_assert_uint_ge(ps_counter_value(dropped), least);
        ck_assert_uint_le(ps_counter_value(dropped), ps_front_count().dropped);
    }
    ck_assert_uint_gt(ps_counter_value(dropped), 0);
}

START_TEST(a_server_without_descriptors_serves_again)
{
    const struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    struct rig rig;
    struct flood flood = flood_start();
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    rig_start(&rig, &(struct rig_options){0});
    flood_connect(&flood, ps_rpc_server_port(rig.server));
    wait_for_drops();
    flood_end(&flood);

    for (int i = 0; i < 3; i++) {
        struct raw_answer answer;
        raw_call(&rig.client, ps_method_path(PS_METHOD_STATUS), (struct ps_bytes){NULL, 0}, WAIT_MS,
                 &answer);
        ck_assert_int_eq(answer.code, 0);
        raw_answer_release(&answer);
    }
    expect_counted(&rig);
    rig_stop(&rig);
}
END_TEST

START_TEST(the_trial_at_the_start_finds_that_connections_are_bounded)
{
    struct rig rig;
    rig_start(&rig, &(struct rig_options){0});

    const struct ps_gauge *guarded = ps_metrics_gauge(rig.metrics, "ps_front_guarded", "", NULL);

    ck_assert_double_eq(ps_gauge_value(guarded), 1);
    rig_stop(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("accept guard");
    TCase *tests = tcase_create("accept guard");
    tcase_add_test(tests, a_server_without_descriptors_serves_again);
    tcase_add_test(tests, the_trial_at_the_start_finds_that_connections_are_bounded);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
