/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the emulated device that processes hand to each other. What a program is given is an
 * address and no memory: whoever reads or writes there, and is not the emulator, ends with a fault,
 * as with a card's memory. The bytes are a memory file, which the emulator has mapped elsewhere;
 * its name is the process and the descriptor, so that nothing is left behind by whoever is killed.
 *
 * Threads:  any.
 * Blocking: never.
 * Errors:   numbers as CUDA's.
 * Memory:   mappings, until release, or unimport.
 */
#ifndef PS_OPTIMIZER_EMULATOR_EMULATED_SHARE_H
#define PS_OPTIMIZER_EMULATOR_EMULATED_SHARE_H

#include "optimizer/device_sharing.h"
#include "optimizer/emulator/stream_emulator.h"

/* The uuid of every emulated device. */
#define PS_EMULATED_UUID "EMU-0"

/* As in optimizer/device/driver.h; `self` is not looked at. */
int ps_emulated_import(void *self, const struct ps_device_share *share, void **memory);
int ps_emulated_unimport(void *self, void *memory);

/* Where the bytes are of an address that was given out; any other address is its own. */
void *ps_emulated_bytes(const void *address);

/* The addresses in a piece of work become those of bytes. */
void ps_emulated_find(struct ps_stream_work *work);

#endif
