/* SPDX-License-Identifier: Apache-2.0 */
/* etcd/registry*.c when the answer of a write is lost: the write may have happened or not. */
#include "run_suite.h"
#include "tests/support/etcd/registry_fixture.h"

#include <stdlib.h>

/* Loop tests: 0 loses the answer, 1 loses the write. */
static const enum lossy_kind kinds[] = {LOSSY_AFTER, LOSSY_BEFORE};

START_TEST(b12_a_claim_whose_answer_is_lost_takes_one_index)
{
    struct ps_claim claim;
    lossy.kind = kinds[_i];

    ck_assert_int_eq(
        ps_registry_claim(&lossy_registry, 3, ANY_INDEX, grant(), soon(), &claim, NULL), PS_OK);

    ck_assert_uint_eq(claim.index, 0);
    ck_assert_uint_eq(count_keys("/ps/"), 1);
    ck_assert_int_eq(ps_registry_publish_address(&registry, &claim, "a:1", soon(), NULL), PS_OK);
}
END_TEST

START_TEST(b12_a_repeated_claim_finds_the_index_it_holds)
{
    struct ps_kv_lease lease = grant();
    struct ps_claim first;
    struct ps_claim second;
    ck_assert_int_eq(ps_registry_claim(&registry, 3, ANY_INDEX, lease, soon(), &first, NULL),
                     PS_OK);

    ck_assert_int_eq(ps_registry_claim(&registry, 3, ANY_INDEX, lease, soon(), &second, NULL),
                     PS_OK);

    ck_assert_uint_eq(second.index, first.index);
    ck_assert_uint_eq(second.epoch, first.epoch);
    ck_assert_uint_eq(count_keys("/ps/"), 1);
}
END_TEST

START_TEST(b12_a_claim_that_cannot_be_read_back_stays_unknown)
{
    struct ps_claim claim = {.index = 77};
    struct ps_kv_lease lease = grant();
    lossy.kind = LOSSY_DOWN;

    ck_assert_int_eq(ps_registry_claim(&lossy_registry, 3, ANY_INDEX, lease, soon(), &claim, NULL),
                     PS_ERR_TIMEOUT);
    ck_assert_uint_eq(claim.index, 77);

    lossy.kind = LOSSY_NEVER;
    ck_assert_int_eq(ps_registry_claim(&lossy_registry, 3, ANY_INDEX, lease, soon(), &claim, NULL),
                     PS_OK);
    ck_assert_uint_eq(count_keys("/ps/"), 1);
}
END_TEST

static void another_server_claims(void *context)
{
    struct ps_claim *claim = context;
    *claim = claim_any(3);
}

START_TEST(b12_an_index_taken_meanwhile_is_not_mistaken_for_ours)
{
    struct ps_claim theirs = {0};
    struct ps_claim ours;
    lossy.kind = LOSSY_BEFORE;
    lossy.meanwhile = another_server_claims;
    lossy.context = &theirs;

    ck_assert_int_eq(ps_registry_claim(&lossy_registry, 3, ANY_INDEX, grant(), soon(), &ours, NULL),
                     PS_OK);

    ck_assert_uint_eq(theirs.index, 0);
    ck_assert_uint_eq(ours.index, 1);
}
END_TEST

START_TEST(the_number_of_shards_is_set_in_spite_of_a_lost_answer)
{
    uint32_t count = 0;
    lossy.kind = kinds[_i];

    ck_assert_int_eq(ps_registry_desired(&lossy_registry, 4, soon(), &count, NULL), PS_OK);

    ck_assert_uint_eq(count, 4);
    assert_key("/ps_desired", "4");
}
END_TEST

START_TEST(an_address_is_published_in_spite_of_a_lost_answer)
{
    struct ps_claim claim = claim_any(1);
    lossy.kind = kinds[_i];

    ck_assert_int_eq(ps_registry_publish_address(&lossy_registry, &claim, "a:1", soon(), NULL),
                     PS_OK);

    assert_key("/ps/0", "a:1");
}
END_TEST

static void lease_ends(void *context)
{
    (void)context;
    fake.now_ms += TTL_MS + 1;
}

