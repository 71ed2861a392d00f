/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/emulator/driver_emulator.c: memory, faults and queued work. */
#include "optimizer/device/driver.h"
#include "optimizer/device/fault.h"
#include "optimizer/emulator/emulator.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_driver driver;

static void begin(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    const struct ps_device_options options = {.memory = &memory};
    ck_assert_int_eq(ps_driver_open(&options, &driver), 0);
}

static void end(void)
{
    driver.close(driver.self);
    ck_assert_int_eq(heap.live, 0);
}

static uint64_t free_bytes(void)
{
    uint64_t bytes = 0;
    ck_assert_int_eq(driver.memory_free(driver.self, &bytes), 0);
    return bytes;
}

START_TEST(memory_is_given_out_full_of_garbage_and_counted)
{
    void *piece = NULL;
    begin();
    uint64_t before = free_bytes();

    ck_assert_int_eq(driver.device_acquire(driver.self, 1000, &piece), 0);

    ck_assert_uint_eq(free_bytes(), before - 1000);
    ck_assert_uint_eq(ps_emulator_memory_used(driver.self), 1000);
    ck_assert_uint_eq(ps_emulator_memory_count(driver.self), 1);
    for (size_t i = 0; i < 1000; i++)
        ck_assert_uint_ne(((const uint8_t *)piece)[i], 0);
    ck_assert_int_eq(driver.device_release(driver.self, piece), 0);
    ck_assert_uint_eq(free_bytes(), before);
    end();
}
END_TEST

START_TEST(pieces_go_back_in_any_order)
{
    void *pieces[3];
    begin();
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(driver.device_acquire(driver.self, 100 + i, &pieces[i]), 0);

    ck_assert_int_eq(driver.device_release(driver.self, pieces[1]), 0);
    ck_assert_int_eq(driver.device_release(driver.self, pieces[0]), 0);
    ck_assert_uint_eq(ps_emulator_memory_used(driver.self), 102);
    ck_assert_int_eq(driver.device_release(driver.self, pieces[2]), 0);

    ck_assert_uint_eq(ps_emulator_memory_used(driver.self), 0);
    end();
}
END_TEST

START_TEST(a_device_has_so_much_memory_and_no_more)
{
    void *piece = NULL;
    void *second = NULL;
    (void)setenv("PS_EMULATOR_MEMORY", "5000", 1);
    begin();
    ck_assert_int_eq(driver.device_acquire(driver.self, 5001, &piece), PS_FAULT_OUT_OF_MEMORY);
    ck_assert_int_eq(driver.device_acquire(driver.self, 5000, &piece), 0);
    ck_assert_int_eq(driver.device_acquire(driver.self, 1, &second), PS_FAULT_OUT_OF_MEMORY);
    ck_assert_int_eq(driver.device_release(driver.self, piece), 0);
    end();
}
END_TEST

START_TEST(the_piece_that_is_named_is_refused_once)
{
    void *piece = NULL;
    const struct ps_emulator_fault fault = {.memory_at = 2};
    begin();
    ps_emulator_arm(driver.self, &fault);

    for (int i = 1; i <= 3; i++) {
        int code = i == 2 ? driver.host_acquire(driver.self, 10, &piece)
                          : driver.device_acquire(driver.self, 10, &piece);
        ck_assert_int_eq(code, i == 2 ? PS_FAULT_OUT_OF_MEMORY : 0);
        if (code == 0)
            ck_assert_int_eq(driver.device_release(driver.self, piece), 0);
    }

    ck_assert_uint_eq(ps_emulator_memory_count(driver.self), 3);
    end();
}
END_TEST

START_TEST(work_runs_when_somebody_waits_and_not_when_somebody_looks)
{
    static const char from[] = "content";
    char to[sizeof from] = "";
    struct ps_driver_stream *stream = NULL;
    struct ps_driver_event *event = NULL;
    begin();
    ck_assert_int_eq(driver.stream_create(driver.self, &stream), 0);
    ck_assert_int_eq(driver.event_create(driver.self, &event), 0);
    ck_assert_int_eq(driver.event_query(driver.self, event), 0);
    ck_assert_int_eq(driver.copy(driver.self, to, from, sizeof from, PS_DRIVER_TO_DEVICE, stream),
                     0);
    ck_assert_int_eq(driver.record(driver.self, event, stream), 0);

    ck_assert_int_eq(driver.event_query(driver.self, event), PS_FAULT_NOT_READY);
    ck_assert_str_eq(to, "");
    ck_assert_int_eq(driver.event_synchronize(driver.self, event), 0);

    ck_assert_str_eq(to, "content");
    ck_assert_int_eq(driver.event_query(driver.self, event), 0);
    ck_assert_uint_eq(ps_emulator_copy_count(driver.self), 1);
    driver.event_destroy(driver.self, event);
    driver.stream_destroy(driver.self, stream);
    end();
}
END_TEST

/* As with cudaFree: what may still be written to is not given to somebody else. */
START_TEST(memory_goes_back_when_all_work_is_done)
{
    static const char from[] = "content";
    char to[sizeof from] = "";
    void *piece = NULL;
    struct ps_driver_stream *stream = NULL;
    begin();
    ck_assert_int_eq(driver.stream_create(driver.self, &stream), 0);
    ck_assert_int_eq(driver.device_acquire(driver.self, sizeof from, &piece), 0);
    ck_assert_int_eq(
        driver.copy(driver.self, piece, from, sizeof from, PS_DRIVER_TO_DEVICE, stream), 0);
    ck_assert_int_eq(driver.copy(driver.self, to, piece, sizeof from, PS_DRIVER_TO_HOST, stream),
                     0);

    ck_assert_int_eq(driver.device_release(driver.self, piece), 0);

    ck_assert_str_eq(to, "content");
    end();
}
END_TEST

