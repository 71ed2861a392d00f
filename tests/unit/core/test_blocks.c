/* SPDX-License-Identifier: Apache-2.0 */
/* core/values/blocks.c: arrays in blocks, counted by reference. */
#include "server/core/values/block_pool.h"
#include "server/core/values/blocks.h"
#include "tests/unit/core/core_world.h"

#include <string.h>

static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD};

static struct ps_parameter_spec *spec_of(const struct ps_allocator *memory, uint64_t count)
{
    return ps_parameter_spec_create(memory, text("w"), PS_F32, count, (struct ps_bytes){NULL, 0},
                                    &sgd);
}

START_TEST(the_last_block_is_as_long_as_the_rest)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *blocks = ps_blocks_create(spec);

    struct ps_view view = ps_blocks_view(blocks);

    ck_assert_uint_eq(view.piece_count, 3);
    ck_assert_uint_eq(view.pieces[0].size, PS_BLOCK_BYTES);
    ck_assert_uint_eq(view.pieces[1].size, PS_BLOCK_BYTES);
    ck_assert_uint_eq(view.pieces[2].size, 4);
    ck_assert_uint_eq(view.size, 2 * PS_BLOCK_BYTES + 4);
    ps_blocks_release(blocks);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(a_full_last_block_is_followed_by_none)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), PS_BLOCK_BYTES / 4);
    struct ps_blocks *blocks = ps_blocks_create(spec);

    ck_assert_uint_eq(blocks->block_count, 1);

    ps_blocks_release(blocks);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(blocks_are_shared_until_the_other_reference_goes)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), 3);
    struct ps_blocks *blocks = ps_blocks_create(spec);
    ck_assert(!ps_blocks_shared(blocks));

    struct ps_blocks *other = ps_blocks_acquire(blocks);
    ck_assert(ps_blocks_shared(blocks));
    ps_blocks_release(other);

    ck_assert(!ps_blocks_shared(blocks));
    ps_blocks_release(blocks);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(blocks_keep_the_name_alive)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = spec_of(&memory, 3);
    struct ps_blocks *blocks = ps_blocks_create(spec);

    ps_parameter_spec_release(spec);

    ck_assert_str_eq((const char *)blocks->spec->name.data, "w");
    ps_blocks_release(blocks);
    ck_assert_int_eq(heap.live, 0);
    ps_blocks_release(NULL);
}
END_TEST

START_TEST(create_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = spec_of(&memory, PS_BLOCK_BYTES);
    heap.refuse_at = heap.seen + _i;

    struct ps_blocks *blocks = ps_blocks_create(spec);

    ck_assert((blocks == NULL) == (_i < 5));
    ps_blocks_release(blocks);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(writing_a_shared_block_aborts)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), 3);
    struct ps_blocks *blocks = ps_blocks_create(spec);
    (void)ps_blocks_acquire(blocks);

    (void)ps_blocks_write(blocks, 0, 0);
}
END_TEST

/* Updates: a list of two whole blocks and a rest, every byte of block i being i + 1. */
static struct ps_blocks *create_three(struct ps_parameter_spec *spec)
{
    struct ps_blocks *blocks = ps_blocks_create(spec);
    for (size_t i = 0; i < 3; i++)
        memset(ps_blocks_write(blocks, i, 0), (int)i + 1, blocks->pieces[i].size);
    return blocks;
}

/* The first byte of a block; the others stay what they are. */
static void write_first(struct ps_block_update block)
{
    if (block.to != block.from)
        memcpy(block.to, block.from, block.size);
    block.to[0] = 99;
}

static struct ps_blocks *update(struct ps_blocks *blocks, const bool *touched, uint64_t version)
{
    struct ps_blocks *to = ps_blocks_begin_update(blocks, touched);
    ck_assert_ptr_nonnull(to);
    for (size_t i = 0; i < 3; i++)
        if (touched == NULL || touched[i])
            write_first(ps_blocks_update(blocks, to, i, version));
    ps_blocks_end_update(blocks, to);
    return to;
}

