/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient and a real server on the emulated device: gradients and parameters that are in the
 * device's memory, in two processes. Whoever touches such memory and is not the device ends with a
 * fault (optimizer/emulator/emulated_share.h), on either side. */
#include "client/psclient_device.h"
#include "tests/integration/client/live_rig.h"

#include "expect_each.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Above what is gathered, and above a slot of the ring, with an odd end. */
#define COUNT 1500007
#define TURNS 6
#define KILLS 5

static struct psclient_device *device;
static float values[COUNT], gradient[COUNT];
static void *there, *room;

static struct psclient_parameter parameter(void *content)
{
    return (struct psclient_parameter){
        .name = "w", .type = PSCLIENT_FLOAT32, .content = content, .content_size = sizeof values};
}

static void fill(float value)
{
    for (size_t i = 0; i < COUNT; i++)
        gradient[i] = value * (float)(i % 1000);
}

/* Also what stands in the middle of a piece. */
static void begin(bool journal, const char *option, const char *value)
{
    temp_folder_init(&folder);
    struct psclient_parameter w = parameter(values);
    start_server("127.0.0.1:0", journal, option, value);
    client = open_one(&(struct psclient_options){0});
    initialise(&w, 1);
    expect_ok(psclient_device_load(DEVICE_PLUGIN, &device, &error));
    expect_ok(psclient_device_acquire(device, sizeof gradient + 256, &there, &error));
    expect_ok(psclient_device_acquire(device, sizeof values + 256, &room, &error));
}

static void end(void)
{
    psclient_device_release(device, there);
    psclient_device_release(device, room);
    psclient_device_unload(device);
    finish();
}

static uint8_t *inside(void *piece, size_t offset)
{
    return (uint8_t *)piece + offset;
}

static int push_there(size_t offset, uint64_t timeout_ms)
{
    const struct psclient_gradient w = {.name = "w",
                                        .type = PSCLIENT_FLOAT32,
                                        .content = inside(there, offset),
                                        .content_size = sizeof gradient};
    expect_ok(
        psclient_device_copy_in(device, inside(there, offset), gradient, sizeof gradient, &error));
    return psclient_push_device(client, device, &w, 1, timeout_ms, NULL, &error);
}

static int push_here(void)
{
    const struct psclient_gradient w = {.name = "w",
                                        .type = PSCLIENT_FLOAT32,
                                        .content = gradient,
                                        .content_size = sizeof gradient};
    return psclient_push(client, &w, 1, LONG_MS, NULL, &error);
}

static uint64_t pull_there(void)
{
    struct psclient_parameter w = parameter(inside(room, 128));
    expect_ok(psclient_pull_device(client, device, &w, 1, LONG_MS, NULL, &error));
    expect_ok(psclient_device_copy_out(device, values, inside(room, 128), sizeof values, &error));
    return w.version;
}

static uint64_t pull_here(void)
{
    struct psclient_parameter w = parameter(values);
    expect_ok(psclient_pull(client, &w, 1, LONG_MS, NULL, &error));
    return w.version;
}

static void expect_ramp(float slope)
{
    expect_each(i, COUNT, values[i] == slope * (float)(i % 1000));
}

START_TEST(gradients_and_values_stay_on_the_device)
{
    begin(false, "--device", "emu");
    pull_here(); /* by this the client learns of the server's socket */
    fill(-1);
    for (int turn = 1; turn <= TURNS; turn++) {
        expect_ok(push_there(256, LONG_MS));
        ck_assert_uint_eq(pull_there(), (uint64_t)turn);
        expect_ramp((float)turn);
    }
    ck_assert_uint_eq(psclient_device_bytes(client), 2 * TURNS * sizeof values);
    end();
}
END_TEST

/* The same pushes from the host's memory, by another client of another server. */
START_TEST(bits_are_those_of_pushes_from_the_host)
{
    static float here[COUNT];
    for (int way = 0; way < 2; way++) {
        begin(_i == 1, "--device", "emu");
        (void)pull_here();
        for (int turn = 1; turn <= TURNS; turn++) {
            for (size_t i = 0; i < COUNT; i++)
                gradient[i] = 0.3f * (values[i] - (float)i / 7.0f);
            if (way == 0)
                expect_ok(push_there(0, LONG_MS));
            else
                expect_ok(push_here());
            ck_assert_uint_eq(way == 0 ? pull_there() : pull_here(), (uint64_t)turn);
        }
        ck_assert((psclient_device_bytes(client) > 0) == (way == 0));
        if (way == 0)
            memcpy(here, values, sizeof here);
        end();
    }
    ck_assert_mem_eq(here, values, sizeof here);
}
END_TEST

