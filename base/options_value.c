/* SPDX-License-Identifier: Apache-2.0 */
/* One text, one type, one field; and finding the option that was meant. */
#include "base/options_value.h"

#include "base/assert.h"
#include "base/nearest.h"
#include "base/quantity.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_flag(const char *text, bool *value);
static bool parse_real(const char *text, double *value);
static bool is_choice(const char *choices, const char *text);

/* The value is quoted and cut at 80 bytes: the message has 256 in all, and what was wanted must fit
 * behind it. */
static enum ps_status refuse(struct ps_error *error, const char *label, const char *text,
                             const char *wanted)
{
    return ps_fail(error, PS_ERR_BAD_INPUT, "%s: \"%.80s\" is not %s", label, text, wanted);
}

/* One case per type and no default, so that a new type does not compile before it is parsed here.
 * Text is borrowed and not copied: argv and the environment outlive the options, and a file's text
 * is kept by whoever read it. A refused value leaves the field as it was. */
enum ps_status ps_option_set_value(const struct ps_option *option, const char *label, void *values,
                                   const char *text, struct ps_error *error)
{
    PS_ASSERT(option != NULL && values != NULL && text != NULL);
    void *field = (char *)values + option->offset;
    switch (option->type) {
    case PS_OPTION_TEXT:
        *(const char **)field = text;
        return PS_OK;
    case PS_OPTION_FLAG:
        if (parse_flag(text, field))
            return PS_OK;
        return refuse(error, label, text, "true or false");
    case PS_OPTION_UINT:
        if (ps_quantity_number(text, field))
            return PS_OK;
        return refuse(error, label, text, "a whole number from 0 to 18446744073709551615");
    case PS_OPTION_REAL:
        if (parse_real(text, field))
            return PS_OK;
        return refuse(error, label, text, "a number such as 0.5 or 1e-3");
    case PS_OPTION_DURATION:
        if (ps_quantity_milliseconds(text, field))
            return PS_OK;
        return refuse(error, label, text, PS_QUANTITY_DURATIONS);
    case PS_OPTION_BYTES:
        if (ps_quantity_bytes(text, field))
            return PS_OK;
        return refuse(error, label, text, PS_QUANTITY_BYTES);
    case PS_OPTION_CHOICE:
        PS_ASSERT(option->choices != NULL);
        if (!is_choice(option->choices, text))
            return refuse(error, label, text, option->choices);
        *(const char **)field = text;
        return PS_OK;
    }
    PS_ASSERT(false && "an option has one of the seven types");
    return PS_ERR_INTERNAL;
}

/* The words that YAML and shells use for truth, in lower case only: "True" in a file is refused in
 * so many words instead of being guessed. */
static bool parse_flag(const char *text, bool *value)
{
    static const char *const words[] = {"false", "true", "no", "yes", "0", "1"};
    for (size_t i = 0; i < PS_ARRAY_COUNT(words); i++) {
        if (strcmp(words[i], text) != 0)
            continue;
        /* The words stand in pairs of "off" and "on". */
        *value = i % 2 == 1;
        return true;
    }
    return false;
}

/* strtod skips leading space and accepts "inf" and "nan"; neither is a number that a setting could
 * mean. */
static bool parse_real(const char *text, double *value)
{
    if (text[0] == '\0' || isspace((unsigned char)text[0]))
        return false;
    char *end = NULL;
    /* The locale is never set, so the decimal point is a point everywhere. */
    double parsed = strtod(text, &end);
    /* The whole text must be the number: "0.5x" is a slip, and half of it is not what was meant. */
    if (*end != '\0' || !isfinite(parsed))
        return false;
    *value = parsed;
    return true;
}

/* `choices` is "a|b|c", the same text that the help prints. An empty text is never a choice, though
 * strcspn would find it between two bars. */
static bool is_choice(const char *choices, const char *text)
{
    size_t size = strlen(text);
    while (size > 0) {
        /* Sizes are compared first, so "log" is not taken for "logged". */
        size_t choice_size = strcspn(choices, "|");
        if (choice_size == size && memcmp(choices, text, size) == 0)
            return true;
        if (choices[choice_size] == '\0')
            return false;
        choices += choice_size + 1;
    }
    return false;
}

