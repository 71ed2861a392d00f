/* SPDX-License-Identifier: Apache-2.0 */
/* core/recovery/snapshot_candidates.c: the candidates of one instant as records, whatever comes
 * behind it. */
#include "server/core/recovery/snapshot_candidates.h"

#include "checkpoint/journal.h"
#include "checkpoint/journal_candidates.h"
#include "core_table.h"
#include "server/core/requests/change.h"
#include "server/core/requests/service_state.h"

#include <string.h>

static struct core_world world;
static struct ps_snapshot_candidates *candidates;

static void begin_test(void)
{
    world_init_ready(&world);
    candidates = NULL;
}

static void end_test(void)
{
    ps_snapshot_candidates_release(candidates);
    world_fini(&world);
}

static void define(uint32_t admission)
{
    const struct ps_table_settings settings = {.admission = admission};
    ck_assert_int_eq(table_define(&world, table_config("sgd", settings), 0), PS_OK);
}

static enum ps_status take(void)
{
    ps_rwlock_write(&world.service->cut);
    enum ps_status status = ps_snapshot_candidates_take(world.service, &candidates, &world.error);
    ps_rwlock_unlock(&world.service->cut);
    return status;
}

START_TEST(tables_without_candidates_have_no_records)
{
    define((uint32_t)_i);
    if (_i < 2)
        ck_assert_int_eq(table_push(&world, 0, 10, 1, 0), PS_OK);
    ck_assert_int_eq(take(), PS_OK);
    ck_assert_ptr_null(candidates);
    ck_assert_uint_eq(ps_snapshot_candidates_records(candidates).count, 0);
}
END_TEST

START_TEST(records_are_of_the_instant_and_the_same_each_time)
{
    struct ps_record record;
    uint64_t keys[10];
    uint32_t pairs[2][10];
    define(3);
    ck_assert_int_eq(table_push(&world, 0, 10, 1, 0), PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 5, 1, 0), PS_OK);
    ck_assert_int_eq(take(), PS_OK);
    ck_assert_int_eq(table_push(&world, 0, 20, 1, 0), PS_OK);
    struct ps_checkpoint_records records = ps_snapshot_candidates_records(candidates);
    ck_assert_uint_eq(records.count, 1);
    for (int turn = 0; turn < 2; turn++) {
        records.give(records.self, 0, &record);
        ck_assert_int_eq(record.type, PS_RECORD_CANDIDATES);
        ck_assert(ps_bytes_equal(record.name, text("t")));
        ck_assert_uint_eq(record.version, 2);
        ck_assert_uint_eq(record.content.size, 10 * PS_CANDIDATE_BYTES);
        ps_view_copy(record.content, 0, keys, sizeof keys);
        ps_view_copy(record.content, PS_CANDIDATES_COUNTS_AT(10), pairs, sizeof pairs);
        for (size_t i = 0; i < 10; i++) {
            ck_assert_uint_lt(keys[i], 10);
            /* How often, and the version of the last push, which are the same number here. */
            ck_assert_uint_eq(pairs[0][i], keys[i] < 5 ? 2 : 1);
            ck_assert_uint_eq(pairs[1][i], keys[i] < 5 ? 2 : 1);
        }
    }
}
END_TEST

/* Candidates of the record whose count is not what the pushes of the test below made. */
static size_t wrong_counts(const struct ps_record *record, size_t each)
{
    static uint8_t content[PS_CANDIDATES_RECORD_MAX * PS_CANDIDATE_BYTES];
    size_t count = record->content.size / PS_CANDIDATE_BYTES;
    size_t wrong = 0;
    ps_view_copy(record->content, 0, content, record->content.size);
    for (size_t i = 0; i < count; i++) {
        uint64_t key;
        uint32_t pushes;
        memcpy(&key, content + i * sizeof key, sizeof key);
        memcpy(&pushes, content + PS_CANDIDATES_COUNTS_AT(count) + i * sizeof pushes,
               sizeof pushes);
        wrong += pushes != (key / each % 2 == 0 ? 2 : 1);
    }
    return wrong;
}

/* Every other lot of keys comes once more. */
START_TEST(each_of_several_records_has_its_own_counts)
{
    enum { LOTS = 130, EACH = 512 };
    struct ps_record record;
    uint64_t seen = 0;
    size_t wrong = 0;
    define(5);
    for (uint64_t i = 0; i < LOTS; i++)
        ck_assert_int_eq(table_push(&world, i * EACH, EACH, 1, 0), PS_OK);
    for (uint64_t i = 0; i < LOTS; i += 2)
        ck_assert_int_eq(table_push(&world, i * EACH, EACH, 1, 0), PS_OK);
    ck_assert_int_eq(take(), PS_OK);

    struct ps_checkpoint_records records = ps_snapshot_candidates_records(candidates);
    ck_assert_uint_eq(records.count, 2);
    for (size_t i = 0; i < records.count; i++) {
        records.give(records.self, i, &record);
        wrong += wrong_counts(&record, EACH);
        seen += record.content.size / PS_CANDIDATE_BYTES;
    }

    ck_assert_uint_eq(seen, LOTS * EACH);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(without_memory_nothing_is_held)
{
    define(2);
    ck_assert_int_eq(table_push(&world, 0, 10, 1, 0), PS_OK);
    for (int i = 0; i < 3; i++) {
        world.heap.seen = 0;
        world.heap.refuse_at = i;
        ck_assert_int_eq(take(), PS_ERR_NO_MEMORY);
        world.heap.refuse_at = -1;
    }
    ck_assert_ptr_null(candidates);
    ck_assert_int_eq(take(), PS_OK);
    ck_assert_ptr_nonnull(candidates);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("snapshot_candidates");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_loop_test(tests, tables_without_candidates_have_no_records, 0, 3);
    tcase_add_test(tests, records_are_of_the_instant_and_the_same_each_time);
    tcase_add_test(tests, each_of_several_records_has_its_own_counts);
    tcase_add_test(tests, without_memory_nothing_is_held);
    return run_tests("snapshot_candidates", tests);
}
