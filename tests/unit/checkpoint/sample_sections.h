/* SPDX-License-Identifier: Apache-2.0 */
/* Records of rounds, clocks and candidates for tests of the sections of checkpoint files.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a difference fails the test.
 * Memory:   constants, and the caller's facts.
 */
#ifndef PS_TESTS_UNIT_CHECKPOINT_SAMPLE_SECTIONS_H
#define PS_TESTS_UNIT_CHECKPOINT_SAMPLE_SECTIONS_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/journal.h"

#define SAMPLE_ROUND_RECORDS 4
#define SAMPLE_CLOCK_RECORDS 2
#define SAMPLE_CANDIDATE_RECORDS 1

/* Puts the records into the facts: contributions in several pieces and of odd sizes, one empty. */
void sample_sections(struct ps_checkpoint_facts *facts);

/* Reads all records of all sections of the file at `path`. Each that comes must be the sample's,
 * in order; with PS_OK all of them have come. */
enum ps_status sample_sections_read(const struct ps_checkpoint_facts *facts,
                                    const struct ps_files *files, const char *path,
                                    const struct ps_allocator *memory, struct ps_error *error);

#endif
