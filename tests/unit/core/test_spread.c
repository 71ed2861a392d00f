/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/spread.c: an update by several threads has the bits of one by one thread, refuses
 * what that refuses with the same words, and small ones are left to one thread. */
#include "server/core/update/spread.h"

#include "base/thread.h"
#include "optimizer/optimizer.h"
#include "run_suite.h"
#include "server/core/update/update.h"
#include "server/core/values/crew.h"
#include "tests/unit/core/core_encoded.h"
#include "tests/unit/core/core_parameter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Large enough to be spread, a part of a norm and a bit more, and no whole number of blocks. */
#define COUNT ((size_t)PS_SCAN_PART_ELEMENTS + 51313)
#define KEPT 9000
#define THREADS 3

static struct encoded encoded;

/* ---- A crew of threads that live as long as the work ---- */

struct threads {
    _Atomic int runs;
    void (*work)(void *argument);
    void *argument;
};

static void run_one(void *argument)
{
    struct threads *threads = argument;
    ps_optimizer_enter_thread();
    threads->work(threads->argument);
}

static void run_all(void *self, void (*work)(void *argument), void *argument)
{
    struct threads *threads = self;
    struct ps_thread others[THREADS] = {0};
    threads->work = work;
    threads->argument = argument;
    atomic_fetch_add(&threads->runs, 1);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(ps_thread_start(&others[i], "crew", run_one, threads, NULL), PS_OK);
    work(argument);
    for (int i = 0; i < THREADS; i++)
        ps_thread_join(&others[i]);
}

static struct threads threads;
static const struct ps_crew crew = {run_all, &threads};

/* ---- Parameters with and without it ---- */

static struct ps_optimizer_settings settings_of(enum ps_rule rule)
{
    return (struct ps_optimizer_settings){
        .rule = rule, .learning_rate.rate = 0.1, .beta_1 = 0.9, .beta_2 = 0.999, .epsilon = 1e-8};
}

/* The same bits, and blocks that say of the same version that it wrote them: a delta pull goes by
 * that. */
static void expect_same(const struct ps_parameter *a, const struct ps_parameter *b)
{
    parameter_expect_same(a, b);
    for (size_t i = 0; i < a->values->block_count; i++)
        ck_assert_uint_eq(a->values->entries[i].version, b->values->entries[i].version);
    for (size_t k = 0; k < ps_parameter_state_count(a); k++)
        for (size_t i = 0; i < a->states[k]->block_count; i++)
            ck_assert_uint_eq(a->states[k]->entries[i].version, b->states[k]->entries[i].version);
}

/* Two pushes, the second while the version before it is held. */
static void compare(const struct ps_optimizer_settings *settings, enum ps_dtype dtype,
                    enum ps_encoding encoding)
{
    struct ps_parameter *alone =
        parameter_create(ps_allocator_heap(), dtype, settings, COUNT, NULL);
    struct ps_parameter *spread =
        parameter_create(ps_allocator_heap(), dtype, settings, COUNT, &crew);
    encoded_make(&encoded, encoding, dtype, COUNT, KEPT, 1);
    ck_assert_int_eq(parameter_push(alone, encoded_cut(&encoded, 2), NULL), PS_OK);
    ck_assert_int_eq(parameter_push(spread, encoded_cut(&encoded, 3), NULL), PS_OK);
    struct ps_parameter_version held;
    ck_assert_int_eq(ps_parameter_hold(spread, &held, NULL), PS_OK);

    ck_assert_int_eq(parameter_push(alone, encoded_cut(&encoded, 4), NULL), PS_OK);
    ck_assert_int_eq(parameter_push(spread, encoded_cut(&encoded, 5), NULL), PS_OK);

    expect_same(alone, spread);
    ps_parameter_version_release(&held);
    ps_parameter_destroy(spread);
    ps_parameter_destroy(alone);
}

START_TEST(an_update_by_several_threads_has_the_bits_of_one)
{
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    enum ps_dtype dtype = _i % 2 == 0 ? PS_F32 : PS_F64;
    atomic_store(&threads.runs, 0);

    compare(&settings, dtype, (enum ps_encoding)(_i / 2));

    ck_assert_int_ge(atomic_load(&threads.runs), 2);
}
END_TEST

START_TEST(states_are_updated_beside_their_values)
{
    struct ps_optimizer_settings settings = settings_of(PS_RULE_ADAM);
    compare(&settings, PS_F32, PS_ENCODING_FLOAT32);
    compare(&settings, PS_F64, PS_ENCODING_TOP_K);
    settings = settings_of(PS_RULE_ADAGRAD);
    compare(&settings, PS_F32, PS_ENCODING_TOP_K);
}
END_TEST

START_TEST(a_norm_has_the_bits_of_one_scan)
{
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    settings.clip_norm = 1;
    settings.clip_value = 0.5;
    compare(&settings, PS_F32, (enum ps_encoding)_i);
}
END_TEST

/* ---- What is refused ---- */

