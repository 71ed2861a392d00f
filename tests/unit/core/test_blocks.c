/* server/core/blocks.c: arrays in blocks, counted by reference. */
#include "server/core/blocks.h"
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

    (void)ps_blocks_write(blocks, 0);
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
    return run_tests("blocks", tests);
}
