/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of verify share: what has been found so far, and how more is added. Private to
 * psckpt_verify*.c.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   damage is a finding, and no error; what cannot be read is one, too. A failure of a
 *           function ends the command.
 * Memory:   borrowed, but for the document, whose owner is the command.
 */
#ifndef PS_TOOLS_PSCKPT_VERIFY_H
#define PS_TOOLS_PSCKPT_VERIFY_H

#include "checkpoint/journal_note.h"
#include "tools/json_document.h"
#include "tools/psckpt/psckpt_commands.h"

/* Counts over all folders; `whole_count`, `notes` and `end` are of the one that is being looked
 * at. */
struct verifying {
    const struct psckpt *tool;
    bool is_folder; /* files were listed, and not named */
    struct json_document document;
    size_t file_count;
    size_t damaged_count;
    size_t whole_count;            /* checkpoints that are whole by themselves, or may be */
    bool is_mixed;                 /* a folder has files of several histories */
    bool is_store;                 /* the store of the data folder is damaged */
    bool is_salvage;               /* a folder has checkpoints, and no recovery can begin there */
    uint64_t missing_count;        /* pushes that were noted as durable, and are not there */
    uint64_t given_up_count;       /* of them, those that an operator gave up: a server begins */
    struct ps_journal_notes notes; /* of the folder that is looked at */
    struct ps_journal_note end;    /* of its journal */
};

/* The segments of a folder, or one of them; verifying->end becomes the end of the last one. False:
 * they could not be read, which was said, and nothing is known of an end. */
bool psckpt_verify_journal(struct verifying *verifying, const char *path, bool is_folder);

struct shard_folder;

/* Are all files of the folder of one history? Those that are not are findings. */
PS_MUST_USE enum ps_status psckpt_verify_histories(struct verifying *verifying,
                                                   const struct shard_folder *folder,
                                                   struct ps_error *error);

/* Is the store of the data folder, if it has one, whole? If not, that is a finding. */
void psckpt_verify_store(struct verifying *verifying);

/* Does the journal go on where the newest checkpoint ends, and come as far as was noted? After
 * psckpt_verify_journal has read it. */
PS_MUST_USE enum ps_status psckpt_verify_chain(struct verifying *verifying, const char *folder,
                                               struct ps_error *error);

/* A file or folder that cannot be read: a finding, a line, and the exit status. */
void psckpt_verify_unreadable(struct verifying *verifying, const char *path,
                              const struct ps_error *why);

/* A finding without a place in its file; `part` is a word for scripts. Nothing is printed. */
void psckpt_verify_add(struct verifying *verifying, const char *path, const char *part,
                       const char *reason);

#endif
