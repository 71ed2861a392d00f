/* SPDX-License-Identifier: Apache-2.0 */
/* Journals whose every byte follows from a position and a seed, written and compared.
 *
 * Threads:  one.
 * Blocking: never.
 * Errors:   a difference fails the test.
 * Memory:   said at each function.
 */
#ifndef PS_TESTS_UNIT_CHECKPOINT_SAMPLE_JOURNAL_H
#define PS_TESTS_UNIT_CHECKPOINT_SAMPLE_JOURNAL_H

#include "checkpoint/journal.h"
#include "tests/support/checkpoint/journal_maker.h"

#define SAMPLE_FOLDER "journal"

/* What the record of a position looks like. */
struct sample_shape {
    uint64_t epoch;
    size_t content_bytes_max; /* every content is shorter */
    uint32_t format;          /* 1 or 2: journal_maker writes; 0: the server's own writer */
    bool anonymous;           /* no record has a client id; otherwise every third has none */
};

/* Opens a writer of epoch `epoch` that goes on from `position`; the test fails when that fails. */
struct ps_journal_writer *sample_writer(const struct ps_files *files, uint64_t epoch,
                                        uint64_t position, uint64_t segment_bytes);

/* The same; the writer says that it goes on from the epoch `previous`, not from `epoch` - 1. */
struct ps_journal_writer *sample_writer_from(const struct ps_files *files, uint64_t previous,
                                             uint64_t epoch, uint64_t position,
                                             uint64_t segment_bytes);

/* Writes the records first..last, `batch` at a time. PS_OK, or what a write returned. */
enum ps_status sample_append(struct ps_journal_writer *writer, const struct sample_shape *shape,
                             uint64_t first, uint64_t last, size_t batch);

/* The same in two parts for journal_maker, which writes in shape->format and goes on from
 * `position` of the epoch `previous`. Failures fail the test. */
void sample_maker(struct journal_maker *maker, const struct ps_files *files,
                  const struct sample_shape *shape, uint64_t previous, uint64_t position,
                  uint64_t segment_bytes);
void sample_make(struct journal_maker *maker, const struct sample_shape *shape, uint64_t first,
                 uint64_t last, size_t batch);

/* All of it, begun and ended, in the format of `shape`. */
void sample_journal(const struct ps_files *files, const struct sample_shape *shape, uint64_t first,
                    uint64_t last, size_t batch, uint64_t segment_bytes);

/* The row is exactly that record. */
void sample_assert_row(const struct ps_journal_row *row, const struct sample_shape *shape,
                       uint64_t position);

/* What reading from `position` on gave. Every record was compared with `shape`, whose epoch may be
 * 0: then the epoch is not looked at. */
struct sample_result {
    enum ps_status status; /* how it ended: PS_ERR_NOT_FOUND, or the failure; of opening too */
    uint64_t last;         /* position of the last record; `position` when there was none */
    uint64_t epoch;        /* of the reader, at the end */
    uint64_t durable;      /* by what the records say */
    uint64_t cut;
    struct ps_journal_damage damage;
    struct ps_error error;
};
struct sample_result sample_read_on(const struct ps_files *files, const struct sample_shape *shape,
                                    uint64_t position, const struct ps_allocator *memory);

/* Where the last record of a sample's segment ends: behind it are only the zeros of its flush. */
size_t sample_end(struct ps_bytes segment);

/* "journal/<epoch>-<first>.journal", in a buffer of the caller's of 128 bytes. */
const char *sample_segment(uint64_t epoch, uint64_t first, char path[128]);

#endif
