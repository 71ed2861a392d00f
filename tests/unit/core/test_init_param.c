/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/init_param.c: what InitParam refuses; a refusal changes and leaks nothing. */
#include "base/bounds.h"
#include "server/core/update/parameter.h"
#include "tests/unit/core/core_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float two[] = {1, 2};
static const float three[] = {7, 8, 9};
static const struct ps_bytes no_config = {NULL, 0};

START_TEST(init_before_finish_may_be_repeated_and_replaces)
{
    struct core_world world;
    world_init_empty(&world);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, two, sizeof two, no_config), PS_OK);
    int64_t live = world.heap.live;

    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(world_init_param(&world, "w", PS_F32, three, sizeof three, no_config),
                         PS_OK);

    ck_assert_int_eq(world.heap.live, live);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    world_expect_f32(&world, "w", three, 3);
    world_fini(&world);
}
END_TEST

START_TEST(init_says_under_which_epoch_the_parameter_was_taken)
{
    struct ps_bytes piece = {(const uint8_t *)two, sizeof two};
    const struct ps_init_request request = {
        .name = text("w"), .dtype = PS_F32, .content = ps_view_of(&piece)};
    struct ps_init_reply reply = {.epoch = 99};
    struct core_world world;
    world_init(&world, false, 0);
    world_own(&world, 7);
    ps_service_begin_empty(world.service);

    ck_assert_int_eq(ps_service_init(world.service, &request, &reply, NULL), PS_OK);

    ck_assert_uint_eq(reply.epoch, 7);
    world_fini(&world);
}
END_TEST

START_TEST(a_refused_init_says_no_epoch)
{
    const struct ps_init_request request = {.name = text("w"), .dtype = PS_F32};
    struct ps_init_reply reply = {.epoch = 99};
    struct core_world world;
    world_init_empty(&world);

    ck_assert_int_eq(ps_service_init(world.service, &request, &reply, NULL), PS_ERR_BAD_INPUT);

    ck_assert_uint_eq(reply.epoch, 99);
    world_fini(&world);
}
END_TEST

START_TEST(init_after_finish_is_refused)
{
    struct core_world world;
    world_init_ready(&world);

    enum ps_status status = world_init_param(&world, "x", PS_F32, two, sizeof two, no_config);

    ck_assert_int_eq(status, PS_ERR_EXISTS);
    ck_assert_str_eq(world.error.text, "pserver already initialized");
    world_fini(&world);
}
END_TEST

START_TEST(b15_empty_content_is_refused)
{
    struct core_world world;
    world_init_empty(&world);

    enum ps_status status = world_init_param(&world, "w", PS_F32, NULL, 0, no_config);

    ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(world.error.text, "empty"));
    world_fini(&world);
}
END_TEST

START_TEST(b15_bad_config_is_refused_and_leaves_nothing)
{
    struct core_world world;
    const uint8_t garbage[] = {0xff, 0xff, 0xff, 0xff, 0xff};
    world_init_empty(&world);
    int64_t live = world.heap.live;

    enum ps_status status = world_init_param(&world, "w", PS_F32, two, sizeof two,
                                             (struct ps_bytes){garbage, sizeof garbage});

    ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world.heap.live, live);
    world_fini(&world);
}
END_TEST

START_TEST(b24_a_combination_without_sense_is_refused_and_allocates_no_parameter)
{
    struct core_world world;
    struct ps_status_reply reply;
    char uuid[37];
    world_init_empty(&world);
    int64_t live = world.heap.live;

    enum ps_status status =
        world_init_param(&world, "w", PS_I64, two, sizeof two, config_of("adam", 0.1));

    ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world.heap.live, live);
    ps_service_status(world.service, &reply, uuid);
    ck_assert_uint_eq(reply.parameter_count, 0);
    world_fini(&world);
}
END_TEST

START_TEST(b24_content_of_no_whole_number_of_elements_is_refused)
{
    struct core_world world;
    const uint8_t bytes[16] = {0};
    world_init_empty(&world);

    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, bytes, 7, no_config), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world_init_param(&world, "w", PS_F64, bytes, 12, no_config), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world_init_param(&world, "w", PS_I64, bytes, 1, no_config), PS_ERR_BAD_INPUT);

    world_fini(&world);
}
END_TEST

