/* SPDX-License-Identifier: Apache-2.0 */
/* psctl: looks at a running job and asks it for things. */
#include "base/options.h"
#include "base/output.h"
#include "base/program.h"
#include "client/psclient.h"
#include "tools/psctl/psctl_commands.h"
#include "tools/psctl/psctl_pages.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#define OPTION(field, name_, type_, value, fallback_, choices_, help_)                          \
    {                                                                                           \
        .name = (name_), .type = (type_), .value_name = (value), .fallback = (fallback_),       \
        .choices = (choices_), .help = (help_), .offset = offsetof(struct psctl_options, field) \
    }

/* Options of all commands; --yes and --dry-run are of those that change something. */
static const struct ps_option table[] = {
    PS_JOB_PLACE_OPTIONS(struct psctl_options, place),
    OPTION(timeout_ms, "timeout", PS_OPTION_DURATION, "TIME", "10s", NULL,
           "How long to wait for an answer, of each server."),
    OPTION(output, "output", PS_OPTION_CHOICE, "FORM", "table", "table|json",
           "json prints one document on standard output and nothing else there."),
    OPTION(model, "model", PS_OPTION_FLAG, NULL, NULL, NULL,
           "checkpoint: one set of the whole model."),
    OPTION(set, "set", PS_OPTION_TEXT, "NAME", NULL, NULL,
           "checkpoint --model: what the set is called. Without it: by the time."),
    OPTION(group, "group", PS_OPTION_TEXT, "NAME", NULL, NULL,
           "workers: of this group. Without it: of all; all: the servers, too."),
    OPTION(watch, "watch", PS_OPTION_FLAG, NULL, NULL, NULL,
           "workers: go on, and print anew whenever somebody comes or goes."),
    OPTION(yes, "yes", PS_OPTION_FLAG, NULL, NULL, NULL, "drop, drop-clocks: yes, they are to go."),
    OPTION(dry_run, "dry-run", PS_OPTION_FLAG, NULL, NULL, NULL,
           "set: say what would change, and change nothing."),
    OPTION(help, "help", PS_OPTION_FLAG, NULL, NULL, NULL, "Print this and exit."),
    OPTION(man, "man", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the man page and exit."),
    OPTION(version, "version", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the version and exit."),
};

static const struct ps_option_set options_set = {
    .program = "psctl",
    .usage = "psctl COMMAND (--etcd URL | --servers HOST:PORT,...) [OPTION]...",
    .summary = "Looks at a running job and asks it for things.",
    .statuses = "  0   every server answered, and what was asked for was done\n"
                "  64  wrong usage\n"
                "  65  there is no such parameter\n"
                "  69  a server or etcd does not answer, does not serve (health), or refuses\n"
                "  71  no memory\n"
                "  74  standard output fails\n",
    .examples = "  psctl status --etcd http://127.0.0.1:2379\n"
                "  psctl params --servers 127.0.0.1:8000 --output json\n"
                "  psctl get linear/bias --etcd http://127.0.0.1:2379\n"
                "  psctl set 'linear/*' lr=0.01 --etcd http://127.0.0.1:2379\n"
                "  psctl checkpoint --etcd http://127.0.0.1:2379\n",
    .environment = "PSERVER_",
    .options = table,
    .option_count = PS_ARRAY_COUNT(table),
};

static int obey(int argc, char **argv);
static bool is_about_psctl(const struct psctl_table *commands, struct psctl *control, int words,
                           char **argv, int *code);
static int run(const struct psctl_entry *command, struct psctl *control);

/* Output that could not be written ends in status 74, whatever the command says: a full disk
 * under a table must not look like a short table. */
int main(int argc, char **argv)
{
    return ps_output_end("psctl", obey(argc, argv));
}

/* The words are looked at before the options are checked as a whole: "psctl help get" and "psctl
 * completion bash" must work where no server is named. */
static int obey(int argc, char **argv)
{
    /* A reader that goes away (psctl params | head) is an error of writing, not a death by
     * signal. */
    (void)signal(SIGPIPE, SIG_IGN);
    /* The library tells why a connection does not come up; gRPC would say it once for each try. */
    (void)setenv("GRPC_VERBOSITY", "NONE", 0);
    struct psctl_table commands;
    psctl_table_init(&commands);
    const struct ps_command_table pages = psctl_pages(&commands);
    /* One line for each command; room for many more than there are. */
    char lines[4096];
    struct ps_buffer list;
    ps_buffer_init_fixed(&list, lines, sizeof lines);
    ps_command_list(&pages, &list);
    struct ps_option_set set = options_set;
    set.commands = lines;
    struct psctl control = {0};
    int words = 0;
    int code = EXIT_SUCCESS;
    if (!ps_program_read(&set, &control.options, argc, argv, &words, &code) ||
        is_about_psctl(&commands, &control, words, argv, &code) ||
        !ps_program_go_on(&set, &control.options, &code))
        return code;
    const struct psctl_entry *command =
        ps_program_command(&set, commands.entries, PS_ARRAY_COUNT(commands.entries),
                           sizeof commands.entries[0], words, argv);
    if (command == NULL)
        return EX_USAGE;
    /* ps_program_command has refused any other number of words. */
    control.argument = words > 1 ? argv[2] : NULL;
    control.words = argv + 2;
    control.word_count = words > 1 ? (size_t)words - 1 : 0;
    return run(command, &control);
}

/* Questions about psctl itself: no server is asked. True: answered, with `*code`. "help" alone is
 * --help, "version" is --version. */
static bool is_about_psctl(const struct psctl_table *commands, struct psctl *control, int words,
                           char **argv, int *code)
{
    const struct ps_command_table pages = psctl_pages(commands);
    const char *command = words > 0 ? argv[1] : "";
    bool help = strcmp(command, "help") == 0;
    /* "help" with one word behind it is a page; "help" alone is the page of the program, below. */
    if (help && words == 2) {
        *code = psctl_help(commands, &options_set, argv[2]);
        return true;
    }
    if (strcmp(command, "completion") == 0 && words == 2) {
        *code = psctl_completion(commands, &options_set, argv[2]);
        return true;
    }
    /* "psctl drain --help" is "psctl help drain"; with a word that is no command --help is the
     * page of the program. */
    if (control->options.help && !help && ps_command_find(&pages, command) != NULL) {
        *code = psctl_help(commands, &options_set, command);
        return true;
    }
    control->options.help |= help && words == 1;
    control->options.version |= strcmp(command, "version") == 0 && words == 1;
    return false;
}

/* Opens the client once for all commands, so that each begins with the job found. A job that
 * cannot be found is unavailable; a place that is no place is wrong usage, and said before
 * anything is asked. */
static int run(const struct psctl_entry *command, struct psctl *control)
{
    const struct psctl_options *options = &control->options;
    /* Both places, or none, is the most common slip: one of the two may come from the
     * environment, and the text says so. */
    struct ps_error misplaced = {0};
    if (ps_job_place_check(&options->place, &misplaced) != PS_OK) {
        (void)fprintf(stderr, "psctl: %s\n", misplaced.text);
        return EX_USAGE;
    }
    struct psclient_error error = {0};
    if (psctl_open(control, 0, &control->client, &error) != PSCLIENT_OK) {
        (void)fprintf(stderr, "psctl: cannot find the servers: %s\n", error.text);
        return error.status == PSCLIENT_INVALID ? EX_USAGE : EX_UNAVAILABLE;
    }
    /* The option is a choice: it is one of two words here. */
    control->json = strcmp(options->output, "json") == 0;
    int code = command->run(control);
    /* Whatever the command did, nothing of psctl is left in flight: each call has waited for its
     * answer. */
    psclient_close(control->client);
    return code;
}

/* No split size is 0, which leaves it to the client; psctl get says one, since it must find what
 * others have cut. */
int psctl_open(const struct psctl *control, uint64_t split_bytes, struct psclient **client,
               struct psclient_error *error)
{
    const struct psctl_options *options = &control->options;
    struct psclient_options wish = {
        .open_timeout_ms = options->timeout_ms,
        .split_bytes = split_bytes,
    };
    ps_job_place_tell(&options->place, &wish);
    return psclient_open(&wish, client, error);
}
