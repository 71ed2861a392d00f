/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/parameter_build.c: what is reserved is given back, or the table's. */
#include "core_world.h"
#include "server/core/requests/parameter_build.h"

static const float two[] = {1, 2};

START_TEST(a_parameter_that_is_built_has_reserved_its_bytes)
{
    struct core_world world;
    struct ps_bytes piece = {(const uint8_t *)two, sizeof two};
    const struct ps_init_request request = {
        .name = text("x"), .dtype = PS_F32, .content = ps_view_of(&piece)};
    struct ps_wish wish = {0};
    struct ps_parameter *parameter = NULL;
    world_init_ready(&world);
    uint64_t used = world.service->bytes_used;

    ck_assert_int_eq(ps_wish_check(world.service, &request, &wish, NULL), PS_OK);
    ck_assert_int_eq(ps_wish_build(world.service, &wish, &parameter, NULL), PS_OK);

    ck_assert_uint_eq(wish.count, 2);
    ck_assert_uint_eq(world.service->bytes_used, used + wish.bytes);
    ps_parameter_destroy(parameter);
    ps_wish_unreserve(world.service, wish.bytes);
    ck_assert_uint_eq(world.service->bytes_used, used);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("parameter_build");
    tcase_add_test(tests, a_parameter_that_is_built_has_reserved_its_bytes);
    return run_tests("parameter_build", tests);
}
