/* SPDX-License-Identifier: Apache-2.0 */
/* psckpt: looks at checkpoints and journals on a disk, and makes new ones of them. The options of
 * all commands stand in one table, as in every program of this repository: the help page, the man
 * page and the environment come from it, so that a new option cannot be missing in one of them.
 * Most commands need no server and no network; only what is said to change something changes
 * anything, and every command that writes refuses a folder that is in use. */
#include "base/clock.h"
#include "base/options.h"
#include "base/output.h"
#include "base/program.h"
#include "tools/optimizer_choice.h"
#include "tools/psckpt/folder_owner.h"
#include "tools/psckpt/paths.h"
#include "tools/psckpt/psckpt_commands.h"
#include "tools/psckpt/psckpt_pages.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* A row of the table below: the field of struct psckpt_options that it fills, and all that the
 * pages say about it. */
#define OPTION(field, name_, type_, value, fallback_, choices_, help_)                           \
    {                                                                                            \
        .name = (name_), .type = (type_), .value_name = (value), .fallback = (fallback_),        \
        .choices = (choices_), .help = (help_), .offset = offsetof(struct psckpt_options, field) \
    }

/* An option that several commands take has its help text begin with their names. The password may
 * come from the environment (PSERVER_ETCD_PASSWORD): command lines are visible to every user of a
 * machine. */
