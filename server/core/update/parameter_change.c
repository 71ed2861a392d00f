/* SPDX-License-Identifier: Apache-2.0 */
/* protobuf defines what a message is that stands behind another of its type: each field that comes
 * later holds, and messages within it are merged in the same way. So a change has the fields that
 * change, and nothing else needs a word for "as it was". */
#include "server/core/update/parameter_change.h"

#include "base/assert.h"
#include "base/bounds.h"
#include "base/buffer.h"
#include "proto/optimizer_change.h"
#include "server/core/update/parameter_settings.h"

#include <stdio.h>
#include <string.h>

static enum ps_status merge(struct ps_parameter_spec *spec, struct ps_bytes change,
                            struct ps_buffer *config, struct ps_error *error);
static enum ps_status check_kept(const struct ps_parameter_spec *spec,
                                 const struct ps_optimizer_settings *settings,
                                 struct ps_error *error);

/* The result is checked like a configuration that comes from outside, since a change may make two
 * settings meet that were never together. */
enum ps_status ps_parameter_change(struct ps_parameter_spec *spec, struct ps_bytes change,
                                   struct ps_parameter_spec **changed, struct ps_error *error)
{
    struct ps_buffer config;
    PS_ASSERT(spec->count > 0);
    ps_buffer_init(&config, spec->memory, PS_CONFIG_BYTES_MAX);
    enum ps_status status = merge(spec, change, &config, error);
    if (status == PS_OK)
        status = ps_parameter_change_to(
            spec, (struct ps_bytes){(const uint8_t *)config.text, config.size}, changed, error);
    ps_buffer_fini(&config);
    return status;
}

/* Both halves are written anew, so that a configuration does not grow with each change to it, nor
 * keeps what this program does not know, and equal ones are equal bytes. */
static enum ps_status merge(struct ps_parameter_spec *spec, struct ps_bytes change,
                            struct ps_buffer *config, struct ps_error *error)
{
    struct ps_optimizer_config read;
    struct ps_buffer joined;
    PS_ASSERT(config->size == 0);
    PS_ASSERT(spec->memory != NULL);
    if (change.size == 0)
        return ps_fail(error, PS_ERR_BAD_INPUT, "config: nothing to change");
    PS_TRY(ps_optimizer_config_decode(spec->config, spec->memory, &read, error));
    ps_buffer_init(&joined, spec->memory, 2 * (size_t)PS_CONFIG_BYTES_MAX);
    ps_optimizer_config_encode(&read, &joined);
    ps_buffer_append(&joined, change);
    enum ps_status status = ps_buffer_status(&joined, error);
    if (status == PS_OK)
        status =
            ps_optimizer_config_decode((struct ps_bytes){(const uint8_t *)joined.text, joined.size},
                                       spec->memory, &read, error);
    ps_buffer_fini(&joined);
    if (status != PS_OK)
        return status;
    /* What one optimizer has no use for is not written: it may not come back by a later change. */
    ps_optimizer_config_encode(&read, config);
    return ps_buffer_status(config, error);
}

/* With the checks of an InitParam: whatever holds from here on could have been there from the
 * start. */
enum ps_status ps_parameter_change_to(struct ps_parameter_spec *spec, struct ps_bytes config,
                                      struct ps_parameter_spec **changed, struct ps_error *error)
{
    struct ps_optimizer_settings settings;
    PS_TRY(ps_parameter_settings_read(config, spec->dtype, spec->memory, &settings, error));
    PS_TRY(check_kept(spec, &settings, error));
    struct ps_parameter_spec *fresh = ps_parameter_spec_configured(spec, config, &settings);
    if (fresh == NULL)
        return ps_fail(error, PS_ERR_NO_MEMORY, "no memory for another configuration");
    PS_ASSERT(ps_parameter_spec_is_same(fresh, spec));
    *changed = fresh;
    return PS_OK;
}

/* Which rows there are and where was decided by all of it but the limit and the age. NULL: nothing
 * else has changed. */
static const char *changed_of_table(const struct ps_table_settings *present,
                                    const struct ps_table_settings *settings)
{
    /* Numbers that a kind of partition has no use for count as well. */
    size_t bounds = present->bound_count * sizeof present->bounds[0];
    PS_ASSERT(present->bound_count <= PS_TABLE_BOUNDS_MAX);
    if (settings->width != present->width)
        return "table.width";
    if (settings->init != present->init || settings->low != present->low ||
        settings->high != present->high || settings->seed != present->seed)
        return "table.init, with its numbers,";
    if (settings->admission != present->admission)
        return "table.admission";
    if (settings->partition != present->partition || settings->keys_max != present->keys_max ||
        settings->chunk != present->chunk || settings->bound_count != present->bound_count ||
        memcmp(settings->bounds, present->bounds, bounds) != 0)
        return "table.partition, with its numbers,";
    return NULL;
}

/* What the states began with and what gradients look like was decided with the first values: under
 * another rule the arrays would mean something else. */
