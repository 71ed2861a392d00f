/* SPDX-License-Identifier: Apache-2.0 */
/* Encoded gradients in ranges: the bits of the same in one piece, whatever the rule and the order,
 * whether they are applied as they come or put together first. */
#include "core_early.h"
#include "core_encoded.h"
#include "core_kinds.h"

#include <string.h>

enum { KEPT = 2000, CUTS = 4 };

/* Between groups of int8, and at no block's end. */
static const struct ps_elements cuts[CUTS] = {
    {0, 20480}, {20480, 50176}, {70656, 16384}, {87040, COUNT - 87040}};

static struct encoded encoded;

static void make(enum ps_encoding encoding, enum ps_dtype dtype, uint64_t seed)
{
    encoded_make(&encoded, encoding, dtype, COUNT, KEPT, seed);
}

static enum ps_status push(struct core_world *to, const char *client, uint64_t sequence,
                           struct ps_elements range, struct ps_view gradient)
{
    const struct ps_push_request request = {
        .name = text("w"),
        .dtype = encoded.dtype,
        .encoding = encoded.encoding,
        .content = gradient,
        .range = range,
        .request = {
            .present = true, .client_id = text(client), .session = 1, .sequence = sequence}};
    enum ps_status status =
        ps_service_push(to->service, &request, &to->reply, &to->wait, &to->error);
    ps_service_check(to->service);
    return status;
}

static enum ps_status push_cut(uint64_t sequence, size_t i)
{
    struct ps_bytes pieces[2];
    struct ps_view part = encoded_range(&encoded, cuts[i].first, cuts[i].count, pieces);
    return push(&world, "a", sequence, cuts[i], part);
}

static void push_whole(struct core_world *to, const char *client, uint64_t sequence)
{
    ck_assert_int_eq(push(to, client, sequence, (struct ps_elements){0, 0},
                          encoded_cut(&encoded, sequence).content),
                     PS_OK);
}

static void write_journals(void)
{
    (void)world_write_journal(&world);
    (void)world_write_journal(&twin);
}

START_TEST(every_rule_and_encoding_gives_the_bits_of_a_push_in_one_piece)
{
    static const size_t order[CUTS] = {2, 0, 3, 1};
    const struct kind *kind = &kinds[_i % KIND_COUNT];
    if (!ps_dtype_is_float(kind->dtype))
        return;
    early_begin_with(_i >= KIND_COUNT, 0, kind->dtype, kind_config(kind));
    uint64_t sequence = 0;
    for (enum ps_encoding encoding = 1; encoding < PS_ENCODING_COUNT; encoding++) {
        make(encoding, kind->dtype, ++sequence);
        for (size_t i = 0; i < CUTS; i++) {
            ck_assert_int_eq(push_cut(sequence, order[i]), PS_OK);
            ck_assert(world.reply.staged == (i + 1 < CUTS));
            ck_assert(i + 1 == CUTS || (early_way_of("a", sequence) == PS_STAGING_EARLY) ==
                                           (encoding != PS_ENCODING_TOP_K));
        }
        push_whole(&twin, "a", sequence);
        early_expect_same(sequence);
    }
    write_journals();
    early_end();
}
END_TEST

START_TEST(ranges_that_are_kept_are_applied_when_another_push_came_first)
{
    enum ps_encoding encoding = (enum ps_encoding)_i;
    early_begin(true);
    make(encoding, PS_F32, 5);
    for (size_t i = 0; i + 1 < CUTS; i++)
        ck_assert_int_eq(push_cut(1, i), PS_OK);
    push_whole(&world, "b", 1);

    ck_assert_int_eq(push_cut(1, CUTS - 1), PS_OK);

    ck_assert(!world.reply.staged);
    push_whole(&twin, "b", 1);
    push_whole(&twin, "a", 1);
    early_expect_same(2);
    write_journals();
    early_end();
}
END_TEST

/* The second half's pieces lie behind the first half's, whoever reads them. */
START_TEST(a_norm_is_that_of_the_whole)
{
    struct ps_optimizer_config config;
    ps_optimizer_config_defaults(&config);
    config.clip_norm = 0.5;
    early_begin_with(false, 0, PS_F32, config_bytes(&config));
    make((enum ps_encoding)_i, PS_F32, 6);
    for (size_t i = 0; i < CUTS; i++)
        ck_assert_int_eq(push_cut(1, i), PS_OK);
    push_whole(&twin, "a", 1);
    early_expect_same(1);
    early_end();
}
END_TEST

