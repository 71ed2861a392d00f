/* SPDX-License-Identifier: Apache-2.0 */
/* client/replica/replica.c: against a real shard. Wrong answers are in test_replica_part.c. */
#include "replica_world.h"

#include "base/random.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261121 };

START_TEST(a_replica_gets_all_and_then_what_has_changed)
{
    begin();
    catch_up();
    expect_all_same();
    ck_assert_uint_eq(replica->counters.copies, PARTS);
    uint64_t received = replica->counters.received;
    push_one(3, 8 * PER_BLOCK);
    push_one(0, 4);
    catch_up();
    expect_all_same();
    ck_assert_uint_eq(replica->counters.received - received, PS_BLOCK_BYTES + 20);
    ck_assert_uint_eq(replica->counters.anchors, 0);
    end();
}
END_TEST

START_TEST(a_server_that_lost_its_memory_is_noticed)
{
    begin();
    catch_up();
    push_one(2, 0);
    push_one(2, 1);
    catch_up();
    ps_service_reset(service);
    begin_service(1);
    push_one(2, 2);
    push_one(2, 3); /* the same number of another content */
    catch_up();
    expect_all_same();
    ck_assert_uint_eq(replica->counters.anchors, PARTS);
    ck_assert_uint_eq(replica->counters.mismatches, 0);
    end();
}
END_TEST

/* What is there stays until all of the new is. */
START_TEST(a_pull_that_stops_half_way_leaves_the_version_that_was_there)
{
    begin();
    catch_up();
    float *before = malloc(replica->parts[3].size);
    ck_assert_ptr_nonnull(before);
    memcpy(before, contents[3], replica->parts[3].size);
    for (uint32_t block = 0; block < 9; block++)
        push_one(3, block * PER_BLOCK + 1);
    answer_bytes = 2 * PS_BLOCK_BYTES;
    ps_replica_begin(replica);
    for (int i = 0; i < 3; i++)
        ck_assert(turn(NULL));
    ck_assert_int_eq(replica->parts[3].state, PS_PART_STALE);
    ck_assert_uint_ne(replica->parts[3].coming.target, 0);
    ck_assert_mem_eq(before, contents[3], replica->parts[3].size);
    ck_assert_uint_eq(replica->parts[3].version, 1);

    ps_replica_begin(replica); /* the caller's time was over */
    ps_replica_check(replica);
    ck_assert_mem_eq(before, contents[3], replica->parts[3].size);
    catch_up();
    expect_all_same();
    free(before);
    end();
}
END_TEST

START_TEST(an_answer_that_the_server_has_dropped_is_begun_again)
{
    begin();
    catch_up();
    for (uint32_t block = 0; block < 9; block++)
        push_one(3, block * PER_BLOCK);
    answer_bytes = PS_BLOCK_BYTES;
    ps_replica_begin(replica);
    for (int i = 0; i < 2; i++)
        ck_assert(turn(NULL));
    push_one(3, 5);
    fake.now_ms += 60 * 1000; /* longer than a version is kept for nobody */
    push_one(3, 6);
    const struct ps_pull_request other = {.name = ps_bytes_of_text("c"), .range = {0, 1}};
    struct ps_pull pull = {0};
    ck_assert_int_eq(ps_service_pull(service, &other, &pull, NULL), PS_OK);
    ps_pull_release(&pull);
    while (turn(NULL))
        continue;
    expect_all_same();
    ck_assert_uint_eq(replica->counters.mismatches, 0);
    end();
}
END_TEST

START_TEST(a_server_that_dies_between_two_answers_is_noticed)
{
    begin();
    catch_up();
    for (uint32_t block = 0; block < 9; block++)
        push_one(3, block * PER_BLOCK);
    answer_bytes = PS_BLOCK_BYTES;
    ps_replica_begin(replica);
    ck_assert(turn(NULL));
    ck_assert(turn(NULL));
    ps_service_reset(service);
    begin_service(2);
    push_one(3, 77);
    while (turn(NULL))
        continue;
    expect_same(3);
    catch_up(); /* the others had been asked before */
    expect_all_same();
    end();
}
END_TEST