/* What cannot go on the device goes by way of the host, and counts once. */
static const struct {
    const char *option, *value;
    size_t offset;  /* of the gradient in its piece */
    bool on_device; /* the server still reads the piece */
} other_ways[] = {
    {"--device", "cpu", 0, false},           /* no device */
    {"--shared-memory", "off", 0, false},    /* no socket */
    {"--device-min-bytes", "1GiB", 0, true}, /* the parameter is the host's */
    {"--message-bytes", "2MiB", 4, false},   /* and too large to be copied */
    {NULL, NULL, 4, true},                   /* the kernels want another alignment */
};

START_TEST(what_a_server_cannot_reach_goes_by_way_of_the_host)
{
    setenv("PSERVER_DEVICE", "emu", 1);
    begin(false, other_ways[_i].option, other_ways[_i].value);
    (void)pull_here();
    fill(-1);
    for (int turn = 1; turn <= TURNS; turn++) {
        expect_ok(push_there(other_ways[_i].offset, LONG_MS));
        ck_assert_uint_eq(pull_there(), (uint64_t)turn);
        expect_ramp((float)turn);
    }
    bool on_device = psclient_device_bytes(client) > 0;
    if (_i != 3)
        ck_assert_int_eq(on_device, other_ways[_i].on_device);
    end();
}
END_TEST

START_TEST(memory_that_has_no_name_goes_by_way_of_the_host)
{
    begin(false, "--device", "emu");
    const struct psclient_gradient w = {.name = "w",
                                        .type = PSCLIENT_FLOAT32,
                                        .content = gradient,
                                        .content_size = sizeof gradient};
    fill(-1);
    /* The emulator, as a card, copies nothing that is not the device's. */
    ck_assert_int_eq(psclient_push_device(client, device, &w, 1, LONG_MS, NULL, &error),
                     PSCLIENT_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "a device's memory"));
    ck_assert_uint_eq(pull_there(), 0);
    end();
}
END_TEST

START_TEST(wrong_gradients_are_refused_in_the_words_of_the_host)
{
    struct psclient_gradient w = {
        .name = "w", .type = PSCLIENT_FLOAT32, .content_size = sizeof gradient};
    struct psclient_result result;
    begin(false, "--device", "emu");
    (void)pull_here();
    w.content = there;
    w.content_size -= 4;
    ck_assert_int_eq(psclient_push_device(client, device, &w, 1, LONG_MS, &result, &error),
                     PSCLIENT_INVALID);
    ck_assert_ptr_nonnull(strstr(result.text, "same content len"));
    w.content_size += 4;
    w.name = "nothing";
    ck_assert_int_eq(psclient_push_device(client, device, &w, 1, LONG_MS, &result, &error),
                     PSCLIENT_NOT_FOUND);
    w.name = "w";
    /* It ends behind its piece. */
    w.content = inside(there, 8192);
    ck_assert_int_ne(psclient_push_device(client, device, &w, 1, LONG_MS, &result, &error),
                     PSCLIENT_OK);
    w.content = NULL;
    ck_assert_int_eq(psclient_push_device(client, device, &w, 1, LONG_MS, &result, &error),
                     PSCLIENT_INVALID);
    fill(-1);
    gradient[COUNT - 1] = NAN;
    ck_assert_int_eq(push_there(0, LONG_MS), PSCLIENT_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "element 1500006 is not finite"));
    ck_assert_uint_eq(pull_there(), 0);
    end();
}
END_TEST

/* ---- Kills ---- */

/* What is in the memory, as it is. */
static bool push_what_is_there(void *argument)
{
    const struct psclient_gradient w = {
        .name = "w", .type = PSCLIENT_FLOAT32, .content = there, .content_size = sizeof gradient};
    (void)argument;
    return psclient_push_device(client, device, &w, 1, LONG_MS, NULL, &error) == PSCLIENT_OK;
}

/* Under one number each, whichever way it went before and after. */
START_TEST(acknowledged_pushes_count_once_when_the_server_is_killed)
{
    char address[64];
    begin(true, "--device", "emu");
    strcpy(address, server.address);
    fill(-1);
    expect_ok(push_there(0, LONG_MS));
    begin_steps(push_what_is_there, NULL);
    for (int kills = 0; kills < KILLS; kills++) {
        await_steps(4);
        pserver_process_kill(&server);
        start_server(address, true, "--device", "emu");
    }
    uint64_t before = psclient_device_bytes(client);
    for (int i = 0; i < 200 && psclient_device_bytes(client) == before; i++)
        await_steps(1);
    ck_assert_uint_gt(psclient_device_bytes(client), before);
    uint64_t acknowledged = 1 + end_steps();
    ck_assert_uint_eq(pull_there(), acknowledged);
    expect_ramp((float)acknowledged);
    end();
}
END_TEST

START_TEST(a_killed_clients_pieces_are_let_go_of_and_the_server_lives)
{
    begin(false, "--device", "emu");
    fill(-1);
    kill_another_client(); /* which pushes through its memory by then */

    await_log("a client's memory is given back");

    uint64_t version = pull_there();
    expect_ok(push_there(0, LONG_MS));
    ck_assert_uint_eq(pull_there(), version + 1);
    expect_ramp((float)(version + 1));
    end();
}
END_TEST

