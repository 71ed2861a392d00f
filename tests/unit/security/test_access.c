/* SPDX-License-Identifier: Apache-2.0 */
/* security/access.c: files that change while they are used. */
#include "security/access.h"

#include "made_certificate.h"
#include "run_suite.h"
#include "tests/support/fake_clock.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct memory_files *disk;
static struct fake_clock time_of_test;
static struct ps_clock watch;
static struct ps_metrics *metrics;
static struct made_certificate first;
static struct made_certificate second;
static struct ps_error error;

static void put(const char *path, const char *text)
{
    memory_files_put(disk, path, ps_bytes_of_text(text));
}

static void set_up(void)
{
    disk = memory_files_create(1);
    time_of_test = (struct fake_clock){.now_ms = (uint64_t)MADE_NOW_S * 1000};
    watch = fake_clock_clock(&time_of_test);
    metrics = ps_metrics_create(ps_allocator_heap());
    int64_t now_s = (int64_t)(ps_unix_ns(&watch) / 1000000000u);
    made_certificate_init(&first, now_s - 100, now_s + 1000);
    made_certificate_init(&second, now_s - 100, now_s + 2000);
    put("/t/chain.pem", first.chain);
    put("/t/key.pem", first.key);
}

static void tear_down(void)
{
    ps_metrics_destroy(metrics);
    memory_files_destroy(disk);
}

static struct ps_access_options wish_for_tls(void)
{
    return (struct ps_access_options){.memory = ps_allocator_heap(),
                                      .files = memory_files_files(disk),
                                      .clock = &watch,
                                      .metrics = metrics,
                                      .paths = {"/t/chain.pem", "/t/key.pem", NULL}};
}

static struct ps_access *create(void)
{
    const struct ps_access_options wish = wish_for_tls();
    struct ps_access *access = NULL;
    ck_assert_msg(ps_access_create(&wish, &access, &error) == PS_OK, "%s", error.text);
    return access;
}

static void expect_chain(struct ps_access *access, const char *chain)
{
    uint64_t number = 0;
    struct ps_certificates *set = ps_access_certificates(access, &number);
    ck_assert_ptr_nonnull(set);
    ck_assert_str_eq(set->chain, chain);
    ps_certificates_release(set);
}

static void expect_complaint(struct ps_access *access, const char *words)
{
    char room[512];
    struct ps_buffer text;
    ps_buffer_init_fixed(&text, room, sizeof room);
    ps_access_complaint(access, &text);
    if (words == NULL)
        ck_assert_uint_eq(text.size, 0);
    else
        ck_assert_msg(text.size > 0 && strstr(room, words) != NULL, "%s", room);
}

static void expect_metric(const char *line)
{
    struct ps_buffer page;
    ps_buffer_init(&page, ps_allocator_heap(), 1 << 20);
    ps_metrics_render(metrics, &page);
    ck_assert_msg(strstr(page.text, line) != NULL, "%s", page.text);
    ps_buffer_fini(&page);
}

START_TEST(without_files_nothing_is_asked_and_nothing_complains)
{
    struct ps_access_options wish = wish_for_tls();
    struct ps_access *access;
    uint64_t number = 0;
    wish.paths = (struct ps_certificate_paths){0};

    ck_assert_int_eq(ps_access_create(&wish, &access, &error), PS_OK);
    ps_access_look(access);

    ck_assert(!ps_access_has_files(access) && !ps_access_has_tls(access));
    ck_assert_ptr_null(ps_access_certificates(access, &number));
    expect_complaint(access, NULL);
    ps_access_destroy(access);
    ps_access_destroy(NULL);
}
END_TEST

START_TEST(a_file_that_is_wrong_at_the_start_ends_it)
{
    const struct ps_access_options wish = wish_for_tls();
    struct ps_access *access;
    put("/t/key.pem", second.key);

    ck_assert_int_eq(ps_access_create(&wish, &access, &error), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "/t/key.pem"));
}
END_TEST

START_TEST(a_set_is_handed_out_once_until_it_changes)
{
    struct ps_access *access = create();
    uint64_t number = 0;

    ps_certificates_release(ps_access_certificates(access, &number));

    ck_assert_uint_eq(number, 1);
    ps_access_look(access);
    ck_assert_ptr_null(ps_access_certificates(access, &number));
    ck_assert(ps_access_has_files(access) && ps_access_has_tls(access));
    ps_access_destroy(access);
}
END_TEST

START_TEST(a_new_pair_takes_the_place_of_the_former)
{
    struct ps_access *access = create();
    char line[128];
    put("/t/chain.pem", second.chain);
    put("/t/key.pem", second.key);

    ps_access_look(access);

    expect_chain(access, second.chain);
    expect_complaint(access, NULL);
    int64_t now_s = (int64_t)(ps_unix_ns(&watch) / 1000000000u);
    (void)snprintf(line, sizeof line, "ps_tls_certificate_not_after_seconds %lld\n",
                   (long long)now_s + 2000);
    expect_metric(line);
    ps_access_destroy(access);
}
END_TEST

