/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator publishes, and what is given up by it. */
#include "tools/psckpt/pointer_change.h"

#include "run_suite.h"
#include "tests/support/temp_folder.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct temp_folder temp;
static struct published store;
static const struct ps_checkpoint_facts facts = {.index = 1, .shard_count = 2, .job = "blue"};
static struct ps_journal_segments journal; /* empty */

static const char *at(const char *name)
{
    static char text[512];
    return temp_folder_path(&temp, name, text, sizeof text);
}

static void set_up(void)
{
    const struct ps_files *files = ps_files_real();
    char path[512];
    temp_folder_init(&temp);
    const struct published_options wish = {.folder =
                                               temp_folder_path(&temp, "data", path, sizeof path),
                                           .makes_store = true,
                                           .timeout_ms = 120000};
    ck_assert_int_eq(files->make_folder(files->self, wish.folder, NULL), PS_OK);
    ck_assert_int_eq(files->make_folder(files->self, at("shard-1"), NULL), PS_OK);
    ck_assert_int_eq(published_open(&store, &wish, ps_allocator_heap(), NULL), PS_OK);
    ck_assert(published_asks(&store));
}

static void tear_down(void)
{
    published_close(&store);
    temp_folder_fini(&temp);
}

static struct ps_checkpoint_place at_position(uint64_t position)
{
    struct ps_checkpoint_place place = {.uuid = "a", .position = position};
    (void)snprintf(place.path, sizeof place.path, "%s", at("shard-1/a"));
    return place;
}

/* Publishes what a server recovers to `position`. */
static struct pointer_change change_to(uint64_t position)
{
    struct pointer_change change;
    struct ps_checkpoint_place place = at_position(position);
    ck_assert_int_eq(
        pointer_change_plan(&change, &store, &store, &facts, at("shard-1"), &journal, NULL), PS_OK);
    pointer_change_set(&change, &place, position);
    ck_assert_int_eq(pointer_change_make(&change, &store, NULL), PS_OK);
    return change;
}

