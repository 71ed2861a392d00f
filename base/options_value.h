/* SPDX-License-Identifier: Apache-2.0 */
/* Turns one option's text into its value; shared by the files that read options.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   PS_ERR_BAD_INPUT.
 * Memory:   text values keep pointing to `text`.
 */
#ifndef PS_BASE_OPTIONS_VALUE_H
#define PS_BASE_OPTIONS_VALUE_H

#include "base/options.h"

/* Sets the field of `option` in `values`. `label` is how the user spelled the option, for the
 * error: "--listen", "PSERVER_LISTEN", "listen". */
PS_MUST_USE enum ps_status ps_option_set_value(const struct ps_option *option, const char *label,
                                               void *values, const char *text,
                                               struct ps_error *error);

/* The option of that name; NULL when there is none. */
const struct ps_option *ps_option_find(const struct ps_option_set *set, const char *name,
                                       size_t name_size);

/* Appends the choices of an option as words that can be wrapped: "a, b, c". */
void ps_option_append_choices(const struct ps_option *option, struct ps_buffer *text);

/* The option whose name is hardly different; NULL when there is none. */
const struct ps_option *ps_option_nearest(const struct ps_option_set *set, const char *name);

/* PS_ERR_NOT_FOUND with the nearest name. `prefix` stands before names: "--" or "". */
enum ps_status ps_option_unknown(const struct ps_option_set *set, const char *prefix,
                                 const char *name, struct ps_error *error);

/* How the program's sizes and times are written, for --help and the man page; NULL when it has no
 * such option. */
const char *ps_option_units(const struct ps_option_set *set);

/* Writes the environment's name of an option. False when it does not fit. */
bool ps_option_environment_name(const struct ps_option_set *set, const struct ps_option *option,
                                char *name, size_t capacity);

#endif