START_TEST(a_pair_between_two_renames_is_no_failure)
{
    struct ps_access *access = create();
    put("/t/chain.pem", second.chain);
    ps_access_look(access);
    put("/t/key.pem", second.key);

    ps_access_look(access);

    expect_chain(access, second.chain);
    expect_metric("ps_tls_reload_failures_total{files=\"certificates\"} 0\n");
    ps_access_destroy(access);
}
END_TEST

START_TEST(a_bad_file_keeps_the_former_pair_and_shows)
{
    struct ps_access *access = create();
    put("/t/chain.pem", "garbage");

    for (int i = 0; i < 3; i++)
        ps_access_look(access);

    expect_chain(access, first.chain);
    expect_complaint(access, "certificates not renewed: /t/chain.pem: no certificate in PEM");
    expect_metric("ps_tls_reload_failures_total{files=\"certificates\"} 2\n");
    put("/t/chain.pem", first.chain);
    ps_access_look(access);
    expect_complaint(access, NULL);
    ps_access_destroy(access);
}
END_TEST

START_TEST(a_set_outlives_the_access_that_gave_it)
{
    struct ps_access *access = create();
    uint64_t number = 0;
    struct ps_certificates *set = ps_access_certificates(access, &number);

    ps_access_destroy(access);

    ck_assert_str_eq(set->key, first.key);
    ps_certificates_release(set);
}
END_TEST

/* SHA-256 of "abc". */
#define TOKEN_LINE(name) \
    name " sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"

static struct ps_access *create_with_rules(void)
{
    struct ps_access_options wish = wish_for_tls();
    struct ps_access *access = NULL;
    put("/t/tokens", TOKEN_LINE("alice"));
    put("/t/roles", "rules: [{identity: alice, role: admin}]");
    wish.tokens = "/t/tokens";
    wish.roles = "/t/roles";
    ck_assert_msg(ps_access_create(&wish, &access, &error) == PS_OK, "%s", error.text);
    return access;
}

static bool alice_is_admin(struct ps_access *access)
{
    struct ps_roles *roles = ps_access_roles(access);
    bool is_admin = ps_roles_allow_job(roles, "alice", PS_ROLE_ADMIN, "j");
    ps_roles_release(roles);
    return is_admin;
}

static void expect_token_of(struct ps_access *access, const char *name)
{
    struct ps_tokens *tokens = ps_access_tokens(access);
    const char *found = ps_tokens_name_of(tokens, ps_bytes_of_text("abc"));
    if (name == NULL)
        ck_assert_ptr_null(found);
    else
        ck_assert_str_eq(found, name);
    ps_tokens_release(tokens);
}

START_TEST(tokens_and_roles_are_taken_as_they_change)
{
    struct ps_access *access = create_with_rules();
    ck_assert(ps_access_has_tokens(access) && ps_access_has_roles(access));
    expect_token_of(access, "alice");
    ck_assert(alice_is_admin(access));
    put("/t/tokens", TOKEN_LINE("bob"));
    put("/t/roles", "rules: [{identity: alice, role: reader}]");

    ps_access_look(access);

    expect_token_of(access, "bob");
    ck_assert(!alice_is_admin(access));
    put("/t/tokens", "");
    ps_access_look(access);
    expect_token_of(access, NULL);
    ps_access_destroy(access);
}
END_TEST

START_TEST(each_kind_of_file_is_taken_by_itself)
{
    struct ps_access *access = create_with_rules();
    put("/t/chain.pem", "garbage");
    put("/t/roles", "rules: nonsense");
    put("/t/tokens", TOKEN_LINE("bob"));

    ps_access_look(access);
    ps_access_look(access);

    expect_token_of(access, "bob");
    ck_assert(alice_is_admin(access));
    expect_chain(access, first.chain);
    expect_complaint(access, "certificates not renewed");
    expect_complaint(access, "roles not renewed");
    expect_metric("ps_tls_reload_failures_total{files=\"roles\"} 1\n");
    expect_metric("ps_tls_reload_failures_total{files=\"tokens\"} 0\n");
    ps_access_destroy(access);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("access");
    TCase *tests = tcase_create("access");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, without_files_nothing_is_asked_and_nothing_complains);
    tcase_add_test(tests, a_file_that_is_wrong_at_the_start_ends_it);
    tcase_add_test(tests, a_set_is_handed_out_once_until_it_changes);
    tcase_add_test(tests, a_new_pair_takes_the_place_of_the_former);
    tcase_add_test(tests, a_pair_between_two_renames_is_no_failure);
    tcase_add_test(tests, a_bad_file_keeps_the_former_pair_and_shows);
    tcase_add_test(tests, a_set_outlives_the_access_that_gave_it);
    tcase_add_test(tests, tokens_and_roles_are_taken_as_they_change);
    tcase_add_test(tests, each_kind_of_file_is_taken_by_itself);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
