/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/push.c: what SendGrad refuses, with the texts of the contract, and what it does. */
#include "server/core/recovery/snapshot.h"
#include "server/core/requests/service_state.h"
#include "tests/unit/core/core_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const float ones[] = {1, 1, 1, 1};
static const float before[] = {1, 2, 3, 4};
static const struct ps_bytes no_config = {NULL, 0};

/* So often a range reads the clock until it is staged. */
#define CLOCK_READINGS 2

START_TEST(a_gradient_is_applied_and_counted)
{
    struct core_world world;
    const float after[] = {0, 1, 2, 3};
    uint64_t version = 0;
    world_init_ready(&world);

    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, &version), PS_OK);

    ck_assert_uint_eq(version, 1);
    world_expect_f32(&world, "w", after, 4);
    world_fini(&world);
}
END_TEST

START_TEST(push_before_finish_is_refused_at_once)
{
    struct core_world world;
    world_init_empty(&world);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, ones, sizeof ones, no_config), PS_OK);

    enum ps_status status = world_push(&world, "w", PS_F32, ones, sizeof ones, NULL);

    ck_assert_int_eq(status, PS_ERR_NOT_READY);
    ck_assert_str_eq(world.error.text, "pserver not fully initialized");
    world_fini(&world);
}
END_TEST

START_TEST(push_of_an_unknown_parameter_names_it)
{
    struct core_world world;
    world_init_ready(&world);

    enum ps_status status = world_push(&world, "nobody", PS_F32, ones, sizeof ones, NULL);

    ck_assert_int_eq(status, PS_ERR_NOT_FOUND);
    ck_assert_str_eq(world.error.text, "parameter: nobody does not exist");
    world_fini(&world);
}
END_TEST

START_TEST(an_endless_name_is_unknown_and_cut_in_the_text)
{
    static uint8_t letters[100000];
    struct core_world world;
    struct ps_push_request request = {.name = {letters, sizeof letters}, .dtype = PS_F32};
    struct ps_push_reply reply;
    memset(letters, 'n', sizeof letters);
    world_init_ready(&world);

    ck_assert_int_eq(ps_service_push(world.service, &request, &reply, NULL, &world.error),
                     PS_ERR_NOT_FOUND);

    ck_assert_uint_lt(strlen(world.error.text), sizeof world.error.text);
    world_fini(&world);
}
END_TEST

START_TEST(b24_a_gradient_of_another_type_is_refused)
{
    struct core_world world;
    world_init_ready(&world);

    enum ps_status status = world_push(&world, "w", PS_I32, ones, sizeof ones, NULL);

    ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
    ck_assert_str_eq(world.error.text, "Name: w, parameter and gradient element type not match, "
                                       "parameter: 4, gradient: 0 (f32, i32)");
    world_expect_f32(&world, "w", before, 4);
    world_fini(&world);
}
END_TEST

START_TEST(b24_a_gradient_of_another_length_is_refused)
{
    struct core_world world;
    static const size_t sizes[] = {0, 1, 12, 15};
    world_init_ready(&world);

    for (size_t i = 0; i < 4; i++) {
        char expected[128];
        enum ps_status status = world_push(&world, "w", PS_F32, ones, sizes[i], NULL);

        ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
        snprintf(expected, sizeof expected,
                 "Name: w, parameter and gradient does not have same content len, "
                 "parameter: 16, gradient: %zu",
                 sizes[i]);
        ck_assert_str_eq(world.error.text, expected);
    }
    world_expect_f32(&world, "w", before, 4);
    world_fini(&world);
}
END_TEST

static enum ps_status push_encoded(struct core_world *world, const char *name, enum ps_dtype dtype,
                                   enum ps_encoding encoding, const void *content, size_t size)
{
    struct ps_bytes piece = {content, size};
    struct ps_push_request request = {
        .name = text(name), .dtype = dtype, .encoding = encoding, .content = ps_view_of(&piece)};
    struct ps_push_reply reply;
    return ps_service_push(world->service, &request, &reply, NULL, &world->error);
}

START_TEST(gradients_may_come_in_another_encoding)
{
    struct core_world world;
    const uint16_t bfloat16[] = {0x3f80, 0x3f80, 0xbf80, 0};
    const uint32_t pair[] = {3, 0x40000000};
    const double doubles[] = {0, 0, 0, 0.5};
    const float after[] = {0, 1, 4, 1.5};
    world_init_ready(&world);

    ck_assert_int_eq(push_encoded(&world, "w", PS_F32, PS_ENCODING_BFLOAT16, bfloat16, 8), PS_OK);
    ck_assert_int_eq(push_encoded(&world, "w", PS_F32, PS_ENCODING_TOP_K, pair, 8), PS_OK);
    ck_assert_int_eq(push_encoded(&world, "w", PS_F32, PS_ENCODING_FLOAT64, doubles, 32), PS_OK);

    world_expect_f32(&world, "w", after, 4);
    world_fini(&world);
}
END_TEST

