/* SPDX-License-Identifier: Apache-2.0 */
/* tools/libsvm.c: reading data sets. */
#include "run_suite.h"
#include "tests/support/fault_heap.h"
#include "tools/libsvm.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static enum ps_status parse(const char *text, struct ps_dataset *dataset, struct ps_error *error)
{
    return ps_dataset_parse("text", text, strlen(text), ps_allocator_heap(), dataset, error);
}

START_TEST(rows_come_in_compressed_form)
{
    struct ps_dataset dataset;

    ck_assert_int_eq(parse("+1 1:0.5 3:2\n-1\n\n-1 2:1e1\r\n", &dataset, NULL), PS_OK);

    ck_assert_uint_eq(dataset.row_count, 3);
    ck_assert_uint_eq(dataset.feature_count, 3);
    ck_assert_uint_eq(dataset.starts[1], 2);
    ck_assert_uint_eq(dataset.starts[2], 2);
    ck_assert_uint_eq(dataset.starts[3], 3);
    ck_assert_uint_eq(dataset.features[1], 2);
    ck_assert_float_eq(dataset.values[2], 10.0f);
    ck_assert_double_eq(dataset.labels[2], -1.0);
    ps_dataset_fini(&dataset);
}
END_TEST

static const char *const malformed[] = {
    "1 0:1\n",              /* indices start at 1 */
    "1 2:1 2:1\n",          /* and rise */
    "1 3:1 2:1\n", "1 2\n", /* no value */
    "1 2:\n",      "1 :3\n",
    "1 2:x\n",     "x 2:1\n", /* no label */
    "1 2:nan\n",              /* finite numbers only */
    "inf 2:1\n",   "1 99999999999999999999:1\n",
    "1 -5:1\n",    "", /* no rows at all */
    "\n\n",
};

START_TEST(malformed_text_is_refused_with_its_line)
{
    struct ps_dataset dataset;
    struct ps_error error = {0};

    ck_assert_int_eq(parse(malformed[_i], &dataset, &error), PS_ERR_BAD_INPUT);

    ck_assert_ptr_nonnull(strstr(error.text, "text"));
    ck_assert_ptr_null(dataset.labels);
}
END_TEST

START_TEST(parsing_survives_any_refused_allocation)
{
    struct fault_heap heap = {.refuse_at = _i};
    const struct ps_allocator memory = fault_heap_allocator(&heap);
    struct ps_dataset dataset = {0};
    const char *text = "1 1:1\n";

    enum ps_status status = ps_dataset_parse("t", text, strlen(text), &memory, &dataset, NULL);

    ck_assert_int_eq(status, heap.seen > _i ? PS_ERR_NO_MEMORY : PS_OK);
    ps_dataset_fini(&dataset);
    ck_assert_int_eq(heap.live, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("libsvm");
    TCase *tests = tcase_create("libsvm");
    tcase_add_test(tests, rows_come_in_compressed_form);
    tcase_add_loop_test(tests, malformed_text_is_refused_with_its_line, 0,
                        sizeof malformed / sizeof malformed[0]);
    tcase_add_loop_test(tests, parsing_survives_any_refused_allocation, 0, 5);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
