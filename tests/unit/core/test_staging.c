/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that wait for each other: whole only when all are there, bounded, and gone in time. */
#include "server/core/requests/staging.h"

#include "core_staging.h"

#include <math.h>
#include <string.h>

/* Each part of a push is looked at when it comes: of float32 the elements. */
START_TEST(the_whole_is_plain_when_every_part_is)
{
    static const struct ps_optimizer_settings settings = {.rule = PS_RULE_SGD};
    const struct ps_elements halves[] = {{0, TOTAL / 2}, {TOTAL / 2, TOTAL - TOTAL / 2}};
    struct ps_request_id id = {
        .present = true, .client_id = text("a"), .session = 1, .sequence = 1};
    struct added added = {0};
    staged_begin(SIZE_MAX);
    struct ps_parameter_spec *spec = ps_parameter_spec_create(
        ps_allocator_heap(), text("w"), PS_F32, TOTAL, (struct ps_bytes){NULL, 0}, &settings);
    for (int i = 0; i < 2; i++) {
        struct ps_bytes piece = {(const uint8_t *)(values + halves[i].first),
                                 halves[i].count * sizeof(float)};
        const struct ps_part part = {.method = PS_METHOD_PUSH,
                                     .id = &id,
                                     .name = text("w"),
                                     .dtype = PS_F32,
                                     .total = TOTAL,
                                     .range = halves[i],
                                     .content = ps_view_of(&piece),
                                     .spec = spec};
        if ((_i >> i & 1) != 0)
            values[halves[i].first + 5] = NAN;
        ck_assert_ptr_null(added.got.staged);
        added.status = ps_staging_add(&staging, &part, 0, &added.got, &added.error);
    }
    ck_assert_ptr_nonnull(added.got.staged);
    ck_assert_int_eq(ps_staged_is_plain(added.got.staged), _i == 0);
    ps_staging_end(&staging, added.got.staged, PS_OK);
    ps_parameter_spec_release(spec);
    staged_end();
}
END_TEST

START_TEST(parts_in_any_order_become_one)
{
    const uint64_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    staged_begin(1 << 20);
    struct added last = {0};
    for (size_t i = 0; i < 3; i++) {
        uint64_t k = orders[_i][i];
        last = staged_add(k * PART, k == 2 ? REST : PART);
        ck_assert_int_eq(last.status, PS_OK);
        ck_assert(i == 2 || last.got.staged == NULL);
    }

    staged_expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    ck_assert_uint_eq(staging.bytes, 0);
    staged_end();
}
END_TEST

START_TEST(a_part_that_comes_again_is_harmless)
{
    staged_begin(1 << 20);
    (void)staged_add(0, PART);
    struct added again = staged_add(0, PART);
    ck_assert_int_eq(again.status, PS_OK);
    ck_assert_ptr_null(again.got.staged);
    (void)staged_add(2 * PART, REST);
    struct added last = staged_add(PART, PART);

    staged_expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    staged_end();
}
END_TEST

