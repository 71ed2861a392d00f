/* SPDX-License-Identifier: Apache-2.0 */
/* How large a header may become, known before there is one.
 *
 * Threads:  pure.
 * Blocking: never.
 * Errors:   PS_ERR_NO_MEMORY.
 * Memory:   nothing is kept.
 */
#ifndef PS_CHECKPOINT_HEADER_BYTES_H
#define PS_CHECKPOINT_HEADER_BYTES_H

#include "checkpoint/checkpoint.h"

/* Most bytes that a header takes besides its parameters: the facts of `job` with the widest
 * numbers, the sessions, and the padding. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status ps_header_facts_bytes(const char *job, const struct ps_allocator *memory,
                                                 uint64_t *bytes, struct ps_error *error);

/* Most bytes that a parameter adds to a header, whatever its version, its step and its place in the
 * file become, and of a table its rows. Only name, dtype, count, config, state_count, is_table,
 * width and ages are looked at; of ages it counts the text that is given, which is to be the widest
 * that the table will ever have. PS_ERR_NO_MEMORY. */
PS_MUST_USE enum ps_status
ps_header_parameter_bytes(const struct ps_checkpoint_parameter *parameter,
                          const struct ps_allocator *memory, uint64_t *bytes,
                          struct ps_error *error);

#endif
