/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of commands: the list under "Commands:" in a program's help, and the page of each command.
 * Both are printed from the same table that completion.c reads, so a new command is one row and
 * cannot be missing from one of them. */
#include "base/command_page.h"

#include "base/assert.h"

#include <string.h>

/* A dozen rows at most: a walk. */
const struct ps_command_page *ps_command_find(const struct ps_command_table *table,
                                              const char *name)
{
    PS_ASSERT(table != NULL && name != NULL);
    for (size_t i = 0; i < table->count; i++)
        if (strcmp(table->pages[i].name, name) == 0)
            return &table->pages[i];
    return NULL;
}

/* "NAME ARGUMENT", as it is typed. */
static size_t name_size(const struct ps_command_page *page)
{
    size_t argument = page->argument != NULL ? 1 + strlen(page->argument) : 0;
    return strlen(page->name) + argument;
}

static void append_name(const struct ps_command_page *page, struct ps_buffer *text)
{
    ps_buffer_append_format(text, "%s%s%s", page->name, page->argument != NULL ? " " : "",
                            page->argument != NULL ? page->argument : "");
}

void ps_command_list(const struct ps_command_table *table, struct ps_buffer *text)
{
    size_t widest = 0;
    for (size_t i = 0; i < table->count; i++)
        if (name_size(&table->pages[i]) > widest)
            widest = name_size(&table->pages[i]);
    /* Summaries stand in one column behind the widest name, as in git's and systemd's help; a page
     * with ragged summaries is not scanned by anybody. */
    for (size_t i = 0; i < table->count; i++) {
        const struct ps_command_page *page = &table->pages[i];
        ps_buffer_append_text(text, "  ");
        append_name(page, text);
        ps_buffer_append_format(text, "%*s  %s\n", (int)(widest - name_size(page)), "",
                                page->summary);
    }
}

/* Options are not repeated on the page of a command: every command takes all of the program's, and
 * thirty lines of them would hide the ten that are about this command. */
void ps_command_help(const struct ps_option_set *set, const struct ps_command_page *page,
                     struct ps_buffer *text)
{
    PS_ASSERT(set != NULL && page != NULL && text != NULL);
    ps_buffer_append_format(text, "%s %s - %s\n\nUsage: %s ", set->program, page->name,
                            page->summary, set->program);
    append_name(page, text);
    ps_buffer_append_text(text, " [OPTION]...\n");
    if (page->text != NULL)
        ps_buffer_append_format(text, "\n%s", page->text);
    /* Examples come last: they are what people copy, and the end of a page is what stays on the
     * screen. */
    if (page->examples != NULL)
        ps_buffer_append_format(text, "\nExamples:\n%s", page->examples);
    ps_buffer_append_format(text, "\nOptions are those of %s --help.\n", set->program);
}
