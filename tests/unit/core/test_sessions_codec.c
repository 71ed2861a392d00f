/* server/core/sessions_codec.c: equal states give equal bytes, and other bytes are refused. */
#include "server/core/sessions.h"

#include "base/random.h"
#include "tests/unit/core/core_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POSITION 1000

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_error error;

/* The bytes of a table. */
struct encoded {
    uint8_t *bytes;
    size_t size;
};

static void begin_test(void)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
}

static void end_test(void)
{
    ck_assert_int_eq(heap.live, 0);
}

static void init(struct ps_sessions *sessions)
{
    ps_sessions_init(sessions, &memory, 100, 1000);
}

static void remember(struct ps_sessions *sessions, const char *client, uint64_t session,
                     uint64_t sequence)
{
    const struct ps_request_id id = {
        .present = true, .client_id = text(client), .session = session, .sequence = sequence};
    const struct ps_session_answer answer = {.version = sequence * 3,
                                             .position = sequence % POSITION};
    ck_assert_int_eq(ps_sessions_remember(sessions, &id, 0, answer, NULL), PS_OK);
}

static struct encoded encode(struct ps_sessions *sessions)
{
    struct ps_sessions_copy copy;
    struct encoded encoded;
    ck_assert_int_eq(ps_sessions_copy(sessions, &memory, &copy, NULL), PS_OK);
    ck_assert_int_eq(ps_sessions_encode(&copy, &memory, &encoded.bytes, &encoded.size, NULL),
                     PS_OK);
    ps_release(&memory, copy.clients);
    return encoded;
}

static enum ps_status decode(struct ps_sessions *sessions, const uint8_t *bytes, size_t size)
{
    return ps_sessions_decode(sessions, (struct ps_bytes){bytes, size}, POSITION, 0, &error);
}

static struct encoded encode_small(void)
{
    struct ps_sessions sessions;
    init(&sessions);
    remember(&sessions, "b", 2, 7);
    remember(&sessions, "a", 1, 300);
    remember(&sessions, "a", 1, 5);
    struct encoded encoded = encode(&sessions);
    ps_sessions_fini(&sessions);
    return encoded;
}