START_TEST(b24_an_unknown_element_type_is_refused)
{
    struct core_world world;
    world_init_empty(&world);

    ck_assert_int_eq(world_init_param(&world, "w", (enum ps_dtype)6, two, sizeof two, no_config),
                     PS_ERR_BAD_INPUT);
    ck_assert_int_eq(world_init_param(&world, "w", (enum ps_dtype) - 1, two, sizeof two, no_config),
                     PS_ERR_BAD_INPUT);

    world_fini(&world);
}
END_TEST

START_TEST(b24_unaligned_content_is_fine)
{
    struct core_world world;
    uint8_t bytes[sizeof two + 1];
    memcpy(bytes + 1, two, sizeof two);
    world_init_empty(&world);

    ck_assert_int_eq(world_init_param(&world, "w", PS_F32, bytes + 1, sizeof two, no_config),
                     PS_OK);

    ck_assert_int_eq(world_finish(&world), PS_OK);
    world_expect_f32(&world, "w", two, 2);
    world_fini(&world);
}
END_TEST

START_TEST(names_that_may_not_be_are_refused)
{
    static const char *const names[] = {
        "",
        "ps.state/0/w",
        "ps.keys/w",
        "ps.clock/w",
        "__metadata__",
        "ps.sessions",
        "\xff\xfe",
        "\xc0\x80",
        "cut\xe2\x82",
        "ps.removed/w",
        "ps.rounds",
        "ps.clocks",
        "ps.candidates",
    };
    struct core_world world;
    world_init_empty(&world);

    ck_assert_int_eq(world_init_param(&world, names[_i], PS_F32, two, sizeof two, no_config),
                     PS_ERR_BAD_INPUT);

    world_fini(&world);
}
END_TEST

START_TEST(names_near_the_reserved_ones_are_fine)
{
    static const char *const names[] = {
        "ps.state", "__metadata__/w", "w/ps.state/", "\xc3\xa9t\xc3\xa9", " ",
    };
    struct core_world world;
    world_init_empty(&world);

    ck_assert_int_eq(world_init_param(&world, names[_i], PS_F32, two, sizeof two, no_config),
                     PS_OK);

    world_fini(&world);
}
END_TEST

START_TEST(the_longest_name_is_fine_and_one_byte_more_is_not)
{
    struct core_world world;
    char name[PS_NAME_BYTES_MAX + 2];
    memset(name, 'n', sizeof name);
    name[PS_NAME_BYTES_MAX + 1] = '\0';
    world_init_empty(&world);

    ck_assert_int_eq(world_init_param(&world, name, PS_F32, two, sizeof two, no_config),
                     PS_ERR_BAD_INPUT);
    name[PS_NAME_BYTES_MAX] = '\0';
    ck_assert_int_eq(world_init_param(&world, name, PS_F32, two, sizeof two, no_config), PS_OK);

    world_fini(&world);
}
END_TEST

START_TEST(a_name_with_a_nul_is_refused)
{
    struct core_world world;
    struct ps_bytes piece = {(const uint8_t *)two, sizeof two};
    struct ps_init_request request = {
        .name = {(const uint8_t *)"a\0b", 3}, .dtype = PS_F32, .content = ps_view_of(&piece)};
    world_init_empty(&world);

    ck_assert_int_eq(ps_service_init(world.service, &request, NULL, NULL), PS_ERR_BAD_INPUT);

    world_fini(&world);
}
END_TEST

