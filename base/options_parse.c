/* SPDX-License-Identifier: Apache-2.0 */
/* Reads options from where they come: defaults, a file's pairs, the environment, arguments.
 *
 * Each source writes over what the one before has set, so the precedence is the order of the calls
 * and nothing else (base/program.c makes them). Every source ends in ps_option_set_value, so a
 * value is judged by the same rules and refused in the same words wherever it was written; only the
 * label in front of the message differs and names the place that has to be corrected. */
#include "base/assert.h"
#include "base/options.h"
#include "base/options_value.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static enum ps_status parse_argument(const struct ps_option_set *set, void *values, char **next,
                                     int *consumed, struct ps_error *error);
static enum ps_status parse_plain(const struct ps_option_set *set, void *values, char **next,
                                  int *consumed, struct ps_error *error);
static void move_to(char **argv, int from, int to);

enum ps_status ps_options_defaults(const struct ps_option_set *set, void *values,
                                   struct ps_error *error)
{
    PS_ASSERT(set != NULL && values != NULL);
    /* A field without a default is zeroed, for which its size must be known; a new type gets its
     * row here. */
    static const size_t sizes[] = {
        [PS_OPTION_TEXT] = sizeof(const char *),  [PS_OPTION_FLAG] = sizeof(bool),
        [PS_OPTION_UINT] = sizeof(uint64_t),      [PS_OPTION_REAL] = sizeof(double),
        [PS_OPTION_DURATION] = sizeof(uint64_t),  [PS_OPTION_BYTES] = sizeof(uint64_t),
        [PS_OPTION_CHOICE] = sizeof(const char *)};
    for (size_t i = 0; i < set->option_count; i++) {
        const struct ps_option *option = &set->options[i];
        if (option->fallback != NULL)
            PS_TRY(ps_option_set_value(option, option->name, values, option->fallback, error));
        else
            memset((char *)values + option->offset, 0, sizes[option->type]);
    }
    return PS_OK;
}

enum ps_status ps_options_set(const struct ps_option_set *set, void *values, const char *name,
                              const char *text, struct ps_error *error)
{
    PS_ASSERT(set != NULL && values != NULL && name != NULL && text != NULL);
    const struct ps_option *option = ps_option_find(set, name, strlen(name));
    if (option == NULL)
        return ps_option_unknown(set, "", name, error);
    return ps_option_set_value(option, name, values, text, error);
}

enum ps_status ps_options_environment(const struct ps_option_set *set, void *values,
                                      struct ps_error *error)
{
    PS_ASSERT(set != NULL && values != NULL);
    if (set->environment == NULL)
        return PS_OK;
    for (size_t i = 0; i < set->option_count; i++) {
        const struct ps_option *option = &set->options[i];
        char name[128];
        /* Names are constants of ours; one that does not fit would silently have no variable. */
        bool fits = ps_option_environment_name(set, option, name, sizeof name);
        PS_ASSERT(fits);
        const char *text = getenv(name);
        /* An empty variable counts as unset: "VARIABLE= program" is how shells and manifests take
         * one away. */
        if (text != NULL && text[0] != '\0')
            PS_TRY(ps_option_set_value(option, name, values, text, error));
    }
    return PS_OK;
}

/* Variables cannot be refused when they are unknown: the environment belongs to everybody. One that
 * has our prefix and is close to an option is most likely a slip, though, and would otherwise be
 * ignored in silence. A variable that resembles nothing (of another program with the same prefix)
 * is let be. */
bool ps_options_misspelt(const struct ps_option_set *set, const char *variable,
                         struct ps_error *error)
{
    char name[64];
    size_t prefix = set->environment != NULL ? strlen(set->environment) : 0;
    size_t size = strcspn(variable, "=");
    if (prefix == 0 || size <= prefix || size - prefix >= sizeof name ||
        strncmp(variable, set->environment, prefix) != 0)
        return false;
    /* The way back of ps_option_environment_name. */
    for (size_t i = prefix; i < size; i++)
        name[i - prefix] = (char)(variable[i] == '_' ? '-' : tolower((unsigned char)variable[i]));
    name[size - prefix] = '\0';
    if (ps_option_find(set, name, size - prefix) != NULL)
        return false;
    char meant[128];
    const struct ps_option *nearest = ps_option_nearest(set, name);
    if (nearest == NULL || !ps_option_environment_name(set, nearest, meant, sizeof meant))
        return false;
    (void)ps_fail(error, PS_ERR_NOT_FOUND, "%.*s is not an option; did you mean %s?", (int)size,
                  variable, meant);
    return true;
}