START_TEST(no_clients_are_a_header)
{
    struct ps_sessions sessions;
    init(&sessions);

    struct encoded encoded = encode(&sessions);

    ck_assert_uint_eq(encoded.size, 16);
    ck_assert_int_eq(decode(&sessions, encoded.bytes, encoded.size), PS_OK);
    ck_assert(!sessions.has_forgotten);
    ps_release(&memory, encoded.bytes);
    ck_assert_int_eq(ps_sessions_decode(&sessions, (struct ps_bytes){NULL, 0}, 0, 0, NULL), PS_OK);
    ck_assert(!sessions.has_forgotten);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(that_clients_were_forgotten_is_not_forgotten)
{
    struct ps_sessions sessions;
    init(&sessions);
    ps_sessions_set_forgotten(&sessions);
    if (_i == 1)
        remember(&sessions, "a", 1, 1);
    struct encoded encoded = encode(&sessions);
    ps_sessions_clear(&sessions);
    ck_assert(!sessions.has_forgotten);

    ck_assert_int_eq(decode(&sessions, encoded.bytes, encoded.size), PS_OK);

    ck_assert(sessions.has_forgotten);
    ck_assert_uint_eq(ps_sessions_count(&sessions), (uint32_t)_i);
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(a_checkpoint_without_sessions_may_have_forgotten_everybody)
{
    struct ps_sessions sessions;
    init(&sessions);

    ck_assert_int_eq(decode(&sessions, NULL, 0), PS_OK);

    ck_assert(sessions.has_forgotten);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(equal_states_give_equal_bytes_whatever_the_order)
{
    struct ps_sessions forth;
    struct ps_sessions back;
    init(&forth);
    init(&back);
    char name[16];
    for (uint64_t i = 1; i <= 60; i++) {
        snprintf(name, sizeof name, "client %u", (unsigned)(i % 7));
        remember(&forth, name, 1, i * 5);
    }
    for (uint64_t i = 60; i >= 1; i--) {
        snprintf(name, sizeof name, "client %u", (unsigned)(i % 7));
        remember(&back, name, 1, i * 5);
    }

    struct encoded left = encode(&forth);
    struct encoded right = encode(&back);

    ck_assert_uint_eq(left.size, right.size);
    ck_assert_mem_eq(left.bytes, right.bytes, left.size);
    ps_release(&memory, left.bytes);
    ps_release(&memory, right.bytes);
    ps_sessions_fini(&forth);
    ps_sessions_fini(&back);
}
END_TEST

START_TEST(p2_what_was_remembered_is_remembered_after_decoding)
{
    struct ps_sessions sessions;
    struct encoded encoded = encode_small();
    init(&sessions);

    ck_assert_int_eq(decode(&sessions, encoded.bytes, encoded.size), PS_OK);

    const struct ps_request_id id = {
        .present = true, .client_id = text("a"), .session = 1, .sequence = 300};
    struct ps_session_call call;
    ps_sessions_check(&sessions);
    ck_assert_int_eq(ps_sessions_begin(&sessions, &id, 0, &call, NULL), PS_OK);
    ck_assert(call.is_repeat);
    ck_assert_uint_eq(call.answer.version, 900);
    ck_assert_uint_eq(call.answer.position, 300);
    struct encoded again = encode(&sessions);
    ck_assert_uint_eq(again.size, encoded.size);
    ck_assert_mem_eq(again.bytes, encoded.bytes, encoded.size);
    ps_release(&memory, again.bytes);
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(every_truncation_is_corrupt)
{
    struct ps_sessions sessions;
    struct encoded encoded = encode_small();
    init(&sessions);
    for (size_t size = 1; size < encoded.size; size++) {
        uint8_t *cut = malloc(size);
        ck_assert_ptr_nonnull(cut);
        memcpy(cut, encoded.bytes, size);

        ck_assert_int_eq(decode(&sessions, cut, size), PS_ERR_CORRUPT);

        ck_assert_uint_eq(ps_sessions_count(&sessions), 0);
        free(cut);
    }
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

/* The checkpoint's checksum finds flips; what this reader takes is at least what a writer could
 * have made, and it gives the same bytes again. */
START_TEST(every_bit_flip_is_refused_or_another_whole_state)
{
    struct ps_sessions sessions;
    struct encoded encoded = encode_small();
    init(&sessions);
    for (size_t bit = 0; bit < encoded.size * 8; bit++) {
        encoded.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);

        enum ps_status status = decode(&sessions, encoded.bytes, encoded.size);

        ps_sessions_check(&sessions);
        if (status == PS_OK) {
            struct encoded again = encode(&sessions);
            ck_assert_uint_eq(again.size, encoded.size);
            ck_assert_mem_eq(again.bytes, encoded.bytes, encoded.size);
            ps_release(&memory, again.bytes);
        } else {
            ck_assert(status == PS_ERR_CORRUPT || status == PS_ERR_UNSUPPORTED);
            ck_assert_uint_eq(ps_sessions_count(&sessions), 0);
        }
        ps_sessions_clear(&sessions);
        encoded.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(random_bytes_behind_a_good_beginning_never_crash)
{
    struct ps_sessions sessions;
    struct ps_random random;
    struct encoded encoded = encode_small();
    ps_random_init(&random, 0xc0dec);
    init(&sessions);
    for (int round = 0; round < 2000; round++) {
        uint8_t bytes[256];
        size_t size = 12 + (size_t)ps_random_below(&random, sizeof bytes - 12);
        for (size_t i = 0; i < size; i++)
            bytes[i] = (uint8_t)ps_random_next(&random);
        size_t kept = (size_t)ps_random_below(&random, encoded.size);
        memcpy(bytes, encoded.bytes, kept < size ? kept : size);

        (void)!decode(&sessions, bytes, size);

        ps_sessions_check(&sessions);
        ps_sessions_clear(&sessions);
    }
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(bytes_behind_the_end_are_corrupt)
{
    struct ps_sessions sessions;
    struct encoded encoded = encode_small();
    uint8_t *longer = calloc(1, encoded.size + 1);
    ck_assert_ptr_nonnull(longer);
    memcpy(longer, encoded.bytes, encoded.size);
    init(&sessions);

    ck_assert_int_eq(decode(&sessions, longer, encoded.size + 1), PS_ERR_CORRUPT);

    free(longer);
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(an_answer_from_behind_the_checkpoint_is_corrupt)
{
    struct ps_sessions sessions;
    struct encoded encoded = encode_small();
    init(&sessions);

    enum ps_status status = ps_sessions_decode(
        &sessions, (struct ps_bytes){encoded.bytes, encoded.size}, 299, 0, &error);

    ck_assert_int_eq(status, PS_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(error.text, "behind the checkpoint's position"));
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(a_later_format_is_unsupported)
{
    struct ps_sessions sessions;
    struct encoded encoded = encode_small();
    init(&sessions);
    encoded.bytes[4] = 2;

    ck_assert_int_eq(decode(&sessions, encoded.bytes, encoded.size), PS_ERR_UNSUPPORTED);

    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(decoding_survives_any_refused_allocation)
{
    struct ps_sessions sessions;
    struct encoded encoded = encode_small();
    init(&sessions);
    heap.refuse_at = heap.seen + _i;

    enum ps_status status = decode(&sessions, encoded.bytes, encoded.size);

    bool refused = heap.seen > heap.refuse_at;
    heap.refuse_at = -1;
    ck_assert_int_eq(status, refused ? PS_ERR_NO_MEMORY : PS_OK);
    ck_assert_uint_eq(ps_sessions_count(&sessions), refused ? 0 : 2);
    ck_assert(refused || _i >= 2);
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sessions_codec");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, no_clients_are_a_header);
    tcase_add_loop_test(tests, that_clients_were_forgotten_is_not_forgotten, 0, 2);
    tcase_add_test(tests, a_checkpoint_without_sessions_may_have_forgotten_everybody);
    tcase_add_test(tests, equal_states_give_equal_bytes_whatever_the_order);
    tcase_add_test(tests, p2_what_was_remembered_is_remembered_after_decoding);
    tcase_add_test(tests, every_truncation_is_corrupt);
    tcase_add_test(tests, every_bit_flip_is_refused_or_another_whole_state);
    tcase_add_test(tests, random_bytes_behind_a_good_beginning_never_crash);
    tcase_add_test(tests, bytes_behind_the_end_are_corrupt);
    tcase_add_test(tests, an_answer_from_behind_the_checkpoint_is_corrupt);
    tcase_add_test(tests, a_later_format_is_unsupported);
    tcase_add_loop_test(tests, decoding_survives_any_refused_allocation, 0, 8);
    return run_tests("sessions_codec", tests);
}
