/* SPDX-License-Identifier: Apache-2.0 */
/* What a program's commands are for: the lines of --help, the page of one command, and the words
 * that a shell completes. One table says it once.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none; a buffer that is full says so itself.
 * Memory:   texts are borrowed for the call.
 */
#ifndef PS_BASE_COMMAND_PAGE_H
#define PS_BASE_COMMAND_PAGE_H

#include "base/options.h"

struct ps_command_page {
    const char *name;
    /* What follows the name: "NAME"; "NAME VALUE..." for two words or more; "a|b" for words to
     * choose from; "[COMMAND]" for the name of a command, or nothing. NULL: nothing follows. */
    const char *argument;
    const char *summary;  /* what it does, in half a line */
    const char *text;     /* lines that say the rest; may be NULL */
    const char *examples; /* lines; may be NULL */
};

struct ps_command_table {
    const struct ps_command_page *pages;
    size_t count;
};

/* The page of that name; NULL when there is none. */
const struct ps_command_page *ps_command_find(const struct ps_command_table *table,
                                              const char *name);

/* Appends a line for each command, as ps_option_set.commands wants them. */
void ps_command_list(const struct ps_command_table *table, struct ps_buffer *text);

/* Appends the page of one command: usage, what it does, examples, and where the options are. */
void ps_command_help(const struct ps_option_set *set, const struct ps_command_page *page,
                     struct ps_buffer *text);

#endif
