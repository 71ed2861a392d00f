/* SPDX-License-Identifier: Apache-2.0 */
/* security/token_file.c: lines that are taken, and whose a token is. */
#include "security/token_file.h"

#include "base/attributes.h"
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tests/support/memory_files.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* SHA-256 of "abc" and of the empty text. */
#define HASH_OF_ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define HASH_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static struct ps_error error;

static enum ps_status read_text(const char *text, const struct ps_allocator *memory,
                                struct ps_tokens **tokens)
{
    struct memory_files *disk = memory_files_create(1);
    memory_files_put(disk, "/t/tokens", ps_bytes_of_text(text));
    enum ps_status status =
        ps_tokens_read("/t/tokens", memory_files_files(disk), memory, tokens, &error);
    memory_files_destroy(disk);
    return status;
}

static struct ps_tokens *tokens_of(const char *text)
{
    struct ps_tokens *tokens = NULL;
    ck_assert_msg(read_text(text, ps_allocator_heap(), &tokens) == PS_OK, "%s", error.text);
    return tokens;
}

static const char *name_of(const struct ps_tokens *tokens, const char *token)
{
    return ps_tokens_name_of(tokens, ps_bytes_of_text(token));
}

START_TEST(a_token_is_that_of_the_line_with_its_digest)
{
    struct ps_tokens *tokens = tokens_of("# who trains\n\n"
                                         "other sha256:" HASH_OF_NOTHING "\r\n"
                                         "  alice\tsha256:" HASH_OF_ABC " until June\n");

    ck_assert_uint_eq(ps_tokens_count(tokens), 2);
    ck_assert_str_eq(name_of(tokens, "abc"), "alice");
    ck_assert_ptr_null(name_of(tokens, "abd"));
    ck_assert_ptr_null(name_of(tokens, "abc "));
    ck_assert_ptr_null(name_of(tokens, HASH_OF_ABC));
    ps_tokens_release(tokens);
}
END_TEST

START_TEST(no_token_at_all_is_nobodys_even_when_its_digest_is_there)
{
    struct ps_tokens *tokens = tokens_of("other sha256:" HASH_OF_NOTHING);

    ck_assert_ptr_null(name_of(tokens, ""));
    ps_tokens_release(tokens);
}
END_TEST

START_TEST(an_overlong_token_is_nobodys)
{
    char token[PS_TOKEN_BYTES_MAX + 2];
    struct ps_tokens *tokens = tokens_of("alice sha256:" HASH_OF_ABC);
    memset(token, 't', sizeof token - 1);
    token[sizeof token - 1] = '\0';

    ck_assert_ptr_null(name_of(tokens, token));
    ps_tokens_release(tokens);
}
END_TEST

START_TEST(a_name_may_have_two_tokens)
{
    struct ps_tokens *tokens =
        tokens_of("alice sha256:" HASH_OF_NOTHING "\nalice sha256:" HASH_OF_ABC "\n");

    ck_assert_str_eq(name_of(tokens, "abc"), "alice");
    ps_tokens_release(tokens);
}
END_TEST

START_TEST(an_empty_file_has_no_token)
{
    struct ps_tokens *tokens = tokens_of("");

    ck_assert_uint_eq(ps_tokens_count(tokens), 0);
    ck_assert_ptr_null(name_of(tokens, "abc"));
    ps_tokens_release(tokens);
}
END_TEST

static const char *const bad_lines[] = {
    "alice",
    "alice abc",
    "alice sha256:",
    "alice sha256:abc",
    "alice sha1:" HASH_OF_ABC,
    "alice sha256:" HASH_OF_ABC "0",
    "alice sha256:ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "sha256:" HASH_OF_ABC,
    "caf\xc3\xa9 sha256:" HASH_OF_ABC,
};

START_TEST(a_bad_line_refuses_the_file_with_its_number_and_without_its_words)
{
    char text[512];
    struct ps_tokens *tokens = NULL;
    (void)snprintf(text, sizeof text, "bob sha256:" HASH_OF_ABC "\n%s\n", bad_lines[_i]);

    ck_assert_int_eq(read_text(text, ps_allocator_heap(), &tokens), PS_ERR_BAD_INPUT);

    ck_assert_ptr_null(tokens);
    ck_assert_msg(strstr(error.text, "/t/tokens:2: ") != NULL, "%s", error.text);
    ck_assert_ptr_null(strstr(error.text, "alice"));
    ck_assert_ptr_null(strstr(error.text, "7816bf"));
}
END_TEST

START_TEST(files_are_equal_when_names_and_digests_are)
{
    struct ps_tokens *first = tokens_of("a sha256:" HASH_OF_ABC);
    struct ps_tokens *same = tokens_of("# comment\na   sha256:" HASH_OF_ABC " x");
    struct ps_tokens *other = tokens_of("b sha256:" HASH_OF_ABC);

    ck_assert(ps_tokens_equal(first, same));
    ck_assert(!ps_tokens_equal(first, other));
    ck_assert_ptr_eq(ps_tokens_acquire(first), first);
    ck_assert_ptr_null(ps_tokens_acquire(NULL));
    ps_tokens_release(first);
    ps_tokens_release(first);
    ps_tokens_release(same);
    ps_tokens_release(other);
    ps_tokens_release(NULL);
}
END_TEST

START_TEST(a_refused_allocation_leaves_nothing)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_tokens *tokens = NULL;

    enum ps_status status = read_text("alice sha256:" HASH_OF_ABC, &memory, &tokens);

    ck_assert_int_eq(status, _i < heap.seen ? PS_ERR_NO_MEMORY : PS_OK);
    ps_tokens_release(tokens);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("token_file");
    TCase *tests = tcase_create("token_file");
    tcase_add_test(tests, a_token_is_that_of_the_line_with_its_digest);
    tcase_add_test(tests, no_token_at_all_is_nobodys_even_when_its_digest_is_there);
    tcase_add_test(tests, an_overlong_token_is_nobodys);
    tcase_add_test(tests, a_name_may_have_two_tokens);
    tcase_add_test(tests, an_empty_file_has_no_token);
    tcase_add_loop_test(tests, a_bad_line_refuses_the_file_with_its_number_and_without_its_words, 0,
                        (int)PS_ARRAY_COUNT(bad_lines));
    tcase_add_test(tests, files_are_equal_when_names_and_digests_are);
    tcase_add_loop_test(tests, a_refused_allocation_leaves_nothing, 0, 4);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
