/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/block_pool.c over slabs of another source than the system's. */
#include "server/core/values/block_pool.h"

#include "tests/unit/core/core_world.h"
#include "tests/unit/core/pool_fixture.h"

#include <string.h>

/* Slabs of the heap, counted; refuses when `left` is 0. */
struct counted_slabs {
    int left;
    int out;
};

static void *take_counted(void *self)
{
    struct counted_slabs *slabs = self;
    if (slabs->left-- == 0)
        return NULL;
    slabs->out++;
    return ps_plain(ps_allocator_heap(), PS_SLAB_BYTES);
}

static void give_counted(void *self, void *slab)
{
    struct counted_slabs *slabs = self;
    slabs->out--;
    ps_release(ps_allocator_heap(), slab);
}

START_TEST(slabs_of_another_source_are_kept_until_the_end)
{
    struct counted_slabs slabs = {.left = 3};
    const struct ps_slab_source source = {take_counted, give_counted, &slabs};
    struct ps_block_pool *pool = ps_block_pool_create_over(&source, ps_allocator_heap());
    struct ps_block *blocks[3 * PER_SLAB];
    for (size_t i = 0; i < 3 * PER_SLAB; i++) {
        blocks[i] = take(pool);
        memset(blocks[i]->data, (int)i, PS_BLOCK_BYTES);
    }

    ck_assert_ptr_null(take(pool));
    for (size_t i = 0; i < 3 * PER_SLAB; i++)
        give(blocks[i]);

    ck_assert_int_eq(slabs.out, 3);
    ck_assert(ps_block_pool_source(pool)->takes_tails);
    ps_block_pool_destroy(pool);
    ck_assert_int_eq(slabs.out, 0);
}
END_TEST

START_TEST(slabs_of_another_source_that_nobody_needs_any_more_go_back_to_it)
{
    static struct ps_block *blocks[(PS_POOL_SLACK_SLABS + 6) * PER_SLAB];
    struct counted_slabs slabs = {.left = PS_POOL_SLACK_SLABS + 6};
    const struct ps_slab_source source = {take_counted, give_counted, &slabs};
    struct ps_block_pool *pool = ps_block_pool_create_over(&source, ps_allocator_heap());
    size_t count = sizeof blocks / sizeof blocks[0];

    for (size_t takes = 0; takes < (size_t)3 * PS_POOL_PERIOD_TAKES; takes += count) {
        for (size_t i = 0; i < count; i++)
            blocks[i] = take(pool);
        for (size_t i = 0; i < count; i++)
            give(blocks[i]);
        count = PER_SLAB;
    }

    ck_assert_int_le(slabs.out, PS_POOL_SLACK_SLABS);
    ps_block_pool_destroy(pool);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("block_pool_source");
    /* A machine that is short of memory takes its time to give some. */
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, slabs_of_another_source_are_kept_until_the_end);
    tcase_add_test(tests, slabs_of_another_source_that_nobody_needs_any_more_go_back_to_it);
    return run_tests("block_pool_source", tests);
}