START_TEST(a_kernel_that_breaks_is_the_answer_to_every_call_from_then_on)
{
    static float array[16];
    const struct ps_cuda_fill fill = {.dtype = PS_F32, .value = 2, .array = array, .count = 16};
    const struct ps_emulator_fault fault = {.launch_at = 2, .launch_code = 719};
    struct ps_driver_stream *stream = NULL;
    struct ps_driver_event *event = NULL;
    void *piece = NULL;
    void *second = NULL;
    begin();
    ck_assert_int_eq(driver.stream_create(driver.self, &stream), 0);
    ck_assert_int_eq(driver.event_create(driver.self, &event), 0);
    ck_assert_int_eq(driver.device_acquire(driver.self, 10, &piece), 0);
    ps_emulator_arm(driver.self, &fault);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(driver.fill(driver.self, &fill, stream), 0);
    ck_assert_int_eq(driver.record(driver.self, event, stream), 0);
    ck_assert_int_eq(driver.enter(driver.self), 0);

    ck_assert_int_eq(driver.event_synchronize(driver.self, event), 719);

    ck_assert(array[15] == 2.0F);
    ck_assert_int_eq(driver.enter(driver.self), 719);
    ck_assert_int_eq(driver.event_query(driver.self, event), 719);
    ck_assert_int_eq(driver.fill(driver.self, &fill, stream), 719);
    ck_assert_int_eq(driver.device_acquire(driver.self, 10, &second), 719);
    driver.event_destroy(driver.self, event);
    end(); /* the piece goes with the device */
}
END_TEST

START_TEST(a_step_is_read_when_its_kernel_is_launched)
{
    struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD, .learning_rate = {.rate = 1.0}};
    const struct ps_gradient_scan nothing = {0};
    static _Alignas(16) float values[4];
    static const _Alignas(16) float ones[4] = {1, 1, 1, 1};
    struct ps_optimizer_step step;
    struct ps_driver_stream *stream = NULL;
    struct ps_driver_event *event = NULL;
    ck_assert_int_eq(ps_optimizer_prepare(&sgd, PS_F32, 1, 0, &nothing, &step, NULL), PS_OK);
    begin();
    ck_assert_int_eq(driver.stream_create(driver.self, &stream), 0);
    ck_assert_int_eq(driver.event_create(driver.self, &event), 0);
    const struct ps_cuda_apply apply = {
        .step = &step, .run = {.count = 4, .values = values, .gradient = {.elements = ones}}};
    ck_assert_int_eq(driver.apply(driver.self, &apply, stream), 0);
    memset(&step, 0, sizeof step);
    memset(&sgd, 0, sizeof sgd);
    ck_assert_int_eq(driver.record(driver.self, event, stream), 0);

    ck_assert_int_eq(driver.event_synchronize(driver.self, event), 0);

    ck_assert(values[0] == -1.0F && values[3] == -1.0F);
    driver.event_destroy(driver.self, event);
    end();
}
END_TEST

START_TEST(devices_are_counted_by_the_environment)
{
    const struct ps_device_options second = {.ordinal = 1, .memory = ps_allocator_heap()};
    uint32_t count = 0;
    ck_assert_int_eq(ps_driver_count(&count), 0);
    ck_assert_uint_eq(count, 1);
    ck_assert_int_eq(ps_driver_open(&second, &driver), PS_FAULT_INVALID_DEVICE);
    (void)setenv("PS_EMULATOR_DEVICES", "2", 1);
    ck_assert_int_eq(ps_driver_open(&second, &driver), 0);
    driver.close(driver.self);
    (void)setenv("PS_EMULATOR_DEVICES", "0", 1);
    ck_assert_int_eq(ps_driver_count(&count), PS_FAULT_NO_DEVICE);
}
END_TEST

START_TEST(faults_come_from_the_environment)
{
    void *piece = NULL;
    (void)setenv("PS_EMULATOR_FAIL", "memory:1", 1);
    begin();
    ck_assert_int_eq(driver.device_acquire(driver.self, 10, &piece), PS_FAULT_OUT_OF_MEMORY);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_emulator");
    TCase *tests = tcase_create("driver_emulator");
    tcase_add_test(tests, memory_is_given_out_full_of_garbage_and_counted);
    tcase_add_test(tests, pieces_go_back_in_any_order);
    tcase_add_test(tests, a_device_has_so_much_memory_and_no_more);
    tcase_add_test(tests, the_piece_that_is_named_is_refused_once);
    tcase_add_test(tests, work_runs_when_somebody_waits_and_not_when_somebody_looks);
    tcase_add_test(tests, memory_goes_back_when_all_work_is_done);
    tcase_add_test(tests, a_kernel_that_breaks_is_the_answer_to_every_call_from_then_on);
    tcase_add_test(tests, a_step_is_read_when_its_kernel_is_launched);
    tcase_add_test(tests, devices_are_counted_by_the_environment);
    tcase_add_test(tests, faults_come_from_the_environment);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
