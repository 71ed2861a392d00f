/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/kept_sets.c: which files of one shard sets keep. */
#include "server/core/recovery/kept_sets.h"

#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <check.h>
#include <stdio.h>

static void put_row(const char *key, const char *uuid)
{
    struct ps_checkpoint_place place = {.path = "/x", .unix_ns = 1};
    struct ps_buffer json;
    (void)snprintf(place.uuid, sizeof place.uuid, "%s", uuid);
    ps_buffer_init(&json, ps_allocator_heap(), 4096);
    ps_catalog_pointer_write(&place, &json);
    put(key, json.text);
    ps_buffer_fini(&json);
}

START_TEST(whole_sets_and_the_one_under_way_keep_the_shards_own_files)
{
    static struct ps_kept_sets kept;
    put("/checkpoints/whole/a", "2 1 a");
    put_row("/checkpoints/model/a/0", "a-0");
    put_row("/checkpoints/model/a/1", "a-1");
    put("/checkpoints/whole/b", "2 1 b");
    put("/checkpoints/model/b/0", "not a pointer");
    put("/ps_wanted", "2 1 c");
    put_row("/checkpoints/model/c/0", "c-0");
    put_row("/checkpoints/model/left/0", "left-0");

    ck_assert_int_eq(
        ps_kept_sets_read(&registry, 0, ps_allocator_heap(), PS_DEADLINE_NEVER, &kept, NULL),
        PS_OK);

    ck_assert_uint_eq(kept.count, 2);
    ck_assert(ps_kept_sets_have(&kept, "a-0"));
    ck_assert(ps_kept_sets_have(&kept, "c-0"));
    ck_assert(!ps_kept_sets_have(&kept, "a-1"));
    ck_assert(!ps_kept_sets_have(&kept, "left-0"));
}
END_TEST

START_TEST(there_is_room_for_as_many_as_may_stay)
{
    static struct ps_kept_sets kept;
    kept.count = 0;
    for (int i = 0; i < PS_SETS_KEPT_MAX + 3; i++)
        ck_assert(ps_kept_sets_add(&kept, "u"));
    ck_assert(!ps_kept_sets_add(&kept, "u"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kept_sets");
    TCase *tests = tcase_create("kept_sets");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, whole_sets_and_the_one_under_way_keep_the_shards_own_files);
    tcase_add_test(tests, there_is_room_for_as_many_as_may_stay);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
