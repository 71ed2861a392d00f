/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/init_check.c: which shapes InitParam takes; they stay with the parameter. */
#include "tests/unit/core/core_disk.h"

#include <string.h>

/* 192 KiB: three ranges of the smallest size. */
enum { COUNT = 3 * 16384, PART = 16384 };

static const struct ps_bytes no_config = {NULL, 0};
static float values[COUNT];
static struct core_world world;

static struct ps_shape shape_of(size_t rank, const uint64_t *lengths)
{
    struct ps_shape shape;
    ck_assert_int_eq(ps_shape_make(&shape, lengths, rank, NULL), PS_OK);
    return shape;
}

static const uint64_t two_by_three[] = {2, 3};

static enum ps_status init(const char *name, uint64_t count, struct ps_shape shape)
{
    struct ps_bytes piece = {(const uint8_t *)values, count * sizeof(float)};
    const struct ps_init_request request = {
        .name = text(name), .dtype = PS_F32, .content = ps_view_of(&piece), .shape = shape};
    return ps_service_init(world.service, &request, NULL, &world.error);
}

/* One range of PART elements from `first` on, as the client "client". */
static enum ps_status init_part(const char *client, uint64_t first, struct ps_shape shape)
{
    struct ps_bytes piece = {(const uint8_t *)(values + first), PART * sizeof(float)};
    const struct ps_init_request request = {
        .name = text("w"),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .range = {first, PART},
        .total = COUNT,
        .shape = shape,
        .request = {.present = true, .client_id = text(client), .session = 1, .sequence = 1}};
    return ps_service_init(world.service, &request, NULL, &world.error);
}

static void expect_listed(const struct core_world *listed, const char *name, struct ps_shape shape)
{
    const struct ps_list_request request = {.limit = 0};
    struct ps_list_reply reply;
    bool found = false;
    ck_assert_int_eq(ps_service_list(listed->service, &request, &reply, NULL), PS_OK);
    for (size_t i = 0; i < reply.param_count; i++)
        if (ps_bytes_equal(reply.params[i].name, text(name)))
            found = ps_shape_equal(&reply.params[i].shape, &shape);
    ck_assert_msg(found, "%s is listed with another shape", name);
    ps_service_list_release(listed->service, &reply);
}

START_TEST(a_shape_is_listed_as_it_came)
{
    struct ps_shape two = shape_of(2, two_by_three);
    struct ps_shape scalar = shape_of(0, NULL);
    static const uint64_t six[] = {6};
    world_init_empty(&world);

    ck_assert_int_eq(init("two", 6, two), PS_OK);
    ck_assert_int_eq(init("scalar", 1, scalar), PS_OK);
    ck_assert_int_eq(init("flat", 6, shape_of(1, six)), PS_OK);
    ck_assert_int_eq(init("none", 6, (struct ps_shape){0}), PS_OK);

    ck_assert_int_eq(world_finish(&world), PS_OK);
    expect_listed(&world, "two", two);
    expect_listed(&world, "scalar", scalar);
    expect_listed(&world, "flat", (struct ps_shape){0});
    expect_listed(&world, "none", (struct ps_shape){0});
    world_fini(&world);
}
END_TEST

START_TEST(a_shape_of_other_than_the_elements_is_refused)
{
    static const uint64_t beyond[] = {UINT64_C(1) << 32, UINT64_C(1) << 32, 6};
    static const uint64_t empty[] = {6, 0};
    world_init_empty(&world);

    ck_assert_int_eq(init("w", 5, shape_of(2, two_by_three)), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(init("w", 7, shape_of(2, two_by_three)), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(init("w", 6, shape_of(0, NULL)), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(init("w", 6, shape_of(3, beyond)), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(init("w", 6, shape_of(2, empty)), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(init("w", 3, shape_of(2, two_by_three)), PS_ERR_BAD_INPUT);

    ck_assert_int_eq(init("w#0/2", 3, shape_of(2, two_by_three)), PS_OK);
    world_fini(&world);
}
END_TEST

START_TEST(every_range_says_the_same_shape)
{
    static const uint64_t lengths[] = {3, PART};
    static const uint64_t other[] = {PART, 3};
    struct ps_shape shape = shape_of(2, lengths);
    world_init_empty(&world);

    ck_assert_int_eq(init_part("a", 0, shape_of(2, two_by_three)), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(init_part("a", 0, shape), PS_OK);
    ck_assert_int_eq(init_part("a", PART, shape_of(2, other)), PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(world.error.text, "shape"));
    ck_assert_int_eq(init_part("a", PART, (struct ps_shape){0}), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(init_part("a", PART, shape), PS_OK);
    ck_assert_int_eq(init_part("a", 2 * PART, shape), PS_OK);

    ck_assert_int_eq(world_finish(&world), PS_OK);
    expect_listed(&world, "w", shape);
    world_fini(&world);
}
END_TEST

START_TEST(a_repeat_with_another_shape_is_another_request)
{
    struct ps_bytes piece = {(const uint8_t *)values, 6 * sizeof(float)};
    struct ps_init_request request = {
        .name = text("w"),
        .dtype = PS_F32,
        .content = ps_view_of(&piece),
        .shape = shape_of(2, two_by_three),
        .request = {.present = true, .client_id = text("a"), .session = 1, .sequence = 1}};
    world_init_empty(&world);
    ck_assert_int_eq(ps_service_init(world.service, &request, NULL, NULL), PS_OK);
    ck_assert_int_eq(ps_service_init(world.service, &request, NULL, NULL), PS_OK);

    request.shape = (struct ps_shape){0};

    ck_assert_int_ne(ps_service_init(world.service, &request, NULL, NULL), PS_OK);
    world_fini(&world);
}
END_TEST

START_TEST(shapes_come_back_from_a_checkpoint)
{
    struct ps_shape two = shape_of(2, two_by_three);
    struct memory_files *disk = memory_files_create(1);
    struct core_world loaded;
    struct ps_recovered recovered;
    disk_world_init(&world, 1);
    ps_service_begin_empty(world.service);
    ck_assert_int_eq(init("two", 6, two), PS_OK);
    ck_assert_int_eq(init("w#1/2", 3, two), PS_OK);
    ck_assert_int_eq(init("scalar", 1, shape_of(0, NULL)), PS_OK);
    ck_assert_int_eq(world_init_param(&world, "none", PS_F32, values, 8, no_config), PS_OK);
    ck_assert_int_eq(world_finish(&world), PS_OK);
    disk_save(&world, disk, NULL);

    disk_world_init(&loaded, 2);
    ck_assert_int_eq(disk_load(&loaded, disk, NULL, &recovered), PS_OK);

    disk_expect_equal(&world, &loaded);
    expect_listed(&loaded, "two", two);
    expect_listed(&loaded, "w#1/2", two);
    world_fini(&world);
    world_fini(&loaded);
    memory_files_destroy(disk);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("init_check");
    tcase_add_test(tests, a_shape_is_listed_as_it_came);
    tcase_add_test(tests, a_shape_of_other_than_the_elements_is_refused);
    tcase_add_test(tests, every_range_says_the_same_shape);
    tcase_add_test(tests, a_repeat_with_another_shape_is_another_request);
    tcase_add_test(tests, shapes_come_back_from_a_checkpoint);
    return run_tests("init_check", tests);
}
