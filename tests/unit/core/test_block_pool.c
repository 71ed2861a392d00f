/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/block_pool.c: blocks out of slabs, used again and given back. */
#include "server/core/values/block_pool.h"

#include "base/assert.h"
#include "base/thread.h"
#include "tests/unit/core/core_world.h"
#include "tests/unit/core/pool_fixture.h"

#include <stdlib.h>
#include <string.h>

static void expect(struct ps_block_pool *pool, uint64_t blocks, uint64_t slabs)
{
    struct ps_block_pool_state state = ps_block_pool_look(pool);
    ck_assert_uint_eq(state.bytes_used, blocks * PS_BLOCK_BYTES);
    ck_assert_uint_eq(state.bytes_reserved, slabs * PS_SLAB_BYTES);
}

START_TEST(blocks_of_one_slab_do_not_overlap)
{
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    struct ps_block *blocks[PER_SLAB + 1];
    for (size_t i = 0; i <= PER_SLAB; i++) {
        blocks[i] = take(pool);
        memset(blocks[i]->data, (int)i + 1, PS_BLOCK_BYTES);
    }

    expect(pool, PER_SLAB + 1, 2);
    for (size_t i = 0; i <= PER_SLAB; i++) {
        ck_assert_uint_eq(blocks[i]->data[0], i + 1);
        ck_assert_uint_eq(blocks[i]->data[PS_BLOCK_BYTES - 1], i + 1);
        give(blocks[i]);
    }
    expect(pool, 0, 2);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(a_block_given_back_is_taken_again)
{
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    struct ps_block *kept = take(pool);
    struct ps_block *first = take(pool);
    give(first);

    ck_assert_ptr_eq(take(pool), first);

    expect(pool, 2, 1);
    give(first);
    give(kept);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(a_slab_in_use_is_filled_before_an_empty_one)
{
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    struct ps_block *blocks[2 * PER_SLAB];
    for (size_t i = 0; i < 2 * PER_SLAB; i++)
        blocks[i] = take(pool);
    for (size_t i = 1; i < 2 * PER_SLAB; i++)
        give(blocks[i]);

    for (size_t i = 1; i < PER_SLAB; i++) {
        blocks[i] = take(pool);
        ck_assert_ptr_eq((void *)((uintptr_t)blocks[i]->data / PS_SLAB_BYTES),
                         (void *)((uintptr_t)blocks[0]->data / PS_SLAB_BYTES));
    }

    for (size_t i = 0; i < PER_SLAB; i++)
        give(blocks[i]);
    ps_block_pool_destroy(pool);
}
END_TEST

/* Takes `count` blocks and gives them back. */
static void borrow(struct ps_block_pool *pool, size_t count)
{
    struct ps_block **blocks = calloc(count, sizeof *blocks);
    ck_assert_ptr_nonnull(blocks);
    for (size_t i = 0; i < count; i++)
        blocks[i] = take(pool);
    for (size_t i = 0; i < count; i++)
        give(blocks[i]);
    free(blocks);
}

/* As many pushes of one block as make a period. */
static void spend_a_period(struct ps_block_pool *pool)
{
    for (size_t i = 0; i < PS_POOL_PERIOD_TAKES; i++)
        give(take(pool));
}

START_TEST(what_each_push_takes_anew_stays)
{
    enum { SLABS = 2 * PS_POOL_SLACK_SLABS, BLOCKS = SLABS * PER_SLAB };
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);

    borrow(pool, BLOCKS);
    expect(pool, 0, SLABS);
    for (int i = 0; i < 20; i++)
        borrow(pool, BLOCKS);

    expect(pool, 0, SLABS);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(free_slabs_that_were_not_needed_lately_go_back_to_the_system)
{
    enum { SLABS = PS_POOL_SLACK_SLABS + 10, BLOCKS = SLABS * PER_SLAB };
    static struct ps_block *blocks[BLOCKS];
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool);
    for (size_t i = PER_SLAB; i < BLOCKS; i++)
        give(blocks[i]);
    expect(pool, PER_SLAB, SLABS);

    spend_a_period(pool);
    spend_a_period(pool);
    expect(pool, PER_SLAB, PS_POOL_SLACK_SLABS + 1);
    for (size_t i = 0; i < PER_SLAB; i++)
        give(blocks[i]);

    expect(pool, 0, PS_POOL_SLACK_SLABS);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(of_what_was_needed_lately_no_more_than_a_gibibyte_is_kept)
{
    enum { SLABS = PS_POOL_READY_SLABS_MAX + 10, BLOCKS = SLABS * PER_SLAB };
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);

    borrow(pool, BLOCKS);

    expect(pool, 0, PS_POOL_READY_SLABS_MAX);
    ps_block_pool_destroy(pool);
}
END_TEST

/* Of all blocks that are out. */
static void expect_copies(struct ps_block_pool *pool)
{
    const struct ps_block_source *source = ps_block_pool_source(pool);
    source->expect_copies(source->self, ps_block_pool_look(pool).bytes_used);
}

START_TEST(copies_that_are_expected_find_memory_ready)
{
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    struct ps_block *blocks[2 * PER_SLAB + 1];
    for (size_t i = 0; i <= 2 * PER_SLAB; i++)
        blocks[i] = take(pool);
    expect(pool, 2 * PER_SLAB + 1, 3);

    expect_copies(pool);
    expect(pool, 2 * PER_SLAB + 1, 6);
    expect_copies(pool);

    expect(pool, 2 * PER_SLAB + 1, 6);
    for (size_t i = 0; i <= 2 * PER_SLAB; i++)
        give(blocks[i]);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(memory_is_made_ready_for_what_will_be_held)
{
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    const struct ps_block_source *source = ps_block_pool_source(pool);
    struct ps_block *blocks[4 * PER_SLAB];
    for (size_t i = 0; i < 4 * PER_SLAB; i++)
        blocks[i] = take(pool);

    source->expect_copies(source->self, 2 * PS_SLAB_BYTES + 1);

    expect(pool, 4 * PER_SLAB, 7);
    source->expect_copies(source->self, 0);
    expect(pool, 4 * PER_SLAB, 7);
    for (size_t i = 0; i < 4 * PER_SLAB; i++)
        give(blocks[i]);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(memory_that_is_ready_stays_until_it_is_not_wanted)
{
    enum { SLABS = PS_POOL_SLACK_SLABS + 10, BLOCKS = SLABS * PER_SLAB };
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    struct ps_block *blocks[2 * BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool);
    expect_copies(pool);
    for (size_t i = BLOCKS; i < 2 * BLOCKS; i++)
        blocks[i] = take(pool);

    for (size_t i = BLOCKS; i < 2 * BLOCKS; i++)
        give(blocks[i]);
    expect(pool, BLOCKS, 2 * SLABS);

    for (size_t i = 1; i < BLOCKS; i++)
        give(blocks[i]);
    expect_copies(pool);
    spend_a_period(pool);
    spend_a_period(pool);
    give(blocks[0]);
    ck_assert_uint_lt(ps_block_pool_look(pool).bytes_reserved, 2 * SLABS * (uint64_t)PS_SLAB_BYTES);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(memory_that_no_snapshot_needed_goes_back_by_and_by)
{
    enum { SLABS = 3 * PS_POOL_SLACK_SLABS, BLOCKS = SLABS * PER_SLAB };
    static struct ps_block *blocks[BLOCKS];
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool);
    expect_copies(pool);
    expect(pool, BLOCKS, 2 * SLABS);

    expect_copies(pool);
    expect(pool, BLOCKS, SLABS + SLABS / 2);
    for (int i = 0; i < 5; i++)
        expect_copies(pool);

    expect(pool, BLOCKS, SLABS + PS_POOL_SLACK_SLABS);
    borrow(pool, BLOCKS);
    expect_copies(pool);
    expect(pool, BLOCKS, 2 * SLABS);
    for (size_t i = 0; i < BLOCKS; i++)
        give(blocks[i]);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(a_relaxed_pool_keeps_the_slack_only_and_is_ready_again_when_asked)
{
    enum { SLABS = 2 * PS_POOL_SLACK_SLABS, BLOCKS = SLABS * PER_SLAB };
    static struct ps_block *blocks[BLOCKS];
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool);
    expect_copies(pool);

    ps_block_pool_relax(pool);

    expect(pool, BLOCKS, SLABS + PS_POOL_SLACK_SLABS);
    expect_copies(pool);
    expect(pool, BLOCKS, 2 * SLABS);
    for (size_t i = 0; i < BLOCKS; i++)
        give(blocks[i]);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(what_is_prepared_stays_until_it_was_used)
{
    enum { SLABS = PS_POOL_SLACK_SLABS + 10 };
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    uint64_t turns = 0;
    while (ps_block_pool_prepare(pool, (uint64_t)SLABS * PS_SLAB_BYTES - 1))
        turns++;

    ck_assert_uint_eq(turns, SLABS);
    expect(pool, 0, SLABS);
    struct ps_block *block = take(pool);
    expect(pool, 1, SLABS);
    give(block);
    expect(pool, 0, SLABS - 1);
    ps_block_pool_destroy(pool);
}
END_TEST

START_TEST(expecting_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_block_pool *pool = ps_block_pool_create(&memory, NULL);
    struct ps_block *block = take(pool);
    heap.refuse_at = heap.seen;

    expect_copies(pool);

    expect(pool, 1, 1);
    give(block);
    ps_block_pool_destroy(pool);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(the_last_block_takes_a_destroyed_pool_with_it)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_block_pool *pool = ps_block_pool_create(&memory, NULL);
    struct ps_block *first = take(pool);
    struct ps_block *last = take(pool);

    ps_block_pool_destroy(pool);
    give(first);
    memset(last->data, 1, PS_BLOCK_BYTES);
    ck_assert_int_gt(heap.live, 0);
    give(last);

    ck_assert_int_eq(heap.live, 0);
    ps_block_pool_destroy(NULL);
}
END_TEST

START_TEST(taking_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_block_pool *pool = ps_block_pool_create(&memory, NULL);
    struct ps_block *block = pool != NULL ? take(pool) : NULL;

    ck_assert((pool == NULL) == (_i == 0));
    ck_assert((block == NULL) == (_i < 2));

    if (block != NULL)
        give(block);
    ps_block_pool_destroy(pool);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(the_gauges_follow)
{
    struct ps_metrics *metrics = ps_metrics_create(ps_allocator_heap());
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), metrics);
    const struct ps_gauge *used = ps_metrics_gauge(metrics, "ps_block_used_bytes", "", NULL);
    const struct ps_gauge *reserved =
        ps_metrics_gauge(metrics, "ps_block_reserved_bytes", "", NULL);

    struct ps_block *block = take(pool);
    ck_assert_double_eq(ps_gauge_value(used), PS_BLOCK_BYTES);
    ck_assert_double_eq(ps_gauge_value(reserved), PS_SLAB_BYTES);
    give(block);

    ck_assert_double_eq(ps_gauge_value(used), 0);
    ps_block_pool_destroy(pool);
    ps_metrics_destroy(metrics);
}
END_TEST

START_TEST(giving_a_block_twice_aborts)
{
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    struct ps_block *kept = take(pool);
    struct ps_block *block = take(pool);
    give(block);

    give(block);
    give(kept);
}
END_TEST

/* Each thread holds a few blocks at a time and looks whether they stay its own. */
static void take_and_give(void *argument)
{
    struct ps_block_pool *pool = argument;
    struct ps_block *held[16] = {NULL};
    for (size_t round = 0; round < 4000; round++) {
        struct ps_block **place = &held[round * 7 % 16];
        if (*place != NULL) {
            PS_ASSERT(memcmp((*place)->data, &place, sizeof place) == 0);
            give(*place);
        }
        *place = take(pool);
        memcpy((*place)->data, &place, sizeof place);
    }
    for (size_t i = 0; i < 16; i++)
        if (held[i] != NULL)
            give(held[i]);
}

START_TEST(threads_never_get_the_same_block)
{
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    struct ps_thread threads[4] = {0};

    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(ps_thread_start(&threads[i], "taker", take_and_give, pool, NULL), PS_OK);
    for (size_t i = 0; i < 4; i++)
        ps_thread_join(&threads[i]);

    ck_assert_uint_eq(ps_block_pool_look(pool).bytes_used, 0);
    ps_block_pool_destroy(pool);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("block_pool");
    /* A machine that is short of memory takes its time to give some. */
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, blocks_of_one_slab_do_not_overlap);
    tcase_add_test(tests, a_block_given_back_is_taken_again);
    tcase_add_test(tests, a_slab_in_use_is_filled_before_an_empty_one);
    tcase_add_test(tests, what_each_push_takes_anew_stays);
    tcase_add_test(tests, free_slabs_that_were_not_needed_lately_go_back_to_the_system);
    tcase_add_test(tests, of_what_was_needed_lately_no_more_than_a_gibibyte_is_kept);
    tcase_add_test(tests, copies_that_are_expected_find_memory_ready);
    tcase_add_test(tests, memory_is_made_ready_for_what_will_be_held);
    tcase_add_test(tests, memory_that_is_ready_stays_until_it_is_not_wanted);
    tcase_add_test(tests, memory_that_no_snapshot_needed_goes_back_by_and_by);
    tcase_add_test(tests, a_relaxed_pool_keeps_the_slack_only_and_is_ready_again_when_asked);
    tcase_add_test(tests, what_is_prepared_stays_until_it_was_used);
    tcase_add_test(tests, expecting_survives_any_refused_allocation);
    tcase_add_test(tests, the_last_block_takes_a_destroyed_pool_with_it);
    tcase_add_loop_test(tests, taking_survives_any_refused_allocation, 0, 3);
    tcase_add_test(tests, the_gauges_follow);
    tcase_add_test_raise_signal(tests, giving_a_block_twice_aborts, 6);
    tcase_add_test(tests, threads_never_get_the_same_block);
    return run_tests("block_pool", tests);
}
