/* SPDX-License-Identifier: Apache-2.0 */
/* Names of checkpoint files: "<epoch>-<position>-<uuid>.safetensors", both numbers in 16 lower-case
 * hexadecimal digits, so that names sort by age; while being written, with ".tmp" behind. One that
 * adds to another has "-on-<uuid of that one>" behind its own uuid, so that whoever lists a folder
 * sees which files need which.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   none.
 * Memory:   the caller's.
 */
#ifndef PS_CHECKPOINT_CHECKPOINT_NAME_H
#define PS_CHECKPOINT_CHECKPOINT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_CHECKPOINT_SUFFIX ".safetensors"
#define PS_CHECKPOINT_TEMPORARY_SUFFIX ".safetensors.tmp"

/* Behind the name of one that is kept to be written over (checkpoint_spare.h). */
#define PS_CHECKPOINT_SPARE_SUFFIX ".safetensors.spare"

/* Digits of every number in a file name. */
#define PS_CHECKPOINT_NUMBER_DIGITS 16

/* Longest name, temporary suffix and NUL included. */
#define PS_CHECKPOINT_NAME_BYTES 160

/* 1 to 36 letters, digits and dashes, without "-on-": nothing that means anything to a file system
 * or to a name. */
bool ps_checkpoint_uuid_valid(const char *uuid);

/* Writes the name with `suffix`. `uuid` must be valid, and `base` be so or "", of a whole one. */
void ps_checkpoint_name_write(uint64_t epoch, uint64_t position, const char *uuid, const char *base,
                              const char *suffix, char name[PS_CHECKPOINT_NAME_BYTES]);

/* Takes a name apart; `base` becomes "" of a whole one. False, with nothing written, when it is not
 * one with this suffix. */
bool ps_checkpoint_name_read(const char *name, const char *suffix, uint64_t *epoch,
                             uint64_t *position, char uuid[37], char base[37]);

/* Reads exactly 16 lower-case hexadecimal digits from the beginning of `text`. False when they are
 * not there; `*number` is then unchanged. */
bool ps_checkpoint_number_read(const char *text, uint64_t *number);

#endif
