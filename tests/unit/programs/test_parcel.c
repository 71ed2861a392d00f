/* SPDX-License-Identifier: Apache-2.0 */
/* Parcels: what is copied, what is kept, and when it is let go. */
#include "server/core/programs/parcel.h"

#include "run_suite.h"

#include <check.h>
#include <string.h>

static int kept, dropped;
static uint8_t content[10000];

static void *keep(void *self)
{
    kept++;
    return self;
}

static void drop(void *self)
{
    (void)self;
    dropped++;
}

static struct ps_parcel *make(size_t size, uint64_t beside)
{
    const struct ps_bytes piece = {content, size};
    const struct ps_hold hold = {
        .keep = keep, .drop = drop, .self = content, .bytes = size + beside};
    const struct ps_program_tensor tensor = {.key = 4, .size = size};
    const struct ps_program_payload payload = {.tensors = &tensor,
                                               .tensor_count = 1,
                                               .body = ps_bytes_of_text("body"),
                                               .keys = {content, 16},
                                               .lens = {content, 8},
                                               .content = ps_view_of(&piece)};
    struct ps_parcel *parcel = ps_parcel_create(ps_allocator_heap(), &payload, &hold);
    ck_assert_ptr_nonnull(parcel);
    ck_assert_uint_eq(parcel->payload.tensors[0].key, 4);
    ck_assert(ps_bytes_equal(parcel->payload.body, ps_bytes_of_text("body")));
    ck_assert_uint_eq((uintptr_t)parcel->payload.keys.data % 8, 0);
    ck_assert_uint_eq((uintptr_t)parcel->payload.lens.data % 4, 0);
    return parcel;
}

START_TEST(small_content_is_copied_and_large_is_kept)
{
    kept = dropped = 0;
    struct ps_parcel *small = make(4095, 0);
    ck_assert_int_eq(kept, 0);
    ck_assert_ptr_ne(small->payload.content.pieces[0].data, content);
    ck_assert_uint_eq((uintptr_t)small->payload.content.pieces[0].data % 64, 0);
    struct ps_parcel *large = make(4096, 0);
    ck_assert_int_eq(kept, 1);
    ck_assert_ptr_eq(large->payload.content.pieces[0].data, content);
    /* A message that is mostly something else is not kept for a little content. */
    struct ps_parcel *beside = make(4096, 1000000);
    ck_assert_int_eq(kept, 1);
    ps_parcel_release(ps_parcel_acquire(large));
    ck_assert_int_eq(dropped, 0);
    ps_parcel_release(large);
    ck_assert_int_eq(dropped, 1);
    ps_parcel_release(small);
    ps_parcel_release(beside);
    ps_parcel_release(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("parcel");
    TCase *tests = tcase_create("parcel");
    tcase_add_test(tests, small_content_is_copied_and_large_is_kept);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
