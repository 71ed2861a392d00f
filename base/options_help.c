/* SPDX-License-Identifier: Apache-2.0 */
/* The text of --help. This page, the man page (options_man.c), the configuration file's comments
 * and the completion scripts are all made from the one table of options, so none of them can lag
 * behind the program. */
#include "base/assert.h"
#include "base/options.h"
#include "base/options_value.h"

#include <string.h>

/* The page is made for 80 columns whatever the terminal is: it is also kept in files and compared
 * byte by byte by tests. */
#define COLUMNS 80
#define INDENT 8

static void append_option(const struct ps_option_set *set, const struct ps_option *option,
                          struct ps_buffer *text);
static void append_units(const struct ps_option_set *set, struct ps_buffer *text);
static void append_choices(struct ps_buffer *facts, const struct ps_option *option);

void ps_options_help(const struct ps_option_set *set, struct ps_buffer *text)
{
    PS_ASSERT(set != NULL && text != NULL);
    ps_buffer_append_format(text, "%s - %s\n\nUsage: %s\n", set->program, set->summary, set->usage);
    if (set->commands != NULL)
        ps_buffer_append_format(text, "\nCommands:\n%s", set->commands);
    ps_buffer_append_text(text, "\nOptions:\n");
    for (size_t i = 0; i < set->option_count; i++)
        append_option(set, &set->options[i], text);
    append_units(set, text);
    if (set->environment != NULL)
        ps_buffer_append_format(text,
                                "\nAn option wins over its environment variable, which wins "
                                "over the\n%sdefault.\n",
                                /* Programs differ only in whether they have --config, and the
                                 * sentence about precedence says what is true for this one. */
                                ps_option_find(set, "config", 6) != NULL
                                    ? "configuration file, which wins over the "
                                    : "");
    if (set->statuses != NULL)
        ps_buffer_append_format(text, "\nExit status:\n%s", set->statuses);
    if (set->examples != NULL)
        ps_buffer_append_format(text, "\nExamples:\n%s", set->examples);
}

/* Appends words, wrapped to the width of a terminal. `*column` is where the line stands and
 * survives from call to call: help text, choices and default are appended one after the other as if
 * they were one paragraph. A word that is wider than a line stands alone on its own and is never
 * cut, so that a path or address can be copied. */
static void append_wrapped(struct ps_buffer *text, const char *words, size_t *column)
{
    while (*words != '\0') {
        size_t size = strcspn(words, " \n");
        if (*column > INDENT && *column + 1 + size > COLUMNS) {
            ps_buffer_append_text(text, "\n");
            *column = 0;
        }
        if (*column == 0) {
            ps_buffer_append_format(text, "%*s", INDENT, "");
            *column = INDENT;
        } else if (*column > INDENT) {
            ps_buffer_append_text(text, " ");
            (*column)++;
        }
        ps_buffer_append(text, (struct ps_bytes){(const uint8_t *)words, size});
        *column += size;
        words += size;
        words += strspn(words, " \n");
    }
}

/* Name and value on the first line, below them the sentence and then the facts that a program knows
 * better than the author of the sentence: the choices, the default, the environment variable. */
static void append_option(const struct ps_option_set *set, const struct ps_option *option,
                          struct ps_buffer *text)
{
    const char *value = option->value_name != NULL ? option->value_name : option->choices;
    if (option->type == PS_OPTION_FLAG)
        ps_buffer_append_format(text, "  --[no-]%s\n", option->name);
    else
        ps_buffer_append_format(text, "  --%s %s\n", option->name, value != NULL ? value : "VALUE");

    size_t column = 0;
    append_wrapped(text, option->help, &column);
    /* The facts have to be wrapped as well, so they are put together here first. Names and defaults
     * are constants of ours; a test prints every page, so a text that did not fit would be noticed
     * there. */
    char last[512];
    struct ps_buffer facts;
    ps_buffer_init_fixed(&facts, last, sizeof last);
    append_choices(&facts, option);
    if (option->fallback != NULL && option->fallback[0] != '\0')
        ps_buffer_append_format(&facts, "Default: %s. ", option->fallback);
    char name[128];
    if (set->environment != NULL && ps_option_environment_name(set, option, name, sizeof name))
        ps_buffer_append_format(&facts, "Environment: %s.", name);
    append_wrapped(text, last, &column);
    ps_buffer_append_text(text, "\n");
}

/* Says once how sizes and times are written: repeated at each option it would make the page longer
 * by a page. Programs without such options do not mention units. */
static void append_units(const struct ps_option_set *set, struct ps_buffer *text)
{
    const char *units = ps_option_units(set);
    if (units == NULL)
        return;
    size_t column = 0;
    ps_buffer_append_text(text, "\nUnits:\n");
    append_wrapped(text, units, &column);
    ps_buffer_append_text(text, "\n");
}

/* Lists the choices where the option's own line does not show them: an option with a value name of
 * its own ("--fsync MODE") hides them otherwise. */
static void append_choices(struct ps_buffer *facts, const struct ps_option *option)
{
    if (option->type != PS_OPTION_CHOICE || option->value_name == NULL ||
        strcmp(option->value_name, option->choices) == 0)
        return;
    ps_buffer_append_text(facts, "One of ");
    ps_option_append_choices(option, facts);
    ps_buffer_append_text(facts, ". ");
}
