/* SPDX-License-Identifier: Apache-2.0 */
/* Reads every segment of a journal, whether anybody would replay it or not, and says what is in it
 * and where it is damaged.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   damage is a finding; PS_ERR_IO, PS_ERR_NO_MEMORY are failures.
 * Memory:   owned until journal_survey_fini.
 */
#ifndef PS_TOOLS_JOURNAL_SURVEY_H
#define PS_TOOLS_JOURNAL_SURVEY_H

#include "checkpoint/history.h"
#include "checkpoint/journal_segments.h"
#include "tools/psckpt/toolbox.h"

enum segment_finding {
    SEGMENT_WHOLE,
    SEGMENT_TORN,    /* a torn end, which no reader takes: what a crash leaves */
    SEGMENT_FENCED,  /* bad bytes behind the place where a higher epoch began: nobody reads there */
    SEGMENT_DAMAGED, /* at `offset` */
    SEGMENT_UNKNOWN  /* a record of a later version at `offset` */
};

struct segment_survey {
    char name[PS_JOURNAL_NAME_BYTES];
    uint64_t epoch;
    uint64_t first; /* by its name */
    uint64_t last;  /* of the records that are good; first - 1: none */
    uint64_t bytes;
    struct ps_history history; /* of its first record; not known: it says none, or is damaged */
    enum segment_finding finding;
    uint64_t offset;   /* where the good records end */
    uint64_t position; /* that should stand there */
    char why[128];
};

struct journal_survey {
    const struct ps_allocator *memory; /* borrowed; outlives this */
    struct segment_survey *rows;       /* owned; by epoch, then first position */
    size_t count;
};

PS_MUST_USE enum ps_status journal_survey_init(struct journal_survey *survey,
                                               const struct toolbox *box, const char *folder,
                                               struct ps_error *error);

/* The same for one segment file, as if it were the last of the only epoch. */
PS_MUST_USE enum ps_status journal_survey_file(struct journal_survey *survey,
                                               const struct toolbox *box, const char *path,
                                               struct ps_error *error);

/* Accepts a zeroed survey. */
void journal_survey_fini(struct journal_survey *survey);

/* "whole", "torn", "fenced", "damaged", "unknown". Static. */
const char *segment_finding_word(enum segment_finding finding);

#endif
