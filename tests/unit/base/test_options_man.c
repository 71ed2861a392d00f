/* SPDX-License-Identifier: Apache-2.0 */
/* base/options_man.c: the man page. */
#include "run_suite.h"
#include "sample_options.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static void render(const struct ps_option_set *options)
{
    render_by(ps_options_man, options);
}

START_TEST(page_has_its_sections_in_order)
{
    static const char *const sections[] = {".TH PROG 1 ",
                                           ".SH NAME\nprog \\- tests options\n",
                                           ".SH SYNOPSIS\n",
                                           ".SH COMMANDS\n.nf\n",
                                           ".SH OPTIONS\n.TP\n",
                                           ".SH PRECEDENCE",
                                           ".SH EXIT STATUS\n.nf\n",
                                           ".SH EXAMPLES\n"};
    render(&set);

    const char *from = memory;
    for (size_t i = 0; i < PS_ARRAY_COUNT(sections); i++) {
        from = strstr(from, sections[i]);
        ck_assert_msg(from != NULL, "%s", sections[i]);
    }
}
END_TEST

START_TEST(options_show_their_values)
{
    render(&set);

    ASSERT_HAS(".TP\n\\fB\\-\\-listen\\fR \\fIHOST:PORT\\fR\nAddress");
    ASSERT_HAS(".TP\n\\fB\\-\\-[no\\-]reflection\\fR\nOffer");
    ASSERT_HAS("\\fImemory|logged\\fR");
    ASSERT_HAS("\\fINAME\\fR\nWhich.\nOne of sgd, adam.\n");
    ASSERT_HAS("\nDefault: 0.0.0.0:8000.\nEnvironment: PROGTEST_LISTEN.\n");
}
END_TEST

START_TEST(text_is_never_taken_for_a_request)
{
    render(&set);

    ASSERT_HAS("\n\\&.dot at the start, a back\\eslash and a da\\-sh.\n");
    ASSERT_HAS("\n\\&.hidden\n");
}
END_TEST

START_TEST(program_without_environment_or_examples_has_no_such_sections)
{
    const struct ps_option_set bare = bare_options();

    render(&bare);

    ck_assert_ptr_null(strstr(memory, ".SH PRECEDENCE"));
    ck_assert_ptr_null(strstr(memory, ".SH EXAMPLES"));
    ck_assert_ptr_null(strstr(memory, ".SH COMMANDS"));
    ck_assert_ptr_null(strstr(memory, ".SH EXIT"));
}
END_TEST

START_TEST(man_renders_the_page_without_a_warning)
{
    if (system("command -v man >/dev/null") != 0)
        return;
    render(&set);

    FILE *man =
        popen("test -z \"$(MANROFFSEQ= man --warnings -E UTF-8 -l - 2>&1 >/dev/null)\"", "w");
    ck_assert_ptr_nonnull(man);
    ck_assert_int_ge(fputs(memory, man), 0);

    ck_assert_int_eq(pclose(man), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options_man");
    TCase *tests = tcase_create("options_man");
    tcase_add_test(tests, page_has_its_sections_in_order);
    tcase_add_test(tests, options_show_their_values);
    tcase_add_test(tests, text_is_never_taken_for_a_request);
    tcase_add_test(tests, program_without_environment_or_examples_has_no_such_sections);
    tcase_add_test(tests, man_renders_the_page_without_a_warning);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
