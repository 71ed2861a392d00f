/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer/emulator/stream_emulator.c: each stream in its order, all of them by lot. */
#include "optimizer/emulator/stream_emulator.h"

#include "optimizer/device/fault.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_stream_emulator emulator;

static void begin(uint64_t seed)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_stream_emulator_init(&emulator, &memory, seed);
}

static void end(void)
{
    ps_stream_emulator_fini(&emulator);
    ck_assert_int_eq(heap.live, 0);
}

/* Puts a copy of `*from` to `*to`. */
static int put_copy(struct ps_driver_stream *stream, int *to, const int *from)
{
    const struct ps_stream_work work = {
        .kind = PS_WORK_COPY, .to = to, .from = from, .size = sizeof *to};
    return ps_stream_emulator_put(&emulator, stream, &work);
}

static int put_event(struct ps_driver_stream *stream, enum ps_work_kind kind,
                     struct ps_driver_event *event)
{
    const struct ps_stream_work work = {.kind = kind, .event = event};
    return ps_stream_emulator_put(&emulator, stream, &work);
}

START_TEST(one_stream_runs_in_order)
{
    const int values[] = {1, 2, 3};
    int seen = 0;
    begin((uint64_t)_i);
    struct ps_driver_stream *stream = ps_stream_emulator_add(&emulator);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(put_copy(stream, &seen, &values[i]), 0);
    ck_assert_int_eq(seen, 0);

    ck_assert_int_eq(ps_stream_emulator_finish(&emulator), 0);

    ck_assert_int_eq(seen, 3);
    end();
}
END_TEST

/* What a stream would read before its time is still there for one seed or another. */
START_TEST(without_a_wait_two_streams_run_in_either_order_and_with_it_in_one)
{
    const int value = 5;
    int early = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        for (int waits = 0; waits < 2; waits++) {
            struct ps_driver_event event = {0};
            int middle = 0;
            int last = 0;
            begin(seed);
            struct ps_driver_stream *first = ps_stream_emulator_add(&emulator);
            struct ps_driver_stream *second = ps_stream_emulator_add(&emulator);
            ck_assert_int_eq(put_copy(first, &middle, &value), 0);
            ck_assert_int_eq(put_event(first, PS_WORK_RECORD, &event), 0);
            if (waits == 1)
                ck_assert_int_eq(put_event(second, PS_WORK_WAIT, &event), 0);
            ck_assert_int_eq(put_copy(second, &last, &middle), 0);
            ck_assert_int_eq(ps_stream_emulator_finish(&emulator), 0);
            early += waits == 0 && last == 0;
            ck_assert(waits == 0 || last == value);
            end();
        }
    }
    ck_assert_int_gt(early, 5);
    ck_assert_int_lt(early, 55);
}
END_TEST

START_TEST(no_more_runs_than_somebody_waits_for)
{
    const int value = 5;
    int before = 0;
    int behind = 0;
    struct ps_driver_event event = {0};
    begin(1);
    struct ps_driver_stream *stream = ps_stream_emulator_add(&emulator);
    ck_assert_int_eq(put_copy(stream, &before, &value), 0);
    ck_assert_int_eq(put_event(stream, PS_WORK_RECORD, &event), 0);
    ck_assert_int_eq(put_copy(stream, &behind, &value), 0);

    ck_assert_int_eq(ps_stream_emulator_run_until(&emulator, &event), 0);

    ck_assert_int_eq(before, 5);
    ck_assert_int_eq(behind, 0);
    end();
}
END_TEST

START_TEST(an_event_that_was_never_recorded_is_not_waited_for)
{
    const int value = 5;
    int seen = 0;
    struct ps_driver_event event = {0};
    begin(1);
    struct ps_driver_stream *stream = ps_stream_emulator_add(&emulator);
    ck_assert_int_eq(put_event(stream, PS_WORK_WAIT, &event), 0);
    ck_assert_int_eq(put_copy(stream, &seen, &value), 0);

    ck_assert_int_eq(ps_stream_emulator_run_until(&emulator, &event), 0);
    ck_assert_int_eq(ps_stream_emulator_finish(&emulator), 0);

    ck_assert_int_eq(seen, 5);
    end();
}
END_TEST

