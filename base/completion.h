/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts that have a shell complete a program's commands and options, made of the same tables as
 * its help.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none; a buffer that is full says so itself.
 * Memory:   texts are borrowed for the call.
 */
#ifndef PS_BASE_COMPLETION_H
#define PS_BASE_COMPLETION_H

#include "base/command_page.h"

/* "bash|zsh|fish": the shells that there is a script for. */
#define PS_COMPLETION_SHELLS "bash|zsh|fish"

/* Appends the script for that shell; false when there is none for it. */
bool ps_completion_write(const struct ps_option_set *set, const struct ps_command_table *table,
                         const char *shell, struct ps_buffer *script);

#endif
