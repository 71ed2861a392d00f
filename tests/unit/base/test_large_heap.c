/* SPDX-License-Identifier: Apache-2.0 */
/* base/large_heap.c: blocks that do not overlap, room that is used again and given back, and small
 * blocks of another allocator. */
#include "base/large_heap.h"
#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdint.h>
#include <string.h>

#define BLOCKS 60
#define MIB ((size_t)1024 * 1024)

static struct fault_heap counted;
static struct ps_allocator small;
static struct ps_large_heap heap;

static void open(void)
{
    counted = (struct fault_heap){.refuse_at = -1};
    small = fault_heap_allocator(&counted);
    ps_large_heap_init(&heap, &small, NULL);
}

static void close(void)
{
    ps_large_heap_fini(&heap);
    ck_assert_int_eq(counted.live, 0);
}

START_TEST(blocks_of_all_sizes_keep_their_bytes)
{
    struct {
        uint8_t *block;
        size_t size;
        uint8_t byte;
    } blocks[BLOCKS] = {{NULL, 0, 0}};
    struct ps_random random;
    ps_random_init(&random, 3);
    for (int i = 0; i < 2000; i++) {
        int at = (int)ps_random_below(&random, BLOCKS);
        if (blocks[at].block != NULL) {
            ck_assert_uint_eq(blocks[at].block[0], blocks[at].byte);
            ck_assert_uint_eq(blocks[at].block[blocks[at].size - 1], blocks[at].byte);
            ck_assert_mem_eq(blocks[at].block, blocks[at].block + 1, blocks[at].size - 1);
            ps_release(&heap.allocator, blocks[at].block);
        }
        /* Half of them small, and some too large. */
        blocks[at].size = 1 + ps_random_below(&random, i % 50 == 0  ? 9 * MIB
                                                       : i % 2 == 0 ? PS_LARGE_HEAP_FROM
                                                                    : MIB / 2);
        blocks[at].block = ps_zeroed(&heap.allocator, blocks[at].size);
        ck_assert_ptr_nonnull(blocks[at].block);
        ck_assert_uint_eq(blocks[at].block[0], 0);
        ck_assert_uint_eq(blocks[at].block[blocks[at].size / 2], 0);
        blocks[at].byte = (uint8_t)(1 + i % 255);
        memset(blocks[at].block, blocks[at].byte, blocks[at].size);
    }
    for (int i = 0; i < BLOCKS; i++)
        ps_release(&heap.allocator, blocks[i].block);
    ck_assert_ptr_null(heap.regions);
}
END_TEST

START_TEST(blocks_lie_beside_each_other_and_a_gap_is_used_again)
{
    uint8_t *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = ps_plain(&heap.allocator, MIB);
    for (int i = 1; i < 4; i++)
        ck_assert_ptr_eq(blocks[i], blocks[i - 1] + MIB);
    ps_release(&heap.allocator, blocks[1]);
    ps_release(&heap.allocator, blocks[2]);
    uint8_t *larger = ps_zeroed(&heap.allocator, MIB + MIB / 2);
    ck_assert_ptr_eq(larger, blocks[1]);
    ps_release(&heap.allocator, larger);
    ps_release(&heap.allocator, blocks[0]);
    ps_release(&heap.allocator, blocks[3]);
}
END_TEST

START_TEST(small_blocks_and_the_largest_are_the_others)
{
    void *tiny = ps_plain(&heap.allocator, PS_LARGE_HEAP_FROM - 1);
    void *huge = ps_zeroed(&heap.allocator, PS_LARGE_HEAP_MOST + 1);
    ck_assert_int_eq(counted.live, 2);
    ck_assert_ptr_null(heap.regions);
    ps_release(&heap.allocator, tiny);
    ps_release(&heap.allocator, huge);
    ps_release(&heap.allocator, NULL);
    void *most = ps_plain(&heap.allocator, PS_LARGE_HEAP_MOST);
    ck_assert_ptr_nonnull(heap.regions);
    ps_release(&heap.allocator, most);
}
END_TEST

START_TEST(refused_memory_is_no_block)
{
    counted.refuse_at = 0;
    ck_assert_ptr_null(ps_zeroed(&heap.allocator, MIB));
    ck_assert_ptr_null(heap.regions);
    void *block = ps_zeroed(&heap.allocator, MIB);
    ck_assert_ptr_nonnull(block);
    ps_release(&heap.allocator, block);
}
END_TEST

