/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of FlexPS's SparseSSP under their names. In a trace get(w, v, key) is a read of worker
 * w at clock v, and end_iteration(w) says how many reads it lets go. */
#include "server/core/clocks/sparse_ssp.h"

#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { TABLE = 99, READS_MAX = 32 };

static struct ps_progress progress;
static struct ps_sparse_ssp sparse;
static struct ps_error error;

/* Reads that are not answered yet, and those that were, in their order. */
static struct {
    uint32_t rank;
    uint64_t clock;
    bool is_answered;
} reads[READS_MAX];
static size_t read_count;
static size_t answered_before;
static char order[READS_MAX * 8];

static void begin(void)
{
    ps_progress_init(&progress, ps_allocator_heap());
    ck_assert_int_eq(ps_progress_join(&progress, 2, 0, &error), PS_OK);
    ck_assert_int_eq(ps_progress_join(&progress, 3, 0, &error), PS_OK);
    ps_sparse_ssp_init(&sparse, ps_allocator_heap());
    read_count = 0;
    answered_before = 0;
    order[0] = '\0';
}

static void end(void)
{
    ps_sparse_ssp_check(&sparse);
    ps_sparse_ssp_fini(&sparse);
    ps_progress_fini(&progress);
}

static enum ps_status announce(uint32_t rank, uint64_t clock, const uint64_t *keys, size_t count,
                               bool *is_new)
{
    const struct ps_bytes piece = {(const uint8_t *)keys, count * sizeof *keys};
    const struct ps_sparse_read read = {.rank = rank,
                                        .clock = clock,
                                        .table = TABLE,
                                        .keys = ps_view_of(&piece),
                                        .room = PS_CLOCK_ANNOUNCED_KEYS_MAX - sparse.key_count};
    return ps_sparse_ssp_announce(&sparse, ps_progress_clock(&progress, rank), &read, is_new,
                                  &error);
}

static enum ps_status read_of(uint32_t rank, uint64_t clock)
{
    return ps_sparse_ssp_read(&sparse, &progress, rank, clock, &error);
}

/* Reads are asked again until nobody is let go by that: as the server does when a clock moves. */
static void look(void)
{
    for (size_t i = 0; i < read_count; i++) {
        if (reads[i].is_answered || read_of(reads[i].rank, reads[i].clock) != PS_OK)
            continue;
        reads[i].is_answered = true;
        size_t used = strlen(order);
        snprintf(order + used, sizeof order - used, " w%u v%u", (unsigned)reads[i].rank,
                 (unsigned)reads[i].clock);
    }
}

static size_t answered(void)
{
    size_t count = 0;
    for (size_t i = 0; i < read_count; i++)
        count += reads[i].is_answered;
    size_t since = count - answered_before;
    answered_before = count;
    return since;
}

static void get(uint32_t rank, uint64_t clock, uint64_t key)
{
    bool is_new;
    ck_assert_int_eq(announce(rank, clock, &key, 1, &is_new), PS_OK);
    ck_assert(is_new);
    ck_assert_uint_lt(read_count, READS_MAX);
    reads[read_count].rank = rank;
    reads[read_count].clock = clock;
    reads[read_count++].is_answered = false;
    look();
}

static size_t end_iteration(uint32_t rank)
{
    uint64_t clock = ps_progress_clock(&progress, rank) + 1;
    ck_assert_int_eq(ps_progress_advance(&progress, rank, clock, &error), PS_OK);
    ps_sparse_ssp_clock(&sparse, rank, clock);
    ps_sparse_ssp_check(&sparse);
    look();
    return answered();
}

/* Both workers' reads at clock 0 are answered at once. */
static void start(uint64_t staleness, uint64_t speculation, uint64_t key_of_2, uint64_t key_of_3)
{
    ps_sparse_ssp_configure(&sparse, 4, staleness, speculation);
    get(2, 0, key_of_2);
    get(3, 0, key_of_3);
    ck_assert_uint_eq(answered(), 2);
    order[0] = '\0';
}

/* ---- FlexPS's traces ---- */

