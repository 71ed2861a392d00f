/* SPDX-License-Identifier: Apache-2.0 */
/* server/core/tables/row_aside.c: what a push writes over is kept for each hold that has it, once,
 * and before anything else happens. */
#include "server/core/tables/row_aside.h"
#include "server/core/tables/row_push_parts.h"
#include "tests/unit/tables/row_model.h"

#include <stdlib.h>
#include <string.h>

#define IDS 600
#define ROWS 300

static struct row_model model;
static uint8_t *content;
static struct ps_row_push *push;

/* Half of the ids have rows, and the push is to all of these. */
static void open(void)
{
    uint32_t ids[ROWS];
    size_t size;
    row_model_open(&model, PS_RULE_ADAGRAD, PS_F32, 8, IDS);
    for (uint32_t i = 0; i < ROWS; i++)
        ids[i] = i;
    row_model_push(&model, ids, ROWS);
    content = row_model_content(&model, ids, ROWS, &size);
    struct ps_bytes bytes = {content, size};
    ck_assert_int_eq(ps_row_push_read(model.table, ps_view_of(&bytes), &push, NULL), PS_OK);
}

static void close(void)
{
    ps_row_push_release(push);
    free(content);
    row_model_close(&model);
}

static uint64_t digest_of(struct ps_row_hold *hold)
{
    struct ps_row_table *loaded = row_model_loaded(&model, hold);
    uint64_t digest = ps_row_table_digest(loaded);
    ps_row_table_destroy(loaded);
    return digest;
}

START_TEST(a_row_is_kept_by_prepare_for_each_hold_once)
{
    struct ps_row_hold *holds[2];
    uint64_t digest = ps_row_table_digest(model.table);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ps_row_hold_take(model.table, &holds[i], NULL), PS_OK);
    const struct ps_row_aside *young = model.table->asides;
    const struct ps_row_aside *old = young->next;
    ck_assert_uint_eq(row_model_due(model.table, young), ROWS);

    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_OK);

    ck_assert_uint_eq(row_model_due(model.table, young), 0);
    ck_assert_uint_eq(row_model_due(model.table, old), 0);
    struct ps_row_aside_pages kept[PS_ROW_LOCKS];
    memcpy(kept, young->kept, sizeof kept);
    ck_assert(ps_row_aside_keep(model.table, push->begins, push->numbers));
    for (uint32_t i = 0; i < PS_ROW_LOCKS; i++) {
        ck_assert_ptr_eq(young->kept[i].pages, kept[i].pages);
        ck_assert_uint_eq(young->kept[i].used_bytes, kept[i].used_bytes);
    }
    ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
    for (int i = 0; i < 2; i++) {
        ck_assert_uint_eq(digest_of(holds[i]), digest);
        ps_row_hold_release(holds[i]);
    }
    ck_assert_ptr_null(model.table->asides);
}
END_TEST

START_TEST(rows_that_are_made_later_are_nobodys)
{
    struct ps_row_hold *hold;
    uint32_t ids[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        ids[i] = ROWS + i;
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    for (int i = 0; i < 2; i++)
        row_model_push(&model, ids, ROWS);
    ck_assert_uint_eq(row_model_due(model.table, model.table->asides), ROWS);
    for (uint32_t i = 0; i < PS_ROW_LOCKS; i++)
        ck_assert_ptr_null(model.table->asides->kept[i].pages);
    ps_row_hold_release(hold);
}
END_TEST

START_TEST(what_was_kept_before_a_refusal_changes_nothing)
{
    struct ps_row_hold *hold;
    uint64_t digest = ps_row_table_digest(model.table);
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    /* Rows that there are need no memory but for the hold. It gets a page with each try. */
    uint32_t refused = 0;
    struct ps_row_page *taken = NULL;
    ps_row_pages_expect(&model.table->pages, ps_row_aside_pages(model.table, ROWS));
    atomic_store(&model.table->pages.bytes_limit, 0);
    for (struct ps_row_page *page; (page = ps_row_pages_take(&model.table->pages)) != NULL;) {
        page->next = taken;
        taken = page;
    }
    for (; ps_row_push_prepare(push, 0, NULL) == PS_ERR_NO_MEMORY; refused++) {
        ck_assert_uint_gt(row_model_due(model.table, model.table->asides), 0);
        ck_assert_uint_eq(digest_of(hold), digest);
        ck_assert_uint_eq(ps_row_table_digest(model.table), digest);
        struct ps_row_page *page = taken;
        taken = page->next;
        page->next = NULL;
        ps_row_pages_give(&model.table->pages, page);
    }
    ck_assert_uint_ge(refused, 2);
    ck_assert_uint_eq(row_model_due(model.table, model.table->asides), 0);
    ck_assert_uint_eq(digest_of(hold), digest);
    ps_row_pages_give(&model.table->pages, taken);
    ps_row_hold_release(hold);
}
END_TEST

/* All stripes of every second lock. Returns how many rows they have. */
static uint64_t let_go_of_half(struct ps_row_aside *aside)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < PS_ROW_STRIPES; i++) {
        if (i / PS_ROW_LOCK_STRIPES % 2 == 1)
            continue;
        rows += model.table->stripes[i].rows;
        ps_row_aside_let_go(model.table, aside, i, aside->first_pages[i],
                            aside->first_pages[i + 1]);
    }
    return rows;
}

