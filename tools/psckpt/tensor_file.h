/* SPDX-License-Identifier: Apache-2.0 */
/* Files for other programs: plain safetensors and npy, written so that they are whole or absent.
 *
 * Threads:  one.
 * Blocking: for the disk.
 * Errors:   PS_ERR_EXISTS when the file is there already, PS_ERR_IO, PS_ERR_NO_MEMORY.
 * Memory:   arguments are borrowed.
 */
#ifndef PS_TOOLS_TENSOR_FILE_H
#define PS_TOOLS_TENSOR_FILE_H

#include "checkpoint/checkpoint.h"
#include "tools/psckpt/toolbox.h"

/* Longest file name that tensor_file_name makes, ending and NUL included. */
#define TENSOR_FILE_NAME_BYTES 256

struct tensor_target {
    const struct toolbox *box;
    const char *folder; /* exists */
};

/* One safetensors file FOLDER/NAME with the values of `rows`, sorted as in a checkpoint: wide
 * elements first, then by name. */
PS_MUST_USE enum ps_status tensor_file_safetensors(const struct tensor_target *target,
                                                   const char *name,
                                                   const struct ps_checkpoint_parameter *rows,
                                                   size_t count, struct ps_error *error);

/* One npy file (format 1.0, one dimension) with the values of `row`. */
PS_MUST_USE enum ps_status tensor_file_npy(const struct tensor_target *target, const char *name,
                                           const struct ps_checkpoint_parameter *row,
                                           struct ps_error *error);

/* A file name for a parameter: letters, digits, "_", "-" and inner dots as they are, other bytes as
 * %XX; a name that gets too long is cut and ends in "~" and 16 digits of its SHA-256.
 * PS_ERR_NO_MEMORY for those digits. */
PS_MUST_USE enum ps_status tensor_file_name(struct ps_bytes parameter, const char *ending,
                                            char name[TENSOR_FILE_NAME_BYTES],
                                            struct ps_error *error);

#endif
