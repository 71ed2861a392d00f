/* The text of --help. */
#include "base/assert.h"
#include "base/options.h"
#include "base/options_value.h"

#include <string.h>

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
                                ps_option_find(set, "config", 6) != NULL
                                    ? "configuration file, which wins over the "
                                    : "");
    if (set->statuses != NULL)
        ps_buffer_append_format(text, "\nExit status:\n%s", set->statuses);
    if (set->examples != NULL)
        ps_buffer_append_format(text, "\nExamples:\n%s", set->examples);
}

/* Words, wrapped to the width of a terminal. `*column` is where the line stands. */
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

/* Once for all options: said at each it would be a page longer. */
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

/* Where the option's own line does not show them. */
static void append_choices(struct ps_buffer *facts, const struct ps_option *option)
{
    if (option->type != PS_OPTION_CHOICE || option->value_name == NULL ||
        strcmp(option->value_name, option->choices) == 0)
        return;
    ps_buffer_append_text(facts, "One of ");
    ps_option_append_choices(option, facts);
    ps_buffer_append_text(facts, ". ");
}
