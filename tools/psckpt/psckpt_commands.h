/* What psckpt's commands share: the options, and one function per command.
 *
 * Threads:  one.
 * Blocking: for the disk; for etcd with --etcd, until --timeout.
 * Errors:   a command returns the exit status of the program, after saying why on standard error.
 * Memory:   options point into argv and the environment.
 */
#ifndef PS_TOOLS_PSCKPT_COMMANDS_H
#define PS_TOOLS_PSCKPT_COMMANDS_H

#include "base/alloc.h"
#include "base/file.h"
#include "base/status.h"
#include "tools/psckpt/progress.h"

struct psckpt_options {
    const char *etcd;
    const char *etcd_user;
    const char *etcd_password;
    uint64_t timeout_ms;
    const char *output;
    const char *out;
    const char *to;
    const char *shard;
    const char *format;
    const char *optimizer;
    const char *job;
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
    const struct ps_files *files;
    const struct ps_allocator *memory;
    struct progress *progress;
};

int psckpt_list(const struct psckpt *tool);
int psckpt_verify(const struct psckpt *tool);
int psckpt_show(const struct psckpt *tool);
int psckpt_diff(const struct psckpt *tool); /* 1: they differ */
int psckpt_digest(const struct psckpt *tool);
int psckpt_replay(const struct psckpt *tool);
int psckpt_repair(const struct psckpt *tool);
int psckpt_salvage(const struct psckpt *tool);
int psckpt_publish(const struct psckpt *tool);
int psckpt_export(const struct psckpt *tool);
int psckpt_import(const struct psckpt *tool);
int psckpt_reshard(const struct psckpt *tool);
int psckpt_prune(const struct psckpt *tool);

/* The exit status that a failure gives: EX_DATAERR for damage, EX_NOINPUT for what cannot be read,
 * EX_USAGE, EX_UNAVAILABLE (etcd), EX_OSERR (memory). */
/* Of verify: everything is whole, and acknowledged updates are missing all the same. */
#define PSCKPT_EXIT_MISSING 67

int psckpt_exit_code(enum ps_status status);

/* Says on standard error why a command failed, and returns the exit status. */
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

/* Is `path` a folder? What is not there is none. */
bool psckpt_is_folder(const struct psckpt *tool, const char *path);

/* Prints `text` with control characters as \xNN, so that a row stays a row. Returns the columns. */
int psckpt_print_text(struct ps_bytes text);

#endif