/* ---- Memory ---- */

START_TEST(a_pull_survives_any_refused_allocation)
{
    begin();
    catch_up();
    for (uint32_t block = 0; block < 9; block++)
        push_one(3, block * PER_BLOCK);
    answer_bytes = 3 * PS_BLOCK_BYTES;
    heap.refuse_at = heap.seen + _i;
    ps_replica_begin(replica);
    while (turn(NULL))
        continue;
    heap.refuse_at = -1;
    ps_replica_check(replica);
    catch_up();
    expect_all_same();
    end();
}
END_TEST

START_TEST(a_replica_survives_a_refused_allocation)
{
    struct fault_heap small = {.refuse_at = _i};
    const struct ps_allocator refusing = fault_heap_allocator(&small);
    struct ps_replica *made = NULL;
    const struct ps_replica_part part = {.name = ps_bytes_of_text("w"), .size = 4};
    enum ps_status status = ps_replica_create(&refusing, 1, &made, NULL);
    if (status == PS_OK)
        status = ps_replica_add(made, &part, NULL);
    ck_assert_int_eq(status, small.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_replica_destroy(made);
    ck_assert_int_eq(small.live, 0);
}
END_TEST

/* ---- Anything ---- */

static void bend_digest(struct ps_pull_result *result)
{
    if (result->reply.delta.next == 0)
        result->reply.delta.digest++;
}

static void push_anything(struct ps_random *random)
{
    size_t part = ps_random_below(random, PARTS);
    uint32_t elements[8];
    size_t count = 0;
    uint64_t at = 0;
    while (count < 8) {
        at += ps_random_below(random, counts[part] / 2 + 1);
        if (at >= counts[part])
            break;
        elements[count++] = (uint32_t)at++;
    }
    if (count > 0)
        push(part, elements, count);
}

START_TEST(a_replica_always_has_what_the_server_has)
{
    struct ps_random random;
    uint64_t seed = SEED + (uint64_t)_i;
    ps_random_init(&random, seed);
    begin();
    for (int step = 0; step < 40; step++) {
        switch (ps_random_below(&random, 8)) {
        case 0:
            ps_service_reset(service);
            begin_service(1 + ps_random_below(&random, 2));
            break;
        case 1:
            answer_bytes = (1 + ps_random_below(&random, 4)) * PS_BLOCK_BYTES;
            break;
        case 2: /* given up half way, perhaps with something in between */
            ps_replica_begin(replica);
            (void)turn(NULL);
            push_anything(&random);
            (void)turn(NULL);
            break;
        case 3:
            ps_replica_begin(replica);
            while (turn(bend_digest) && ps_random_below(&random, 3) > 0)
                continue;
            break;
        case 4:
        case 5:
            catch_up();
            expect_all_same();
            break;
        default:
            push_anything(&random);
        }
    }
    catch_up();
    expect_all_same();
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replica");
    TCase *tests = tcase_create("replica");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_replica_gets_all_and_then_what_has_changed);
    tcase_add_test(tests, a_server_that_lost_its_memory_is_noticed);
    tcase_add_test(tests, a_pull_that_stops_half_way_leaves_the_version_that_was_there);
    tcase_add_test(tests, an_answer_that_the_server_has_dropped_is_begun_again);
    tcase_add_test(tests, a_server_that_dies_between_two_answers_is_noticed);
    tcase_add_loop_test(tests, a_pull_survives_any_refused_allocation, 0, 30);
    tcase_add_loop_test(tests, a_replica_survives_a_refused_allocation, 0, 4);
    tcase_add_loop_test(tests, a_replica_always_has_what_the_server_has, 0, 30);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