START_TEST(without_a_pointer_nothing_is_given_up)
{
    struct pointer_change change = change_to(5);
    struct ps_checkpoint_place read;

    ck_assert(!change.had_pointer);
    ck_assert_uint_eq(pointer_change_given_up(&change), 0);
    ck_assert_int_eq(published_place(&store, "blue", 1, &read, NULL), PS_OK);
    ck_assert_uint_eq(read.position, 5);
    ck_assert_uint_eq(read.reached, 0);
    ck_assert_int_eq(published_place(&store, "", 1, &read, NULL), PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(what_lies_between_is_given_up_and_stays_known)
{
    struct ps_checkpoint_place read;
    (void)change_to(30);

    struct pointer_change back = change_to(20);
    struct pointer_change further = change_to(15);

    ck_assert_uint_eq(pointer_change_given_up(&back), 10);
    ck_assert_uint_eq(pointer_change_given_up(&further), 15);
    ck_assert_int_eq(published_place(&store, "blue", 1, &read, NULL), PS_OK);
    ck_assert_uint_eq(read.position, 15);
    ck_assert_uint_eq(read.reached, 30);
}
END_TEST

START_TEST(a_state_that_the_journal_leads_back_to_gives_nothing_up)
{
    struct pointer_change change;
    struct ps_checkpoint_place place = at_position(10);
    (void)change_to(30);
    ck_assert_int_eq(
        pointer_change_plan(&change, &store, &store, &facts, at("shard-1"), &journal, NULL), PS_OK);

    pointer_change_set(&change, &place, 33);

    ck_assert_uint_eq(pointer_change_given_up(&change), 0);
}
END_TEST

START_TEST(a_journal_that_is_gone_makes_the_loss_unknown)
{
    struct pointer_change change;
    struct ps_checkpoint_place place = at_position(10);
    place.journal = PS_CHECKPOINT_JOURNAL_KEPT;
    ck_assert_int_eq(published_replace(&store, "blue", 1, &place, NULL), PS_OK);

    ck_assert_int_eq(
        pointer_change_plan(&change, &store, &store, &facts, at("shard-1"), &journal, NULL), PS_OK);

    ck_assert(change.journal_is_gone);
}
END_TEST

static void put(const char *key, const char *value, struct ps_kv_lease lease);

START_TEST(what_was_noted_as_durable_is_given_up_where_the_reader_asks)
{
    struct ps_journal_notes notes;
    const struct ps_journal_note none = {0};
    const struct ps_journal_note in_folder = {3, 12};
    (void)change_to(8);
    put("/blue/checkpoints/1/journal", "{\"epoch\":\"3\",\"position\":\"11\"}",
        (struct ps_kv_lease){0});
    ck_assert_uint_eq(change_to(10).place.reached, 11);
    ck_assert_int_eq(ps_journal_note_put(ps_files_real(), at("shard-1"), &none, &in_folder, NULL),
                     PS_OK);

    struct pointer_change change = change_to(9);

    ck_assert_uint_eq(pointer_change_given_up(&change), 3);
    ck_assert_int_eq(
        ps_journal_notes_read(ps_files_real(), at("shard-1"), UINT64_MAX, &notes, NULL), PS_OK);
    ck_assert(notes.given_up);
    ck_assert_uint_eq(notes.given_up_at, 9);
    ck_assert_uint_eq(notes.given_up_noted, 12);
}
END_TEST

static void put(const char *key, const char *value, struct ps_kv_lease lease)
{
    const struct ps_kv_change change = {PS_KV_PUT, key, ps_bytes_of_text(value), lease};
    const struct ps_kv_transaction transaction = {NULL, 0, &change, 1};
    bool done;
    int64_t revision;
    ck_assert_int_eq(
        ps_kv_commit(store.kv, &transaction, store.deadline_ms, &done, &revision, NULL), PS_OK);
}

START_TEST(a_pointer_that_is_none_is_replaced)
{
    put("/blue/checkpoints/1", "{]", (struct ps_kv_lease){0});

    struct pointer_change change = change_to(5);

    ck_assert(!change.had_pointer);
}
END_TEST

START_TEST(a_shard_with_a_server_is_refused_until_its_lease_is_over)
{
    struct pointer_change change;
    struct ps_kv_lease lease;
    ck_assert_int_eq(ps_kv_lease_grant(store.kv, 600000, store.deadline_ms, &lease, NULL), PS_OK);
    put("/blue/ps/1", "h:1", lease);
    uint64_t patient = store.deadline_ms;
    struct ps_checkpoint_place place = at_position(1);
    ck_assert_int_eq(published_replace(&store, "blue", 1, &place, NULL), PS_ERR_UNAVAILABLE);
    store.deadline_ms = patient;
    ck_assert_int_eq(ps_kv_lease_revoke(store.kv, lease, patient, NULL), PS_OK);
    ck_assert_int_eq(ps_kv_lease_grant(store.kv, 1000, patient, &lease, NULL), PS_OK);
    put("/blue/ps/1", "h:1", lease);

    ck_assert_int_eq(
        pointer_change_plan(&change, &store, &store, &facts, at("shard-1"), &journal, NULL), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pointer_change");
    TCase *tcase = tcase_create("pointer_change");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, without_a_pointer_nothing_is_given_up);
    tcase_add_test(tcase, what_lies_between_is_given_up_and_stays_known);
    tcase_add_test(tcase, a_state_that_the_journal_leads_back_to_gives_nothing_up);
    tcase_add_test(tcase, a_journal_that_is_gone_makes_the_loss_unknown);
    tcase_add_test(tcase, what_was_noted_as_durable_is_given_up_where_the_reader_asks);
    tcase_add_test(tcase, a_pointer_that_is_none_is_replaced);
    tcase_add_test(tcase, a_shard_with_a_server_is_refused_until_its_lease_is_over);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
