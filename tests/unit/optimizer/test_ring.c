/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/device/ring.c: gradients that were looked at keep their slots until they are pushed;
 * whoever is to push one may wait for somebody who needs a slot himself. */
#include "base/clock.h"
#include "base/thread.h"
#include "optimizer/device.h"
#include "run_suite.h"

#include <check.h>

/* Four slots of 64 KiB: a gradient takes two. */
#define RING_BYTES (4 * (64u << 10))
#define COUNT 20011
#define LOOKERS 4
#define PUSHES 200

extern ps_device_entry_fn ps_device_entry;

static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD,
                                                 .learning_rate = {.rate = 1.0}};
static const float zeros[COUNT];
static const struct ps_bytes zero_bytes = {(const uint8_t *)zeros, sizeof zeros};

static const struct ps_device_plugin *plugin;
static struct ps_device *device;
static struct ps_device_parameter *parameter;
static struct ps_mutex lock;
static struct ps_condition let_go;
static bool may_go;

static void begin(void)
{
    const struct ps_device_options options = {.pinned_bytes = RING_BYTES,
                                              .memory = ps_allocator_heap()};
    const struct ps_device_parameter_wish wish = {
        .settings = &sgd, .dtype = PS_F32, .count = COUNT};
    ps_mutex_init(&lock, PS_RANK_LEAF);
    ps_condition_init(&let_go);
    plugin = ps_device_entry(PS_DEVICE_ABI);
    ck_assert_int_eq(plugin->open(&options, &device, NULL), PS_OK);
    ck_assert_int_eq(plugin->parameter_create(device, &wish, &parameter, NULL), PS_OK);
}

static void end(void)
{
    plugin->parameter_destroy(parameter);
    plugin->close(device);
    ps_condition_fini(&let_go);
    ps_mutex_fini(&lock);
}

static struct ps_device_judged *judge(void)
{
    struct ps_device_judged *judged = NULL;
    struct ps_gradient_scan scan;
    ck_assert_int_eq(plugin->judge(parameter, &sgd, ps_view_of(&zero_bytes), PS_ENCODING_NATIVE,
                                   &judged, &scan, NULL),
                     PS_OK);
    ck_assert(!scan.nonfinite);
    return judged;
}

static void judge_and_wait(void *argument)
{
    (void)argument;
    struct ps_device_judged *judged = judge();
    ps_mutex_lock(&lock);
    while (!may_go)
        (void)ps_condition_wait(&let_go, &lock, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&lock);
    plugin->judged_release(judged);
}

static void push_plainly(uint64_t number)
{
    const struct ps_gradient_scan nothing = {0};
    struct ps_optimizer_step step;
    struct ps_device_ticket ticket;
    ck_assert_int_eq(ps_optimizer_prepare(&sgd, PS_F32, number, 0, &nothing, &step, NULL), PS_OK);
    const struct ps_device_push push = {
        .parameter = parameter, .gradient = ps_view_of(&zero_bytes), .step = &step};
    ck_assert_int_eq(plugin->push(device, &push, 1, &ticket, NULL), PS_OK);
    ck_assert_int_eq(plugin->wait(device, ticket, NULL), PS_OK);
}

START_TEST(pushes_find_a_slot_while_many_gradients_wait_to_be_pushed)
{
    struct ps_thread lookers[LOOKERS] = {0};
    begin();
    struct ps_device_judged *judged = judge();
    for (size_t i = 0; i < LOOKERS; i++)
        ck_assert_int_eq(ps_thread_start(&lookers[i], "looker", judge_and_wait, NULL, NULL), PS_OK);

    for (uint64_t number = 1; number <= PUSHES; number++)
        push_plainly(number);

    ps_mutex_lock(&lock);
    may_go = true;
    ps_condition_signal_all(&let_go);
    ps_mutex_unlock(&lock);
    plugin->judged_release(judged);
    for (size_t i = 0; i < LOOKERS; i++)
        ps_thread_join(&lookers[i]);
    end();
}
END_TEST

/* What was refused, or given up, leaves the ring as it was. */
START_TEST(gradients_that_are_never_pushed_give_their_slots_back)
{
    begin();
    for (size_t i = 0; i < 10; i++)
        plugin->judged_release(judge());
    plugin->judged_release(NULL);
    push_plainly(1);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ring");
    TCase *tests = tcase_create("device_ring");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, pushes_find_a_slot_while_many_gradients_wait_to_be_pushed);
    tcase_add_test(tests, gradients_that_are_never_pushed_give_their_slots_back);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