static const struct ps_option table[] = {
    OPTION(etcd, "etcd", PS_OPTION_TEXT, "URL[,URL]", NULL, NULL,
           "list, prune, export --set: ask here which checkpoints are published. publish, repair, "
           "restore-set, salvage: "
           "publish here. Without it: in DIR/store, where a server without etcd looks."),
    PS_ETCD_ACCESS_OPTIONS(struct psckpt_options, etcd_access),
    OPTION(timeout_ms, "timeout", PS_OPTION_DURATION, "TIME", "10s", NULL,
           "How long to wait for etcd, and for the end of a lease."),
    OPTION(out, "out", PS_OPTION_TEXT, "NEWDIR", NULL, NULL,
           "replay, repair, salvage, reshard, import, export: the folder to make. Never one that "
           "is in "
           "use."),
    OPTION(in_place, "in-place", PS_OPTION_FLAG, NULL, NULL, NULL,
           "repair: exchange the folders of the shards; the old ones stay beside them."),
    OPTION(shard, "shard", PS_OPTION_TEXT, "NUMBER", NULL, NULL,
           "publish, repair, salvage: only this shard."),
    OPTION(to, "to", PS_OPTION_TEXT, "NUMBER", NULL, NULL,
           "replay, digest: the position to stop at. reshard, import: the number of shards."),
    OPTION(journal, "journal", PS_OPTION_FLAG, NULL, "true", NULL,
           "--no-journal: only the checkpoints, as if there were no journal."),
    OPTION(sessions, "sessions", PS_OPTION_FLAG, NULL, NULL, NULL,
           "digest: what is remembered of clients' requests counts too. show: list the clients."),
    OPTION(format, "format", PS_OPTION_CHOICE, "FORMAT", "safetensors", "safetensors|npy",
           "export: what to write."),
    OPTION(merge, "merge", PS_OPTION_FLAG, NULL, NULL, NULL,
           "export: one file merged.safetensors instead of one per parameter."),
    OPTION(split_bytes, "split-bytes", PS_OPTION_BYTES, "BYTES", "16MiB", NULL,
           "reshard, import: parameters above this size are cut. All clients must use the same."),
    OPTION(optimizer, "optimizer", PS_OPTION_CHOICE, "NAME", "sgd", PS_OPTIMIZER_CHOICES,
           "import: the optimizer of every parameter."),
    OPTION(rate, "rate", PS_OPTION_REAL, "NUMBER", NULL, NULL,
           "import: its learning rate; 0: the optimizer's own default."),
    OPTION(l2, "l2", PS_OPTION_REAL, "NUMBER", NULL, NULL, "import: its weight decay."),
    OPTION(job, "job", PS_OPTION_TEXT, "NAME", NULL, NULL,
           "import, reshard: the job that it is for."),
    OPTION(set, "set", PS_OPTION_TEXT, "NAME", NULL, NULL,
           "restore-set, export: the set of the whole model (psctl checkpoint --model)."),
    OPTION(keep, "keep", PS_OPTION_UINT, "NUMBER", "2", NULL,
           "prune: whole checkpoints that stay in each folder."),
    OPTION(output, "output", PS_OPTION_CHOICE, "FORM", "table", "table|json",
           "json prints one document on standard output and nothing else there."),
    OPTION(help, "help", PS_OPTION_FLAG, NULL, NULL, NULL, "Print this and exit."),
    OPTION(man, "man", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the man page and exit."),
    OPTION(version, "version", PS_OPTION_FLAG, NULL, NULL, NULL, "Print the version and exit."),
};

/* The exit statuses are part of the interface: backup scripts decide by them, see docs/psckpt.md.
 * The statuses 65, 66 and 69 are those of sysexits.h for damaged data, missing input and an
 * unavailable service. The commands' lines show their arguments in the order in which they are
 * typed. */
static const struct ps_option_set options_set = {
    .program = "psckpt",
    .usage = "psckpt COMMAND PATH... [OPTION]...",
    .summary =
        "Looks at checkpoints and journals on a disk, without any server, and makes new ones of "
        "them.\nDIR is a server's --data-dir or the folder of one shard; nothing in it is changed "
        "but by prune, "
        "publish, restore-set and repair --in-place.",
    .statuses = "  0   it worked; diff: nothing differs; verify: nothing is damaged\n"
                "  1   diff: something differs; salvage: something is left out\n"
                "  64  wrong usage\n"
                "  65  something is damaged, or of a later version\n"
                "  66  something is not there, or cannot be read or written\n"
                "  67  verify: all is whole, but acknowledged pushes are missing: given up\n"
                "  69  etcd does not answer, or a server owns the shard\n"
                "  70  a fault of psckpt itself\n"
                "  71  no memory\n"
                "  73  the new folder is not empty\n"
                "  74  standard output fails\n",
    .examples = "  psckpt list /var/lib/pserver --etcd http://127.0.0.1:2379\n"
                "  psckpt verify /var/lib/pserver --output json\n"
                "  psckpt digest /var/lib/pserver\n"
                "  psckpt repair /var/lib/pserver --in-place\n"
                "  psckpt publish /shared/job --shard 1 --etcd http://127.0.0.1:2379\n"
                "  psckpt export /var/lib/pserver --out model --merge\n"
                "  psckpt import model.safetensors --to 4 --optimizer adam --out /var/lib/pserver\n"
                "  psckpt reshard /var/lib/pserver --to 8 --out /var/lib/pserver-8\n",
    .environment = "PSERVER_",
    .options = table,
    .option_count = PS_ARRAY_COUNT(table),
};

/* The name and the number of words come first, as ps_program_command expects of a row. */
struct command {
    struct ps_command about;
    enum ps_status (*run)(const struct psckpt *tool, struct ps_error *error);
    bool is_for_server; /* what it makes, in the folder or in --out, a server is to read */
};

/* A command is one row: its name, how many words follow it, and the function. The word count is
 * checked before the function runs, so no function looks for missing arguments. */
static const struct command commands[] = {
    {{.name = "list", .argument_count = 1}, psckpt_list, false},
    {{.name = "verify", .argument_count = 1}, psckpt_verify, false},
    {{.name = "show", .argument_count = 1}, psckpt_show, false},
    {{.name = "rounds", .argument_count = 1}, psckpt_rounds, false},
    {{.name = "diff", .argument_count = 2}, psckpt_diff, false},
    {{.name = "digest", .argument_count = 1}, psckpt_digest, false},
    {{.name = "replay", .argument_count = 1}, psckpt_replay, true},
    {{.name = "repair", .argument_count = 1}, psckpt_repair, true},
    {{.name = "export", .argument_count = 1}, psckpt_export, false},
    {{.name = "import", .argument_count = 1}, psckpt_import, false},
    {{.name = "reshard", .argument_count = 1}, psckpt_reshard, true},
    {{.name = "prune", .argument_count = 1}, psckpt_prune, true},
    {{.name = "publish", .argument_count = 1}, psckpt_publish, true},
    {{.name = "salvage", .argument_count = 1}, psckpt_salvage, true},
    {{.name = "restore-set", .argument_count = 1}, psckpt_restore_set, true},
};

static int obey(int argc, char **argv);
static bool is_about_psckpt(struct psckpt *tool, int words, char **argv, int *code);
static int run(const struct command *command, struct psckpt *tool);
static enum ps_status run_for_owner(const struct command *command, const struct psckpt *tool,
                                    struct ps_error *error);
static int complain(const struct command *command, const struct psckpt *tool, enum ps_status status,
                    struct ps_error *error);

/* Printed text counts only when it arrived: standard output is flushed here, because a full disk
 * behind a redirection shows only then, and a backup script that reads an empty document must not
 * see status 0. */
int main(int argc, char **argv)
{
    return ps_output_end("psckpt", obey(argc, argv));
}

/* A pipe that is closed by its reader (psckpt list | head) must end in an exit status, not in a
 * signal. The command is looked up before anything is opened. Memory and files are the real ones
 * here and nowhere else: everything below gets them handed down, so that tests can hand down
 * others. */
static int obey(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    struct psckpt tool = {.box = {.files = ps_files_real(), .memory = ps_allocator_heap()}};
    const struct ps_command_table pages = psckpt_pages();
    /* One line for each command; room for many more than there are. */
    char lines[4096];
    struct ps_buffer list;
    ps_buffer_init_fixed(&list, lines, sizeof lines);
    ps_command_list(&pages, &list);
    struct ps_option_set set = options_set;
    set.commands = lines;
    int words = 0;
    int code = EXIT_SUCCESS;
    if (!ps_program_read(&set, &tool.options, argc, argv, &words, &code) ||
        is_about_psckpt(&tool, words, argv, &code) || !ps_program_go_on(&set, &tool.options, &code))
        return code;
    const struct command *command = ps_program_command(&set, commands, PS_ARRAY_COUNT(commands),
                                                       sizeof commands[0], words, argv);
    if (command == NULL)
        return EX_USAGE;
    /* Options were moved behind the words, so these are the command's own. */
    tool.arguments = (const char *const *)argv + 2;
    return run(command, &tool);
}

/* Questions about psckpt itself, for which no folder is needed. "help" alone is --help, and
 * "repair --help" is "help repair"; with a word that is no command --help is the program's page. */
static bool is_about_psckpt(struct psckpt *tool, int words, char **argv, int *code)
{
    const struct ps_command_table pages = psckpt_pages();
    const char *command = words > 0 ? argv[1] : "";
    bool help = strcmp(command, "help") == 0;
    bool is_asked = tool->options.help && !help && ps_command_find(&pages, command) != NULL;
    if ((help && words == 2) || is_asked)
        *code = psckpt_help(&options_set, help ? argv[2] : command);
    else if (strcmp(command, "completion") == 0 && words == 2)
        *code = psckpt_completion(&options_set, argv[2]);
    else {
        tool->options.help |= help && words == 1;
        return false;
    }
    return true;
}

/* A command sets *tool->code when it did its work and has something to say by it: a difference,
 * damage, something left out. */
static int run(const struct command *command, struct psckpt *tool)
{
    /* The progress line is for a person at a terminal; a log file would fill up with thousands of
     * carriage returns. */
    struct progress progress;
    progress_init(&progress, ps_clock_real(), isatty(STDERR_FILENO) == 1);
    tool->box.progress = &progress;
    tool->json = strcmp(tool->options.output, "json") == 0;
    int code = EXIT_SUCCESS;
    struct ps_error error = {0};
    tool->code = &code;
    enum ps_status status = run_for_owner(command, tool, &error);
    /* The line has to be gone before a complaint is printed over it. */
    progress_end(&progress);
    /* A command that failed has printed nothing that counts, and its failure is the status. */
    if (status != PS_OK)
        return complain(command, tool, status, &error);
    return code;
}

/* Also what a command that failed has made: the next one of the folder's owner may have to write
 * over it. Said, since root's files changing hands is nothing to find out by chance. */
static enum ps_status run_for_owner(const struct command *command, const struct psckpt *tool,
                                    struct ps_error *error)
{
    struct folder_owner owner = {.is_another = false};
    if (command->is_for_server)
        folder_owner_look(&owner, tool->arguments[0]);
    enum ps_status status = command->run(tool, error);
    size_t given = folder_owner_give(&owner, tool->arguments[0]);
    if (tool->options.out != NULL)
        given += folder_owner_give(&owner, tool->options.out);
    if (given > 0)
        (void)fprintf(stderr,
                      "psckpt: %zu files and folders of root's are given to the owner of %s, user "
                      "%u\n",
                      given, tool->arguments[0], owner.user);
    return status;
}

/* Whoever reads a file by itself does not know who asked: of one that was named, which it is and
 * the next command are said here. Of a folder the functions name the file, and verify the way out.
 */
static int complain(const struct command *command, const struct psckpt *tool, enum ps_status status,
                    struct ps_error *error)
{
    const char *path = tool->arguments[0];
    bool is_damaged_file = status == PS_ERR_CORRUPT && command->about.argument_count == 1 &&
                           command->run != psckpt_import && !path_is_folder(tool->box.files, path);
    struct ps_error named = *error;
    if (is_damaged_file && strncmp(error->text, path, strlen(path)) != 0)
        (void)ps_fail(&named, status, "%s: %s", path, error->text);
    int code = psckpt_complain(status, &named);
    if (is_damaged_file && command->run != psckpt_salvage)
        (void)fprintf(stderr,
                      "psckpt: what is damaged in it: psckpt verify FILE; what is whole: psckpt "
                      "salvage FILE --out NEWDIR\n");
    return code;
}
