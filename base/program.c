/* SPDX-License-Identifier: Apache-2.0 */
/* What every program does before its work: read its options, print the page that was asked for,
 * find its command. Exit statuses are those of sysexits(3): EX_USAGE for anything that somebody
 * typed wrong, which scripts can tell from a failure of the work itself. */
#include "base/program.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

/* A bound for the buffer; pages have some ten KiB. */
#define PAGE_BYTES_MAX ((size_t)1 << 20)

static enum ps_status read_options(const struct ps_option_set *set, void *values, int argc,
                                   char **argv, int *word_count, struct ps_error *error);
static bool is_asked(const struct ps_option_set *set, const void *values, const char *flag);
static void list_commands(const struct ps_option_set *set, const void *table, size_t count,
                          size_t entry_size);

bool ps_program_begin(const struct ps_option_set *set, void *values, int argc, char **argv,
                      int *word_count, int *code)
{
    return ps_program_read(set, values, argc, argv, word_count, code) &&
           ps_program_go_on(set, values, code);
}

/* Complaints go to standard error with the program's name in front, in one line, as those of the
 * standard tools. */
bool ps_program_read(const struct ps_option_set *set, void *values, int argc, char **argv,
                     int *word_count, int *code)
{
    struct ps_error error = {0};
    *code = EXIT_SUCCESS;
    if (read_options(set, values, argc, argv, word_count, &error) != PS_OK) {
        (void)fprintf(stderr, "%s: %s\n", set->program, error.text);
        *code = EX_USAGE;
        return false;
    }
    return true;
}

/* --help wins over --man and that over --version, however they are ordered on the command line. All
 * three are looked at after every option was read: a misspelt option is reported even beside
 * --help. */
bool ps_program_go_on(const struct ps_option_set *set, const void *values, int *code)
{
    *code = EXIT_SUCCESS;
    if (is_asked(set, values, "help"))
        *code = ps_program_print(set, ps_options_help);
    else if (is_asked(set, values, "man"))
        *code = ps_program_print(set, ps_options_man);
    else if (is_asked(set, values, "version"))
        (void)printf("%s %s\n", set->program, PS_VERSION);
    else
        return true;
    return false;
}

static enum ps_status read_options(const struct ps_option_set *set, void *values, int argc,
                                   char **argv, int *word_count, struct ps_error *error)
{
    /* The order of these calls is the precedence: later ones write over earlier ones. */
    PS_TRY(ps_options_defaults(set, values, error));
    PS_TRY(ps_options_environment(set, values, error));
    return ps_options_arguments(set, values, argc, argv, word_count, error);
}

/* The flag is looked up by name, because each program keeps its values in a struct of its own, of
 * which this file knows only the offsets in the table. */
static bool is_asked(const struct ps_option_set *set, const void *values, const char *flag)
{
    for (size_t i = 0; i < set->option_count; i++) {
        const struct ps_option *option = &set->options[i];
        if (strcmp(option->name, flag) != 0)
            continue;
        PS_ASSERT(option->type == PS_OPTION_FLAG);
        return *(const bool *)((const char *)values + option->offset);
    }
    PS_ASSERT(false && "a program has no such flag");
    return false;
}

/* The page is made whole before the first byte is printed. Success without a look at stdout: main
 * ends through ps_output_end, which asks whether everything arrived. */
int ps_program_print(const struct ps_option_set *set,
                     void (*write)(const struct ps_option_set *set, struct ps_buffer *text))
{
    struct ps_buffer text;
    ps_buffer_init(&text, ps_allocator_heap(), PAGE_BYTES_MAX);
    write(set, &text);
    (void)fputs(text.text != NULL ? text.text : "", stdout);
    ps_buffer_fini(&text);
    return EXIT_SUCCESS;
}

const void *ps_program_command(const struct ps_option_set *set, const void *table, size_t count,
                               size_t entry_size, int word_count, char **argv)
{
    /* Tables of commands have columns that only their program knows; each row begins with a struct
     * ps_command, and entry_size is the step from row to row. */
    PS_ASSERT(entry_size >= sizeof(struct ps_command));
    /* The caller cannot tell the NULLs apart and need not: all are EX_USAGE, and all have been
     * explained. */
    if (word_count == 0) {
        list_commands(set, table, count, entry_size);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const void *entry = (const char *)table + i * entry_size;
        const struct ps_command *command = entry;
        if (strcmp(command->name, argv[1]) != 0)
            continue;
        /* Too few and too many words are told apart from an unknown command: a command that ignored
         * a word would do something other than what was typed. */
        int given = word_count - 1;
        bool or_more = command->argument_count < 0;
        int wanted = or_more ? -command->argument_count : command->argument_count;
        if (given == wanted || (given > wanted && or_more))
            return entry;
        (void)fprintf(stderr, "%s: %s takes %s%d argument%s, not %d; see %s --help\n", set->program,
                      command->name, or_more ? "at least " : "", wanted, wanted == 1 ? "" : "s",
                      given, set->program);
        return NULL;
    }
    (void)fprintf(stderr, "%s: unknown command \"%s\"; see %s --help\n", set->program, argv[1],
                  set->program);
    return NULL;
}

/* A program without a command was most likely started to see what it can do; one line tells it. */
static void list_commands(const struct ps_option_set *set, const void *table, size_t count,
                          size_t entry_size)
{
    (void)fprintf(stderr, "%s: which command?", set->program);
    for (size_t i = 0; i < count; i++) {
        const struct ps_command *command = (const void *)((const char *)table + i * entry_size);
        (void)fprintf(stderr, "%s %s", i > 0 ? "," : "", command->name);
    }
    (void)fprintf(stderr, "; see %s --help\n", set->program);
}
