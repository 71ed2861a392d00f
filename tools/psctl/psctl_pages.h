/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of all that psctl's commands say of themselves: the list in --help, a page for each,
 * and what a shell completes.
 *
 * Threads:  any.
 * Blocking: as standard output does.
 * Errors:   the result is the program's exit code; complaints go to standard error.
 * Memory:   the table borrows texts that are static.
 */
#ifndef PS_TOOLS_PSCTL_PAGES_H
#define PS_TOOLS_PSCTL_PAGES_H

#include "base/program.h"
#include "tools/psctl/psctl_commands.h"

/* The rows of PSCTL_TABLE, and the three commands that psctl answers itself. */
enum {
#define PSCTL_NUMBER(name) PSCTL_NUMBER_##name,
    PSCTL_TABLE(PSCTL_NUMBER)
#undef PSCTL_NUMBER
        PSCTL_HELP,
    PSCTL_VERSION,
    PSCTL_COMPLETION,
    PSCTL_COMMANDS
};

/* One entry as base/program.h wants it. */
struct psctl_entry {
    struct ps_command about; /* first: base/program.h reads it */
    int (*run)(const struct psctl *control);
};

struct psctl_table {
    struct ps_command_page pages[PSCTL_COMMANDS];
    struct psctl_entry entries[PSCTL_COMMANDS];
};

/* Gathers what the commands' files say. */
void psctl_table_init(struct psctl_table *table);

/* The pages as base/ wants them; borrows `table`. */
struct ps_command_table psctl_pages(const struct psctl_table *table);

/* Prints the page of a command. */
int psctl_help(const struct psctl_table *table, const struct ps_option_set *set,
               const char *command);

/* Prints the completion script for a shell. */
int psctl_completion(const struct psctl_table *table, const struct ps_option_set *set,
                     const char *shell);

#endif
