/* What every program does before its work. */
#include "base/program.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

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
    PS_TRY(ps_options_defaults(set, values, error));
    PS_TRY(ps_options_environment(set, values, error));
    return ps_options_arguments(set, values, argc, argv, word_count, error);
}

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
    PS_ASSERT(entry_size >= sizeof(struct ps_command));
    if (word_count == 0) {
        list_commands(set, table, count, entry_size);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        const void *entry = (const char *)table + i * entry_size;
        const struct ps_command *command = entry;
        if (strcmp(command->name, argv[1]) != 0)
            continue;
        if (word_count - 1 == command->argument_count)
            return entry;
        (void)fprintf(stderr, "%s: %s takes %d argument%s, not %d; see %s --help\n", set->program,
                      command->name, command->argument_count,
                      command->argument_count == 1 ? "" : "s", word_count - 1, set->program);
        return NULL;
    }
    (void)fprintf(stderr, "%s: unknown command \"%s\"; see %s --help\n", set->program, argv[1],
                  set->program);
    return NULL;
}

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
