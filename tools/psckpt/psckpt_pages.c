/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of psckpt's commands: what to type at night, with the ways out beside it. What each
 * command promises is in docs/psckpt.md; a page has what somebody asks who is about to type it. */
#include "tools/psckpt/psckpt_pages.h"

#include "base/command_print.h"
#include "base/completion.h"

/* A page is a screen; a completion script is a few kilobytes. */
/* Looking first, then what makes a state whole again, then exchanging: the order in which they are
 * needed. Paths are those of a server's package, so that an example can be pasted. */
static const struct ps_command_page pages[] = {
    /* The first thing that anybody types: it never judges, so that its status is 0 beside
     * damage. */
    {.name = "list",
     .argument = "DIR",
     .summary = "what is there",
     .text = "Every shard's checkpoints and journal segments, each read to its end: whole,\n"
             "damaged, unreadable, or no-base. With --etcd: which one is published.\n",
     .examples = "  psckpt list /var/lib/pserver --etcd http://127.0.0.1:2379\n"},
    /* Whoever types it has a server that does not start, or a backup to trust: the way on stands
     * in the page and not only behind the output, which may be in a log that has rotated. */
    {.name = "verify",
     .argument = "DIR|FILE",
     .summary = "names what is damaged",
     .text = "Of each damaged file the tensors and their bytes, or the record; a base or a\n"
             "journal that is not there; pushes that were acknowledged and are missing.\n"
             "Status 65: something is damaged. Then: psckpt repair, or psckpt salvage.\n",
     .examples = "  psckpt verify /var/lib/pserver\n"
                 "  psckpt verify /var/lib/pserver --output json\n"},
    /* Of one file, since "which of them?" is a question for the operator. */
    {.name = "show",
     .argument = "FILE",
     .summary = "what is in a checkpoint",
     .text = "Its facts, and a row for each parameter; --sessions lists the clients that it\n"
             "remembers, --output json also says how old the rows of tables were.\n",
     .examples = "  psckpt show /var/lib/pserver/shard-0/FILE.safetensors --sessions\n"},
    /* Asked when two runs differ in their bits: which worker was not waited for, and when. */
    {.name = "rounds",
     .argument = "DIR",
     .summary = "who counted in each round of the journal",
     .examples = "  psckpt rounds /var/lib/pserver\n"},
    /* A migration ends with it, and so does a drill of a recovery. */
    {.name = "diff",
     .argument = "A B",
     .summary = "parameters that differ",
     .text = "A and B are folders or files. Status 1: something differs.\n",
     .examples = "  psckpt diff /var/lib/pserver /backup/pserver\n"},
    /* For a cron job that compares a copy with what it was made of; positions are for who looks
     * for the push at which two servers went apart. */
    {.name = "digest",
     .argument = "DIR|FILE",
     .summary = "one hash of the state",
     .text = "Equal states have equal digests, whatever files they come from. --no-journal:\n"
             "of the checkpoints alone. --to POSITION, of one shard: of the state then.\n",
     .examples = "  psckpt digest /var/lib/pserver\n"
                 "  psckpt digest /var/lib/pserver/shard-0 --to 1200\n"},
    /* The page that is read in a hurry: what it will not do comes before the examples, and the
     * one that changes nothing stands before the one that does. */
    {.name = "repair",
     .argument = "DIR",
     .summary = "goes back to the last good state (--in-place, or --out NEWDIR)",
     .text = "The newest whole checkpoint of every shard, and the journal up to its end or to\n"
             "the first damaged record. It says what is left out, and changes nothing unless\n"
             "every shard has a good state. --in-place keeps what was there beside it, as\n"
             "shard-<i>.before-<n>. Stop the servers first.\n",
     .examples = "  psckpt repair /var/lib/pserver --out /var/lib/pserver-repaired\n"
                 "  psckpt repair /var/lib/pserver --in-place\n"},
    /* Behind repair, since it is for when that has refused: it may mix instants, which it says. */
    {.name = "salvage",
     .argument = "DIR|FILE",
     .summary = "every tensor that is whole, to --out NEWDIR",
     .text = "When no checkpoint is whole as a file: each parameter from the newest one in\n"
             "which it is, also from before the cut of a file that was cut off, and the\n"
             "journal behind that. Status 1: something is left out, and said.\n",
     .examples = "  psckpt salvage /var/lib/pserver --out /var/lib/pserver-salvaged\n"
                 "  psckpt salvage copy.safetensors --out NEWDIR\n"},
    /* For questions about the past: it makes a new folder, and no server goes on from it by
     * itself. */
    {.name = "replay",
     .argument = "DIR",
     .summary = "the state at a position, to --out NEWDIR (--to POSITION)",
     .text = "Of one shard, right after that push, as a new checkpoint.\n",
     .examples = "  psckpt replay /var/lib/pserver/shard-0 --to 1200 --out NEWDIR\n"},
    /* The one command that gives something up on purpose; how much is told, and cannot be
     * undone. */
    {.name = "publish",
     .argument = "DIR",
     .summary = "a server goes on from what is there",
     .text = "Though the store speaks of something newer that is gone. It says how many pushes\n"
             "are given up. A folder with damage in it is refused: psckpt repair. --shard I:\n"
             "that one alone. Without --etcd: in DIR/store, where a server without etcd looks.\n",
     .examples = "  psckpt publish /shared/job --shard 1 --etcd http://127.0.0.1:2379\n"},
    /* All shards or none: a job of which half went back is worse than one that did not. */
    {.name = "restore-set",
     .argument = "DIR",
     .summary = "all shards go back to one set (--set NAME)",
     .text = "A set is made by psctl checkpoint --model. No server may own a shard.\n",
     .examples =
         "  psckpt restore-set /var/lib/pserver --set monday --etcd http://127.0.0.1:2379\n"},
    /* For other programs: no optimizer state, no sessions. Who wants to train on takes the
     * checkpoint itself. */
    {.name = "export",
     .argument = "DIR|FILE",
     .summary = "plain safetensors or npy, to --out NEWDIR",
     .text = "A file for each parameter, or one with --merge. A table is a matrix NAME and its\n"
             "keys ps.keys/NAME, rising. --set NAME: of that set of the whole model.\n",
     .examples = "  psckpt export /var/lib/pserver --out model --merge\n"
                 "  psckpt export /var/lib/pserver --out model --format npy\n"},
    /* The other way round, and lossless for what export wrote but for ages, versions and steps. */
    {.name = "import",
     .argument = "FILE",
     .summary = "from plain safetensors, to --out NEWDIR",
     .text = "As the checkpoints of a new job over --to shards, with --optimizer. A matrix NAME\n"
             "beside ps.keys/NAME becomes a table, whose rows begin to age anew.\n",
     .examples =
         "  psckpt import model.safetensors --to 4 --optimizer adam --out /var/lib/pserver\n"},
    /* Both folders exist afterwards: who finds the new job wrong starts the old one again. */
    {.name = "reshard",
     .argument = "DIR",
     .summary = "the state on --to shards, to --out NEWDIR",
     .text = "Start the new servers with --num-pservers of that number, on the new folder, with\n"
             "an etcd or a --job of their own, which is to be said here, too.\n",
     .examples = "  psckpt reshard /var/lib/pserver --to 8 --out /var/lib/pserver-8\n"
                 "  psckpt reshard /var/lib/pserver/v1 --to 8 --job v2 --out /var/lib/pserver\n"},
    /* What it keeps is said before what goes: bases, the published file, and sets are easily
     * forgotten. */
    {.name = "prune",
     .argument = "DIR",
     .summary = "removes what no recovery needs",
     .text = "All but --keep whole checkpoints of each folder, the published one, bases that are\n"
             "needed and files of sets; then the journal before them.\n",
     .examples = "  psckpt prune /var/lib/pserver --keep 3 --etcd http://127.0.0.1:2379\n"},
    {.name = "help",
     .argument = "[COMMAND]",
     .summary = "what a command does, with examples",
     .text = "The same as psckpt COMMAND --help.\n",
     .examples = "  psckpt help repair\n"},
    {.name = "completion",
     .argument = PS_COMPLETION_SHELLS,
     .summary = "a script that has the shell complete psckpt",
     .examples = "  source <(psckpt completion bash)        # in ~/.bashrc\n"
                 "  source <(psckpt completion zsh)         # in ~/.zshrc, behind compinit\n"
                 "  psckpt completion fish | source         # in ~/.config/fish/config.fish\n"},
};

struct ps_command_table psckpt_pages(void)
{
    return (struct ps_command_table){pages, sizeof pages / sizeof pages[0]};
}

int psckpt_help(const struct ps_option_set *set, const char *command)
{
    const struct ps_command_table table = psckpt_pages();
    return ps_command_print_help(set, &table, command);
}

int psckpt_completion(const struct ps_option_set *set, const char *shell)
{
    const struct ps_command_table table = psckpt_pages();
    return ps_command_print_completion(set, &table, shell);
}
