/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of a checkpoint file: records of the journal, one behind the other, in the journal's own
 * form (docs/checkpoint-format.md). Private to checkpoint/.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   none; records that a section does not take abort.
 * Memory:   borrows for the call.
 */
#ifndef PS_CHECKPOINT_SECTION_H
#define PS_CHECKPOINT_SECTION_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/journal_record.h"

/* The heads have the checksums of a life of format 2 without a salt: the section has a checksum of
 * its own, and nothing of a former life can stand in it. */
extern const struct ps_journal_life ps_section_life;

/* The tensor's name, and the member of the metadata that has its checksum. */
const char *ps_section_name(enum ps_checkpoint_section section);
const char *ps_section_checksum_key(enum ps_checkpoint_section section);

/* Whether the name is one of these tensors'. */
bool ps_section_is_name(struct ps_bytes name);

/* Whether records of that type stand in that section. */
bool ps_section_takes(enum ps_checkpoint_section section, enum ps_record_type type);

/* Bytes that all records take, zeros behind them included. */
uint64_t ps_section_bytes(const struct ps_checkpoint_records *records);

/* Sets `*record` to record `i` as it goes into the file and writes its head to `head`; returns the
 * head's size. Its content follows, and zeros (ps_journal_padding). */
size_t ps_section_record(const struct ps_checkpoint_facts *facts,
                         enum ps_checkpoint_section section, size_t i, struct ps_record *record,
                         uint8_t head[PS_JOURNAL_HEAD_BYTES_MAX]);

#endif
