/* Parts that wait for each other: whole only when all are there, bounded, and gone in time. */
#include "server/core/staging.h"

#include "core_world.h"

#include <stdlib.h>
#include <string.h>

/* 100 Ki float32: two parts of PART elements and a short one. */
enum { TOTAL = 40 * 1024, PART = 16 * 1024, REST = TOTAL - 2 * PART };

static float values[TOTAL];

static struct fault_heap heap;
static struct ps_allocator memory;
static struct ps_staging staging;

static void begin(uint64_t bytes_max)
{
    heap = (struct fault_heap){.refuse_at = -1};
    memory = fault_heap_allocator(&heap);
    for (size_t i = 0; i < TOTAL; i++)
        values[i] = (float)i;
    ps_staging_init(&staging, &memory, bytes_max);
}

static void end(void)
{
    ps_staging_check(&staging);
    ps_staging_fini(&staging);
    ck_assert_int_eq(heap.live, 0);
}

/* What one part gave. */
struct added {
    enum ps_status status;
    struct ps_added got;
    struct ps_error error;
};

static struct added add_with(const struct ps_request_id *id, const char *name, uint64_t total,
                             uint64_t first, uint64_t count, uint64_t now_ms)
{
    struct added added = {0};
    struct ps_bytes piece = {(const uint8_t *)(values + first % TOTAL), count * sizeof(float)};
    const struct ps_part part = {.method = PS_METHOD_PUSH,
                                 .id = id,
                                 .name = text(name),
                                 .dtype = PS_F32,
                                 .total = total,
                                 .range = {first, count},
                                 .content = ps_view_of(&piece)};
    added.status = ps_staging_add(&staging, &part, now_ms, &added.got, &added.error);
    ps_staging_check(&staging);
    return added;
}

static struct added add_as(const char *client, uint64_t sequence, const char *name, uint64_t total,
                           uint64_t first, uint64_t count, uint64_t now_ms)
{
    const struct ps_request_id id = {
        .present = true, .client_id = text(client), .session = 1, .sequence = sequence};
    return add_with(&id, name, total, first, count, now_ms);
}

/* A range of "w", of one client. */
static struct added add_of(uint64_t session, uint64_t sequence, uint64_t first, uint64_t count,
                           uint64_t now_ms)
{
    const struct ps_request_id id = {
        .present = true, .client_id = text("a"), .session = session, .sequence = sequence};
    return add_with(&id, "w", TOTAL, first, count, now_ms);
}

static struct added add(uint64_t first, uint64_t count)
{
    return add_as("a", 1, "w", TOTAL, first, count, 0);
}

static void expect_whole(const struct added *added)
{
    ck_assert_int_eq(added->status, PS_OK);
    ck_assert_ptr_nonnull(added->got.staged);
    ck_assert_uint_eq(added->got.content.size, sizeof values);
    float *copy = malloc(sizeof values);
    ck_assert_ptr_nonnull(copy);
    ps_view_copy(added->got.content, 0, copy, sizeof values);
    ck_assert(memcmp(copy, values, sizeof values) == 0);
    free(copy);
}

static struct added add_looked_at(uint64_t first, uint64_t count, bool is_plain)
{
    struct added added = {0};
    const struct ps_request_id id = {
        .present = true, .client_id = text("a"), .session = 1, .sequence = 1};
    struct ps_bytes piece = {(const uint8_t *)(values + first), count * sizeof(float)};
    const struct ps_part part = {.method = PS_METHOD_PUSH,
                                 .id = &id,
                                 .name = text("w"),
                                 .dtype = PS_F32,
                                 .total = TOTAL,
                                 .range = {first, count},
                                 .content = ps_view_of(&piece),
                                 .is_plain = is_plain};
    added.status = ps_staging_add(&staging, &part, 0, &added.got, &added.error);
    return added;
}

START_TEST(the_whole_is_plain_when_every_part_is)
{
    bool first_is_plain = (_i & 1) != 0, second_is_plain = (_i & 2) != 0;
    begin(SIZE_MAX);
    ck_assert_ptr_null(add_looked_at(0, TOTAL / 2, first_is_plain).got.staged);
    struct added added = add_looked_at(TOTAL / 2, TOTAL - TOTAL / 2, second_is_plain);
    ck_assert_ptr_nonnull(added.got.staged);
    ck_assert_int_eq(ps_staged_is_plain(added.got.staged), first_is_plain && second_is_plain);
    ps_staging_end(&staging, added.got.staged, PS_OK);
    end();
}
END_TEST