START_TEST(an_encoded_gradient_of_another_length_is_refused)
{
    struct core_world world;
    world_init_ready(&world);

    ck_assert_int_eq(push_encoded(&world, "w", PS_F32, PS_ENCODING_FLOAT16, ones, 16),
                     PS_ERR_BAD_INPUT);
    ck_assert_str_eq(world.error.text, "Name: w, 4 elements are 8 bytes (float16), not 16");
    ck_assert_int_eq(push_encoded(&world, "w", PS_F32, PS_ENCODING_INT8, ones, 4),
                     PS_ERR_BAD_INPUT);
    ck_assert_str_eq(world.error.text, "Name: w, 4 elements are 8 bytes (int8), not 4");
    ck_assert_int_eq(push_encoded(&world, "w", PS_F32, PS_ENCODING_TOP_K, ones, 12),
                     PS_ERR_BAD_INPUT);
    /* Pairs whose indices are far beyond the parameter. */
    ck_assert_int_eq(push_encoded(&world, "w", PS_F32, PS_ENCODING_TOP_K, ones, 16),
                     PS_ERR_BAD_INPUT);
    world_expect_f32(&world, "w", before, 4);
    world_fini(&world);
}
END_TEST

START_TEST(whole_numbers_take_no_encoding)
{
    struct core_world world;
    const int32_t numbers[] = {1, 2, 3, 4};
    world_init_empty(&world);
    ck_assert_int_eq(world_init_param(&world, "n", PS_I32, numbers, 16, config_of("add", 1)),
                     PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);

    ck_assert_int_eq(push_encoded(&world, "n", PS_I32, PS_ENCODING_INT8, numbers, 8),
                     PS_ERR_BAD_INPUT);

    ck_assert_str_eq(world.error.text, "Name: n, encoding int8 is for parameters of float32 and "
                                       "float64; a parameter of i32 allows native alone");
    world_fini(&world);
}
END_TEST

START_TEST(a_longer_gradient_is_refused)
{
    struct core_world world;
    const float five[] = {1, 1, 1, 1, 1};
    world_init_ready(&world);

    ck_assert_int_eq(world_push(&world, "w", PS_F32, five, sizeof five, NULL), PS_ERR_BAD_INPUT);

    world_expect_f32(&world, "w", before, 4);
    world_fini(&world);
}
END_TEST

START_TEST(acknowledgement_beyond_memory_is_not_promised)
{
    struct core_world world;
    struct ps_bytes piece = {(const uint8_t *)ones, sizeof ones};
    struct ps_push_request request = {.name = text("w"),
                                      .dtype = PS_F32,
                                      .content = ps_view_of(&piece),
                                      .ack = _i == 0 ? PS_ACK_LOGGED : PS_ACK_REPLICATED};
    struct ps_push_reply reply;
    world_init_ready(&world);

    enum ps_status status = ps_service_push(world.service, &request, &reply, NULL, &world.error);

    ck_assert_int_eq(status, PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(world.error.text, "ACK_MEMORY"));
    world_expect_f32(&world, "w", before, 4);
    request.ack = PS_ACK_MEMORY;
    ck_assert_int_eq(ps_service_push(world.service, &request, &reply, NULL, &world.error), PS_OK);
    world_fini(&world);
}
END_TEST

