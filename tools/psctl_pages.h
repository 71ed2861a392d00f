/* What psctl's commands are for, and what is made of that table: help and completion.
 *
 * Threads:  any.
 * Blocking: as standard output does.
 * Errors:   the result is the program's exit code; complaints go to standard error.
 * Memory:   the table is static.
 */
#ifndef PS_TOOLS_PSCTL_PAGES_H
#define PS_TOOLS_PSCTL_PAGES_H

#include "base/command_page.h"

const struct ps_command_table *psctl_pages(void);

/* Prints the page of a command. */
int psctl_help(const struct ps_option_set *set, const char *command);

/* Prints the completion script for a shell. */
int psctl_completion(const struct ps_option_set *set, const char *shell);

#endif