START_TEST(CheckConstructor)
{
    ps_sparse_ssp_configure(&sparse, 4, 2, 3);

    ck_assert_uint_eq(sparse.staleness, 2);
    ck_assert_uint_eq(sparse.speculation, 3);
    ck_assert_ptr_null(sparse.slots);
}
END_TEST

START_TEST(SpeculationNoConflict)
{
    start(2, 2, 0, 1);
    get(2, 1, 0);
    get(3, 1, 1);

    ck_assert_uint_eq(end_iteration(3), 1);
    get(3, 2, 1);
    ck_assert_uint_eq(end_iteration(3), 1);
    get(3, 3, 1);
    get(3, 4, 1);
    ck_assert_uint_eq(end_iteration(3), 1);
    ck_assert_uint_eq(end_iteration(3), 1);
    ck_assert_str_eq(order, " w3 v1 w3 v2 w3 v3 w3 v4");
}
END_TEST

START_TEST(staleness0speculation1Conflict)
{
    start(0, 1, 0, 0);
    get(2, 1, 0);
    ck_assert_uint_eq(end_iteration(2), 0);
    get(3, 1, 0);
    ck_assert_uint_eq(end_iteration(3), 2);
}
END_TEST

/* What the three cases of 0, 1 without a conflict begin with. */
static void start_0_1(void)
{
    start(0, 1, 0, 1);
    get(2, 1, 0);
    ck_assert_uint_eq(end_iteration(2), 1);
    get(2, 2, 0);
    ck_assert_uint_eq(end_iteration(2), 0);
}

START_TEST(staleness0speculation1NoConflictCase1)
{
    start_0_1();
    get(3, 1, 1);
    ck_assert_uint_eq(end_iteration(3), 2);
    ck_assert_str_eq(order, " w2 v1 w2 v2 w3 v1");
}
END_TEST

START_TEST(staleness0speculation1NoConflictCase2)
{
    start_0_1();
    get(3, 1, 0);
    ck_assert_uint_eq(end_iteration(3), 1);
    ck_assert_str_eq(order, " w2 v1 w3 v1");
}
END_TEST

START_TEST(staleness0speculation2Conflict)
{
    start(0, 2, 0, 0);
    get(2, 1, 0);
    get(3, 1, 0);
    get(2, 2, 0);
    ck_assert_uint_eq(end_iteration(2), 0);
    get(3, 2, 0);
    ck_assert_uint_eq(end_iteration(3), 2);
    ck_assert_str_eq(order, " w2 v1 w3 v1");
}
END_TEST

static void start_case_1(void)
{
    start(0, 2, 0, 1);
    get(2, 1, 0);
    get(3, 1, 1);
    get(2, 2, 0);
    ck_assert_uint_eq(end_iteration(2), 1);
    get(2, 3, 0);
    ck_assert_uint_eq(end_iteration(2), 1);
    get(2, 4, 1);
    ck_assert_uint_eq(end_iteration(2), 0);
}

START_TEST(staleness0speculation2Case1)
{
    start_case_1();
    ck_assert_str_eq(order, " w2 v1 w2 v2");
    ck_assert_int_eq(read_of(2, 3), PS_ERR_NOT_READY);
    ck_assert_str_eq(error.text, "worker 2 at clock 3 waits for clock 1; worker 3 is at 0");
}
END_TEST

START_TEST(staleness0speculation2Case2)
{
    start_case_1();
    get(3, 2, 1);
    ck_assert_uint_eq(end_iteration(3), 2);
    ck_assert_str_eq(order, " w2 v1 w2 v2 w3 v1 w2 v3");
}
END_TEST

static void start_case_3(void)
{
    start_case_1();
    get(3, 2, 0);
    ck_assert_uint_eq(end_iteration(3), 1);
}

START_TEST(staleness0speculation2Case3)
{
    start_case_3();
    ck_assert_str_eq(order, " w2 v1 w2 v2 w3 v1");
    ck_assert_int_eq(read_of(2, 3), PS_ERR_NOT_READY);
    ck_assert_str_eq(error.text, "a read at clock 3 waits: key 0 is to be updated in iteration 2");
}
END_TEST

