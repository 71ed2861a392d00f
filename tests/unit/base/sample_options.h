/* SPDX-License-Identifier: Apache-2.0 */
/* A program's options, as the tests of --help and of the man page have them: every type, and texts
 * that a page could take for its own. What is written lands in `memory`.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   the test fails.
 * Memory:   static.
 */
#ifndef PS_TESTS_UNIT_BASE_SAMPLE_OPTIONS_H
#define PS_TESTS_UNIT_BASE_SAMPLE_OPTIONS_H

#include "base/options.h"

#include <check.h>
#include <string.h>

static const struct ps_option table[] = {
    {.name = "listen",
     .type = PS_OPTION_TEXT,
     .value_name = "HOST:PORT",
     .fallback = "0.0.0.0:8000",
     .help =
         "Address to serve on. This text is long enough that it has to be wrapped over more than "
         "one line of a terminal."},
    {.name = "reflection", .type = PS_OPTION_FLAG, .fallback = "true", .help = "Offer reflection."},
    {.name = "ack",
     .type = PS_OPTION_CHOICE,
     .choices = "memory|logged",
     .fallback = "memory",
     .help = ".dot at the start, a back\\slash and a da-sh."},
    {.name = "count", .type = PS_OPTION_UINT, .help = "How many."},
    {.name = "rule",
     .type = PS_OPTION_CHOICE,
     .value_name = "NAME",
     .choices = "sgd|adam",
     .help = "Which."},
};

static const struct ps_option_set set = {.program = "prog",
                                         .usage = "prog [--option VALUE]...",
                                         .summary = "tests options",
                                         .commands = "  look DIR   looks\n",
                                         .statuses = "  64   wrong usage\n",
                                         .examples = "  prog --count 3\n.hidden\n",
                                         .environment = "PROGTEST_",
                                         .options = table,
                                         .option_count = PS_ARRAY_COUNT(table)};

static char memory[8192];
static struct ps_buffer text;

#define ASSERT_HAS(part_) ck_assert_msg(strstr(memory, (part_)) != NULL, "%s", memory)

/* `write` is ps_options_help or ps_options_man. */
static inline void render_by(void (*write)(const struct ps_option_set *, struct ps_buffer *),
                             const struct ps_option_set *options)
{
    ps_buffer_init_fixed(&text, memory, sizeof memory);
    write(options, &text);
    ck_assert_int_eq(ps_buffer_status(&text, NULL), PS_OK);
}

/* A program that has nothing but options. */
static inline struct ps_option_set bare_options(void)
{
    struct ps_option_set bare = set;
    bare.environment = NULL;
    bare.examples = NULL;
    bare.commands = NULL;
    bare.statuses = NULL;
    return bare;
}

#endif
