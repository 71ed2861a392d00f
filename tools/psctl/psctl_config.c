/* SPDX-License-Identifier: Apache-2.0 */
/* What show and set have in common: which parameters are meant, and the words of a
 * configuration. */
#include "tools/psctl/psctl_config.h"

#include "base/range_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* All ranges of a parameter have one configuration, and the first is always there, on server 0. */
bool psctl_matches(const char *pattern, const struct psclient_param_info *info,
                   char name[sizeof info->name])
{
    struct ps_bytes whole = ps_bytes_of_text(info->name);
    struct ps_bytes base = whole;
    uint32_t k = 0, n;
    /* A range has the name of its parameter before the "#"; whoever types a name means that. */
    if (!ps_range_name_split(whole, &base, &k, &n))
        base = whole;
    /* A name that ends with a star can be meant by a star alone: psctl takes no other patterns. */
    size_t length = strlen(pattern);
    /* The star stands for the rest of the name, whatever is in it; "*" alone is every parameter. */
    bool is_prefix = length > 0 && pattern[length - 1] == '*';
    if (is_prefix)
        length--;
    /* Of the ranges the first speaks for all: each name is shown and changed once. */
    if (k > 0 || base.size < length || (base.size > length && !is_prefix) ||
        memcmp(base.data, pattern, length) != 0)
        return false;
    /* The name fits: it is a part of one that does. */
    memcpy(name, base.data, base.size);
    name[base.size] = '\0';
    return true;
}

/* What a server tells goes through the same reader as what it was given: a field that this psctl
 * does not know is passed over, a rule that it does not know is an error. */
int psctl_read_config(const struct psclient_config *told, struct ps_optimizer_config *config)
{
    struct ps_error error = {0};
    /* Given by a client that put something else into it; the server has kept it as it came. */
    if (told->size > sizeof told->bytes) {
        (void)fprintf(stderr, "psctl: a configuration of %zu bytes is not shown\n", told->size);
        return EX_UNAVAILABLE;
    }
    if (ps_optimizer_config_decode((struct ps_bytes){told->bytes, told->size}, ps_allocator_heap(),
                                   config, &error) == PS_OK)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "psctl: a server tells what is not a configuration: %s\n", error.text);
    return EX_UNAVAILABLE;
}

/* What server 0 says of a table is said of all: its configuration is the same everywhere. Where
 * server 0 does not answer, the exit status says that something is missing. */
bool psctl_is_repeated(uint32_t index, const struct ps_optimizer_config *config)
{
    return index > 0 && config->table.width > 0;
}

/* What is as it always is would hide the rest: the document has everything. */
void psctl_print_config(const struct ps_optimizer_config *config)
{
    struct ps_config_entry entries[PS_CONFIG_ENTRIES_MAX];
    size_t count = ps_optimizer_config_entries(config, entries);
    /* The rule has no name before it: "adam lr=0.001" reads like what is typed. */
    (void)printf("%s", entries[0].text);
    for (size_t i = 1; i < count; i++) {
        const struct ps_config_entry *entry = &entries[i];
        /* Of eleven numbers two are mostly worth reading. */
        if (entry->is_default)
            continue;
        if (entry->text != NULL)
            (void)printf(" %s=%s", entry->name, entry->text);
        else
            /* Digits enough for what people type; the document has the number itself. */
            (void)printf(" %s=%.15g", entry->name, entry->number);
    }
}

/* Flags of the rule are numbers here as they are in the configuration: 0 and 1. */
void psctl_json_config(struct ps_json_writer *json, const char *name,
                       const struct ps_optimizer_config *config)
{
    struct ps_config_entry entries[PS_CONFIG_ENTRIES_MAX];
    size_t count = ps_optimizer_config_entries(config, entries);
    /* Names of the configuration, so that what is read can be typed. */
    ps_json_begin_object(json, name);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].text != NULL)
            ps_json_text(json, entries[i].name, ps_bytes_of_text(entries[i].text));
        else
            ps_json_real(json, entries[i].name, entries[i].number);
    }
    ps_json_end_object(json);
}

/* The same words as psctl get has, since scripts look for them. */
int psctl_no_such_param(const char *pattern)
{
    (void)fprintf(stderr, "psctl: parameter: %s does not exist\n", pattern);
    return EX_DATAERR;
}