START_TEST(staleness0speculation2Case4)
{
    start_case_3();
    get(3, 3, 0);
    ck_assert_uint_eq(end_iteration(3), 1);
    get(3, 4, 0);
    ck_assert_uint_eq(end_iteration(3), 2);
    ck_assert_str_eq(order, " w2 v1 w2 v2 w3 v1 w3 v2 w2 v3 w3 v3");
}
END_TEST

START_TEST(staleness0speculation2Case5)
{
    start(0, 2, 0, 1);
    get(2, 1, 0);
    get(3, 1, 2);
    get(2, 2, 1);
    ck_assert_uint_eq(end_iteration(2), 1);
    get(2, 3, 1);
    ck_assert_uint_eq(end_iteration(2), 0);
    get(3, 2, 1);
    ck_assert_uint_eq(end_iteration(3), 2);
}
END_TEST

START_TEST(staleness0speculation2Case6)
{
    start(0, 2, 0, 1);
    get(2, 1, 0);
    get(3, 1, 2);
    get(2, 2, 2);
    ck_assert_uint_eq(end_iteration(2), 1);
    get(2, 3, 2);
    ck_assert_uint_eq(end_iteration(2), 0);
    get(3, 2, 1);
    ck_assert_uint_eq(end_iteration(3), 1);
    ck_assert_str_eq(order, " w2 v1 w3 v1");
    get(3, 3, 1);
    ck_assert_uint_eq(end_iteration(3), 2);
}
END_TEST

START_TEST(ClockWithoutGet)
{
    start(0, 2, 0, 1);
    get(2, 1, 0);
    get(3, 1, 2);
    ck_assert_uint_eq(end_iteration(2), 1);
    get(2, 3, 2);
    ck_assert_uint_eq(end_iteration(2), 0);
    get(3, 2, 1);
    ck_assert_uint_eq(end_iteration(3), 1);
    get(3, 3, 1);
    ck_assert_uint_eq(end_iteration(3), 1);
    ck_assert_str_eq(order, " w2 v1 w3 v1 w3 v2");
}
END_TEST

/* A test without a body in FlexPS: one read with several keys that others are about to update. */
START_TEST(SpeculationSeveralConflict)
{
    const uint64_t several[] = {5, 6, 7};
    bool is_new;
    start(0, 2, 0, 6);
    ck_assert_int_eq(announce(3, 1, &several[2], 1, &is_new), PS_OK);
    ck_assert_int_eq(announce(2, 2, several, 3, &is_new), PS_OK);
    end_iteration(2);
    end_iteration(2);

    ck_assert_int_eq(read_of(2, 2), PS_ERR_NOT_READY);
    ck_assert_str_eq(error.text, "a read at clock 2 waits: key 7 is to be updated in iteration 1");
    end_iteration(3);
    ck_assert_int_eq(read_of(2, 2), PS_ERR_NOT_READY);
    end_iteration(3);
    ck_assert_int_eq(read_of(2, 2), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sparse_ssp_traces");
    TCase *tests = tcase_create("sparse_ssp_traces");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, CheckConstructor);
    tcase_add_test(tests, SpeculationNoConflict);
    tcase_add_test(tests, staleness0speculation1Conflict);
    tcase_add_test(tests, staleness0speculation1NoConflictCase1);
    tcase_add_test(tests, staleness0speculation1NoConflictCase2);
    tcase_add_test(tests, staleness0speculation2Conflict);
    tcase_add_test(tests, staleness0speculation2Case1);
    tcase_add_test(tests, staleness0speculation2Case2);
    tcase_add_test(tests, staleness0speculation2Case3);
    tcase_add_test(tests, staleness0speculation2Case4);
    tcase_add_test(tests, staleness0speculation2Case5);
    tcase_add_test(tests, staleness0speculation2Case6);
    tcase_add_test(tests, ClockWithoutGet);
    tcase_add_test(tests, SpeculationSeveralConflict);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