/* A wait is for the records made before it, not for those that follow. */
START_TEST(a_record_made_after_a_wait_does_not_hold_it)
{
    const int value = 5;
    int seen = 0;
    struct ps_driver_event event = {0};
    struct ps_driver_event done = {0};
    begin((uint64_t)_i);
    struct ps_driver_stream *first = ps_stream_emulator_add(&emulator);
    struct ps_driver_stream *second = ps_stream_emulator_add(&emulator);
    ck_assert_int_eq(put_event(first, PS_WORK_RECORD, &event), 0);
    ck_assert_int_eq(put_event(second, PS_WORK_WAIT, &event), 0);
    ck_assert_int_eq(put_copy(second, &seen, &value), 0);
    ck_assert_int_eq(put_event(second, PS_WORK_RECORD, &done), 0);
    const struct ps_stream_work endless = {.kind = PS_WORK_FILL, .hangs = true};
    ck_assert_int_eq(ps_stream_emulator_put(&emulator, first, &endless), 0);
    ck_assert_int_eq(put_event(first, PS_WORK_RECORD, &event), 0);

    ck_assert_int_eq(ps_stream_emulator_run_until(&emulator, &done), 0);

    ck_assert_int_eq(seen, 5);
    ck_assert_int_eq(ps_stream_emulator_run_until(&emulator, &event), PS_FAULT_NOT_READY);
    end();
}
END_TEST

START_TEST(a_kernel_that_breaks_ends_everything_with_its_number)
{
    const int value = 5;
    int seen = 0;
    const struct ps_stream_work broken = {.kind = PS_WORK_FILL, .breaks = 700};
    begin(1);
    struct ps_driver_stream *stream = ps_stream_emulator_add(&emulator);
    ck_assert_int_eq(ps_stream_emulator_put(&emulator, stream, &broken), 0);
    ck_assert_int_eq(put_copy(stream, &seen, &value), 0);

    ck_assert_int_eq(ps_stream_emulator_finish(&emulator), 700);
    ck_assert_int_eq(ps_stream_emulator_finish(&emulator), 700);
    ck_assert_int_eq(put_copy(stream, &seen, &value), 700);

    ck_assert_int_eq(seen, 0);
    end();
}
END_TEST

START_TEST(there_are_so_many_streams_and_no_more)
{
    begin(1);
    for (int i = 0; i < PS_EMULATED_STREAMS_MAX; i++)
        ck_assert_ptr_nonnull(ps_stream_emulator_add(&emulator));
    ck_assert_ptr_null(ps_stream_emulator_add(&emulator));
    end();
}
END_TEST

START_TEST(a_refused_piece_of_work_changes_nothing)
{
    struct ps_driver_event event = {0};
    begin(1);
    struct ps_driver_stream *stream = ps_stream_emulator_add(&emulator);
    heap.refuse_at = heap.seen;

    ck_assert_int_ne(put_event(stream, PS_WORK_RECORD, &event), 0);

    ck_assert_uint_eq(event.recorded, 0);
    ck_assert_int_eq(ps_stream_emulator_finish(&emulator), 0);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream_emulator");
    TCase *tests = tcase_create("stream_emulator");
    tcase_add_loop_test(tests, one_stream_runs_in_order, 0, 10);
    tcase_add_test(tests, without_a_wait_two_streams_run_in_either_order_and_with_it_in_one);
    tcase_add_test(tests, no_more_runs_than_somebody_waits_for);
    tcase_add_test(tests, an_event_that_was_never_recorded_is_not_waited_for);
    tcase_add_loop_test(tests, a_record_made_after_a_wait_does_not_hold_it, 0, 20);
    tcase_add_test(tests, a_kernel_that_breaks_ends_everything_with_its_number);
    tcase_add_test(tests, there_are_so_many_streams_and_no_more);
    tcase_add_test(tests, a_refused_piece_of_work_changes_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
