/* SPDX-License-Identifier: Apache-2.0 */
/* How a program begins: its options, the pages that --help, --man and --version ask for, and the
 * command among its words.
 *
 * Threads:  the main thread, at start.
 * Blocking: as standard output does.
 * Errors:   said on standard error, after the program's name; the exit status says which.
 * Memory:   as base/options.h says of values.
 */
#ifndef PS_BASE_PROGRAM_H
#define PS_BASE_PROGRAM_H

#include "base/options.h"

/* Fills `values` from defaults, environment and arguments, and prints the page that was asked for.
 * The set has the flags "help", "man" and "version".
 *
 * True: the program is to do its work; `*word_count` words stand behind argv[0].
 * False: it has ended; `*code` is its exit status. */
bool ps_program_begin(const struct ps_option_set *set, void *values, int argc, char **argv,
                      int *word_count, int *code);

/* The two halves of ps_program_begin, for a program that has pages of its own: the first fills
 * `values`, the second prints --help, --man or --version if one was asked for. Both return false,
 * with `*code`, when the program has ended. */
bool ps_program_read(const struct ps_option_set *set, void *values, int argc, char **argv,
                     int *word_count, int *code);
bool ps_program_go_on(const struct ps_option_set *set, const void *values, int *code);

/* Prints what ps_options_help or ps_options_man writes. Returns the exit status. */
int ps_program_print(const struct ps_option_set *set,
                     void (*write)(const struct ps_option_set *set, struct ps_buffer *text));

/* The beginning of each entry of a table of commands. */
struct ps_command {
    const char *name;
    int argument_count; /* below 0: -argument_count words or more */
};

/* Finds the command that argv[1] names in a table of `count` entries, each of `entry_size` bytes
 * and beginning with a struct ps_command. Returns its entry; NULL, after a complaint, when there is
 * no such command or it takes another number of words. */
const void *ps_program_command(const struct ps_option_set *set, const void *table, size_t count,
                               size_t entry_size, int word_count, char **argv);

#endif
