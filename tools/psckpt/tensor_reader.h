/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a plain safetensors file, as other programs write it, into the parameters of a state.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   PS_ERR_CORRUPT for what is not a safetensors file; PS_ERR_UNSUPPORTED for an element
 *           type that is not in tensor_type.h, or a file that is a checkpoint already;
 *           PS_ERR_NOT_FOUND, PS_ERR_IO, PS_ERR_NO_MEMORY. One without elements is read: it may
 *           be a table's (imported_tables.h).
 * Memory:   in the rooms of the state.
 */
#ifndef PS_TOOLS_TENSOR_READER_H
#define PS_TOOLS_TENSOR_READER_H

#include "tools/psckpt/shard_state.h"

/* Fills `state`, initialised and empty, with one parameter per tensor, without configuration and
 * states. Types that servers do not have are widened (tensor_type.h). */
PS_MUST_USE enum ps_status tensor_reader_read(struct shard_state *state, const struct toolbox *box,
                                              const char *path, struct ps_error *error);

#endif
