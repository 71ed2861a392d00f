/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a PS_RECORD_ROUND: whose contributions a round was made of, and which workers are
 * not waited for from there on (docs/journal-format.md). The record's version is the one that the
 * round makes. In a checkpoint nobody counts: such a record only says who is evicted, its version
 * is the parameter's present one.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_CORRUPT for bytes that no writer has made so.
 * Memory:   what is read borrows from the content.
 */
#ifndef PS_CHECKPOINT_JOURNAL_ROUND_H
#define PS_CHECKPOINT_JOURNAL_ROUND_H

#include "base/bounds.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>

/* Bytes of a set of workers: the bit 1 << (rank % 8) of byte rank / 8; bits behind the last worker
 * are 0. */
#define PS_ROUND_SET_BYTES(workers) (((size_t)(workers) + 7) / 8)

#define PS_ROUND_RECORD_BYTES_MAX (4 + 2 * PS_ROUND_SET_BYTES(PS_ROUND_WORKERS_MAX))

struct ps_round_record {
    uint32_t workers;       /* from 1 to PS_ROUND_WORKERS_MAX */
    const uint8_t *counted; /* a set of PS_ROUND_SET_BYTES(workers) */
    const uint8_t *evicted; /* another; nobody is in both */
};

/* Writes the content to `to` and returns its size. Sets beyond those rules abort. */
size_t ps_round_record_write(const struct ps_round_record *round,
                             uint8_t to[PS_ROUND_RECORD_BYTES_MAX]);

PS_MUST_USE enum ps_status ps_round_record_read(struct ps_bytes content,
                                                struct ps_round_record *round,
                                                struct ps_error *error);

/* Whether the worker of that rank is in a set. */
bool ps_round_set_has(const uint8_t *set, uint32_t rank);

/* How many are in a set of so many workers. */
uint32_t ps_round_set_count(const uint8_t *set, uint32_t workers);

#endif
