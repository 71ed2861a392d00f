/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/registry_checkpoints.c: pointers written by the owner only. */
#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(checkpoint_pointers_replace_each_other_and_outlive_the_owner)
{
    struct ps_claim claim = claim_any(2);
    struct ps_kv_entries entries;

    ck_assert_int_eq(ps_registry_publish_checkpoint(&registry, &claim,
                                                    ps_bytes_of_text("{\"a\":1}"), soon(), NULL),
                     PS_OK);
    ck_assert_int_eq(ps_registry_publish_checkpoint(&registry, &claim,
                                                    ps_bytes_of_text("{\"a\":2}"), soon(), NULL),
                     PS_OK);
    fake.now_ms += TTL_MS + 1;

    ck_assert_int_eq(ps_registry_read_checkpoint(&registry, 0, soon(), &entries, NULL), PS_OK);
    ck_assert_uint_eq(entries.count, 1);
    ck_assert_str_eq((const char *)entries.entries[0].value, "{\"a\":2}");
    ps_kv_entries_release(&entries);
}
END_TEST

START_TEST(an_operator_replaces_a_pointer_only_while_nobody_owns_the_shard)
{
    struct ps_error error = {0};
    struct ps_bytes json = ps_bytes_of_text("{\"a\":1}");
    struct ps_claim claim = claim_any(2);
    ck_assert_uint_eq(claim.index, 0);

    ck_assert_int_eq(ps_registry_replace_checkpoint(&registry, 0, json, soon(), &error),
                     PS_ERR_EXISTS);
    ck_assert_ptr_nonnull(strstr(error.text, "/ps/0 exists"));
    assert_key("/checkpoints/0", NULL);
    ck_assert_int_eq(ps_registry_replace_checkpoint(&registry, 1, json, soon(), NULL), PS_OK);
    assert_key("/checkpoints/1", "{\"a\":1}");
    fake.now_ms += TTL_MS + 1;

    ck_assert_int_eq(ps_registry_replace_checkpoint(&registry, 0, json, soon(), NULL), PS_OK);
    assert_key("/checkpoints/0", "{\"a\":1}");
}
END_TEST

START_TEST(an_operators_pointer_whose_answer_is_lost_is_found_by_reading_back)
{
    struct ps_bytes json = ps_bytes_of_text("{\"a\":1}");
    for (int kind = LOSSY_AFTER; kind <= LOSSY_BEFORE; kind++) {
        lossy_kv_init(&lossy, kv, (enum lossy_kind)kind, 1);

        ck_assert_int_eq(ps_registry_replace_checkpoint(&lossy_registry, 0, json, soon(), NULL),
                         PS_OK);

        assert_key("/checkpoints/0", "{\"a\":1}");
    }
}
END_TEST

START_TEST(a_missing_checkpoint_has_its_own_words)
{
    struct ps_kv_entries entries = {0};
    struct ps_error error = {0};

    ck_assert_int_eq(ps_registry_read_checkpoint(&registry, 1, soon(), &entries, &error),
                     PS_ERR_NOT_FOUND);
    ck_assert_str_eq(error.text, "checkpoint not found in etcd");
}
END_TEST

START_TEST(the_mark_is_forgotten_only_without_a_checkpoint)
{
    struct ps_claim claim = claim_any(2);
    put("/init_ps/done", "1");

    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_OK);
    assert_key("/init_ps/done", NULL);
    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_OK);

    put("/init_ps/done", "1");
    put("/checkpoints/0", "{}");
    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_ERR_CONFLICT);
    assert_key("/init_ps/done", "1");
}
END_TEST

START_TEST(forgetting_the_mark_says_who_has_lost_what)
{
    char who[48];
    struct ps_claim claim = claim_any(2);
    (void)snprintf(who, sizeof who, "0 %llu", (unsigned long long)claim.epoch);

    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_OK);

    assert_key("/init_ps/lost", who);
}
END_TEST

START_TEST(who_may_not_forget_the_mark_says_of_no_loss)
{
    struct ps_claim fenced = claim_any(2);
    fake.now_ms += TTL_MS + 1;
    struct ps_claim claim = claim_any(2);
    put("/checkpoints/0", "{}");

    ck_assert_int_eq(ps_registry_forget_done(&registry, &fenced, soon(), NULL), PS_ERR_STALE_EPOCH);
    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_ERR_CONFLICT);

    assert_key("/init_ps/lost", NULL);
}
END_TEST

START_TEST(notes_of_the_journal_are_the_owners_alone)
{
    struct ps_claim fenced = claim_any(2);
    struct ps_kv_entries entries = {0};
    ck_assert_int_eq(ps_registry_read_note(&registry, 0, soon(), &entries, NULL), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(
        ps_registry_publish_note(&registry, &fenced, ps_bytes_of_text("first"), soon(), NULL),
        PS_OK);
    fake.now_ms += TTL_MS + 1;
    struct ps_claim claim = claim_any(2);

    ck_assert_int_eq(
        ps_registry_publish_note(&registry, &fenced, ps_bytes_of_text("late"), soon(), NULL),
        PS_ERR_STALE_EPOCH);
    assert_key("/checkpoints/0/journal", "first");
    ck_assert_int_eq(
        ps_registry_publish_note(&registry, &claim, ps_bytes_of_text("next"), soon(), NULL), PS_OK);

    ck_assert_int_eq(ps_registry_read_note(&registry, 0, soon(), &entries, NULL), PS_OK);
    ck_assert_uint_eq(entries.entries[0].value_size, 4);
    ps_kv_entries_release(&entries);
    ck_assert_int_eq(ps_registry_read_checkpoint(&registry, 0, soon(), &entries, NULL),
                     PS_ERR_NOT_FOUND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry_checkpoints");
    TCase *tests = tcase_create("registry_checkpoints");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, checkpoint_pointers_replace_each_other_and_outlive_the_owner);
    tcase_add_test(tests, an_operator_replaces_a_pointer_only_while_nobody_owns_the_shard);
    tcase_add_test(tests, an_operators_pointer_whose_answer_is_lost_is_found_by_reading_back);
    tcase_add_test(tests, a_missing_checkpoint_has_its_own_words);
    tcase_add_test(tests, the_mark_is_forgotten_only_without_a_checkpoint);
    tcase_add_test(tests, forgetting_the_mark_says_who_has_lost_what);
    tcase_add_test(tests, notes_of_the_journal_are_the_owners_alone);
    tcase_add_test(tests, who_may_not_forget_the_mark_says_of_no_loss);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
