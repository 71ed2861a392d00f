/* SPDX-License-Identifier: Apache-2.0 */
/* Which histories the files of a shard's folder are of: all checkpoints and all segments of the
 * journal, of any epoch, by their headers and first records alone.
 *
 * Threads:  pure but for the file system.
 * Blocking: for the disk: one header or a hundred bytes of each file.
 * Errors:   said at the function. What a damaged file, or one that cannot be read, would say is not
 *           known; whether that matters its reader says.
 * Memory:   a survey owns its list until fini.
 */
#ifndef PS_CHECKPOINT_HISTORY_SURVEY_H
#define PS_CHECKPOINT_HISTORY_SURVEY_H

#include "checkpoint/catalog.h"
#include "checkpoint/history_mix.h"

struct ps_history_survey {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct ps_history_witness *files;  /* owned; checkpoints first, then segments */
    struct ps_history_name {
        char text[PS_CHECKPOINT_NAME_BYTES]; /* of the file within the folder */
        char uuid[37];                       /* of a checkpoint; otherwise "" */
    } * names;                               /* owned; of each file */
    size_t count;
    struct ps_history own; /* of the folder; not known where no file says any */
    bool is_told;          /* by the store, or by the file that the store names */
    size_t mixed_count;    /* files that are PS_HISTORY_MIXED */
    size_t void_count;     /* and PS_HISTORY_VOID */
};

/* Reads the folder. `published` is what the store's pointer says; zeroed: there is none, or nobody
 * has asked. Files that have gone since the folder was listed are not in the list.
 *
 * PS_ERR_NO_MEMORY, PS_ERR_IO: the folder cannot be listed
 */
PS_MUST_USE enum ps_status ps_history_survey_init(struct ps_history_survey *survey,
                                                  const struct ps_files *files, const char *folder,
                                                  const struct ps_checkpoint_place *published,
                                                  const struct ps_allocator *memory,
                                                  struct ps_error *error);

/* Accepts a zeroed survey. */
void ps_history_survey_fini(struct ps_history_survey *survey);

/* Where file `i` stands. */
enum ps_history_place ps_history_survey_place(const struct ps_history_survey *survey, size_t i);

/* The same of the checkpoint of that name; one that is not in the list is the folder's own. */
enum ps_history_place ps_history_survey_checkpoint(const struct ps_history_survey *survey,
                                                   const char *name);

#endif
