/* SPDX-License-Identifier: Apache-2.0 */
/* tools/train_share.c: the rows of a worker, and their order. */
#include "run_suite.h"
#include "tools/train_share.h"

#include <check.h>
#include <string.h>

enum { ROWS = 11, SHARES = 4 };

static struct ps_train_share share_of(uint64_t number)
{
    struct ps_train_share share;
    ck_assert_int_eq(ps_train_share_init(&share, number, SHARES, ROWS, 7), PS_OK);
    return share;
}

START_TEST(every_row_is_in_one_share)
{
    unsigned seen[ROWS] = {0};
    for (uint64_t number = 0; number < SHARES; number++) {
        struct ps_train_share share = share_of(number);
        ps_train_share_begin(&share, 2);
        for (size_t i = 0; i < share.row_count; i++)
            seen[share.rows[i]]++;
        ps_train_share_fini(&share);
    }
    for (size_t i = 0; i < ROWS; i++)
        ck_assert_uint_eq(seen[i], 1);
}
END_TEST

START_TEST(more_shares_than_rows_leave_some_empty)
{
    struct ps_train_share share;
    const size_t *rows;
    ck_assert_int_eq(ps_train_share_init(&share, 3, 4, 2, 1), PS_OK);
    ps_train_share_begin(&share, 0);
    ck_assert_uint_eq(ps_train_share_batch(&share, 0, 8, &rows), 0);
    ps_train_share_fini(&share);
}
END_TEST

/* A worker that begins anew in the middle of a run has the batches that it would have had, and one
 * whose model was lost those of the beginning. */
START_TEST(the_order_of_an_epoch_does_not_depend_on_how_it_was_reached)
{
    struct ps_train_share first = share_of(1);
    struct ps_train_share second = share_of(1);
    size_t orders[3][ROWS];
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        ps_train_share_begin(&first, epoch);
        ps_train_share_begin(&first, epoch);
        memcpy(orders[epoch], first.rows, first.row_count * sizeof *first.rows);
    }
    ps_train_share_begin(&second, 2);
    ck_assert_mem_eq(second.rows, orders[2], second.row_count * sizeof *second.rows);
    ps_train_share_begin(&second, 0);
    ck_assert_mem_eq(second.rows, orders[0], second.row_count * sizeof *second.rows);
    ps_train_share_fini(&first);
    ps_train_share_fini(&second);
}
END_TEST

START_TEST(the_last_batch_of_an_epoch_may_be_shorter_or_missing)
{
    struct ps_train_share longer = share_of(0);
    struct ps_train_share shorter = share_of(3);
    const size_t *rows;
    ck_assert_uint_eq(ps_train_share_steps(longer.row_count, 2), 2);
    ck_assert_uint_eq(ps_train_share_batch(&longer, 0, 2, &rows), 2);
    ck_assert_ptr_eq(rows, longer.rows);
    ck_assert_uint_eq(ps_train_share_batch(&longer, 1, 2, &rows), 1);
    ck_assert_uint_eq(ps_train_share_batch(&shorter, 1, 2, &rows), 0);
    ps_train_share_fini(&longer);
    ps_train_share_fini(&shorter);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("train_share");
    TCase *tests = tcase_create("train_share");
    tcase_add_test(tests, every_row_is_in_one_share);
    tcase_add_test(tests, more_shares_than_rows_leave_some_empty);
    tcase_add_test(tests, the_order_of_an_epoch_does_not_depend_on_how_it_was_reached);
    tcase_add_test(tests, the_last_batch_of_an_epoch_may_be_shorter_or_missing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