START_TEST(room_is_reserved_for_what_the_whole_takes)
{
    static const uint64_t bytes[] = {0,         4 * COUNT, 8 * COUNT,
                                     2 * COUNT, 2 * COUNT, COUNT + 4 * ((COUNT + 255) / 256),
                                     8 * COUNT};
    enum ps_encoding encoding = (enum ps_encoding)_i;
    uint64_t made = encoding == PS_ENCODING_TOP_K ? 0 : 3 * sizeof(float) * COUNT; /* Adam's */
    early_begin(true);
    make(encoding, PS_F32, 7);
    ck_assert_int_eq(push_cut(1, 0), PS_OK);
    ck_assert_uint_eq(world.service->staging.bytes, bytes[encoding] + made);
    for (size_t i = 1; i < CUTS; i++)
        ck_assert_int_eq(push_cut(1, i), PS_OK);
    (void)world_write_journal(&world);
    early_end();
}
END_TEST

START_TEST(blocks_of_which_nothing_is_named_keep_their_version)
{
    const uint32_t index = COUNT - 5; /* in the third block */
    const float value = 2;
    early_begin_with(false, 0, PS_F32, config_of("sgd", 0.1));
    encoded_clear(&encoded, PS_ENCODING_TOP_K, PS_F32, COUNT);
    encoded.bytes = 8;
    memcpy(encoded.content, &index, 4);
    memcpy(encoded.content + 4, &value, 4);
    for (size_t i = 0; i < CUTS; i++)
        ck_assert_int_eq(push_cut(1, i), PS_OK);
    push_whole(&twin, "a", 1);
    early_expect_same(1);
    const struct ps_blocks *values =
        ps_parameter_table_find(&world.service->table, text("w"))->values;
    ck_assert_uint_eq(values->block_count, 3);
    ck_assert_uint_eq(values->entries[0].version, 0);
    ck_assert_uint_eq(values->entries[1].version, 0);
    ck_assert_uint_eq(values->entries[2].version, 1);
    early_end();
}
END_TEST

START_TEST(scales_whose_products_are_infinite_refuse_the_push_as_a_whole_does)
{
    const float scale = 3e38F;
    early_begin(_i == 1);
    make(PS_ENCODING_INT8, PS_F32, 8);
    memcpy(encoded.content + 100 * sizeof scale, &scale, sizeof scale);
    encoded.content[4 * ps_encoding_groups(COUNT) + 100 * 256 + 3] = 100;
    enum ps_status status = PS_OK;
    for (int tries = 0; tries < 2 && status == PS_OK; tries++)
        for (size_t i = 0; i < CUTS && status == PS_OK; i++)
            status = push_cut(1, i);
    ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(world.error.text, "is not finite"));
    early_expect_same(0);
    early_end();
}
END_TEST

START_TEST(encoded_ranges_survive_any_refused_allocation)
{
    enum ps_encoding encoding = _i % 4 < 2 ? PS_ENCODING_INT8 : PS_ENCODING_TOP_K;
    early_begin(_i % 2 == 1);
    make(encoding, PS_F32, 9);
    world.heap.seen = 0;
    world.heap.refuse_at = _i / 4;
    for (int tries = 0; tries < 3; tries++) {
        for (size_t i = 0; i < CUTS; i++) {
            enum ps_status status = push_cut(1, i);
            ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
            if (status != PS_OK)
                ck_assert_int_eq(push_cut(1, i), PS_OK);
        }
        if (!world.reply.staged)
            break;
    }
    ck_assert(!world.reply.staged);
    world.heap.refuse_at = -1;
    push_whole(&twin, "a", 1);
    early_expect_same(1);
    write_journals();
    early_end();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("push_encoded_ranges");
    tcase_add_loop_test(t, every_rule_and_encoding_gives_the_bits_of_a_push_in_one_piece, 0,
                        2 * KIND_COUNT);
    tcase_add_loop_test(t, ranges_that_are_kept_are_applied_when_another_push_came_first, 1,
                        PS_ENCODING_COUNT);
    tcase_add_loop_test(t, a_norm_is_that_of_the_whole, 1, PS_ENCODING_COUNT);
    tcase_add_loop_test(t, room_is_reserved_for_what_the_whole_takes, 1, PS_ENCODING_COUNT);
    tcase_add_test(t, blocks_of_which_nothing_is_named_keep_their_version);
    tcase_add_loop_test(t, scales_whose_products_are_infinite_refuse_the_push_as_a_whole_does, 0,
                        2);
    tcase_add_loop_test(t, encoded_ranges_survive_any_refused_allocation, 0, 4 * 32);
    return run_tests("push_encoded_ranges", t);
}
