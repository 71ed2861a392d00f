/* SPDX-License-Identifier: Apache-2.0 */
/* tools/psckpt/session_digest.c: what is known counts, the order and the times do not. */
#include "tools/psckpt/session_digest.h"

#include "run_suite.h"
#include "server/core/sessions/sessions.h"

#include <check.h>
#include <string.h>

/* The digest of a table that remembers these sequences of two clients, one after the other. */
struct digest {
    uint8_t bytes[SHA256_BYTES];
};

static struct digest digest_of(const uint64_t *sequences, size_t count, uint64_t now_us)
{
    struct ps_sessions table;
    struct digest digest;
    struct sha256 hash;
    uint8_t *bytes = NULL;
    size_t size = 0;
    ps_sessions_init(&table, ps_allocator_heap(), 100, 0);
    for (size_t i = 0; i < count; i++) {
        const struct ps_request_id id = {.present = true,
                                         .client_id =
                                             ps_bytes_of_text(sequences[i] % 2 == 0 ? "a" : "b"),
                                         .session = 3,
                                         .sequence = sequences[i]};
        ck_assert_int_eq(ps_sessions_remember(&table, &id, 0, now_us + i,
                                              (struct ps_session_answer){sequences[i], 0}, NULL),
                         PS_OK);
    }
    ck_assert_int_eq(ps_sessions_encode(&table, ps_allocator_heap(), &bytes, &size, NULL), PS_OK);
    sha256_init(&hash);
    const struct ps_checkpoint_facts facts = {.sessions = {bytes, size}};
    ck_assert_int_eq(session_digest_add(&hash, &facts, ps_allocator_heap(), NULL), PS_OK);
    ck_assert_int_eq(sha256_end(&hash, digest.bytes, NULL), PS_OK);
    ps_release(ps_allocator_heap(), bytes);
    ps_sessions_fini(&table);
    return digest;
}

START_TEST(order_and_times_do_not_count)
{
    static const uint64_t forth[] = {1, 2, 3, 4, 300};
    static const uint64_t back[] = {300, 4, 3, 2, 1};
    struct digest one = digest_of(forth, 5, 10);
    struct digest other = digest_of(back, 5, 99);
    ck_assert_mem_eq(one.bytes, other.bytes, SHA256_BYTES);
}
END_TEST

START_TEST(a_request_more_or_less_counts)
{
    static const uint64_t requests[] = {1, 2, 3, 4, 300};
    struct digest all = digest_of(requests, 5, 10);
    struct digest less = digest_of(requests, 4, 10);
    ck_assert_mem_ne(all.bytes, less.bytes, SHA256_BYTES);
}
END_TEST

START_TEST(other_bytes_are_refused)
{
    struct sha256 hash;
    sha256_init(&hash);
    const struct ps_checkpoint_facts facts = {.sessions = ps_bytes_of_text("something")};
    ck_assert_int_eq(session_digest_add(&hash, &facts, ps_allocator_heap(), NULL), PS_ERR_CORRUPT);
    uint8_t unused[SHA256_BYTES];
    ck_assert_int_eq(sha256_end(&hash, unused, NULL), PS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session_digest");
    TCase *tests = tcase_create("sessions");
    tcase_add_test(tests, order_and_times_do_not_count);
    tcase_add_test(tests, a_request_more_or_less_counts);
    tcase_add_test(tests, other_bytes_are_refused);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
