/* SPDX-License-Identifier: Apache-2.0 */
/* server/replay_pool.c: many threads, and still one order for each parameter. */
#include "server/replay_pool.h"

#include "base/thread.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS 16
#define THREADS 4

/* Stands where the service would. */
struct target {
    uint64_t last[PARAMETERS]; /* version; each belongs to the thread of its parameter */
    _Atomic uint64_t applied;
    _Atomic uint64_t disordered;
    uint64_t fail_at; /* version at which parameter 0 is refused; 0: never */
    struct ps_mutex mutex;
    struct ps_condition changed;
    bool held; /* nobody gets through */
};

static struct target target;
static struct ps_replay_pool *pool;
static struct ps_replay_sink sink;
static struct ps_error error;

/* Counts what is alive, from any thread. */
static _Atomic int64_t live;

static void *counted(void *self, size_t size)
{
    (void)self;
    atomic_fetch_add(&live, 1);
    return calloc(1, size > 0 ? size : 1);
}

static void uncounted(void *self, void *memory)
{
    (void)self;
    if (memory != NULL)
        atomic_fetch_sub(&live, 1);
    free(memory);
}

static const struct ps_allocator memory = {counted, counted, uncounted, NULL};

static enum ps_status apply(void *self, const struct ps_record *record, struct ps_error *reason)
{
    struct target *to = self;
    size_t i = (size_t)atoi((const char *)record->name.data + 1);
    ps_mutex_lock(&to->mutex);
    while (to->held)
        (void)ps_condition_wait(&to->changed, &to->mutex, PS_DEADLINE_NEVER);
    ps_mutex_unlock(&to->mutex);
    if (i == 0 && to->fail_at != 0 && record->version == to->fail_at)
        return ps_fail(reason, PS_ERR_CORRUPT, "refused at %d", (int)record->version);
    if (record->version != to->last[i] + 1)
        atomic_fetch_add(&to->disordered, 1);
    to->last[i] = record->version;
    atomic_fetch_add(&to->applied, 1);
    return PS_OK;
}

static void hold(bool held)
{
    ps_mutex_lock(&target.mutex);
    target.held = held;
    ps_condition_signal_all(&target.changed);
    ps_mutex_unlock(&target.mutex);
}

static void begin_with(uint32_t thread_count)
{
    const struct ps_replay_pool_options options = {
        .memory = &memory, .thread_count = thread_count, .apply = apply, .self = &target};
    memset(&target, 0, sizeof target);
    memset(&error, 0, sizeof error);
    ps_mutex_init(&target.mutex, PS_RANK_QUEUE);
    ps_condition_init(&target.changed);
    ck_assert_int_eq(ps_replay_pool_create(&options, &pool, &error), PS_OK);
    sink = ps_replay_pool_sink(pool);
}

static void end(void)
{
    ps_replay_pool_destroy(pool);
    ps_condition_fini(&target.changed);
    ps_mutex_fini(&target.mutex);
    ck_assert_int_eq(atomic_load(&live), 0);
}

static enum ps_status put_typed(enum ps_record_type type, size_t parameter, uint64_t version,
                                size_t claimed_bytes)
{
    struct ps_journal_row row = {.memory = &memory, .record.type = type};
    uint8_t *block = ps_zeroed(&memory, 64);
    int length = snprintf((char *)block, 64, "p%zu", parameter);
    row.block = block;
    row.piece = (struct ps_bytes){block, claimed_bytes};
    row.record.name = (struct ps_bytes){block, (size_t)length};
    row.record.version = version;
    row.record.content = ps_view_of(&row.piece);
    enum ps_status status = sink.put(sink.self, &row, &error);
    ps_journal_row_release(&row);
    return status;
}

static enum ps_status put_sized(size_t parameter, uint64_t version, size_t claimed_bytes)
{
    return put_typed(PS_RECORD_PUSH, parameter, version, claimed_bytes);
}

static enum ps_status put(size_t parameter, uint64_t version)
{
    return put_sized(parameter, version, 8);
}

static void put_all(uint64_t versions)
{
    for (uint64_t version = 1; version <= versions; version++)
        for (size_t i = 0; i < PARAMETERS; i++)
            ck_assert_int_eq(put(i, version), PS_OK);
}

