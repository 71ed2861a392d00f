/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/registry_restore.c: all pointers of a set are replaced, or none. */
#include "etcd/registry_sets.h"
#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <string.h>

static struct ps_set_pointer wishes[2];

static void begin(void)
{
    setup();
    wishes[0] = (struct ps_set_pointer){0, ps_bytes_of_text("{\"a\":1}")};
    wishes[1] = (struct ps_set_pointer){1, ps_bytes_of_text("{\"a\":2}")};
    put("/checkpoints/0", "{\"a\":7}");
    put("/checkpoints/whole/s", "2 7 s");
    put("/checkpoints/whole/t", "2 8 t");
    put("/ps_wanted", "2 9 u");
}

static enum ps_status restore(struct ps_registry *to, struct ps_error *error)
{
    return ps_registry_restore_set(to, "s", wishes, 2, soon(), error);
}

START_TEST(every_pointer_is_replaced_and_what_else_was_asked_for_goes)
{
    ck_assert_int_eq(restore(&registry, NULL), PS_OK);

    assert_key("/checkpoints/0", "{\"a\":1}");
    assert_key("/checkpoints/1", "{\"a\":2}");
    assert_key("/checkpoints/whole/s", "2 7 s");
    assert_key("/checkpoints/whole/t", NULL);
    assert_key("/ps_wanted", NULL);
}
END_TEST

START_TEST(a_shard_with_an_owner_keeps_all_as_they_are)
{
    struct ps_error error = {0};
    put("/ps/1", "host:1");

    ck_assert_int_eq(restore(&registry, &error), PS_ERR_EXISTS);

    ck_assert_ptr_nonnull(strstr(error.text, "/ps/1 exists"));
    assert_key("/checkpoints/0", "{\"a\":7}");
    assert_key("/checkpoints/1", NULL);
    assert_key("/ps_wanted", "2 9 u");
}
END_TEST

START_TEST(a_set_that_is_gone_is_not_restored)
{
    ck_assert_int_eq(ps_registry_restore_set(&registry, "x", wishes, 2, soon(), NULL),
                     PS_ERR_NOT_FOUND);
    assert_key("/checkpoints/0", "{\"a\":7}");
}
END_TEST

START_TEST(a_lost_answer_is_found_by_reading_back)
{
    for (int kind = LOSSY_AFTER; kind <= LOSSY_BEFORE; kind++) {
        put("/checkpoints/0", "{\"a\":7}");
        lossy_kv_init(&lossy, kv, (enum lossy_kind)kind, 0);
        ck_assert_int_eq(restore(&lossy_registry, NULL), PS_OK);
        assert_key("/checkpoints/0", "{\"a\":1}");
    }
}
END_TEST

static void take_the_shard(void *context)
{
    (void)context;
    put("/ps/0", "host:0");
}

/* The store changes between the look and the transaction. */
START_TEST(a_server_that_comes_in_between_is_left_alone)
{
    lossy_kv_init(&lossy, kv, LOSSY_BEFORE, 0);
    lossy.meanwhile = take_the_shard;

    ck_assert_int_eq(restore(&lossy_registry, NULL), PS_ERR_EXISTS);

    assert_key("/checkpoints/0", "{\"a\":7}");
}
END_TEST

START_TEST(more_shards_than_a_transaction_holds_are_refused)
{
    static struct ps_set_pointer many[PS_SET_RESTORE_MAX + 1];
    for (uint32_t i = 0; i <= PS_SET_RESTORE_MAX; i++)
        many[i] = (struct ps_set_pointer){i, ps_bytes_of_text("{}")};

    ck_assert_int_eq(
        ps_registry_restore_set(&registry, "s", many, PS_SET_RESTORE_MAX + 1, soon(), NULL),
        PS_ERR_BAD_INPUT);
    ck_assert_int_eq(
        ps_registry_restore_set(&registry, "s", many, PS_SET_RESTORE_MAX, soon(), NULL), PS_OK);
    assert_key("/checkpoints/59", "{}");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry_restore");
    TCase *tests = tcase_create("registry_restore");
    tcase_add_checked_fixture(tests, begin, teardown);
    tcase_add_test(tests, every_pointer_is_replaced_and_what_else_was_asked_for_goes);
    tcase_add_test(tests, a_shard_with_an_owner_keeps_all_as_they_are);
    tcase_add_test(tests, a_set_that_is_gone_is_not_restored);
    tcase_add_test(tests, a_lost_answer_is_found_by_reading_back);
    tcase_add_test(tests, a_server_that_comes_in_between_is_left_alone);
    tcase_add_test(tests, more_shards_than_a_transaction_holds_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
