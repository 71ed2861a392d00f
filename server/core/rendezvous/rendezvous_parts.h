/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the rendezvous share. Private to them.
 *
 * Threads:  with the lock of the rendezvous held, where it is an argument.
 * Blocking: never.
 * Errors:   each function lists its own.
 * Memory:   steps are the rendezvous's.
 */
#ifndef PS_SERVER_CORE_RENDEZVOUS_PARTS_H
#define PS_SERVER_CORE_RENDEZVOUS_PARTS_H

#include "server/core/rendezvous/rendezvous.h"

/* Finds the step that is meant, or makes it for whoever knows no epoch of it, and notes that it was
 * used.
 *
 * PS_ERR_ABORTED    the step is not the one that the caller knew
 * PS_ERR_BUSY       there are as many steps as there may be
 * PS_ERR_NO_MEMORY
 */
PS_MUST_USE enum ps_status ps_rendezvous_find_step(struct ps_rendezvous *rendezvous,
                                                   const struct ps_rendezvous_of *of,
                                                   struct ps_step **step, struct ps_error *error);

/* A token or an id, made different from those of other steps; 0 stays 0. */
uint64_t ps_rendezvous_number_of(uint64_t step, uint64_t number);

/* PS_ERR_BAD_INPUT: empty, or too long. */
PS_MUST_USE enum ps_status ps_rendezvous_check_key(struct ps_bytes key, struct ps_error *error);

#endif
