/* SPDX-License-Identifier: Apache-2.0 */
/* What psckpt's commands say of themselves: the list in --help, a page for each, and what a shell
 * completes.
 *
 * Threads:  any.
 * Blocking: as standard output does.
 * Errors:   the result is the program's exit code; complaints go to standard error.
 * Memory:   everything is static.
 */
#ifndef PS_TOOLS_PSCKPT_PAGES_H
#define PS_TOOLS_PSCKPT_PAGES_H

#include "base/command_page.h"

/* In the order in which the help lists them. */
struct ps_command_table psckpt_pages(void);

/* Prints the page of a command. */
int psckpt_help(const struct ps_option_set *set, const char *command);

/* Prints the completion script for a shell. */
int psckpt_completion(const struct ps_option_set *set, const char *shell);

#endif
