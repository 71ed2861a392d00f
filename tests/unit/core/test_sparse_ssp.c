/* SPDX-License-Identifier: Apache-2.0 */
/* SparseSSP where its traces (test_sparse_ssp_traces.c) say nothing: bounds, repeats, what is lost,
 * and its rule against one that looks at everything. */
#include "server/core/clocks/sparse_ssp.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE = 99 };

static struct ps_progress progress;
static struct ps_sparse_ssp sparse;
static struct ps_error error;
static struct ps_allocator memory; /* outlives a test's heap, of which nothing is left */

static void begin(void)
{
    ps_progress_init(&progress, ps_allocator_heap());
    ck_assert_int_eq(ps_progress_join(&progress, 2, 0, &error), PS_OK);
    ck_assert_int_eq(ps_progress_join(&progress, 3, 0, &error), PS_OK);
    ps_sparse_ssp_init(&sparse, ps_allocator_heap());
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

static void get(uint32_t rank, uint64_t clock, uint64_t key)
{
    bool is_new;
    ck_assert_int_eq(announce(rank, clock, &key, 1, &is_new), PS_OK);
    ck_assert(is_new);
}

static void end_iteration(uint32_t rank)
{
    uint64_t clock = ps_progress_clock(&progress, rank) + 1;
    ck_assert_int_eq(ps_progress_advance(&progress, rank, clock, &error), PS_OK);
    ps_sparse_ssp_clock(&sparse, rank, clock);
    ps_sparse_ssp_check(&sparse);
}

/* Both workers have said what they read at clock 0. */
static void start(uint64_t staleness, uint64_t speculation, uint64_t key_of_2, uint64_t key_of_3)
{
    ps_sparse_ssp_configure(&sparse, 4, staleness, speculation);
    get(2, 0, key_of_2);
    get(3, 0, key_of_3);
}

/* ---- What FlexPS leaves open ---- */

START_TEST(what_was_not_announced_is_waited_for)
{
    start(0, 2, 0, 1);
    get(2, 1, 0);
    get(2, 2, 0);
    end_iteration(2);
    end_iteration(2);

    ck_assert_int_eq(read_of(2, 2), PS_ERR_NOT_READY);
    ck_assert_str_eq(error.text,
                     "worker 2 waits: worker 3 has not announced what it reads at clock 1");
    get(3, 1, 1);
    ck_assert_int_eq(read_of(2, 2), PS_OK);
}
END_TEST

/* As far ahead as SSP lets a worker be it needs no announcement of its own. */
START_TEST(a_read_within_the_staleness_asks_for_no_announcement)
{
    start(1, 2, 0, 1);
    end_iteration(2);
    end_iteration(3);
    end_iteration(2);

    ck_assert_int_eq(read_of(2, 2), PS_OK);
}
END_TEST

/* A crash of the server: reads wait as under SSP until workers have announced again. */
START_TEST(announcements_that_are_lost_cost_a_wait_and_no_update)
{
    start(1, 2, 0, 1);
    get(2, 1, 0);
    get(2, 2, 0);
    end_iteration(2);
    end_iteration(2);
    ck_assert_int_eq(read_of(2, 2), PS_OK);

    ps_sparse_ssp_fini(&sparse);
    ps_sparse_ssp_configure(&sparse, 4, 1, 2);
    ck_assert_int_eq(read_of(2, 2), PS_ERR_NOT_READY); /* as SSP(1) */
    get(2, 2, 0);
    ck_assert_int_eq(read_of(2, 2), PS_ERR_NOT_READY); /* worker 3 may update key 0 */
    get(3, 0, 1);
    ck_assert_int_eq(read_of(2, 2), PS_OK);
}
END_TEST

/* A read that waits is asked again with everybody's steps: while what it has met stands, nothing
 * else is looked at, be it a later iteration of a worker that came back. */
START_TEST(what_a_read_has_met_is_asked_first)
{
    const uint64_t keys[] = {5, 6};
    bool is_new;
    start(0, 2, 0, 6);
    get(2, 1, 0);
    get(3, 1, 7);
    ck_assert_int_eq(announce(2, 2, keys, 2, &is_new), PS_OK);
    end_iteration(2);
    end_iteration(2);
    static const char early[] = "a read at clock 2 waits: key 6 is to be updated in iteration 0";
    static const char late[] = "a read at clock 2 waits: key 5 is to be updated in iteration 1";
    ck_assert_int_eq(read_of(2, 2), PS_ERR_NOT_READY);
    ck_assert_str_eq(error.text, early);

    ck_assert_int_eq(ps_progress_join(&progress, 1, 1, &error), PS_OK);
    get(1, 1, 5);
    ck_assert_int_eq(read_of(2, 2), PS_ERR_NOT_READY);
    ck_assert_str_eq(error.text, early);
    end_iteration(3);
    ck_assert_int_eq(read_of(2, 2), PS_ERR_NOT_READY);
    ck_assert_str_eq(error.text, late);
    end_iteration(1);
    ck_assert_int_eq(read_of(2, 2), PS_OK);
}
END_TEST

START_TEST(a_read_with_no_keys_is_an_announcement_too)
{
    const uint64_t none = 0;
    bool is_new;
    ps_sparse_ssp_configure(&sparse, 4, 0, 1);
    ck_assert_int_eq(announce(3, 0, &none, 0, &is_new), PS_OK);
    ck_assert_int_eq(announce(2, 1, &none, 1, &is_new), PS_OK);
    end_iteration(2);

    ck_assert_int_eq(read_of(2, 1), PS_OK);
}
END_TEST

START_TEST(a_repeat_changes_nothing_and_other_keys_are_refused)
{
    const uint64_t keys[] = {1, 2};
    bool is_new;
    ps_sparse_ssp_configure(&sparse, 4, 0, 1);
    ck_assert_int_eq(announce(2, 0, keys, 2, &is_new), PS_OK);
    ck_assert(is_new);
    ck_assert_int_eq(announce(2, 0, keys, 2, &is_new), PS_OK);
    ck_assert(!is_new);
    ck_assert_uint_eq(sparse.key_count, 2);

    ck_assert_int_eq(announce(2, 0, keys + 1, 1, &is_new), PS_ERR_MISMATCH);
    ck_assert_str_eq(error.text, "worker 2 reads other keys at clock 0 than it has announced");
    /* The same keys of another table are others. */
    const struct ps_bytes piece = {(const uint8_t *)keys, sizeof keys};
    const struct ps_sparse_read read = {.rank = 2, .table = TABLE + 1, .keys = ps_view_of(&piece)};
    ck_assert_int_eq(ps_sparse_ssp_announce(&sparse, 0, &read, &is_new, &error), PS_ERR_MISMATCH);
}
END_TEST

/* The next size above the default: k + 1 is that of a clock which is on its way. */
START_TEST(clocks_beyond_the_speculation_and_those_that_are_over_are_refused)
{
    const uint64_t key = 1;
    bool is_new;
    ps_sparse_ssp_configure(&sparse, 4, 0, 2);

    ck_assert_int_eq(announce(2, 3, &key, 1, &is_new), PS_OK);
    ck_assert_int_eq(announce(2, 4, &key, 1, &is_new), PS_ERR_MISMATCH);
    ck_assert_str_eq(error.text,
                     "worker 2 announces clock 4 and has ended 0 iterations: at most 3 ahead");
    end_iteration(2);
    ck_assert_int_eq(announce(2, 0, &key, 1, &is_new), PS_ERR_MISMATCH);
    ck_assert_int_eq(announce(2, UINT64_MAX, &key, 1, &is_new), PS_ERR_MISMATCH);
}
END_TEST

START_TEST(half_a_key_is_refused)
{
    const uint8_t bytes[12] = {0};
    const struct ps_bytes piece = {bytes, sizeof bytes};
    const struct ps_sparse_read read = {.rank = 2,
                                        .keys = ps_view_of(&piece),
                                        .room = PS_CLOCK_ANNOUNCED_KEYS_MAX - sparse.key_count};
    bool is_new;
    ps_sparse_ssp_configure(&sparse, 4, 0, 2);

    ck_assert_int_eq(ps_sparse_ssp_announce(&sparse, 0, &read, &is_new, &error), PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(sparse.key_count, 0);
}
END_TEST

START_TEST(as_many_keys_as_there_may_be_and_no_more)
{
    size_t count = PS_CLOCK_ANNOUNCED_KEYS_MAX;
    uint64_t *keys = calloc(count, sizeof *keys);
    bool is_new;
    ck_assert_ptr_nonnull(keys);
    ps_sparse_ssp_configure(&sparse, 4, 0, 2);

    ck_assert_int_eq(announce(2, 0, keys, count, &is_new), PS_OK);
    ck_assert_int_eq(announce(3, 0, keys, 1, &is_new), PS_ERR_BUSY);
    ck_assert_int_eq(announce(3, 0, keys, 0, &is_new), PS_OK);
    end_iteration(2);
    ck_assert_int_eq(announce(3, 1, keys, 1, &is_new), PS_OK);
    free(keys);
}
END_TEST

START_TEST(equal_keys_of_different_tables_do_not_conflict)
{
    const uint64_t key = 0;
    const struct ps_bytes piece = {(const uint8_t *)&key, sizeof key};
    const struct ps_sparse_read other = {.rank = 3,
                                         .table = TABLE + 1,
                                         .keys = ps_view_of(&piece),
                                         .room = PS_CLOCK_ANNOUNCED_KEYS_MAX - sparse.key_count};
    bool is_new;
    ps_sparse_ssp_configure(&sparse, 4, 0, 1);
    ck_assert_int_eq(ps_sparse_ssp_announce(&sparse, 0, &other, &is_new, &error), PS_OK);
    get(2, 1, 0);
    end_iteration(2);

    ck_assert_int_eq(read_of(2, 1), PS_OK);
}
END_TEST

START_TEST(who_is_not_waited_for_updates_nothing)
{
    start(0, 1, 0, 0);
    get(2, 1, 0);
    end_iteration(2);
    ck_assert_int_eq(read_of(2, 1), PS_ERR_NOT_READY);

    ck_assert_int_eq(ps_progress_leave(&progress, 3, &error), PS_OK);
    ps_sparse_ssp_leave(&sparse, 3);

    ck_assert_int_eq(read_of(2, 1), PS_OK);
}
END_TEST

START_TEST(another_staleness_keeps_what_was_announced)
{
    start(0, 1, 0, 0);
    ps_sparse_ssp_configure(&sparse, 4, 3, 1);
    ck_assert_uint_eq(sparse.key_count, 2);

    ps_sparse_ssp_configure(&sparse, 4, 3, 2);
    ck_assert_uint_eq(sparse.key_count, 0);
}
END_TEST

START_TEST(without_memory_nothing_is_announced)
{
    const uint64_t keys[] = {1, 2, 3};
    struct fault_heap heap = {0};
    memory = fault_heap_allocator(&heap);
    bool is_new;
    ps_sparse_ssp_fini(&sparse);
    ps_sparse_ssp_init(&sparse, &memory);
    ps_sparse_ssp_configure(&sparse, 4, 0, 1);

    enum ps_status status = PS_ERR_NO_MEMORY;
    for (int64_t refused = 0; status == PS_ERR_NO_MEMORY; refused++) {
        heap.refuse_at = heap.seen + refused;
        status = announce(2, 0, keys, 3, &is_new);
        ps_sparse_ssp_check(&sparse);
        ck_assert_uint_eq(sparse.key_count, status == PS_OK ? 3 : 0);
    }
    ck_assert_int_eq(status, PS_OK);
    ps_sparse_ssp_fini(&sparse);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

/* ---- In any order ---- */

enum { WORKERS = 5, CLOCKS = 400, KEYS = 12 };

/* Keys of each announcement as bits; bit 31: it is there. */
static uint32_t said[WORKERS][CLOCKS + 64];

/* The rule in one sentence, and without a table: the answer is yes when the worker is there, and
 * every other one has ended clock - s iterations, or else clock - s - k of them and is known to
 * read none of the keys in those that it has not ended. */
static bool brute_force(uint32_t rank, uint64_t clock, uint64_t s, uint64_t k)
{
    if (clock > ps_progress_clock(&progress, rank))
        return false;
    bool all_near = true;
    for (uint32_t other = 0; other < WORKERS; other++) {
        uint64_t at = ps_progress_clock(&progress, other);
        all_near &= at + s >= clock;
    }
    if (all_near)
        return true;
    for (uint32_t other = 0; other < WORKERS; other++) {
        uint64_t at = ps_progress_clock(&progress, other);
        if (at + s + k < clock)
            return false;
        for (uint64_t v = at; v + s < clock; v++)
            if (said[other][v] == 0 || (said[other][v] & said[rank][clock] & 0xffff) != 0)
                return false;
    }
    return true;
}

static void announce_random(struct ps_random *random, uint32_t rank, uint64_t clock)
{
    uint64_t keys[KEYS];
    size_t count = 0;
    bool is_new;
    said[rank][clock] = 1u << 31;
    for (uint64_t key = 0; key < KEYS; key++) {
        if (ps_random_below(random, 5) != 0)
            continue;
        said[rank][clock] |= 1u << key;
        keys[count++] = key;
    }
    ck_assert_int_eq(announce(rank, clock, keys, count, &is_new), PS_OK);
}

/* Announcements come late, or never; workers end an iteration when its read was answered. */
START_TEST(in_any_order_reads_are_answered_as_by_brute_force)
{
    uint64_t s = (uint64_t)_i % 3;
    uint64_t k = (uint64_t)_i / 3;
    struct ps_random random;
    uint64_t early = 0;
    ps_random_init(&random, (uint64_t)_i + 1);
    memset(said, 0, sizeof said);
    for (uint32_t rank = 0; rank < WORKERS; rank++)
        if (!ps_progress_has(&progress, rank))
            ck_assert_int_eq(ps_progress_join(&progress, rank, 0, &error), PS_OK);
    ps_sparse_ssp_configure(&sparse, WORKERS, s, k);

    while (ps_progress_minimum(&progress) < CLOCKS) {
        uint32_t rank = (uint32_t)ps_random_below(&random, WORKERS);
        uint64_t own = ps_progress_clock(&progress, rank);
        uint64_t ahead = own + ps_random_below(&random, k + 2);
        if (ps_random_below(&random, 3) != 0 && said[rank][ahead] == 0)
            announce_random(&random, rank, ahead);
        for (uint64_t clock = own; clock <= own + k; clock++)
            if (said[rank][clock] != 0)
                ck_assert_int_eq(read_of(rank, clock) == PS_OK, brute_force(rank, clock, s, k));
        bool goes = own < CLOCKS + 32 && said[rank][own] != 0 && read_of(rank, own) == PS_OK;
        /* The slowest never waits. */
        ck_assert(goes || said[rank][own] == 0 || own > ps_progress_minimum(&progress));
        early += goes && own > ps_progress_minimum(&progress) + s;
        if (goes)
            end_iteration(rank);
    }
    ck_assert_int_eq(early > 0, k > 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sparse_ssp");
    TCase *tests = tcase_create("sparse_ssp");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, what_was_not_announced_is_waited_for);
    tcase_add_test(tests, a_read_within_the_staleness_asks_for_no_announcement);
    tcase_add_test(tests, announcements_that_are_lost_cost_a_wait_and_no_update);
    tcase_add_test(tests, what_a_read_has_met_is_asked_first);
    tcase_add_test(tests, a_read_with_no_keys_is_an_announcement_too);
    tcase_add_test(tests, a_repeat_changes_nothing_and_other_keys_are_refused);
    tcase_add_test(tests, clocks_beyond_the_speculation_and_those_that_are_over_are_refused);
    tcase_add_test(tests, half_a_key_is_refused);
    tcase_add_test(tests, as_many_keys_as_there_may_be_and_no_more);
    tcase_add_test(tests, equal_keys_of_different_tables_do_not_conflict);
    tcase_add_test(tests, who_is_not_waited_for_updates_nothing);
    tcase_add_test(tests, another_staleness_keeps_what_was_announced);
    tcase_add_test(tests, without_memory_nothing_is_announced);
    tcase_add_loop_test(tests, in_any_order_reads_are_answered_as_by_brute_force, 0, 15);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