/* Options and words may be mixed ("psctl status --json"), as with GNU programs. Words are moved to
 * the front of argv in their order, so that the program finds them at 1..word_count; the options
 * behind them are not looked at again. A lone "-" is a word (standard input, by convention), and
 * everything behind "--" is. */
enum ps_status ps_options_arguments(const struct ps_option_set *set, void *values, int argc,
                                    char **argv, int *word_count, struct ps_error *error)
{
    PS_ASSERT(set != NULL && values != NULL);
    PS_ASSERT(argv != NULL && word_count != NULL);
    int words = 0;
    bool options_ended = false;
    for (int i = 1; i < argc;) {
        const char *argument = argv[i];
        if (options_ended || argument[0] != '-' || argument[1] == '\0') {
            move_to(argv, i, ++words);
            i++;
            continue;
        }
        if (strcmp(argument, "--") == 0) {
            options_ended = true;
            i++;
            continue;
        }
        int consumed = 0;
        PS_TRY(parse_argument(set, values, &argv[i], &consumed, error));
        i += consumed;
    }
    *word_count = words;
    return PS_OK;
}

/* One option that begins at `next[0]`; argv ends with NULL, so `next[1]` may be looked at. */
static enum ps_status parse_argument(const struct ps_option_set *set, void *values, char **next,
                                     int *consumed, struct ps_error *error)
{
    /* The one short option: somebody who has yet to read the help knows it from everywhere else. */
    const struct ps_option *help = ps_option_find(set, "help", 4);
    if (strcmp(next[0], "-h") == 0 && help != NULL && help->type == PS_OPTION_FLAG) {
        *consumed = 1;
        return ps_option_set_value(help, next[0], values, "true", error);
    }
    if (next[0][1] != '-')
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "%.80s: options begin with two dashes (%s --help lists them)", next[0],
                       set->program);
    const char *name = next[0] + 2;
    const char *equals = strchr(name, '=');
    if (equals == NULL)
        return parse_plain(set, values, next, consumed, error);
    const struct ps_option *option = ps_option_find(set, name, (size_t)(equals - name));
    /* The label is "--name" without the value: an error must not repeat a whole value that may be
     * long or secret before the message is read. */
    char label[96] = {0};
    size_t label_size = (size_t)(equals - next[0]);
    memcpy(label, next[0], label_size < sizeof label ? label_size : sizeof label - 1);
    if (option == NULL)
        return ps_option_unknown(set, "--", label + 2, error);
    *consumed = 1;
    return ps_option_set_value(option, label, values, equals + 1, error);
}

/* "--name VALUE", "--flag" or "--no-flag". An option's own name wins over the reading as a negated
 * flag, should one ever begin with "no-". */
static enum ps_status parse_plain(const struct ps_option_set *set, void *values, char **next,
                                  int *consumed, struct ps_error *error)
{
    const char *name = next[0] + 2;
    const struct ps_option *option = ps_option_find(set, name, strlen(name));
    *consumed = 1;
    if (option == NULL && strncmp(name, "no-", 3) == 0) {
        option = ps_option_find(set, name + 3, strlen(name + 3));
        if (option != NULL && option->type == PS_OPTION_FLAG)
            return ps_option_set_value(option, next[0], values, "false", error);
        option = NULL;
    }
    if (option == NULL)
        return ps_option_unknown(set, "--", name, error);
    if (option->type == PS_OPTION_FLAG)
        return ps_option_set_value(option, next[0], values, "true", error);
    /* A value that begins with two dashes is nearly always the next option after a forgotten value.
     * Such a value can still be given as --name=VALUE. */
    if (next[1] == NULL || strncmp(next[1], "--", 2) == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "%s needs a value: %s", next[0],
                       option->value_name != NULL ? option->value_name
                       : option->choices != NULL  ? option->choices
                                                  : "VALUE");
    *consumed = 2;
    return ps_option_set_value(option, next[0], values, next[1], error);
}

/* Moves argv[from] down to argv[to]; those between move up by one and keep their order, as error
 * messages and a second reading of argv expect. */
static void move_to(char **argv, int from, int to)
{
    char *moved = argv[from];
    for (int i = from; i > to; i--)
        argv[i] = argv[i - 1];
    argv[to] = moved;
}