START_TEST(b19_a_push_leaves_nothing_on_the_heap)
{
    struct core_world world;
    world_init_ready(&world);
    int64_t live = world.heap.live;

    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_int_eq(world_push(&world, "w", PS_F64, ones, sizeof ones, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world_push(&world, "v", PS_F32, ones, sizeof ones, NULL), PS_ERR_NOT_FOUND);

    ck_assert_int_eq(world.heap.live, live);
    world_fini(&world);
}
END_TEST

START_TEST(b18_each_push_of_a_batch_has_its_own_result)
{
    struct core_world world;
    const float after[] = {-1, 0, 1, 2};
    world_init_ready(&world);

    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);
    ck_assert_int_eq(world_push(&world, "v", PS_F32, ones, sizeof ones, NULL), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(world_push(&world, "w", PS_F32, ones, sizeof ones, NULL), PS_OK);

    world_expect_f32(&world, "w", after, 4);
    world_fini(&world);
}
END_TEST

/* Refuses every allocation in turn while a pull holds the old version, so that the push needs a
 * new one. */
/* Pushes all of "w" as "client", session 1, sequence 1, or a range of it. */
static enum ps_status push_range(struct core_world *world, struct ps_elements range,
                                 struct ps_push_reply *reply)
{
    struct ps_bytes piece = {(const uint8_t *)ones,
                             (range.count == 0 ? 4 : (size_t)range.count) * sizeof ones[0]};
    struct ps_push_wait wait;
    const struct ps_push_request request = {
        .name = text("w"),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .range = range,
        .request = {.present = true, .client_id = text("client"), .session = 1, .sequence = 1}};
    return ps_service_push(world->service, &request, reply, &wait, &world->error);
}

/* A clock at whose n-th reading the push as a whole comes through another connection. */
struct overtaking {
    struct core_world *world;
    struct ps_clock clock;
    int left;
    bool overtook;
};

static void push_whole(void *self)
{
    struct overtaking *overtaking = self;
    struct ps_push_reply reply;
    ck_assert_int_eq(push_range(overtaking->world, (struct ps_elements){0, 0}, &reply), PS_OK);
    overtaking->overtook = true;
}

static uint64_t overtake(void *self)
{
    struct overtaking *overtaking = self;
    if (overtaking->left-- == 0) {
        struct ps_thread thread = {0};
        ck_assert_int_eq(ps_thread_start(&thread, "other", push_whole, overtaking, NULL), PS_OK);
        ps_thread_join(&thread);
    }
    return ps_now_ms(&overtaking->clock);
}

static uint64_t overtaken_unix_ns(void *self)
{
    return ps_unix_ns(&((struct overtaking *)self)->clock);
}

/* At whatever moment the whole overtakes a range of the same push: it is applied once, and nothing
 * stays behind that nobody would complete. */
START_TEST(a_range_that_its_whole_has_overtaken_leaves_nothing_staged)
{
    struct ps_service_options options = {.staging_bytes = 4096, .clients_max = 8};
    const float once[] = {0, 1, 2, 3};
    struct core_world world;
    struct ps_push_reply reply;
    world_init_with(&world, &options);
    world_own(&world, 1);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, before, sizeof before, no_config),
                     PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    struct overtaking overtaking = {.world = &world, .clock = world.clock, .left = _i};
    world.clock = (struct ps_clock){overtake, overtaken_unix_ns, &overtaking};

    enum ps_status status = push_range(&world, (struct ps_elements){2, 2}, &reply);

    world.clock = overtaking.clock;
    ck_assert_msg(status == PS_OK, "%s", world.error.text);
    ck_assert(overtaking.overtook);
    ck_assert(!reply.staged);
    ck_assert_uint_eq(reply.version, 1);
    ck_assert_uint_eq(world.service->staging.bytes, 0);
    world_expect_f32(&world, "w", once, 4);
    ps_service_check(world.service);
    world_fini(&world);
}
END_TEST

START_TEST(push_survives_any_refused_allocation)
{
    struct core_world world;
    struct ps_pull pull = {0};
    struct ps_pull_request request = {.name = text("w")};
    const float after[] = {0, 1, 2, 3};
    world_init_ready(&world);
    ck_assert_int_eq(ps_service_pull(world.service, &request, &pull, NULL), PS_OK);
    world.heap.refuse_at = world.heap.seen + _i;

    enum ps_status status = world_push(&world, "w", PS_F32, ones, sizeof ones, NULL);

    bool refused = world.heap.seen > world.heap.refuse_at;
    world.heap.refuse_at = -1;
    ck_assert_int_eq(status, refused ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert(refused || _i >= 2);
    world_expect_f32(&world, "w", refused ? before : after, 4);
    ps_pull_release(&pull);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("push");
    tcase_add_test(tests, a_gradient_is_applied_and_counted);
    tcase_add_test(tests, push_before_finish_is_refused_at_once);
    tcase_add_test(tests, push_of_an_unknown_parameter_names_it);
    tcase_add_test(tests, an_endless_name_is_unknown_and_cut_in_the_text);
    tcase_add_test(tests, b24_a_gradient_of_another_type_is_refused);
    tcase_add_test(tests, b24_a_gradient_of_another_length_is_refused);
    tcase_add_test(tests, gradients_may_come_in_another_encoding);
    tcase_add_test(tests, an_encoded_gradient_of_another_length_is_refused);
    tcase_add_test(tests, whole_numbers_take_no_encoding);
    tcase_add_test(tests, a_longer_gradient_is_refused);
    tcase_add_loop_test(tests, acknowledgement_beyond_memory_is_not_promised, 0, 2);
    tcase_add_test(tests, b19_a_push_leaves_nothing_on_the_heap);
    tcase_add_test(tests, b18_each_push_of_a_batch_has_its_own_result);
    tcase_add_loop_test(tests, a_range_that_its_whole_has_overtaken_leaves_nothing_staged, 0,
                        CLOCK_READINGS);
    tcase_add_loop_test(tests, push_survives_any_refused_allocation, 0, 4);
    return run_tests("push", tests);
}
