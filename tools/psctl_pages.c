/* The pages of psctl's commands. */
#include "tools/psctl_pages.h"

#include "base/alloc.h"
#include "base/completion.h"

#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#define PAGE_BYTES_MAX ((size_t)1 << 16)

static const struct ps_command_page pages[] = {
    {.name = "status",
     .summary = "every server's state",
     .text = "A row for each shard: who serves it, in which state, what it holds, up to\n"
             "which position it has applied and saved. States: starting, recovering,\n"
             "uninitialized, ready, fenced (its lease is not proved), draining; missing:\n"
             "nobody answers.\n",
     .examples = "  psctl status --etcd http://127.0.0.1:2379\n"
                 "  psctl status --servers 127.0.0.1:8000 --output json --timeout 2\n"},
    {.name = "members",
     .summary = "who serves which index",
     .examples = "  psctl members --etcd http://127.0.0.1:2379\n"},
    {.name = "health",
     .summary = "does every server serve? The exit status says it",
     .text = "Exit status 0: every shard has a server that serves: it says of itself ready,\n"
             "or uninitialized while the job waits for its first parameters. 69: one does\n"
             "not, or does not answer. What gRPC's health service and /readyz say of one\n"
             "server, this says of all.\n",
     .examples = "  psctl health --etcd http://127.0.0.1:2379 --timeout 2 && echo all serve\n"
                 "  until psctl health --servers 127.0.0.1:8000 --timeout 1; do sleep 1; done\n"},
    {.name = "params",
     .summary = "all parameters",
     .text = "Server by server, in the order of their names. A large one is cut: NAME#i/n\n"
             "is its range on server i.\n",
     .examples = "  psctl params --servers 127.0.0.1:8000 --output json\n"},
    {.name = "get",
     .argument = "NAME",
     .summary = "a parameter's values",
     .text = "One value a line, or with --output json the name, type, version and values.\n"
             "One that was cut over the servers is put together.\n",
     .examples = "  psctl get linear/bias --etcd http://127.0.0.1:2379\n"},
    {.name = "checkpoint",
     .summary = "write one now on every server",
     .text = "Says where each is when it is on disk and published, or why it could not be\n"
             "written.\n",
     .examples = "  psctl checkpoint --etcd http://127.0.0.1:2379 --timeout 5m\n"},
    {.name = "drain",
     .argument = "INDEX",
     .summary = "have one server end cleanly",
     .text = "The server does what SIGTERM does: calls in flight finish, a last checkpoint\n"
             "is written, the shard is given back, and the process ends with 0. psctl says\n"
             "that it was told, and does not wait for the end. A spare takes over at once;\n"
             "whether the process is started again is its supervisor's business.\n",
     .examples = "  psctl drain 0 --etcd http://127.0.0.1:2379\n"},
    {.name = "help",
     .argument = "[COMMAND]",
     .summary = "what a command does, with examples",
     .text = "The same as psctl COMMAND --help.\n",
     .examples = "  psctl help checkpoint\n"},
    {.name = "version",
     .summary = "the version of psctl",
     .text = "psctl status --output json shows that of each server.\n"},
    {.name = "completion",
     .argument = PS_COMPLETION_SHELLS,
     .summary = "a script that has the shell complete psctl",
     .examples = "  source <(psctl completion bash)         # in ~/.bashrc\n"
                 "  source <(psctl completion zsh)          # in ~/.zshrc, behind compinit\n"
                 "  psctl completion fish | source          # in ~/.config/fish/config.fish\n"},
};

static const struct ps_command_table table = {pages, PS_ARRAY_COUNT(pages)};

const struct ps_command_table *psctl_pages(void)
{
    return &table;
}

static int print(struct ps_buffer *text)
{
    bool whole = ps_buffer_status(text, NULL) == PS_OK;
    if (whole)
        (void)fputs(text->text != NULL ? text->text : "", stdout);
    ps_buffer_fini(text);
    return whole ? EXIT_SUCCESS : EX_OSERR;
}

int psctl_help(const struct ps_option_set *set, const char *command)
{
    const struct ps_command_page *page = ps_command_find(&table, command);
    if (page == NULL) {
        (void)fprintf(stderr, "psctl: unknown command \"%s\"; see psctl --help\n", command);
        return EX_USAGE;
    }
    struct ps_buffer text;
    ps_buffer_init(&text, ps_allocator_heap(), PAGE_BYTES_MAX);
    ps_command_help(set, page, &text);
    return print(&text);
}

int psctl_completion(const struct ps_option_set *set, const char *shell)
{
    struct ps_buffer script;
    ps_buffer_init(&script, ps_allocator_heap(), PAGE_BYTES_MAX);
    if (ps_completion_write(set, &table, shell, &script))
        return print(&script);
    ps_buffer_fini(&script);
    (void)fprintf(stderr, "psctl: completion \"%s\": expected one of %s\n", shell,
                  PS_COMPLETION_SHELLS);
    return EX_USAGE;
}
