/* SPDX-License-Identifier: Apache-2.0 */
/* The man page: the table of options once more, in roff (groff_man(7)). Only the macros that every
 * implementation of man knows are used, and the date is left empty so that equal sources give equal
 * pages. */
#include "base/assert.h"
#include "base/options.h"
#include "base/options_value.h"

#include <ctype.h>
#include <string.h>

static void append_lines(struct ps_buffer *page, const char *title, const char *lines);
static void append_options(const struct ps_option_set *set, struct ps_buffer *page);
static void append_escaped(struct ps_buffer *page, const char *text);

void ps_options_man(const struct ps_option_set *set, struct ps_buffer *page)
{
    PS_ASSERT(set != NULL && page != NULL);
    ps_buffer_append_text(page, ".TH ");
    /* The title is in capitals by convention; man(1) shows it in the corners of the page. */
    for (const char *letter = set->program; *letter != '\0'; letter++)
        ps_buffer_append_format(page, "%c", toupper((unsigned char)*letter));
    ps_buffer_append_text(page, " 1 \"\" \"pserver " PS_VERSION "\" \"User Commands\"\n");
    ps_buffer_append_text(page, ".SH NAME\n");
    append_escaped(page, set->program);
    /* "name \- summary" in exactly this form is what mandb reads for whatis and apropos. */
    ps_buffer_append_text(page, " \\- ");
    append_escaped(page, set->summary);
    ps_buffer_append_text(page, "\n.SH SYNOPSIS\n");
    append_escaped(page, set->usage);
    ps_buffer_append_text(page, "\n");
    append_lines(page, "COMMANDS", set->commands);
    ps_buffer_append_text(page, ".SH OPTIONS\n");
    append_options(set, page);
    /* The sentence about units is the one of --help, at the same place. */
    if (ps_option_units(set) != NULL)
        ps_buffer_append_format(page, ".SH UNITS\n%s\n", ps_option_units(set));
    if (set->environment != NULL)
        ps_buffer_append_format(page,
                                ".SH PRECEDENCE\nAn option wins over its environment variable, "
                                "which wins over the %sdefault.\n",
                                ps_option_find(set, "config", 6) != NULL
                                    ? "configuration file, which wins over the "
                                    : "");
    append_lines(page, "EXIT STATUS", set->statuses);
    append_lines(page, "EXAMPLES", set->examples);
}

/* A section of lines that stand as they are (.nf: no filling). Tables of commands and of exit
 * statuses are aligned with spaces, which filling would fold. */
static void append_lines(struct ps_buffer *page, const char *title, const char *lines)
{
    if (lines == NULL)
        return;
    ps_buffer_append_format(page, ".SH %s\n.nf\n", title);
    append_escaped(page, lines);
    ps_buffer_append_text(page, ".fi\n");
}

/* .TP: the tag (the option) on the line that follows, its text indented below until the next macro.
 * Every text passes append_escaped, since a default may well begin with a dot or hold a dash. */
static void append_option(const struct ps_option_set *set, const struct ps_option *option,
                          struct ps_buffer *page)
{
    const char *value = option->value_name != NULL ? option->value_name : option->choices;
    ps_buffer_append_text(page, ".TP\n\\fB\\-\\-");
    ps_buffer_append_text(page, option->type == PS_OPTION_FLAG ? "[no\\-]" : "");
    append_escaped(page, option->name);
    ps_buffer_append_text(page, "\\fR");
    if (option->type != PS_OPTION_FLAG) {
        ps_buffer_append_text(page, " \\fI");
        append_escaped(page, value != NULL ? value : "VALUE");
        ps_buffer_append_text(page, "\\fR");
    }
    ps_buffer_append_text(page, "\n");
    append_escaped(page, option->help);
    /* Without a value name of its own the choices stand in the tag already. */
    if (option->type == PS_OPTION_CHOICE && option->value_name != NULL) {
        ps_buffer_append_text(page, "\nOne of ");
        ps_option_append_choices(option, page);
        ps_buffer_append_text(page, ".");
    }
    if (option->fallback != NULL && option->fallback[0] != '\0') {
        ps_buffer_append_text(page, "\nDefault: ");
        append_escaped(page, option->fallback);
        ps_buffer_append_text(page, ".");
    }
    char name[128];
    if (set->environment != NULL && ps_option_environment_name(set, option, name, sizeof name)) {
        ps_buffer_append_text(page, "\nEnvironment: ");
        append_escaped(page, name);
        ps_buffer_append_text(page, ".");
    }
    ps_buffer_append_text(page, "\n");
}

/* In the order of the table, as --help has them: people compare the two. */
static void append_options(const struct ps_option_set *set, struct ps_buffer *page)
{
    for (size_t i = 0; i < set->option_count; i++)
        append_option(set, &set->options[i], page);
}

/* A plain '-' may be printed as a hyphen, which cannot be copied into a shell: "\-" stays a dash. A
 * backslash is roff's escape and becomes "\e". A line that begins with '.' or "'" would be read as
 * a macro and vanish from the page, so "\&", which prints nothing, goes in front. */
static void append_escaped(struct ps_buffer *page, const char *text)
{
    /* What was appended before decides, since a text may continue a line that is already begun. */
    bool line_start = page->size == 0 || page->text[page->size - 1] == '\n';
    for (; *text != '\0'; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            ps_buffer_append_text(page, "\\&");
        /* Every dash, also within words: a page is searched for "--name" as it is typed. */
        if (*text == '-')
            ps_buffer_append_text(page, "\\-");
        else if (*text == '\\')
            ps_buffer_append_text(page, "\\e");
        else
            ps_buffer_append(page, (struct ps_bytes){(const uint8_t *)text, 1});
        line_start = *text == '\n';
    }
}