START_TEST(init_survives_any_refused_allocation)
{
    struct core_world world;
    struct ps_status_reply reply;
    char uuid[37];
    world_init_empty(&world);
    struct ps_bytes config = config_of("adam", 0.1);
    int64_t live = world.heap.live;
    enum ps_status status = PS_ERR_NO_MEMORY;

    for (int64_t refuse = 0; status != PS_OK; refuse++) {
        ps_service_status(world.service, &reply, uuid);
        ck_assert_uint_eq(reply.parameter_count, 0);
        ck_assert_int_eq(world.heap.live, live);
        ck_assert_int_lt(refuse, 50);
        world.heap.refuse_at = world.heap.seen + refuse;
        status = world_init_param(&world, "w", PS_F32, two, sizeof two, config);
        world.heap.refuse_at = -1;
        ck_assert(status == PS_OK || status == PS_ERR_NO_MEMORY);
        ps_service_check(world.service);
    }

    ck_assert_int_eq(world_finish(&world), PS_OK);
    world_expect_f32(&world, "w", two, 2);
    world_fini(&world);
}
END_TEST

/* An allocator that loses the shard, and wins it back, while a parameter is being made. */
struct losing {
    const struct ps_allocator *heap;
    struct ps_service *service;
    bool loses;
};

static void *lose_and_take(void *self, size_t size)
{
    struct losing *losing = self;
    bool loses = losing->loses && size >= sizeof(struct ps_parameter);
    losing->loses = losing->loses && !loses;
    if (loses) {
        ps_service_reset(losing->service);
        ps_service_own(losing->service, 0, 1, 2, "");
        ps_service_prove(losing->service, PS_DEADLINE_NEVER);
        ps_service_begin_empty(losing->service);
    }
    return ps_zeroed(losing->heap, size);
}

static void *take_plain(void *self, size_t size)
{
    return ps_plain(((struct losing *)self)->heap, size);
}

static void give(void *self, void *memory)
{
    ps_release(((struct losing *)self)->heap, memory);
}

START_TEST(a11_a_parameter_made_for_a_life_that_is_over_is_not_taken_by_the_next)
{
    struct losing losing = {.heap = ps_allocator_heap()};
    const struct ps_allocator memory = {lose_and_take, take_plain, give, &losing};
    struct ps_service_options options = {.memory = &memory, .clock = ps_clock_real()};
    struct ps_bytes piece = {(const uint8_t *)two, sizeof two};
    const struct ps_init_request request = {
        .name = text("w"), .dtype = PS_F32, .content = ps_view_of(&piece)};
    struct ps_init_reply reply = {.epoch = 99};
    struct ps_status_reply status;
    char uuid[37];
    ck_assert_int_eq(ps_service_create(&options, &losing.service, NULL), PS_OK);
    ps_service_own(losing.service, 0, 1, 1, "");
    ps_service_prove(losing.service, PS_DEADLINE_NEVER);
    ps_service_begin_empty(losing.service);
    losing.loses = true;

    ck_assert_int_eq(ps_service_init(losing.service, &request, &reply, NULL), PS_ERR_UNAVAILABLE);

    ck_assert(!losing.loses);
    ck_assert_uint_eq(reply.epoch, 99);
    ps_service_status(losing.service, &status, uuid);
    ck_assert_uint_eq(status.parameter_count, 0);
    ps_service_check(losing.service);
    ps_service_destroy(losing.service);
}
END_TEST

/* A valid configuration of that many bytes: what follows the learning rate is a field that nobody
 * knows. */
static struct ps_bytes long_config(uint8_t *bytes, size_t size)
{
    struct ps_bytes known = config_of("sgd", 0.5);
    size_t left = size - known.size - 5;
    memset(bytes, 'c', size);
    memcpy(bytes, known.data, known.size);
    uint8_t *field = bytes + known.size; /* number 1000, with a length of three bytes */
    field[0] = 0xc2;
    field[1] = 0x3e;
    field[2] = (uint8_t)(left & 0x7f) | 0x80;
    field[3] = (uint8_t)(left >> 7 & 0x7f) | 0x80;
    field[4] = (uint8_t)(left >> 14);
    return (struct ps_bytes){bytes, size};
}

/* Gives parameters until one is refused; how many were taken. */
static size_t fill(struct core_world *world, struct ps_bytes config)
{
    char name[16];
    for (size_t i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "\"p\\%05zu", i);
        enum ps_status status = world_init_param(world, name, PS_F32, two, sizeof two, config);
        if (status == PS_OK)
            continue;
        ck_assert_int_eq(status, PS_ERR_BAD_INPUT);
        return i;
    }
    ck_abort_msg("all were taken");
}