/* Whoever makes blocks comes to memory that was touched while it filled the last ones. */
START_TEST(room_behind_the_last_block_is_touched_ahead)
{
    struct ps_touch_ahead ahead;
    void *blocks[20];
    ps_touch_ahead_init(&ahead, NULL, NULL);
    heap.ahead = &ahead;

    blocks[0] = ps_plain(&heap.allocator, MIB / 2);
    ck_assert_uint_eq(ahead.count, 1);
    ck_assert_ptr_eq(ahead.wishes[0].begin, (uint8_t *)blocks[0] + MIB / 2);
    ck_assert_uint_eq(ahead.wishes[0].bytes, 2 * MIB);
    while (ps_touch_ahead_turn(&ahead)) {
    }
    for (int i = 1; i < 20; i++)
        blocks[i] = ps_plain(&heap.allocator, MIB / 2);
    /* Each byte is wanted once: as much as the blocks have come to. */
    size_t wanted = 0;
    for (uint32_t i = 0; i < ahead.count; i++)
        wanted += ahead.wishes[i].bytes;
    ck_assert_uint_le(wanted, 19 * MIB / 2);
    for (int i = 0; i < 20; i++)
        ps_release(&heap.allocator, blocks[i]);
    ck_assert_uint_eq(ahead.count, 0);
    heap.ahead = NULL;
    ps_touch_ahead_fini(&ahead);
}
END_TEST

/* Of what a region is only the heap knows; its first member is the next region. */
static int region_count(void)
{
    int count = 0;
    for (const void *region = heap.regions; region != NULL; count++)
        memcpy(&region, region, sizeof(const void *));
    return count;
}

static bool is_wanted(const struct ps_touch_ahead *ahead, const void *begin)
{
    for (uint32_t i = 0; i < ahead->count; i++)
        if (ahead->wishes[i].begin == begin)
            return true;
    return false;
}

/* The first block behind 32 MiB finds its page touched, too, and a region that became empty is the
 * next one. */
START_TEST(the_next_region_is_there_before_it_is_needed)
{
    struct ps_touch_ahead ahead;
    void *blocks[80];
    ps_touch_ahead_init(&ahead, NULL, NULL);
    heap.ahead = &ahead;
    for (int i = 0; i < 29; i++)
        blocks[i] = ps_plain(&heap.allocator, MIB);
    ck_assert_int_eq(region_count(), 1);
    for (int i = 29; i < 32; i++)
        blocks[i] = ps_plain(&heap.allocator, MIB);
    ck_assert_int_eq(region_count(), 2);
    blocks[32] = ps_plain(&heap.allocator, MIB);
    ck_assert(is_wanted(&ahead, blocks[32]));
    for (int i = 33; i < 64; i++)
        blocks[i] = ps_plain(&heap.allocator, MIB);
    ck_assert_int_eq(region_count(), 3);
    /* Of the first region, which was written, and the third, which was not, the first one stays. */
    for (int i = 0; i < 32; i++)
        ps_release(&heap.allocator, blocks[i]);
    ck_assert_int_eq(region_count(), 2);
    void *again = ps_plain(&heap.allocator, MIB);
    ck_assert_ptr_eq(again, blocks[0]);
    ps_release(&heap.allocator, again);
    ck_assert_int_eq(region_count(), 2);
    for (int i = 32; i < 64; i++)
        ps_release(&heap.allocator, blocks[i]);
    ck_assert_int_eq(region_count(), 0);
    ck_assert_uint_eq(ahead.count, 0);
    heap.ahead = NULL;
    ps_touch_ahead_fini(&ahead);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("large_heap");
    TCase *tests = tcase_create("large_heap");
    tcase_add_checked_fixture(tests, open, close);
    tcase_add_test(tests, blocks_of_all_sizes_keep_their_bytes);
    tcase_add_test(tests, blocks_lie_beside_each_other_and_a_gap_is_used_again);
    tcase_add_test(tests, small_blocks_and_the_largest_are_the_others);
    tcase_add_test(tests, refused_memory_is_no_block);
    tcase_add_test(tests, room_behind_the_last_block_is_touched_ahead);
    tcase_add_test(tests, the_next_region_is_there_before_it_is_needed);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