/* The other client of that test. */
static int push_for_ever(const char *address)
{
    const struct psclient_options options = {.servers = address};
    const struct psclient_gradient w = {
        .name = "w", .type = PSCLIENT_FLOAT32, .content_size = sizeof gradient};
    struct psclient_gradient mine = w;
    if (psclient_open(&options, &client, &error) != PSCLIENT_OK ||
        psclient_device_load(DEVICE_PLUGIN, &device, &error) != PSCLIENT_OK ||
        psclient_device_acquire(device, sizeof gradient, &there, &error) != PSCLIENT_OK)
        return EXIT_FAILURE;
    fill(-1);
    mine.content = there;
    if (psclient_device_copy_in(device, there, gradient, sizeof gradient, &error) != PSCLIENT_OK)
        return EXIT_FAILURE;
    for (bool told = false;
         psclient_push_device(client, device, &mine, 1, LONG_MS, NULL, &error) == PSCLIENT_OK;)
        if (!told && psclient_device_bytes(client) > 3 * sizeof gradient)
            told = write(STDOUT_FILENO, "!", 1) == 1;
    return EXIT_FAILURE;
}

/* ---- The end of a piece ---- */

START_TEST(a_stopped_server_keeps_the_memory_and_says_when_it_is_free)
{
    begin(false, "--device", "emu");
    (void)pull_here();
    fill(-1);
    expect_ok(push_there(0, LONG_MS));
    stop_server();
    ck_assert_int_eq(push_there(0, 100), PSCLIENT_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(error.text, "the server may still use the memory"));
    ck_assert_int_eq(psclient_device_forget(client, device, there, 100, &error),
                     PSCLIENT_UNAVAILABLE);
    kill(server.pid, SIGCONT);
    expect_ok(psclient_device_forget(client, device, there, LONG_MS, &error));
    uint64_t version = pull_there(); /* that push was applied, or it was not */
    ck_assert(version == 1 || version == 2);
    expect_ramp((float)version);
    expect_ok(push_there(0, LONG_MS));
    ck_assert_uint_eq(pull_there(), version + 1);
    expect_ramp((float)(version + 1));
    end();
}
END_TEST

/* More pieces than a server takes of one process: the oldest make way, and every push is applied.
 * */
START_TEST(more_pieces_than_there_is_room_for_take_turns)
{
    enum { PIECES = 80, SMALL = 20000 };
    static void *pieces[PIECES];
    static float small[SMALL];
    struct psclient_parameter p = {
        .name = "s", .type = PSCLIENT_FLOAT32, .content = small, .content_size = sizeof small};
    begin(false, "--device", "emu");
    expect_ok(psclient_define(client, &p, 1, LONG_MS, NULL, &error));
    (void)pull_here();
    for (size_t i = 0; i < SMALL; i++)
        gradient[i] = -1;
    for (int turn = 0; turn < 2; turn++)
        for (size_t k = 0; k < PIECES; k++) {
            if (turn == 0)
                expect_ok(psclient_device_acquire(device, sizeof small, &pieces[k], &error));
            const struct psclient_gradient g = {.name = "s",
                                                .type = PSCLIENT_FLOAT32,
                                                .content = pieces[k],
                                                .content_size = sizeof small};
            expect_ok(psclient_device_copy_in(device, pieces[k], gradient, sizeof small, &error));
            expect_ok(psclient_push_device(client, device, &g, 1, LONG_MS, NULL, &error));
        }
    expect_ok(psclient_pull(client, &p, 1, LONG_MS, NULL, &error));
    ck_assert_uint_eq(p.version, 2 * PIECES);
    expect_each(i, SMALL, small[i] == 2 * PIECES);
    for (size_t k = 0; k < PIECES; k++)
        psclient_device_release(device, pieces[k]);
    end();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        return push_for_ever(argv[1]);
    Suite *suite = suite_create("psclient_device");
    TCase *tests = tcase_create("psclient_device");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, gradients_and_values_stay_on_the_device);
    tcase_add_loop_test(tests, bits_are_those_of_pushes_from_the_host, 0, 2);
    tcase_add_loop_test(tests, what_a_server_cannot_reach_goes_by_way_of_the_host, 0, 5);
    tcase_add_test(tests, memory_that_has_no_name_goes_by_way_of_the_host);
    tcase_add_test(tests, wrong_gradients_are_refused_in_the_words_of_the_host);
    tcase_add_test(tests, acknowledged_pushes_count_once_when_the_server_is_killed);
    tcase_add_test(tests, a_killed_clients_pieces_are_let_go_of_and_the_server_lives);
    tcase_add_test(tests, a_stopped_server_keeps_the_memory_and_says_when_it_is_free);
    tcase_add_test(tests, more_pieces_than_there_is_room_for_take_turns);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
