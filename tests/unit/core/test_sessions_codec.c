/* SPDX-License-Identifier: Apache-2.0 */
/* core/sessions/sessions_codec.c: equal states give equal bytes, and other bytes are refused. */
#include "server/core/sessions/sessions.h"

#include "base/random.h"
#include "tests/unit/core/core_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POSITION 1000
#define NOW_US 123456789

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
    ck_assert_int_eq(
        ps_sessions_remember(sessions, &id, (uint32_t)sequence * 77, sequence, answer, NULL),
        PS_OK);
}

static struct encoded encode(struct ps_sessions *sessions)
{
    struct encoded encoded;
    ck_assert_int_eq(ps_sessions_encode(sessions, &memory, &encoded.bytes, &encoded.size, NULL),
                     PS_OK);
    return encoded;
}

static enum ps_status decode(struct ps_sessions *sessions, const uint8_t *bytes, size_t size)
{
    return ps_sessions_decode(sessions, (struct ps_bytes){bytes, size}, POSITION, NOW_US, &error);
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

    ck_assert_uint_eq(encoded.size, 20);
    ck_assert_int_eq(decode(&sessions, encoded.bytes, encoded.size), PS_OK);
    ck_assert_uint_eq(sessions.floor, 0);
    ps_release(&memory, encoded.bytes);
    ck_assert_int_eq(ps_sessions_decode(&sessions, (struct ps_bytes){NULL, 0}, 0, NOW_US, NULL),
                     PS_OK);
    ck_assert_uint_eq(sessions.floor, 0);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(the_floor_is_kept)
{
    struct ps_sessions sessions;
    init(&sessions);
    ps_sessions_raise_floor(&sessions, 5);
    if (_i == 1)
        remember(&sessions, "a", 1, 1);
    struct encoded encoded = encode(&sessions);
    ps_sessions_clear(&sessions);
    ck_assert_uint_eq(sessions.floor, 0);

    ck_assert_int_eq(decode(&sessions, encoded.bytes, encoded.size), PS_OK);

    ck_assert_uint_eq(sessions.floor, 5);
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

    ck_assert_uint_eq(sessions.floor, NOW_US);
    ps_sessions_fini(&sessions);
}
END_TEST

START_TEST(a1_the_order_of_silence_and_the_times_are_kept)
{
    static const char *const names[] = {"z", "a", "m"};
    struct ps_sessions sessions;
    init(&sessions);
    for (uint64_t i = 0; i < 3; i++)
        remember(&sessions, names[i], 1, i + 1);
    struct encoded encoded = encode(&sessions);
    ps_sessions_clear(&sessions);

    ck_assert_int_eq(decode(&sessions, encoded.bytes, encoded.size), PS_OK);

    const struct ps_session_client *client = NULL;
    for (uint64_t i = 0; i < 3; i++) {
        client = ps_sessions_next(&sessions, client);
        ck_assert_ptr_nonnull(client);
        ck_assert_mem_eq(client->id, names[i], 1);
        ck_assert_uint_eq(client->used_us, i + 1);
    }
    ck_assert_ptr_null(ps_sessions_next(&sessions, client));
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
}
END_TEST

/* A table of the format before this one: two clients, one of them with two requests. */
static const uint8_t former[] = {
    'P', 'S', 'S', 'N', 1, 0, 0, 0, 0,  0, 0, 0, 2, 0, 0, 0,                         /* header */
    1,   'a', 1,   0,   0, 0, 0, 0, 0,  0, 2, 0,                                     /* client */
    5,   0,   0,   0,   0, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, /* slot */
    4,   1,   0,   0,   0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, /* slot */
    1,   'b', 2,   0,   0, 0, 0, 0, 0,  0, 0, 0,                                     /* client */
};

START_TEST(the_former_format_is_read)
{
    struct ps_sessions sessions;
    struct ps_session_call call;
    uint8_t bytes[sizeof former];
    const struct ps_request_id id = {
        .present = true, .client_id = text("a"), .session = 1, .sequence = 5};
    memcpy(bytes, former, sizeof former);
    bytes[8] = (uint8_t)_i; /* clients have been forgotten */
    init(&sessions);

    ck_assert_int_eq(decode(&sessions, bytes, sizeof bytes), PS_OK);

    ck_assert_uint_eq(sessions.floor, _i == 1 ? NOW_US : 0);
    ck_assert_uint_eq(ps_sessions_count(&sessions), 2);
    ck_assert_int_eq(ps_sessions_begin(&sessions, &id, 0x12345678, NOW_US, &call, NULL), PS_OK);
    ck_assert(call.is_repeat);
    ck_assert_uint_eq(call.answer.version, 15);
    for (size_t size = 1; size < sizeof former; size++) {
        ps_sessions_clear(&sessions);
        ck_assert_int_eq(decode(&sessions, former, size), PS_ERR_CORRUPT);
    }
    ps_sessions_fini(&sessions);
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
    ck_assert_int_eq(ps_sessions_begin(&sessions, &id, 300 * 77, 0, &call, NULL), PS_OK);
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
        &sessions, (struct ps_bytes){encoded.bytes, encoded.size}, 299, NOW_US, &error);

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
    encoded.bytes[4] = 4;

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

/* A client that came when others had been forgotten may be one of those: that what was counted of
 * it is not all is true for ever. */
START_TEST(counts_that_are_not_all_stay_so)
{
    struct ps_sessions sessions, again;
    const struct ps_request_id id = {.present = true,
                                     .client_id = text("@a#0"),
                                     .session = 5,
                                     .sequence = 1,
                                     .pushed_to = text("w")};
    const struct ps_session_answer answer = {.version = 1, .position = 1};
    init(&sessions);
    init(&again);
    ps_sessions_raise_floor(&sessions, 1);
    ck_assert_int_eq(ps_sessions_remember(&sessions, &id, 1, 1, answer, NULL), PS_OK);
    ck_assert(ps_sessions_next(&sessions, NULL)->counts.is_partial);

    struct encoded encoded = encode(&sessions);
    ck_assert_int_eq(decode(&again, encoded.bytes, encoded.size), PS_OK);

    ck_assert(ps_sessions_next(&again, NULL)->counts.is_partial);
    ps_release(&memory, encoded.bytes);
    ps_sessions_fini(&sessions);
    ps_sessions_fini(&again);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sessions_codec");
    tcase_add_checked_fixture(tests, begin_test, end_test);
    tcase_add_test(tests, counts_that_are_not_all_stay_so);
    tcase_add_test(tests, no_clients_are_a_header);
    tcase_add_loop_test(tests, the_floor_is_kept, 0, 2);
    tcase_add_test(tests, a_checkpoint_without_sessions_may_have_forgotten_everybody);
    tcase_add_test(tests, a1_the_order_of_silence_and_the_times_are_kept);
    tcase_add_loop_test(tests, the_former_format_is_read, 0, 2);
    tcase_add_test(tests, p2_what_was_remembered_is_remembered_after_decoding);
    tcase_add_test(tests, every_truncation_is_corrupt);
    tcase_add_test(tests, every_bit_flip_is_refused_or_another_whole_state);
    tcase_add_test(tests, random_bytes_behind_a_good_beginning_never_crash);
    tcase_add_test(tests, bytes_behind_the_end_are_corrupt);
    tcase_add_test(tests, an_answer_from_behind_the_checkpoint_is_corrupt);
    tcase_add_test(tests, a_later_format_is_unsupported);
    tcase_add_loop_test(tests, decoding_survives_any_refused_allocation, 0, 12);
    return run_tests("sessions_codec", tests);
}