START_TEST(what_was_set_aside_of_pages_that_are_let_go_is_free)
{
    struct ps_row_hold *hold;
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_OK);
    struct ps_row_aside *aside = model.table->asides;
    uint64_t free_before = model.table->pages.free_count;
    uint64_t pages = 0;
    for (uint32_t i = 0; i < PS_ROW_LOCKS; i += 2)
        for (const struct ps_row_page *page = aside->kept[i].pages; page != NULL; page = page->next)
            pages++;
    ck_assert_uint_gt(pages, 0);

    (void)let_go_of_half(aside);

    ck_assert_uint_eq(model.table->pages.free_count, free_before + pages);
    for (uint32_t i = 0; i < PS_ROW_LOCKS; i++)
        ck_assert_int_eq(aside->kept[i].pages != NULL, i % 2 == 1);
    ps_row_hold_release(hold);
}
END_TEST

/* Before a push comes to them. */
START_TEST(rows_of_pages_that_are_let_go_are_not_set_aside)
{
    struct ps_row_hold *hold;
    ck_assert_int_eq(ps_row_hold_take(model.table, &hold, NULL), PS_OK);
    struct ps_row_aside *aside = model.table->asides;
    uint64_t gone = let_go_of_half(aside);
    ck_assert_uint_gt(gone, 0);
    ck_assert_uint_eq(row_model_due(model.table, aside), ROWS - gone);

    ck_assert_int_eq(ps_row_push_prepare(push, UINT64_MAX, NULL), PS_OK);

    ck_assert_uint_eq(row_model_due(model.table, aside), 0);
    for (uint32_t i = 0; i < PS_ROW_LOCKS; i++)
        ck_assert_int_eq(aside->kept[i].pages != NULL, i % 2 == 1);
    ps_row_hold_release(hold);
}
END_TEST

START_TEST(so_many_pages_have_room_for_so_many_rows)
{
    const struct ps_row_shape *shape = &model.table->shape;
    ck_assert_uint_eq(ps_row_aside_pages(model.table, 0), 0);
    ck_assert_uint_eq(ps_row_aside_pages(model.table, 1), 1);
    uint64_t pages = ps_row_aside_pages(model.table, 100000);
    ck_assert_uint_ge(pages * shape->page_bytes, 100000 * shape->stride);
    ck_assert_uint_le(pages * shape->page_bytes, 100000 * (shape->stride + 32));
}
END_TEST

/* Of long rows a page has one, with whatever is beside it: each takes a page. */
START_TEST(of_long_rows_each_takes_a_page)
{
    for (uint32_t width = 1000; width <= PS_TABLE_WIDTH_MAX; width += 516) {
        struct row_model wide;
        row_model_open(&wide, PS_RULE_ADAGRAD, PS_F32, width, 10);
        const struct ps_row_shape *shape = &wide.table->shape;
        uint64_t pages = ps_row_aside_pages(wide.table, 1000);
        ck_assert_uint_ge(pages * shape->page_bytes, 1000 * shape->stride);
        if (shape->page_bits == 0)
            ck_assert_uint_ge(pages, 1000);
        row_model_close(&wide);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("row_aside");
    tcase_add_checked_fixture(tests, open, close);
    tcase_add_test(tests, a_row_is_kept_by_prepare_for_each_hold_once);
    tcase_add_test(tests, rows_that_are_made_later_are_nobodys);
    tcase_add_test(tests, what_was_kept_before_a_refusal_changes_nothing);
    tcase_add_test(tests, what_was_set_aside_of_pages_that_are_let_go_is_free);
    tcase_add_test(tests, rows_of_pages_that_are_let_go_are_not_set_aside);
    tcase_add_test(tests, so_many_pages_have_room_for_so_many_rows);
    tcase_add_test(tests, of_long_rows_each_takes_a_page);
    return run_tests("row_aside", tests);
}
