/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges are joined when they fit together, and named when they do not. */
#include "tools/psckpt/joined_state.h"

#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tools/psckpt/spread_state.h"
#include "tools/psckpt/state_digest.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 3

static uint8_t content[64];
static struct ps_bytes pieces[ROWS];
static struct ps_checkpoint_parameter rows[ROWS];
static struct shard_state stored;
static struct ps_error error;

static void set_up(void)
{
    for (size_t i = 0; i < sizeof content; i++)
        content[i] = (uint8_t)i;
    shard_state_init(&stored, ps_allocator_heap());
    stored.parameters = rows;
    stored.facts.shard_count = 1;
    error = (struct ps_error){0};
}

static void tear_down(void)
{
    shard_state_fini(&stored);
}

static void put(const char *name, size_t first, size_t count, uint64_t version)
{
    size_t i = stored.count++;
    pieces[i] = (struct ps_bytes){content + 4 * first, 4 * count};
    rows[i] = (struct ps_checkpoint_parameter){.name = ps_bytes_of_text(name),
                                               .dtype = PS_F32,
                                               .count = count,
                                               .version = version,
                                               .step = version,
                                               .values = ps_view_of(&pieces[i])};
}

static enum ps_status join(struct shard_state *joined, size_t *uneven)
{
    shard_state_init(joined, ps_allocator_heap());
    return joined_state_make(&stored, 1, joined, uneven, &error);
}

static void refuse(const char *text)
{
    struct shard_state joined;
    size_t uneven;
    ck_assert_int_eq(join(&joined, &uneven), PS_ERR_CORRUPT);
    ck_assert_msg(strstr(error.text, text) != NULL, "%s", error.text);
    shard_state_fini(&joined);
}

START_TEST(ranges_become_one_in_their_order)
{
    struct shard_state joined;
    size_t uneven;
    uint8_t bytes[44];
    put("w#2/3", 7, 4, 5);
    put("w#0/3", 0, 4, 5);
    put("w#1/3", 4, 3, 5);

    ck_assert_int_eq(join(&joined, &uneven), PS_OK);

    ck_assert_uint_eq(joined.count, 1);
    ck_assert_uint_eq(joined.parameters[0].count, 11);
    ck_assert_uint_eq(uneven, 0);
    ps_view_copy(joined.parameters[0].values, 0, bytes, sizeof bytes);
    ck_assert_mem_eq(bytes, content, sizeof bytes);
    shard_state_fini(&joined);
}
END_TEST

START_TEST(the_oldest_range_gives_the_version)
{
    struct shard_state joined;
    size_t uneven;
    put("w#0/2", 0, 2, 7);
    put("w#1/2", 2, 2, 6);

    ck_assert_int_eq(join(&joined, &uneven), PS_OK);

    ck_assert_uint_eq(uneven, 1);
    ck_assert_uint_eq(joined.parameters[0].version, 6);
    shard_state_fini(&joined);
}
END_TEST

START_TEST(what_is_joined_has_the_shape_that_its_ranges_say)
{
    const struct ps_shape shape = {.is_given = true, .rank = 2, .lengths = {2, 3}};
    struct shard_state joined;
    size_t uneven;
    put("w#0/2", 0, 3, 1);
    put("w#1/2", 3, 3, 1);
    rows[0].shape = rows[1].shape = shape;
    ck_assert_int_eq(join(&joined, &uneven), PS_OK);
    ck_assert(ps_shape_equal(&joined.parameters[0].shape, &shape));
    shard_state_fini(&joined);

    rows[0].shape.lengths[1] = rows[1].shape.lengths[1] = 4;
    ck_assert_int_eq(join(&joined, &uneven), PS_OK);
    ck_assert(!joined.parameters[0].shape.is_given);
    shard_state_fini(&joined);

    rows[1].shape = shape;
    refuse("differ in type, shape or optimizer");
}
END_TEST

START_TEST(a_missing_range_is_named)
{
    put("w#0/3", 0, 2, 1);
    put("w#2/3", 4, 2, 1);
    refuse("range 1 of 3 is missing");
}
END_TEST

START_TEST(a_missing_last_range_is_named)
{
    put("w#0/2", 0, 2, 1);
    refuse("range 1 of 2 is missing");
}
END_TEST

START_TEST(two_ways_of_cutting_do_not_fit)
{
    put("w#0/2", 0, 2, 1);
    put("w#1/2", 2, 2, 1);
    put("w#0/3", 0, 2, 1);
    refuse("cut in more than one way");
}
END_TEST

START_TEST(whole_and_cut_do_not_fit)
{
    put("w", 0, 4, 1);
    put("w#0/2", 0, 2, 1);
    refuse("there twice");
}
END_TEST

/* Any number of shards and back, with refused allocations on the way. */
START_TEST(spreading_and_joining_is_the_identity)
{
    put("w", 0, 11, 3);
    put("v", 11, 1, 2);
    put("u", 12, 4, 1);
    uint8_t before[SHA256_BYTES];
    ck_assert_int_eq(shard_state_seal(&stored, &error), PS_OK);
    ck_assert_int_eq(state_digest(&stored, 1, false, before, &error), PS_OK);
    for (uint32_t count = 1; count <= 13; count++) {
        struct shard_state shards[13];
        struct shard_state joined;
        uint8_t after[SHA256_BYTES];
        size_t uneven;
        for (uint32_t i = 0; i < count; i++)
            shard_state_init(&shards[i], ps_allocator_heap());
        shard_state_init(&joined, ps_allocator_heap());

        ck_assert_int_eq(spread_state(&stored, 8, shards, count, &error), PS_OK);
        ck_assert_int_eq(joined_state_complete(shards, count, &error), PS_OK);
        ck_assert_int_eq(joined_state_make(shards, count, &joined, &uneven, &error), PS_OK);
        ck_assert_int_eq(state_digest(&joined, 1, false, after, &error), PS_OK);

        ck_assert_mem_eq(before, after, sizeof before);
        shard_state_fini(&joined);
        for (uint32_t i = 0; i < count; i++)
            shard_state_fini(&shards[i]);
    }
}
END_TEST

START_TEST(any_refused_allocation_is_reported_and_leaves_nothing)
{
    put("w#0/2", 0, 2, 1);
    put("w#1/2", 2, 2, 1);
    for (int64_t n = 0;; n++) {
        struct fault_heap heap = {.refuse_at = n};
        struct ps_allocator memory = fault_heap_allocator(&heap);
        struct shard_state joined;
        size_t uneven;
        shard_state_init(&joined, &memory);

        enum ps_status status = joined_state_make(&stored, 1, &joined, &uneven, &error);

        ck_assert_int_eq(status, heap.seen > n ? PS_ERR_NO_MEMORY : PS_OK);
        shard_state_fini(&joined);
        ck_assert_int_eq(heap.live, 0);
        if (status == PS_OK)
            break;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("joined_state");
    TCase *tcase = tcase_create("joined");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, ranges_become_one_in_their_order);
    tcase_add_test(tcase, the_oldest_range_gives_the_version);
    tcase_add_test(tcase, what_is_joined_has_the_shape_that_its_ranges_say);
    tcase_add_test(tcase, a_missing_range_is_named);
    tcase_add_test(tcase, a_missing_last_range_is_named);
    tcase_add_test(tcase, two_ways_of_cutting_do_not_fit);
    tcase_add_test(tcase, whole_and_cut_do_not_fit);
    tcase_add_test(tcase, spreading_and_joining_is_the_identity);
    tcase_add_test(tcase, any_refused_allocation_is_reported_and_leaves_nothing);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