static const uint32_t thread_counts[] = {1, 2, THREADS, PS_REPLAY_THREADS_MAX};

START_TEST(records_of_a_parameter_are_applied_in_their_order)
{
    begin_with(thread_counts[_i]);

    put_all(500);

    ck_assert_int_eq(sink.finish(sink.self, &error), PS_OK);
    ck_assert_uint_eq(atomic_load(&target.applied), 500 * PARAMETERS);
    ck_assert_uint_eq(atomic_load(&target.disordered), 0);
    end();
}
END_TEST

START_TEST(a_pool_may_be_used_again_behind_its_finish)
{
    begin_with(thread_counts[_i]);
    put_all(3);
    ck_assert_int_eq(sink.finish(sink.self, &error), PS_OK);
    memset(target.last, 0, sizeof target.last);

    put_all(3);

    ck_assert_int_eq(sink.finish(sink.self, &error), PS_OK);
    ck_assert_uint_eq(atomic_load(&target.applied), 6 * PARAMETERS);
    ck_assert_uint_eq(atomic_load(&target.disordered), 0);
    end();
}
END_TEST

START_TEST(a_finish_without_a_put_is_fine)
{
    begin_with(thread_counts[_i]);

    ck_assert_int_eq(sink.finish(sink.self, &error), PS_OK);

    end();
}
END_TEST

START_TEST(a_failure_is_told_and_ends_the_parameter)
{
    uint64_t version = 1;
    begin_with(THREADS);
    target.fail_at = 5;

    while (version < 100000 && put(0, version) == PS_OK)
        version++;

    ck_assert_uint_lt(version, 100000);
    ck_assert_str_eq(error.text, "refused at 5");
    error = (struct ps_error){0};
    ck_assert_int_eq(sink.finish(sink.self, &error), PS_ERR_CORRUPT);
    ck_assert_str_eq(error.text, "refused at 5");
    ck_assert_uint_eq(target.last[0], 4);
    end();
}
END_TEST

START_TEST(a_failure_behind_the_last_put_is_told_by_finish)
{
    begin_with(THREADS);
    target.fail_at = 2;
    hold(true);
    for (uint64_t version = 1; version <= 3; version++)
        ck_assert_int_eq(put(0, version), PS_OK);
    hold(false);

    ck_assert_int_eq(sink.finish(sink.self, &error), PS_ERR_CORRUPT);

    ck_assert_uint_eq(target.last[0], 1);
    end();
}
END_TEST

START_TEST(a_failure_is_forgotten_behind_finish)
{
    begin_with(THREADS);
    target.fail_at = 1;
    (void)put(0, 1);
    ck_assert_int_eq(sink.finish(sink.self, &error), PS_ERR_CORRUPT);
    target.fail_at = 0;

    ck_assert_int_eq(put(0, 1), PS_OK);

    ck_assert_int_eq(sink.finish(sink.self, &error), PS_OK);
    end();
}
END_TEST

START_TEST(without_threads_a_refused_row_stays_with_the_caller)
{
    begin_with(1);
    target.fail_at = 1;

    ck_assert_int_eq(put(0, 1), PS_ERR_CORRUPT);

    ck_assert_int_eq(sink.finish(sink.self, &error), PS_OK);
    end();
}
END_TEST

/* Puts until it is told to stop; `put_count` says how far it came. */
struct putter {
    size_t bytes;
    uint64_t count;
    _Atomic uint64_t put_count;
};

static void putter_main(void *argument)
{
    struct putter *putter = argument;
    for (uint64_t version = 1; version <= putter->count; version++) {
        ck_assert_int_eq(put_sized(1, version, putter->bytes), PS_OK);
        atomic_fetch_add(&putter->put_count, 1);
    }
}

/* With the target held, nothing is ever taken but one row: however long we looked, the putter
 * cannot be further than the bound. */
