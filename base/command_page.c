/* Pages of commands. */
#include "base/command_page.h"

#include "base/assert.h"

#include <string.h>

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
    for (size_t i = 0; i < table->count; i++) {
        const struct ps_command_page *page = &table->pages[i];
        ps_buffer_append_text(text, "  ");
        append_name(page, text);
        ps_buffer_append_format(text, "%*s  %s\n", (int)(widest - name_size(page)), "",
                                page->summary);
    }
}

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
    if (page->examples != NULL)
        ps_buffer_append_format(text, "\nExamples:\n%s", page->examples);
    ps_buffer_append_format(text, "\nOptions are those of %s --help.\n", set->program);
}