START_TEST(parts_in_any_order_become_one)
{
    const uint64_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}};
    begin(1 << 20);
    struct added last = {0};
    for (size_t i = 0; i < 3; i++) {
        uint64_t k = orders[_i][i];
        last = add(k * PART, k == 2 ? REST : PART);
        ck_assert_int_eq(last.status, PS_OK);
        ck_assert(i == 2 || last.got.staged == NULL);
    }

    expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    ck_assert_uint_eq(staging.bytes, 0);
    end();
}
END_TEST

START_TEST(a_part_that_comes_again_is_harmless)
{
    begin(1 << 20);
    (void)add(0, PART);
    struct added again = add(0, PART);
    ck_assert_int_eq(again.status, PS_OK);
    ck_assert_ptr_null(again.got.staged);
    (void)add(2 * PART, REST);
    struct added last = add(PART, PART);

    expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    end();
}
END_TEST

START_TEST(parts_that_overlap_are_refused)
{
    begin(1 << 20);
    ck_assert_int_eq(add(PART, PART).status, PS_OK);
    ck_assert_int_eq(add(PART - 1, PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(add(PART + 1, PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(add(0, 2 * PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(add(PART, TOTAL - PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(add(0, PART).status, PS_OK);
    end();
}
END_TEST

START_TEST(parts_of_something_else_are_refused)
{
    begin(1 << 20);
    ck_assert_int_eq(add(0, PART).status, PS_OK);
    ck_assert_int_eq(add_as("a", 1, "v", TOTAL, PART, PART, 0).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL + 1, PART, PART, 0).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(add_as("b", 1, "w", TOTAL, PART, PART, 0).status, PS_OK);
    ck_assert_uint_eq(staging.count, 2);
    end();
}
END_TEST

START_TEST(wrong_ranges_are_refused)
{
    begin(1 << 20);
    ck_assert_int_eq(add(TOTAL, 1).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(add(UINT64_MAX, PART).status, PS_ERR_BAD_INPUT);
    ck_assert_int_eq(add(0, 100).status, PS_ERR_BAD_INPUT); /* too short to be in the middle */
    ck_assert_int_eq(add(TOTAL - 100, 100).status, PS_OK);  /* the last may be */
    ck_assert_int_eq(add_as("a", 9, "w", UINT64_MAX, 0, PART, 0).status, PS_ERR_BAD_INPUT);
    end();
}
END_TEST

START_TEST(a_part_without_a_request_id_is_refused)
{
    begin(1 << 20);
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
    end();
}
END_TEST

START_TEST(what_would_not_fit_is_refused_at_its_first_part)
{
    begin(3 * sizeof values);
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    /* Half for one client, all for everybody. */
    ck_assert_int_eq(add_as("a", 2, "w", TOTAL, 0, PART, 0).status, PS_ERR_BUSY);
    ck_assert_int_eq(add_as("b", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(add_as("c", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(add_as("d", 1, "w", TOTAL, 0, PART, 0).status, PS_ERR_BUSY);
    /* Who was let in gets to the end. */
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL, PART, PART, 0).status, PS_OK);
    struct added last = add_as("a", 1, "w", TOTAL, 2 * PART, REST, 0);
    expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    ck_assert_int_eq(add_as("d", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    end();
}
END_TEST

START_TEST(the_only_one_always_fits)
{
    begin(1000);
    (void)add(0, PART);
    (void)add(PART, PART);
    struct added last = add(2 * PART, REST);
    expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    end();
}
END_TEST

START_TEST(what_gets_no_part_for_long_is_dropped)
{
    begin(1 << 20);
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL, 0, PART, 1000).status, PS_OK);
    ck_assert_int_eq(add_as("b", 1, "w", TOTAL, 0, PART, 1000 + PS_STAGING_IDLE_MS - 1).status,
                     PS_OK);
    ck_assert_uint_eq(staging.count, 2);
    ck_assert_int_eq(add_as("b", 2, "w", TOTAL, 0, PART, 1000 + PS_STAGING_IDLE_MS).status, PS_OK);
    ck_assert_uint_eq(staging.count, 2);
    ck_assert_uint_eq(staging.expired_count, 1);
    end();
}
END_TEST

/* Room for one request of a client. */
static void begin_narrow(void)
{
    begin(3 * sizeof values);
}

START_TEST(what_a_client_has_given_up_gives_way_to_what_it_begins)
{
    begin_narrow();
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(add_as("a", 2, "v", TOTAL, 0, PART, PS_STAGING_YIELD_MS - 1).status,
                     PS_ERR_BUSY);
    ck_assert_int_eq(add_as("a", 2, "v", TOTAL, 0, PART, PS_STAGING_YIELD_MS).status, PS_OK);
    ck_assert_uint_eq(staging.count, 1);
    ck_assert_uint_eq(staging.expired_count, 1);
    end();
}
END_TEST

START_TEST(a_newer_session_is_newer_whatever_its_numbers)
{
    begin_narrow();
    ck_assert_int_eq(add_of(1, 9, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(add_of(2, 1, 0, PART, PS_STAGING_YIELD_MS).status, PS_OK);
    ck_assert_int_eq(add_of(1, 10, 0, PART, 3 * PS_STAGING_YIELD_MS).status, PS_ERR_BUSY);
    ck_assert_uint_eq(staging.expired_count, 1);
    end();
}
END_TEST

START_TEST(the_older_never_drives_out_the_newer)
{
    begin_narrow();
    ck_assert_int_eq(add_as("a", 2, "w", TOTAL, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(add_as("a", 1, "v", TOTAL, 0, PART, PS_STAGING_IDLE_MS - 1).status,
                     PS_ERR_BUSY);
    ck_assert_uint_eq(staging.expired_count, 0);
    end();
}
END_TEST

START_TEST(what_still_gets_parts_is_not_given_up)
{
    begin_narrow();
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL, PART, PART, PS_STAGING_YIELD_MS).status, PS_OK);

    ck_assert_int_eq(add_as("a", 2, "v", TOTAL, 0, PART, 2 * PS_STAGING_YIELD_MS - 1).status,
                     PS_ERR_BUSY);
    struct added last = add_as("a", 1, "w", TOTAL, 2 * PART, REST, 2 * PS_STAGING_YIELD_MS);
    expect_whole(&last);
    /* Nor is what is being applied. */
    ck_assert_int_eq(add_as("a", 2, "v", TOTAL, 0, PART, 9 * PS_STAGING_YIELD_MS).status,
                     PS_ERR_BUSY);
    ps_staging_end(&staging, last.got.staged, PS_OK);
    ck_assert_uint_eq(staging.expired_count, 0);
    end();
}
END_TEST

START_TEST(nobody_gives_way_to_another_client)
{
    begin_narrow();
    const char *const clients[] = {"a", "b", "c"};
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(add_as(clients[i], 1, "w", TOTAL, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(add_as("d", 2, "w", TOTAL, 0, PART, PS_STAGING_IDLE_MS - 1).status,
                     PS_ERR_BUSY);
    ck_assert_uint_eq(staging.count, 3);
    end();
}
END_TEST

START_TEST(only_as_much_gives_way_as_is_needed_and_the_oldest_first)
{
    begin(6 * sizeof values);
    for (uint64_t sequence = 1; sequence <= 3; sequence++)
        ck_assert_int_eq(add_as("a", 4 - sequence, "w", TOTAL, 0, PART, 0).status, PS_OK);

    ck_assert_int_eq(add_as("a", 7, "v", TOTAL, 0, PART, PS_STAGING_YIELD_MS).status, PS_OK);
    ck_assert_uint_eq(staging.count, 3);
    /* The first has gone; the second and third go on. */
    struct added added = add_as("a", 2, "w", TOTAL, PART, PART, PS_STAGING_YIELD_MS);
    ck_assert_int_eq(added.status, PS_OK);
    added = add_as("a", 2, "w", TOTAL, 2 * PART, REST, PS_STAGING_YIELD_MS);
    expect_whole(&added);
    ps_staging_end(&staging, added.got.staged, PS_OK);
    end();
}
END_TEST

/* Its parts are answered as those of any request that is not whole yet. */
START_TEST(what_gave_way_may_come_again)
{
    begin_narrow();
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL, 0, PART, 0).status, PS_OK);
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL, PART, PART, 0).status, PS_OK);
    struct added other = add_as("a", 2, "v", TOTAL, 0, PART, PS_STAGING_YIELD_MS);
    ck_assert_int_eq(add_as("a", 1, "w", TOTAL, 2 * PART, REST, PS_STAGING_YIELD_MS).status,
                     PS_ERR_BUSY);
    (void)add_as("a", 2, "v", TOTAL, PART, PART, PS_STAGING_YIELD_MS);
    other = add_as("a", 2, "v", TOTAL, 2 * PART, REST, PS_STAGING_YIELD_MS);
    expect_whole(&other);
    ps_staging_end(&staging, other.got.staged, PS_OK);

    struct added added = add_as("a", 1, "w", TOTAL, 2 * PART, REST, PS_STAGING_YIELD_MS);
    ck_assert_int_eq(added.status, PS_OK);
    ck_assert_ptr_null(added.got.staged);
    (void)add_as("a", 1, "w", TOTAL, 0, PART, PS_STAGING_YIELD_MS);
    added = add_as("a", 1, "w", TOTAL, PART, PART, PS_STAGING_YIELD_MS);
    expect_whole(&added);
    ps_staging_end(&staging, added.got.staged, PS_OK);
    end();
}
END_TEST

START_TEST(a_refused_whole_waits_for_its_last_part_again)
{
    begin(1 << 20);
    (void)add(0, PART);
    (void)add(PART, PART);
    struct added last = add(2 * PART, REST);
    ck_assert_ptr_nonnull(last.got.staged);
    ck_assert_int_eq(add(0, PART).status, PS_ERR_BUSY); /* it is being applied */
    ps_staging_end(&staging, last.got.staged, PS_ERR_BUSY);

    ck_assert_ptr_null(add(0, PART).got.staged);
    last = add(2 * PART, REST);
    expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, PS_ERR_BAD_INPUT);
    ck_assert_uint_eq(staging.count, 0);
    end();
}
END_TEST

START_TEST(what_is_applied_may_be_forgotten_meanwhile)
{
    const enum ps_status statuses[] = {PS_OK, PS_ERR_UNAVAILABLE};
    begin(1 << 20);
    (void)add(0, PART);
    (void)add(PART, PART);
    struct added last = add(2 * PART, REST);
    ps_staging_clear(&staging);
    expect_whole(&last);
    ps_staging_end(&staging, last.got.staged, statuses[_i]);
    end();
}
END_TEST

START_TEST(a_hold_keeps_the_whole_beyond_its_end)
{
    begin(1 << 20);
    (void)add(0, PART);
    (void)add(PART, PART);
    struct added last = add(2 * PART, REST);
    void *kept = last.got.hold.keep(last.got.hold.self);
    ps_staging_end(&staging, last.got.staged, PS_OK);

    expect_whole(&last);
    last.got.hold.drop(kept);
    end();
}
END_TEST

START_TEST(staging_survives_any_refused_allocation)
{
    begin(1 << 20);
    heap.refuse_at = _i;
    struct added parts[3];
    bool refused = false;
    for (size_t i = 0; i < 3; i++) {
        parts[i] = add(i * PART, i == 2 ? REST : PART);
        if (parts[i].status != PS_OK) {
            ck_assert_int_eq(parts[i].status, PS_ERR_NO_MEMORY);
            refused = true;
            parts[i] = add(i * PART, i == 2 ? REST : PART);
        }
        ck_assert_int_eq(parts[i].status, PS_OK);
    }
    ck_assert_int_eq(refused, heap.seen > _i);
    expect_whole(&parts[2]);
    ps_staging_end(&staging, parts[2].got.staged, PS_OK);
    end();
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
    tcase_add_test(t, wrong_ranges_are_refused);
    tcase_add_test(t, a_part_without_a_request_id_is_refused);
    tcase_add_test(t, what_would_not_fit_is_refused_at_its_first_part);
    tcase_add_test(t, the_only_one_always_fits);
    tcase_add_test(t, what_gets_no_part_for_long_is_dropped);
    tcase_add_test(t, what_a_client_has_given_up_gives_way_to_what_it_begins);
    tcase_add_test(t, a_newer_session_is_newer_whatever_its_numbers);
    tcase_add_test(t, the_older_never_drives_out_the_newer);
    tcase_add_test(t, what_still_gets_parts_is_not_given_up);
    tcase_add_test(t, nobody_gives_way_to_another_client);
    tcase_add_test(t, only_as_much_gives_way_as_is_needed_and_the_oldest_first);
    tcase_add_test(t, what_gave_way_may_come_again);
    tcase_add_test(t, a_refused_whole_waits_for_its_last_part_again);
    tcase_add_loop_test(t, what_is_applied_may_be_forgotten_meanwhile, 0, 2);
    tcase_add_test(t, a_hold_keeps_the_whole_beyond_its_end);
    tcase_add_loop_test(t, staging_survives_any_refused_allocation, 0, 6);
    return run_tests("staging", t);
}
