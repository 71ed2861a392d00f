/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/device_wait.c: what waits too long is the device's death; what waits and is
 * answered is none. */
#include "optimizer/device.h"
#include "optimizer/device/device_wait.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 40
#define DIED 7 /* the code that a test of a hanging device ends with */

extern ps_device_entry_fn ps_device_entry;

struct death {
    struct ps_mutex lock;
    struct ps_condition met;
    char text[160];
};

static void note(void *self, const char *text)
{
    struct death *death = self;
    ps_mutex_lock(&death->lock);
    (void)strncpy(death->text, text, sizeof death->text - 1);
    ps_condition_signal_all(&death->met);
    ps_mutex_unlock(&death->lock);
}

static void open_watch(struct ps_watch *watch, struct ps_fault *fault, struct death *death)
{
    *death = (struct death){.text = ""};
    ps_mutex_init(&death->lock, PS_RANK_LEAF);
    ps_condition_init(&death->met);
    *fault = (struct ps_fault){.died = note, .self = death};
    ck_assert_int_eq(ps_watch_open(watch, fault, WAIT_MS, NULL), PS_OK);
}

/* False when the time is over first. */
static bool dies_within(struct death *death, uint64_t wait_ms)
{
    bool signalled = true;
    ps_mutex_lock(&death->lock);
    while (death->text[0] == '\0' && signalled)
        signalled = ps_condition_wait(&death->met, &death->lock, wait_ms);
    ps_mutex_unlock(&death->lock);
    return death->text[0] != '\0';
}

START_TEST(of_two_waits_the_one_that_has_no_end_is_named)
{
    struct ps_watch watch;
    struct ps_fault fault;
    struct death death;
    struct ps_wait long_one;
    struct ps_wait short_one;
    struct ps_error error = {0};
    open_watch(&watch, &fault, &death);
    ps_wait_begin(&watch, &long_one, "waiting for a slot");
    ps_wait_begin(&watch, &short_one, "reading");
    ps_wait_end(&watch, &short_one);

    ck_assert(dies_within(&death, 60000));

    ck_assert_str_eq(death.text, "the device failed: waiting for a slot: no answer within 40 ms "
                                 "(702)");
    ck_assert_int_eq(ps_fault_check(&fault, &error), PS_ERR_UNAVAILABLE);
    ck_assert_str_eq(error.text, death.text);
    ps_wait_end(&watch, &long_one);
    ps_watch_close(&watch);
}
END_TEST

START_TEST(waits_that_end_are_no_death_however_many)
{
    struct ps_watch watch;
    struct ps_fault fault;
    struct death death;
    struct ps_wait waits[3];
    open_watch(&watch, &fault, &death);
    for (size_t i = 0; i < 3000; i++) {
        if (i >= 3)
            ps_wait_end(&watch, &waits[i % 3]);
        ps_wait_begin(&watch, &waits[i % 3], "reading");
    }
    for (size_t i = 0; i < 3; i++)
        ps_wait_end(&watch, &waits[i]);

    ck_assert(!dies_within(&death, 2 * WAIT_MS));

    ps_watch_close(&watch);
}
END_TEST

static void end_here(void *self, const char *text)
{
    (void)self;
    _exit(strstr(text, ": no answer within 40 ms (702)") != NULL ? DIED : EXIT_FAILURE);
}

static struct ps_device *open_that_hangs(const struct ps_device_plugin *plugin)
{
    struct ps_device *device = NULL;
    const struct ps_device_options options = {
        .memory = ps_allocator_heap(), .wait_ms = WAIT_MS, .died = end_here};
    (void)setenv("PS_EMULATOR_FAIL", "hang:2", 1); /* the first is the probe's */
    ck_assert_int_eq(plugin->open(&options, &device, NULL), PS_OK);
    return device;
}

static struct ps_device_parameter *fill_parameter(const struct ps_device_plugin *plugin,
                                                  struct ps_device *device)
{
    const struct ps_optimizer_settings adagrad = {.rule = PS_RULE_ADAGRAD,
                                                  .learning_rate = {.rate = 0.1},
                                                  .epsilon = 1e-8,
                                                  .initial_accumulator = 0.1};
    const struct ps_device_parameter_wish wish = {
        .settings = &adagrad, .dtype = PS_F32, .count = 10};
    struct ps_device_parameter *parameter = NULL;
    ck_assert_int_eq(plugin->parameter_create(device, &wish, &parameter, NULL), PS_OK);
    return parameter;
}

/* The start of a state is the kernel that never ends; whoever reads waits for it. */
START_TEST(who_reads_from_a_device_that_hangs_does_not_wait_unseen)
{
    float seen[10];
    const struct ps_device_plugin *plugin = ps_device_entry(PS_DEVICE_ABI);
    struct ps_device *device = open_that_hangs(plugin);
    struct ps_device_parameter *parameter = fill_parameter(plugin, device);

    (void)!plugin->read(parameter, 1, 0, seen, sizeof seen, NULL);
}
END_TEST

/* Freeing waits for all that was queued. */
START_TEST(who_gives_memory_back_to_a_device_that_hangs_does_not_wait_unseen)
{
    const struct ps_device_plugin *plugin = ps_device_entry(PS_DEVICE_ABI);
    struct ps_device *device = open_that_hangs(plugin);
    struct ps_device_parameter *parameter = fill_parameter(plugin, device);

    plugin->parameter_destroy(parameter);
    plugin->close(device);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_wait");
    TCase *tests = tcase_create("device_wait");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, of_two_waits_the_one_that_has_no_end_is_named);
    tcase_add_test(tests, waits_that_end_are_no_death_however_many);
    tcase_add_exit_test(tests, who_reads_from_a_device_that_hangs_does_not_wait_unseen, DIED);
    tcase_add_exit_test(tests, who_gives_memory_back_to_a_device_that_hangs_does_not_wait_unseen,
                        DIED);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
