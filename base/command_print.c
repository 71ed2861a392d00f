/* SPDX-License-Identifier: Apache-2.0 */
/* An unknown name is wrong usage, in the words that an unknown command has. */
#include "base/command_print.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/buffer.h"
#include "base/completion.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

/* A page is a screen or two; a completion script is a few kilobytes. */
#define PAGE_BYTES_MAX ((size_t)1 << 16)

/* Takes `text`. What outgrew its bound is not printed at all: half a completion script would be run
 * by a shell. */
static int print(struct ps_buffer *text)
{
    bool whole = ps_buffer_status(text, NULL) == PS_OK;
    /* A page may be empty, and is then printed as nothing. */
    if (whole)
        (void)fputs(text->text != NULL ? text->text : "", stdout);
    ps_buffer_fini(text);
    return whole ? EXIT_SUCCESS : EX_OSERR;
}

int ps_command_print_help(const struct ps_option_set *set, const struct ps_command_table *table,
                          const char *command)
{
    const struct ps_command_page *page = ps_command_find(table, command);
    struct ps_buffer text;
    PS_ASSERT(set->program != NULL);
    if (page == NULL) {
        (void)fprintf(stderr, "%s: unknown command \"%s\"; see %s --help\n", set->program, command,
                      set->program);
        return EX_USAGE;
    }
    ps_buffer_init(&text, ps_allocator_heap(), PAGE_BYTES_MAX);
    ps_command_help(set, page, &text);
    return print(&text);
}

/* The shell is a word that a user typed; completion.h has the list of those that there are. */
int ps_command_print_completion(const struct ps_option_set *set,
                                const struct ps_command_table *table, const char *shell)
{
    struct ps_buffer script;
    ps_buffer_init(&script, ps_allocator_heap(), PAGE_BYTES_MAX);
    if (ps_completion_write(set, table, shell, &script))
        return print(&script);
    ps_buffer_fini(&script);
    (void)fprintf(stderr, "%s: completion \"%s\": expected one of %s\n", set->program, shell,
                  PS_COMPLETION_SHELLS);
    return EX_USAGE;
}