START_TEST(an_address_is_not_reported_when_the_lease_ended_meanwhile)
{
    struct ps_claim claim = claim_any(1);
    lossy.kind = kinds[_i];
    lossy.meanwhile = lease_ends;

    enum ps_status status =
        ps_registry_publish_address(&lossy_registry, &claim, "a:1", soon(), NULL);

    ck_assert_int_ne(status, PS_OK);
    assert_key("/ps/0", NULL);
}
END_TEST

START_TEST(a_checkpoint_is_published_in_spite_of_a_lost_answer)
{
    struct ps_claim claim = claim_any(1);
    put("/checkpoints/0", "{\"old\":1}");
    lossy.kind = kinds[_i];

    ck_assert_int_eq(ps_registry_publish_checkpoint(&lossy_registry, &claim,
                                                    ps_bytes_of_text("{\"new\":1}"), soon(), NULL),
                     PS_OK);

    assert_key("/checkpoints/0", "{\"new\":1}");
}
END_TEST

START_TEST(b8_a_checkpoint_unanswered_and_then_fenced_is_not_published)
{
    struct ps_claim claim = claim_any(1);
    lossy.kind = LOSSY_BEFORE;
    lossy.meanwhile = lease_ends;

    ck_assert_int_eq(ps_registry_publish_checkpoint(&lossy_registry, &claim, ps_bytes_of_text("{}"),
                                                    soon(), NULL),
                     PS_ERR_STALE_EPOCH);
    assert_key("/checkpoints/0", NULL);
}
END_TEST

START_TEST(the_mark_is_forgotten_in_spite_of_a_lost_answer)
{
    struct ps_claim claim = claim_any(1);
    put("/init_ps/done", "1");
    lossy.kind = kinds[_i];

    ck_assert_int_eq(ps_registry_forget_done(&lossy_registry, &claim, soon(), NULL), PS_OK);
    assert_key("/init_ps/done", NULL);
}
END_TEST

/* Without a mark that goes, only this key shows whether the write happened. */
START_TEST(a_loss_is_noted_in_spite_of_a_lost_answer)
{
    struct ps_claim claim = claim_any(1);
    lossy.kind = kinds[_i];

    ck_assert_int_eq(ps_registry_forget_done(&lossy_registry, &claim, soon(), NULL), PS_OK);

    ck_assert_uint_eq(count_keys("/init_ps/lost"), 1);
}
END_TEST

START_TEST(a_place_in_the_queue_is_taken_once_in_spite_of_a_lost_answer)
{
    struct ps_init_lock lock = {0};
    enum ps_init_turn turn;
    lossy.kind = kinds[_i];

    ck_assert_int_eq(ps_registry_init_turn(&lossy_registry, TTL_MS, &lock, soon(), &turn, NULL),
                     PS_OK);

    ck_assert_int_eq(turn, PS_INIT_SELECTED);
    ck_assert_uint_eq(count_keys("/init_ps/lock/"), 1);
    ps_registry_init_abandon(&registry, &lock, soon());
}
END_TEST

START_TEST(a_place_that_cannot_be_read_back_is_found_by_the_next_call)
{
    struct ps_init_lock lock = {0};
    enum ps_init_turn turn;
    lossy.kind = LOSSY_DOWN;
    ck_assert_int_ne(ps_registry_init_turn(&lossy_registry, TTL_MS, &lock, soon(), &turn, NULL),
                     PS_OK);
    lossy.kind = LOSSY_NEVER;

    ck_assert_int_eq(ps_registry_init_turn(&lossy_registry, TTL_MS, &lock, soon(), &turn, NULL),
                     PS_OK);

    ck_assert_int_eq(turn, PS_INIT_SELECTED);
    ck_assert_uint_eq(count_keys("/init_ps/lock/"), 1);
}
END_TEST

START_TEST(an_initialisation_is_finished_in_spite_of_a_lost_answer)
{
    struct ps_init_lock lock = {0};
    enum ps_init_turn turn;
    ck_assert_int_eq(ps_registry_init_turn(&registry, TTL_MS, &lock, soon(), &turn, NULL), PS_OK);
    lossy.kind = kinds[_i];

    ck_assert_int_eq(ps_registry_init_finish(&lossy_registry, &lock, soon(), NULL), PS_OK);

    assert_key("/init_ps/done", "1");
    ck_assert_uint_eq(count_keys("/init_ps/lock/"), 0);
}
END_TEST

