/* SPDX-License-Identifier: Apache-2.0 */
/* What psckpt's commands share: the options, and one function per command.
 *
 * Threads:  one.
 * Blocking: for the disk; for etcd with --etcd, until --timeout.
 * Errors:   a command that fails says why in `error`, and its status gives the exit status.
 * Memory:   options point into argv and the environment.
 */
#ifndef PS_TOOLS_PSCKPT_COMMANDS_H
#define PS_TOOLS_PSCKPT_COMMANDS_H

#include "base/status.h"
#include "tools/psckpt/published.h"
#include "tools/psckpt/toolbox.h"

struct psckpt_options {
    const char *etcd;
    struct ps_etcd_access etcd_access;
    uint64_t timeout_ms;
    const char *output;
    const char *out;
    const char *to;
    const char *shard;
    const char *format;
    const char *optimizer;
    const char *job;
    const char *set;
    double rate;
    double l2;
    uint64_t split_bytes;
    uint64_t keep;
    bool journal;
    bool sessions;
    bool merge;
    bool in_place;
    bool help;
    bool man;
    bool version;
};

struct psckpt {
    struct psckpt_options options;
    bool json;
    const char *const *arguments; /* the words after the command */
    struct toolbox box;
    int *code; /* the exit status of a command that did its work; 0 unless a command says so */
};

#define COMMAND(name) \
    PS_MUST_USE enum ps_status psckpt_##name(const struct psckpt *tool, struct ps_error *error)
COMMAND(list);
COMMAND(verify);
COMMAND(show);
COMMAND(rounds);
COMMAND(diff);
COMMAND(digest);
COMMAND(replay);
COMMAND(repair);
COMMAND(salvage);
COMMAND(publish);
COMMAND(export);
COMMAND(import);
COMMAND(reshard);
COMMAND(restore_set);
COMMAND(prune);
#undef COMMAND

/* Of verify: everything is whole, and acknowledged updates are missing all the same. */
#define PSCKPT_EXIT_MISSING 67

/* Says on standard error what went wrong, and returns the exit status for it: EX_DATAERR for
 * damage, EX_NOINPUT for what cannot be read, EX_USAGE, EX_UNAVAILABLE (etcd), EX_OSERR. */
int psckpt_complain(enum ps_status status, const struct ps_error *error);

/* PS_ERR_BAD_INPUT when --out is missing. */
PS_MUST_USE enum ps_status psckpt_check_out(const struct psckpt *tool, struct ps_error *error);

/* `path` as a path from the root, as servers publish them. `size` is that of `full`.
 *
 * PS_ERR_NOT_FOUND    it is not there
 * PS_ERR_BAD_INPUT    it does not fit
 */
PS_MUST_USE enum ps_status psckpt_from_root(const char *path, char *full, size_t size,
                                            struct ps_error *error);

/* How the store of --etcd is to be opened, or that of the data folder `folder`. */
struct published_options psckpt_store_wish(const struct psckpt *tool, const char *folder);

/* Prints `text` with control characters as \xNN, so that a row stays a row. Returns the columns. */
int psckpt_print_text(struct ps_bytes text);

#endif