/* The size is given, since the name often ends at an equals sign within a longer text. A walk along
 * some fifty options, a few dozen times at start, needs no table. */
const struct ps_option *ps_option_find(const struct ps_option_set *set, const char *name,
                                       size_t name_size)
{
    PS_ASSERT(set != NULL && name != NULL);
    for (size_t i = 0; i < set->option_count; i++) {
        const struct ps_option *option = &set->options[i];
        if (strlen(option->name) == name_size && memcmp(option->name, name, name_size) == 0)
            return option;
    }
    return NULL;
}

/* The first of equally near names wins: one suggestion is read, a list of them is not. */
const struct ps_option *ps_option_nearest(const struct ps_option_set *set, const char *name)
{
    /* Every name is compared: the advice is given once, just before the program ends. */
    const struct ps_option *nearest = NULL;
    size_t nearest_distance = SIZE_MAX;
    for (size_t i = 0; i < set->option_count; i++) {
        size_t distance = ps_text_distance(name, set->options[i].name);
        if (distance >= nearest_distance)
            continue;
        nearest = &set->options[i];
        nearest_distance = distance;
    }
    return nearest != NULL && ps_text_is_near(name, nearest_distance) ? nearest : NULL;
}

/* `prefix` is "--" where the name was typed on a command line and empty where it stood in a file,
 * so that the suggestion can be copied as it is. */
enum ps_status ps_option_unknown(const struct ps_option_set *set, const char *prefix,
                                 const char *name, struct ps_error *error)
{
    const struct ps_option *nearest = ps_option_nearest(set, name);
    if (nearest == NULL)
        return ps_fail(error, PS_ERR_NOT_FOUND, "unknown option %s%.80s", prefix, name);
    return ps_fail(error, PS_ERR_NOT_FOUND, "unknown option %s%.80s; did you mean %s%s?", prefix,
                   name, prefix, nearest->name);
}

/* "--data-dir" with the prefix "PSERVER_" is PSERVER_DATA_DIR. The rule is one to one (no
 * option has an underscore), so a variable can be traced back to its option. */
bool ps_option_environment_name(const struct ps_option_set *set, const struct ps_option *option,
                                char *name, size_t capacity)
{
    PS_ASSERT(set->environment != NULL);
    /* The prefix is copied unchanged and only the option's own letters are converted. */
    int length = snprintf(name, capacity, "%s%s", set->environment, option->name);
    if (length < 0 || (size_t)length >= capacity)
        return false;
    for (char *letter = name + strlen(set->environment); *letter != '\0'; letter++)
        *letter = *letter == '-' ? '_' : (char)toupper((unsigned char)*letter);
    return true;
}

/* "a|b|c" as "a, b, c". */
void ps_option_append_choices(const struct ps_option *option, struct ps_buffer *text)
{
    PS_ASSERT(option->type == PS_OPTION_CHOICE);
    for (const char *choice = option->choices;; choice++) {
        size_t size = strcspn(choice, "|");
        ps_buffer_append(text, (struct ps_bytes){(const uint8_t *)choice, size});
        choice += size;
        if (*choice == '\0')
            return;
        ps_buffer_append_text(text, ", ");
    }
}

/* Units are explained only by programs that have an option of that type. */
static bool has_type(const struct ps_option_set *set, enum ps_option_type type)
{
    for (size_t i = 0; i < set->option_count; i++)
        if (set->options[i].type == type)
            return true;
    return false;
}

const char *ps_option_units(const struct ps_option_set *set)
{
/* The sentence of the units that a program's options use: both, one, or none. The texts are
 * constants so that the pages made of them allocate nothing. */
#define SIZES \
    "A SIZE is 4096, 64KiB or 64Ki (times 1024), 64KB or 64K (times 1000); so for M, G and T."
#define TIMES "A TIME is 10s or 10 (seconds), 500ms, 5m or 2h."
    if (has_type(set, PS_OPTION_BYTES))
        return has_type(set, PS_OPTION_DURATION) ? SIZES " " TIMES : SIZES;
    return has_type(set, PS_OPTION_DURATION) ? TIMES : NULL;
#undef SIZES
#undef TIMES
}