START_TEST(the_first_element_that_is_not_finite_is_named)
{
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    if (_i == 1)
        settings.clip_norm = 1;
    struct ps_parameter *alone =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, COUNT, NULL);
    struct ps_parameter *spread =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, COUNT, &crew);
    encoded_make(&encoded, PS_ENCODING_FLOAT32, PS_F32, COUNT, 0, 7);
    static const size_t places[] = {COUNT - 1, 900000, 600001, 600000};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct ps_error expected = {0};
        struct ps_error error = {0};
        char index[32];
        (void)snprintf(index, sizeof index, "%zu", places[i]);
        const float infinite = i % 2 == 0 ? INFINITY : NAN;
        memcpy(encoded.content + places[i] * sizeof(float), &infinite, sizeof infinite);

        ck_assert_int_eq(parameter_push(alone, encoded_whole(&encoded), &expected),
                         PS_ERR_BAD_INPUT);
        ck_assert_int_eq(parameter_push(spread, encoded_cut(&encoded, i), &error),
                         PS_ERR_BAD_INPUT);

        ck_assert_str_eq(error.text, expected.text);
        ck_assert_ptr_nonnull(strstr(error.text, index));
    }
    expect_same(alone, spread);
    ck_assert_uint_eq(spread->version, 0);
    ps_parameter_destroy(spread);
    ps_parameter_destroy(alone);
}
END_TEST

/* Without memory for the parts of a scan one thread scans; what else is refused changes nothing. */
START_TEST(refused_memory_changes_nothing_or_nothing_but_the_threads)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    struct ps_parameter *alone =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, COUNT, NULL);
    encoded_make(&encoded, PS_ENCODING_FLOAT32, PS_F32, COUNT, 0, 8);
    ck_assert_int_eq(parameter_push(alone, encoded_whole(&encoded), NULL), PS_OK);
    int64_t refused = 0;
    for (bool swept = false; !swept; refused++) {
        struct ps_parameter *spread = parameter_create(&memory, PS_F32, &settings, COUNT, &crew);
        struct ps_blocks *held = ps_blocks_acquire(spread->values);
        heap.refuse_at = heap.seen + refused;
        enum ps_status status = parameter_push(spread, encoded_whole(&encoded), NULL);
        swept = heap.seen <= heap.refuse_at;
        heap.refuse_at = -1;
        ck_assert(status == PS_OK || (status == PS_ERR_NO_MEMORY && !swept));
        if (status == PS_OK)
            expect_same(alone, spread);
        ck_assert_uint_eq(spread->version, status == PS_OK ? 1 : 0);
        ps_blocks_release(held);
        ps_parameter_destroy(spread);
    }
    ck_assert_int_gt(refused, 3);
    ck_assert_int_eq(heap.live, 0);
    ps_parameter_destroy(alone);
}
END_TEST

/* ---- What is not spread ---- */

START_TEST(small_parameters_are_left_to_one_thread)
{
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    size_t count = PS_SPREAD_BYTES_MIN / sizeof(float) - 1;
    struct ps_parameter *parameter =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, count, &crew);
    encoded_make(&encoded, PS_ENCODING_FLOAT32, PS_F32, count, 0, 9);
    atomic_store(&threads.runs, 0);

    ck_assert_int_eq(parameter_push(parameter, encoded_whole(&encoded), NULL), PS_OK);

    ck_assert_int_eq(atomic_load(&threads.runs), 0);
    ps_parameter_destroy(parameter);
}
END_TEST

START_TEST(a_crew_that_was_taken_back_is_not_asked)
{
    const struct ps_crew none = {NULL, NULL};
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    struct ps_parameter *alone =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, COUNT, NULL);
    struct ps_parameter *parameter =
        parameter_create(ps_allocator_heap(), PS_F32, &settings, COUNT, &none);
    encoded_make(&encoded, PS_ENCODING_FLOAT32, PS_F32, COUNT, 0, 10);

    ck_assert_int_eq(parameter_push(alone, encoded_whole(&encoded), NULL), PS_OK);
    ck_assert_int_eq(parameter_push(parameter, encoded_whole(&encoded), NULL), PS_OK);

    expect_same(alone, parameter);
    ps_parameter_destroy(parameter);
    ps_parameter_destroy(alone);
}
END_TEST

START_TEST(parts_are_given_out_once_and_in_order)
{
    struct ps_optimizer_settings settings = settings_of(PS_RULE_SGD);
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        ps_allocator_heap(), text("w"), PS_F32, 1001, (struct ps_bytes){NULL, 0}, &settings);
    struct ps_spread spread;
    struct ps_elements part;
    uint64_t next = 0;

    ps_spread_init(&spread, spec, 100);
    while (ps_spread_next(&spread, &part)) {
        ck_assert_uint_eq(part.first, next);
        ck_assert_uint_eq(part.count, next < 1000 ? 100 : 1);
        next += part.count;
    }

    ck_assert_uint_eq(next, 1001);
    ck_assert(!ps_spread_next(&spread, &part));
    ps_parameter_spec_release(spec);
}
END_TEST

int main(void)
{
    ps_optimizer_enter_thread();
    Suite *suite = suite_create("spread");
    TCase *tests = tcase_create("spread");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, an_update_by_several_threads_has_the_bits_of_one, 0,
                        2 * PS_ENCODING_COUNT);
    tcase_add_test(tests, states_are_updated_beside_their_values);
    tcase_add_loop_test(tests, a_norm_has_the_bits_of_one_scan, 0, PS_ENCODING_COUNT);
    tcase_add_loop_test(tests, the_first_element_that_is_not_finite_is_named, 0, 2);
    tcase_add_test(tests, refused_memory_changes_nothing_or_nothing_but_the_threads);
    tcase_add_test(tests, small_parameters_are_left_to_one_thread);
    tcase_add_test(tests, a_crew_that_was_taken_back_is_not_asked);
    tcase_add_test(tests, parts_are_given_out_once_and_in_order);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
