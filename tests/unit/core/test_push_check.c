/* SPDX-License-Identifier: Apache-2.0 */
/* core/requests/push_check.c: what a push says of itself. */
#include "base/partition.h"
#include "core_table.h"
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

/* 0 is what clients say that were built before the field, and a parameter that is no table is
 * refused for that, whatever width is said. */
START_TEST(rows_of_another_width_are_refused_with_both_widths)
{
    world_init_ready(&world);
    struct ps_table_settings plain = {0};
    ck_assert_int_eq(table_define(&world, table_config("sgd", plain), 1), PS_OK);
    const struct ps_parameter_spec *table = table_of(&world)->spec;
    const struct ps_parameter_spec *dense =
        ps_parameter_table_find(&world.service->table, text("w"))->spec;

    ck_assert_int_eq(ps_service_check_row_width(table, 0, &world.error), PS_OK);
    ck_assert_int_eq(ps_service_check_row_width(table, TABLE_WIDTH, &world.error), PS_OK);
    ck_assert_int_eq(ps_service_check_row_width(dense, 7, &world.error), PS_OK);
    ck_assert_int_eq(ps_service_check_row_width(table, TABLE_WIDTH + 7, &world.error),
                     PS_ERR_BAD_INPUT);
    ck_assert_str_eq(world.error.text,
                     "Name: t, rows of 10 elements were pushed, and the table has rows of 3: open "
                     "the table again");

    /* Under the longest name there is. */
    char name[PS_NAME_BYTES_MAX + 1] = {0};
    struct ps_parameter_spec named = *table;
    memset(name, 'n', PS_NAME_BYTES_MAX);
    named.name = text(name);
    ck_assert_int_eq(ps_service_check_row_width(&named, UINT32_MAX, &world.error),
                     PS_ERR_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(world.error.text,
                                 "nnn, rows of 4294967295 elements were pushed, and the table has "
                                 "rows of 3: open the table again"));
    ck_assert_int_eq(strncmp(world.error.text, "Name: nnn", 9), 0);
    world_fini(&world);
}
END_TEST

/* Shard 1 of 3 is asked for the keys 0, 1, .. `count` - 1, those of others left out or not. */
static enum ps_status check_keys(uint64_t count, bool left_out)
{
    static uint64_t keys[1000];
    struct ps_parameter_spec spec = *table_of(&world)->spec;
    const struct ps_partition three = {.kind = PS_PARTITION_HASH, .shard_count = 3};
    size_t kept = 0;
    spec.shard = 1;
    spec.shard_count = 3;
    for (uint64_t key = 0; key < count; key++)
        if (!left_out || ps_partition_shard(&three, key) == 1)
            keys[kept++] = key;
    const struct ps_bytes bytes = {(const uint8_t *)keys, kept * sizeof keys[0]};
    return ps_service_check_keys(&spec, ps_view_of(&bytes), kept, &world.error);
}

START_TEST(hashed_keys_of_another_shard_are_refused)
{
    struct ps_table_settings plain = {0};
    world_init_ready(&world);
    ck_assert_int_eq(table_define(&world, table_config("sgd", plain), 1), PS_OK);
    for (uint64_t count = 1; count <= 1000; count++) {
        ck_assert_int_eq(check_keys(count, true), PS_OK);
        ck_assert_int_eq(check_keys(count, false), PS_ERR_OUT_OF_RANGE);
    }
    ck_assert_str_eq(world.error.text,
                     "Name: t, key 0 is shard 0's of 3, and this is shard 1: nothing was done; a "
                     "client that counts other shards is to be opened again");
    world_fini(&world);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("push_check");
    tcase_add_test(tests, a_level_that_is_not_offered_is_refused);
    tcase_add_test(tests, the_type_is_looked_at_before_the_length);
    tcase_add_test(tests, rows_of_another_width_are_refused_with_both_widths);
    tcase_add_test(tests, hashed_keys_of_another_shard_are_refused);
    return run_tests("push_check", tests);
}