START_TEST(parts_that_overlap_are_refused)
{
    staged_begin(1 << 20);
    ck_assert_int_eq(staged_add(PART, PART).status, PS_OK);
    ck_assert_int_eq(staged_add(PART - 1, PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(staged_add(PART + 1, PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(staged_add(0, 2 * PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(staged_add(PART, TOTAL - PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(staged_add(0, PART).status, PS_OK);
    staged_end();
}
END_TEST

START_TEST(parts_of_something_else_are_refused)
{
    staged_begin(1 << 20);
    ck_assert_int_eq(staged_add(0, PART).status, PS_OK);
    ck_assert_int_eq(staged_add_as("a", 1, "v", TOTAL, PART, PART, 0).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(staged_add_as("a", 1, "w", TOTAL + 1, PART, PART, 0).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(staged_add_as("b", 1, "w", TOTAL, PART, PART, 0).status, PS_OK);
    ck_assert_uint_eq(staging.count, 2);
    staged_end();
}
END_TEST

START_TEST(who_uses_an_id_for_two_things_is_told_both)
{
    staged_begin(1 << 20);
    ck_assert_int_eq(staged_add(0, PART).status, PS_OK);

    struct added other = staged_add_as("a", 1, "v", TOTAL, PART, PART, 0);

    ck_assert_ptr_nonnull(strstr(other.error.text, "Name: v"));
    ck_assert_ptr_nonnull(strstr(other.error.text, "ranges of w"));
    staged_end();
}
END_TEST

static enum ps_status check_whole(uint64_t sequence, enum ps_method method, const char *name,
                                  struct ps_error *error)
{
    const struct ps_request_id id = {
        .present = true, .client_id = text("a"), .session = 1, .sequence = sequence};
    return ps_staging_check_whole(&staging, &id, method, text(name), error);
}

START_TEST(a_whole_of_something_else_does_not_go_under_an_id_of_ranges)
{
    struct ps_error error = {0};
    staged_begin(1 << 20);
    ck_assert_int_eq(check_whole(1, PS_METHOD_PUSH, "v", &error), PS_OK); /* nothing is staged */
    ck_assert_int_eq(staged_add(0, PART).status, PS_OK);

    ck_assert_int_eq(check_whole(1, PS_METHOD_PUSH, "v", &error), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "Name: v"));
    ck_assert_ptr_nonnull(strstr(error.text, "ranges of w"));
    ck_assert_int_eq(check_whole(1, PS_METHOD_INIT, "w", &error), PS_ERR_BAD_INPUT);
    ck_assert_int_eq(check_whole(1, PS_METHOD_PUSH, "w", &error), PS_OK);
    ck_assert_int_eq(check_whole(2, PS_METHOD_PUSH, "v", &error), PS_OK);
    staged_end();
}
END_TEST

START_TEST(wrong_ranges_are_refused)
{
    staged_begin(1 << 20);
    ck_assert_int_eq(staged_add(TOTAL, 1).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(staged_add(UINT64_MAX, PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(staged_add(0, 100).status,
                     PS_ERR_BAD_INPUT); /* too short to be in the middle */
    ck_assert_int_eq(staged_add(TOTAL - 100, 100).status, PS_OK); /* the last may be */
    ck_assert_int_eq(staged_add_as("a", 9, "w", UINT64_MAX, 0, PART, 0).status, PS_ERR_BAD_INPUT);
    staged_end();
}
END_TEST

START_TEST(a_part_without_a_request_id_is_refused)
{
    staged_begin(1 << 20);
    const struct ps_request_id nobody = {0};
    struct ps_bytes piece = {(const uint8_t *)values, PART * sizeof(float)};
    const struct ps_part part = {.method = PS_METHOD_PUSH,
                                 .id = &nobody,
                                 .name = text("w"),
                                 .dtype = PS_F32,
                                 .total = TOTAL,
                                 .range = {0, PART},
                                 .content = ps_view_of(&piece)};
    struct added added = {0};
    ck_assert_int_eq(ps_staging_add(&staging, &part, 0, &added.got, &added.error),
                     PS_ERR_BAD_INPUT);
    staged_end();
}
END_TEST

START_TEST(a_refused_whole_waits_for_its_last_part_again)
{
    staged_begin(1 << 20);
    (void)staged_add(0, PART);
    (void)staged_add(PART, PART);
    struct added last = staged_add(2 * PART, REST);
    ck_assert_ptr_nonnull(last.got.staged);
    ck_assert_int_eq(staged_add(0, PART).status, PS_ERR_BUSY); /* it is being applied */
    ps_staging_end(&staging, last.got.staged, PS_ERR_BUSY);

    ck_assert_ptr_null(staged_add(0, PART).got.staged);
    last = staged_add(2 * PART, REST);
    staged_expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(staging.count, 0);
    staged_end();
}
END_TEST

START_TEST(what_is_applied_may_be_forgotten_meanwhile)
{
    const enum ps_status statuses[] = {PS_OK, PS_ERR_UNAVAILABLE};
    staged_begin(1 << 20);
    (void)staged_add(0, PART);
    (void)staged_add(PART, PART);
    struct added last = staged_add(2 * PART, REST);
    ps_staging_clear(&staging);
    staged_expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, statuses[_i]);
    staged_end();
}
END_TEST

START_TEST(a_hold_keeps_the_whole_beyond_its_end)
{
    staged_begin(1 << 20);
    (void)staged_add(0, PART);
    (void)staged_add(PART, PART);
    struct added last = staged_add(2 * PART, REST);
    void *kept = last.got.hold.keep(last.got.hold.self);
    ps_staging_end(&staging, last.got.staged, PS_OK);

    staged_expect_whole(&last);
    last.got.hold.drop(kept);
    staged_end();
}
END_TEST

START_TEST(staging_survives_any_refused_allocation)
{
    staged_begin(1 << 20);
    heap.refuse_at = _i;
    struct added parts[3];
    bool refused = false;
    for (size_t i = 0; i < 3; i++) {
        parts[i] = staged_add(i * PART, i == 2 ? REST : PART);
        if (parts[i].status != PS_OK) {
            ck_assert_int_eq(parts[i].status, PS_ERR_NO_MEMORY);
            refused = true;
            parts[i] = staged_add(i * PART, i == 2 ? REST : PART);
        }
        ck_assert_int_eq(parts[i].status, PS_OK);
    }
    ck_assert_int_eq(refused, heap.seen > _i);
    staged_expect_whole(&parts[2]);
    ps_staging_end(&staging, parts[2].got.staged, PS_OK);
    staged_end();
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("staging");
    tcase_add_loop_test(t, parts_in_any_order_become_one, 0, 4);
    tcase_add_loop_test(t, the_whole_is_plain_when_every_part_is, 0, 4);
    tcase_add_test(t, a_part_that_comes_again_is_harmless);
    tcase_add_test(t, parts_that_overlap_are_refused);
    tcase_add_test(t, parts_of_something_else_are_refused);
    tcase_add_test(t, who_uses_an_id_for_two_things_is_told_both);
    tcase_add_test(t, a_whole_of_something_else_does_not_go_under_an_id_of_ranges);
    tcase_add_test(t, wrong_ranges_are_refused);
    tcase_add_test(t, a_part_without_a_request_id_is_refused);
    tcase_add_test(t, a_refused_whole_waits_for_its_last_part_again);
    tcase_add_loop_test(t, what_is_applied_may_be_forgotten_meanwhile, 0, 2);
    tcase_add_test(t, a_hold_keeps_the_whole_beyond_its_end);
    tcase_add_loop_test(t, staging_survives_any_refused_allocation, 0, 6);
    return run_tests("staging", t);
}