static enum ps_status check_kept(const struct ps_parameter_spec *spec,
                                 const struct ps_optimizer_settings *settings,
                                 struct ps_error *error)
{
    const struct ps_optimizer_settings *present = &spec->settings;
    const char *what = NULL;
    PS_ASSERT(settings != present);
    if (settings->rule != present->rule)
        return ps_fail(error, PS_ERR_BAD_INPUT,
                       "Name: %s, its rule is %s and cannot become %s: drop it and define it anew",
                       (const char *)spec->name.data, ps_rule_name(present->rule),
                       ps_rule_name(settings->rule));
    if (settings->initial_accumulator != present->initial_accumulator)
        what = "initial_accumulator";
    else if (settings->seed != present->seed)
        what = "integer_sgd.seed";
    else if (settings->gradient_unsigned != present->gradient_unsigned)
        what = "integer_sgd.gradient_unsigned";
    else if (settings->adagrad_row_wise != present->adagrad_row_wise)
        what = "adagrad.row_wise";
    else
        what = changed_of_table(&present->table, &settings->table);
    if (what == NULL)
        return PS_OK;
    return ps_fail(error, PS_ERR_BAD_INPUT,
                   "Name: %s, %s cannot change: drop the parameter and define it anew",
                   (const char *)spec->name.data, what);
}

/* Written anew both are the same bytes, or they differ in something that counts. */
static bool write_anew(struct ps_bytes config, const struct ps_allocator *memory,
                       struct ps_buffer *bytes)
{
    struct ps_optimizer_config read;
    PS_ASSERT(bytes->size == 0);
    if (ps_optimizer_config_decode(config, memory, &read, NULL) != PS_OK)
        return false;
    ps_optimizer_config_encode(&read, bytes);
    return ps_buffer_status(bytes, NULL) == PS_OK;
}

/* Equal bytes are the usual case: trainers of one program write one configuration. Others are read
 * and written anew, so that defaults which one says and another leaves out do not count. */
bool ps_parameter_config_is_same(struct ps_bytes one, struct ps_bytes other,
                                 const struct ps_allocator *memory)
{
    /* Otherwise another program, or another version of it, may have said the same in other
     * words. */
    struct ps_buffer left, right;
    /* Whoever compares has read neither: both may come from outside. */
    if (ps_bytes_equal(one, other))
        return true;
    ps_buffer_init(&left, memory, PS_CONFIG_BYTES_MAX);
    ps_buffer_init(&right, memory, PS_CONFIG_BYTES_MAX);
    bool is_same = write_anew(one, memory, &left) && write_anew(other, memory, &right) &&
                   left.size == right.size && memcmp(left.text, right.text, left.size) == 0;
    ps_buffer_fini(&left);
    ps_buffer_fini(&right);
    return is_same;
}

/* How a person would type it behind the name; "unset": the other rule has no such number. Nine
 * digits tell two rates of float32 apart, and are still read at a glance. */
static void entry_text(const struct ps_config_entry *entry, char *text, size_t size)
{
    PS_ASSERT(size > sizeof "unset");
    if (entry == NULL)
        (void)snprintf(text, size, "unset");
    else if (entry->text != NULL)
        (void)snprintf(text, size, "%.40s", entry->text);
    else
        (void)snprintf(text, size, "%.9g", entry->number);
}

/* Some fifty entries, looked at when somebody has made a mistake: no index is worth having. */
static const struct ps_config_entry *entry_of(const struct ps_config_entry *entries, size_t count,
                                              const char *name)
{
    PS_ASSERT(count <= PS_CONFIG_ENTRIES_MAX);
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

/* Both lists begin with the rule, so that of two rules their names are said, and not the first
 * number that only one of them has. What only the second list has comes behind all of the first's,
 * so that each name is looked at. */
static bool find_difference(const struct ps_optimizer_config *there,
                            const struct ps_optimizer_config *asked,
                            char text[PS_CONFIG_DIFFERENCE_BYTES])
{
    struct ps_config_entry ours[PS_CONFIG_ENTRIES_MAX], theirs[PS_CONFIG_ENTRIES_MAX];
    size_t our_count = ps_optimizer_config_entries(there, ours);
    size_t their_count = ps_optimizer_config_entries(asked, theirs);
    PS_ASSERT(our_count > 0 && their_count > 0);
    for (size_t i = 0; i < our_count + their_count; i++) {
        const char *name = i < our_count ? ours[i].name : theirs[i - our_count].name;
        char left[48], right[48];
        entry_text(entry_of(ours, our_count, name), left, sizeof left);
        entry_text(entry_of(theirs, their_count, name), right, sizeof right);
        if (strcmp(left, right) == 0)
            continue;
        (void)snprintf(text, PS_CONFIG_DIFFERENCE_BYTES, "%.40s=%s and not %s", name, left, right);
        return true;
    }
    return false;
}

/* Trainers of one job that were started from two versions of one script are the usual case: their
 * author looks for the line that differs. What is not an entry, such as the bounds of a table's
 * keys, stays unnamed. */
const char *ps_parameter_config_difference(struct ps_bytes there, struct ps_bytes asked,
                                           const struct ps_allocator *memory,
                                           char text[PS_CONFIG_DIFFERENCE_BYTES])
{
    struct ps_optimizer_config left, right;
    PS_ASSERT(text != NULL && memory != NULL);
    /* The first was taken once and can be read; the other is as somebody sent it. */
    if (ps_optimizer_config_decode(there, memory, &left, NULL) != PS_OK ||
        ps_optimizer_config_decode(asked, memory, &right, NULL) != PS_OK ||
        !find_difference(&left, &right, text))
        (void)snprintf(text, PS_CONFIG_DIFFERENCE_BYTES, "another configuration");
    return text;
}