START_TEST(an_initialisation_unanswered_and_then_overtaken_is_not_finished)
{
    struct ps_init_lock lock = {0};
    enum ps_init_turn turn;
    ck_assert_int_eq(ps_registry_init_turn(&registry, TTL_MS, &lock, soon(), &turn, NULL), PS_OK);
    lossy.kind = LOSSY_BEFORE;
    lossy.meanwhile = lease_ends;

    ck_assert_int_eq(ps_registry_init_finish(&lossy_registry, &lock, soon(), NULL),
                     PS_ERR_STALE_EPOCH);
    assert_key("/init_ps/done", NULL);
}
END_TEST

static void a_shard_is_lost(void *context)
{
    (void)context;
    struct ps_claim claim = claim_any(1);
    ck_assert_int_eq(ps_registry_forget_done(&registry, &claim, soon(), NULL), PS_OK);
}

START_TEST(an_initialisation_unanswered_and_then_lost_is_not_finished)
{
    static const enum ps_status expected[] = {PS_ERR_STALE_EPOCH, PS_ERR_CONFLICT};
    struct ps_init_lock lock = {0};
    enum ps_init_turn turn;
    ck_assert_int_eq(ps_registry_init_turn(&registry, TTL_MS, &lock, soon(), &turn, NULL), PS_OK);
    ck_assert_int_eq(ps_registry_init_prepare(&registry, &lock, soon(), NULL), PS_OK);
    lossy.kind = kinds[_i];
    lossy.meanwhile = a_shard_is_lost;

    ck_assert_int_eq(ps_registry_init_finish(&lossy_registry, &lock, soon(), NULL), expected[_i]);

    assert_key("/init_ps/done", NULL);
    ps_registry_init_abandon(&registry, &lock, soon());
}
END_TEST

START_TEST(why_an_initialisation_was_refused_stays_unknown_without_the_store)
{
    struct ps_init_lock lock = {0};
    enum ps_init_turn turn;
    ck_assert_int_eq(ps_registry_init_turn(&registry, TTL_MS, &lock, soon(), &turn, NULL), PS_OK);
    lossy.kind = LOSSY_DOWN;

    ck_assert_int_eq(ps_registry_init_finish(&lossy_registry, &lock, soon(), NULL), PS_ERR_TIMEOUT);

    ck_assert_int_ne(lock.create_revision, 0);
    ps_registry_init_abandon(&registry, &lock, soon());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry_lost_answers");
    TCase *tests = tcase_create("registry_lost_answers");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, b12_a_claim_whose_answer_is_lost_takes_one_index, 0, 2);
    tcase_add_test(tests, b12_a_repeated_claim_finds_the_index_it_holds);
    tcase_add_test(tests, b12_a_claim_that_cannot_be_read_back_stays_unknown);
    tcase_add_test(tests, b12_an_index_taken_meanwhile_is_not_mistaken_for_ours);
    tcase_add_loop_test(tests, the_number_of_shards_is_set_in_spite_of_a_lost_answer, 0, 2);
    tcase_add_loop_test(tests, an_address_is_published_in_spite_of_a_lost_answer, 0, 2);
    tcase_add_loop_test(tests, an_address_is_not_reported_when_the_lease_ended_meanwhile, 0, 2);
    tcase_add_loop_test(tests, a_checkpoint_is_published_in_spite_of_a_lost_answer, 0, 2);
    tcase_add_test(tests, b8_a_checkpoint_unanswered_and_then_fenced_is_not_published);
    tcase_add_loop_test(tests, the_mark_is_forgotten_in_spite_of_a_lost_answer, 0, 2);
    tcase_add_loop_test(tests, a_loss_is_noted_in_spite_of_a_lost_answer, 0, 2);
    tcase_add_loop_test(tests, a_place_in_the_queue_is_taken_once_in_spite_of_a_lost_answer, 0, 2);
    tcase_add_test(tests, a_place_that_cannot_be_read_back_is_found_by_the_next_call);
    tcase_add_loop_test(tests, an_initialisation_is_finished_in_spite_of_a_lost_answer, 0, 2);
    tcase_add_test(tests, an_initialisation_unanswered_and_then_overtaken_is_not_finished);
    tcase_add_loop_test(tests, an_initialisation_unanswered_and_then_lost_is_not_finished, 0, 2);
    tcase_add_test(tests, why_an_initialisation_was_refused_stays_unknown_without_the_store);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
