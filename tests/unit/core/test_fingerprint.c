/* SPDX-License-Identifier: Apache-2.0 */
/* core/sessions/fingerprint.c: what tells two requests under one id apart. */
#include "server/core/sessions/fingerprint.h"

#include "tests/unit/core/core_world.h"

#include <string.h>

static uint8_t bytes[4096];

static struct ps_push_request push(const char *name)
{
    return (struct ps_push_request){.name = text(name), .dtype = PS_F32};
}

static uint32_t of(const char *name, size_t size)
{
    struct ps_push_request request = push(name);
    const struct ps_bytes piece = {bytes, size};
    return ps_fingerprint_of_push(&request, ps_view_of(&piece));
}

START_TEST(the_same_request_agrees_with_itself_however_it_is_cut)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31);
    const struct ps_bytes pieces[] = {{bytes, 100}, {bytes + 100, 0}, {bytes + 100, 3996}};
    struct ps_push_request request = push("w");

    uint32_t cut = ps_fingerprint_of_push(&request, (struct ps_view){pieces, 3, sizeof bytes});

    ck_assert_uint_eq(cut, of("w", sizeof bytes));
    request.encoding = PS_ENCODING_FLOAT32; /* the type's own, under its other number */
    ck_assert_uint_eq(ps_fingerprint_of_push(&request, (struct ps_view){pieces, 3, sizeof bytes}),
                      cut);
}
END_TEST

/* A place that a border cuts is put together of both sides, wherever the border is. */
START_TEST(a_border_may_be_anywhere)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31);
    struct ps_push_request request = push("w");
    for (size_t at = 0; at <= 1000; at++) {
        const struct ps_bytes pieces[] = {{bytes, at}, {bytes + at, 1000 - at}};
        const struct ps_view cut = {pieces, 2, 1000};
        ck_assert_uint_eq(ps_fingerprint_of_push(&request, cut), of("w", 1000));
    }
}
END_TEST

/* They are in journals and checkpoints of former versions. */
START_TEST(the_numbers_never_change)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31);

    ck_assert_uint_eq(of("w", sizeof bytes), 0xbb12a825);
    ck_assert_uint_eq(of("w", 200), 0xbb120e6f);
}
END_TEST

START_TEST(another_name_size_or_content_differs)
{
    memset(bytes, 0, sizeof bytes);
    uint32_t one = of("w", 1000);

    ck_assert(!ps_fingerprint_agrees(one, of("v", 1000)));
    ck_assert(!ps_fingerprint_agrees(one, of("w", 1004)));
    bytes[999] = 1;
    ck_assert(!ps_fingerprint_agrees(one, of("w", 1000)));
    bytes[999] = 0;
    bytes[0] = 1;
    ck_assert(!ps_fingerprint_agrees(one, of("w", 1000)));
}
END_TEST

/* Every size up to two samples: each of the first 256 bytes counts, and nothing is read beyond. */
START_TEST(small_contents_are_looked_at_whole)
{
    memset(bytes, 0, sizeof bytes);
    for (size_t size = 1; size <= 256; size++) {
        uint32_t one = of("w", size);
        bytes[size - 1] ^= 1;
        ck_assert_msg(one != of("w", size), "size %zu", size);
        bytes[size - 1] ^= 1;
    }
    for (size_t size = 257; size <= 600; size++)
        ck_assert_uint_ne(of("w", size), 0);
}
END_TEST

START_TEST(what_is_not_known_agrees)
{
    struct ps_push_request request = push("w");
    uint32_t whole = of("w", 1000);
    uint32_t range = ps_fingerprint_of_push(&request, (struct ps_view){0});

    ck_assert_uint_eq(range & 0xffff, 0);
    ck_assert(ps_fingerprint_agrees(whole, range));
    ck_assert(ps_fingerprint_agrees(whole, 0));
    ck_assert(!ps_fingerprint_agrees(of("v", 1000), range));
}
END_TEST

START_TEST(methods_differ)
{
    struct ps_init_request init = {.name = text("w"), .dtype = PS_F32};
    const struct ps_bytes piece = {bytes, 1000};
    uint32_t initialised = ps_fingerprint_of_init(&init, ps_view_of(&piece));

    ck_assert(!ps_fingerprint_agrees(initialised, of("w", 1000)));
    ck_assert(!ps_fingerprint_agrees(initialised, ps_fingerprint_of_finish()));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("fingerprint");
    tcase_add_test(tests, the_same_request_agrees_with_itself_however_it_is_cut);
    tcase_add_test(tests, a_border_may_be_anywhere);
    tcase_add_test(tests, the_numbers_never_change);
    tcase_add_test(tests, another_name_size_or_content_differs);
    tcase_add_test(tests, small_contents_are_looked_at_whole);
    tcase_add_test(tests, what_is_not_known_agrees);
    tcase_add_test(tests, methods_differ);
    return run_tests("fingerprint", tests);
}
