/* psckpt: looks at checkpoints and journals on a disk, and makes new ones of them. */
#include "base/clock.h"
#include "base/options.h"
#include "tools/psckpt/psckpt_commands.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define OPTION(field, name_, type_, value, fallback_, choices_, help_)                           \
    {                                                                                            \
        .name = (name_), .type = (type_), .value_name = (value), .fallback = (fallback_),        \
        .choices = (choices_), .help = (help_), .offset = offsetof(struct psckpt_options, field) \
    }

static const struct ps_option table[] = {
    OPTION(etcd, "etcd", PS_OPTION_TEXT, "URL[,URL]", NULL, NULL,
           "list, prune: ask here which checkpoints are published."),
    OPTION(etcd_user, "etcd-user", PS_OPTION_TEXT, "NAME", NULL, NULL, "User of etcd."),
    {.name = "etcd-password",
     .type = PS_OPTION_TEXT,
     .value_name = "TEXT",
     .help = "Password of that user; better in the environment than on the command line.",
     .offset = offsetof(struct psckpt_options, etcd_password),
     .secret = true},
    OPTION(timeout_ms, "timeout", PS_OPTION_DURATION, "TIME", "10s", NULL,
           "How long to wait for etcd."),
    OPTION(output, "output", PS_OPTION_CHOICE, "FORM", "table", "table|json",
           "json prints one document on standard output and nothing else there."),
    OPTION(help, "help", PS_OPTION_FLAG, NULL, NULL, NULL, "Print this and exit."),
    OPTION(man, "man", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the man page and exit."),
    OPTION(version, "version", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the version and exit."),
};

static const struct ps_option_set options_set = {
    .program = "psckpt",
    .usage = "psckpt COMMAND PATH... [OPTION]...",
    .summary = "Looks at checkpoints on a disk, without any server. DIR is a server's --data-dir "
               "or the folder of one shard. Commands: list DIR (what is there), verify DIR|FILE "
               "(names what is damaged), show FILE (what is in it). "
               "Exit status: 0; 64 wrong usage; 65 something is damaged; 66 something cannot be "
               "read; 69 etcd does not answer; 71 no memory; 73 cannot write.",
    .examples = "  psckpt list /var/lib/pserver\n"
                "  psckpt verify /var/lib/pserver --output json\n",
    .environment = "PSERVER_",
    .options = table,
    .option_count = PS_ARRAY_COUNT(table),
};

struct command {
    const char *name;
    int argument_count;
    int (*run)(const struct psckpt *tool);
};

static const struct command commands[] = {
    {"list", 1, psckpt_list},
    {"verify", 1, psckpt_verify},
    {"show", 1, psckpt_show},
};

static int print_page(void (*write)(const struct ps_option_set *, struct ps_buffer *));
static const struct command *find_command(int word_count, char **argv);
static int run(const struct command *command, struct psckpt *tool);

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    struct psckpt tool = {.files = ps_files_real(), .memory = ps_allocator_heap()};
    struct ps_error error = {0};
    int words = 0;
    enum ps_status status = ps_options_defaults(&options_set, &tool.options, &error);
    if (status == PS_OK)
        status = ps_options_environment(&options_set, &tool.options, &error);
    if (status == PS_OK)
        status = ps_options_arguments(&options_set, &tool.options, argc, argv, &words, &error);
    if (status != PS_OK) {
        (void)fprintf(stderr, "psckpt: %s\n", error.text);
        return EX_USAGE;
    }
    if (tool.options.help)
        return print_page(ps_options_help);
    if (tool.options.man)
        return print_page(ps_options_man);
    if (tool.options.version) {
        (void)printf("psckpt %s\n", PS_VERSION);
        return EXIT_SUCCESS;
    }
    const struct command *command = find_command(words, argv);
    if (command == NULL)
        return EX_USAGE;
    tool.arguments = (const char *const *)argv + 2;
    return run(command, &tool);
}

static int print_page(void (*write)(const struct ps_option_set *, struct ps_buffer *))
{
    struct ps_buffer text;
    ps_buffer_init(&text, ps_allocator_heap(), 1 << 20);
    write(&options_set, &text);
    (void)fputs(text.text != NULL ? text.text : "", stdout);
    ps_buffer_fini(&text);
    return EXIT_SUCCESS;
}

static const struct command *find_command(int word_count, char **argv)
{
    if (word_count == 0) {
        (void)fprintf(stderr, "psckpt: which command? See psckpt --help\n");
        return NULL;
    }
    for (size_t i = 0; i < PS_ARRAY_COUNT(commands); i++) {
        if (strcmp(commands[i].name, argv[1]) != 0)
            continue;
        if (word_count - 1 == commands[i].argument_count)
            return &commands[i];
        (void)fprintf(stderr, "psckpt %s takes %d argument(s), not %d\n", argv[1],
                      commands[i].argument_count, word_count - 1);
        return NULL;
    }
    (void)fprintf(stderr, "psckpt: unknown command \"%s\"; see psckpt --help\n", argv[1]);
    return NULL;
}

/* What was printed counts only when it arrived. */
static int run(const struct command *command, struct psckpt *tool)
{
    struct progress progress;
    progress_init(&progress, ps_clock_real(), isatty(STDERR_FILENO) == 1);
    tool->progress = &progress;
    tool->json = strcmp(tool->options.output, "json") == 0;
    int code = command->run(tool);
    progress_end(&progress);
    if (fflush(stdout) != 0 && code == EXIT_SUCCESS) {
        (void)fprintf(stderr, "psckpt: cannot write to standard output\n");
        return EX_IOERR;
    }
    return code;
}
