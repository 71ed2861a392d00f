/* SPDX-License-Identifier: Apache-2.0 */
/* libpsclient and a real server on the emulated device: gradients and parameters that are in the
 * device's memory, in two processes. Whoever touches such memory and is not the device ends with a
 * fault (optimizer/emulator/emulated_share.h), on either side. */
#include "client/psclient_device.h"
#include "tests/integration/client/live_rig.h"

#include "expect_each.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Above what is gathered, and above a slot of the ring, with an odd end. */
#define COUNT 1500007
#define TURNS 6

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

int main(void)
{
    Suite *suite = suite_create("psclient_device");
    TCase *tests = tcase_create("psclient_device");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, gradients_and_values_stay_on_the_device);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
