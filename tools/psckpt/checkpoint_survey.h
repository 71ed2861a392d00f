/* SPDX-License-Identifier: Apache-2.0 */
/* Reads one checkpoint file from front to back and says what is in it and which bytes are damaged.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   damage is a finding, not an error; see checkpoint_survey_init.
 * Memory:   a survey owns its header until checkpoint_survey_fini.
 */
#ifndef PS_TOOLS_CHECKPOINT_SURVEY_H
#define PS_TOOLS_CHECKPOINT_SURVEY_H

#include "checkpoint/header_format.h"
#include "checkpoint/header_reader.h"
#include "tools/psckpt/toolbox.h"

/* Damaged places that a survey lists; it counts all. */
#define CHECKPOINT_DAMAGES_MAX 64

/* Where bytes are not what they were. */
struct checkpoint_damage {
    char tensor[PS_ARRAY_NAME_BYTES]; /* "" for the header */
    uint64_t begin;                   /* of the damaged part in the file */
    uint64_t end;
};

struct checkpoint_survey {
    uint64_t bytes;
    bool has_header; /* its checksum is right, `header` is set: perhaps of more than the file has */
    struct ps_header header;
    size_t damage_count;
    struct checkpoint_damage damages[CHECKPOINT_DAMAGES_MAX];
    struct ps_error why; /* why the header is not whole, or not of this file */
};

/* Surveys `path`: the header only, or with `arrays` every array.
 *
 * PS_OK               `*survey` is filled; damage_count says whether the file is whole
 * PS_ERR_NOT_FOUND, PS_ERR_IO, PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status checkpoint_survey_init(struct checkpoint_survey *survey,
                                                  const struct toolbox *box, const char *path,
                                                  bool arrays, struct ps_error *error);

/* Accepts a zeroed survey. */
void checkpoint_survey_fini(struct checkpoint_survey *survey);

#endif
