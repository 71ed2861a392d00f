/* SPDX-License-Identifier: Apache-2.0 */
/* core/update/parameter_table.c: parameters by name. */
#include "server/core/update/parameter_table.h"
#include "tests/unit/core/core_world.h"

#include <stdio.h>

static const struct ps_optimizer_settings sgd = {.rule = PS_RULE_SGD};

static struct ps_parameter *create(const struct ps_allocator *memory, const char *name,
                                   uint64_t count)
{
    struct ps_parameter_spec *spec = ps_parameter_spec_create(memory, text(name), PS_F32, count,
                                                              (struct ps_bytes){NULL, 0}, &sgd);
    struct ps_parameter *parameter = ps_parameter_create(spec);
    ck_assert_ptr_nonnull(parameter);
    ps_parameter_spec_release(spec);
    return parameter;
}

START_TEST(a_parameter_is_found_by_its_name_alone)
{
    struct ps_parameter_table table;
    struct ps_parameter *replaced;
    ps_parameter_table_init(&table, ps_allocator_heap());
    struct ps_parameter *a = create(ps_allocator_heap(), "a", 1);
    struct ps_parameter *ab = create(ps_allocator_heap(), "ab", 2);

    ck_assert_int_eq(ps_parameter_table_insert(&table, a, &replaced), PS_OK);
    ck_assert_int_eq(ps_parameter_table_insert(&table, ab, &replaced), PS_OK);

    ck_assert_ptr_null(replaced);
    ck_assert_ptr_eq(ps_parameter_table_find(&table, text("a")), a);
    ck_assert_ptr_eq(ps_parameter_table_find(&table, text("ab")), ab);
    ck_assert_ptr_null(ps_parameter_table_find(&table, text("b")));
    ck_assert_ptr_null(ps_parameter_table_find(&table, text("")));
    ck_assert_uint_eq(table.value_bytes, 12);
    ps_parameter_table_check(&table);
    ps_parameter_table_fini(&table);
}
END_TEST

START_TEST(a_second_parameter_of_a_name_replaces_the_first)
{
    struct ps_parameter_table table;
    struct ps_parameter *replaced;
    ps_parameter_table_init(&table, ps_allocator_heap());
    struct ps_parameter *old = create(ps_allocator_heap(), "a", 1);
    struct ps_parameter *fresh = create(ps_allocator_heap(), "a", 5);
    ck_assert_int_eq(ps_parameter_table_insert(&table, old, &replaced), PS_OK);

    ck_assert_int_eq(ps_parameter_table_insert(&table, fresh, &replaced), PS_OK);

    ck_assert_ptr_eq(replaced, old);
    ps_parameter_destroy(replaced);
    ck_assert_ptr_eq(ps_parameter_table_find(&table, text("a")), fresh);
    ck_assert_uint_eq(table.count, 1);
    ck_assert_uint_eq(table.value_bytes, 20);
    ps_parameter_table_check(&table);
    ps_parameter_table_fini(&table);
}
END_TEST

START_TEST(looking_ahead_changes_nothing)
{
    struct ps_parameter_table table;
    struct ps_parameter *replaced;
    struct ps_parameter *parameters[200];
    char names[200][16];
    struct ps_bytes expected[PS_EXPECTED_NAMES_MAX] = {text("p0"), text("nobody")};
    ps_parameter_table_init(&table, ps_allocator_heap());
    ps_parameter_table_expect(&table, expected, 2); /* nobody is there */
    for (int i = 0; i < 200; i++) {
        snprintf(names[i], sizeof names[i], "p%d", i);
        parameters[i] = create(ps_allocator_heap(), names[i], 1);
        ck_assert_int_eq(ps_parameter_table_insert(&table, parameters[i], &replaced), PS_OK);
    }

    ps_parameter_table_expect(&table, expected, 0);
    for (int i = 0; i + PS_EXPECTED_NAMES_MAX <= 200; i++) {
        for (int k = 0; k < PS_EXPECTED_NAMES_MAX; k++)
            expected[k] = k % 5 == 3 ? text("nobody") : text(names[i + k]);
        expected[7] = text("");
        ps_parameter_table_expect(&table, expected, PS_EXPECTED_NAMES_MAX);
    }

    for (int i = 0; i < 200; i++)
        ck_assert_ptr_eq(ps_parameter_table_find(&table, text(names[i])), parameters[i]);
    ps_parameter_table_check(&table);
    ps_parameter_table_fini(&table);
}
END_TEST

START_TEST(a_table_goes_through_its_parameters_in_order_of_insertion)
{
    struct ps_parameter_table table;
    struct ps_parameter *replaced;
    ps_parameter_table_init(&table, ps_allocator_heap());
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        ck_assert_int_eq(ps_parameter_table_insert(
                             &table, create(ps_allocator_heap(), name, (uint64_t)i + 1), &replaced),
                         PS_OK);
    }

    uint64_t expected = 1;
    for (struct ps_parameter_entry *entry = ps_parameter_table_first(&table); entry != NULL;
         entry = ps_parameter_table_next(entry))
        ck_assert_uint_eq(ps_parameter_entry_parameter(entry)->spec->count, expected++);

    ck_assert_uint_eq(expected, 101);
    ps_parameter_table_fini(&table);
    ck_assert_uint_eq(table.count, 0);
    ck_assert_ptr_null(ps_parameter_table_first(&table));
}
END_TEST

/* Far enough that uthash grows its buckets several times with an allocation refused. */
START_TEST(insert_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = -1};
    struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_parameter_table table;
    struct ps_parameter *replaced;
    ps_parameter_table_init(&table, &memory);
    for (int i = 0; i < _i * 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        ck_assert_int_eq(ps_parameter_table_insert(&table, create(&memory, name, 1), &replaced),
                         PS_OK);
    }
    size_t count = table.count;
    struct ps_parameter *parameter = create(&memory, "more", 1);
    enum ps_status status = PS_ERR_NO_MEMORY;

    for (int64_t refuse = 0; status != PS_OK; refuse++) {
        heap.refuse_at = heap.seen + refuse;
        status = ps_parameter_table_insert(&table, parameter, &replaced);
        heap.refuse_at = -1;
        ps_parameter_table_check(&table);
        ck_assert_uint_eq(table.count, status == PS_OK ? count + 1 : count);
        ck_assert_int_lt(refuse, 10);
    }

    ps_parameter_table_fini(&table);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("parameter_table");
    tcase_add_test(tests, a_parameter_is_found_by_its_name_alone);
    tcase_add_test(tests, a_second_parameter_of_a_name_replaces_the_first);
    tcase_add_test(tests, looking_ahead_changes_nothing);
    tcase_add_test(tests, a_table_goes_through_its_parameters_in_order_of_insertion);
    tcase_add_loop_test(tests, insert_survives_any_refused_allocation, 0, 60);
    return run_tests("parameter_table", tests);
}
