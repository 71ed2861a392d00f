/* SPDX-License-Identifier: Apache-2.0 */
/* psctl's table of commands, and what it says of itself. */
#include "tools/psctl/psctl_pages.h"

#include "base/command_print.h"
#include "base/completion.h"

#include <string.h>

/* Commands about psctl itself: main answers, and no server is asked. */
static const struct ps_command_page help = {.name = "help",
                                            .argument = "[COMMAND]",
                                            .summary = "what a command does, with examples",
                                            .text = "The same as psctl COMMAND --help.\n",
                                            .examples = "  psctl help checkpoint\n"};
static const struct ps_command_page version = {
    .name = "version",
    .summary = "the version of psctl",
    .text = "psctl status --output json shows that of each server.\n"};
/* How to install the script is all that its page needs to say. */
static const struct ps_command_page completion = {
    .name = "completion",
    .argument = PS_COMPLETION_SHELLS,
    .summary = "a script that has the shell complete psctl",
    .examples = "  source <(psctl completion bash)         # in ~/.bashrc\n"
                "  source <(psctl completion zsh)          # in ~/.zshrc, behind compinit\n"
                "  psctl completion fish | source          # in ~/.config/fish/config.fish\n"};

/* A word in brackets may be left out; base/program.h knows commands by the words that must be. */
static struct ps_command command_of(const struct ps_command_page *page)
{
    struct ps_command command = {.name = page->name};
    if (page->argument == NULL || page->argument[0] == '[')
        return command;
    /* Choices ("bash|zsh|fish") are one word, too. */
    command.argument_count = 1;
    /* "NAME VALUE..." are two words at least: what may be repeated has to be there once. */
    for (const char *at = page->argument; *at != '\0'; at++)
        command.argument_count += *at == ' ' ? 1 : 0;
    if (strstr(page->argument, "...") != NULL)
        command.argument_count = -command.argument_count;
    return command;
}

/* Page and entry of a command have one number, so that the order of the help is the order of the
 * rows. */
static void put(struct psctl_table *table, size_t number, const struct ps_command_page *page,
                int (*run)(const struct psctl *control))
{
    table->pages[number] = *page;
    table->entries[number] = (struct psctl_entry){command_of(page), run};
}

/* Filled at run time: what a command says stands in its own file, and C lets no constant be made
 * of another file's constant. */
void psctl_table_init(struct psctl_table *table)
{
#define PUT(name) put(table, PSCTL_NUMBER_##name, &psctl_##name.page, psctl_##name.run);
    PSCTL_TABLE(PUT)
#undef PUT
    put(table, PSCTL_HELP, &help, NULL);
    put(table, PSCTL_VERSION, &version, NULL);
    put(table, PSCTL_COMPLETION, &completion, NULL);
}

/* A view, made again where it is needed: it is two words. */
struct ps_command_table psctl_pages(const struct psctl_table *table)
{
    return (struct ps_command_table){table->pages, PSCTL_COMMANDS};
}

int psctl_help(const struct psctl_table *table, const struct ps_option_set *set,
               const char *command)
{
    const struct ps_command_table pages = psctl_pages(table);
    return ps_command_print_help(set, &pages, command);
}

int psctl_completion(const struct psctl_table *table, const struct ps_option_set *set,
                     const char *shell)
{
    const struct ps_command_table pages = psctl_pages(table);
    return ps_command_print_completion(set, &pages, shell);
}
