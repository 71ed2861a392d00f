/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/pull_reply.c: one version, whole, for as long as it is held; copies in another
 * encoding. */
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

static const float ones[] = {1, 1, 1, 1};
static const float start[] = {1, 2, 3, 4};

static enum ps_status pull_encoded(struct core_world *world, enum ps_encoding encoding,
                                   struct ps_pull *pull)
{
    const struct ps_pull_request request = {.name = text("w"), .encoding = encoding};
    return ps_service_pull(world->service, &request, pull, &world->error);
}

/* With which ranges of that version are asked for. A delta says it in its chain. */
START_TEST(every_reply_says_of_which_life_of_the_shard_it_is)
{
    static const struct ps_pull_request requests[] = {
        {.encoding = PS_ENCODING_NATIVE},
        {.encoding = PS_ENCODING_BFLOAT16},
        {.range = {0, 2}},
        {.range = {1, 2}, .encoding = PS_ENCODING_BFLOAT16}};
    struct core_world world;
    world_init_ready(&world);
    struct ps_pull_request request = requests[_i];
    request.name = text("w");
    struct ps_pull pull = {0};

    ck_assert_int_eq(ps_service_pull(world.service, &request, &pull, NULL), PS_OK);

    ck_assert_uint_ne(pull.reply.life, 0);
    ck_assert_uint_eq(pull.reply.life, world.service->chain.life);
    ps_pull_release(&pull);
    world_fini(&world);
}
END_TEST

START_TEST(b21_a_held_pull_keeps_its_bits_while_pushes_go_on)
{
    struct core_world world;
    struct ps_pull_request request = {.name = text("w")};
    struct ps_pull pull = {0};
    float kept[4];
    world_init_ready(&world);
    ck_assert_int_eq(ps_service_pull(world.service, &request, &pull, NULL), PS_OK);

    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    ps_view_copy(pull.reply.content, 0, kept, sizeof kept);
    ck_assert_mem_eq(kept, start, sizeof start);
    ck_assert_uint_eq(pull.reply.version, 0);
    ps_pull_release(&pull);
    world_fini(&world);
}
END_TEST

START_TEST(a_reply_has_the_encoding_that_was_asked_for)
{
    struct core_world world;
    struct ps_pull pull = {0};
    const uint16_t expected[] = {0x3c00, 0x4000, 0x4200, 0x4400};
    uint8_t content[8];
    world_init_ready(&world);

    ck_assert_int_eq(pull_encoded(&world, PS_ENCODING_FLOAT16, &pull), PS_OK);

    ck_assert_int_eq(pull.reply.encoding, PS_ENCODING_FLOAT16);
    ck_assert_int_eq(pull.reply.dtype, PS_F32);
    ck_assert_uint_eq(pull.reply.content.size, 8);
    ck_assert(ps_bytes_equal(pull.reply.name, text("w")));
    ps_view_copy(pull.reply.content, 0, content, 8);
    ck_assert_mem_eq(content, expected, 8);
    ps_pull_release(&pull);
    ps_pull_release(&pull);
    world_fini(&world);
}
END_TEST

/* Nobody holds the blocks any more: the push writes in place. */
START_TEST(an_encoded_pull_outlives_what_it_was_made_from)
{
    struct core_world world;
    struct ps_pull pull = {0};
    struct ps_pull native = {0};
    const float kept[] = {1, 2, 3, 4};
    double content[4];
    world_init_ready(&world);
    ck_assert_int_eq(pull_encoded(&world, PS_ENCODING_NATIVE, &native), PS_OK);
    const uint8_t *values = native.reply.content.pieces[0].data;
    ps_pull_release(&native);
    ck_assert_int_eq(pull_encoded(&world, PS_ENCODING_FLOAT64, &pull), PS_OK);

    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    ck_assert_int_eq(pull_encoded(&world, PS_ENCODING_FLOAT32, &native), PS_OK);
    ck_assert_ptr_eq(native.reply.content.pieces[0].data, values);
    ps_pull_release(&native);
    ps_service_reset(world.service);
    ps_view_copy(pull.reply.content, 0, content, sizeof content);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(content[i], (double)kept[i]);
    ck_assert_uint_eq(pull.reply.version, 0);
    ps_pull_release(&pull);
    world_fini(&world);
}
END_TEST

START_TEST(a_pull_of_pairs_is_refused)
{
    struct core_world world;
    struct ps_pull pull = {0};
    world_init_ready(&world);

    ck_assert_int_eq(pull_encoded(&world, PS_ENCODING_TOP_K, &pull), PS_ERR_BAD_INPUT);

    ck_assert_str_eq(world.error.text, "Name: w, encoding top_k is for gradients; a reply may be "
                                       "native, float32, float64, bfloat16, float16 or int8");
    ps_pull_release(&pull);
    world_fini(&world);
}
END_TEST

START_TEST(an_encoded_pull_survives_a_refused_allocation)
{
    struct core_world world;
    struct ps_pull pull = {0};
    world_init_ready(&world);
    world.heap.refuse_at = world.heap.seen;

    ck_assert_int_eq(pull_encoded(&world, PS_ENCODING_BFLOAT16, &pull), PS_ERR_NO_MEMORY);

    world.heap.refuse_at = -1;
    ck_assert_int_eq(pull_encoded(&world, PS_ENCODING_BFLOAT16, &pull), PS_OK);
    ps_pull_release(&pull);
    world_fini(&world);
}
END_TEST

START_TEST(a_pull_outlives_reset_and_the_service)
{
    struct core_world world;
    struct ps_pull_request request = {.name = text("w")};
    struct ps_pull pull = {0};
    float kept[4];
    world_init_ready(&world);
    ck_assert_int_eq(ps_service_pull(world.service, &request, &pull, NULL), PS_OK);

    ps_service_reset(world.service);
    ps_service_destroy(world.service);

    ps_view_copy(pull.reply.content, 0, kept, sizeof kept);
    ck_assert_mem_eq(kept, start, sizeof start);
    ck_assert(ps_bytes_equal(pull.reply.name, text("w")));
    ps_pull_release(&pull);
    ck_assert_int_eq(world.heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("pull_reply");
    tcase_add_loop_test(tests, every_reply_says_of_which_life_of_the_shard_it_is, 0, 4);
    tcase_add_test(tests, b21_a_held_pull_keeps_its_bits_while_pushes_go_on);
    tcase_add_test(tests, a_reply_has_the_encoding_that_was_asked_for);
    tcase_add_test(tests, an_encoded_pull_outlives_what_it_was_made_from);
    tcase_add_test(tests, a_pull_of_pairs_is_refused);
    tcase_add_test(tests, an_encoded_pull_survives_a_refused_allocation);
    tcase_add_test(tests, a_pull_outlives_reset_and_the_service);
    return run_tests("pull_reply", tests);
}
