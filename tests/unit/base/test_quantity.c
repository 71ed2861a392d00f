/* SPDX-License-Identifier: Apache-2.0 */
/* base/quantity.c: sizes and times as people write them. */
#include "base/attributes.h"
#include "base/quantity.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>

struct sample {
    const char *text;
    uint64_t value;
};

static const struct sample sizes[] = {
    {"0", 0},
    {"4096", 4096},
    {"4096B", 4096},
    {"64Ki", 65536},
    {"64KiB", 65536},
    {"2Mi", 2097152},
    {"2MiB", 2097152},
    {"2Gi", 2147483648},
    {"2GiB", 2147483648},
    {"2Ti", 2199023255552},
    {"2TiB", 2199023255552},
    {"64k", 64000},
    {"64K", 64000},
    {"64kB", 64000},
    {"64KB", 64000},
    {"2M", 2000000},
    {"2MB", 2000000},
    {"2G", 2000000000},
    {"2GB", 2000000000},
    {"2T", 2000000000000},
    {"2TB", 2000000000000},
    {"16777215TiB", UINT64_MAX - 1099511627775},
    {"18446744073709551615", UINT64_MAX},
};

START_TEST(a_size_with_an_i_counts_in_1024_and_one_without_in_1000)
{
    uint64_t bytes = 1;
    ck_assert(ps_quantity_bytes(sizes[_i].text, &bytes));
    ck_assert_uint_eq(bytes, sizes[_i].value);
}
END_TEST

static const char *const no_sizes[] = {
    "",    " 1",   "1 ",    "-1",          "+1",
    "Ki",  "2 Gi", "2gi",   "2GIB",        "2g",
    "1e9", "1.5G", "2Gib/", "16777216TiB", "18446744073709551616",
    "2s",  "0x10", "2mB"};

START_TEST(what_is_no_size_is_refused_and_nothing_written)
{
    uint64_t bytes = 77;
    ck_assert(!ps_quantity_bytes(no_sizes[_i], &bytes));
    ck_assert_uint_eq(bytes, 77);
}
END_TEST

static const struct sample times[] = {
    {"0", 0},       {"0s", 0},       {"2", 2000},     {"2s", 2000},
    {"500ms", 500}, {"10m", 600000}, {"1h", 3600000}, {"18446744073709551s", UINT64_MAX - 615},
};

START_TEST(a_time_alone_is_in_seconds)
{
    uint64_t milliseconds = 1;
    ck_assert(ps_quantity_milliseconds(times[_i].text, &milliseconds));
    ck_assert_uint_eq(milliseconds, times[_i].value);
}
END_TEST

static const char *const no_times[] = {
    "",    "s",  "10 s", "10sec", "-1s", "1.5s", "1m30s", "1H", "1d", "50us", "18446744073709552s",
    "2Gi", "1MS"};

START_TEST(what_is_no_time_is_refused_and_nothing_written)
{
    uint64_t milliseconds = 77;
    ck_assert(!ps_quantity_milliseconds(no_times[_i], &milliseconds));
    ck_assert_uint_eq(milliseconds, 77);
}
END_TEST

START_TEST(nanoseconds_have_microseconds_too)
{
    static const struct sample precise[] = {
        {"50us", 50000}, {"2ms", 2000000}, {"3", 3000000000}, {"1h", 3600000000000}};
    for (size_t i = 0; i < PS_ARRAY_COUNT(precise); i++) {
        uint64_t nanoseconds = 1;
        ck_assert(ps_quantity_nanoseconds(precise[i].text, &nanoseconds));
        ck_assert_uint_eq(nanoseconds, precise[i].value);
    }
    uint64_t nanoseconds = 77;
    ck_assert(!ps_quantity_nanoseconds("18446744073709551615s", &nanoseconds));
    ck_assert_uint_eq(nanoseconds, 77);
}
END_TEST

START_TEST(a_number_has_no_unit)
{
    uint64_t number = 1;
    ck_assert(ps_quantity_number("007", &number));
    ck_assert_uint_eq(number, 7);
    ck_assert(!ps_quantity_number("7k", &number));
    ck_assert(!ps_quantity_number("7B", &number));
    ck_assert_uint_eq(number, 7);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("quantity");
    TCase *tests = tcase_create("quantity");
    tcase_add_loop_test(tests, a_size_with_an_i_counts_in_1024_and_one_without_in_1000, 0,
                        (int)PS_ARRAY_COUNT(sizes));
    tcase_add_loop_test(tests, what_is_no_size_is_refused_and_nothing_written, 0,
                        (int)PS_ARRAY_COUNT(no_sizes));
    tcase_add_loop_test(tests, a_time_alone_is_in_seconds, 0, (int)PS_ARRAY_COUNT(times));
    tcase_add_loop_test(tests, what_is_no_time_is_refused_and_nothing_written, 0,
                        (int)PS_ARRAY_COUNT(no_times));
    tcase_add_test(tests, nanoseconds_have_microseconds_too);
    tcase_add_test(tests, a_number_has_no_unit);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
