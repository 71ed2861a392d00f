/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/registry_sets.c: a set is whole, under way or not there, whatever is lost on the way. */
#include "etcd/registry_sets.h"
#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ps_set wish_of(const char *name, uint32_t shard_count, uint64_t unix_ns)
{
    struct ps_set wish = {.shard_count = shard_count, .asked_unix_ns = unix_ns};
    (void)snprintf(wish.name, sizeof wish.name, "%s", name);
    return wish;
}

/* Asks, and says what holds then. */
static struct ps_set want(const char *name, uint32_t shard_count)
{
    struct ps_set set;
    bool is_whole = true;
    const struct ps_set wish = wish_of(name, shard_count, 7);
    ck_assert_int_eq(ps_registry_want_set(&registry, &wish, soon(), &set, &is_whole, NULL), PS_OK);
    ck_assert(!is_whole);
    return set;
}

static void publish(const struct ps_claim *claim, const struct ps_set *set, const char *json)
{
    ck_assert_int_eq(
        ps_registry_publish_in_set(&registry, claim, set, ps_bytes_of_text(json), soon(), NULL),
        PS_OK);
}

static bool finish(const struct ps_set *set)
{
    bool is_whole = false;
    ck_assert_int_eq(ps_registry_finish_set(&registry, set, soon(), &is_whole, NULL), PS_OK);
    return is_whole;
}

/* A whole set of one shard. */
static void make_whole(const struct ps_claim *claim, const char *name)
{
    const struct ps_set set = want(name, 1);
    publish(claim, &set, "{}");
    ck_assert(finish(&set));
}

