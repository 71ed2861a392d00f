/* SPDX-License-Identifier: Apache-2.0 */
/* `PROGRAM help COMMAND` and `PROGRAM completion SHELL`, of any program that has a table of its
 * commands.
 *
 * Threads:  any.
 * Blocking: as standard output does.
 * Errors:   the result is the program's exit code (sysexits.h); complaints go to standard error.
 * Memory:   from the heap, for the call.
 */
#ifndef PS_BASE_COMMAND_PRINT_H
#define PS_BASE_COMMAND_PRINT_H

#include "base/command_page.h"

/* Prints the page of a command; EX_USAGE when there is none of that name. */
int ps_command_print_help(const struct ps_option_set *set, const struct ps_command_table *table,
                          const char *command);

/* Prints the script for a shell; EX_USAGE when there is none for it. */
int ps_command_print_completion(const struct ps_option_set *set,
                                const struct ps_command_table *table, const char *shell);

#endif
