/* SPDX-License-Identifier: Apache-2.0 */
/* Options and their values as the YAML that a configuration file is made of: the page of
 * --print-config can be saved and read back and gives the same values. */
#include "base/assert.h"
#include "base/json_writer.h"
#include "base/options.h"

#include <inttypes.h>
#include <string.h>

static void append_value(const struct ps_option *option, const void *field, struct ps_buffer *text);
static void append_units(struct ps_buffer *text, uint64_t value, const uint64_t *factors,
                         const char *const *suffixes, size_t count);

void ps_options_print(const struct ps_option_set *set, const void *values, struct ps_buffer *text)
{
    PS_ASSERT(set != NULL && values != NULL && text != NULL);
    for (size_t i = 0; i < set->option_count; i++) {
        const struct ps_option *option = &set->options[i];
        const void *field = (const char *)values + option->offset;
        bool is_text = option->type == PS_OPTION_TEXT || option->type == PS_OPTION_CHOICE;
        /* A value that was never given has no form in YAML that would read back as "not given"; a
         * comment names the option without setting it. */
        if (is_text && *(const char *const *)field == NULL) {
            ps_buffer_append_format(text, "# %s:\n", option->name);
            continue;
        }
        /* The page ends in tickets and chats. A secret is left out even where it would be
         * convenient to have. */
        if (option->secret) {
            ps_buffer_append_format(text, "# %s: (hidden)\n", option->name);
            continue;
        }
        ps_buffer_append_format(text, "%s: ", option->name);
        append_value(option, field, text);
        ps_buffer_append_text(text, "\n");
    }
}

/* Each value in a form that ps_option_set_value reads back as the same value. */
static void append_value(const struct ps_option *option, const void *field, struct ps_buffer *text)
{
    /* From the largest unit down; both lists end with the unit in which the field is kept. */
    static const uint64_t durations[] = {3600000, 60000, 1000, 1};
    static const char *const duration_words[] = {"h", "m", "s", "ms"};
    static const uint64_t sizes[] = {1 << 30, 1 << 20, 1 << 10, 1};
    static const char *const size_words[] = {"GiB", "MiB", "KiB", ""};
    switch (option->type) {
    case PS_OPTION_TEXT:
    case PS_OPTION_CHOICE:
        /* A JSON string is a YAML string, whatever is in it. */
        ps_json_append_quoted(text, ps_bytes_of_text(*(const char *const *)field));
        return;
    case PS_OPTION_FLAG:
        ps_buffer_append_text(text, *(const bool *)field ? "true" : "false");
        return;
    case PS_OPTION_UINT:
        ps_buffer_append_format(text, "%" PRIu64, *(const uint64_t *)field);
        return;
    case PS_OPTION_REAL:
        /* Seventeen digits read back as the same double. */
        ps_buffer_append_format(text, "%.17g", *(const double *)field);
        return;
    case PS_OPTION_DURATION:
        append_units(text, *(const uint64_t *)field, durations, duration_words, 4);
        return;
    case PS_OPTION_BYTES:
        append_units(text, *(const uint64_t *)field, sizes, size_words, 4);
        return;
    }
    PS_ASSERT(false && "an option has one of the seven types");
}

/* The largest unit that leaves no remainder, so that nothing is rounded: 90s stays 90s, 120s
 * becomes 2m. 0 is divisible by everything and takes the smallest unit. */
static void append_units(struct ps_buffer *text, uint64_t value, const uint64_t *factors,
                         const char *const *suffixes, size_t count)
{
    size_t i = 0;
    while (i + 1 < count && (value == 0 || value % factors[i] != 0))
        i++;
    ps_buffer_append_format(text, "%" PRIu64 "%s", value / factors[i], suffixes[i]);
}