START_TEST(names_are_labels)
{
    char longest[PS_SET_NAME_BYTES_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[PS_SET_NAME_BYTES_MAX + 1] = '\0';

    ck_assert_int_eq(ps_set_name_check("a-Z_9.", NULL), PS_OK);
    ck_assert_int_eq(ps_set_name_check("", NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_set_name_check("a/b", NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_set_name_check("a b", NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_set_name_check(longest, NULL), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(ps_set_name_check(longest + 1, NULL), PS_OK);
}
END_TEST

START_TEST(a_set_is_whole_when_the_last_row_is_there_and_not_before)
{
    struct ps_claim first = claim_any(2);
    struct ps_claim second = claim_any(2);
    const struct ps_set set = want("s", 2);
    assert_key("/ps_wanted", "2 7 s");

    publish(&first, &set, "{\"a\":1}");
    ck_assert(!finish(&set));
    publish(&second, &set, "{\"a\":2}");
    ck_assert(finish(&set));

    assert_key("/ps_wanted", NULL);
    assert_key("/checkpoints/whole/s", "2 7 s");
    assert_key("/checkpoints/model/s/1", "{\"a\":2}");
    assert_key("/checkpoints/1", "{\"a\":2}");
    ck_assert(!finish(&set));
}
END_TEST

START_TEST(a_repeat_joins_and_another_one_is_told_which_is_under_way)
{
    struct ps_set set;
    bool is_whole = false;
    struct ps_error error = {0};
    struct ps_claim claim = claim_any(1);
    const struct ps_set first = want("s", 1);
    ck_assert_int_eq(want("s", 1).revision, first.revision);

    const struct ps_set other = wish_of("t", 1, 8);
    ck_assert_int_eq(ps_registry_want_set(&registry, &other, soon(), &set, &is_whole, &error),
                     PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(error.text, "set s is under way"));

    publish(&claim, &first, "{}");
    ck_assert(finish(&first));
    const struct ps_set again = wish_of("s", 1, 9);
    ck_assert_int_eq(ps_registry_want_set(&registry, &again, soon(), &set, &is_whole, NULL), PS_OK);
    ck_assert(is_whole);
    ck_assert_uint_eq(set.asked_unix_ns, 7);
}
END_TEST

START_TEST(a_set_that_takes_too_long_gives_way_with_its_rows)
{
    struct ps_claim claim = claim_any(2);
    const struct ps_set stuck = want("s", 2);
    publish(&claim, &stuck, "{}");
    struct ps_set set;
    bool is_whole = false;

    const struct ps_set later = wish_of("s2", 2, 8 + PS_SET_PATIENCE_NS);
    ck_assert_int_eq(ps_registry_want_set(&registry, &later, soon(), &set, &is_whole, NULL), PS_OK);
    ck_assert_int_eq(
        ps_registry_publish_in_set(&registry, &claim, &stuck, ps_bytes_of_text("{}"), soon(), NULL),
        PS_ERR_CONFLICT);
    /* The same name again: the row of the first try is of before this asking. */
    const struct ps_set third = wish_of("s", 2, 9 + 2 * PS_SET_PATIENCE_NS);
    ck_assert_int_eq(ps_registry_want_set(&registry, &third, soon(), &set, &is_whole, NULL), PS_OK);

    ck_assert_uint_eq(count_keys("/checkpoints/model/"), 0);
    ck_assert_int_ne(set.revision, stuck.revision);
}
END_TEST

/* Its asker's clock was a year ahead: by any other it would not be old for a year. */
START_TEST(a_set_that_was_asked_for_in_times_to_come_gives_way)
{
    const struct ps_set ahead = wish_of("s", 2, 9 + PS_SET_PATIENCE_NS);
    struct ps_set set;
    bool is_whole = false;
    ck_assert_int_eq(ps_registry_want_set(&registry, &ahead, soon(), &set, &is_whole, NULL), PS_OK);
    const struct ps_set soon_after = wish_of("s2", 2, 9);
    ck_assert_int_eq(ps_registry_want_set(&registry, &soon_after, soon(), &set, &is_whole, NULL),
                     PS_ERR_BUSY);
    const struct ps_set now = wish_of("s2", 2, 8);
    ck_assert_int_eq(ps_registry_want_set(&registry, &now, soon(), &set, &is_whole, NULL), PS_OK);
    ck_assert_str_eq(set.name, "s2");
}
END_TEST

START_TEST(a_set_of_another_number_of_shards_gives_way_and_so_does_nonsense)
{
    (void)want("old", 3);
    ck_assert_str_eq(want("new", 2).name, "new");
    static const char *const nonsense[] = {"",        "2",     "2 7",      "0 7 s",
                                           "2 7 a/b", "2 x s", "9999 7 s", "2 7 "};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        struct ps_set set;
        put("/ps_wanted", nonsense[i]);
        ck_assert_int_eq(ps_registry_wanted_set(&registry, soon(), &set, NULL), PS_OK);
        ck_assert_str_eq(set.name, "");
        ck_assert_int_ne(set.revision, 0);
        ck_assert_str_eq(want("new", 2).name, "new");
    }
}
END_TEST

START_TEST(a_former_owner_puts_neither_pointer_nor_row)
{
    struct ps_claim fenced = claim_any(1);
    const struct ps_set set = want("s", 1);
    fake.now_ms += TTL_MS + 1;
    (void)claim_any(1);

    ck_assert_int_eq(
        ps_registry_publish_in_set(&registry, &fenced, &set, ps_bytes_of_text("{}"), soon(), NULL),
        PS_ERR_STALE_EPOCH);
    ck_assert_uint_eq(count_keys("/checkpoints/"), 0);
}
END_TEST

START_TEST(only_the_newest_sets_stay_and_rows_of_no_set_go)
{
    struct ps_claim claim = claim_any(1);
    struct ps_set_list list;
    make_whole(&claim, "b");
    make_whole(&claim, "a");
    make_whole(&claim, "c");
    put("/checkpoints/model/left/0", "{}");
    const struct ps_set wanted = want("d", 1);
    publish(&claim, &wanted, "{}");

    ck_assert_int_eq(ps_registry_sweep_sets(&registry, 2, soon(), NULL), PS_OK);

    ck_assert_int_eq(ps_registry_whole_sets(&registry, soon(), &list, NULL), PS_OK);
    ck_assert_uint_eq(list.count, 2);
    ck_assert_str_eq(list.sets[0].name, "c");
    ck_assert_str_eq(list.sets[1].name, "a");
    ck_assert_uint_eq(count_keys("/checkpoints/model/"), 3);
    assert_key("/checkpoints/model/b/0", NULL);
    assert_key("/checkpoints/model/d/0", "{}");
}
END_TEST

START_TEST(more_sets_than_fit_give_the_newest)
{
    struct ps_claim claim = claim_any(1);
    struct ps_set_list list;
    char name[16];
    for (int i = 0; i < PS_SETS_KEPT_MAX + 5; i++) {
        (void)snprintf(name, sizeof name, "s%d", i);
        make_whole(&claim, name);
    }

    ck_assert_int_eq(ps_registry_whole_sets(&registry, soon(), &list, NULL), PS_OK);

    ck_assert_uint_eq(list.count, PS_SETS_KEPT_MAX + 1);
    ck_assert_str_eq(list.sets[0].name, name);
    ck_assert_str_eq(list.sets[PS_SETS_KEPT_MAX].name, "s4");
}
END_TEST

/* Every write of the way is lost once, before and after it is made. */
START_TEST(a_lost_answer_neither_asks_twice_nor_loses_the_set)
{
    struct ps_claim claim = claim_any(1);
    for (int kind = LOSSY_AFTER; kind <= LOSSY_BEFORE; kind++) {
        struct ps_set set;
        bool is_whole = false;
        const struct ps_set wish = wish_of(kind == LOSSY_BEFORE ? "s" : "t", 1, 7);
        lossy_kv_init(&lossy, kv, (enum lossy_kind)kind, 1);
        ck_assert_int_eq(
            ps_registry_want_set(&lossy_registry, &wish, soon(), &set, &is_whole, NULL), PS_OK);
        ck_assert_int_ne(set.revision, 0);
        lossy_kv_init(&lossy, kv, (enum lossy_kind)kind, 1);
        ck_assert_int_eq(ps_registry_publish_in_set(&lossy_registry, &claim, &set,
                                                    ps_bytes_of_text("{}"), soon(), NULL),
                         PS_OK);
        ck_assert(finish(&set));
    }
    ck_assert_uint_eq(count_keys("/checkpoints/whole/"), 2);
}
END_TEST

START_TEST(rows_are_counted_by_their_index)
{
    struct ps_kv_entries rows;
    struct ps_kv_entries row;
    put("/checkpoints/model/s/0", "{}");
    put("/checkpoints/model/s/2", "{}");
    put("/checkpoints/model/s/01", "{}");
    put("/checkpoints/model/s2/1", "{}");

    ck_assert_int_eq(ps_registry_set_rows(&registry, "s", soon(), &rows, NULL), PS_OK);
    ck_assert_uint_eq(ps_set_rows_count(&rows, 2), 1);
    ck_assert_uint_eq(ps_set_rows_count(&rows, 3), 2);
    ps_kv_entries_release(&rows);
    ck_assert_int_eq(ps_registry_set_row(&registry, "s", 1, soon(), &row, NULL), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(ps_registry_set_row(&registry, "s", 2, soon(), &row, NULL), PS_OK);
    ps_kv_entries_release(&row);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry_sets");
    TCase *tests = tcase_create("registry_sets");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, names_are_labels);
    tcase_add_test(tests, a_set_is_whole_when_the_last_row_is_there_and_not_before);
    tcase_add_test(tests, a_repeat_joins_and_another_one_is_told_which_is_under_way);
    tcase_add_test(tests, a_set_that_takes_too_long_gives_way_with_its_rows);
    tcase_add_test(tests, a_set_that_was_asked_for_in_times_to_come_gives_way);
    tcase_add_test(tests, a_set_of_another_number_of_shards_gives_way_and_so_does_nonsense);
    tcase_add_test(tests, a_former_owner_puts_neither_pointer_nor_row);
    tcase_add_test(tests, only_the_newest_sets_stay_and_rows_of_no_set_go);
    tcase_add_test(tests, more_sets_than_fit_give_the_newest);
    tcase_add_test(tests, a_lost_answer_neither_asks_twice_nor_loses_the_set);
    tcase_add_test(tests, rows_are_counted_by_their_index);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
