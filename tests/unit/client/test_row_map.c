/* SPDX-License-Identifier: Apache-2.0 */
/* client/replica/row_map.c: rows by their keys, through additions and removals. */
#include "client/replica/row_map.h"

#include "base/random.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>

#define IDS 500

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_row_map map;

static void begin(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    ps_row_map_init(&map, &memory, sizeof(uint64_t));
}

static void end(void)
{
    ps_row_map_check(&map);
    ps_row_map_fini(&map);
    ck_assert_int_eq(heap.live, 0);
}

static void put(uint64_t key, uint64_t value)
{
    uint8_t *row = ps_row_map_put(&map, key);
    ck_assert_ptr_nonnull(row);
    memcpy(row, &value, sizeof value);
}

static void expect(uint64_t key, bool is_there, uint64_t value)
{
    const uint8_t *row = ps_row_map_find(&map, key);
    ck_assert((row != NULL) == is_there);
    ck_assert(row == NULL || memcmp(row, &value, sizeof value) == 0);
}

START_TEST(a_map_without_rows_has_none)
{
    expect(0, false, 0);
    ps_row_map_remove(&map, 0);
    ck_assert_uint_eq(map.count, 0);
}
END_TEST

/* Keys side by side and far apart, among them 0 and the highest one. */
START_TEST(a_map_is_what_was_put_and_not_taken_out)
{
    bool there[IDS] = {false};
    uint64_t values[IDS] = {0};
    struct ps_random random;
    uint32_t count = 0;
    ps_random_init(&random, 20261124);
    for (uint64_t turn = 0; turn < 20000; turn++) {
        uint64_t id = ps_random_below(&random, IDS);
        uint64_t key = id % 2 == 0 ? id : UINT64_MAX - id * id;
        bool is_put = ps_random_below(&random, 3) > (turn / 4000) % 2;
        count += (uint32_t)(is_put && !there[id]) - (uint32_t)(!is_put && there[id]);
        there[id] = is_put;
        values[id] = turn;
        if (is_put)
            put(key, turn);
        else
            ps_row_map_remove(&map, key);
        ck_assert_uint_eq(map.count, count);
    }
    ps_row_map_check(&map);
    for (uint64_t id = 0; id < IDS; id++)
        expect(id % 2 == 0 ? id : UINT64_MAX - id * id, there[id], values[id]);
}
END_TEST

START_TEST(memory_that_is_refused_changes_nothing)
{
    uint64_t refused = 0;
    for (uint64_t key = 0; key < 1000;) {
        for (int nth = 0; nth < 3; nth++) {
            heap.refuse_at = heap.seen + nth;
            if (ps_row_map_put(&map, key) != NULL)
                break;
            refused++;
            expect(key, false, 0);
            ck_assert_uint_eq(map.count, key);
        }
        heap.refuse_at = -1;
        put(key, key);
        key++;
    }
    ck_assert_uint_gt(refused, 10);
    for (uint64_t key = 0; key < 1000; key++)
        expect(key, true, key);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row_map");
    TCase *tests = tcase_create("row_map");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, a_map_without_rows_has_none);
    tcase_add_test(tests, a_map_is_what_was_put_and_not_taken_out);
    tcase_add_test(tests, memory_that_is_refused_changes_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
