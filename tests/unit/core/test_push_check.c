/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/push_check.c: what a push says of itself. */
#include "core_world.h"
#include "server/core/requests/service_state.h"

#include <string.h>

static struct core_world world;

START_TEST(a_level_that_is_not_offered_is_refused)
{
    world_init_ready(&world);
    ck_assert_int_eq(ps_service_check_acknowledgement(world.service, PS_ACK_MEMORY, &world.error),
                     PS_OK);
    ck_assert_int_eq(ps_service_check_acknowledgement(world.service, PS_ACK_LOGGED, &world.error),
                     PS_ERR_UNSUPPORTED);
    world_fini(&world);
    world_init_journal(&world);
    ck_assert_int_eq(ps_service_check_acknowledgement(world.service, PS_ACK_LOGGED, &world.error),
                     PS_OK);
    world_fini(&world);
}
END_TEST

START_TEST(the_type_is_looked_at_before_the_length)
{
    world_init_ready(&world);
    const struct ps_parameter *parameter =
        ps_parameter_table_find(&world.service->table, text("w"));
    const struct ps_parameter_spec *spec = parameter->spec;
    ck_assert_int_eq(ps_service_check_gradient(spec, PS_F32, PS_ENCODING_NATIVE, 16, &world.error),
                     PS_OK);
    ck_assert_int_eq(ps_service_check_gradient(spec, PS_F64, PS_ENCODING_NATIVE, 16, &world.error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(world.error.text, "element type not match"));
    ck_assert_int_eq(ps_service_check_gradient(spec, PS_F32, PS_ENCODING_NATIVE, 12, &world.error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(world.error.text, "same content len"));
    ck_assert_int_eq(ps_service_check_gradient(spec, PS_F32, PS_ENCODING_BFLOAT16, 8, &world.error),
                     PS_OK);
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("push_check");
    tcase_add_test(tests, a_level_that_is_not_offered_is_refused);
    tcase_add_test(tests, the_type_is_looked_at_before_the_length);
    return run_tests("push_check", tests);
}