static void expect_bound(size_t bytes, uint64_t bound)
{
    struct putter putter = {.bytes = bytes, .count = bound + 20};
    struct ps_thread thread = {0};
    begin_with(2);
    hold(true);
    ck_assert_int_eq(ps_thread_start(&thread, "putter", putter_main, &putter, NULL), PS_OK);
    while (atomic_load(&putter.put_count) < bound)
        sched_yield();

    for (int i = 0; i < 1000; i++)
        ck_assert_uint_eq(atomic_load(&putter.put_count), bound);

    hold(false);
    ps_thread_join(&thread);
    ck_assert_int_eq(sink.finish(sink.self, &error), PS_OK);
    ck_assert_uint_eq(target.last[1], bound + 20);
    end();
}

/* With the target held a record that waited for the others would never be taken. */
START_TEST(clocks_go_beside_the_pushes_and_in_their_order)
{
    begin_with(THREADS);
    hold(true);
    ck_assert_int_eq(put(0, 1), PS_OK);
    ck_assert_int_eq(put_typed(PS_RECORD_CLOCK, 1, 1, 16), PS_OK);
    ck_assert_int_eq(put_typed(PS_RECORD_CLOCK, 1, 2, 16), PS_OK);
    hold(false);

    ck_assert_int_eq(sink.finish(sink.self, &error), PS_OK);
    ck_assert_uint_eq(target.last[1], 2);
    ck_assert_uint_eq(atomic_load(&target.disordered), 0);
    end();
}
END_TEST

/* What sets clocks may need the place of what was removed under another name: when it is put it is
 * applied, and so is all that was before it. */
START_TEST(settings_of_clocks_wait_for_what_is_before_them)
{
    begin_with(THREADS);
    for (size_t i = 0; i < PARAMETERS; i++)
        ck_assert_int_eq(put_typed(PS_RECORD_CLOCK, i, 1, 16), PS_OK);

    ck_assert_int_eq(put_typed(PS_RECORD_CLOCKS, 1, 2, 24), PS_OK);

    ck_assert_uint_eq(atomic_load(&target.applied), PARAMETERS + 1);
    ck_assert_int_eq(sink.finish(sink.self, &error), PS_OK);
    ck_assert_uint_eq(atomic_load(&target.disordered), 0);
    end();
}
END_TEST

START_TEST(rows_that_wait_are_bounded)
{
    expect_bound(8, PS_REPLAY_QUEUE_ROWS + 1);
}
END_TEST

START_TEST(bytes_that_wait_are_bounded)
{
    expect_bound(PS_REPLAY_BYTES_MAX / 4, 4);
}
END_TEST

START_TEST(a_record_above_the_bound_goes_alone)
{
    expect_bound(PS_REPLAY_BYTES_MAX + 1, 1);
}
END_TEST

START_TEST(memory_that_is_refused_is_said)
{
    struct fault_heap heap = {.refuse_at = 0};
    const struct ps_allocator refusing = fault_heap_allocator(&heap);
    const struct ps_replay_pool_options options = {
        .memory = &refusing, .thread_count = 2, .apply = apply, .self = &target};

    ck_assert_int_eq(ps_replay_pool_create(&options, &pool, &error), PS_ERR_NO_MEMORY);

    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replay_pool");
    TCase *tests = tcase_create("replay_pool");
    int counts = (int)(sizeof thread_counts / sizeof thread_counts[0]);
    tcase_add_loop_test(tests, records_of_a_parameter_are_applied_in_their_order, 0, counts);
    tcase_add_loop_test(tests, a_pool_may_be_used_again_behind_its_finish, 0, counts);
    tcase_add_loop_test(tests, a_finish_without_a_put_is_fine, 0, counts);
    tcase_add_test(tests, a_failure_is_told_and_ends_the_parameter);
    tcase_add_test(tests, a_failure_behind_the_last_put_is_told_by_finish);
    tcase_add_test(tests, a_failure_is_forgotten_behind_finish);
    tcase_add_test(tests, without_threads_a_refused_row_stays_with_the_caller);
    tcase_add_test(tests, clocks_go_beside_the_pushes_and_in_their_order);
    tcase_add_test(tests, settings_of_clocks_wait_for_what_is_before_them);
    tcase_add_test(tests, rows_that_wait_are_bounded);
    tcase_add_test(tests, bytes_that_wait_are_bounded);
    tcase_add_test(tests, a_record_above_the_bound_goes_alone);
    tcase_add_test(tests, memory_that_is_refused_is_said);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