START_TEST(what_nobody_else_holds_is_updated_in_place)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *blocks = create_three(spec);
    const uint8_t *first = blocks->pieces[0].data;

    ck_assert_ptr_eq(update(blocks, NULL, 1), blocks);

    ck_assert_ptr_eq(blocks->pieces[0].data, first);
    ck_assert_uint_eq(first[0], 99);
    ck_assert_uint_eq(first[1], 1);
    ck_assert_uint_eq(blocks->entries[2].version, 1);
    ps_blocks_release(blocks);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(what_somebody_holds_keeps_its_bytes)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *held = create_three(spec);

    struct ps_blocks *now = update(ps_blocks_acquire(held), NULL, 7);

    ck_assert_ptr_ne(now, held);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(held->pieces[i].data[0], i + 1);
        ck_assert_uint_eq(now->pieces[i].data[0], 99);
        ck_assert_uint_eq(now->pieces[i].data[1], i + 1);
        ck_assert_uint_eq(now->pieces[i].size, held->pieces[i].size);
        ck_assert_uint_eq(held->entries[i].version, 0);
        ck_assert_uint_eq(now->entries[i].version, 7);
    }
    ps_blocks_release(held);
    ps_blocks_release(now);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(blocks_that_are_not_touched_are_shared)
{
    static const bool touched[] = {false, true, false};
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = spec_of(&memory, 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *held = create_three(spec);
    int64_t before = heap.live;

    struct ps_blocks *now = update(ps_blocks_acquire(held), touched, 5);

    ck_assert_int_eq(heap.live, before + 2); /* the list and one block */
    ck_assert_ptr_eq(now->pieces[0].data, held->pieces[0].data);
    ck_assert_ptr_ne(now->pieces[1].data, held->pieces[1].data);
    ck_assert_uint_eq(now->entries[0].version, 0);
    ck_assert_uint_eq(now->entries[1].version, 5);
    ps_blocks_release(held);
    ck_assert_uint_eq(now->pieces[2].data[0], 3);
    ps_blocks_release(now);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(only_the_blocks_that_somebody_holds_are_copied)
{
    static const bool touched[] = {false, true, false};
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *held = create_three(spec);
    struct ps_blocks *second = update(ps_blocks_acquire(held), touched, 1);
    const uint8_t *own = second->pieces[1].data;

    /* Blocks 0 and 2 are in both lists, block 1 is not. */
    struct ps_blocks *third = update(second, NULL, 2);

    ck_assert_ptr_ne(third->pieces[0].data, held->pieces[0].data);
    ck_assert_ptr_eq(third->pieces[1].data, own);
    ck_assert_ptr_ne(third->pieces[2].data, held->pieces[2].data);
    ck_assert_uint_eq(held->pieces[0].data[0], 1);
    ck_assert_uint_eq(held->pieces[2].data[0], 3);
    ck_assert_uint_eq(third->pieces[2].data[0], 99);
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(third->entries[i].version, 2);
    ps_blocks_release(held);
    ps_blocks_release(third);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(an_update_that_is_abandoned_changes_nothing)
{
    static const bool touched[] = {false, true, false};
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = spec_of(&memory, 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *held = create_three(spec);
    struct ps_blocks *now = update(ps_blocks_acquire(held), touched, 1);
    int64_t before = heap.live;

    struct ps_blocks *to = ps_blocks_begin_update(now, NULL);
    ck_assert_ptr_ne(to, now);
    ps_blocks_abandon_update(now, to);

    ck_assert_int_eq(heap.live, before);
    for (size_t i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(now->entries[i].block);
    ck_assert_uint_eq(now->pieces[1].data[0], 99);
    ps_blocks_release(held);
    ps_blocks_release(now);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(begin_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = spec_of(&memory, 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *held = create_three(spec);
    (void)ps_blocks_acquire(held);
    int64_t before = heap.live;
    heap.refuse_at = heap.seen + _i;

    struct ps_blocks *to = ps_blocks_begin_update(held, NULL);

    ck_assert((to == NULL) == (_i < 4));
    ps_blocks_abandon_update(held, to);
    ck_assert_int_eq(heap.live, before);
    ps_blocks_release(held);
    ps_blocks_release(held);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(an_update_reads_the_old_block_while_it_writes_the_new)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *held = create_three(spec);
    struct ps_blocks *from = ps_blocks_acquire(held);
    struct ps_blocks *to = ps_blocks_begin_update(from, NULL);

    for (size_t i = 0; i < 3; i++) {
        struct ps_block_update block = ps_blocks_update(from, to, i, 1);

        ck_assert_ptr_eq(block.from, held->pieces[i].data);
        ck_assert_ptr_eq(block.to, to->pieces[i].data);
        ck_assert_ptr_ne(block.to, block.from);
        ck_assert_uint_eq(block.size, held->pieces[i].size);
        memset(block.to, 50, block.size);
        ck_assert_uint_eq(block.from[0], i + 1);
    }
    ps_blocks_end_update(from, to);
    ps_blocks_release(held);
    ps_blocks_release(to);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(an_update_in_place_reads_where_it_writes)
{
    static const bool touched[] = {false, true, false};
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *held = create_three(spec);
    struct ps_blocks *second = update(ps_blocks_acquire(held), touched, 1);
    struct ps_blocks *to = ps_blocks_begin_update(second, NULL);

    struct ps_block_update shared = ps_blocks_update(second, to, 0, 2);
    struct ps_block_update moved = ps_blocks_update(second, to, 1, 2);

    ck_assert_ptr_ne(to, second);
    ck_assert_ptr_ne(shared.to, shared.from);
    ck_assert_ptr_eq(moved.to, moved.from);
    ck_assert_uint_eq(moved.from[0], 99);
    (void)ps_blocks_update(second, to, 2, 2);
    ps_blocks_end_update(second, to);
    ps_blocks_release(held);
    ps_blocks_release(to);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(what_is_let_go_is_given_back_block_by_block)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_spec *spec = spec_of(&memory, 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *blocks = create_three(spec);
    int64_t before = heap.live;

    ps_blocks_let_go(blocks, PS_BLOCK_BYTES - 1);
    ck_assert_int_eq(heap.live, before);
    ps_blocks_let_go(blocks, PS_BLOCK_BYTES + 1);
    ck_assert_int_eq(heap.live, before - 1);
    ck_assert_uint_eq(blocks->pieces[1].data[0], 2);
    ps_blocks_let_go(blocks, 2 * PS_BLOCK_BYTES);
    ck_assert_int_eq(heap.live, before - 2);
    ps_blocks_let_go(blocks, 2 * PS_BLOCK_BYTES + 4);
    ck_assert_int_eq(heap.live, before - 3);

    ps_blocks_release(blocks);
    ps_parameter_spec_release(spec);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

START_TEST(what_somebody_else_holds_too_is_not_let_go)
{
    struct ps_parameter_spec *spec = spec_of(ps_allocator_heap(), 2 * PS_BLOCK_BYTES / 4 + 1);
    struct ps_blocks *parameters = create_three(spec);
    struct ps_blocks *held = ps_blocks_acquire(parameters);

    ps_blocks_let_go(held, PS_BLOCK_BYTES);
    ck_assert_ptr_nonnull(parameters->entries[0].block);
    struct ps_blocks *now = update(parameters, NULL, 1);
    ps_blocks_let_go(held, 2 * PS_BLOCK_BYTES);

    ck_assert_ptr_null(held->entries[0].block);
    ck_assert_ptr_null(held->entries[1].block);
    ck_assert_uint_eq(held->pieces[2].data[0], 3);
    ck_assert_uint_eq(now->pieces[0].data[1], 1);
    ps_blocks_release(held);
    ps_blocks_release(now);
    ps_parameter_spec_release(spec);
}
END_TEST

START_TEST(whole_blocks_come_from_the_store_and_the_rest_does_not)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_block_pool *pool = ps_block_pool_create(ps_allocator_heap(), NULL);
    struct ps_parameter_spec *spec = spec_of(&memory, 2 * PS_BLOCK_BYTES / 4 + 1);
    spec->block_source = ps_block_pool_source(pool);

    struct ps_blocks *blocks = create_three(spec);

    ck_assert_uint_eq(ps_block_pool_look(pool).bytes_used, 2 * PS_BLOCK_BYTES);
    ck_assert_int_eq(heap.live, 3); /* the spec, the list, the rest */
    struct ps_blocks *now = update(ps_blocks_acquire(blocks), NULL, 1);
    ck_assert_uint_eq(ps_block_pool_look(pool).bytes_used, 4 * PS_BLOCK_BYTES);
    ps_blocks_release(blocks);
    ps_blocks_release(now);
    ck_assert_uint_eq(ps_block_pool_look(pool).bytes_used, 0);
    ps_parameter_spec_release(spec);
    ps_block_pool_destroy(pool);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("blocks");
    tcase_add_test(tests, the_last_block_is_as_long_as_the_rest);
    tcase_add_test(tests, a_full_last_block_is_followed_by_none);
    tcase_add_test(tests, blocks_are_shared_until_the_other_reference_goes);
    tcase_add_test(tests, blocks_keep_the_name_alive);
    tcase_add_loop_test(tests, create_survives_any_refused_allocation, 0, 6);
    tcase_add_test_raise_signal(tests, writing_a_shared_block_aborts, 6);
    tcase_add_test(tests, what_nobody_else_holds_is_updated_in_place);
    tcase_add_test(tests, what_somebody_holds_keeps_its_bytes);
    tcase_add_test(tests, blocks_that_are_not_touched_are_shared);
    tcase_add_test(tests, only_the_blocks_that_somebody_holds_are_copied);
    tcase_add_test(tests, an_update_that_is_abandoned_changes_nothing);
    tcase_add_loop_test(tests, begin_survives_any_refused_allocation, 0, 5);
    tcase_add_test(tests, an_update_reads_the_old_block_while_it_writes_the_new);
    tcase_add_test(tests, an_update_in_place_reads_where_it_writes);
    tcase_add_test(tests, what_is_let_go_is_given_back_block_by_block);
    tcase_add_test(tests, what_somebody_else_holds_too_is_not_let_go);
    tcase_add_test(tests, whole_blocks_come_from_the_store_and_the_rest_does_not);
    return run_tests("blocks", tests);
}