START_TEST(a7_what_no_header_can_hold_is_refused_and_all_that_was_taken_is_saved_and_loaded)
{
    struct memory_files *disk = memory_files_create(1);
    struct core_world world, other;
    struct ps_recovered loaded;
    uint8_t *bytes = malloc(PS_CONFIG_BYTES_MAX);
    ck_assert_ptr_nonnull(bytes);
    struct ps_bytes config = long_config(bytes, PS_CONFIG_BYTES_MAX);
    disk_world_init(&world, 1);
    ps_service_begin_empty(world.service);

    size_t taken = fill(&world, config);

    ck_assert_uint_gt(taken, 700);
    ck_assert_uint_lt(taken, 800);
    ck_assert_msg(strstr(world.error.text, "limit 67108864") != NULL, "%s", world.error.text);
    ck_assert_msg(strstr(world.error.text, "\"p\\00") != NULL, "%s", world.error.text);
    ck_assert_int_eq(world_init_param(&world, "\"p\\00000", PS_F32, three, sizeof three, config),
                     PS_OK); /* in the place of one that is there */
    ck_assert_int_eq(world_finish(&world), PS_OK);
    disk_save(&world, disk, NULL);
    disk_world_init(&other, 2);
    ck_assert_int_eq(disk_load(&other, disk, "", &loaded), PS_OK);
    disk_expect_equal(&world, &other);
    world_fini(&other);
    world_fini(&world);
    free(bytes);
    memory_files_destroy(disk);
}
END_TEST

START_TEST(a7_who_saves_nothing_has_no_header_to_fill)
{
    struct core_world world;
    uint8_t *bytes = malloc(PS_CONFIG_BYTES_MAX);
    ck_assert_ptr_nonnull(bytes);
    char name[16];
    world_init_empty(&world);

    for (size_t i = 0; i < 900; i++) {
        snprintf(name, sizeof name, "p%zu", i);
        ck_assert_int_eq(world_init_param(&world, name, PS_F32, two, sizeof two,
                                          long_config(bytes, PS_CONFIG_BYTES_MAX)),
                         PS_OK);
    }

    world_fini(&world);
    free(bytes);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("init_param");
    tcase_add_test(tests, init_before_finish_may_be_repeated_and_replaces);
    tcase_add_test(tests, init_says_under_which_epoch_the_parameter_was_taken);
    tcase_add_test(tests, a_refused_init_says_no_epoch);
    tcase_add_test(tests, init_after_finish_is_refused);
    tcase_add_test(tests, b15_empty_content_is_refused);
    tcase_add_test(tests, b15_bad_config_is_refused_and_leaves_nothing);
    tcase_add_test(tests, b24_a_combination_without_sense_is_refused_and_allocates_no_parameter);
    tcase_add_test(tests, b24_content_of_no_whole_number_of_elements_is_refused);
    tcase_add_test(tests, b24_an_unknown_element_type_is_refused);
    tcase_add_test(tests, b24_unaligned_content_is_fine);
    tcase_add_loop_test(tests, names_that_may_not_be_are_refused, 0, 13);
    tcase_add_loop_test(tests, names_near_the_reserved_ones_are_fine, 0, 5);
    tcase_add_test(tests, the_longest_name_is_fine_and_one_byte_more_is_not);
    tcase_add_test(tests, a_name_with_a_nul_is_refused);
    tcase_add_test(tests, init_survives_any_refused_allocation);
    tcase_add_test(
        tests, a7_what_no_header_can_hold_is_refused_and_all_that_was_taken_is_saved_and_loaded);
    tcase_add_test(tests, a11_a_parameter_made_for_a_life_that_is_over_is_not_taken_by_the_next);
    tcase_add_test(tests, a7_who_saves_nothing_has_no_header_to_fill);
    return run_tests("init_param", tests);
}
